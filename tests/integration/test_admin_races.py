# SPDX-License-Identifier: Apache-2.0
"""node-bootstrap-admin controller: what happens while its calls wait for answers."""

import time

import pytest

from common import faults, pki
from common.wait import until
from . import admin
from .admin_cluster import APPROVAL, CSRS, ENROLLED, INTERNAL, LEASES, SECRETS, Cluster, Served, controllers, cut_watches, decisions, holder_of, silent
from .admin_serving import approval, put_node, put_policy, submit
from .objects import PATIENCE


KEY = pki.new_key()


@pytest.fixture
def cluster(api):
    return Cluster(api)


@pytest.fixture
def start(api):
    with controllers(api) as begin:
        yield begin


def test_a_snapshot_that_was_interrupted_has_all_nodes(api, start):
    """Another client certificate replaces the connection while the second page of the Nodes is awaited."""
    put_policy(api)
    put_node(api, "10.0.0.5", "10.0.0.6")
    for number in range(250):
        put_node(api, f"10.0.1.{number}" if number else "10.0.0.5", name=f"n{number:03}")
    pages = []

    def replace(request):
        if "continue" not in request.query or pages:
            return
        pages.append(request)
        api.kubeconfig(user=api.user(api.client("another", admin.MASTERS)))
        api.on("watch certificatesigningrequests", faults.unauthorized, times=1)
        cut_watches(api)
        api.objects.wait(lambda: any(request.user == "another" for request in api.requests))
    api.on("list nodes", replace)
    submit(api, "bad", "10.0.0.5")
    submit(api, "good", "10.0.0.6")
    start("--parts=approve-serving")
    api.objects.wait(lambda: approval(api, "good") == "Approved")
    Cluster(api).await_event("bad", "ServingNotItsOwn")
    assert approval(api, "bad") is None and pages


def test_a_fact_that_changes_while_its_request_is_written_is_noticed(api, cluster, start):
    """The token is corrected, and then the request is touched, while the Event of the refusal is awaited."""
    start().wait_line("is the leader")
    cluster.token("aaaaaa", "n2")

    def correct(request):
        token = api.objects.look(f"{SECRETS}/bootstrap-token-aaaaaa")
        api.objects.put(f"{SECRETS}/bootstrap-token-aaaaaa", token, metadata={"annotations": {"node-bootstrap/node": "n1"}})
        api.objects.put(f"{CSRS}/one", api.objects.look(f"{CSRS}/one"), metadata={"labels": {"changed": "yes"}})
        cluster.settle()
    api.on("create events", correct, times=1)
    cluster.request("one", "n1")
    cluster.await_event("one", "TokenForAnotherNode")
    cluster.await_approval("one")


def test_a_request_that_was_submitted_again_has_its_own_time(api, cluster, start):
    """The first one was removed, and its time ends while the machine still has to fetch the certificate of the second."""
    cluster.token("aaaaaa", "n1")
    cluster.request("one", "n1", key=KEY)
    start("--grace=1h")
    cluster.await_approval("one")
    api.objects.remove(f"{CSRS}/one")
    cluster.request("two", "n1", key=KEY)
    cluster.await_approval("two")
    cluster.node("n1", created=2)
    cluster.settle_tokens()
    assert cluster.exists("aaaaaa")
    cluster.issue("two")
    cluster.await_revocation("aaaaaa")


def test_a_controller_that_takes_over_gives_a_request_that_was_submitted_again_its_own_time(api, cluster, start):
    """It knows the first one by its claim only. The other token shows when the time is over."""
    cluster.token("aaaaaa", "n1")
    cluster.token("bbbbbb", "n2")
    cluster.request("one", "n1", key=KEY)
    cluster.request("gone", "n2", "bbbbbb")
    controller = start()
    cluster.await_approval("one")
    cluster.await_approval("gone")
    controller.stop()
    api.objects.remove(f"{CSRS}/one")
    api.objects.remove(f"{CSRS}/gone")
    start("--grace=3s").wait_line("is the leader")
    cluster.request("two", "n1", key=KEY)
    cluster.await_approval("two")
    cluster.await_revocation("bbbbbb")
    cluster.settle_tokens()
    assert cluster.exists("aaaaaa")
    cluster.issue("two")
    cluster.node("n1", created=2)
    cluster.await_revocation("aaaaaa")


