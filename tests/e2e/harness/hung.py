# SPDX-License-Identifier: Apache-2.0
"""A file system that does not answer: a FUSE mount whose requests to open a file are read and left without an answer.

Once such a request was read, no signal ends the process that waits for it, not even SIGKILL, as on a dead file server with a hard mount. Names can be
looked up meanwhile, as from the kernel's cache. linux/fuse.h describes the messages.
"""

import contextlib
import errno
import os
import stat
import struct
import threading
import time

from . import isolation

LOOKUP, FORGET, GETATTR, READLINK, OPEN, READ, STATFS, RELEASE, FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR, INTERRUPT, BATCH_FORGET = \
    1, 2, 3, 5, 14, 15, 17, 18, 25, 26, 27, 28, 29, 36, 42
ROOT, MESSAGE_MAX = 1, 1 << 20


class Hung:
    """The files of a directory, read once; nothing can be written. Hangs until `answers` is set."""

    def __init__(self, directory):
        self.paths, self.nodes, self.unanswered = [directory], {}, []
        self.answers = threading.Event()
        self._lock = threading.Lock()
        self._fd = os.open("/dev/fuse", os.O_RDWR)
        for path in self.paths:
            found = os.lstat(path)
            names = sorted(os.listdir(path)) if stat.S_ISDIR(found.st_mode) else []
            data = os.readlink(path).encode() if stat.S_ISLNK(found.st_mode) else b"" if names or stat.S_ISDIR(found.st_mode) else path.read_bytes()
            numbers = {}
            for name in names:
                self.paths.append(path / name)
                numbers[name.encode()] = ROOT - 1 + len(self.paths)
            self.nodes[ROOT + len(self.nodes)] = (found, data, numbers)
        isolation.mount("hung", str(directory), "fuse", 0, f"fd={self._fd},rootmode=40000,user_id=0,group_id=0,allow_other")
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self):
        """Whoever still waits for an answer gets ENOTCONN."""
        os.close(self._fd)

    def let_go(self):
        with self._lock:
            self.answers.set()
            for unique in self.unanswered:
                self._reply(unique, struct.pack("<QII", 0, 0, 0))
            self.unanswered.clear()

    def _serve(self):
        with contextlib.suppress(OSError):              # it is unmounted
            while True:
                message = os.read(self._fd, MESSAGE_MAX)
                _, opcode, unique, node = struct.unpack_from("<IIQQ", message)
                self._answer(opcode, unique, node, message[40:])

    def _reply(self, unique, data=b"", error=0):
        with contextlib.suppress(FileNotFoundError):    # whoever has asked was killed before the request was read
            os.write(self._fd, struct.pack("<IiQ", 16 + len(data), -error, unique) + data)

    def _answer(self, opcode, unique, node, body):
        found, data, numbers = self.nodes[node] if node in self.nodes else (None, b"", {})
        if opcode in (FORGET, BATCH_FORGET, INTERRUPT):
            return
        if opcode in (OPEN, OPENDIR):
            with self._lock:
                if not self.answers.is_set():
                    self.unanswered.append(unique)
                    return
        answers = {
            INIT: lambda: struct.pack("<IIIIHHIIHHI28x", 7, 31, 0, 0, 16, 12, 1 << 16, 1, 16, 0, 0),
            GETATTR: lambda: struct.pack("<QII", 0, 0, 0) + self._attributes(node), READLINK: lambda: data,
            OPEN: lambda: struct.pack("<QII", 0, 0, 0), OPENDIR: lambda: struct.pack("<QII", 0, 0, 0),
            READ: lambda: data[(at := struct.unpack_from("<Q", body, 8)[0]):at + struct.unpack_from("<I", body, 16)[0]],
            STATFS: lambda: struct.pack("<5Q4I24x", 1 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 20, 4096, 255, 4096, 0),
            READDIR: lambda: b"" if struct.unpack_from("<Q", body, 8)[0] else b"".join(map(entry, numbers.items())),
            RELEASE: bytes, RELEASEDIR: bytes, FLUSH: bytes,
        }
        if opcode == LOOKUP:
            number = numbers.get(body.rstrip(b"\0"))
            if number is None:
                self._reply(unique, error=errno.ENOENT)
            else:
                self._reply(unique, struct.pack("<QQQQII", number, 0, 0, 0, 0, 0) + self._attributes(number))
        elif opcode in answers:
            self._reply(unique, answers[opcode]())
        else:
            self._reply(unique, error=errno.ENOSYS)

    def _attributes(self, number):
        found, data, _ = self.nodes[number]
        seconds = int(time.time())
        return struct.pack("<6Q10I", number, len(data), 1, seconds, seconds, seconds, 0, 0, 0, found.st_mode, found.st_nlink, found.st_uid, found.st_gid, 0, 4096, 0)


def entry(item):
    name, number = item
    data = struct.pack("<QQII", number, number, len(name), 0) + name
    return data + bytes(-len(data) % 8)


@contextlib.contextmanager
def hung(directory):
    """The directory hangs for whoever opens it, or a file in it; also for a machine that boots with it."""
    file_system = Hung(directory)
    try:
        yield file_system
    finally:
        file_system.let_go()
        isolation.umount(str(directory))
        file_system.close()
