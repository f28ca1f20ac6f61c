# SPDX-License-Identifier: Apache-2.0
"""A k3s server as the scripted supervisor of tests/integration plays it: the real unit, its sandbox and its two users."""

import stat
import sys

import pytest
import yaml
from harness import network
from harness.node import CA_FILE, CONFIG, CURRENT, SOURCE, UNIT

sys.path.append(str(SOURCE / "tests/integration"))

import apiserver  # noqa: E402
import pki  # noqa: E402
import supervisor  # noqa: E402

ADDRESS = "198.51.100.93"
TOKEN = "k3sk3s.0123456789abcdef"
PASSWORD = "/etc/rancher/node/password"


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
    """A fresh machine: the folder of the node password is made for it."""
    assert not agent.exists("/etc/rancher")
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
    server.cluster.nodes.add(agent.name)
    for token in server.cluster.tokens.values():
        token.valid = False
    agent.join("restart")
    assert server.seen("client-kubelet")[-1].connection.user == pki.node_user(agent.name)
    assert agent.read(agent.dated()) != identity


SETTINGS = {
    "block": "cluster:\n  type: k3s\n", "flow": "cluster: {type: k3s}\n", "JSON": '"cluster": {"type": "k3s"}\n',
}


@pytest.mark.parametrize("form", SETTINGS)
def test_folder_by_the_settings(agent, server, form):
    """A token without a hash does not identify the CA."""
    agent.give(TOKEN)
    agent.write(CONFIG, agent.read(CONFIG).decode() + SETTINGS[form])
    agent.enable(UNIT).boot("--unit=basic.target")
    agent.join(check=False)
    assert agent.await_end()[0] == "failed" and agent.exists(PASSWORD)


def test_no_folder_on_other_machines(node):
    node.enable(UNIT).boot("--unit=basic.target")
    node.join()
    assert not node.exists("/etc/rancher")


def test_no_place_for_the_password(agent, server):
    """Something else is there."""
    agent.write("/etc/rancher", "")
    agent.enable(UNIT).boot("--unit=basic.target")
    before = agent.tree()
    agent.join(check=False)
    agent.assert_failed("target-unwritable", before)
    assert server.connections == []
    agent.path("/etc/rancher").unlink()
    agent.join()
