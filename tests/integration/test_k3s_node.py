# SPDX-License-Identifier: Apache-2.0
"""k3s and RKE2: requests, the node password, RKE2's two ports, the CSR API, and joining again."""

import json
import os
import re

import pytest
from cryptography import x509

from common import apiserver, faults, pki, supervisor
from common.machine import NODE, TOKEN_ID, TOKEN_SOURCE, Machine
from .installed import lose_certificate
from .k3s import PASSWORD_FILE, SERVER_SECRET, USER, K3sWorld, Rejoin, join


@pytest.fixture
def world(tmp_path):
    world = K3sWorld(tmp_path)
    yield world
    world.close()
    world.check()


# The wire.

def test_wire(world):
    """Before verification only /cacerts is requested; what the supervisor stores is sent when it has shown that it signs."""
    join(world).joined()
    first, second, proxy, request, serving = world.server.requests
    for ask in (first, second):
        assert ask.method == "GET" and ask.path == "/cacerts" and not [key for key in ask.headers if "node" in key or key == "cookie"]
    assert len({ask.connection.number for ask in (first, second, request)}) == 3 and proxy.connection == request.connection
    assert (proxy.method, proxy.path) == ("POST", "/v1-k3s/client-kube-proxy.crt") and not [key for key in proxy.headers if "node" in key]
    assert (request.method, request.path, request.user) == ("POST", "/v1-k3s/client-kubelet.crt", f"system:bootstrap:{TOKEN_ID}")
    assert request.headers["k3s-node-name"] == NODE and request.headers["k3s-node-password"] == world.password
    assert "expect" not in request.headers
    csr = x509.load_der_x509_csr(request.body)
    assert csr.is_signature_valid and pki.subject(csr) == (["system:nodes"], [USER]) and len(csr.extensions) == 0
    assert pki.spki(csr.public_key()) == pki.spki(pki.load_key((world.machine.state / "pending.key").read_bytes()).public_key())
    assert (serving.path, serving.body, serving.connection) == ("/v1-k3s/serving-kubelet.crt", request.body, request.connection)
    assert pki.spki(x509.load_der_x509_csr(proxy.body).public_key()) != pki.spki(csr.public_key()), "nobody keeps that key"
    assert world.csrs() == []


def test_user_and_password(world):
    world.give(f"node:{SERVER_SECRET}")
    join(world).joined()
    assert world.server.seen("client-kubelet")[0].user == "node" and world.machine.handoff()["tokenID"] == ""


def test_handoff(world):
    join(world).joined()
    note = world.machine.handoff()
    assert {key: note[key] for key in ("server", "endpoint", "tokenID", "tokenSource", "csr", "ca")} == {
        "server": world.server.url, "endpoint": world.server.endpoint, "tokenID": TOKEN_ID, "tokenSource": TOKEN_SOURCE, "csr": "",
        "ca": world.cluster.ca.pem.decode()}


def test_key_is_durable_before_it_is_used_and_kept(world):
    """A crash after the request asks again with the same key; the supervisor signs as often as it is asked."""
    found = []
    world.server.on("client-kubelet", lambda request: found.append((world.machine.state / "pending.key").read_bytes()))
    world.server.on("client-kubelet", faults.hang_up_instead, times=1)
    world.configure(timeout="60s")
    join(world).joined()
    keys = {pki.spki(x509.load_der_x509_csr(request.body).public_key()) for request in world.server.seen("client-kubelet")}
    assert len(world.server.seen("client-kubelet")) == 2 and len(keys) == 1
    assert keys == {pki.spki(pki.load_key(found[0]).public_key())}


def test_whole_unit(world):
    """All commands of the unit; what kubelet gets, and that the next start sends no request."""
    world.machine.unit().joined()
    certificates, text = world.machine.installed_identity()
    assert pki.subject(certificates[0]) == (["system:nodes"], [USER]) and certificates[1] == world.cluster.signer.cert
    assert world.machine.read(Machine.CA_FILE).encode() == world.cluster.ca.pem
    assert f"server: {world.server.url}" in world.machine.read(Machine.KUBECONFIG).replace('"', "")
    before = len(world.server.requests)
    world.machine.unit().joined()
    assert len(world.server.requests) == before


def test_installer_checks_the_hash_again(world):
    """A compromised network side: its CA is not of the token's hash."""
    join(world).joined()
    path = world.machine.state / "joined.json"
    note = json.loads(path.read_text())
    for ca in (pki.CA("k3s-server-ca@1700000000").pem.decode(), note["ca"] + pki.CA("stranger").pem.decode()):
        path.write_text(json.dumps({**note, "ca": ca}))
        world.machine.install().failed("handoff-untrusted", 76)
    path.write_text(json.dumps(note))
    world.machine.install().joined()


