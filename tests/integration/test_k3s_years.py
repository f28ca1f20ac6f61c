# SPDX-License-Identifier: Apache-2.0
"""k3s: what happens to a node in the years after its join."""

import json

import pytest

from common import apiserver, pki, supervisor
from common.failures import count_remedies
from common.machine import NODE, SECRET, TOKEN_ID, Machine
from .installed import contents, status
from .k3s_joined import CLIENT_CA, RESTART, OldWorld, age, join, joined_long_ago, names, pair, record, refresh

pytestmark = pytest.mark.each_release


@pytest.fixture
def world(tmp_path):
    world = OldWorld(tmp_path)
    yield world
    world.close()
    world.check()


# A renewal that fails.

def test_deleted_node_is_reported_until_it_is_back(world):
    """kubelet is not withheld: the supervisor's refusal is no authority, and a hostile machine would not obey."""
    machine = joined_long_ago(world, timeout="6s")
    world.cluster.members.clear()
    refresh(machine).failed("node-deleted", 71, "has no Node 'node-1'", "unable to verify node identity")
    assert {status(machine, *words).exit for words in ((), ("--monitor",), ("--json",))} == {3}
    due = json.loads(status(machine, "--json").stdout)["certificate"]
    assert due["renewalFailure"] == "node-deleted" and due["renewalOverdueSince"] == due["renewalFrom"]
    text = status(machine).stdout
    assert f"Renewal: overdue since {due['renewalFrom']}: node-deleted: " in text and count_remedies(text, "node-deleted")
    line = status(machine, "--monitor").stdout
    assert line.startswith("RENEWAL OVERDUE: ") and "node-deleted" in line
    metrics = status(machine, "--prometheus").stdout
    assert 'node_bootstrap_certificate_renewal_failure{code="node-deleted"} 1' in metrics
    assert "node_bootstrap_certificate_renewal_overdue_since_timestamp_seconds " in metrics
    run = machine.unit()
    run.joined()
    assert "kubelet's certificate could not be renewed: The cluster has no Node for this machine" in run.stderr
    world.cluster.members.add(NODE)
    refresh(machine).joined()
    assert "renewalFailure" not in record(machine) and "Renewed: by node-bootstrap-refresh.timer" in status(machine).stdout
    assert "could not be renewed" not in machine.unit().stderr


def test_join_forgets_that_a_renewal_has_failed(world):
    machine = joined_long_ago(world, timeout="6s")
    world.cluster.members.clear()
    refresh(machine).failed("node-deleted", 71)
    for path in machine.target(Machine.PKI).glob("kubelet-client-*.pem"):
        path.unlink()
    world.cluster.tokens[TOKEN_ID] = apiserver.Token(SECRET)
    world.give()
    machine.unit().joined()
    assert "renewalFailure" not in record(machine)


def test_renewal_of_which_nothing_is_known(world):
    """No refresh was run: the timer is off."""
    machine = joined_long_ago(world, days=340)
    assert "Renewal: overdue since " in status(machine).stdout
    age(machine, 140)
    assert "overdue" not in status(machine).stdout


def test_renewal_while_servers_start(world):
    machine = joined_long_ago(world, timeout="1h")
    phases = iter([supervisor.HANDLERS, supervisor.HANDLERS, supervisor.CORE, supervisor.NODES] + [supervisor.RUNNING] * 9)
    world.server.on("client-kube-proxy", lambda request: setattr(world.cluster, "phase", next(phases)))
    run = machine.unit("--refresh", faketime="+0 x10")
    run.joined()
    assert record(machine)["refreshedAt"], run.stderr


# The CA of the clients.

def rotated(world, **old):
    """As upstream's rotate-default-ca-certs.sh: a new root, also signed by the old one, with an intermediate CA that issues certificates."""
    cluster, previous = world.cluster, world.cluster.signer
    root = pki.CA("k3s-client-root@1700000000")
    cross = previous._sign(root.key.public_key(), root.cert.subject, previous.cert.subject, -pki.HOUR, 20 * pki.YEAR, ca=True)
    cluster.signer = pki.CA("k3s-client-ca@1700000000", parent=root)
    cluster.certificate = lambda leaf: leaf + b"".join(pki.cert_pem(cert) for cert in (cluster.signer.cert, root.cert, cross, previous.cert))
    cluster.others += [previous, root]
    cluster.old_signers.append(previous)
    return previous


def test_rotation_of_the_clients_ca(world):
    machine = joined_long_ago(world)
    previous = rotated(world)
    refresh(machine).joined()
    certificates = machine.installed_identity()[0]
    assert certificates[1] == world.cluster.signer.cert and certificates[-1] == previous.cert
    for cert, issuer in zip(certificates, certificates[1:]):
        pki.verify(cert, issuer)
    known = pki.load_certs(machine.target(CLIENT_CA).read_bytes())
    assert known == [world.cluster.signer.cert, previous.cert], "the API server may still present a certificate of the old CA"
    age(machine, 1000)
    machine.put(Machine.RECORD, json.dumps({**record(machine), "refreshedAt": ""}))
    world.cluster.life = 2 * pki.YEAR
    refresh(machine).joined()
    assert pki.load_certs(machine.target(CLIENT_CA).read_bytes()) == [world.cluster.signer.cert]


