# SPDX-License-Identifier: Apache-2.0
"""All other join methods on the real control plane: one machine joins with each in turn, and is reset."""

import json

import pytest
import yaml
from cryptography import x509

from common.wait import until
from .harness import controlplane
from .harness.node import CA_FILE, CONFIG, UNIT
from .harness.web import Proxy, Web

CREDSTORE = "/etc/credstore/node-bootstrap."
GIVEN = "/etc/node-bootstrap/"
SYSTEM_CA = "/usr/local/share/ca-certificates/test.crt"


@pytest.fixture(scope="module")
def booted(new_shared_node):
    node = new_shared_node("methods").enable(UNIT)
    node.boot("--unit=basic.target")
    return node


@pytest.fixture
def node(booted, closing):
    """As if it had just been set up, with a bootstrap token and no settings."""
    booted.forget()
    booted.give(booted.cluster.token())
    yield booted
    booted.run("systemctl", "stop", "kubelet.service", UNIT)


@pytest.fixture
def closing():
    """Closes at the end what a test opened."""
    opened = []
    yield lambda thing: opened.append(thing) or thing
    for thing in opened:
        thing.close()


def configure(node, **sections):
    node.write(CONFIG, yaml.safe_dump({"apiVersion": "node-bootstrap/v1", "kind": "NodeBootstrap", **sections}))


def drop_in(node, text):
    node.drop_in(UNIT, "[Service]\n" + text)


def joined(node, cluster):
    """The unit has started, kubelet runs with its files, and the Node exists."""
    done = node.join(check=False)
    assert done.returncode == 0, node.journal_text("-u", "node-bootstrap", "--lines=40")
    cluster.await_node(node.name)
    entry = node.kubeconfig()["clusters"][0]["cluster"]
    assert entry["server"] == f"https://{cluster.front.endpoint}"
    return entry


def cluster_info(cluster):
    """As in the remedy of discovery-file-unacceptable."""
    return cluster.kubectl("get", "configmap", "cluster-info", "--namespace", "kube-public", "-o", "jsonpath={.data.kubeconfig}")


def only_root_reads(node, *paths):
    """The network side has no permission to read them, but receives their contents."""
    drop_in(node, "".join(f"ExecStartPre=/bin/sh -c '! cat {path} && [ -e {path} ]'\n" for path in paths))


# Discovery by a document.

def test_file(node, cluster):
    node.write(GIVEN + "cluster-info.yaml", cluster_info(cluster), 0o600)
    configure(node, discovery={"file": GIVEN + "cluster-info.yaml"})
    only_root_reads(node, GIVEN + "cluster-info.yaml")
    assert joined(node, cluster)["certificate-authority"] == CA_FILE
    assert x509.load_pem_x509_certificate(node.read(CA_FILE)) == cluster.ca.cert
    assert cluster.csrs(node.name)[0]["spec"]["username"].startswith("system:bootstrap:")


def test_credential(node, cluster):
    node.write(CREDSTORE + "cluster-info", cluster_info(cluster), 0o600)
    assert joined(node, cluster)["certificate-authority"] == CA_FILE


def test_url(node, cluster, closing):
    web = closing(Web(controlplane.new_address(), cluster_info(cluster)))
    node.write(GIVEN + "web.crt", web.ca.pem, 0o600)
    configure(node, discovery={"file": web.url, "urlCAFile": GIVEN + "web.crt"})
    only_root_reads(node, GIVEN + "web.crt")
    assert joined(node, cluster)["certificate-authority"] == CA_FILE
    assert web.certificates == [None]
    [head] = web.heads
    assert head.startswith("GET /cluster-info.yaml HTTP/1.1\r\n") and "authorization" not in head.lower()


@pytest.fixture
def trusted(node):
    """Makes CAs part of the system's bundle, as an administrator does."""
    def trust(*pems):
        node.write(SYSTEM_CA, b"".join(pems))
        node.run("update-ca-certificates")
    node.run("cp", "--archive", "/etc/ssl/certs", "/etc/ssl/before")
    yield trust
    node.path(SYSTEM_CA).unlink()
    node.run("sh", "-ec", "rm -r /etc/ssl/certs && mv /etc/ssl/before /etc/ssl/certs")


@pytest.mark.each_release
def test_url_of_a_server_that_the_system_trusts(node, cluster, trusted, closing):
    web = closing(Web(controlplane.new_address(), cluster_info(cluster)))
    trusted(web.ca.pem)
    configure(node, discovery={"file": web.url})
    assert joined(node, cluster)["certificate-authority"] == CA_FILE


@pytest.mark.each_release
def test_document_without_a_ca(node, cluster, trusted):
    """The API server's certificate is from a CA of the system: nothing is pinned, also not for kubelet."""
    document = yaml.safe_load(cluster_info(cluster))
    del document["clusters"][0]["cluster"]["certificate-authority-data"]
    trusted(cluster.ca.pem)
    node.write(GIVEN + "cluster-info.yaml", yaml.safe_dump(document))
    configure(node, discovery={"file": GIVEN + "cluster-info.yaml"})
    assert joined(node, cluster) == {"server": f"https://{cluster.front.endpoint}"}
    assert not node.exists(CA_FILE)


