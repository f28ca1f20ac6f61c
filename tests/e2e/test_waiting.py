# SPDX-License-Identifier: Apache-2.0
"""A waiting machine: its status, manual approval, a late API server."""

import json
import re
import time

import pytest

from common import apiserver, faults
from common.wait import until
from .harness.controlplane import MANUAL_GROUP
from .harness.node import GATE, UNIT, without_state


@pytest.fixture(scope="module", autouse=True)
def cut_off(new_shared_node, cluster):
    """A machine that waits while every packet of its open connections is dropped. Started first and collected last."""
    node = new_shared_node("cut-off").prepare(cluster.token(MANUAL_GROUP)).enable(UNIT)
    node.boot("--unit=basic.target")
    node.begin()
    csr = cluster.await_csr(node.name)["metadata"]["name"]
    node.await_status("waiting for approval")
    for port in cluster.front.peer_ports(node.address):
        for chain, side in (("OUTPUT", "--sport"), ("INPUT", "--dport")):
            node.run("iptables", "--insert", chain, "--protocol", "tcp", side, str(port), "--jump", "DROP")
    cluster.kubectl("certificate", "approve", csr)
    return node


def queued(node, unit="kubelet.service"):
    """The state of the job that waits to start a unit."""
    return next((line.split()[3] for line in node.run("systemctl", "list-jobs", "--no-legend").stdout.splitlines() if line.split()[1] == unit), None)


def test_approval_by_hand(manual, cluster):
    manual.enable(UNIT).boot()
    csr = cluster.await_csr(manual.name)["metadata"]["name"]
    manual.await_status("waiting for approval")
    shown = manual.run("systemctl", "status", UNIT, check=False).stdout
    assert f"the CSR '{csr}' is waiting for approval" in shown
    assert queued(manual) == "waiting"
    assert manual.show("kubelet.service", "ActiveState", "Result") == ("inactive", "success")
    assert not manual.kubelet_was_started()
    until(lambda: manual.said("csr-pending"), "the journal says so, a moment after the status")
    warnings = [e for e in manual.entries("csr-pending") if e["PRIORITY"] == "4"]
    assert len(warnings) == 1, "one warning for one reason"
    assert warnings[0]["NODE_BOOTSTRAP_CSR"] == csr
    cluster.kubectl("certificate", "approve", csr)
    cluster.await_node(manual.name)
    assert len(cluster.csrs(manual.name)) == 1


def test_stop_while_waiting(manual, cluster):
    """Ends cleanly, does not count as joined, and the next start continues with the same request."""
    manual.enable(UNIT).boot("--unit=basic.target")
    before = manual.tree()
    manual.begin()
    csr = cluster.await_csr(manual.name)["metadata"]["name"]
    manual.await_status("waiting for approval")
    manual.run("systemctl", "stop", UNIT)
    assert manual.show(UNIT, "ActiveState", "Result") == ("inactive", "success")
    until(lambda: manual.show(GATE, "ActiveState") == "failed", "the gate has decided")
    assert [line.split()[0] for line in manual.run("systemctl", "--failed", "--no-legend", "--plain").stdout.splitlines()] == [GATE]
    assert not manual.is_active("node-joined.target")
    assert not manual.kubelet_was_started()
    assert without_state(manual.tree()) == without_state(before)
    assert manual.said("stopped")
    manual.begin()
    manual.await_status("waiting for approval")
    assert [c["metadata"]["name"] for c in cluster.csrs(manual.name)] == [csr]
    cluster.kubectl("certificate", "approve", csr)
    assert manual.await_end() == ("active", 0)
    manual.await_kubelet()


def test_kubelet_stopped_while_waiting_stays_stopped(manual, cluster):
    manual.enable(UNIT).boot()
    csr = cluster.await_csr(manual.name)["metadata"]["name"]
    until(lambda: queued(manual) == "waiting", "kubelet's start is queued")
    manual.run("systemctl", "stop", "kubelet.service")
    cluster.kubectl("certificate", "approve", csr)
    until(lambda: manual.is_active(UNIT), "the machine joins")
    assert not queued(manual)
    assert not manual.kubelet_was_started()


