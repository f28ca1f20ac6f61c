# SPDX-License-Identifier: Apache-2.0
"""The scripted supervisor itself, tested with a client of the Python standard library: it behaves like that of k3s."""

import base64
import datetime
import hashlib
import http.client
import ssl

import pytest
from cryptography.hazmat.primitives import serialization

from common import apiserver, pki, supervisor
from common.machine import SECRET, TOKEN, TOKEN_ID
from common.wait import PATIENCE

NODE, PASSWORD = "node-1", "8f3a5c7e" * 4
PATH, PROXY = "/v1-k3s/client-kubelet.crt", "/v1-k3s/client-kube-proxy.crt"


@pytest.fixture
def cluster():
    return supervisor.K3s(tokens={TOKEN_ID: apiserver.Token(SECRET)}, passwords={"node": "secret-of-the-server", "server": "other-secret"})


@pytest.fixture
def server(cluster):
    with supervisor.Supervisor(cluster) as server:
        yield server


def call(server, method, path, body=None, *, auth=None, node=NODE, password=PASSWORD, cert=None, program="k3s", ips=None):
    context = ssl.create_default_context(cadata=server.cluster.ca.pem.decode())
    if cert:
        context.load_cert_chain(cert)
    headers = {f"{program}-Node-Name": node, f"{program}-Node-Password": password, f"{program}-Node-IP": ips, "Authorization": auth}
    connection = http.client.HTTPSConnection(server.host, server.port, context=context, timeout=PATIENCE)
    connection.request(method, path, body, {key: value for key, value in headers.items() if value})
    answer = connection.getresponse()
    return answer.status, answer.read()


def der_request(key):
    pem = pki.sign_csr(key, pki.node_user(NODE))
    return pki.x509.load_pem_x509_csr(pem).public_bytes(serialization.Encoding.DER)


def basic(user, password):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def plain(server, path):
    return call(server, "GET", path, node=None, password=None)


def test_cacerts_and_ping_need_nothing(server, cluster):
    assert plain(server, "/ping") == (200, b"pong")
    code, text = plain(server, "/cacerts")
    assert (code, text) == (200, cluster.ca.pem)
    assert cluster.k10(TOKEN) == f"K10{hashlib.sha256(text).hexdigest()}::{TOKEN}"
    assert cluster.violations == []


@pytest.mark.parametrize("auth", [f"Bearer {TOKEN}", basic("node", "secret-of-the-server")])
def test_signs_the_key_of_the_request(server, cluster, auth):
    key = pki.new_key()
    code, text = call(server, "POST", PATH, der_request(key), auth=auth, node=NODE.upper())
    leaf, ca = pki.load_certs(text)
    assert code == 200 and pki.spki(leaf.public_key()) == pki.spki(key.public_key())
    assert pki.subject(leaf) == (["system:nodes"], ["system:node:node-1"]) and ca == cluster.signer.cert
    assert cluster.violations == []


@pytest.mark.parametrize("auth, changes, code, words", [
    (None, {}, 403, b"forbidden"),
    ("Bearer abcdef.aaaaaaaaaaaaaaaa", {}, 401, b"not authorized"),
    (basic("node", "wrong"), {}, 401, b"not authorized"),
    (basic("server", "other-secret"), {}, 403, b"forbidden"),
    (f"Bearer {TOKEN}", {"node": None}, 400, b"node name not set"),
    (f"Bearer {TOKEN}", {"password": None}, 400, b"node password not set"),
    (f"Bearer {TOKEN}", {"program": "rke2"}, 400, b"node name not set"),
])
def test_refusals(server, auth, changes, code, words):
    answer = call(server, "POST", PATH, der_request(pki.new_key()), auth=auth, **changes)
    assert answer[0] == code and words in answer[1]


def test_remembers_the_node_password(server, cluster):
    def ask(password):
        return call(server, "POST", PATH, der_request(pki.new_key()), auth=f"Bearer {TOKEN}", password=password)
    assert [ask(password)[0] for password in (PASSWORD, "f" * 32, PASSWORD)] == [200, 403, 200]
    cluster.node_passwords.clear()
    assert ask("f" * 32)[0] == 200