# Bootstrap identities.

def test_two_tokens(node, cluster):
    """One token only signs cluster-info, the other one only authenticates."""
    node.give(cluster.token(controlplane.POWERLESS_GROUP))
    other = cluster.token(signing=False)
    node.write(CREDSTORE + "tls-bootstrap-token", f"{other}\n", 0o600)
    node.configure()
    joined(node, cluster)
    assert cluster.csrs(node.name)[0]["spec"]["username"] == f"system:bootstrap:{other.id}"


# kubeadm's JoinConfiguration.

JOIN = """apiVersion: kubeadm.k8s.io/{version}
kind: JoinConfiguration
discovery:
  bootstrapToken:
    apiServerEndpoint: {endpoint}
    token: {token}
    caCertHashes: [{pin}]
nodeRegistration:
  name: {name}
  criSocket: unix:///run/containerd/containerd.sock
  taints:
  - {{key: example.org/gpu, value: a100, effect: NoSchedule}}
  kubeletExtraArgs: {arguments}
"""


@pytest.mark.parametrize("as_credential, version", [(False, "v1beta3"), (True, "v1beta4")], ids=["as a file", "as a credential"])
def test_join_configuration(node, cluster, as_credential, version):
    """With a token of the real kubeadm; the Node has its taint and label from the start."""
    words = cluster.join_command().split()
    arguments = [{"name": "node-labels", "value": "pool=gpu"}] if version == "v1beta4" else {"node-labels": "pool=gpu"}
    text = JOIN.format(version=version, endpoint=words[2], token=words[words.index("--token") + 1], name=node.name,
                       pin=words[words.index("--discovery-token-ca-cert-hash") + 1], arguments=json.dumps(arguments))
    node.path("/etc/credstore/node-bootstrap.token").unlink()
    if as_credential:
        node.write(CREDSTORE + "config", text, 0o600)
    else:
        node.write(CONFIG, text, 0o600)
        only_root_reads(node, CONFIG)
    joined(node, cluster)
    found = until(lambda: cluster.node(node.name), "the Node is there")
    assert {"key": "example.org/gpu", "value": "a100", "effect": "NoSchedule"} in found["spec"]["taints"]
    assert found["metadata"]["labels"]["pool"] == "gpu"


# Through the network.

def test_name_with_a_dead_address(node, cluster, closing):
    """Both addresses of a name are tried; the first one drops packets."""
    hole = cluster.new_front()
    hosts = node.read("/etc/hosts")
    node.write("/etc/hosts", hosts + f"{hole.address} cp.example.org\n{cluster.front.address} cp.example.org\n".encode())
    try:
        node.configure(endpoints=["cp.example.org:6443"])
        joined(node, cluster)
    finally:
        node.write("/etc/hosts", hosts)


@pytest.mark.parametrize("endpoint", [pytest.param("[::1]:6443", marks=pytest.mark.each_release), "[::1]", "::1"])
def test_ipv6(node, cluster, closing, endpoint):
    """In any notation. Later requests use the server in cluster-info."""
    relay = node.start("socat", "TCP6-LISTEN:6443,bind=[::1],reuseaddr,fork", f"TCP4:{cluster.front.endpoint}")
    try:
        node.configure(endpoints=[endpoint])
        joined(node, cluster)
        assert "[::1]:6443" in node.journal_text("-u", "node-bootstrap", "--boot")
    finally:
        relay.terminate()
        node.run("pkill", "socat", check=False)
        relay.wait()


@pytest.mark.each_release
def test_proxy_of_the_environment(node, cluster, closing):
    """Only for this unit: kubelet has no such variable, and connects directly."""
    proxy = closing(Proxy(controlplane.new_address()))
    node.configure()
    drop_in(node, f"Environment=HTTPS_PROXY={proxy.url}\n")
    assert "proxy-url" not in joined(node, cluster)
    assert len(proxy.asked) >= 2 and set(proxy.asked) == {cluster.front.endpoint}


@pytest.mark.each_release
@pytest.mark.parametrize("exception", ["{address}", "198.51.100.0/24", "*"])
def test_proxy_that_is_not_for_the_cluster(node, cluster, exception):
    """Nobody is at the proxy's address."""
    node.configure()
    drop_in(node, f"Environment=HTTPS_PROXY=http://127.0.0.1:1 NO_PROXY={exception.format(address=cluster.front.address)}\n")
    joined(node, cluster)


@pytest.mark.each_release
def test_proxy_url(node, cluster, closing):
    """In the document: both connections of the join use it, and kubelet's kubeconfig has it. kubelet itself, when it
    rotates its certificate, uses only its environment (pkg/kubelet/certificate/transport.go), which is not tested here."""
    proxy = closing(Proxy(controlplane.new_address()))
    document = yaml.safe_load(cluster_info(cluster))
    document["clusters"][0]["cluster"]["proxy-url"] = proxy.url
    node.write(CREDSTORE + "cluster-info", yaml.safe_dump(document), 0o600)
    assert joined(node, cluster)["proxy-url"] == proxy.url
    assert len(proxy.asked) >= 2 and set(proxy.asked) == {cluster.front.endpoint}
