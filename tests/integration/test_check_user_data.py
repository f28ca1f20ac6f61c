# SPDX-License-Identifier: Apache-2.0
"""node-bootstrap check --user-data: how another machine would use a file."""

import base64
import gzip
import json
import os
import pathlib
import signal
import subprocess

import pytest

from common import documentation
from common.failures import FAILURES, count_remedies
from common.machine import HEADER, KEPT, SECRET, TOKEN, TOKEN_ID, find_program, to_yaml
from common.wait import PATIENCE, until
from .check import sections
from .cloud import OTHER_TOKEN, CloudWorld
from .user_data import FORBIDDEN, FORMS

PIN = "sha256:" + "ab" * 32
BASIS = {"discovery": {"endpoints": ["10.0.0.1:6443"], "caCertHashes": [PIN]}}
DOCUMENT = HEADER + to_yaml({**BASIS, "bootstrap": {"token": TOKEN}})
NOBODY = ["unshare", "--user", "--net"]         # without a capability, and with no connection to anybody


def check(file, *arguments, network=False, **options):
    """As an ordinary user, and without a network."""
    if "input" not in options:
        options.setdefault("stdin", subprocess.DEVNULL)
    done = subprocess.run([*([] if network else NOBODY), find_program("node-bootstrap"), "check", f"--user-data={file}", *arguments], check=False, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env={"PATH": "/usr/bin:/bin", **KEPT}, **options)
    output = done.stdout.decode()
    assert done.stderr == b"" and SECRET not in output and OTHER_TOKEN.split(".")[1] not in output
    return done.returncode, output


def write(folder, data, name="user-data"):
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def bad(code, status_and_output, *words, section="User data"):
    status, output = status_and_output
    [failure] = [row for row in sections(output)[section] if row.startswith(f"✗ {code}: ")]
    assert status == 1 and all(word in failure for word in words), output
    assert any(key in FAILURES[code] and count_remedies(output, code, key) for key in ("remedy", "remedy-k3s"))
    return sections(output)


def test_file(tmp_path):
    path = write(tmp_path, "#cloud-config\nhostname: a\nnode_bootstrap:\n" + "".join(f"  {line}\n" for line in DOCUMENT.removeprefix(HEADER).splitlines()))
    status, output = check(path)
    assert status == 0 and "✗" not in output, output
    found = sections(output)
    assert list(found) == ["User data", "Join"]
    assert found["User data"] == [f"- {path}: {path.stat().st_size} bytes: a cloud-config", f"✓ token: {TOKEN_ID}.**************** ({path})",
                                  f'- discovery.endpoints: ["10.0.0.1:6443"] ({path})', f'- discovery.caCertHashes: ["{PIN}"] ({path})', "✓ valid"]
    assert found["Join"][0] == "- node name: the host name of the machine" and found["Join"][-1] == "✓ a join can start"


@pytest.mark.parametrize("encode", [bytes, base64.b64encode], ids=["raw", "base64"])
def test_standard_input(encode):
    status, output = check("-", input=encode(DOCUMENT.encode()))
    assert status == 0 and "- identity: standard input\n" in output and ": a NodeBootstrap document" in output