def test_client_certificate(server, cluster, tmp_path):
    cluster.others.append(pki.CA("another"))
    own, other = cluster.signer.node(NODE).write(tmp_path / "own"), cluster.others[0].node(NODE).write(tmp_path / "other")

    def ask(cert, **changes):
        return call(server, "POST", PATH, der_request(pki.new_key()), cert=cert, **changes)
    assert ask(own)[0] == 401 and b"unable to verify node identity" in ask(own)[1]
    cluster.members.add(NODE)
    assert ask(own)[0] == 200 and ask(other)[0] == 401 and ask(own, node="node-2")[0] == 400
    assert ask(cluster.signer.node(NODE, start=-2 * pki.DAY, end=-pki.DAY).write(tmp_path / "expired"))[0] == 401


PASSWORD_AUTH = basic("node", "secret-of-the-server")


@pytest.mark.parametrize("phase, token, password, certificate", [
    (supervisor.HANDLERS, 403, 503, 503),
    (supervisor.CACHES, 401, 503, 503),
    (supervisor.CORE, 503, 503, 503),
    (supervisor.NODES, 200, 200, 401),
    (supervisor.RUNNING, 200, 200, 200),
])
def test_start(server, cluster, tmp_path, phase, token, password, certificate):
    cluster.phase = phase
    cluster.members.add(NODE)
    identity = cluster.signer.node(NODE).write(tmp_path / "own")
    asked = [call(server, "POST", PATH, der_request(pki.new_key()), **options)[0]
             for options in ({"auth": f"Bearer {TOKEN}"}, {"auth": PASSWORD_AUTH}, {"cert": identity})]
    assert asked == [token, password, certificate]
    assert call(server, "POST", PROXY, der_request(pki.new_key()), auth=PASSWORD_AUTH, node=None, password=None)[0] == 200


def test_without_router(server, cluster):
    cluster.phase = supervisor.ROUTER
    assert {plain(server, path)[0] for path in ("/cacerts", "/ping", "/version", PATH)} == {503} and b'"starting"' in plain(server, "/cacerts")[1]


def test_too_many_at_once(server, cluster):
    cluster.crowd = supervisor.MOST_REQUESTS
    code, text = call(server, "POST", PATH, der_request(pki.new_key()), auth=f"Bearer {TOKEN}")
    assert code == 429 and text.startswith(b"Too many requests")


@pytest.mark.parametrize("phase, code", [(supervisor.HANDLERS, 403), (supervisor.CACHES, 401), (supervisor.CORE, 503), (supervisor.RUNNING, 200)])
def test_readyz(server, cluster, phase, code):
    cluster.phase = phase
    assert call(server, "GET", "/v1-k3s/readyz", auth=f"Bearer {TOKEN}", node=None, password=None)[0] == code


def test_address_that_is_none(server):
    path = "/v1-k3s/serving-kubelet.crt"
    assert call(server, "POST", path, der_request(pki.new_key()), auth=f"Bearer {TOKEN}", ips="10.0.0.5,node-1")[0] == 500


def test_the_rest_is_the_kubernetes_api(server):
    """Which knows bootstrap tokens, but no passwords."""
    assert b"gitVersion" in plain(server, "/version")[1]
    assert call(server, "GET", "/version", auth=f"Bearer {TOKEN}", node=None, password=None)[0] == 200
    assert call(server, "GET", "/version", auth=basic("node", "secret-of-the-server"), node=None, password=None)[0] == 401


@pytest.mark.parametrize("is_old", [False, True])
def test_needs_no_password_for_kube_proxy(server, cluster, is_old):
    cluster.signs, key = not is_old, pki.new_key()
    code, text = call(server, "POST", PROXY, der_request(key), auth=basic("node", "secret-of-the-server"), node=None, password=None)
    assert code == 200 and (b"PRIVATE KEY" in text) is is_old and cluster.node_passwords == {}
    assert (pki.spki(pki.load_certs(text)[0].public_key()) == pki.spki(key.public_key())) is not is_old


def test_certificates_are_valid_since_the_ca_is(server, cluster):
    cluster.signer = pki.CA("k3s-client-ca@1600000000", start=-5 * pki.YEAR)
    leaf = pki.load_certs(call(server, "POST", PATH, der_request(pki.new_key()), auth=f"Bearer {TOKEN}")[1])[0]
    assert abs(pki.begin(leaf) - pki.begin(cluster.signer.cert)) < datetime.timedelta(seconds=5)


def test_what_must_not_be_sent_is_seen(server, cluster):
    call(server, "GET", "/cacerts", auth=f"Bearer {TOKEN}", node=None, password=None)
    call(server, "GET", "/ping")
    assert [line.split(":")[0] for line in cluster.violations] == ["credential sent for /cacerts", "node password sent where nobody asks for it"]
