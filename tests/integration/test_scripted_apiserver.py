# SPDX-License-Identifier: Apache-2.0
"""The scripted server itself, tested with a client of the Python standard library: it behaves like kube-apiserver."""

import base64
import http.client
import json
import os
import socket
import ssl
import subprocess
import sys

import pytest
from cryptography import x509

from common import SOURCE, apiserver, csrs, faults, pki
from common.wait import PATIENCE, until

NODE = "node-1"


class Client:
    def __init__(self, server, *, ca=None, token=None, cert=None):
        context = ssl.create_default_context(cadata=ca.pem.decode()) if ca else ssl._create_unverified_context()
        if cert:
            context.load_cert_chain(cert)
        self.http = http.client.HTTPSConnection(server.host, server.port, context=context, timeout=PATIENCE)
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    def raw(self, method, path, body=None):
        self.http.request(method, path, json.dumps(body) if body is not None else None, self.headers)
        return self.http.getresponse()

    def call(self, method, path, body=None):
        answer = self.raw(method, path, body)
        return answer.status, json.loads(answer.read())

    def watch(self, version, **query):
        text = "&".join(f"{k}={v}" for k, v in query.items())
        answer = self.raw("GET", f"{apiserver.CSRS}?watch=true&resourceVersion={version}&{text}")
        assert answer.status == 200
        for line in answer:
            yield json.loads(line)


def csr_object(key, node=NODE):
    cn = pki.node_user(node)
    return csrs.make(pki.sign_csr(key, cn), pki.csr_name(key.public_key(), cn))


@pytest.fixture
def client(server, cluster, token):
    return Client(server, ca=cluster.ca, token=token)


def test_happy_path(server, cluster, client, token, tmp_path):
    code, info = Client(server).call("GET", apiserver.CLUSTER_INFO)
    assert code == 200 and server.url in info["data"]["kubeconfig"]
    token_id, secret = token.split(".")
    assert info["data"]["jws-kubeconfig-" + token_id] == pki.jws(info["data"]["kubeconfig"], token_id, secret)

    key = pki.new_key()
    obj = csr_object(key)
    code, made = client.call("POST", apiserver.CSRS, obj)
    assert code == 201 and made["metadata"]["uid"] and made["spec"]["username"] == "system:bootstrap:" + token_id

    pem = None
    for event in client.watch(made["metadata"]["resourceVersion"], timeoutSeconds=20, allowWatchBookmarks="true",
                              fieldSelector="metadata.name%3D" + obj["metadata"]["name"]):
        assert event["type"] == "MODIFIED" and event["object"]["metadata"]["uid"] == made["metadata"]["uid"]
        if "certificate" in event["object"]["status"]:
            pem = base64.b64decode(event["object"]["status"]["certificate"])
            break
    cert, = pki.load_certs(pem)
    assert pki.subject(cert) == (["system:nodes"], ["system:node:node-1"])
    assert pki.spki(cert.public_key()) == pki.spki(key.public_key())
    assert [c.number for c in server.connections] == [1, 2] and server.kinds == ["cluster-info", "create", "watch"]

    combined = pki.Identity(key, cert).write(tmp_path / "node.pem")
    assert Client(server, ca=cluster.ca, cert=combined).raw("GET", "/healthz").status == 200
    assert server.requests[-1].user == "system:node:node-1"
    assert cluster.violations == []


def test_signature_vectors():
    """The published vectors of cluster-bootstrap."""
    text = "Hello from the other side. I must have called a thousand times."
    assert pki.jws(text, "joshua", "my voice is my passcode") == (
        "eyJhbGciOiJIUzI1NiIsImtpZCI6Impvc2h1YSJ9..VShe2taLd-YTrmWuRkcL_8QTNDHYxQIEBsAYYiIj1_8")
    assert pki.jws("payload", "abc123", "tokenSecret").endswith("..QSxpUG7Q542CirTI2ECPSZjvBOJURUW5a7XqFpNI958")


@pytest.mark.parametrize("bearer, code, words", [
    ("abcdef.0000000000000000", 401, "Unauthorized"),
    ("nonsense", 401, "Unauthorized"),
    (None, 403, 'User "system:anonymous" cannot create resource "certificatesigningrequests"'),
    ("nobody.0123456789abcdef", 403, 'User "system:bootstrap:nobody" cannot create'),
], ids=["wrong secret", "not a token", "no token", "token without the group"])
def test_401_and_403(server, cluster, bearer, code, words):
    cluster.tokens["nobody"] = apiserver.Token("0123456789abcdef", may=())
    answer, obj = Client(server, token=bearer).call("POST", apiserver.CSRS, csr_object(pki.new_key()))
    assert (answer, obj["kind"], obj["code"]) == (code, "Status", code) and words in obj["message"]


