# SPDX-License-Identifier: Apache-2.0
"""node-bootstrap-admin controller: what happens while its calls wait for answers."""

import time

import pytest

from common import faults, pki
from common.wait import until
from .admin_cluster import APPROVAL, CSRS, ENROLLED, INTERNAL, SECRETS, Cluster, controllers, cut_watches
from .admin_serving import SERVICES, approval, event, put_node, put_policy, submit
from .objects import PATIENCE

KEY = pki.new_key()


@pytest.fixture
def cluster(api):
    return Cluster(api)


@pytest.fixture
def start(api):
    with controllers(api) as begin:
        yield begin


def test_a_snapshot_that_was_interrupted_has_all_services(api, start):
    """A renewed client certificate replaces the connection while the second page of the Services is awaited."""
    put_policy(api)
    put_node(api, "10.0.0.5", "10.0.0.6")
    for number in range(250):
        api.objects.put(f"{SERVICES}/s{number:03}", spec={"clusterIP": f"10.96.1.{number}" if number else "10.0.0.5"})
    pages = []

    def replace(request):
        if "continue" not in request.query or pages:
            return
        pages.append(request)
        api.on("patch leases", faults.unauthorized, times=1)
        renewals = len(api.seen("patch leases"))
        until(lambda: len(api.seen("patch leases")) > renewals, "the Lease is renewed", 20)
        time.sleep(1)
    api.on("list services", replace)
    submit(api, "bad", "10.0.0.5")
    submit(api, "good", "10.0.0.6")
    start("--parts=approve-serving")
    api.objects.wait(lambda: approval(api, "good") == "Approved", 40)
    api.objects.wait(lambda: approval(api, "bad") or event(api, "bad"))
    assert approval(api, "bad") is None and "belongs to the Service shop/s000" in event(api, "bad")


def test_a_fact_that_changes_while_its_request_is_written_is_noticed(api, cluster, start):
    """The token is corrected, and then the request is touched, while the Event of the refusal is awaited."""
    start().wait_line("is the leader")
    cluster.token("aaaaaa", "n2")

    def correct(request):
        token = api.objects.look(f"{SECRETS}/bootstrap-token-aaaaaa")
        api.objects.put(f"{SECRETS}/bootstrap-token-aaaaaa", token, metadata={"annotations": {"node-bootstrap/node": "n1"}})
        api.objects.put(f"{CSRS}/one", api.objects.look(f"{CSRS}/one"), metadata={"labels": {"changed": "yes"}})
        time.sleep(1)
    api.on("create events", correct, times=1)
    cluster.request("one", "n1")
    cluster.await_event("one", "TokenForAnotherNode")
    cluster.await_approval("one")


def test_an_approval_is_told_as_it_was_made(api, start):
    """The snapshot changes while the answer is awaited."""
    put_policy(api)
    put_node(api, "10.0.0.5")
    put_node(api, "10.0.0.6", name="other")

    def change(request):
        put_node(api, "10.0.0.5", name="claimant")
        lists = len(api.seen("list nodes"))
        time.sleep(11)
        submit(api, "two", "10.0.0.6", node="other")
        until(lambda: len(api.seen("list nodes")) > lists, "the Nodes are listed again", PATIENCE)
        api.objects.wait(lambda: approval(api, "two") == "Approved")
    api.on(APPROVAL, change, times=1)
    submit(api, "one", "10.0.0.5")
    controller = start("--parts=approve-serving")
    controller.wait_line("approved CSR two", 30)
    controller.wait_line("approved CSR one", 5)
    assert event(api, "one") == ""


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_request_that_was_submitted_again_has_its_own_time(api, cluster, start, is_restarted):
    """The first one was removed, and its time ends while the machine still has to fetch the certificate of the second."""
    cluster.token("aaaaaa", "n1")
    cluster.request("one", "n1", key=KEY)
    controller = start("--grace=7s")
    cluster.await_approval("one")
    if is_restarted:
        controller.stop()
    api.objects.remove(f"{CSRS}/one")
    if is_restarted:
        start("--grace=7s").wait_line("is the leader")
    time.sleep(3.5)
    cluster.request("two", "n1", key=KEY)
    cluster.await_approval("two")
    cluster.issue("two")
    time.sleep(4)
    assert cluster.exists("aaaaaa")
    cluster.await_revocation("aaaaaa")


# The cleaner.


