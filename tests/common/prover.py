# SPDX-License-Identifier: Apache-2.0
"""The prover of a machine: node-bootstrap-prover.socket and its service, and a client that speaks to the service as install and `join` do."""

import os
import pathlib
import socket
import struct
import subprocess
import tempfile
import threading

from .machine import KEPT, NODE, TOKEN_ID, find_program
from .wait import PATIENCE

BUILD = 64
BEGIN = struct.Struct(f"{BUILD}s32s254s7s")             # struct nb_prover_begin
FAILURE = "iiqI????512s"                                # struct nb_failure
ANSWER = struct.Struct(f"{BUILD}s{FAILURE}4096s")      # struct nb_prover_answer
REQUEST_MAX = 4096
MESSAGES_MAX, PROOFS_MAX, CONNECTIONS_MAX = 64, 16, 5


def text_of(field):
    return field.split(b"\0", 1)[0].decode()


class Answer:
    def __init__(self, data):
        self.build, self.code, *_, detail, proof = ANSWER.unpack(data)
        self.detail, self.proof = text_of(detail), text_of(proof)


class Connection:
    """A process of the service, and the other end of its standard input."""

    def __init__(self, credentials, end=None, program=None):
        self.end, theirs = (None, end) if end else socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if self.end:
            self.end.settimeout(PATIENCE)
        # At its end, LeakSanitizer reads files that the prover forbids itself.
        self.process = subprocess.Popen([program or find_program("node-bootstrap"), "prover"], stdin=theirs, stderr=subprocess.PIPE, cwd="/",
                                        env={**KEPT, "PATH": "/usr/bin", "CREDENTIALS_DIRECTORY": str(credentials), "ASAN_OPTIONS": "detect_leaks=0"})
        theirs.close()
        self.lines = []
        self._reader = threading.Thread(target=lambda: self.lines.extend(line.decode().rstrip("\n") for line in self.process.stderr), daemon=True)
        self._reader.start()

    def begin(self, build, key="credential", node=NODE, token_id=TOKEN_ID):
        self.end.send(BEGIN.pack(build, key.encode(), node.encode(), token_id.encode()))
        return self

    def ask(self, request):
        """The answer; None if the service has ended."""
        try:
            self.end.send(request)
            data = self.end.recv(ANSWER.size + 1)
        except (BrokenPipeError, ConnectionResetError):
            return None
        return Answer(data) if data else None

    def wait(self):
        status = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        self.process.stderr.close()
        return status

    def close(self):
        if self.end:
            self.end.close()
        self.wait()


class Prover:
    """The socket in the root of a machine, and the folder of its credentials. `on_connection` gets each new process."""

    def __init__(self, root, credentials, key=None, program=None):
        self.credentials, self.program = credentials, program
        self.credentials.mkdir(mode=0o700)
        if key is not None:
            path = self.credentials / "node-bootstrap.attestation-key"
            path.write_bytes(key if isinstance(key, bytes) else key.encode())
            path.chmod(0o400)
        self.connections = []
        self.on_connection = lambda connection: None
        folder = root / "run"
        folder.mkdir(exist_ok=True)
        fd = os.open(folder, os.O_PATH)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.bind(f"/proc/self/fd/{fd}/node-bootstrap-prover.socket")
        os.close(fd)
        self._socket.listen()
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self):
        while True:
            try:
                end, _ = self._socket.accept()
            except OSError:
                return
            connection = Connection(self.credentials, end, self.program)
            self.connections.append(connection)
            self.on_connection(connection)

    def close(self):
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(PATIENCE)
        self._socket.close()
        for connection in self.connections:
            connection.wait()


def build():
    """Of the programs, as the service tells it to whoever is of another one."""
    with tempfile.TemporaryDirectory() as folder:
        connection = Connection(pathlib.Path(folder)).begin(b"another")
        found = connection.ask(b"x").build
        connection.close()
        return found
