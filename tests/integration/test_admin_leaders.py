# SPDX-License-Identifier: Apache-2.0
"""node-bootstrap-admin controller: two of them, of which one is the leader."""

import pytest

from common import pki
from common.endpoint import Reply
from . import objects
from .admin_cluster import EVENTS, Cluster, controllers


@pytest.fixture
def cluster(api):
    return Cluster(api)


@pytest.fixture
def start(api):
    with controllers(api) as begin:
        yield begin


def test_two_controllers_approve_one_of_two_concurrent_requests(api, cluster, start):
    start()
    start()
    cluster.await_leader()
    for i in range(5):
        token_id = f"{i}{i}{i}{i}{i}{i}"
        cluster.token(token_id, f"n{i}")
        cluster.request(f"{i}-a", f"n{i}", token_id)
        cluster.request(f"{i}-b", f"n{i}", token_id)
    api.objects.wait(lambda: len(cluster.api.objects.all(EVENTS)) == 5)
    for i in range(5):
        assert sorted(cluster.conditions(f"{i}-a") + cluster.conditions(f"{i}-b")) == ["Approved"]


def test_claims_alone_keep_two_leaders_from_approving_twice(api, cluster, start):
    api.on("get leases", lambda request: objects.Place("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/x").missing().reply
           if request.place.name == "node-bootstrap-controller" else None)
    api.on("create leases", lambda request: Reply(201, pki.compact(
        {"kind": "Lease", "metadata": {"resourceVersion": "1"}, "spec": {}})) if
        request.json()["metadata"]["name"] == "node-bootstrap-controller" else None)
    for controller in (start(), start()):
        controller.wait_line("is the leader")
    for i in range(5):
        token_id = f"{i}{i}{i}{i}{i}{i}"
        cluster.token(token_id, f"n{i}")
        cluster.request(f"{i}-a", f"n{i}", token_id)
        cluster.request(f"{i}-b", f"n{i}", token_id)
    for i in range(5):
        api.objects.wait(lambda i=i: cluster.conditions(f"{i}-a") + cluster.conditions(f"{i}-b"))
    cluster.settle()
    for i in range(5):
        assert sorted(cluster.conditions(f"{i}-a") + cluster.conditions(f"{i}-b")) == ["Approved"]


def test_a_standby_takes_over_from_a_leader_that_stops(cluster, start):
    first = start()
    first.wait_line("is the leader")
    second = start()
    assert first.stop() == 0
    second.wait_line("is the leader", timeout=8)      # the Lease is held for 10 s
    cluster.settle()


def test_a_dry_run_takes_no_part_in_the_election(api, cluster, start):
    controller = start("--dry-run")
    controller.wait_line("dry run: this controller changes nothing, and other controllers continue")
    cluster.token("aaaaaa", "n1")
    cluster.request("one", "n1")
    cluster.await_event("one", "NodeBootstrapApproved")
    assert not [line for line in controller.lines if "is the leader" in line] and cluster.conditions("one") == []
    assert not [request.kind for request in api.requests if request.method != "GET" and "events" not in request.kind]
