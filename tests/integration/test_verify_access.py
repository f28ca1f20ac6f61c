# SPDX-License-Identifier: Apache-2.0
"""node.verifyAccess: whether the cluster still accepts the machine's certificate, and what follows."""

import pytest

import apiserver
import faults
import pki
from installed import snapshot
from machine import HEADER, NODE, TOKEN_ID, Machine, node_kubeconfig, to_yaml

USER = pki.node_user(NODE)


def verify(machine, **node):
    machine.write_settings(HEADER + to_yaml({"node": {"verifyAccess": True, **node}}), "config.yaml.d/10.yaml")


@pytest.fixture
def joined(world):
    """A machine that has joined, verifies its access, and could join again."""
    world.machine.put_joined_before(world.cluster.ca.node(NODE), world.server.url, ca=world.cluster.ca)
    verify(world.machine)
    return world


def not_taken(request):
    """The certificate is rejected, and the token is valid."""
    return apiserver.unauthorized() if request.user == USER else None


def asked(world):
    return [request.user for request in world.server.seen("node")]


def stays(world, *words):
    """Nothing changes, kubelet can start, and nothing of the query remains."""
    before = snapshot(world.machine.root)
    run = world.machine.inspect().joined()
    assert run.note["verifyAccess"]
    run = world.machine.join().joined()
    assert list(world.machine.state.iterdir()) == []
    world.machine.install().joined()
    assert snapshot(world.machine.root) == before and world.csrs() == []
    for word in words:
        assert word in run.stderr, f"{word!r} is not in:\n{run.stderr}"
    return run


@pytest.mark.parametrize("answer", [None, faults.error(403, "Forbidden", "no"), faults.error(404, "NotFound", 'nodes "node-1" not found')],
                         ids=["200", "403", "404"])
def test_counts(joined, answer):
    joined.cluster.nodes[NODE] = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": NODE}}
    if answer:
        joined.server.on("node", answer)
    run = stays(joined, "has already joined")
    assert asked(joined) == [USER] and "node-access" not in run.stderr
    assert joined.server.kinds == [] and len(joined.server.connections) == 1


@pytest.mark.parametrize("embedded", [False, True], ids=["files", "embedded"])
def test_embedded(world, embedded):
    """Wherever the kubeconfig has its certificate, as kubeadm and other tools write it."""
    world.machine.put_joined_before(world.cluster.ca.node(NODE), world.server.url, ca=world.cluster.ca, embedded=embedded)
    verify(world.machine)
    stays(world)
    assert asked(world) == [USER]


def test_other_files(world):
    """Paths of the kubeconfig's own, as kubeadm's for a control plane node."""
    identity = world.cluster.ca.node(NODE)
    world.machine.put("var/lib/kubelet/pki/a.crt", identity.chain)
    world.machine.put("var/lib/kubelet/pki/a.key", pki.key_pem(identity.key))
    world.machine.put(Machine.CA_FILE, world.cluster.ca.pem, 0o644)
    world.machine.put(Machine.KUBECONFIG, node_kubeconfig(world.server.url, paths=["/var/lib/kubelet/pki/a.crt", "/var/lib/kubelet/pki/a.key"]))
    verify(world.machine)
    stays(world)
    assert asked(world) == [USER]


def test_not_asked_without(world):
    world.machine.put_joined_before(world.cluster.ca.node(NODE), world.server.url, ca=world.cluster.ca)
    assert "verifyAccess" not in world.machine.inspect().joined().note
    world.machine.unit().joined()
    assert world.server.connections == []


def test_revoked(joined):
    """401 three times: it joins again in the same run, and the old files are set aside."""
    machine = joined.machine
    joined.server.on("node", not_taken)
    old = machine.read(Machine.KUBECONFIG)
    machine.inspect().joined()
    run = machine.join().joined()
    assert "answers 401" in run.stderr
    assert asked(joined) == [USER] * 3 + ["system:bootstrap:" + TOKEN_ID]
    machine.install().joined()
    assert machine.read(Machine.KUBECONFIG + ".old") == old
    [certificate, *_], _ = machine.installed_identity()
    assert certificate.serial_number != pki.load_certs(machine.target(Machine.PKI + "/kubelet-client-2026-01-02-03-04-05.pem").read_bytes())[0].serial_number
    assert len(joined.csrs()) == 1 and list(machine.state.iterdir()) == []


