# SPDX-License-Identifier: Apache-2.0
"""Secrets in the memory of processes, as root sees it."""

import os
import pathlib
import re

from .processes import PARENT, table


def descendants(root):
    """A child may have a smaller number than its parent."""
    parents, found = {pid: int(fields[PARENT]) for pid, fields in table()}, {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return sorted(found)


def processes_with(secrets, root=None):
    """The descendants of this process, or of `root`, whose memory holds one of these."""
    found, root = [], root or os.getpid()
    for pid in descendants(root):
        try:
            if pid == root:
                continue
            status = pathlib.Path(f"/proc/{pid}/status").read_text()
            maps = pathlib.Path(f"/proc/{pid}/maps").read_text()
            with open(f"/proc/{pid}/mem", "rb", 0) as memory:
                for begin, end in re.findall(r"^([0-9a-f]+)-([0-9a-f]+) rw", maps, re.M):
                    size = int(end, 16) - int(begin, 16)
                    if size > 256 << 20:    # of a sanitizer, without data of the program
                        continue
                    memory.seek(int(begin, 16))
                    data = memory.read(size)
                    if any(secret in data for secret in secrets):
                        found.append((pid, re.search(r"^Name:\t(.*)", status, re.M)[1], begin))
        except (OSError, ValueError):
            pass        # it has ended, or the kernel does not show this memory
    return found