def test_rotation_whose_old_ca_expires_first(world):
    world.cluster.signer = pki.CA("k3s-client-ca@1600000000", start=-5 * pki.YEAR, end=100 * pki.DAY)
    machine = joined_long_ago(world)
    rotated(world)
    before = contents(machine)
    refresh(machine).failed("handoff-untrusted", 76, "the CA of the renewed certificate is new", "join again")
    assert {**contents(machine), Machine.RECORD: b""} == {**before, Machine.RECORD: b""}


# The addresses of kubelet's serving certificate.

def with_addresses(world, *more):
    issue = world.cluster.issue_serving
    world.cluster.issue_serving = lambda csr, node, ips: issue(csr, node, [*ips, *more])
    return issue


def test_address_that_the_machine_no_longer_has(world):
    """A server would refuse the serving certificate for eight months."""
    issue = with_addresses(world, "203.0.113.77")
    machine = join(world)
    world.cluster.issue_serving, world.cluster.life = issue, 2 * pki.YEAR
    before = names(pair(machine)[0])
    run = refresh(machine)
    assert run.exit == 0 and "serving certificate is for 203.0.113.77, which is no longer an address of this machine" in run.stderr
    assert names(pair(machine)[0]) == [name for name in before if name != "203.0.113.77"] and record(machine)["refreshedAt"]
    world.server.requests.clear()
    assert "it is renewed from" in refresh(machine).stderr and world.server.requests == []


def test_early_renewal_that_fails_is_reported(world):
    """Its time has not come, but without it servers refuse the serving certificate."""
    issue = with_addresses(world, "203.0.113.77")
    machine = join(world, timeout="15s")
    world.cluster.issue_serving = issue
    world.cluster.members.clear()
    refresh(machine).failed("node-deleted", 71)
    found, shown = record(machine), json.loads(status(machine, "--json").stdout)["certificate"]
    assert (shown["renewalFailure"], shown["renewalOverdueSince"]) == ("node-deleted", found["renewalFailedAt"])
    assert f"Renewal: overdue since {found['renewalFailedAt']}: node-deleted: " in status(machine).stdout
    refresh(machine).failed("node-deleted", 71)
    assert record(machine)["renewalFailedAt"] == found["renewalFailedAt"]
    world.cluster.members.add(NODE)
    world.cluster.life = 2 * pki.YEAR
    refresh(machine).joined()
    assert not {"renewalFailure", "renewalFailedAt"} & set(record(machine)) and "overdue" not in status(machine).stdout


def test_other_node_ip(world):
    machine = join(world, kubelet={"extraArgs": ["node-ip=203.0.113.3"]})
    assert "it is renewed from" in refresh(machine).stderr, "the address need not be one of this machine"
    world.configure(kubelet={"extraArgs": ["node-ip=203.0.113.4"]})
    machine.unit().joined()
    world.cluster.life = 2 * pki.YEAR
    assert "is not for 203.0.113.4, which is in node-ip" in refresh(machine).joined().stderr
    assert names(pair(machine)[0]) == [NODE, "localhost", "127.0.0.1", "203.0.113.4"]


# Several servers.

def two_servers(world):
    """That of kubelet, and another one."""
    servers = [world.server, world.endpoint()]
    world.configure(*servers)
    world.machine.unit().joined()
    world.cluster.members.add(NODE)
    for server in servers:
        server.requests.clear()
    return sorted(servers, key=lambda server: server.url != record(world.machine)["server"])


def test_server_of_kubelet_is_dead(world):
    """kubelet has no load balancer of its own. No credential is sent, and the renewal is due when it was."""
    (own, other), machine = two_servers(world), world.machine
    due, before = status(machine, "--json").stdout, contents(machine)
    own.close()
    run = machine.unit("--refresh", faketime="+0 x10")
    assert run.exit == 0 and f"the server is {other.url}, previously {own.url}" in run.stderr, run.stderr
    assert f"server: {other.url}" in machine.read(Machine.KUBECONFIG).replace('"', "") and machine.read(RESTART) == "kubelet.service\n"
    assert {path for path, text in contents(machine).items() if text != before.get(path)} == {Machine.KUBECONFIG, Machine.RECORD, RESTART, Machine.CURRENT}
    rotation = [json.loads(text)["certificate"]["renewalFrom"] for text in (due, status(machine, "--json").stdout)]
    assert rotation[0] == rotation[1] and record(machine)["server"] == other.url
    assert {(request.path, request.user) for request in other.requests} == {("/ping", "system:anonymous")}


def test_server_of_kubelet_answers(world):
    (own, other), machine = two_servers(world), world.machine
    before = contents(machine)
    refresh(machine).joined()
    assert contents(machine) == before and [request.path for request in own.requests] == ["/ping"] and other.requests == []


def test_every_server_is_dead(world):
    servers, machine = two_servers(world), world.machine
    before = contents(machine)
    for server in servers:
        server.close()
    machine.unit("--refresh", faketime="+0 x10").failed("refresh-unfinished", 69)
    assert contents(machine) == before