def test_each_outage_of_the_cleaner_is_logged_once(api, cluster, start):
    controller = start("--parts=cleaner")
    controller.wait_line("is the leader")
    for number in range(1, 4):
        api.on("delete secrets", INTERNAL, times=1)
        cluster.token(f"aaaaa{number}", None, expires=-60)
        cluster.await_revocation(f"aaaaa{number}")
        assert sum("server-error" in line for line in controller.lines) == number


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
    """Also if the records of nodes are listed after the requests."""
    key = pki.new_key()
    cluster.token("aaaaaa", None, group=ENROLLED)
    for number in range(300):
        cluster.request(f"a{number}", f"invented{number}", key=KEY)
    pem = pki.sign_csr(pki.new_key(), pki.node_user("n1"))
    cluster.enroll("n1", key)
    cluster.request("machine", "n1", pem=pem + pki.prove(key, pem, "aaaaaa"))
    api.on("list secrets", lambda request: time.sleep(1))
    start()
    cluster.await_approval("machine", 60)
    assert count_reads(api, "a") < 100


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
    api.on("create events", lambda request: time.sleep(8))
    for kubelet in "w1", "w2", "w3", "w4":
        put_node(api, "10.0.0.5", name=kubelet)
        for number in range(20):
            submit(api, f"a{number}-{kubelet}", "10.0.0.6", node=kubelet)
    start("--parts=approve-client,approve-serving")
    api.objects.wait(lambda: len(api.seen("create events")) >= 12)
    time.sleep(1)
    cluster.token("bbbbbb", "n2")
    cluster.request("machine", "n2", "bbbbbb")
    cluster.await_approval("machine", 4)


def test_a_revocation_that_takes_long_delays_no_second_request(api, cluster, start):
    """A webhook delays the deletion of each Secret."""
    api.on("delete secrets", lambda request: time.sleep(8))
    for number in range(30):
        cluster.token(f"{number:06}", f"n{number}")
        cluster.request(f"a{number}", f"n{number}", f"{number:06}", approved=True)
        cluster.issue(f"a{number}")
        cluster.node(f"n{number}", created=1)
    start()
    api.objects.wait(lambda: len(api.seen("delete secrets")) >= 4)
    time.sleep(1)
    cluster.token("bbbbbb", "machine")
    cluster.request("bad", "other", "bbbbbb")
    cluster.await_event("bad", "TokenForAnotherNode", 4)
    cluster.request("good", "machine", "bbbbbb")
    cluster.await_approval("good", 4)


# What follows an approval.


@pytest.fixture
def approved(api, cluster, start):
    """A request whose approval was written. `api.on(APPROVAL)` may have a rule."""
    def await_approved(*options):
        start(*options).wait_line("is the leader")
        cluster.token("aaaaaa", "n1")
        cluster.request("one", "n1")
        cluster.await_approval("one")
    return await_approved


def test_a_token_that_the_watch_does_not_show_is_revoked(api, cluster, start):
    """The watch of the tokens is down while the machine joins."""
    start("--grace=3s").wait_line("is the leader")
    for kind in ("list secrets", "watch secrets"):
        api.on(kind, INTERNAL)
    cut_watches(api)
    cluster.token("aaaaaa", "n1")
    cluster.request("one", "n1")
    cluster.await_approval("one")
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
def test_an_approval_whose_answer_is_lost_is_followed_by_the_revocation(api, cluster, approved, case, is_issued):
    def approve(request):
        api.healthy(request)
        if is_issued:
            cluster.issue("one")
            cluster.node("n1", created=2)
        return LOST[case](request)
    api.on(APPROVAL, approve, times=1)
    approved()
    if not is_issued:
        cluster.settle()
        cluster.issue("one")
        cluster.node("n1", created=2)
    cluster.await_revocation("aaaaaa")


@pytest.mark.parametrize("is_again", [False, True], ids=["deleted", "submitted again"])
def test_a_request_that_is_deleted_while_it_is_approved_leaves_no_token(api, cluster, start, is_again):
    def approve(request):
        reply = api.healthy(request)
        api.objects.remove(f"{CSRS}/one")
        if is_again:
            cluster.request("one", "n1")
        time.sleep(0.3)                     # the events come before the answer
        return reply
    api.on(APPROVAL, approve, times=1)
    start("--grace=4s").wait_line("is the leader")
    cluster.token("aaaaaa", "n1")
    cluster.request("one", "n1")
    if is_again:
        api.objects.wait(lambda: len(api.seen(APPROVAL)) == 2)
        cluster.await_approval("one")
        cluster.issue("one")
    cluster.await_revocation("aaaaaa")
