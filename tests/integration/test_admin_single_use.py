# SPDX-License-Identifier: Apache-2.0
"""node-bootstrap-admin controller: a token is used once, also when somebody else approves, and theft is told."""

import signal
import time
import urllib.parse

import pytest

from common import faults, pki
from common.csrs import timestamp
from .admin_cluster import BOUND, CSRS, ENROLLED, EVENTS, LEASES, Cluster, controllers, cut_watches, holder_of

ENROLLED_KEY = pki.new_key()


@pytest.fixture
def cluster(api):
    return Cluster(api)


@pytest.fixture
def start(api):
    with controllers(api) as begin:
        yield begin


# What somebody else approved.


def test_a_request_that_somebody_else_approved_uses_up_its_token(cluster, start):
    cluster.token("aaaaaa", "n1")
    csr = cluster.request("one", "n1", approved=True)
    start("--grace=1h").wait_line("is the leader")
    cluster.api.objects.wait(lambda: cluster.holder("aaaaaa") == holder_of(csr))
    cluster.issue("one")
    cluster.node("n1", created=1)
    cluster.await_revocation("aaaaaa")


def test_a_second_request_that_somebody_else_approved_does_not_use_up_the_token(cluster, start):
    start("--grace=1h").wait_line("is the leader")
    cluster.token("aaaaaa", "n1")
    cluster.request("one", "n1")
    cluster.await_approval("one")
    cluster.node("n1", ready="False", created=1)
    cluster.request("two", "n1", approved=True)
    cluster.issue("two")
    cluster.await_event("two", "TokenUsed")
    cluster.settle_tokens()
    assert cluster.exists("aaaaaa"), "the machine of the first request still needs it"


def test_somebody_else_approved_a_request_of_an_enrolled_token(cluster, start):
    """As if the group of enrolled tokens were bound to the role of automatic approval: the thief of the image's token gets a certificate."""
    cluster.token("eeeeee", None, group=ENROLLED)
    cluster.enroll("n1", ENROLLED_KEY)
    pem = pki.sign_csr(pki.new_key(), pki.node_user("n1"), [pki.NODES])
    cluster.request("good", "n1", "eeeeee", pem=pem + pki.prove(ENROLLED_KEY, pem, "eeeeee"), approved=True)
    cluster.request("thief", "n1", "eeeeee", approved=True)
    cluster.request("stranger", "n2", "eeeeee", approved=True)
    start()
    for name, reason in (("thief", "AttestationMissing"), ("stranger", "NotEnrolled")):
        cluster.await_event(name, reason)
    cluster.settle()
    others = [event for event in cluster.api.objects.all(EVENTS) if event["reason"] != "ApprovedByOthers"]
    assert {event["involvedObject"]["name"] for event in others} == {"thief", "stranger"}


@pytest.mark.parametrize("way", ["issued", "deleted"])
@pytest.mark.parametrize("group", [ENROLLED, BOUND])
def test_a_request_without_a_node_does_not_use_up_a_token_without_a_node(api, cluster, start, group, way):
    """The token is a fleet's, or lacks its annotation. The one of the fence shows that the grace period is over."""
    cluster.token("eeeeee", None, group=group)
    start("--grace=1s").wait_line("is the leader")
    pem = pki.sign_csr(pki.new_key(), "system:node:Not_A_Node", [pki.NODES])
    cluster.request("odd", None, "eeeeee", pem=pem, approved=True)
    cluster.await_event("odd", "RequestMalformed")
    assert cluster.holder("eeeeee") is None
    if way == "issued":
        cluster.issue("odd")
    else:
        api.objects.remove(f"{CSRS}/odd")
    fence = cluster.settle()
    cluster.issue("fence")
    cluster.await_revocation(fence)
    assert cluster.exists("eeeeee") and cluster.holder("eeeeee") is None


# Theft is told.