def test_a_request_that_is_deleted_while_it_is_judged_is_not_counted(api, cluster, start):
    """Its token is missing. The request was read before, and the event of its deletion comes before the last answer."""
    served, removed = Served(start), []

    def count():
        return served.metric('pending_requests{kind="client"}')

    def remove(request):
        if request.place.name.endswith("zzzzzz") and not removed:
            until(lambda: count() == 1, "it is counted", PATIENCE)
            api.objects.remove(f"{CSRS}/gone")
            cluster.settle()
            removed.append(request)
    api.on("get secrets", remove)
    served.controller.wait_line("is the leader")
    cluster.request("gone", "n1", "zzzzzz")
    until(lambda: removed and count() == 0, "it is not counted any more", PATIENCE)


# The cleaner.


@pytest.mark.parametrize("hours", [3, -3])
def test_a_clock_that_is_wrong_deletes_nothing(api, cluster, start, hours):
    """Of this machine or of the API server: a token that is valid by one of them may be in use."""
    api.clock_offset = hours * 3600
    for name, expires in ("aaaaaa", 1800), ("bbbbbb", hours * 3600 + 1800), ("cccccc", -1800), ("dddddd", hours * 3600 - 1800):
        cluster.token(name, None, expires=expires)
    controller = start("--parts=approve-client,cleaner")
    controller.wait_line("from that of the API server; no tokens are deleted")
    cluster.token("eeeeee", "n1", created=hours * 3600 - 60, expires=hours * 3600 + 60)
    cluster.request("one", "n1", "eeeeee", created=hours * 3600)
    cluster.await_approval("one")
    assert all(cluster.exists(name) for name in ("aaaaaa", "bbbbbb", "cccccc", "dddddd"))


@pytest.mark.parametrize("offset", [30, -30])
def test_tokens_expire_by_the_clock_of_the_api_server(api, cluster, start, offset):
    api.clock_offset = offset
    cluster.token("aaaaaa", None, expires=offset - 5)
    cluster.token("bbbbbb", None, expires=offset + 15)
    start("--parts=cleaner")
    cluster.await_revocation("aaaaaa")
    assert cluster.exists("bbbbbb")


def test_each_outage_of_the_cleaner_is_logged_once(api, cluster, start):
    controller = start("--parts=cleaner")
    controller.wait_line("is the leader")
    for number in range(1, 3):
        api.on("delete secrets", INTERNAL, times=1)
        cluster.token(f"aaaaa{number}", None, expires=-60)
        cluster.await_revocation(f"aaaaa{number}")
        assert sum("server-error: " in line for line in controller.lines) == number


def test_tokens_that_cannot_be_deleted_keep_no_other(api, cluster, start):
    api.on("delete secrets", lambda request: faults.error(403, "Forbidden", "no")(request) if
           request.place.name.startswith("bootstrap-token-aaaaa") else None)
    for number in range(10):
        cluster.token(f"aaaaa{number}", None, expires=-60)
    cluster.token("bbbbbb", None, expires=-60)
    controller = start("--parts=cleaner")
    cluster.await_revocation("bbbbbb")
    assert all(cluster.exists(f"aaaaa{number}") for number in range(10))
    assert sum("admin-forbidden" in line for line in controller.lines) <= 10


def test_a_short_name_of_a_secret_is_no_token_of_a_request(api, cluster, start):
    """Kubernetes does not require that a token's Secret has a token's name."""
    secret = cluster.token("aaaaaa", None, expires=-60)
    api.objects.put(f"{SECRETS}/x", secret, metadata={"name": "x"})
    cluster.token("bbbbbb", "n2")
    cluster.request("one", "n1", "bbbbbb")
    controller = start("--parts=approve-client,cleaner")
    api.objects.wait(lambda: not api.objects.look(f"{SECRETS}/x"))
    assert controller.process.poll() is None


# Floods.


def count_reads(api, prefix):
    return sum(request.place.name.startswith(prefix) for request in api.seen("get certificatesigningrequests"))


