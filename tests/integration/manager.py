# SPDX-License-Identifier: Apache-2.0
"""The manager of systemd as far as its private socket shows it: properties of units, and calls that it records."""

import re
import socket
import struct
import threading

from common import sockets

SIGNATURES = {**dict.fromkeys(("After", "BindsTo", "DropInPaths", "Environment", "ReadOnlyPaths", "ReadWritePaths", "RequiredBy", "Requires", "WantedBy"), "as"),
              **dict.fromkeys(("LoadCredential", "LoadCredentialEncrypted"), "a(ss)"), "ImportCredential": "as", "NeedDaemonReload": "b", "EnvironmentFiles": "a(sb)", "ExecStart": "a(sasbttttuii)",
              "ExecMainCode": "i", "ExecMainStatus": "i", "Job": "(uo)", "PrivateUsers": "b", "ConditionResult": "b", "InvocationID": "ay",
              "NRestarts": "u", "MainPID": "u", **dict.fromkeys(("ActiveEnterTimestampMonotonic", "ActiveExitTimestampMonotonic", "ConditionTimestamp", "InactiveEnterTimestampMonotonic",
                                                    "InactiveExitTimestamp", "StateChangeTimestampMonotonic"), "t")}
NUMBERS = {"y": "B", "b": "I", "i": "i", "u": "I", "t": "Q"}
REPLY, ERROR = 2, 3                                         # message types
PATH, MEMBER, ERROR_NAME, REPLY_SERIAL, SIGNATURE = 1, 3, 4, 5, 8     # header fields


def split(signature):
    """The first complete type, and what follows."""
    if signature[0] == "a":
        first, rest = split(signature[1:])
        return "a" + first, rest
    if signature[0] in "({":
        depth = 0
        for i, sign in enumerate(signature):
            depth += (sign in "({") - (sign in ")}")
            if depth == 0:
                return signature[:i + 1], signature[i + 1:]
    return signature[0], signature[1:]


class Writer:
    def __init__(self):
        self.data = bytearray()

    def align(self, size):
        self.data += bytes(-len(self.data) % size)

    def number(self, code, value):
        self.align(struct.calcsize(code))
        self.data += struct.pack("<" + code, value)

    def put(self, signature, *values):
        """The D-Bus specification, "Marshaling". A variant is (signature, value)."""
        for value in values:
            kind, signature = split(signature)
            if kind in NUMBERS:
                self.number(NUMBERS[kind], value)
            elif kind in "sog":
                self.number("B" if kind == "g" else "I", len(value.encode()))
                self.data += value.encode() + b"\0"
            elif kind == "v":
                self.put("g", value[0])
                self.put(value[0], value[1])
            elif kind[0] == "a":
                self.number("I", 0)
                at = len(self.data)
                self.align(8 if kind[1] in "({t" else 4)
                begin = len(self.data)
                for entry in value:
                    self.put(kind[1:], entry)
                self.data[at - 4:at] = struct.pack("<I", len(self.data) - begin)
            else:
                self.align(8)
                self.put(kind[1:-1], *value)
        return self


GATE = "node-bootstrap-gate.service"


class Manager:
    """`jobs[path]` has what a job waits for: (id, unit, type, state, job, path of the unit). `units[name]` has the properties of a unit, or a list of them, one for each question; the last ones stay; or is a function that
    returns them. A unit that is missing is an error, but for kubelet's gate, which is enabled.

    `calls` has (method, text of its arguments). `on_start` is called with the name of a unit that is started, `on_load` with the credential of one that is in no file.
    """

    def __init__(self, folder, units=None):
        self.units, self.calls = {GATE: {"LoadState": "loaded", "UnitFileState": "enabled"}, **(units or {})}, []
        self.jobs, self.on_start, self.on_load = {}, None, None
        (folder / "system").mkdir(parents=True)             # sd_booted(3)
        self._socket = socket.socket(socket.AF_UNIX)
        sockets.bind(self._socket, folder / "private")
        self._socket.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self):
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()

    def _serve(self):
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as stream:
                try:
                    if self._greet(connection, stream):
                        while self._answer(connection, stream):
                            pass
                except OSError:
                    pass

    @staticmethod
    def _greet(connection, stream):
        """SASL. The user is who the kernel says it is."""
        for line in stream:
            word = line.lstrip(b"\0").strip()
            if word == b"BEGIN":
                return True
            answers = {b"AUTH EXTERNAL": b"DATA", b"NEGOTIATE_UNIX_FD": b"AGREE_UNIX_FD"}
            connection.sendall(answers.get(word, b"OK " + b"0" * 32) + b"\r\n")
        return False

    def _answer(self, connection, stream):
        head = stream.read(16)
        if len(head) < 16:
            return False
        body_len, serial, fields_len = struct.unpack("<4xIII", head)
        fields, body = stream.read(fields_len + -fields_len % 8), stream.read(body_len)
        found = {match[1][0]: match[2].decode() for match in re.finditer(rb"([\x01\x03])\x01[os]\0....([^\0]+)\0", fields, re.DOTALL)}
        member = found[MEMBER]
        if member == "GetBefore":
            reply = (REPLY, "a(usssoo)", (self.jobs.get(found[PATH], []),))
        elif member != "GetAll":
            self.calls.append((member, " ".join(word.decode() for word in re.findall(rb"[\w.@-]{3,}", body))))
            reply = (REPLY, "", ())
            if member == "StartUnit" and self.on_start:
                self.on_start(self.calls[-1][1].split()[0])
            if member == "StartTransientUnit" and self.on_load:
                self.on_load(re.search(rb"a\(ss\)\0+.{8,16}?([\w.-]+)\0", body, re.DOTALL)[1].decode())
        else:
            name = re.sub("_([0-9a-f]{2})", lambda m: chr(int(m[1], 16)), found[PATH].rpartition("/")[2])
            unit = self.units.get(name)
            if isinstance(unit, list):
                unit = unit.pop(0) if len(unit) > 1 else unit[0]
            elif callable(unit):
                unit = unit()
            reply = (ERROR, "s", (f"Unit {name} is unknown to the test.",)) if unit is None else (
                REPLY, "a{sv}", ([(key, (SIGNATURES.get(key, "s"), value)) for key, value in unit.items()],))
        connection.sendall(message(serial, *reply))
        return True


def message(serial, kind, signature, values):
    body = Writer().put(signature, *values).data
    fields = [(REPLY_SERIAL, ("u", serial)), (SIGNATURE, ("g", signature))]
    if kind == ERROR:
        fields.append((ERROR_NAME, ("s", "org.freedesktop.systemd1.NoSuchUnit")))
    head = Writer().put("yyyyuu", ord("l"), kind, 1, 1, len(body), serial).put("a(yv)", fields)
    head.align(8)
    return bytes(head.data + body)
