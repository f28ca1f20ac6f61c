# SPDX-License-Identifier: Apache-2.0
"""The token: its format, who may read it, and that rejected input is never printed."""

import base64
import os

import pytest

from common.machine import SECRET, TOKEN, TOKEN_ID

CIPHERTEXT = base64.b64encode(bytes(range(16)) + b"".join(size.to_bytes(4, "little") for size in (32, 1, 12, 16)) + bytes(96))

MALFORMED = [
    ("empty", b""),
    ("only a newline", b"\n"),
    ("only the public half", b"abcdef"),
    ("no dot", b"abcdef0123456789abcdef"),
    ("short secret", b"abcdef.0123456789abcde"),
    ("long secret", b"abcdef.0123456789abcdef0"),
    ("short id", b"abcde.0123456789abcdef"),
    ("capital letter", b"abcdef.0123456789abcdeF"),
    ("character that is none of them", b"abcdef.0123456789abcd-f"),
    ("blank before", b" " + TOKEN.encode()),
    ("a newline within", TOKEN.encode() + b"\r\n\n" + TOKEN.encode()),
    ("newline before", b"\n" + TOKEN.encode()),
    ("NUL after", TOKEN.encode() + b"\0"),
    ("byte order mark", b"\xef\xbb\xbf" + TOKEN.encode()),
    ("as a shell variable", b"TOKEN=" + TOKEN.encode()),
    ("in quotes", b'"' + TOKEN.encode() + b'"'),
    ("letters that look alike", "аbcdef.0123456789abcdef".encode()),
    ("a password that went to the wrong place", b"CorrectHorseBatteryStaple"),
    ("a private key", b"-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIHb7bL0c\n-----END EC PRIVATE KEY-----\n"),
    ("binary", bytes(range(256))),
    ("a megabyte", b"a" * (1 << 20)),
]


def everything(run):
    return "\n".join([run.stderr, run.stdout, *run.statuses])


def unquoted(run, data):
    """No eight consecutive bytes of rejected input appear in the output."""
    words = data.decode("latin-1").strip()
    shown = everything(run).encode("latin-1", "replace").decode("latin-1")
    for i in range(min(len(words) - 7, 500)):
        assert words[i:i + 8] not in shown


def untouched(world):
    assert world.server.connections == [] and list(world.machine.state.iterdir()) == []


@pytest.mark.parametrize("data", [row[1] for row in MALFORMED], ids=[row[0] for row in MALFORMED])
def test_malformed(world, data):
    world.machine.set_credential("token", data)
    run = world.machine.join().failed("token-malformed", 65, "node-bootstrap.token")
    unquoted(run, data)
    untouched(world)


@pytest.mark.parametrize("name", ["token", "tls-bootstrap-token"])
@pytest.mark.parametrize("end, is_told", [("", False), ("\n", False), ("\r\n", True), ("\n\n", True), ("\r\n\r\n", True), (" ", True), ("\t\n", True)], ids=ascii)
def test_line_ends_after_it_are_ignored(world, name, end, is_told):
    world.machine.set_credential(name, TOKEN + end)
    run = world.machine.join().joined()
    assert run.stderr.count(f"the credential 'node-bootstrap.{name}' ends with more than one newline, or with other white space") == is_told


def test_encrypted(world):
    world.machine.set_credential("token", CIPHERTEXT)
    run = world.machine.join().failed("token-encrypted", 65, "LoadCredentialEncrypted")
    unquoted(run, CIPHERTEXT)
    untouched(world)


def test_missing(world):
    (world.machine.credentials / "node-bootstrap.token").unlink()
    world.machine.join().failed("token-missing", 66, "node-bootstrap.token")
    untouched(world)


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o444, 0o602, 0o666], ids=lambda mode: f"{mode:04o}")
def test_exposed(world, mode):
    """Readable or writable by all: every user of the machine may know it."""
    world.machine.set_credential("token", TOKEN, mode)
    world.machine.join().failed("token-exposed", 78, "node-bootstrap.token")
    untouched(world)


@pytest.mark.parametrize("mode", [0o400, 0o440, 0o600], ids=lambda mode: f"{mode:04o}")
def test_modes_that_systemd_makes(world, mode):
    world.machine.set_credential("token", TOKEN + "\n", mode)
    world.machine.join().joined()


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo, lambda path: os.symlink("/etc/hostname", path)], ids=["folder", "FIFO", "link"])
def test_not_a_file(world, make):
    path = world.machine.credentials / "node-bootstrap.token"
    path.unlink()
    make(path)
    run = world.machine.join(patience=30)
    run.failed("token-malformed", 65, "node-bootstrap.token", "not a regular file")
    untouched(world)


def test_not_from_the_environment_or_the_command_line(world):
    (world.machine.credentials / "node-bootstrap.token").unlink()
    world.machine.join(environment={"TOKEN": TOKEN, "NODE_BOOTSTRAP_TOKEN": TOKEN}).failed("token-missing", 66)
    assert world.machine.start("node-bootstrap", "join", "--token=" + TOKEN).wait().exit == 64


def test_nowhere_during_the_join(world):
    """Not in the command line, environment, open files or output of the running program."""
    found = []

    def look(request):
        proc = f"/proc/{world.machine.runs[-1].pid}"
        for name in ("cmdline", "environ"):
            try:
                with open(f"{proc}/{name}", "rb") as file:
                    found.append(file.read())
            except PermissionError:     # it is not dumpable: only root may look
                assert os.geteuid() != 0 and name == "environ"
                return
        found.extend(os.readlink(f"{proc}/fd/{fd}").encode() for fd in os.listdir(proc + "/fd"))
    world.server.on("watch", look)
    run = world.machine.join().joined()
    assert found and not any(SECRET.encode() in data for data in found)
    assert SECRET not in everything(run) and TOKEN_ID in world.machine.handoff()["tokenID"]
