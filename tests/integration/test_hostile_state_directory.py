# SPDX-License-Identifier: Apache-2.0
"""Whatever the network side leaves in its state directory blocks no join, refresh or reset."""

import os
import pathlib
import socket
import tempfile

import pytest

from common import sockets
from common.machine import Machine

NAMES = ["joined.json", "pending.key", "kubelet-config.yaml"]
NAMES = [form for name in NAMES for form in (name, f".{name}.tmp")]


def empty_folder(path, outside):
    path.mkdir()


def tree(path, outside):
    (path / "a" / "b" / "c").mkdir(parents=True)
    (path / "a" / "file").write_text("x")
    (path / "a" / "link").symlink_to(outside)
    os.mkfifo(path / "a" / "b" / "fifo")


def link(path, outside):
    path.symlink_to(outside)


def second_name(path, outside):
    (outside.parent / "file").write_text("mine")
    path.hardlink_to(outside.parent / "file")


def fifo(path, outside):
    os.mkfifo(path)


def unix_socket(path, outside):
    with socket.socket(socket.AF_UNIX) as sock:
        sockets.bind(sock, path)


KINDS = [empty_folder, tree, link, second_name, fifo, unix_socket]


@pytest.fixture
def outside(tmp_path):
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "kept").write_text("kept")
    yield folder
    assert (folder / "kept").read_text() == "kept", "a link was followed"


def verify_gone(machine, make, is_child_run):
    """Without a child, folders are renamed."""
    left = [path.name for path in machine.state.iterdir()]
    assert not set(left) & set(NAMES), left
    assert left == [] or make in (empty_folder, tree) and not is_child_run


@pytest.mark.parametrize("name, make", [(name, make) for name in NAMES for make in KINDS if make is tree or name in NAMES[:3:2]], ids=lambda value: getattr(value, "__name__", value))
def test_join(world, outside, name, make):
    machine = world.machine
    make(machine.state / name, outside)
    machine.unit().joined()
    assert machine.target(Machine.KUBECONFIG).exists() and len(world.csrs()) == 1
    verify_gone(machine, make, True)


HOSTILE = """
import os, socket, sys
os.chdir(os.environ["STATE_DIRECTORY"])
def make(folder, mode):
    os.makedirs(folder + "/below")
    for path in (folder + "/file", folder + "/below/file"): open(path, "w").close()
    os.symlink("/etc/passwd", folder + "/link")
    os.chmod(folder, mode)
for name in ("joined.json", "pending.key", "other", ".hidden", "line\\nend", "x" * 255):
    open(name, "w").write("x")
for number in range(30000): os.close(os.open(f"file-{number}", os.O_CREAT | os.O_WRONLY))
make("sticky", 0o1777); make("closed", 0); make("readonly", 0o555); make("refreshed.json", 0o1700)
os.symlink(sys.argv[1], "link"); os.symlink(sys.argv[1], "readonly-link"); os.mkfifo("fifo"); socket.socket(socket.AF_UNIX).bind("socket")
for number in range(3000):
    os.mkdir("y" * 250); os.chdir("y" * 250)
os.chmod(os.environ["STATE_DIRECTORY"], 0o1500)
"""


@pytest.mark.parametrize("name", ["join", "refresh"])
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the user of a child")
def test_what_the_network_side_leaves(world, outside, tmp_path, name):
    """Only known files survive it: neither sticky directories, which root without CAP_FOWNER cannot empty, nor closed nor deep ones."""
    machine = world.machine
    if name == "refresh":
        machine.unit().joined()
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        program = pathlib.Path(folder, "program")
        program.write_text(f"#!/bin/sh\nexec python3 - {outside} <<'EOF'\n{HOSTILE}EOF\n")
        program.chmod(0o755)
        state = pathlib.Path(folder, "state")
        state.mkdir()
        os.chown(state, 65534, 65534)
        run = machine.start("install", *machine.install_words(f"--program={program}", *["--refresh"] * (name == "refresh")), environment={"STATE_DIRECTORY": str(state)}).wait()
        assert "next start continues" not in run.stderr and run.exit == (65 if name == "join" else 0), run.stderr
        left = set(os.listdir(state))
        assert left == ({"joined.json", "pending.key"} if name == "join" else set())


@pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)
def test_reset(world, outside, make):
    machine = world.machine
    machine.unit().joined()
    for name in NAMES:
        make(machine.state / name, outside)
        (outside.parent / "file").unlink(missing_ok=True)
    machine.install("--reset").joined()
    assert machine.target_names() == {}
    verify_gone(machine, make, False)


@pytest.mark.parametrize("name", ["refreshed.json", ".refreshed.json.tmp"])
def test_refresh(world, outside, name):
    machine = world.machine
    machine.unit().joined()
    tree(machine.state / name, outside)
    machine.unit("--refresh").joined()
    assert list(machine.state.iterdir()) == []