@pytest.mark.parametrize("number", [10, 1000])
def test_junk_does_not_hide_that_a_token_was_used_twice(cluster, start, number):
    controller = start()
    controller.wait_line("is the leader")
    cluster.token("aaaaaa", "n1")
    cluster.request("thief", "n1")
    cluster.await_approval("thief")
    for i in range(number):
        cluster.request(f"junk{i:04}", "n2", key=ENROLLED_KEY)
    cluster.request("machine", "n1")
    [event] = cluster.await_event("machine", "TokenUsed", 60)
    assert "thief" in event["message"]
    controller.wait_line("CSR machine: ")


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_token_that_was_revoked_after_another_use_is_reported(cluster, start, is_restarted):
    """The machine comes late. While the approved request exists, the Event names it; soon after, nobody knows."""
    controller = start()
    controller.wait_line("is the leader")
    cluster.token("aaaaaa", "n1")
    cluster.request("thief", "n1")
    cluster.await_approval("thief")
    cluster.issue("thief")
    cluster.node("n1", ready="False", created=1)
    cluster.await_revocation("aaaaaa")
    if is_restarted:
        controller.stop()
        start().wait_line("is the leader")
    cluster.request("machine", "n1")
    [event] = cluster.await_event("machine", "TokenUsed")
    assert "thief" in event["message"]
    cluster.api.objects.remove(f"{CSRS}/thief")
    cluster.settle()
    time.sleep(2.5)         # TOKEN_LAG_MS of requests.c: for so long, the removed request is remembered, since its token may only seem to be missing
    cluster.request("again", "n1")
    cluster.await_event("again", "TokenMissing")


def test_an_approval_is_told_although_the_same_reason_was_told_before(api, cluster, start):
    controller = start()
    controller.wait_line("is the leader")
    cluster.token("aaaaaa", "n1")
    cluster.request("thief", "n2")
    cluster.await_event("thief", "TokenForAnotherNode")
    cluster.request("thief", "n2", approved=True)
    controller.wait_line("CSR thief: Somebody else approved this request. ")
    api.objects.wait(lambda: [event for event in cluster.await_event("thief", "TokenForAnotherNode") if "Somebody else" in event["message"]])


@pytest.mark.parametrize("seconds", [-600, 600])
def test_only_a_removal_before_the_approval_makes_it_a_misuse(api, cluster, start, seconds):
    """The controller that approved the request is gone, and so is the key."""
    cluster.token("eeeeee", None, group=ENROLLED, created=-3600)
    cluster.record("n1", node="n1", removed=timestamp(seconds))
    cluster.request("one", "n1", "eeeeee", approved="NodeBootstrapApproved", created=-1800)
    controller = start()
    if seconds < 0:
        cluster.await_event("one", "ApprovedByOthers")
        cluster.await_event("one", "NodeRemoved")
    cluster.settle_tokens()
    told = {event["reason"] for event in api.objects.all(EVENTS) if event["involvedObject"]["name"] == "one"}
    assert told == ({"NodeRemoved", "ApprovedByOthers"} if seconds < 0 else set())
    assert bool([line for line in controller.lines if "Somebody else" in line]) == (seconds < 0)


@pytest.mark.parametrize("what", ["policy", "record"])
def test_an_approval_is_judged_when_the_limits_are_known(api, cluster, start, what):
    """They cannot be read when the controller starts."""
    cluster.token("eeeeee", None, group=ENROLLED)
    pem = pki.sign_csr(pki.new_key(), pki.node_user("n1"), [pki.NODES])
    cluster.request("good", "n1", "eeeeee", pem=pem + pki.prove(ENROLLED_KEY, pem, "eeeeee"), approved="NodeBootstrapApproved")
    cluster.request("posing", "n1", "eeeeee", approved="NodeBootstrapApproved")
    cluster.request("thief", "n1", "eeeeee", approved=True)
    cluster.enroll("n1", ENROLLED_KEY, **{"unknown": "key"} if what == "record" else {})
    if what == "policy":
        cluster.policy(requireproof="true")
    start()
    cluster.await_event("thief", "ApprovedByOthers")
    cluster.policy()
    cluster.enroll("n1", ENROLLED_KEY)
    for name in "posing", "thief":
        cluster.await_event(name, "AttestationMissing")
        cluster.await_event(name, "ApprovedByOthers")
    cluster.settle()
    told = sorted((event["involvedObject"]["name"], event["reason"]) for event in api.objects.all(EVENTS))
    assert told == [(name, reason) for name in ("posing", "thief") for reason in ("ApprovedByOthers", "AttestationMissing")]


# A bound token is used once, also when people help.


