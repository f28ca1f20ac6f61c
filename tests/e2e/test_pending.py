# SPDX-License-Identifier: Apache-2.0
"""Why nobody approves: a group without the role binding, an approver that does not run, told apart by the API server itself."""

from harness.controlplane import MANUAL_GROUP
from harness.node import UNIT
from harness.wait import until

APPROVE = "certificate approve"


def pending(node, cluster, code):
    """Waits with its reason in the journal and in STATUS=; kubelet has not started."""
    csr = cluster.await_csr(node.name)["metadata"]["name"]
    node.await_status(APPROVE)
    until(lambda: node.said(code), f"the journal says {code}", 30)
    [entry] = node.entries(code)
    assert entry["PRIORITY"] == "4" and entry["NODE_BOOTSTRAP_CSR"] == csr and f"kubectl {APPROVE} {csr}" in entry["MESSAGE"]
    assert entry["NODE_BOOTSTRAP_USER"].startswith("system:bootstrap:")
    assert entry["NODE_BOOTSTRAP_USER"] in node.show(UNIT, "StatusText")
    assert len(node.entries("csr-pending")) == 1, "the wait is said first"
    assert not node.kubelet_was_started()
    return csr, entry


def test_no_role_binding(manual, cluster):
    manual.enable(UNIT).boot("--unit=basic.target")
    manual.begin()
    csr, entry = pending(manual, cluster, "csr-pending-unbound")
    assert entry["NODE_BOOTSTRAP_REASON"] == "NodeclientNotBound" and MANUAL_GROUP in entry["MESSAGE"]
    until(lambda: len(manual.entries("csr-pending-unbound")) == 2, "it is said again after a minute", 90)
    assert "1 min" in manual.entries("csr-pending-unbound")[-1]["MESSAGE"]
    catalog = manual.run("journalctl", "--catalog", "--no-pager", f"--unit={UNIT}").stdout
    assert "kubeadm:node-autoapprove-bootstrap" in catalog and f"kubectl {APPROVE} {csr}" in catalog
    cluster.kubectl(*APPROVE.split(), csr)
    assert manual.await_end() == ("active", 0)


def test_no_approver(node, cluster):
    node.enable(UNIT).boot("--unit=basic.target")
    with cluster.paused("kube-controller-manager"):
        node.begin()
        _, entry = pending(node, cluster, "csr-pending-unapproved")
        assert entry["NODE_BOOTSTRAP_REASON"] == "ApproverSilent"
    assert node.await_end() == ("active", 0), "the request is approved when the approver is back"
    assert len(cluster.csrs(node.name)) == 1
