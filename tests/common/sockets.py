# SPDX-License-Identifier: Apache-2.0
"""Unix sockets below any directory."""

import os


def bind(sock, path):
    """The path itself may be longer than an address, of 108 bytes."""
    folder = os.open(path.parent, os.O_PATH)
    try:
        sock.bind(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)
