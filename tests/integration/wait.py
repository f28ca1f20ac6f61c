# SPDX-License-Identifier: Apache-2.0
"""Waits for a condition without an event that could be waited for."""

import time

from common.machine import PATIENCE


def wait_until(condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)
