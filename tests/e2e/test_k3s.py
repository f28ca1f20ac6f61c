# SPDX-License-Identifier: Apache-2.0
"""A k3s server as the scripted supervisor of tests/integration plays it: the real unit, its sandbox and its two users, a real kubelet."""

import http.client
import json
import re
import ssl
import stat

import pytest
import yaml

from common import apiserver, pki, supervisor
from common.documentation import commands
from common.failures import FAILURES, GENERATOR
from common.wait import until
from .harness import network
from .harness.node import CA_FILE, CONFIG, CURRENT, PKI, UNIT

ADDRESS = "198.51.100.93"
TOKEN = "k3sk3s.0123456789abcdef"
PASSWORD = "/etc/rancher/node/password"
KUBELET_CONFIG = "/var/lib/kubelet/config.yaml"
CLIENT_CA = "/etc/kubernetes/pki/client-ca.crt"
REFRESH, TIMER = "node-bootstrap-refresh.service", "node-bootstrap-refresh.timer"


@pytest.fixture
def server():
    token_id, secret = TOKEN.split(".")
    cluster = supervisor.K3s(tokens={token_id: apiserver.Token(secret)})
    network.reach(ADDRESS)
    with supervisor.Supervisor(cluster, (ADDRESS, 6443), identity=cluster.ca.serving([ADDRESS])) as server:
        yield server
    network.lose(ADDRESS)
    assert cluster.violations == []


@pytest.fixture
def agent(new_node, server):
    """A machine with the full token of k3s, not booted yet."""
    node = new_node().give(server.cluster.k10(TOKEN))
    node.write(CONFIG, yaml.safe_dump({"apiVersion": "node-bootstrap/v1", "kind": "NodeBootstrap", "discovery": {"endpoints": [ADDRESS]}}))
    return node


@pytest.mark.each_release
def test_joins(agent, server):
    """A fresh machine."""
    agent.enable(UNIT).boot()
    assert agent.await_end() == ("active", 0)
    leaf = agent.certificate()
    assert pki.subject(leaf) == (["system:nodes"], [pki.node_user(agent.name)]) and leaf.issuer == server.cluster.signer.cert.subject
    assert agent.read(CA_FILE) == server.cluster.ca.pem
    assert agent.kubeconfig()["clusters"][0]["cluster"]["server"] == f"https://{ADDRESS}:6443"
    found = agent.path(PASSWORD).stat()
    assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (0, 0o600)
    sent = server.seen("client-kubelet")[0].headers["k3s-node-password"]
    assert agent.read(PASSWORD).decode() == sent + "\n" and sent not in agent.journal_text("--all")


def test_certificate_goes_first(agent, server):
    """A node whose certificate is a file instead of a link joins again, without the token."""
    agent.enable(UNIT).boot("--unit=basic.target")
    agent.join()
    identity = agent.read(agent.dated())
    agent.path(CURRENT).unlink()
    agent.write(CURRENT, identity, 0o600)
    server.cluster.members.add(agent.name)
    for token in server.cluster.tokens.values():
        token.valid = False
    agent.join("restart")
    assert server.seen("client-kubelet")[-1].connection.user == pki.node_user(agent.name)
    assert agent.read(agent.dated()) != identity


def ask_kubelet(agent, ca, identity):
    """The status of kubelet's answer to the API server, and the serial number of its certificate, which the server CA verifies."""
    context = ssl.create_default_context(cadata=ca.pem.decode())
    context.load_cert_chain(identity)
    connection = http.client.HTTPSConnection(agent.address, 10250, context=context, timeout=5)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status, int(connection.sock.getpeercert()["serialNumber"], 16)
    except OSError as failure:
        return str(failure), 0


def serials(server):
    """Of the certificates that clients have presented to the API server."""
    return {int(request.connection.peer["serialNumber"], 16) for request in server.requests if request.connection.peer and request.path.startswith("/api")}


def test_kubelet_uses_renewed_certificates(agent, server, tmp_path):
    """And before that those of the join: the API server can reach it. Its own rotation stays pending, as with k3s."""
    cluster = server.cluster
    config = yaml.safe_load(agent.read(KUBELET_CONFIG))
    config["authentication"]["x509"]["clientCAFile"] = CLIENT_CA
    agent.write(KUBELET_CONFIG, yaml.safe_dump({**config, "rotateCertificates": True}))
    cluster.life = pki.DAY
    agent.enable(UNIT).boot()
    assert agent.await_end() == ("active", 0)
    until(lambda: agent.is_active(TIMER), "the refresh is automatic")
    first, served = agent.certificate(), pki.load_certs(agent.read(f"{PKI}/kubelet.crt"))[0]
    identity = cluster.signer.node("kube-apiserver").write(tmp_path / "apiserver")
    until(lambda: ask_kubelet(agent, cluster.ca, identity) == (200, served.serial_number), "kubelet serves the certificate of the join")
    stranger = pki.CA("stranger").node("kube-apiserver").write(tmp_path / "stranger")
    assert ask_kubelet(agent, cluster.ca, stranger)[0] == 401
    until(lambda: first.serial_number in serials(server), "kubelet presents the certificate of the join")

    pid = agent.kubelet_pid()
    agent.run("systemctl", "start", REFRESH)
    assert agent.certificate() == first and agent.kubelet_pid() == pid, "it is new"
    record = f"{PKI}/node-bootstrap.json"
    agent.write(record, json.dumps({**json.loads(agent.read(record)), "joinedAt": "2026-01-02T03:04:05Z"}))
    cluster.life = pki.YEAR
    cluster.members.add(agent.name)
    cluster.tokens.clear()
    agent.run("systemctl", "start", REFRESH)
    renewed, serving = agent.certificate(), pki.load_certs(agent.read(f"{PKI}/kubelet.crt"))[0]
    assert len({certificate.serial_number for certificate in (first, served, renewed, serving)}) == 4
    until(lambda: ask_kubelet(agent, cluster.ca, identity) == (200, serving.serial_number), "kubelet serves the renewed certificate")
    until(lambda: renewed.serial_number in serials(server), "kubelet presents the renewed certificate")
    assert agent.kubelet_pid() not in (0, pid) and agent.certificate() == renewed and agent.is_active(UNIT)
    assert "through the supervisor" in agent.run("node-bootstrap", "status").stdout
    assert not agent.exists("/var/lib/private/node-bootstrap-refresh/pending.key")