def test_errors_of_create_and_get(client):
    obj = csr_object(pki.new_key())
    assert client.call("POST", apiserver.CSRS, obj)[0] == 201
    code, answer = client.call("POST", apiserver.CSRS, obj)
    assert code == 409 and answer["reason"] == "AlreadyExists" and answer["details"]["name"] == obj["metadata"]["name"]
    assert client.call("GET", f"{apiserver.CSRS}/{obj['metadata']['name']}")[1]["metadata"]["name"] == obj["metadata"]["name"]
    assert client.call("GET", f"{apiserver.CSRS}/nosuch")[1]["reason"] == "NotFound"
    new = csr_object(pki.new_key())
    new["spec"]["request"] = base64.b64encode(base64.b64decode(new["spec"]["request"]).replace(b"CERTIFICATE", b"NEW CERTIFICATE")).decode()
    code, answer = client.call("POST", apiserver.CSRS, new)
    assert code == 422 and "PEM block type must be CERTIFICATE REQUEST" in answer["message"]


def test_list_and_watch_versions(cluster, client):
    cluster.controller = csrs.never
    for node in ("a", "b"):
        client.call("POST", apiserver.CSRS, csr_object(pki.new_key(), node))
    first, second = cluster.csrs.wait_for(2)
    _, listed = client.call("GET", apiserver.CSRS)
    assert [item["metadata"]["name"] for item in listed["items"]] == [first, second]
    assert [e["type"] for e in client.watch(0, timeoutSeconds=0)] == ["ADDED", "ADDED"]
    version = listed["metadata"]["resourceVersion"]
    cluster.csrs.delete(second)
    selected = client.watch(version, timeoutSeconds=1, fieldSelector="metadata.name%3D" + second, allowWatchBookmarks="true")
    assert [e["type"] for e in selected] == ["DELETED", "BOOKMARK"]
    cluster.csrs.forget()
    event, = client.watch(version, timeoutSeconds=1)
    assert event["type"] == "ERROR" and event["object"]["code"] == 410


def test_keep_alive_and_rules(server, client):
    server.on("any", faults.UNAVAILABLE, times=2, skip=1)
    assert [client.call("GET", apiserver.CSRS)[0] for _ in range(4)] == [200, 503, 503, 200]
    assert len(server.connections) == 1


@pytest.mark.parametrize("action", [faults.cut, faults.hang_up_instead, faults.stall_after_headers, faults.stall],
                         ids=lambda action: action.__name__)
def test_answers_that_stop(server, client, action):
    server.on("any", action)
    client.http.timeout = 0.5
    with pytest.raises((http.client.HTTPException, OSError)):
        client.call("GET", apiserver.CSRS)


@pytest.mark.parametrize("action", [faults.flood, faults.flood_of_brackets], ids=lambda action: action.__name__)
def test_answers_without_end(server, client, action):
    server.on("any", action)
    assert len(client.raw("GET", apiserver.CSRS).read(1 << 20)) == 1 << 20


@pytest.mark.parametrize("action", [faults.stall_before_tls, faults.reset, faults.hang_up, faults.plain_http, faults.garbage_before_tls],
                         ids=lambda action: action.__name__)
def test_connections_that_fail(server, client, action):
    server.on_connect = action
    client.http.timeout = 0.5
    with pytest.raises(OSError):
        client.call("GET", apiserver.CSRS)


def test_black_hole():
    hole = faults.BlackHole()
    host, port = hole.endpoint.split(":")
    with pytest.raises(TimeoutError):
        socket.create_connection((host, int(port)), timeout=0.5)
    hole.close()
    with pytest.raises(ConnectionRefusedError):
        host, port = faults.dead_endpoint().split(":")
        socket.create_connection((host, int(port)), timeout=5)


def test_violations_are_recorded(server, cluster, token):
    Client(server, token=token).call("GET", apiserver.CLUSTER_INFO)
    Client(server).call("GET", apiserver.CLUSTER_INFO + "?token=" + token)
    stranger = pki.CA()
    server.identity = stranger.serving()
    Client(server, token=token).call("GET", apiserver.CSRS)
    assert [words in found for words, found in zip(("credential sent for cluster-info", "secret outside", "does not vouch for"),
                                                   cluster.violations)] == [True, True, True]
    assert token.split(".")[1] not in repr(server.requests[0].headers)
    cluster.violations.clear()


def test_program(tmp_path):
    """The demonstration program writes what a machine needs, and ends on request."""
    child = subprocess.Popen([sys.executable, "-B", "-m", "common.apiserver", "--directory", tmp_path, "--approve", "0"], cwd=SOURCE / "tests",
                             stdout=subprocess.PIPE, text=True)
    try:
        until((tmp_path / "port").exists, "the files are written")
        files = {name: (tmp_path / name).read_text() for name in ("ca.crt", "pin", "token", "endpoint", "port")}
        assert os.stat(tmp_path / "token").st_mode & 0o777 == 0o600
        assert pki.pin(x509.load_pem_x509_certificate(files["ca.crt"].encode())) == files["pin"].strip()
        context = ssl.create_default_context(cadata=files["ca.crt"])
        http_client = http.client.HTTPSConnection("127.0.0.1", int(files["port"]), context=context, timeout=PATIENCE)
        http_client.request("POST", apiserver.CSRS, json.dumps(csr_object(pki.new_key())), {"Authorization": "Bearer " + files["token"].strip()})
        assert http_client.getresponse().status == 201
    finally:
        child.terminate()
        output, _ = child.communicate(timeout=PATIENCE)
    assert files["endpoint"].strip() in output and " 201 system:bootstrap:" in output
    assert files["token"].strip().split(".")[1] not in output
