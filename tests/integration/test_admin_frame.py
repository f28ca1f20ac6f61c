# SPDX-License-Identifier: Apache-2.0
"""node-bootstrap-admin controller: it reads together, judges and writes; what wakes it, what delays it, and watches that are silent."""

import time

import pytest

from common import faults
from common.wait import until
from .admin_cluster import Cluster, Served, buffering, controllers, silent
from .objects import PATIENCE

READS = ["get certificatesigningrequests", "get configmaps", "get leases", "get nodes", "get secrets", "get secrets"]


@pytest.fixture
def cluster(api):
    return Cluster(api)


@pytest.fixture
def start(api):
    with controllers(api) as begin:
        yield begin


def test_a_decision_reads_its_facts_together(api, cluster, start):
    """No answer comes before the last read was sent."""
    start().wait_line("is the leader")
    cluster.token("aaaaaa", "n1")
    earlier = cluster.settle("fence")        # with a later token: the controller knows this one before the request
    reads = []

    def hold(request):
        if not any(name in request.path for name in ("node-bootstrap-controller", "fence", earlier)):
            reads.append(request.kind)
            api.objects.wake()
            api.objects.wait(lambda: len(reads) >= len(READS))
    for kind in set(READS):
        api.on(kind, hold)
    cluster.request("one", "n1")
    cluster.await_approval("one")
    assert sorted(reads[:len(READS)]) == READS


def test_what_the_api_server_says_of_one_object_delays_no_other(api, cluster, start):
    """A minute, which is longer than a test waits."""
    start().wait_line("is the leader")
    busy = faults.error(429, "TooManyRequests", "Too many requests, please try again later.", Retry_After="60")
    api.on("get secrets", lambda request: busy(request) if request.path.endswith("-aaaaaa") else None)
    cluster.token("aaaaaa", "n1")
    cluster.request("busy", "n1")
    api.objects.wait(lambda: [request for request in api.seen("get secrets") if request.path.endswith("-aaaaaa")])
    cluster.settle()
    assert cluster.conditions("busy") == []


def count_gets(api, prefix):
    return len([request for request in api.requests if request.verb == "get" and request.place.name.startswith(prefix)])


def test_a_change_wakes_only_what_waits_for_it(api, cluster, start):
    """Requests for another node than their token's are not decided again because that Node was written."""
    start().wait_line("is the leader")
    cluster.token("aaaaaa", "n1")
    for i in range(20):
        cluster.request(f"refused{i:02}", "n2")
    until(lambda: count_gets(api, "refused") >= 20, "each request is judged", PATIENCE)
    cluster.settle()
    before = count_gets(api, "refused")
    for i in range(10):
        cluster.node("n2", ready="False", created=i)
        cluster.settle(f"after{i}")
    assert count_gets(api, "refused") == before
    cluster.token("aaaaaa", "n2")
    cluster.api.objects.wait(lambda: sum(cluster.conditions(f"refused{i:02}") == ["Approved"] for i in range(20)) == 1)


def test_a_node_that_is_written_often_is_looked_at_seldom(api, cluster, start):
    start().wait_line("is the leader")
    cluster.token("aaaaaa", "n1")
    cluster.node("n1")
    cluster.request("one", "n1")
    cluster.await_event("one", "NodeReady")
    begin, before = time.monotonic(), count_gets(api, "one")
    for i in range(30):
        cluster.node("n1", created=i)
        cluster.settle(f"after{i}")
    # Each 5 s, and by itself after 1, 2 and 4 s.
    assert count_gets(api, "one") - before <= 5 + (time.monotonic() - begin) / 4
    cluster.node("n1", ready="False")
    cluster.await_approval("one")


@pytest.mark.parametrize("kind", [silent, buffering])
def test_a_watch_that_shows_nothing_costs_a_minute(api, cluster, start, kind):
    """Which is less than the time that a machine waits; and the controller is unready until the watch works again."""
    keeping = [kind(api)]
    api.on("watch certificatesigningrequests", lambda request: keeping[0](request) if keeping else None)
    served = Served(lambda *options: start(*options))
    served.controller.wait_line("is the leader")
    begin = time.monotonic()
    cluster.token("aaaaaa", "n1")
    cluster.request("one", "n1")
    cluster.await_approval("one", 75)
    seconds = time.monotonic() - begin
    print(f"{kind.__name__}: a join after {seconds:.1f} s")
    assert seconds < 75
    served.controller.wait_line("does not arrive in time")
    until(lambda: served.get("/readyz")[0] == 503, "it is unready", PATIENCE)
    keeping.clear()
    until(lambda: served.get("/readyz")[0] == 200, "it is ready again", 90)
    cluster.settle()