def test_signal_while_reading_standard_input():
    """SIGINT and SIGTERM end it."""
    with subprocess.Popen([find_program("node-bootstrap"), "check", "--user-data=-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as run:
        def caught():
            return int(pathlib.Path(f"/proc/{run.pid}/status").read_text().partition("SigCgt:\t")[2].split()[0], 16)
        until(lambda: caught() & 0x4002 == 0x4002, "it catches SIGINT and SIGTERM", pause=0.01)
        run.terminate()
        assert run.wait(PATIENCE) == 143


def test_signal_before_anything_is_read():
    def request_stop():
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        os.kill(os.getpid(), signal.SIGTERM)

    done = subprocess.run([*NOBODY, find_program("node-bootstrap"), "check", "--user-data=-"], check=False, stdin=subprocess.PIPE,
                          capture_output=True, preexec_fn=request_stop)     # pylint: disable=subprocess-popen-preexec-fn
    assert (done.returncode, done.stdout, done.stderr) == (143, b"", b"")


def test_json(tmp_path):
    path = write(tmp_path, DOCUMENT)
    status, output = check(path, "--json")
    found = json.loads(output)
    assert status == 0 and found["good"] and [step["step"] for step in found["steps"]] == ["user-data", "join"]
    status, output = check(write(tmp_path, DOCUMENT.lower()), "--json")
    found = json.loads(output)
    assert status == 1 and found["failure"] == found["steps"][0]["failure"]["code"] == "metadata-nothing"


class Given:
    """The part of a world that the metadata cases need for their data."""

    def __init__(self):
        self.given = None
        self.local = {}
        self.server = type("Server", (), {"endpoint": "10.0.0.1:6443"})
        self.cluster = type("Cluster", (), {"ca": type("CA", (), {"pin": PIN})})

    document = CloudWorld.document

    def enter_cloud(self, service=None, *, user_data=None, token=None):
        self.given = user_data


@pytest.mark.parametrize("case", [*FORMS, *FORBIDDEN], ids=lambda case: case.name)
def test_same_result_as_a_join(tmp_path, case):
    """The join has the same failure."""
    world = Given()
    case.prepare(world)
    if world.given is None:
        return
    status, output = check(write(tmp_path, world.given))
    if not case.code:
        assert status == 0 and output.endswith("  ✓ a join can start\n\nNo check failed\n"), output
    elif case.code == "token-missing":
        assert status == 1 and "✗ metadata-nothing: " in output, output
    else:
        bad(case.code, (status, output))


@pytest.mark.parametrize(("data", "code", "word"), [
    ("#!/bin/sh\n", "metadata-nothing", "a shell script"), ("#cloud-config\nwrite_files: []\n", "metadata-nothing", "run `node-bootstrap check` on the machine"), ("", "metadata-nothing", "empty"), ("a\n\0\xff", "metadata-nothing", "another program"),
    (gzip.compress(DOCUMENT.encode()), "metadata-nothing", "it is gzip; node-bootstrap reads neither MIME nor gzip"),
    (base64.b64encode(gzip.compress(DOCUMENT.encode())), "metadata-nothing", "it is gzip, in base64; node-bootstrap reads neither MIME nor gzip"),
    ("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\n" + DOCUMENT + "--b--\n", "metadata-nothing",
     "it is a MIME message; node-bootstrap reads neither MIME nor gzip: let cloud-init write the settings to a file (write_files)")],
    ids=["script", "files of cloud-init", "empty", "bytes", "gzip", "gzip in base64", "MIME"])
def test_nothing_for_node_bootstrap(tmp_path, data, code, word):
    assert bad(code, check(write(tmp_path, data)), word)["Join"] == ["– skipped: see above"]


def test_settings_of_an_image(tmp_path):
    """An image may contain more."""
    path = write(tmp_path, HEADER + to_yaml({"bootstrap": {"token": TOKEN}}))
    bad("settings-incomplete", check(path), "--config-directory=DIR", section="Join")
    (tmp_path / "etc").mkdir()
    write(tmp_path / "etc", HEADER + to_yaml(BASIS), "config.yaml")
    status, output = check(path, f"--config-directory={tmp_path}/etc")
    assert status == 0 and list(sections(output)) == ["Settings", "User data", "Join"], output
    write(tmp_path / "etc", HEADER + "a: b\n", "config.yaml")
    found = bad("settings-invalid", check(path, f"--config-directory={tmp_path}/etc"), section="Settings")
    assert found["User data"] == ["- skipped: see above"]


def test_image_with_provider_none(tmp_path):
    (tmp_path / "etc").mkdir()
    path = write(tmp_path / "etc", HEADER + to_yaml({**BASIS, "metadata": {"provider": "none"}}), "config.yaml")
    status, output = check(write(tmp_path, DOCUMENT), f"--config-directory={path.parent}")
    assert status == 1 and "! a machine would not read it: metadata.provider is none" in output


def test_k3s_token_without_cluster_type(tmp_path):
    """Metadata may also say that it is k3s."""
    text = HEADER + to_yaml({"discovery": {"endpoints": ["10.0.0.1:6443"]}, "bootstrap": {"token": f"K10{'0' * 64}::{TOKEN}"}})
    assert check(write(tmp_path, text))[0] == 0
    assert check(write(tmp_path, text + "cluster: {type: k3s}\n"))[0] == 0


def test_pipe(tmp_path):
    """As the shell passes one: --user-data=<(...). Its writer may be late."""
    os.mkfifo(tmp_path / "fifo", 0o644)
    with subprocess.Popen([find_program("node-bootstrap"), "check", f"--user-data={tmp_path}/fifo"], stdout=subprocess.PIPE, text=True) as run:
        (tmp_path / "fifo").write_text(DOCUMENT)
        assert "  ✓ a join can start\n" in run.stdout.read() and run.wait() == 0


def test_not_a_readable_file(tmp_path):
    for path, word in ((".", "Is a directory"), ("none", "No such file")):
        bad("settings-unreadable", check(tmp_path / path), word)
    with open(tmp_path / "large", "wb") as file:
        file.truncate(1 << 40)
    bad("settings-unreadable", check(tmp_path / "large"), "larger than 1048576 bytes")
    with open("/dev/zero", "rb") as zero:
        bad("settings-unreadable", check("-", stdin=zero), "larger than")
    descriptor = os.open(tmp_path, os.O_RDONLY)
    bad("settings-unreadable", check("-", stdin=descriptor), "cannot read 'standard input': Is a directory")
    os.close(descriptor)


@pytest.mark.parametrize("data", documentation.examples("user-data"), ids=str)
def test_documented_examples(tmp_path, data):
    """That of the command, with those of user data."""
    [example] = documentation.examples("shell-user-data")
    write(tmp_path, data.text, "user-data.yaml")
    program = pathlib.Path(find_program("node-bootstrap"))
    done = subprocess.run([*NOBODY, "sh", "-ec", example.text], cwd=tmp_path, env={"PATH": f"{program.parent}:/usr/bin:/bin", **KEPT}, check=False,
                          stdout=subprocess.PIPE, text=True)
    assert done.returncode == 0 and done.stdout.endswith("  ✓ a join can start\n\nNo check failed\n"), done.stdout


def test_cluster_is_asked_with_local_false(tmp_path):
    world = CloudWorld.__mro__[1](tmp_path)
    try:
        path = write(tmp_path, HEADER + to_yaml({"discovery": {"endpoints": [world.server.endpoint], "caCertHashes": [world.cluster.ca.pin]},
                                                 "bootstrap": {"token": TOKEN}}))
        assert check(path, network=True)[0] == 0 and world.server.connections == []
        status, output = check(path, "--local=false", network=True)
        assert status == 0 and "Request" in sections(output) and "This machine" not in sections(output), output
        assert world.server.connections != [] and world.csrs() == []
    finally:
        world.close()
