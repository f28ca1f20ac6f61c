# SPDX-License-Identifier: Apache-2.0
"""k3s: the certificates that its supervisor issues beside kubelet's, and their renewal by refresh."""

import json
import os

import pytest
from cryptography import x509

from common import faults, pki, supervisor
from common.failures import FAILURES
from common.machine import HEADER, NODE, Machine, to_yaml
from .crash import TABLE, moments, points, put_back, save, traced
from .installed import contents, status
from .k3s import PASSWORD_FILE, USER
from .k3s_joined import CERTIFICATE, CLIENT_CA, KEY, MARK, RENEWED, RESTART, SERVING, OldWorld, age, assert_only_noted, join, joined_long_ago, key_of, names, pair, record, refresh
from .kubelet_config import CONFIG, FILTERED

pytestmark = pytest.mark.usefixtures("crash_table")

@pytest.fixture
def world(tmp_path):
    world = OldWorld(tmp_path)
    yield world
    world.close()
    world.check()


# What a join installs.

def test_files_of_a_join(world):
    machine = join(world, kubelet={"extraArgs": ["node-ip=10.1.2.3,FD00:0::5"]})
    assert machine.target(CLIENT_CA).read_bytes() == world.cluster.signer.pem and machine.target(CLIENT_CA).stat().st_mode & 0o777 == 0o644
    leaf, ca = pair(machine)
    assert ca == world.cluster.ca.cert and names(leaf) == [NODE, "localhost", "127.0.0.1", "10.1.2.3", "fd00::5"]
    assert machine.target(MARK).is_file()


def test_address_of_the_machine(world):
    """That of its default route, or that from which it reaches the supervisor."""
    machine = join(world)
    assert len(names(pair(machine)[0])) > 2


def test_other_joins_have_no_such_files(world):
    machine = join(world, cluster={"type": "kubernetes"})
    assert not {CLIENT_CA, CERTIFICATE, KEY, SERVING} & set(machine.target_names()) and not machine.target(MARK).exists()


def test_existing_files_are_set_aside(world):
    """kubelet's own pair, and the administrator's CA."""
    for path in (CERTIFICATE, KEY, CLIENT_CA):
        world.machine.put(path, path)
    machine = join(world)
    pair(machine)
    assert [machine.read(path + ".old") for path in (CERTIFICATE, KEY, CLIENT_CA)] == [CERTIFICATE, KEY, CLIENT_CA]


def test_reset(world):
    machine = join(world)
    machine.install("--reset").joined()
    assert set(machine.target_names()) == {PASSWORD_FILE}


def test_reset_leaves_what_the_join_did_not_write(world):
    machine = join(world)
    machine.target(CERTIFICATE).unlink()
    machine.put(CERTIFICATE, "another")
    run = machine.install("--reset")
    assert run.exit == 0 and f"left     /{CERTIFICATE}: not written by the join" in run.stdout
    assert set(machine.target_names()) == {PASSWORD_FILE, CERTIFICATE}


# When it is renewed.

@pytest.mark.parametrize("days, is_due", [(0, False), (129, False), (131, True)])
def test_when(world, days, is_due):
    """With a third of its life left, which began when it was obtained: it is valid since the CA is."""
    machine = joined_long_ago(world, days)
    before = contents(machine)
    run = refresh(machine)
    assert run.exit == 0 and (contents(machine) != before) is is_due
    assert ("it is renewed from" in run.stderr) is not is_due and bool(world.server.requests) is is_due


def test_key_is_passed_on_only_to_renew(world):
    machine = join(world)
    run = machine.inspect("--refresh")
    assert run.exit == 0 and machine.passed is None, "refresh is not run"
    age(machine, 1000)
    machine.inspect("--refresh").joined()
    assert {"/" + Machine.CURRENT, "/" + PASSWORD_FILE} <= set(machine.passed.files)


def test_renewal(world):
    machine = joined_long_ago(world)
    old, old_serving, before = machine.installed_identity()[0][0], pair(machine)[0], contents(machine)
    run = refresh(machine)
    assert run.exit == 0 and "certificate was renewed by the supervisor" in run.stderr, run.stderr
    (leaf, ca), _ = machine.installed_identity()
    assert pki.subject(leaf) == (["system:nodes"], [USER]) and ca == world.cluster.signer.cert and leaf.not_valid_after > old.not_valid_after
    assert len({key_of(old), key_of(leaf)}) == 2 and key_of(pair(machine)[0]) == key_of(leaf) != key_of(old_serving)
    assert machine.target(CLIENT_CA).read_bytes() == world.cluster.signer.pem
    assert [(request.kind, request.user, request.connection.user) for request in world.server.requests] == [
        (name, "system:node:node-1", USER) for name in ("client-kube-proxy", "client-kubelet", "serving-kubelet")]
    after = contents(machine)
    assert {path for path in after if after[path] != before.get(path)} - {os.readlink(machine.target(Machine.CURRENT))[1:]} == RENEWED - {CLIENT_CA}
    assert machine.read(RESTART) == "kubelet.service\n", "kubelet has read the old one"
    assert record(machine)["certificate"] == os.readlink(machine.target(Machine.CURRENT)) and record(machine)["refreshedAt"]
    assert not list(machine.state.iterdir())
    assert "it is renewed from" in refresh(machine).stderr
    machine.install("--reset").joined()
    assert after[Machine.CURRENT][1:] not in machine.target_names()


