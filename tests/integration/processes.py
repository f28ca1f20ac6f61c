# SPDX-License-Identifier: Apache-2.0
"""The processes of a run."""

import glob

STATE, PARENT, SESSION, START = 0, 1, 3, 19


def table():
    """Process ID, and what follows the name in /proc/PID/stat, of all that have not ended."""
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path, encoding="utf-8") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[STATE] != "Z":
            yield int(path.split("/")[2]), fields


def processes(run):
    """All of them, by their session."""
    return [pid for pid, fields in table() if int(fields[SESSION]) == run.pid]


def workers(run):
    """Those of connections: all children but the launcher, which is the oldest. The numbers of processes begin again at some time."""
    return [pid for _, pid in sorted((int(fields[START]), pid) for pid, fields in table() if int(fields[PARENT]) == run.pid)][1:]


def nobody_left(world, run):
    assert processes(run) == []
