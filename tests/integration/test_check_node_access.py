# SPDX-License-Identifier: Apache-2.0
"""node-bootstrap check on a machine that has joined: whether the API server still accepts the node's certificate."""

import ipaddress
import os

import pytest
from cryptography import x509

from common import faults, pki
from common.apiserver import node_object
from common.failures import FAILURES, count_remedies
from common.machine import NODE, Machine
from .check import step_of, texts
from .check_join import check, put_client, report, states
from .memory import processes_with
from .socket_owners import Watch, assert_unprivileged

USER = pki.node_user(NODE)
UNKNOWN = "certificate: cannot verify it with the API server: "


def rejects_the_node(action=faults.unauthorized):
    """The certificate is rejected, and the token is valid."""
    return lambda request: action(request) if request.user == USER else None


def asked(world):
    return [request.user for request in world.server.seen("review") if request.user.startswith("system:node:")]


def doubtful(world, *words, failure=None):
    """Reported, but no failure: kubelet starts without its API server, too."""
    found = report(world)
    assert found["failure"] == failure and states(found)["node-access"] == "doubt"
    assert texts(found, "node-access").startswith(UNKNOWN)
    for word in words:
        assert word in texts(found, "node-access")


@pytest.mark.parametrize("answer", [None, faults.error(403, "Forbidden", "no"), faults.error(404, "NotFound", "no such thing")], ids=["201", "403", "404"])
def test_accepted(world, answer):
    put_client(world)
    if answer:
        world.server.on("review", rejects_the_node(answer))
    found = report(world)
    assert found["good"] and texts(found, "node-access") == f"certificate: accepted by the API server ({world.server.endpoint})\nNode '{NODE}': Ready"
    assert asked(world) == [USER]


@pytest.mark.parametrize("address, is_served", [("192.0.2.77", True), ("192.0.2.78", False)])
def test_serving_certificate_for_another_address(world, address, is_served):
    """Of a join with k3s."""
    put_client(world)
    leaf = world.cluster.ca.client(pki.new_key().public_key(), NODE, (), eku=(pki.SERVER_AUTH,), sans=[x509.IPAddress(ipaddress.ip_address(address))])
    (world.machine.path / "pki/kubelet-serving.pem").write_bytes(pki.cert_pem(leaf))
    found = report(world)
    assert states(found)["node-access"] == ("good" if is_served else "doubt")
    assert ("for 192.0.2.78, but the Node's address is 192.0.2.77" in texts(found, "node-access")) is not is_served


def test_deleted_node(world):
    put_client(world)
    world.cluster.nodes.clear()
    found = report(world)
    failure = step_of(found, "node-access")["failure"]
    assert found["failure"] == failure["code"] == "node-deleted" and f"{world.server.endpoint} has no Node '{NODE}'" in failure["detail"]


@pytest.mark.parametrize("answer", [node_object(ready="Unknown"), None], ids=["not Ready", "hidden"])
def test_node_that_is_not_ready(world, answer):
    """An answer other than "there is none" is no failure."""
    put_client(world)
    if answer:
        world.cluster.nodes[NODE] = answer
    else:
        world.server.on("node", lambda request: faults.error(403, "Forbidden", "no")(request) if request.user == USER else None)
    found = report(world)
    assert found["good"] and (f"Node '{NODE}': not Ready" in texts(found, "node-access")) is bool(answer)


def test_machine_that_has_not_joined(world):
    assert "node-access" not in states(report(world)) and asked(world) == []


def test_local(world):
    put_client(world)
    assert "API server" not in check(world, "--local").stdout and world.server.connections == []


@pytest.mark.parametrize("action", [faults.unauthorized, faults.forbidden_to("system:anonymous")], ids=["401", "anonymous"])
def test_refused(world, action):
    put_client(world)
    world.server.on("review", rejects_the_node(action))
    found = report(world)
    failure = step_of(found, "node-access")["failure"]
    assert found["failure"] == failure["code"] == "node-access-revoked" and failure["remedy"] == FAILURES["node-access-revoked"]["remedy"]
    assert "kubelet.conf" in failure["detail"] and states(found)["request"] == "good"
    said = check(world)
    assert said.exit == 1 and "  ✗ node-access-revoked: " in said.stdout and count_remedies(said.stdout, failure["code"])


