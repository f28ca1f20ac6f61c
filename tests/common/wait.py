# SPDX-License-Identifier: Apache-2.0
"""Waiting for a condition, never for a time."""

import time

# Seconds, for what takes no time where all is well; no test measures speed. More than TimeoutStopSec= of Debian's systemd, 90 s: a kubelet that does not stop is killed
# then, and what was asked for goes on.
PATIENCE = 150


def until(condition, what, timeout=PATIENCE, pause=0.05):
    """Returns the first true value of condition(); fails with `what`, or with what it returns, at the time limit.

    The pause between two looks grows to four times itself: a look at a machine costs more CPU time than what it waits for.
    An exception of the condition is a failure at once: as "not yet", a misspelt key would take the whole time limit to be found.
    The last look is after the time limit, since the machine may have stalled since the look before."""
    deadline, longest = time.monotonic() + timeout, 4 * pause
    while True:
        is_late = time.monotonic() > deadline
        value = condition()
        if value:
            return value
        if is_late:
            raise AssertionError(f"not within {timeout:.0f} s: {what() if callable(what) else what}")
        time.sleep(pause)
        pause = min(1.2 * pause, longest)