def test_a_request_that_was_approved_while_no_controller_ran_uses_up_its_token(api, cluster, start):
    """The thief's is in the list as well, and is decided in a flow of its own."""
    cluster.token("aaaaaa", "n1")
    cluster.request("0-thief", "n1")
    cluster.request("by-hand", "n1", approved=True)
    start()
    [event] = cluster.await_event("0-thief", "TokenUsed")
    assert "by-hand" in event["message"]
    cluster.await_event("by-hand", "ApprovedByOthers")
    api.objects.wait(lambda: cluster.holder("aaaaaa") == holder_of(api.objects.look(f"{CSRS}/by-hand")))
    cluster.settle()
    assert cluster.conditions("0-thief") == []


def test_a_standby_whose_watch_fails_decides_nothing_when_it_takes_over(api, cluster, start):
    """It knows the thief's request, but not that another one was approved by hand meanwhile."""
    first = start()
    first.wait_line("is the leader")
    second = start()
    cluster.token("aaaaaa", "n1")
    cluster.node("n1")
    cluster.request("thief", "n1")
    cluster.await_event("thief", "NodeReady")
    second.wait_line("is on standby")
    failing = [True]
    for verb in ("list", "watch"):
        api.on(f"{verb} certificatesigningrequests", lambda request: faults.INTERNAL(request) if failing else None)
    cut_watches(api)
    second.wait_line("CSRs")
    cluster.request("by-hand", "n1", approved=True)

    def lease():
        return api.objects.look(f"{LEASES}/node-bootstrap-controller")
    held = lease()["spec"]["holderIdentity"]
    first.stop()
    for _ in range(2):      # it has the Lease, and renews it
        version = lease()["metadata"]["resourceVersion"]
        api.objects.wait(lambda version=version: lease()["spec"]["holderIdentity"] not in ("", held) and lease()["metadata"]["resourceVersion"] != version)
        cluster.node("n1", ready="False")
    assert cluster.conditions("thief") == []
    failing.clear()
    cluster.await_event("thief", "TokenUsed", 40)
    assert cluster.conditions("thief") == []


def test_a_leader_whose_requests_cannot_be_watched_decides_nothing(api, cluster, start):
    controller = start()
    controller.wait_line("is the leader")
    cluster.token("aaaaaa", "n1")
    cluster.node("n1")
    cluster.request("thief", "n1")
    cluster.await_event("thief", "NodeReady")
    failing = [True]
    for verb in ("list", "watch"):
        api.on(f"{verb} certificatesigningrequests", lambda request: faults.INTERNAL(request) if failing else None)
    cut_watches(api)
    controller.wait_line("nothing is decided")
    cluster.request("by-hand", "n1", approved=True)

    def version():
        return api.objects.look(f"{LEASES}/node-bootstrap-controller")["metadata"]["resourceVersion"]
    for _ in range(2):      # it renews the Lease
        cluster.node("n1", ready="False")
        before = version()
        api.objects.wait(lambda before=before: version() != before)
    assert cluster.conditions("thief") == []
    failing.clear()
    cluster.await_event("thief", "TokenUsed", 40)
    assert cluster.conditions("thief") == []


BY_HAND = {
    "approved": {},
    "an odd name": {"name": "a%20b%3F"},
    "a long name": {"name": "x" * 300},
    "malformed": {"orgs": (pki.NODES, "more")},
    "deleted": {"is_deleted": True},
}


@pytest.mark.parametrize("case", BY_HAND)
def test_a_controller_that_takes_over_knows_who_used_the_token(api, cluster, start, case):
    """The leader is stopped; somebody approves by hand, and may delete the request before the other controller leads."""
    request = {"name": "by-hand", **BY_HAND[case]}
    is_deleted, name = request.pop("is_deleted", False), request.pop("name")
    first = start()
    first.wait_line("is the leader")
    second = start()
    second.wait_line("is on standby")
    api.objects.wait(lambda: len(api.seen("watch certificatesigningrequests")) >= 2 and len(api.seen("watch secrets")) >= 2)
    first.process.send_signal(signal.SIGSTOP)
    try:
        cluster.token("aaaaaa", "n1")
        cluster.request("0-thief", "n1")
        by_hand = cluster.request(name, "n1", approved=True, **request)
        if is_deleted:
            api.objects.remove(f"{CSRS}/{name}")
        second.wait_line("is the leader now", 40)
        cluster.await_event("0-thief", "TokenUsed")
        api.objects.wait(lambda: cluster.holder("aaaaaa") == holder_of(by_hand))
        assert cluster.conditions("0-thief") == []
    finally:
        first.process.send_signal(signal.SIGCONT)