def test_node_of_an_earlier_version(world):
    """It has kubelet's own pair: half of another one would keep kubelet from starting."""
    machine = joined_long_ago(world)
    for path in (CERTIFICATE, KEY, SERVING, CLIENT_CA):
        machine.target(path).unlink()
    own = pki.CA("kubelet").serving()
    for path, text in zip((CERTIFICATE, KEY), own.pair):
        machine.put(path, text)
    before = contents(machine)
    refresh(machine).joined()
    assert all(contents(machine)[path] == before[path] for path in (CERTIFICATE, KEY)) and not machine.target(SERVING).exists()
    assert machine.target(CLIENT_CA).exists() and record(machine)["refreshedAt"]


def test_supervisor_of_the_join_is_gone(world):
    other = world.endpoint()
    machine = joined_long_ago(world)
    world.configure(world.server, other)
    machine.unit().joined()
    world.server.close()
    refresh(machine).joined()
    assert other.seen("client-kubelet") and record(machine)["refreshedAt"]


def test_status(world):
    machine = joined_long_ago(world)
    text = status(machine).stdout
    assert "Renewed: by node-bootstrap-refresh.timer, through the supervisor, from " in text and "kubelet itself cannot renew it" in text
    found = json.loads(status(machine, "--json").stdout)["certificate"]
    assert found["renewalFrom"] < pki.now().isoformat() < found["renewalUntil"] == found["notAfter"]


# One that fails.

def deleted(world):
    world.cluster.members.clear()


def starting(world):
    """It knows no Node yet, but the API server does."""
    world.cluster.phase = supervisor.NODES


def without_handlers(world):
    world.cluster.phase = supervisor.HANDLERS


def other_password(world):
    world.machine.put(PASSWORD_FILE, "0f" * 16)


def no_password(world):
    world.machine.target(PASSWORD_FILE).unlink()


def old_server(world):
    world.cluster.signs = False


def not_ready(world):
    world.server.on("client-kubelet", faults.UNAVAILABLE)


def impostor(world):
    world.server.identity = pki.CA("k3s-server-ca@1600000000").serving()


def other_client_ca(world):
    """Its certificates are of no use to this node's kubelet, nor is this node's to the server."""
    known, world.cluster.signer = world.cluster.signer, pki.CA("k3s-client-ca@1700000000")
    world.cluster.others.append(known)


def signed_by_another(world):
    signer = pki.CA("k3s-client-ca@1600000000")
    world.cluster.issue = lambda csr, node: pki.cert_pem(signer.client(csr.public_key(), USER)) + signer.pem


FAILING = {
    "deleted Node": (deleted, "node-deleted"),
    "server that starts, which knows no Node yet": (starting, "refresh-unfinished"),
    "server that starts, whose API server has no handlers yet": (without_handlers, "refresh-unfinished"),
    "another node password": (other_password, "node-password-rejected"),
    "no node password": (no_password, "node-password-missing"),
    "old server": (old_server, "supervisor-too-old"),
    "server that is not ready": (not_ready, "refresh-unfinished"),
    "somebody else in the server's place": (impostor, "tls-untrusted"),
    "another client CA": (other_client_ca, "node-access-revoked"),
    "certificate of another client CA": (signed_by_another, "handoff-untrusted"),
}


@pytest.mark.parametrize("name", FAILING)
def test_nothing_changes(world, name):
    change, code = FAILING[name]
    machine = joined_long_ago(world, timeout="6s")
    change(world)
    before = contents(machine)
    refresh(machine).failed(code, int(FAILURES[code]["exit"]))
    assert_only_noted(machine, before, code)


# The root side takes what the network side leaves for hostile.

