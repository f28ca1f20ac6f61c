# SPDX-License-Identifier: Apache-2.0
"""What a machine's programs write to the journal by its native protocol; a journal's files; and last.json, in which the service reports its state."""

import json
import socket
import struct
import subprocess
import threading
from datetime import datetime, timezone

from common import sockets
from common.failures import FAILURES, MET
from common.machine import Machine, Run
from common.wait import PATIENCE

SECOND = 1_000_000
MACHINE_ID = "c" * 32
BEGIN = 1_767_323_045 * SECOND      # 2026-01-02T03:04:05Z
UNIT = "node-bootstrap.service"
CODES = {row["message-id"]: code for code, row in FAILURES.items()}
REMOTE = "/lib/systemd/systemd-journal-remote"
ENTRY_MAX = 1 << 16
SO_TIMESTAMP = 29                   # of Linux; the socket module has no name for it

# systemd.exec(5): by $JOURNAL_STREAM a program knows that its standard error is the journal.
INSIDE = """
mount --bind "$0/hosts" /etc/hosts
mount --rbind "$0/run-folder" /run
export JOURNAL_STREAM="$(stat -L -c %d:%i /proc/self/fd/2)"
exec "$@"
"""

class Journal:
    """A journal's files, made of entries in journalctl's export format."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()
        self.text = ""

    def add(self, when, run="1", unit=UNIT, **fields):
        """`when` in microseconds since 1970."""
        named = {"__REALTIME_TIMESTAMP": when, "__MONOTONIC_TIMESTAMP": when - BEGIN + SECOND, "_BOOT_ID": "b" * 32, "_MACHINE_ID": MACHINE_ID,
                 "_SYSTEMD_UNIT": unit, "_SYSTEMD_INVOCATION_ID": run * 32, "SYSLOG_IDENTIFIER": unit.removesuffix(".service"), **fields}
        self.text += "".join(f"{key}={value}\n" for key, value in named.items()) + "\n"
        return self

    def write(self):
        path = self.folder / MACHINE_ID / "system.journal"
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True)                            # or it would be added to what is there
        if self.text:
            subprocess.run([REMOTE, "--output", path, "-"], input=self.text, text=True, check=True, capture_output=True)


def last(state, code=None, at=0, **more):
    """last.json; `at` in seconds after BEGIN."""
    since = datetime.fromtimestamp(BEGIN / SECOND + at, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    return json.dumps({"version": 1, "state": state, "since": since, **({"code": code, "detail": f"it is {code}"} if code else {}), **more})


class Socket:
    """Receives journal entries as journald would, and keeps them: (microseconds since 1970, fields)."""

    def __init__(self, folder):
        self.entries = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        sockets.bind(self._socket, folder / "socket")
        self._socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMP, 1)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        while True:
            data, stamps, *_ = self._socket.recvmsg(ENTRY_MAX, 64)
            if not stamps:                                      # shut down
                return
            seconds, usec = struct.unpack("qq", stamps[0][2])
            if data:                                            # an empty one asks whether all was read
                entry = dict(line.split("=", 1) for line in data.decode().splitlines())
                self.entries.append((seconds * SECOND + usec, entry))
                MET.update([CODES[entry["MESSAGE_ID"]]] if "MESSAGE_ID" in entry else [])

    def read(self):
        """Everything that was sent so far; closes the socket."""
        self._socket.shutdown(socket.SHUT_RD)
        self._thread.join(PATIENCE)
        return self.entries

    def close(self):
        self.read()
        self._socket.close()


class LoggingMachine(Machine):
    """Its programs have a journal as standard error, and their own /etc/hosts."""

    def __init__(self, path):
        super().__init__(path)
        folder = path / "run-folder/systemd/journal"
        folder.mkdir(parents=True)
        self.journal = Socket(folder)
        (path / "hosts").write_text("127.0.0.1 localhost\n")

    def new_run(self, argv, environment, **options):
        return Run(["unshare", "--user", "--map-root-user", "--mount", "sh", "-ec", INSIDE, self.path, *argv], environment, **options)

    def end(self):
        super().end()
        self.journal.close()
