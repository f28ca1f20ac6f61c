# SPDX-License-Identifier: Apache-2.0
"""Waiting for a condition, never for a time."""

import time


def until(condition, what, timeout=30.0, pause=0.05):
    """Returns the first true value of condition(); fails with `what` at the time limit."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout:.0f} s: {what}")
        time.sleep(pause)