# The password.

def test_password_is_made_once(world):
    world.machine.unit().joined()
    path = world.machine.target(PASSWORD_FILE)
    assert path.stat().st_mode & 0o777 == 0o600 and re.fullmatch(r"[0-9a-f]{32}\n", path.read_text())
    assert list(world.cluster.node_passwords) == [NODE] and world.cluster.check_node_password(NODE, world.password)
    before = path.read_text()
    world.cluster.members.add(NODE)
    lose_certificate(world.machine)
    world.machine.unit().joined()
    assert path.read_text() == before and len(world.server.seen("client-kubelet")) == 2


def test_password_of_k3s_is_taken(world):
    world.machine.put(PASSWORD_FILE, "0f" * 16 + "\n")
    join(world).joined()
    assert world.server.seen("client-kubelet")[0].headers["k3s-node-password"] == "0f" * 16


@pytest.mark.parametrize("text", ["", "\n", "two words\n", "f" * 65, "a\r\nX-Evil: 1\n", "\x00" * 32])
def test_damaged_password(world, text):
    world.machine.put(PASSWORD_FILE, text)
    world.machine.unit().failed("node-password-missing", 66)
    assert world.server.seen("client-kubelet") == [] and world.machine.target(PASSWORD_FILE).read_bytes() == text.encode()


@pytest.mark.parametrize("text", ["two words", "a\r\nX-Evil: 1"])
def test_damaged_copy_of_the_password(world, text):
    """join validates it again: a line break would add a header."""
    world.machine.inspect().joined()
    world.machine.passed.put("/" + PASSWORD_FILE, text)
    world.machine.join().failed("node-password-missing", 66, "no usable node password")
    assert world.server.seen("client-kubelet") == []


def test_password_is_not_left_for_others(world):
    join(world).joined()
    for path in world.machine.state.rglob("*"):
        assert world.password.encode() not in path.read_bytes(), path


def test_other_machine_of_this_name(world):
    world.cluster.check_node_password(NODE, "another")
    world.configure(timeout="8s")
    join(world).failed("node-password-rejected", 77, "hash does not match")
    world.cluster.node_passwords.clear()
    join(world).joined()


def test_other_machine_of_this_name_with_an_old_server(world):
    world.server.on("client-kubelet", faults.answer("Node password validation failed for 'node-1', using passwd file '/var/lib/x'", 403, Content_Type="text/plain"))
    world.configure(timeout="8s")
    join(world).failed("node-password-rejected", 77, "validation failed")


@pytest.mark.parametrize("text, is_status, code", [
    ("some new reason", True, "node-password-rejected"),
    ("some new reason", False, "supervisor-forbidden"),
])
def test_refusal_with_an_unknown_text(world, text, is_status, code):
    """With a Status, only "forbidden" is about the role; without one, only a text that names the password is about it."""
    world.server.on("client-kubelet", (lambda request: apiserver.status(403, "Forbidden", text)) if is_status else
                    faults.answer(text, 403, Content_Type="text/plain"))
    world.configure(timeout="8s")
    join(world).failed(code, 77, text if is_status else "403")


def test_no_password_for_other_clusters(world):
    """The installer makes it for a supervisor alone."""
    world.configure(cluster={"type": "kubernetes"})
    join(world).joined()
    assert world.machine.target_names() == {}


# Another way to the certificate.

def test_csr_api(world):
    world.configure(cluster={"type": "kubernetes"})
    join(world).joined()
    assert world.server.kinds == ["cacerts", "cacerts", "create", "watch"]
    assert world.machine.handoff()["csr"] == world.csrs()[0]
    world.machine.install().joined()


# RKE2.

class RkeWorld(K3sWorld):
    """The supervisor at port 9345, and the API server at 6443 of the same address; each test has an address of its own."""

    program = "rke2"
    # Both ports are fixed, so the address is of this process alone.
    addresses = iter(f"127.{64 + os.getpid() // 256 % 128}.{os.getpid() % 256}.{i}" for i in range(1, 255))

    def endpoint_type(self, cluster):
        address = next(self.addresses)
        identity = cluster.ca.serving([address])
        self.apiserver = apiserver.ApiServer(cluster, (address, 6443), identity=identity).start()
        return supervisor.Supervisor(cluster, (address, 9345), identity=identity, is_apiserver=False)

    def close(self):
        self.apiserver.stop()
        super().close()


