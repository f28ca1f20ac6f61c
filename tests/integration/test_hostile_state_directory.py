# SPDX-License-Identifier: Apache-2.0
"""Whatever the network side leaves in its state directory blocks no join, refresh or reset."""

import os
import socket

import pytest

from machine import Machine

NAMES = ["joined.json", "pending.key", "kubelet-config.yaml", "metadata.yaml"]
NAMES = [form for name in NAMES for form in (name, f".{name}.tmp")]


def empty_folder(path, outside):
    path.mkdir()


def tree(path, outside):
    (path / "a" / "b" / "c").mkdir(parents=True)
    (path / "a" / "file").write_text("x")
    (path / "a" / "link").symlink_to(outside)
    os.mkfifo(path / "a" / "b" / "fifo")


def deep(path, outside):
    """Deeper than the recursive removal goes."""
    path.mkdir()
    descriptor = os.open(path, os.O_RDONLY)
    for _ in range(40):
        os.mkdir("d", dir_fd=descriptor)
        below = os.open("d", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = below
    os.close(descriptor)


def many(path, outside):
    path.mkdir()
    for number in range(10001):
        os.close(os.open(path / str(number), os.O_CREAT | os.O_WRONLY))


def link(path, outside):
    path.symlink_to(outside)


def second_name(path, outside):
    (outside.parent / "file").write_text("mine")
    path.hardlink_to(outside.parent / "file")


def fifo(path, outside):
    os.mkfifo(path)


def unix_socket(path, outside):
    with socket.socket(socket.AF_UNIX) as sock:
        here = os.getcwd()
        os.chdir(path.parent)           # the path may be longer than an address
        try:
            sock.bind(path.name)
        finally:
            os.chdir(here)


KINDS = [empty_folder, tree, deep, many, link, second_name, fifo, unix_socket]


@pytest.fixture
def outside(tmp_path):
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "kept").write_text("kept")
    yield folder
    assert (folder / "kept").read_text() == "kept", "a link was followed"


def verify_gone(machine, make):
    """What cannot be removed is renamed."""
    left = [path.name for path in machine.state.iterdir()]
    assert not set(left) & set(NAMES), left
    assert make in (deep, many) or left == []


@pytest.mark.parametrize("name, make", [(name, make) for name in NAMES for make in KINDS if make is tree or name in NAMES[:3:2]], ids=lambda value: getattr(value, "__name__", value))
def test_join(world, outside, name, make):
    machine = world.machine
    make(machine.state / name, outside)
    machine.unit().joined()
    assert machine.target(Machine.KUBECONFIG).exists() and len(world.csrs()) == 1
    verify_gone(machine, make)


@pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)
def test_reset(world, outside, make):
    machine = world.machine
    machine.unit().joined()
    for name in NAMES if make is not many else NAMES[:1]:
        make(machine.state / name, outside)
        (outside.parent / "file").unlink(missing_ok=True)
    machine.install("--reset").joined()
    assert machine.target_names() == {}
    verify_gone(machine, make)


@pytest.mark.parametrize("name", ["refreshed.json", ".refreshed.json.tmp"])
def test_refresh(world, outside, name):
    machine = world.machine
    machine.unit().joined()
    tree(machine.state / name, outside)
    machine.unit("--refresh").joined()
    assert list(machine.state.iterdir()) == []
