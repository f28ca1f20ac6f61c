# SPDX-License-Identifier: Apache-2.0
"""Several endpoints: one that is dead, silent or a black hole causes no delay."""

import pytest

from common.wait import until
from .harness.controlplane import CLUSTER_INFO
from .harness.node import UNIT

CONNECT_TIMEOUT_USEC = 5_000_000    # NB_HTTP_CONNECT_TIMEOUT_MS: what a bad endpoint that is waited for costs, at the least


def assert_not_waited_for(node):
    discovered = next(e for e in node.entries("stage-done") if e["NODE_BOOTSTRAP_STAGE"] == "discover")
    assert int(discovered["NODE_BOOTSTRAP_DURATION_USEC"]) < CONNECT_TIMEOUT_USEC


def refused(cluster):
    return cluster.new_front().refuse()


def black_hole(cluster):
    return cluster.new_front()


def silent(cluster):
    front = cluster.new_front().listen()
    front.mode = "silent"
    return front


def another(cluster):
    """Another address of the same API server: cluster-info names the first one."""
    return cluster.new_front().listen()


@pytest.mark.parametrize("order", ["bad first", "bad last"])
@pytest.mark.parametrize("bad", [refused, black_hole, silent])
def test_bad_endpoint_costs_nothing(node, cluster, bad, order):
    front = bad(cluster)
    endpoints = [front.endpoint, cluster.front.endpoint]
    node.configure(endpoints=endpoints if order == "bad first" else endpoints[::-1])
    node.enable(UNIT).boot("--unit=basic.target")
    node.join()
    assert_not_waited_for(node)
    front.close()
    node.await_kubelet()


def test_name_server_that_is_silent_costs_nothing(node, cluster):
    hole = cluster.new_front()
    node.configure(endpoints=["cp.example.org:6443", cluster.front.endpoint])
    node.enable(UNIT).boot("--unit=basic.target")
    node.write("/etc/resolv.conf", f"nameserver {hole.endpoint.split(':')[0]}\n", 0o644)
    node.join()
    assert_not_waited_for(node)
    hole.close()


def test_stopping_does_not_wait_for_a_silent_name_server(node, cluster):
    hole = cluster.new_front()
    node.configure(endpoints=["cp.example.org:6443"])
    node.enable(UNIT).boot("--unit=basic.target")
    node.write("/etc/resolv.conf", f"nameserver {hole.endpoint.split(':')[0]}\n", 0o644)
    node.begin()
    node.await_status("Looking for the cluster")
    node.run("systemctl", "stop", UNIT)
    assert node.run("systemctl", "is-failed", UNIT, check=False).stdout.strip() == "inactive"
    hole.close()


def test_endpoint_that_cluster_info_does_not_name(node, cluster):
    """cluster-info is fetched again over verified TLS; the token is sent only over a verified connection."""
    front = another(cluster)
    front.mode = "inspect"
    node.configure(endpoints=[front.endpoint])
    node.enable(UNIT).boot("--unit=basic.target")
    node.join()
    asked = [(method, path.split("?")[0].rsplit("/", 1)[-1], token) for method, path, token in front.requests]
    assert asked[:2] == [("GET", "cluster-info", False)] * 2
    assert not [one for one in asked[2:] if not one[2]], "everything after discovery carries the token"
    assert node.kubeconfig()["clusters"][0]["cluster"]["server"] == f"https://{cluster.front.endpoint}"
    node.await_kubelet()
    front.close()


def test_fast_path_is_four_requests_on_two_connections(node, cluster):
    node.run_offline("systemctl", "--quiet", "disable", "kubelet.service")
    node.enable(UNIT).boot("--unit=basic.target")
    front = cluster.front
    front.requests.clear()
    connections, discovery = front.accepted, front.gate("GET", CLUSTER_INFO)
    try:
        node.begin()
        until(lambda: front.accepted - connections == 2, "the second connection is opened during discovery")
        discovery.released.set()
        until(lambda: node.is_active(UNIT), "the machine joins")
    finally:
        front.plain()
    assert [(method, token) for method, _, token in front.requests] == [("GET", False), ("GET", True), ("POST", True), ("GET", True)]
    assert front.accepted - connections == 2


def test_first_endpoint_dies_while_waiting(manual, cluster):
    """The verified endpoint dies: the join continues with the other one."""
    first = another(cluster)
    manual.configure(endpoints=[first.endpoint, cluster.front.endpoint])
    manual.enable(UNIT).boot("--unit=basic.target")
    manual.begin()
    csr = cluster.await_csr(manual.name)["metadata"]["name"]
    manual.await_status("waiting for approval")
    first.vanish()
    first.cut()
    cluster.kubectl("certificate", "approve", csr)
    until(lambda: manual.is_active(UNIT), "the machine joins")
    first.close()
