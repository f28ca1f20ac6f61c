# SPDX-License-Identifier: Apache-2.0
"""One command writes at a time: install, refresh, reset and setup beside each other, with delays in their file system work.

In the end kubeconfig, certificate, CA file and record are of one join, or none of them is there.
"""

import fcntl
import json
import os
import shutil
import subprocess
import threading

import pytest

from common import pki
from common.machine import NODE, TOKEN, Machine, find_program
from .crash import WITHOUT_LEAK_DETECTION, put_back, save
from .installed import SERVER, refresh_handoff, snapshot

CHANGES = "openat,mkdirat,fchmod,fsync,renameat,renameat2,symlinkat,unlinkat"
WAITING = "waiting up to 60 s for another node-bootstrap command"
OTHER = "node-2"
PINS = ["sha256:" + digit * 64 for digit in "ab"]


class Held:
    """The lock, as another command of node-bootstrap holds it."""

    def __init__(self, folder):
        self.fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(self.fd, fcntl.LOCK_EX)

    def release(self):
        os.close(self.fd)


def second(world):
    """The same machine, joined a second time as another node: with settings and state of its own."""
    (world.machine.path / "second").mkdir()
    machine = Machine(world.machine.path / "second")
    shutil.rmtree(machine.root)
    machine.root = world.machine.root
    machine.configure(world.server, node=OTHER)
    world.closing(type("Ended", (), {"close": machine.end}))
    return machine


# command of a machine -> its arguments

COMMANDS = {
    "install": [],
    "refresh": ["--refresh"],
    "reset": ["--reset"],
}


def command(machine, name, program=()):
    return machine.new_run([*program, find_program("install"), *machine.install_words("--program=", *COMMANDS[name])],
                           {**machine.environment, **WITHOUT_LEAK_DETECTION})


def setup_argv(root, number):
    token = TOKEN if number == 0 else "bcdefg.0123456789abcdef"
    return [find_program("node-bootstrap"), "setup", f"--root={root}", f"10.0.0.{number}:6443", f"--token={token}",
            f"--discovery-token-ca-cert-hash={PINS[number]}", "--force"]


@pytest.mark.parametrize("name", COMMANDS)
def test_waits_for_the_other(world, name):
    machine = world.machine
    if name != "install":
        machine.unit().joined()
        machine.put_state("refreshed.json", json.dumps(refresh_handoff(machine, [world.cluster.ca.pem, pki.CA("new").pem])))
    else:
        machine.put_handoff(world.cluster.ca, SERVER)
    files, held = snapshot(machine.path), Held(machine.root)
    run = command(machine, name)
    run.wait_for_line(WAITING)
    assert run.is_running() and snapshot(machine.path) == files
    held.release()
    run.wait().joined()
    assert snapshot(machine.path) != files


def test_setup_waits_for_the_other(tmp_path):
    (tmp_path / "root").mkdir()
    held = Held(tmp_path / "root")
    with subprocess.Popen(setup_argv(tmp_path / "root", 0), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as child:
        assert any(WAITING in line for line in child.stderr)
        assert list((tmp_path / "root").iterdir()) == []
        held.release()
        child.stderr.read()
    assert child.returncode == 0 and (tmp_path / "root/etc/node-bootstrap/config.yaml.d/50-setup.yaml").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="the lock of a machine is root's")