def leave(world, *, key=None, certificate=None, serving=None, **changes):
    """A handoff that is accepted, with these changes."""
    machine, cluster, key = world.machine, world.cluster, key or pki.new_key()
    request = x509.load_pem_x509_csr(pki.sign_csr(key, USER))
    note = {"version": 1, "ca": cluster.ca.pem.decode(), "server": world.server.url, "tlsServerName": "", "proxyURL": "",
            "certificate": (certificate or cluster.issue(request, NODE)).decode(),
            "serving": (serving or cluster.issue_serving)(request, NODE, []).decode(), **changes}
    machine.put_state("pending.key", pki.key_pem(key))
    machine.put_state("refreshed.json", json.dumps(note))


def again(world):
    """The pair that is installed; its end has not changed."""
    certificates, text = world.machine.installed_identity()
    leave(world, key=pki.load_key(text[text.rindex("-----BEGIN "):].encode()), certificate=b"".join(map(pki.cert_pem, certificates)))


def client(ca=None, **changes):
    def make(world):
        key, signer = pki.new_key(), ca or world.cluster.signer
        options = {"public_key": key.public_key(), "cn": USER, **changes}
        leave(world, key=key, certificate=pki.cert_pem(signer.client(**options)) + signer.pem)
    return make


def served(ca=None, **changes):
    def make(world):
        def serving(request, node, ips):
            signer = ca or world.cluster.ca
            options = {"public_key": request.public_key(), "cn": NODE, "orgs": (), "eku": (pki.SERVER_AUTH,),
                       "sans": [x509.DNSName(NODE), x509.DNSName("localhost")], **changes}
            return pki.cert_pem(signer.client(**options)) + signer.pem
        leave(world, serving=serving)
    return make


def of_the_old_key(world):
    """The network side has the existing key; it is no CA's."""
    certificates, text = world.machine.installed_identity()
    signer = pki.CA.__new__(pki.CA)
    signer.cert, signer.key, signer.parent, signer.has_identifier = certificates[0], pki.load_key(text.encode()), None, True
    key = pki.new_key()
    leave(world, key=key, certificate=pki.cert_pem(signer.client(key.public_key(), USER)))


def no_key(world):
    leave(world)
    (world.machine.state / "pending.key").unlink()