def test_invented_names_come_last_from_the_beginning(api, cluster, start):
    """The records of nodes are listed before the requests: each list of Secrets is answered when the election has begun, too."""
    key = pki.new_key()
    cluster.token("aaaaaa", None, group=ENROLLED)
    for number in range(300):
        cluster.request(f"a{number}", f"invented{number}", key=KEY)
    pem = pki.sign_csr(pki.new_key(), pki.node_user("n1"))
    cluster.enroll("n1", key)
    cluster.request("machine", "n1", pem=pem + pki.prove(key, pem, "aaaaaa"))
    early = []

    def hold(request):
        api.objects.wait(lambda: api.seen("get leases"))
        early.extend(api.seen("list certificatesigningrequests"))
    api.on("list secrets", hold)
    start()
    cluster.await_approval("machine", 60)
    assert count_reads(api, "a") < 100 and not early and len(api.seen("list secrets")) == 2


def test_invented_names_come_last_again_after_the_policy_was_written(api, cluster, start):
    """Each is judged at once, and then as before. All are due when the watch of the requests works again."""
    key = pki.new_key()
    cluster.token("aaaaaa", None, group=ENROLLED)
    cluster.enroll("n1", key)
    for number in range(300):
        cluster.request(f"a{number}", f"invented{number}", key=KEY)
    controller = start()

    def are_judged(since):
        """Reading the record of the node is a part of it."""
        return len({request.place.name for request in api.seen("get secrets") if request.when >= since and "invented" in request.place.name}) == 300
    until(lambda: are_judged(0), "each is judged", PATIENCE)
    now = time.monotonic()
    api.objects.put(admin.POLICY, metadata={"labels": {"changed": "yes"}})
    until(lambda: are_judged(now), "each is judged again", PATIENCE)
    failing = [True]
    for verb in ("list", "watch"):
        api.on(f"{verb} certificatesigningrequests", lambda request: INTERNAL(request) if failing else None)
    cut_watches(api)
    controller.wait_line("nothing is decided")

    def lease():
        return api.objects.look(f"{LEASES}/node-bootstrap-controller")
    for _ in range(2):      # it renews the Lease, which takes longer than the first pauses
        version = lease()["metadata"]["resourceVersion"]
        until(lambda version=version: lease()["metadata"]["resourceVersion"] != version, "the Lease is renewed", PATIENCE)
    pem, before = pki.sign_csr(pki.new_key(), pki.node_user("n1")), count_reads(api, "a")
    cluster.request("machine", "n1", pem=pem + pki.prove(key, pem, "aaaaaa"))
    failing.clear()
    cluster.await_approval("machine", 60)
    assert count_reads(api, "a") - before < 100


def test_a_bound_token_has_one_turn_whatever_it_asks_for(api, cluster, start):
    cluster.token("aaaaaa", "n1")
    for number in range(300):
        cluster.request(f"a{number}", f"invented{number}", key=KEY)
    cluster.token("bbbbbb", "n2")
    cluster.request("machine", "n2", "bbbbbb")
    start()
    cluster.await_approval("machine", 60)
    assert count_reads(api, "a") < 100


def test_calls_that_take_long_leave_room_for_others(api, cluster, start):
    """A webhook delays each Event, which a few kubelets cause many of."""
    put_policy(api)
    api.on("create events", faults.stall)
    for kubelet in "w1", "w2", "w3", "w4":
        put_node(api, "10.0.0.5", name=kubelet)
        for number in range(20):
            submit(api, f"a{number}-{kubelet}", "10.0.0.6", node=kubelet)
    start("--parts=approve-client,approve-serving")
    api.objects.wait(lambda: len(api.seen("create events")) >= 7)
    for number in range(10):
        cluster.settle(f"machine{number}")
    assert len(api.seen("create events")) in (7, 8), "the last kubelet may have one of the reserved slots"


def test_a_revocation_that_takes_long_delays_no_second_request(api, cluster, start):
    """A webhook delays the deletion of each Secret."""
    api.on("delete secrets", faults.stall)
    for number in range(30):
        cluster.token(f"{number:06}", f"n{number}")
        cluster.request(f"a{number}", f"n{number}", f"{number:06}", approved=True)
        cluster.issue(f"a{number}")
        cluster.node(f"n{number}", created=1)
    start()
    api.objects.wait(lambda: len(api.seen("delete secrets")) >= 3)
    cluster.token("bbbbbb", "machine")
    cluster.request("bad", "other", "bbbbbb")
    cluster.await_event("bad", "TokenForAnotherNode")
    cluster.request("good", "machine", "bbbbbb")
    cluster.await_approval("good")
    assert len(api.seen("delete secrets")) == 3


# What follows an approval.