def test_lock_of_the_machine(machine):
    """Without --root it is a file that only root can open."""
    descriptor = os.open("/run/node-bootstrap.lock", os.O_RDONLY | os.O_CREAT, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    run = machine.start("install", "--reset", f"--config-directory={machine.etc}")
    run.wait_for_line(WAITING)
    assert run.is_running()
    os.close(descriptor)
    run.wait().joined()


@pytest.mark.parametrize("is_joined", [True, False], ids=["joined", "not joined"])
def test_held_for_good(world, is_joined):
    """60 seconds by a clock that runs faster; then kubelet starts on a machine that has joined."""
    machine = world.machine
    if is_joined:
        machine.unit().joined()
    held = Held(machine.root)
    files = snapshot(machine.root)
    run = machine.inspect(faketime="+0 x60")
    if is_joined:
        run.joined()
        assert run.note["verdict"] == "usable" and run.codes == ["lock-unavailable"] and "so kubelet can start" in run.stderr
    else:
        run.failed("lock-unavailable", 75, "for 60 s")
        machine.install("--reset", faketime="+0 x60").failed("lock-unavailable", 75)
    assert snapshot(machine.root) == files
    held.release()


def verify_whole(machine):
    """One join, or none."""
    names = set(machine.target_names())
    parts = {machine.KUBECONFIG, machine.RECORD, machine.CURRENT, machine.CA_FILE}
    assert parts <= names or not parts & names, sorted(names)
    assert not [name for name in names if ".tmp" in name or "updated" in name], sorted(names)
    if machine.KUBECONFIG not in names:
        assert names <= {name for name in names if name.endswith((".old", ".pem"))}, sorted(names)
        return None
    record = json.loads(machine.read(machine.RECORD))
    certificates, text = machine.installed_identity()
    assert pki.spki(certificates[0].public_key()) == pki.spki(pki.load_key(text[text.index("-----BEGIN EC"):].encode()).public_key())
    assert os.readlink(machine.target(machine.CURRENT)) == record["certificate"]
    assert f"system:node:{record['node']}" in certificates[0].subject.rfc4514_string()
    assert machine.read("var/lib/kubelet/node-bootstrap.env") == f"KUBELET_NODE_NAME={record['node']}\n"
    assert machine.read(machine.CA_FILE) == record["ca"]
    assert record["server"] in machine.read(machine.KUBECONFIG)
    return record["node"]


def delayed(*calls):
    return [f"--inject={call}" for call in calls]


def every(milliseconds):
    return delayed(f"{CHANGES}:delay_enter={milliseconds}ms")


# Both at once, and what is delayed in the one and in the other.
PAIRS = [("install", "install"), ("refresh", "install"), ("reset", "install"), ("reset", "refresh"), ("reset", "reset")]
DELAYS = [(every(15), every(2)), (every(2), every(15)), (every(8), every(7)),
          (delayed("unlinkat:delay_enter=200ms:when=1"), delayed("renameat2:delay_enter=60ms")),
          (delayed("renameat2:delay_enter=60ms"), delayed("unlinkat:delay_enter=200ms:when=1"))]
TWO_SETUPS = [(every(8), every(7)), (delayed("renameat:delay_enter=300ms:when=2"), delayed("renameat:delay_enter=100ms:when=1"))]


@pytest.mark.parametrize("names", PAIRS, ids=[" beside ".join(pair) for pair in PAIRS])
def test_side_by_side(world, strace, names):
    first, other = world.machine, second(world)
    if names != ("install", "install"):
        first.unit().joined()
        first.put_state("refreshed.json", json.dumps(refresh_handoff(first, [world.cluster.ca.pem, pki.CA("new").pem])))
    else:
        first.put_handoff(world.cluster.ca, SERVER)
    other.put_handoff(world.cluster.ca, "https://192.0.2.22:6443", node=OTHER)
    if names[1] == "refresh":
        shutil.copy(first.state / "refreshed.json", other.state)
    files, others = save(first), shutil.copytree(other.state, other.path / "saved")
    for delays in DELAYS:
        put_back(first, files)
        shutil.rmtree(other.state)
        shutil.copytree(others, other.state)
        runs = [command(machine, name, [strace, "-qq", "-f", "-o", "/dev/null", *delay])
                for machine, name, delay in zip((first, other), names, delays)]
        for run in runs:
            run.wait()
        said = "\n".join(run.stderr for run in runs)
        found = verify_whole(first)
        assert "internal" not in said and "target-unwritable" not in said and "reset-unfinished" not in said, said
        assert found in {("install", "install"): (NODE, OTHER), ("refresh", "install"): (OTHER,), ("reset", "refresh"): (None,),
                         ("reset", "reset"): (None,)}.get(names, (OTHER, None)), found


def test_two_setups(tmp_path, strace):
    """The settings of one and the token of the other never remain together."""
    for number, delays in enumerate(TWO_SETUPS):
        root = tmp_path / str(number)
        root.mkdir()
        argv = [[strace, "-qq", "-f", "-o", "/dev/null", *delay, *setup_argv(root, which)] for which, delay in enumerate(delays)]
        threads = [threading.Thread(target=subprocess.run, args=(words,), kwargs={"capture_output": True, "env": {"PATH": "/usr/sbin:/usr/bin", **WITHOUT_LEAK_DETECTION}}) for words in argv]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        document = (root / "etc/node-bootstrap/config.yaml.d/50-setup.yaml").read_text()
        token = (root / "etc/credstore/node-bootstrap.token").read_text()
        assert ("10.0.0.0:" in document, PINS[0] in document) == (token == TOKEN,) * 2