HOSTILE = {
    "certificate of another CA": (client(pki.CA("k3s-client-ca@1600000000")), "handoff-untrusted"),
    "certificate that the old one has signed": (of_the_old_key, "handoff-untrusted"),
    "certificate for another node": (client(cn="system:node:node-2"), "certificate-unusable"),
    "certificate for another key": (client(public_key=pki.new_key().public_key()), "certificate-unusable"),
    "certificate that has expired": (client(start=-pki.YEAR, end=-pki.DAY), "certificate-unusable"),
    "certificate for servers": (client(eku=(pki.SERVER_AUTH,)), "certificate-unusable"),
    "no key": (no_key, "handoff-malformed"),
    "no certificate": (lambda world: leave(world, certificate=b"no PEM"), "handoff-malformed"),
    "serving certificate of another CA": (served(pki.CA("k3s-server-ca@1600000000")), "certificate-unusable"),
    "serving certificate for another key": (served(public_key=pki.new_key().public_key()), "certificate-unusable"),
    "serving certificate for another machine": (served(sans=[x509.DNSName(NODE), x509.DNSName("localhost"), x509.DNSName("node-2")]), "certificate-unusable"),
    "serving certificate for every machine": (served(sans=[x509.DNSName("*"), x509.DNSName("localhost")]), "certificate-unusable"),
    "serving certificate without a name": (served(sans=[]), "certificate-unusable"),
    "serving certificate for clients": (served(eku=(pki.CLIENT_AUTH,)), "certificate-unusable"),
    "serving certificate that has expired": (served(start=-pki.YEAR, end=-pki.DAY), "certificate-unusable"),
    "the existing certificate once more": (lambda world: again(world), "handoff-untrusted"),
    "another CA beside that of the cluster": (lambda world: leave(world, ca=(world.cluster.ca.pem + pki.CA("new").pem).decode()), "handoff-untrusted"),
    "another server": (lambda world: leave(world, server="https://192.0.2.66:6443"), "handoff-untrusted"),
    "a command beside it": (lambda world: leave(world, exec="sh"), "handoff-malformed"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_note(world, name):
    make, code = HOSTILE[name]
    machine = joined_long_ago(world)
    before = contents(machine)
    make(world)
    machine.install("--refresh").failed(code, int(FAILURES[code]["exit"]))
    assert_only_noted(machine, before, code)
    assert not list(machine.state.iterdir()), "it is not looked at twice"


def test_note_that_is_accepted(world):
    """The one that the hostile ones differ from."""
    machine = joined_long_ago(world)
    leave(world)
    machine.install("--refresh").joined()
    assert record(machine)["refreshedAt"]


def cross_signed(cluster, leaf):
    """A chain that ends in a CA of an attacker, who has issued another certificate of the CA's key."""
    signer, evil = cluster.signer, pki.CA("evil")
    return leaf + evil._sign(signer.key.public_key(), signer.cert.subject, evil.cert.subject, -pki.DAY, pki.YEAR, ca=True).public_bytes(
        pki.serialization.Encoding.PEM) + evil.pem


@pytest.mark.parametrize("when", ["join", "renewal"])
def test_clients_of_another_ca_are_not_trusted(world, when):
    machine = joined_long_ago(world) if when == "renewal" else world.machine
    existing = machine.installed_identity()[0][1:] if when == "renewal" else None
    world.cluster.certificate = lambda leaf: cross_signed(world.cluster, leaf)
    if when == "renewal":
        leave(world)
        machine.install("--refresh").joined()
    else:
        join(world)
    [ca] = pki.load_certs(machine.target(CLIENT_CA).read_bytes())
    assert key_of(ca) == key_of(world.cluster.signer.cert)
    if existing:
        assert [ca] == existing[:1] and machine.installed_identity()[0][1:] == existing, "a certificate of the same key may expire soon"


def test_address_that_the_settings_name_is_missing(world):
    machine = joined_long_ago(world, kubelet={"extraArgs": ["node-ip=10.1.2.3"]})
    leave(world)
    machine.install("--refresh").failed("certificate-unusable", 76, "10.1.2.3")


def test_certificate_for_a_node_that_no_supervisor_has_joined(world):
    machine = join(world, cluster={"type": "kubernetes"})
    before = contents(machine)
    leave(world)
    machine.install("--refresh").failed("handoff-untrusted", 76, "kubelet renews that of this node")
    assert contents(machine) == before


# At every step of the file system work of the root side.

def traced_install(machine, program, inject=None):
    return traced(machine, program, "install", "--program=", f"--root={machine.root}", f"--config-directory={machine.etc}", "--refresh", inject=inject)


def verify_whole(machine, where):
    """Certificate and key belong together, and the CA is that of the certificate."""
    certificates, text = machine.installed_identity()
    assert key_of(certificates[0]) == pki.spki(pki.load_key(text.encode()).public_key()), where
    pair(machine)
    assert machine.target(CLIENT_CA).read_bytes() == pki.cert_pem(certificates[1]), where


def test_installer_is_killed(world, strace):
    """Each file is the old one or the new one, and the next refresh does the rest."""
    machine = joined_long_ago(world)
    before = contents(machine)
    leave(world)
    files = save(machine)
    traced_install(machine, strace).joined()
    found = set()
    for name, number in moments(machine):
        put_back(machine, files)
        run = traced_install(machine, strace, f"{name}:signal=KILL:when={number}")
        where = f"killed at {name} {number}"
        if run.exit == 0:
            continue        # the call was not reached this time
        verify_whole(machine, where)
        now = contents(machine)
        is_new = tuple(now[path] != before[path] for path in (SERVING, Machine.CURRENT, Machine.RECORD))
        assert list(is_new) == sorted(is_new, reverse=True), where
        found.add(is_new)
        TABLE["renewal", name][f"{sum(is_new)} of 3 files new"] += 1
        leave(world)
        machine.install("--refresh").joined()
        verify_whole(machine, where)
        assert machine.read(RESTART) and contents(machine)[Machine.CURRENT] != before[Machine.CURRENT], where
    assert len(found) == 4


def test_installer_meets_an_error(world, strace):
    """All or nothing."""
    machine = joined_long_ago(world)
    before = contents(machine)
    leave(world)
    files = save(machine)
    traced_install(machine, strace).joined()
    failed = 0
    for name, number in [point for point in points(machine) if point[0] in ("renameat2", "fsync", "fchmod", "symlinkat")]:
        put_back(machine, files)
        run = traced_install(machine, strace, f"{name}:error=EIO:when={number}")
        if run.exit == 0:
            verify_whole(machine, f"{name} {number}")
            continue
        run.failed("target-unwritable", 73)
        assert_only_noted(machine, before, "target-unwritable")
        failed += 1
    assert failed > 12


def test_missing_configuration_of_kubelet(world):
    """The API server's client certificate is of another CA than the cluster's."""
    machine = join(world)
    machine.write_settings(HEADER + to_yaml({"kubelet": {"configFrom": "cluster"}}), "config.yaml.d/10.yaml")
    machine.put_state("kubelet-config.yaml", FILTERED)
    machine.install_left().joined()
    assert machine.read(CONFIG) == FILTERED.replace("pki/ca.crt", "pki/client-ca.crt")
