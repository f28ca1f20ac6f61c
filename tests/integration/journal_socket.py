# SPDX-License-Identifier: Apache-2.0
"""The journal's socket, as the programs of a machine see it: what they send there arrives here, field by field."""

import os
import socket
import threading
import time

from machine import FAILURES, PATIENCE, Run

# systemd sets $JOURNAL_STREAM where it has connected standard error to the journal.
CONNECTED = 'JOURNAL_STREAM=$(stat --dereference --format=%d:%i /proc/self/fd/2) exec "$@"'


def parse(data):
    """The fields of an entry in the journal's native protocol."""
    fields = {}
    while data:
        line, _, data = data.partition(b"\n")
        name, separator, value = line.partition(b"=")
        if not separator:
            length = int.from_bytes(data[:8], "little")
            value, data = data[8:8 + length], data[9 + length:]
        fields[name.decode()] = value.decode()
    return fields


class Journal:
    def __init__(self, namespace):
        self._namespace = namespace
        self._all = []
        path = f"{namespace.path}/root/run/systemd/journal"
        os.makedirs(path)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(path + "/socket")
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        while True:
            try:
                data = self._socket.recv(1 << 20)
            except OSError:
                return
            if data:            # a program waits until an empty one was read
                self._all.append(parse(data))

    def connect(self, machine):
        """From now on what runs on this machine logs to the journal."""
        connected = ["/bin/sh", "-c", CONNECTED, "sh"]
        if hasattr(machine, "namespace"):
            machine.wrap = connected
        else:
            machine.new_run = lambda argv, environment, **options: Run([*self._namespace.enter, *connected, *argv], environment, **options)

    def entries(self, code):
        """Those with the MESSAGE_ID of a row of failures.def, as soon as there is one."""
        end = time.monotonic() + PATIENCE
        while not (found := [entry for entry in self._all if entry.get("MESSAGE_ID") == FAILURES[code]["message-id"]]):
            assert time.monotonic() < end, f"nothing was said of {code}: {self._all}"
            time.sleep(0.01)
        return found

    def texts(self):
        return [entry["MESSAGE"] for entry in self._all]

    def close(self):
        self._socket.close()
