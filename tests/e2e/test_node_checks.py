# SPDX-License-Identifier: Apache-2.0
"""Further requests of a join: whether the node name is free, whether the old certificate is accepted, kubelet's configuration."""

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from common.wait import until
from .conftest import make_cluster
from .harness.node import TOKEN, UNIT

KUBELET_CONFIG = "/var/lib/kubelet/config.yaml"
ROLE_BINDINGS = "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/rolebindings"


def test_name_of_a_ready_node(node, cluster):
    """kubelet waits until the cluster marks the Node not Ready, as after a reinstallation."""
    node.enable(UNIT, "kubelet.service").boot("--unit=basic.target")
    cluster.make_ready(node.name)
    node.begin()
    node.await_status(f"Waiting since .* UTC: the cluster already has a Node '{node.name}'")
    assert cluster.csrs(node.name) == [] and not node.kubelet_was_started()
    cluster.make_ready(node.name, "Unknown")
    assert node.await_end() == ("active", 0)
    assert len(cluster.csrs(node.name)) == 1


def test_allow_existing(node, cluster):
    node.configure(node={"allowExisting": True}).boot("--unit=basic.target")
    cluster.make_ready(node.name)
    node.join()
    assert not node.said("node-name-taken")


@pytest.fixture
def own_cluster(world):
    made = make_cluster(world, "client-ca-cluster")
    yield made
    made.stop()


def test_revoked_certificate(own_cluster, new_node):
    """The cluster uses another CA and rejects certificates of the old one: check reports it, and its remedy works."""
    node = new_node(own_cluster).prepare().enable(UNIT)
    node.boot()
    lease = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{node.name}"
    until(lambda: own_cluster.find(lease), "kubelet counts")
    first = node.certificate().serial_number
    node.run("systemctl", "stop", "kubelet.service")
    assert "accepted by the API server" in node.run("node-bootstrap", "check", check=False).stdout
    own_cluster.change_client_ca()
    node.join("restart")
    assert node.certificate().serial_number == first
    assert "node-access-revoked: " in node.run("node-bootstrap", "check", check=False).stdout
    node.run("node-bootstrap", "reset", "--stop-kubelet", "--all")
    own_cluster.delete_node(node.name)
    line = f"kubeadm join {own_cluster.front.endpoint} --token {own_cluster.token()} --discovery-token-ca-cert-hash {own_cluster.ca.pin}"
    said = node.run("node-bootstrap", "setup", "-", "--force", stdin=line).stdout
    assert node.certificate().serial_number != first and "kubelet is running" in said
    clients = x509.load_pem_x509_certificate((own_cluster.work / "clients.crt").read_bytes())
    issued = node.certificate()
    clients.public_key().verify(issued.signature, issued.tbs_certificate_bytes, ec.ECDSA(issued.signature_hash_algorithm))
    until(lambda: own_cluster.find(lease), "kubelet counts again")
    node.run("systemctl", "stop", "kubelet.service")
    assert "accepted by the API server" in node.run("node-bootstrap", "check", check=False).stdout


def test_kubelet_configuration_as_the_node(manual, cluster):
    """The token may not read it, and has been deleted; kubeadm's Role allows the nodes."""
    cluster.upload_kubelet_config(manual)
    manual.path(KUBELET_CONFIG).unlink()
    manual.configure(kubelet={"configFrom": "cluster"}).enable(UNIT).boot()
    csr = cluster.await_csr(manual.name)["metadata"]["name"]
    manual.await_status("waiting for approval")
    token = manual.read(TOKEN).decode().strip()
    cluster.request("DELETE", f"/api/v1/namespaces/kube-system/secrets/bootstrap-token-{token[:6]}")
    cluster.kubectl("certificate", "approve", csr)
    cluster.await_node(manual.name)
    assert "10.96.0.10" in yaml.safe_load(manual.read(KUBELET_CONFIG))["clusterDNS"]


def may_read(cluster, node, name):
    """Whether the API server, which applies changed roles a moment later, lets this node read a ConfigMap."""
    attributes = {"verb": "get", "resource": "configmaps", "namespace": "kube-system", "name": name}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
              "spec": {"user": f"system:node:{node.name}", "groups": ["system:nodes", "system:authenticated"], "resourceAttributes": attributes}}
    return cluster.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)["status"]["allowed"]


def test_kubelet_configuration_of_the_cluster(node, cluster):
    """What the real kubeadm uploads makes kubelet run in kubeadm's own unit, and can be read again after the join."""
    name = cluster.upload_kubelet_config(node)
    uploaded = yaml.safe_load(cluster.request("GET", f"/api/v1/namespaces/kube-system/configmaps/{name}")["data"]["kubelet"])
    node.path(KUBELET_CONFIG).unlink()
    node.configure(kubelet={"configFrom": "cluster"}).enable(UNIT).boot()
    cluster.await_node(node.name)
    taken = yaml.safe_load(node.read(KUBELET_CONFIG))
    assert taken == {key: value for key, value in uploaded.items() if key != "staticPodPath"} and "staticPodPath" in uploaded
    assert node.entries("kubelet-config-reduced") == []
    assert "10.96.0.10" in taken["clusterDNS"] and node.state_files() == []
    text = node.read(KUBELET_CONFIG)
    node.path(KUBELET_CONFIG).unlink()
    node.path(TOKEN).unlink()
    node.write("/etc/kubernetes/manifests/pod.yaml", "")
    node.run("systemctl", "restart", "kubelet.service")
    assert "`systemctl restart node-bootstrap.service`" in node.run("node-bootstrap", "check", check=False).stdout
    node.join("restart")
    node.await_kubelet()
    assert node.read(KUBELET_CONFIG) == text and node.state_files() == []
    [entry] = node.entries("kubelet-config-reduced")
    assert "static pods in '/etc/kubernetes/manifests'" in entry["MESSAGE"]
    node.path(KUBELET_CONFIG).unlink()
    node.configure(kubelet={"configFrom": "cluster"}, timeout="3s")
    assert may_read(cluster, node, name)
    cluster.request("DELETE", f"{ROLE_BINDINGS}/kubeadm:{name}")
    until(lambda: not may_read(cluster, node, name), "the node may not read it any more")
    node.join("restart")
    node.await_kubelet()
    [entry] = [entry for entry in node.entries("kubelet-config-forbidden") if "gave up" in entry["MESSAGE"]]
    assert not node.exists(KUBELET_CONFIG) and entry["PRIORITY"] == "4"
    said = node.run("node-bootstrap", "check", check=False).stdout
    assert f"kubelet-config-forbidden: {entry['MESSAGE']}" in said and "reads it from the cluster" not in said
    assert "create rolebinding kubeadm:kubelet-config" in said