def test_revoked_once(joined):
    """One server of several, or one that has just started: not believed."""
    joined.server.on("node", faults.unauthorized, times=2)
    stays(joined, "has already joined")
    assert asked(joined) == [USER] * 3


def test_revoked_and_nothing_to_join_with(joined):
    (joined.machine.credentials / "node-bootstrap.token").unlink()
    joined.server.on("node", not_taken)
    before = snapshot(joined.machine.root)
    joined.machine.inspect().joined()
    joined.machine.join().failed("token-missing", 66, "answers 401")
    assert snapshot(joined.machine.root) == before


def test_broken_token_is_no_matter(joined):
    """While nothing needs it."""
    joined.machine.set_credential("token", "not a token")
    stays(joined, "has already joined")
    joined.server.on("node", not_taken)
    joined.machine.inspect().joined()
    joined.machine.join().failed("token-malformed", 65)


def other_ca(world):
    """Rebuilt with its own CA: answers of such a server are ignored."""
    world.server.identity = pki.CA("other").serving()


def web_page(world):
    world.server.on("node", faults.PORTAL)


def server_is_down(world):
    faults.shut_down(world.server)


def always_busy(world):
    world.server.on("node", faults.UNAVAILABLE)


@pytest.mark.parametrize("make", [other_ca, web_page, server_is_down, always_busy], ids=lambda make: make.__name__)
def test_cannot_be_told(joined, make):
    """A node must start without its API server."""
    make(joined)
    stays(joined, "cannot verify the certificate")


def test_kubeconfig_that_says_too_much(joined):
    """A kubeconfig with an exec plugin is not used for the query; kubelet may use it."""
    identity = joined.cluster.ca.node(NODE)
    text = node_kubeconfig(joined.server.url, identity) + "    exec: {command: /bin/true}\n"
    joined.machine.put(Machine.KUBECONFIG, text)
    stays(joined, "cannot verify the certificate", "exec")
    assert joined.server.connections == []


# What the root side takes then.

def test_handoff_beside_a_usable_certificate(joined):
    joined.machine.put_handoff(joined.cluster.ca, joined.server.url)
    run = joined.machine.install().joined()
    assert "has joined" in run.stderr and joined.machine.target(Machine.KUBECONFIG + ".old").exists()


def test_handoff_that_nobody_asked_for(world):
    """Without node.verifyAccess what is there is kept, whatever `join` leaves."""
    world.machine.put_joined_before(world.cluster.ca.node(NODE), world.server.url, ca=world.cluster.ca)
    world.machine.put_handoff(world.cluster.ca, world.server.url)
    before = snapshot(world.machine.root)
    world.machine.install().joined()
    assert snapshot(world.machine.root) == before and list(world.machine.state.iterdir()) == []


BAD = [
    ("of another node", {"node": "node-2"}, "certificate-unusable"),
    ("of another cluster", {"ca": pki.CA("other").pem.decode()}, "handoff-untrusted"),
    ("from another endpoint", {"endpoint": "192.0.2.99:6443"}, "handoff-untrusted"),
]


@pytest.mark.parametrize("changes, code", [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_bad_handoff_beside_a_usable_certificate(joined, changes, code):
    """Nothing of it is used, and kubelet starts with the existing files."""
    joined.machine.put_handoff(joined.cluster.ca, joined.server.url, **changes)
    before = snapshot(joined.machine.root)
    run = joined.machine.install().joined()
    assert run.codes == [code] and "so kubelet can start" in run.stderr
    assert snapshot(joined.machine.root) == before


def test_old_handoff_is_not_taken(joined):
    """Left by a crash; the existing certificate is valid, so it stays."""
    joined.machine.put_handoff(joined.cluster.ca, joined.server.url)
    before = snapshot(joined.machine.root)
    joined.machine.unit().joined()
    assert snapshot(joined.machine.root) == before


def test_clock_that_is_behind(world):
    """No request is made: TLS could only fail."""
    world.machine.put_joined_before(world.cluster.ca.node(NODE, start=pki.DAY, end=2 * pki.DAY), world.server.url, ca=world.cluster.ca)
    verify(world.machine)
    run = world.machine.inspect().joined()
    assert run.note["verdict"] == "not-yet-valid" and "verifyAccess" not in run.note
    world.machine.unit().joined()
    assert world.server.connections == []
