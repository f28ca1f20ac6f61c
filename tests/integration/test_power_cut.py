# SPDX-License-Identifier: Apache-2.0
"""A power cut at any moment: every state that it can leave (see disk.py) is verified."""

import json
import re

import pytest

from common import pki
from common.disk import install_argv, put, read, replay
from common.machine import NODE, TOKEN, Machine
from .crash import SECOND, setup_argv
from .installed import DATED, OTHER, SERVER, before, other_cluster, refresh_handoff


def judge(state, old):
    """As kubelet would read it: "none" without a kubeconfig, or all that the old or the new one names."""
    text = state.get(Machine.KUBECONFIG)
    if text is None:
        return "none"
    assert text, "an empty kubeconfig"
    combined = state[state[Machine.CURRENT].lstrip("/")].decode()
    [certificate, *_] = pki.load_certs(combined.encode())
    assert pki.spki(pki.load_key(combined[combined.index("-----BEGIN EC"):].encode()).public_key()) == pki.spki(certificate.public_key())
    assert pki.load_certs(state[Machine.CA_FILE])
    if text == old.get(Machine.KUBECONFIG):
        assert state[Machine.CURRENT] == old[Machine.CURRENT] or Machine.RECORD in state
        return "old"
    assert json.loads(state[Machine.RECORD])["certificate"] == state[Machine.CURRENT]
    return "new"


@pytest.mark.parametrize("is_rejoin", [False, True], ids=["fresh", "again"])
def test_install(machine, cluster, strace, is_rejoin):
    if is_rejoin:
        before(start=-pki.DAY, end=-pki.HOUR)(machine, cluster.ca)
    machine.put_handoff(cluster.ca, SERVER)
    handoff, old = {path.name: path.read_bytes() for path in machine.state.iterdir()}, read(machine.root)
    found = set()
    for state in replay(machine, machine.root, strace, install_argv(machine)):
        found.add(judge(state, old))
        put(machine.root, state)
        for name, data in handoff.items():
            machine.put_state(name, data)
        machine.inspect().joined()
        assert judge(read(machine.root), {}) == "new" and machine.inspect().note["verdict"] == "usable"
    assert found == {"none", "new"} | ({"old"} if is_rejoin else set())


def test_handoff_that_is_lost(world, strace):
    """Nothing finishes the interrupted join: the certificate of one cluster is never combined with the server of another."""
    machine, found = world.machine, set()
    other_cluster(world)
    machine.put(DATED, OTHER.node(NODE, start=-pki.DAY).combined)
    record = json.loads(machine.read(Machine.RECORD))
    machine.put(Machine.RECORD, json.dumps({**record, "kubeconfig": f"/{Machine.KUBECONFIG}"}), 0o644)
    machine.put_handoff(world.cluster.ca, "https://192.0.2.77:6443")
    old = read(machine.root)
    for state in replay(machine, machine.root, strace, install_argv(machine)):
        put(machine.root, state)
        for path in machine.state.iterdir():
            path.unlink()
        verdict, now = machine.inspect().joined().note["verdict"], read(machine.root)
        found.add(verdict)
        if verdict in ("usable", "other-cluster"):
            assert (verdict == "usable") == (b"192.0.2.77" in now[Machine.KUBECONFIG]) == (now[Machine.CURRENT] != old[Machine.CURRENT])
    assert found == {"other-cluster", "absent", "usable"}


def test_refresh(world, strace):
    machine = world.machine
    machine.unit().joined()
    machine.put_state("refreshed.json", json.dumps(refresh_handoff(machine, [world.cluster.ca.pem, pki.CA("new").pem], server="https://192.0.2.77:6443")))
    old, found = read(machine.root), set()
    for state in replay(machine, machine.root, strace, install_argv(machine, "--refresh")):
        found.add(judge(state, old))
        is_new = [state[path] != old[path] for path in (Machine.CA_FILE, Machine.KUBECONFIG)]
        assert is_new != [False, True], "a kubeconfig before the CA that it needs"
        put(machine.root, state)
        assert machine.inspect().joined().note["verdict"] == "usable"
    assert found == {"old", "new"}


def test_reset(world, strace):
    machine = world.machine
    machine.unit().joined()
    old, found = read(machine.root), set()
    for state in replay(machine, machine.root, strace, install_argv(machine, "--reset")):
        found.add(judge(state, old))
        put(machine.root, state)
        machine.install("--reset").joined()
        assert machine.target_names() == {}
    assert found == {"old", "none"}


def test_setup(machine, strace):
    """The token of one cluster is never beside the settings of another."""
    document, token = "etc/node-bootstrap/config.yaml.d/50-setup.yaml", "etc/credstore/node-bootstrap.token"
    machine.secret_files.append(machine.target(token))
    machine.new_run(setup_argv(machine.root, "10.0.0.1:6443", TOKEN), machine.environment).wait().joined()
    found = set()
    for state in replay(machine, machine.root, strace, setup_argv(machine.root, "10.0.0.2:6443", SECOND)):
        settings = {b"10.0.0.1:": "old", b"10.0.0.2:": "new"}[re.search(rb"10\.0\.0\.[12]:", state[document])[0]]
        assert state.get(token, b"").decode().strip() in ("", {"old": TOKEN, "new": SECOND}[settings]), settings
        found.add((settings, token in state))
    assert found >= {("old", True), ("new", False), ("new", True)}
    assert machine.target(token).read_text().strip() == SECOND
