# SPDX-License-Identifier: Apache-2.0
"""Why a request is not approved: a group without the role binding, or no running approver, distinguished by the API server."""

from common.failures import FAILURES, flat
from common.wait import until
from .harness.controlplane import MANUAL_GROUP
from .harness.node import UNIT

APPROVE = "certificate approve"
WAITS = "is waiting for approval"


def pending(node, cluster, code):
    """Waits with its reason in the journal and in STATUS=; kubelet has not started."""
    csr = cluster.await_csr(node.name)["metadata"]["name"]
    node.await_status(WAITS)
    until(lambda: node.said(code), f"the journal says {code}")
    [entry] = node.entries(code)
    assert entry["PRIORITY"] == "4" and entry["NODE_BOOTSTRAP_CSR"] == csr and f"the CSR '{csr}' {WAITS}" in entry["MESSAGE"] and APPROVE not in entry["MESSAGE"]
    assert entry["NODE_BOOTSTRAP_USER"].startswith("system:bootstrap:")
    until(lambda: entry["NODE_BOOTSTRAP_USER"] in node.show(UNIT, "StatusText"), "STATUS= has the reason, too")
    assert len(node.entries("csr-pending")) == 1, "the wait is said first"
    assert not node.kubelet_was_started()
    return csr, entry


def check_says(node, cluster, entry):
    """As another process, beside the join that waits: the same reason in the same words, with the remedy, and no request of its own."""
    done = node.run("node-bootstrap", "check", check=False)
    # The container runtime is started with kubelet, and so after the join.
    [row] = [line for line in done.stdout.splitlines() if "✗" in line and "kubelet-unprepared" not in line]
    assert done.returncode == 1 and row.startswith(f"  ✗ {entry['NODE_BOOTSTRAP_CODE']}: the CSR '{entry['NODE_BOOTSTRAP_CSR']}' {WAITS}: ")
    assert entry["MESSAGE"].split(f" {WAITS}: ", 1)[1] in row
    remedy = FAILURES[entry["NODE_BOOTSTRAP_CODE"]]["remedy"]
    for field in ("CSR", "NODE"):
        remedy = remedy.replace(f"@NODE_BOOTSTRAP_{field}@", entry[f"NODE_BOOTSTRAP_{field}"])
    assert flat(remedy) in flat(done.stdout)
    assert [csr["metadata"]["name"] for csr in cluster.csrs(node.name)] == [entry["NODE_BOOTSTRAP_CSR"]]


def test_no_role_binding(manual, cluster):
    manual.enable(UNIT).boot("--unit=basic.target")
    manual.begin()
    csr, entry = pending(manual, cluster, "csr-pending-unbound")
    assert entry["NODE_BOOTSTRAP_REASON"] == "NodeclientNotBound" and MANUAL_GROUP in entry["MESSAGE"]
    catalog = manual.run("journalctl", "--catalog", "--no-pager", f"--unit={UNIT}").stdout
    assert "cluster-info publish --auto-approve" in catalog and f"kubectl {APPROVE} <CSR>" in catalog and csr in catalog
    check_says(manual, cluster, entry)
    cluster.kubectl(*APPROVE.split(), csr)
    assert manual.await_end() == ("active", 0)


def test_no_approver(node, cluster):
    node.enable(UNIT).boot("--unit=basic.target")
    with cluster.paused("kube-controller-manager"):
        node.begin()
        _, entry = pending(node, cluster, "csr-pending-unapproved")
        assert entry["NODE_BOOTSTRAP_REASON"] == "ApproverSilent"
        check_says(node, cluster, entry)
    assert node.await_end() == ("active", 0), "the request is approved when the approver is back"
    assert len(cluster.csrs(node.name)) == 1