def test_an_approval_is_remembered_although_its_request_was_replaced_at_once(api, cluster, start):
    """All of it arrives in one batch of events."""
    start().wait_line("is the leader")
    cluster.token("aaaaaa", "n1")
    with api.objects._changed:
        by_hand = cluster.request("one", "n1", approved=True)
        api.objects.remove(f"{CSRS}/one")
        cluster.request("one", "n1", key=pki.new_key())
    cluster.await_event("one", "TokenUsed")
    api.objects.wait(lambda: cluster.holder("aaaaaa") == holder_of(by_hand))
    assert cluster.conditions("one") == []


def test_no_name_is_that_of_another_request(cluster, start):
    """Of a request with a name that is too long, only the UID is known, which others can read."""
    start().wait_line("is the leader")
    cluster.token("aaaaaa", "n1")
    by_hand = cluster.request("x" * 300, "n1", approved=True)
    name = f"uid-{by_hand['metadata']['uid']}"
    cluster.request(name, "n1")
    cluster.await_event(name, "TokenUsed")
    cluster.api.objects.wait(lambda: cluster.holder("aaaaaa") == holder_of(by_hand))


def test_a_request_whose_name_is_too_long_is_told_and_keeps_its_token(api, cluster, start):
    start("--grace=1s").wait_line("is the leader")
    cluster.token("aaaaaa", "n1")
    for is_approved in False, True:
        name = f"{is_approved:d}" + "x" * 300
        csr = cluster.request(name, "n1", approved=is_approved)
        api.objects.wait(lambda csr=csr: [event for event in api.objects.all(EVENTS) if event["reason"] == "RequestMalformed" and
                                          event["involvedObject"]["uid"] == csr["metadata"]["uid"]])
        assert cluster.conditions(name) == ["Approved"] * is_approved
    cluster.settle_tokens()
    assert cluster.exists("aaaaaa")


def test_a_name_of_dots_is_one(cluster, start):
    cluster.token("aaaaaa", "n1")
    cluster.request("...", "n1")
    start()
    cluster.await_approval("...")


@pytest.mark.parametrize("reason", ["NodeBootstrapApproved", "ApprovedByAdministrator"])
@pytest.mark.parametrize("group", [None, ENROLLED], ids=["bound", "enrolled"])
def test_what_a_condition_says_of_its_author_is_not_trusted(cluster, start, reason, group):
    """Whoever approves writes it."""
    cluster.token("aaaaaa", None if group else "n1", group=group)
    start().wait_line("is the leader")
    cluster.request("thief", "n2", approved=reason)
    [event] = cluster.await_event("thief", "NotEnrolled" if group else "TokenForAnotherNode")
    assert "Somebody else approved" in event["message"]
    cluster.await_event("thief", "ApprovedByOthers")


@pytest.mark.parametrize("is_controller_running", [True, False])
def test_a_malformed_request_that_was_approved_by_hand_uses_up_its_token(cluster, start, is_controller_running):
    cluster.token("aaaaaa", "n1")
    if is_controller_running:
        start().wait_line("is the leader")
    by_hand = cluster.request("by-hand", "n1", orgs=(pki.NODES, "more"), approved=True)
    if not is_controller_running:
        start()
    cluster.await_event("by-hand", "RequestMalformed")
    cluster.api.objects.wait(lambda: cluster.holder("aaaaaa") == holder_of(by_hand))
    cluster.request("two", "n1")
    cluster.await_event("two", "TokenUsed")
    assert cluster.conditions("two") == []