@pytest.fixture
def approved(api, cluster, start):
    """A request whose approval was written. `api.on(APPROVAL)` may have a rule."""
    def await_approved(*options):
        served = Served(start, *options)
        served.controller.wait_line("is the leader")
        cluster.token("aaaaaa", "n1")
        cluster.request("one", "n1")
        cluster.await_approval("one")
        return served
    return await_approved


def test_a_token_that_the_watch_does_not_show_is_revoked(api, cluster, start):
    """The watch of the tokens is down while the machine joins."""
    start("--grace=1s").wait_line("is the leader")
    for kind in ("list secrets", "watch secrets"):
        api.on(kind, INTERNAL)
    cut_watches(api)
    cluster.token("aaaaaa", "n1")
    cluster.request("one", "n1")
    cluster.await_approval("one")
    cluster.issue("one")
    cluster.await_revocation("aaaaaa")


def test_a_token_that_the_watch_shows_late_is_claimed_for_a_request_that_was_approved_at_once(api, cluster, start):
    """It is not known when the request is looked at. The other request, whose token is missing, is looked at later."""
    start("--grace=1s").wait_line("is the leader")
    cluster.request("fence", "n2", "zzzzzz")
    cluster.await_event("fence", "TokenMissing")
    hidden, before = [silent(api)], len(api.seen("watch secrets"))
    api.on("watch secrets", lambda request: hidden[0](request) if hidden else None)
    cut_watches(api)
    until(lambda: len(api.seen("watch secrets")) >= before + 2, "the watches are silent", PATIENCE)
    cluster.token("aaaaaa", "n1")
    csr = cluster.request("one", "n1", approved=True)
    cluster.request("fence", "n2", "zzzzzz", approved=True)
    cluster.await_event("fence", "ApprovedByOthers")
    assert cluster.holder("aaaaaa") is None
    hidden.clear()
    cut_watches(api)
    api.objects.wait(lambda: cluster.holder("aaaaaa") == holder_of(csr))
    cluster.await_event("one", "ApprovedByOthers")
    cluster.issue("one")
    cluster.await_revocation("aaaaaa")


def test_a_token_that_was_spoilt_after_the_approval_is_revoked(api, cluster, approved):
    """Kubernetes still accepts it."""
    approved("--grace=1s")
    token = api.objects.look(f"{SECRETS}/bootstrap-token-aaaaaa")
    api.objects.put(f"{SECRETS}/bootstrap-token-aaaaaa", token, metadata={"annotations": {"node-bootstrap/node": "N 1"}})
    cluster.settle()
    cluster.issue("one")
    cluster.await_revocation("aaaaaa")


LOST = {
    "connection reset": faults.hang_up_instead,
    "504": faults.error(504, "Timeout", "the server was unable to return a response in time"),
    "409": faults.error(409, "Conflict", "the object has been modified"),
}


@pytest.mark.parametrize("is_issued", [False, True], ids=["issued later", "issued"])
@pytest.mark.parametrize("case", LOST)
def test_an_approval_whose_answer_is_lost_is_counted_and_followed_by_the_revocation(api, cluster, approved, case, is_issued):
    def approve(request):
        api.healthy(request)
        if is_issued:
            cluster.issue("one")
            cluster.node("n1", created=2)
        return LOST[case](request)
    api.on(APPROVAL, approve, times=1)
    served = approved()
    if not is_issued:
        cluster.settle()
        cluster.issue("one")
        cluster.node("n1", created=2)
    cluster.await_revocation("aaaaaa")
    served.controller.wait_line("approved CSR one: The bootstrap token aaaaaa may join as node n1")
    until(lambda: served.metric(decisions("approved", "NodeBootstrapApproved")) == 1 + (not is_issued), "it is counted", PATIENCE)


@pytest.mark.parametrize("is_again", [False, True], ids=["deleted", "submitted again"])
def test_a_request_that_is_deleted_while_it_is_approved_leaves_no_token(api, cluster, start, is_again):
    def approve(request):
        reply = api.healthy(request)
        api.objects.remove(f"{CSRS}/one")
        if is_again:
            cluster.request("one", "n1")
        cluster.settle()                    # the events come before the answer
        return reply
    api.on(APPROVAL, approve, times=1)
    start("--grace=1s").wait_line("is the leader")
    cluster.token("aaaaaa", "n1")
    cluster.request("one", "n1")
    if is_again:
        cluster.await_approval("one")
        cluster.issue("one")
    cluster.await_revocation("aaaaaa")
