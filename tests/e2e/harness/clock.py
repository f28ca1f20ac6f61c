# SPDX-License-Identifier: Apache-2.0
"""A clock that is wrong for the unit alone: all machines of a session share the real one."""

from .node import UNIT

CLOCK = "/etc/e2e-clock"
FAKE_CLOCK = f"""
[Service]
Environment=LD_PRELOAD=libfaketime.so.1 FAKETIME_TIMESTAMP_FILE={CLOCK} FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1
"""

# The process of a connection cannot read the file.
FIXED_CLOCK = """
[Service]
Environment=LD_PRELOAD=libfaketime.so.1 FAKETIME={} FAKETIME_DONT_FAKE_MONOTONIC=1
"""


def fake_clock(node, offset, is_fixed=False):
    library = next(node.path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    path = "/" + str(library.relative_to(node.root))
    text = FIXED_CLOCK.format(offset) if is_fixed else FAKE_CLOCK
    node.drop_in(UNIT, text.replace("libfaketime.so.1", path), "60-clock.conf")
    set_clock(node, offset)


def set_clock(node, offset):
    node.write(CLOCK, offset + "\n")
