# SPDX-License-Identifier: Apache-2.0
"""What install passes to its child."""

import struct


def make_recorder(folder, seen=None):
    """A program for install to run in the place of `join`, which keeps what is passed to it. `seen`: the folder, as the program sees it."""
    program = folder / "recorder"
    program.write_text(f"#!/bin/sh\ncat <&4 >{seen or folder}/passed\nexit 1\n")
    program.chmod(0o755)
    return (seen or folder) / program.name


def with_passed(path):
    """Words that run the command that follows them with what is in this file, as install runs `join`."""
    return ["/bin/sh", "-c", f'export NODE_BOOTSTRAP_SOURCES=1; exec "$@" 4<{path}', "sh"]


class Passed:
    """What install passes to its child: os/sources.c."""

    HEAD = struct.Struct("=IIIIi")
    KINDS = FILE, CREDENTIAL, PLAN = range(3)
    STATES = ("usable", "not-yet-valid", "absent", "expired", "copied", "other-node", "other-cluster", "unreadable", "without-kubeconfig", "not-rotatable")
    BUILD = 64      # bytes: of which build the programs are

    def __init__(self, data):
        self.entries = {}       # (kind, name): (mode, result, data)
        self.build, at = data[:self.BUILD], self.BUILD
        while at < len(data):
            kind, mode, name_size, size, result = self.HEAD.unpack_from(data, at)
            at += self.HEAD.size
            name = data[at:at + name_size - 1].decode()
            self.entries[kind, name] = (mode, result, data[at + name_size:at + name_size + size])
            at += name_size + size

    @property
    def files(self):
        """path -> text"""
        return {name: data.decode() for (kind, name), (_, result, data) in self.entries.items() if kind == self.FILE and result == 0}

    @property
    def verdict(self):
        """What install has found, and until when the certificate is valid: in struct nb_plan, at the beginning of struct nb_plan."""
        plan = self.entries[self.PLAN, "plan"][2]
        state, valid_until = struct.unpack_from("=I32s", plan)
        return self.STATES[state], valid_until.rstrip(b"\0").decode()

    def put(self, path, data):
        self.entries[self.FILE, str(path)] = (0o600, 0, data if isinstance(data, bytes) else data.encode())

    def __bytes__(self):
        return self.build + b"".join(self.HEAD.pack(kind, mode, len(name.encode()) + 1, len(data), result) + name.encode() + b"\0" + data
                        for (kind, name), (mode, result, data) in self.entries.items())