@pytest.fixture
def rke(tmp_path):
    world = RkeWorld(tmp_path)
    yield world
    world.close()
    world.check()


def test_rke2(rke):
    """kubelet's server is not the supervisor."""
    join(rke).joined()
    request = rke.server.requests[-2]
    assert request.path == "/v1-rke2/client-kubelet.crt" and rke.server.requests[-1].path == "/v1-rke2/serving-kubelet.crt" and request.headers["rke2-node-password"] == rke.password
    note = rke.machine.handoff()
    assert note["server"] == f"https://{rke.server.host}:6443" and note["endpoint"] == f"{rke.server.host}:9345"
    assert rke.apiserver.connections == []
    rke.machine.install().joined()


def test_rke2_with_the_csr_api(rke):
    rke.configure(cluster={"type": "kubernetes"})
    join(rke).joined()
    assert rke.server.kinds == ["cacerts", "cacerts"] and rke.apiserver.kinds == ["create", "watch"]


def test_rke2_asked_at_the_wrong_port(rke):
    rke.configure(endpoints=[rke.apiserver.endpoint], timeout="8s")
    join(rke).failed("supervisor-missing", 69, "404")


# Joining again: the node's present certificate is tried first.


def test_certificate_goes_first(world):
    """The token may have been removed by then."""
    rejoin = Rejoin(world)
    world.cluster.members.add(NODE)
    world.cluster.tokens[TOKEN_ID].valid = False
    rejoin.join().joined()
    assert rejoin.users == [USER]
    world.machine.install().joined()
    assert world.machine.inspect().note["verdict"] == "usable"


def test_deleted_node_falls_back_to_the_token(world):
    rejoin = Rejoin(world)
    run = rejoin.join().joined()
    assert rejoin.users == [USER, f"system:bootstrap:{TOKEN_ID}"] and "unable to verify node identity" in run.stderr


def test_certificate_is_shown_again(world):
    """A supervisor that starts rejects it, too."""
    rejoin = Rejoin(world)
    world.server.on("client-kubelet", faults.UNAVAILABLE, times=1, skip=1)
    world.configure(timeout="60s")
    rejoin.join().joined()
    assert rejoin.users == 2 * [USER, f"system:bootstrap:{TOKEN_ID}"]


def test_neither_counts(world):
    rejoin = Rejoin(world)
    world.cluster.tokens[TOKEN_ID].valid = False
    world.configure(timeout="8s")
    run = rejoin.join()
    assert run.exit == 0 and "not authorized" in run.stderr and "joining again failed" in run.stderr     # the old one still does


def test_certificate_with_an_old_kind_of_key(world):
    """RSA, as kubelet once made them."""
    rejoin = Rejoin(world, key="rsa")
    world.cluster.members.add(NODE)
    rejoin.join().joined()
    assert rejoin.users == [USER]


def test_expired_certificate_is_not_shown(world):
    rejoin = Rejoin(world, start=-3 * pki.DAY, end=-pki.DAY)
    rejoin.join().joined()
    assert rejoin.users == [f"system:bootstrap:{TOKEN_ID}"]


def test_certificate_of_another_cluster(world):
    world.cluster.others.append(pki.CA("another"))
    rejoin = Rejoin(world, world.cluster.others[0].node(NODE))
    rejoin.join().joined()
    assert rejoin.users == [USER, f"system:bootstrap:{TOKEN_ID}"]


def test_certificate_of_another_name_is_not_shown(world):
    rejoin = Rejoin(world, world.cluster.signer.node("node-2"))
    rejoin.join().joined()
    assert rejoin.users == [f"system:bootstrap:{TOKEN_ID}"]


def test_copy_of_a_certificate_of_another_name_is_not_shown(world):
    rejoin = Rejoin(world)
    world.machine.inspect().joined()
    assert "/" + world.machine.CURRENT in world.machine.passed.files
    world.machine.passed.put("/" + world.machine.CURRENT, world.cluster.signer.node("node-2").combined)
    world.machine.join().joined()
    assert rejoin.users == [f"system:bootstrap:{TOKEN_ID}"]


def test_certificate_is_not_shown_to_a_liar(world):
    rejoin = Rejoin(world)
    liar = world.endpoint(world.liar())
    world.configure(liar, timeout="8s")
    assert "tls-untrusted" in rejoin.join().stderr
    assert liar.seen("client-kubelet") == []