def served_names(agent):
    return [str(name.value) for name in pki.load_certs(agent.read(f"{PKI}/kubelet.crt"))[0].extensions.get_extension_for_class(
        pki.x509.SubjectAlternativeName).value]


def make_due(agent, server):
    record = f"{PKI}/node-bootstrap.json"
    agent.write(record, json.dumps({**json.loads(agent.read(record)), "joinedAt": "2026-01-02T03:04:05Z", "refreshedAt": ""}))
    server.cluster.members.add(agent.name)


def test_example_of_the_document(new_node, server):
    """docs/k3s.md, on a machine whose container needs more of kubelet's configuration; then the password is lost."""
    agent = new_node()
    own = yaml.safe_load(agent.read(KUBELET_CONFIG))
    agent.boot("--unit=basic.target")
    agent.write("/root/k3s-token", server.cluster.k10(TOKEN), 0o600)
    server.cluster.life = pki.DAY
    write, setup = re.fullmatch(r"(.*\nEOF\n)(.*)\n", commands("k3s-node"), re.S).groups()
    agent.run("sh", "-ec", write)
    agent.write(KUBELET_CONFIG, yaml.safe_dump({**yaml.safe_load(agent.read(KUBELET_CONFIG)), **{
        key: own[key] for key in own if key not in ("authentication", "authorization", "rotateCertificates")}}))
    said = agent.run("sh", "-ec", f"cd /root && {setup.replace('k3s.example.com', ADDRESS)}").stdout
    assert "kubelet is running" in said and "clientCAFile" not in said and "rotateCertificates" not in said, said
    assert agent.is_active(TIMER) and yaml.safe_load(agent.read(KUBELET_CONFIG))["authentication"]["x509"]["clientCAFile"] == CLIENT_CA

    agent.path(PASSWORD).unlink()
    make_due(agent, server)
    server.cluster.life = 2 * pki.YEAR
    agent.run("systemctl", "start", REFRESH, check=False)
    assert "node-password-missing" in agent.run("node-bootstrap", "status", check=False).stdout
    create, refresh = (one for one in GENERATOR.commands(FAILURES["node-password-missing"]["remedy"]) if one.startswith(("od ", "systemctl start ")))
    agent.run("sh", "-ec", create)
    assert stat.S_IMODE(agent.path(PASSWORD).stat().st_mode) == 0o600
    agent.run("sh", "-ec", refresh, check=False)
    assert "node-password-rejected" in agent.run("node-bootstrap", "status", check=False).stdout, "a server refuses a new password"
    server.cluster.node_passwords.clear()
    agent.run("sh", "-ec", refresh)
    until(lambda: "State: joined, and kubelet is running" in agent.run("node-bootstrap", "status", check=False).stdout, "kubelet was restarted")


def test_addresses(agent, server):
    """kubelet chooses the address to which the node's name resolves; both are served, until the machine has lost one."""
    server.cluster.life = pki.DAY
    agent.enable(UNIT).boot("--unit=basic.target")
    agent.run("ip", "address", "add", "10.77.0.77/32", "dev", "lo")
    agent.write("/etc/hosts", f"127.0.0.1 localhost\n10.77.0.77 {agent.name}\n")
    agent.join()
    assert served_names(agent) == [agent.name, "localhost", "127.0.0.1", agent.address, "10.77.0.77"]
    server.cluster.members.add(agent.name)
    server.cluster.life = 2 * pki.YEAR
    agent.run("systemctl", "start", REFRESH)
    assert "10.77.0.77" in served_names(agent)
    agent.run("ip", "address", "del", "10.77.0.77/32", "dev", "lo")
    agent.run("systemctl", "start", REFRESH)
    assert served_names(agent) == [agent.name, "localhost", "127.0.0.1", agent.address]


def test_no_place_for_the_password(agent, server):
    """Something else is there."""
    agent.write("/etc/rancher", "")
    agent.enable(UNIT).boot("--unit=basic.target")
    before = agent.tree()
    agent.join(check=False)
    agent.assert_failed("target-unwritable", before)
    assert server.connections == []
    agent.path("/etc/rancher").unlink()
    agent.run("mkdir", "--parents", "/etc/rancher/node")
    agent.join()
