# SPDX-License-Identifier: Apache-2.0
"""A TPM 2.0 in software (swtpm) behind a device like /dev/tpmrm0, without a kernel module: a raw pseudo-terminal.

The commands that prepare it are written as bytes, as the TCG's "TPM 2.0 Library", part 3, has them.
"""

import os
import socket
import subprocess
import termios
import threading
import tty
from pathlib import Path

SESSIONS, NO_SESSIONS = 0x8002, 0x8001
OWNER, LOCKOUT, ENDORSEMENT = 0x40000001, 0x4000000A, 0x4000000B
CREATE_PRIMARY, HASH, SIGN, FLUSH_CONTEXT, NV_READ = 0x131, 0x17D, 0x15D, 0x165, 0x14E
ATTESTATION = 0x50072           # fixedTPM, fixedParent, sensitiveDataOrigin, userWithAuth, restricted, sign
UNRESTRICTED = 0x40472          # noDA instead of restricted
STORAGE = 0x30072               # decrypt instead of sign


def number(value, size):
    return value.to_bytes(size, "big")


def sized(data):
    return number(len(data), 2) + data


def rsa(attributes=ATTESTATION, scheme=bytes.fromhex("0014000b"), symmetric=b"\0\x10", bits=2048):
    """The template (TPMT_PUBLIC) of an RSA key: GCE's attestation key has these values."""
    return number(1, 2) + number(0xB, 2) + number(attributes, 4) + sized(b"") + symmetric + scheme + number(bits, 2) + bytes(4) + sized(bytes(bits // 8))


def ecc(attributes=ATTESTATION, scheme=bytes.fromhex("0018000b"), curve=3, size=32):
    return (number(0x23, 2) + number(0xB, 2) + number(attributes, 4) + sized(b"") + b"\0\x10" + scheme + number(curve, 2) + b"\0\x10"
            + sized(bytes(size)) * 2)


def password(text=b""):
    session = number(0x40000009, 4) + sized(b"") + b"\0" + sized(text)
    return number(len(session), 4) + session


def command(code, handles=(), parameters=b"", auth=None):
    body = number(code, 4) + b"".join(number(handle, 4) for handle in handles) + (auth or b"") + parameters
    return number(SESSIONS if auth else NO_SESSIONS, 2) + number(len(body) + 6, 4) + body


def answer(code, body=b"", tag=NO_SESSIONS):
    return number(tag, 2) + number(len(body) + 10, 4) + number(code, 4) + body


class Tpm:
    """`path` is the device. `codes` has the code of each command that came through it. `reply(command)` makes the answer, and None is
    silence; a test may replace it, and call `call(command)`, which asks the TPM. After a time-out, the test calls `reopen()`."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.folder.mkdir(exist_ok=True)
        self.socket, end = socket.socketpair()
        with end:
            self.process = subprocess.Popen(["swtpm", "socket", "--tpm2", f"--tpmstate=dir={folder}", f"--fd={end.fileno()}", "--terminate",
                                             "--flags=not-need-init,startup-clear"], pass_fds=[end.fileno()], stdin=subprocess.DEVNULL)
        self.lock = threading.Lock()
        self.answering = threading.Lock()
        self.codes = []
        self.reply = self.call
        self.master, self.slave = os.openpty()
        tty.setraw(self.slave)
        self.path = os.ttyname(self.slave)
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def close(self):
        self.socket.close()
        self.process.wait()
        os.close(self.slave)            # so the thread's read fails
        self.thread.join()
        os.close(self.master)

    def _serve(self):
        while True:
            try:
                asked = whole(lambda size: os.read(self.master, size))
            except OSError:
                return
            with self.answering:
                self.codes.append(int.from_bytes(asked[6:10], "big"))
                if self.codes[-1] == CREATE_PRIMARY:
                    self.flush()
                answered = self.reply(asked)
                while answered:
                    answered = answered[os.write(self.master, answered):]

    def reopen(self):
        """Discards the answer to a command whose sender did not wait for it, as the kernel does when it closes the device."""
        with self.answering:
            termios.tcflush(self.slave, termios.TCIFLUSH)

    def call(self, asked):
        with self.lock:
            self.socket.sendall(asked)
            return whole(self.socket.recv)

    def order(self, code, handles, parameters=b"", auth=password()):
        """What the answer has after its header."""
        answered = self.call(command(code, handles, parameters, auth))
        assert answered[6:10] == bytes(4), f"{code:#x}: {answered.hex()}"
        return answered[10:]

    # What an administrator, a platform or an attacker may do to a TPM.

    def clear(self):
        self.order(0x126, [LOCKOUT])

    def set_password(self, hierarchy, text=b"secret"):
        self.order(0x129, [hierarchy], sized(text))

    def lock_out(self):
        """As after too many wrong passwords: none is permitted any more."""
        self.order(0x13A, [LOCKOUT], bytes(4) + number(1000, 4) * 2)

    def define(self, index, data):
        """An NV index, readable with the owner's password."""
        self.order(0x12A, [OWNER], sized(b"") + sized(number(index, 4) + number(0xB, 2) + number(0x2060006, 4) + sized(b"") + number(len(data), 2)))
        for offset in range(0, len(data), 512):
            self.order(0x137, [OWNER, index], sized(data[offset:offset + 512]) + number(offset, 2))

    def persist(self, handle, template, key_password=b""):
        created = self.order(CREATE_PRIMARY, [OWNER], sized(sized(key_password) + sized(b"")) + sized(template) + bytes(6))
        transient = int.from_bytes(created[:4], "big")
        self.order(0x120, [OWNER, transient], number(handle, 4))
        self.order(FLUSH_CONTEXT, [transient], auth=None)

    def wrong_passwords(self):
        """How many the TPM has counted; at a limit, it locks itself."""
        return int.from_bytes(self.order(0x17A, [], number(6, 4) + number(0x20E, 4) + number(1, 4), auth=None)[-4:], "big")

    def transient_keys(self):
        """The handles of the keys that were left in the TPM."""
        listed = self.order(0x17A, [], number(1, 4) + number(0x80000000, 4) + number(100, 4), auth=None)[9:]
        return [int.from_bytes(listed[at:at + 4], "big") for at in range(0, len(listed), 4)]

    def flush(self):
        """What the kernel's resource manager did when the last user of the device closed it."""
        for handle in self.transient_keys():
            self.order(FLUSH_CONTEXT, [handle], auth=None)


def whole(read):
    data = b""
    while len(data) < 10 or len(data) < int.from_bytes(data[2:6], "big"):
        more = read((int.from_bytes(data[2:6], "big") if len(data) >= 10 else 10) - len(data))
        if not more:
            raise OSError("the other side has ended")
        data += more
    return data