@pytest.mark.parametrize("how", ["approve", "controller"])
def test_a_request_that_is_unreadable_here_uses_up_its_token(cluster, start, how):
    """Go skips what precedes the PEM block."""
    cluster.token("aaaaaa", "n1")
    pem = pki.sign_csr(pki.new_key(), pki.node_user("n1"), [pki.NODES])
    cluster.request("by-hand", "n1", pem=b"Certificate Request:\n" + pem, approved=True)
    cluster.request("two", "n1")
    if how == "controller":
        start()
        cluster.await_event("two", "TokenUsed")
    else:
        done = cluster.api.run("requests", "approve", "two")
        assert done.returncode == 65 and "by-hand" in done.stderr
    assert cluster.conditions("two") == []


def test_a_claim_that_is_refused_for_another_reason_is_none(api, cluster, start):
    """A conflict may be that of a quota, or with the claim of an earlier token, which is deleted meanwhile."""
    cluster.token("aaaaaa", "n1")
    csr = cluster.request("one", "n1")
    api.on("create leases", faults.error(409, "Conflict", "the quota has changed"), times=2)
    done = api.run("requests", "approve", "one")
    assert done.returncode != 0 and ": admin-conflict: " in done.stderr and cluster.conditions("one") == []
    start()
    cluster.await_approval("one")
    assert cluster.holder("aaaaaa") == holder_of(csr)


def test_approve_sees_that_a_token_was_used(cluster):
    """No controller is running, so nothing has claimed it."""
    cluster.token("aaaaaa", "n1")
    cluster.request("by-hand", "n1", approved=True)
    cluster.request("two", "n1")
    done = cluster.api.run("requests", "approve", "two")
    assert done.returncode == 65 and "by-hand" in done.stderr
    assert cluster.conditions("two") == []


@pytest.mark.parametrize("name", ["a b", "\x1b[2Kc?d#e+", "\u00e9" * 126, "x" * 254, "x" * 2000], ids=["blank", "URL", "UTF-8", "long", "longer"])
def test_a_request_of_any_name_uses_up_its_token(cluster, start, name):
    """Kubernetes accepts each, and whoever has the token chooses the name."""
    cluster.token("aaaaaa", "n1")
    start().wait_line("is the leader")
    csr = cluster.request(urllib.parse.quote(name), "n1", approved=True)
    cluster.api.objects.wait(lambda: cluster.holder("aaaaaa") == holder_of(csr))
    cluster.request("two", "n1")
    cluster.await_event("two", "TokenUsed")
    assert cluster.conditions("two") == []


def test_a_request_with_an_odd_name_is_decided(cluster, start):
    cluster.token("aaaaaa", "n1")
    cluster.request("a%20b%3Fc", "n1")
    start()
    cluster.await_approval("a%20b%3Fc")


def test_an_approval_for_another_node_does_not_use_up_the_token(cluster, start):
    """Whoever has the token could keep the machine from joining."""
    start().wait_line("is the leader")
    cluster.token("aaaaaa", "n1")
    cluster.request("thief", "n2", approved=True)
    cluster.await_event("thief", "TokenForAnotherNode")
    assert cluster.holder("aaaaaa") is None
    cluster.request("machine", "n1")
    cluster.await_approval("machine")


def test_an_old_request_that_somebody_else_approved_does_not_use_up_a_new_token(cluster, start):
    cluster.request("one", "n1", approved=True, created=-3600)
    cluster.issue("one")
    cluster.node("n1", created=1)
    cluster.token("aaaaaa", "n1")
    start().wait_line("is the leader")
    cluster.settle_tokens()
    assert cluster.exists("aaaaaa") and cluster.holder("aaaaaa") is None


def test_an_approval_without_a_time_does_not_make_every_node_new(cluster, start):
    csr = cluster.request("one", "n1", approved=True)
    del csr["status"]["conditions"][0]["lastUpdateTime"]
    cluster.api.objects.put(f"{CSRS}/one", csr)
    cluster.issue("one")
    cluster.node("n1", ready="False", created=-3600)
    cluster.token("aaaaaa", "n1", created=-60)
    start("--grace=1h").wait_line("is the leader")
    cluster.settle_tokens()
    assert cluster.exists("aaaaaa")


def test_an_automatic_approval_of_a_stolen_token_is_reported(cluster, start):
    cluster.token("aaaaaa", "n1")
    cluster.request("one", "n2", approved=True)
    start()
    cluster.await_event("one", "TokenForAnotherNode")
    assert cluster.holder("aaaaaa") is None
