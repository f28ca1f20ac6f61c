# SPDX-License-Identifier: Apache-2.0
"""A machine that has joined, with any program: no request, no write, and a reboot changes nothing."""

from pathlib import Path

import pytest

from common.wait import until
from .harness import controlplane
from .harness.node import PKI, UNIT, without_state

pytestmark = pytest.mark.each_release


ENVIRONMENT = "/var/lib/kubelet/node-bootstrap.env"


def assert_untouched(node, start, written=None):
    """start() succeeds immediately, without a connection and without a change on disk, except that it writes the file `written`."""
    def files():
        tree = without_state(node.tree())
        for path in (written, str(Path(written).parent)) if written else ():
            tree.pop(path, None)
        return tree

    before, connections = files(), node.cluster.front.accepted
    start()
    assert node.is_active(UNIT)
    assert node.said("already-joined")
    assert node.cluster.front.accepted == connections, "a connection was made"
    assert files() == before, "something was written"
    assert not written or node.exists(written)
    assert node.state_files() == []


def test_restart_makes_no_connection(node):
    """Without kubelet, so that every connection would be ours."""
    node.run_offline("systemctl", "--quiet", "disable", "kubelet.service")
    node.boot("--unit=basic.target")
    node.join()
    assert not node.said("already-joined")
    assert_untouched(node, lambda: node.join("restart"))
    assert_untouched(node, lambda: (node.run("systemctl", "stop", UNIT), node.join()))


def test_restart_with_the_cluster_gone(node, cluster):
    """With wrong settings, without the token or the API server: a joined node starts."""
    node.run_offline("systemctl", "--quiet", "disable", "kubelet.service")
    node.boot("--unit=basic.target")
    node.join()
    node.path("/etc/credstore/node-bootstrap.token").unlink()
    node.configure(endpoints=["192.0.2.254:6443"])
    # The record keeps the endpoints for a refresh.
    assert_untouched(node, lambda: node.join("restart"), f"{PKI}/node-bootstrap.json")


def test_node_that_kubelet_joined(new_node, cluster):
    node = new_node().prepare()
    text = controlplane.kubeconfig(f"https://{cluster.front.endpoint}", cluster.ca.pem, token=cluster.token())
    node.write("/etc/kubernetes/bootstrap-kubelet.conf", text, 0o600)
    node.boot()
    cluster.await_node(node.name)
    node.run("systemctl", "stop", "kubelet.service")
    assert_untouched(node, node.join, ENVIRONMENT)
    assert len(cluster.csrs(node.name)) == 1


def test_node_that_kubeadm_joined(new_node, cluster, printed):
    """With the line that node-bootstrap-admin prints."""
    node = new_node().prepare()
    line, _ = printed("kubeadm")
    cluster.upload_config()
    node.run_offline("systemctl", "--quiet", "disable", "kubelet.service")
    node.path("/var/lib/kubelet/config.yaml").unlink()
    node.boot()
    node.run(*line.split(), "--ignore-preflight-errors=all", "--cri-socket=unix:///run/containerd/containerd.sock", timeout=300)
    cluster.await_node(node.name)
    node.run("systemctl", "stop", "kubelet.service")
    assert_untouched(node, node.join, ENVIRONMENT)
    assert len(cluster.csrs(node.name)) == 1


@pytest.mark.parametrize("cut", ["reboot", "power cut"])
def test_reboot(node, cluster, cut):
    node.enable(UNIT).boot()
    cluster.await_node(node.name)
    before, lease = node.joined_files(), f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{node.name}"
    renewed = until(lambda: cluster.find(lease), "a lease appears")["spec"]["renewTime"]
    if cut == "reboot":
        node.reboot()
    else:
        node.kill()
        node.boot()
    node.await_kubelet()
    assert node.said("already-joined")
    assert node.joined_files() == before
    until(lambda: cluster.find(lease)["spec"]["renewTime"] > renewed, "the node is in touch again")
    assert len(cluster.csrs(node.name)) == 1


def test_reboot_with_a_misspelt_key(node, cluster):
    """Only a warning, and kubelet starts; the lock file exists at boot."""
    node.enable(UNIT).boot()
    cluster.await_node(node.name)
    before = node.joined_files()
    settings = node.path("/etc/node-bootstrap/config.yaml")
    settings.write_text(settings.read_text() + "discovry: {}\n")
    node.reboot()
    node.await_kubelet()
    assert node.is_active(UNIT) and node.said("joined-anyway") and not node.said("lock-unavailable")
    assert "did you mean discovery?" in node.run("node-bootstrap", "status", check=False).stdout
    assert node.joined_files() == before