@pytest.mark.parametrize("how", ["refused", "black hole", "refused, then a black hole"])
def test_api_server_comes_late(node, cluster, how):
    front = cluster.front
    try:
        front.refuse() if how.startswith("refused") else front.vanish()
        node.enable(UNIT).boot()
        node.await_status(re.escape(front.address))
        first = "endpoint-refused" if how.startswith("refused") else "endpoint-unreachable"
        until(lambda: node.said(first), "the journal says why")
        assert queued(node) == "waiting"
        if how.endswith("then a black hole"):
            front.vanish()
        time.sleep(10)  # long enough for the pauses between attempts to have grown
    finally:
        front.appear()
        front.listen()
    until(lambda: node.is_active(UNIT), "the machine joins")
    node.await_kubelet()
    for code in ("endpoint-refused", "endpoint-reset", "endpoint-unreachable"):
        assert len([e for e in node.entries(code) if e["PRIORITY"] == "4"]) <= 2, "one warning for one reason"


def test_api_server_goes_away_while_waiting(manual, cluster):
    """The watch is cut and the server is down for a while: neither the key nor the request is lost."""
    manual.enable(UNIT).boot("--unit=basic.target")
    manual.begin()
    csr = cluster.await_csr(manual.name)["metadata"]["name"]
    manual.await_status("waiting for approval")
    try:
        cluster.front.refuse()
        until(lambda: manual.said("endpoint-refused"), "the journal says that the server is away")
        cluster.kubectl("certificate", "approve", csr)
    finally:
        cluster.front.listen()
    assert manual.await_end() == ("active", 0)
    assert [c["metadata"]["name"] for c in cluster.csrs(manual.name)] == [csr]


def test_no_signer(node, cluster):
    """Unsigned cluster-info, as without bootstrapsigner: distinguished from an unknown token."""
    node.enable(UNIT).boot("--unit=basic.target")
    with cluster.paused("kube-controller-manager"):
        cluster.remove_signatures()
        node.begin()
        until(lambda: node.said("signature-missing"), "the journal says that nothing is signed")
    assert node.await_end() == ("active", 0)
    assert not node.said("token-unknown")


def test_unknown_token_is_told_apart(new_node, cluster):
    """Waits, reports the token's ID, and joins when the token is created later."""
    token = cluster.fresh_token()
    node = new_node().prepare(token).enable(UNIT)
    node.boot("--unit=basic.target")
    node.begin()
    until(lambda: node.said("token-unknown"), "the journal says that the token is unknown")
    node.await_status(token.id)
    cluster.token(token=token)
    assert node.await_end() == ("active", 0)


def test_watch_that_a_load_balancer_drops(cut_off):
    """The join notices, and finds the certificate on another connection."""
    assert cut_off.await_end() == ("active", 0)


def test_status_of_a_join_that_waits(manual):
    manual.boot()
    manual.begin()
    manual.await_status("waiting for approval")
    until(lambda: manual.said("csr-pending"), "the journal says so, a moment after the status")
    run = manual.run("node-bootstrap", "status", "--json", check=False)
    assert run.returncode == 1
    found = json.loads(run.stdout)
    assert found["joined"] is False
    assert found["lastJoin"]["outcome"] == "under-way" and found["lastJoin"]["code"].startswith("csr-pending")
    text = manual.run("node-bootstrap", "status", check=False).stdout
    assert "(csr-pending" in text and "`node-bootstrap explain csr-pending" in text


def portal(server, token):
    server.on("any", faults.PORTAL)


def other_secret(server, token):
    """The attacker knows the public half of the token, which cluster-info shows to everyone."""
    server.cluster.tokens[token.id] = apiserver.Token("f" * 16)


@pytest.mark.parametrize("code, attack", [("answer-malformed", portal), ("signature-invalid", other_secret)])
def test_attacker_first_and_the_cluster_later(new_node, cluster, code, attack):
    """An attacker answers at the address of the API server; no such answer ends the join."""
    token = cluster.token()
    front = cluster.new_front().listen()
    target = front.target
    with apiserver.ApiServer(apiserver.Cluster()) as server:
        attack(server, token)
        front.target = ("127.0.0.1", server.port)
        node = new_node().prepare(token, endpoints=[front.endpoint]).enable(UNIT)
        node.boot("--unit=basic.target")
        node.begin()
        until(lambda: len(server.requests) >= 6, "the attacker is asked again and again")
        node.await_status(f"node-bootstrap explain {code}")
        assert not node.kubelet_was_started()
    front.target = target
    front.cut()
    assert node.await_end() == ("active", 0)
    node.await_kubelet()
    assert len([entry for entry in node.entries(code) if entry["PRIORITY"] == "4"]) == 1, "one warning for one reason"
    front.close()
