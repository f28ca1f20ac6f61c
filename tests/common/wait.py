# SPDX-License-Identifier: Apache-2.0
"""Waiting for a condition, never for a time."""

import time

# Seconds, for events that normally follow at once; no test measures speed. More than TimeoutStopSec= of Debian's systemd, 90 s, after which
# a kubelet that does not stop is killed, so that the requested stop or restart ends.
PATIENCE = 150


def until(condition, what, timeout=PATIENCE, pause=0.05):
    """Returns the first true value of condition(); fails with `what`, or with what it returns, at the time limit.

    The pause between two looks grows to four times itself: a look at a machine costs more CPU time than what it waits for.
    An exception of the condition is a failure at once: otherwise, a misspelt key would be found only at the time limit.
    The last look is after the time limit, since the machine may have stalled since the previous look."""
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
