# SPDX-License-Identifier: Apache-2.0
"""A clock that is wrong for the unit alone: all machines of a session share the real one."""

from .node import UNIT

# The process of a connection may read only a few files, those of the resolver. In this one the C library skips what it does not know.
CLOCK = "/etc/gai.conf"
FAKE_CLOCK = f"""
[Service]
Environment=LD_PRELOAD=libfaketime.so.1 FAKETIME_TIMESTAMP_FILE={CLOCK} FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1
"""


def fake_clock(node, offset):
    library = next(node.path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    path = "/" + str(library.relative_to(node.root))
    node.drop_in(UNIT, FAKE_CLOCK.replace("libfaketime.so.1", path), "60-clock.conf")
    set_clock(node, offset)


def set_clock(node, offset):
    node.write(CLOCK, offset + "\n")