def test_refused_at_first(world):
    """By an API server that has just started, or by one of several: the remedy removes a kubeconfig that is good."""
    put_client(world)
    answers = iter([faults.unauthorized] * 2)
    world.server.on("review", lambda request: next(answers, lambda request: None)(request) if request.user == USER else None)
    found = report(world)
    assert found["good"] and texts(found, "node-access").startswith(f"certificate: accepted by the API server ({world.server.endpoint})\n")
    assert asked(world) == [USER] * 3 and len({request.connection for request in world.server.seen("review") if request.user == USER}) == 3


def test_remedy(world):
    """kubelet's kubeconfig is removed, and the service starts again."""
    machine = world.machine
    machine.put_joined_before(world.cluster.ca.node(NODE), world.server.url, ca=world.cluster.ca)
    machine.unit().joined()
    assert world.csrs() == []
    machine.target(Machine.KUBECONFIG).unlink()
    machine.unit().joined()
    assert len(world.csrs()) == 1 and machine.target(Machine.KUBECONFIG).exists()


def other_ca(world):
    """Rebuilt with its own CA: answers of such a server are ignored. It may close the connection before its certificate is verified."""
    world.stranger_server = world.endpoint(world.stranger())
    return world.stranger_server.url


def server_is_down(world):
    return "https://" + faults.dead_endpoint()


def server_is_busy(world):
    world.server.on("review", rejects_the_node(faults.UNAVAILABLE))


def web_page(world):
    world.server.on("review", rejects_the_node(faults.PORTAL))


@pytest.mark.parametrize("make, word", [(other_ca, ""), (server_is_down, "refused"), (server_is_busy, "503"), (web_page, "JSON")],
                         ids=["another CA", "down", "busy", "web page"])
def test_unknown(world, make, word):
    put_client(world, server=make(world))
    doubtful(world, word)


@pytest.mark.parametrize("edit, words", [
    (lambda text: text.replace("current.pem", "missing.pem"), ["missing.pem", "No such file"]),
    (lambda text: text + "    exec: {command: /bin/true}\n", ["exec"]),
    (lambda text: text.replace("client-key: ", "client-key-data: LS0tLS0K #"), ["client-key", "private key"]),
    (lambda text: text[:text.index("    client-certificate:")] + "    token: abc\n", ["has no client certificate"]),
], ids=["no certificate", "exec plugin", "key", "token"])
def test_kubeconfig_without_a_certificate(world, edit, words):
    put_client(world, edit=edit)
    world.cluster.nodes.clear()
    if "missing.pem" in words:
        (world.machine.path / "pki/node-bootstrap.json").write_text("{}")
    doubtful(world, *words, failure=None if "exec" in words else "join-needed")
    assert asked(world) == []


def test_expired(world):
    put_client(world, world.cluster.ca.node(NODE, start=-2 * pki.DAY, end=-pki.DAY))
    found = report(world)
    assert found["failure"] == "join-needed" and states(found)["node-access"] == "doubt" and "certificate: expired on " in texts(found, "node-access")
    assert asked(world) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_key_is_read_before_the_last_capability_is_gone(world):
    """The process that asks is not root; without root, the files cannot be read."""
    path = put_client(world)
    watch = Watch(world.server)
    assert states(report(world))["node-access"] == "good" and watch.owners
    assert_unprivileged(watch.owners)
    path.parent.chmod(0)
    try:
        run = world.machine.start("/usr/bin/unshare", "--user", world.machine.program("node-bootstrap"), "check", f"--config-directory={world.machine.etc}").wait()
    finally:
        path.parent.chmod(0o700)
    assert f"! {UNKNOWN}'{path}' cannot be read: Permission denied: run as root" in run.stdout, run.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_key_is_gone_before_a_server_is_unverified(world):
    """The process goes on to parse what unverified servers send."""
    identity = world.cluster.ca.node(NODE)
    put_client(world, identity)
    secrets = [pki.key_pem(identity.key).splitlines()[1], identity.key.private_numbers().private_value.to_bytes(32, "big")]
    during = {"review": [], "cluster-info": []}
    for kind, found in during.items():
        world.server.on(kind, lambda request, found=found: found.extend(processes_with(secrets)))
    # The search may take longer than the time limit of a request.
    assert states(report(world, faketime="+0 x0.3"))["discovery"] == "good"
    assert during["review"], "the search finds nothing"
    assert during["cluster-info"] == []
