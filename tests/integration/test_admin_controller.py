# SPDX-License-Identifier: Apache-2.0
"""node-bootstrap-admin controller against a scripted API: what it approves, and what it leaves."""

import signal

import pytest

from common import faults, pki
from common.csrs import timestamp
from common.wait import until
from .admin_cluster import APPROVAL, BOUND, CSRS, ENROLLED, EVENTS, LEASES, NODES, SECRETS, Cluster, controllers, holder_of, key_of
from .admin import POLICY
from .objects import PATIENCE


@pytest.fixture
def cluster(api):
    return Cluster(api)


@pytest.fixture
def start(api):
    with controllers(api) as begin:
        yield begin


def count_reads(api, token_id):
    return sum(request.path.endswith(f"/bootstrap-token-{token_id}") for request in api.seen("get secrets"))


# What it decides.


def test_a_token_for_this_node_is_claimed_before_the_approval_and_revoked_after_the_join(api, cluster, start):
    start().wait_line("is the leader")
    cluster.token("aaaaaa", "n1")
    csr = cluster.request("one", "n1")
    cluster.await_approval("one")
    kinds = [request.kind for request in api.requests]
    assert kinds.index("create leases") < kinds.index(APPROVAL)
    condition, = api.objects.look(f"{CSRS}/one")["status"]["conditions"]
    assert (condition["reason"], condition["status"]) == ("NodeBootstrapApproved", "True") and "aaaaaa" in condition["message"]
    assert cluster.holder("aaaaaa") == holder_of(csr)
    assert api.objects.look(f"{LEASES}/node-bootstrap-token-aaaaaa")["metadata"]["labels"] == {"node-bootstrap/claim": "true"}
    cluster.node("n1")                      # not yet issued: the machine still needs the token
    cluster.settle_tokens()
    assert cluster.exists("aaaaaa")
    cluster.issue("one")
    cluster.await_revocation("aaaaaa")
    delete, = [request for request in api.seen("delete secrets") if request.path.endswith("-aaaaaa")]
    assert delete.json()["preconditions"]["uid"]
    assert cluster.holder("aaaaaa") is None


def test_a_token_is_kept_until_the_node_appears_after_the_approval(api, cluster, start):
    start("--grace=1h").wait_line("is the leader")
    cluster.token("aaaaaa", "n1")
    cluster.node("n1", ready="False", created=-3600)
    cluster.request("one", "n1")
    cluster.await_approval("one")
    cluster.issue("one")
    cluster.settle_tokens()
    assert cluster.exists("aaaaaa"), "the Node is older than the approval"
    cluster.api.objects.remove(f"{NODES}/n1")
    cluster.node("n1", created=1)
    cluster.await_revocation("aaaaaa")


def test_a_token_is_revoked_after_the_grace_period(cluster, start):
    start("--grace=1s").wait_line("is the leader")
    cluster.token("aaaaaa", "n1")
    cluster.request("one", "n1")
    cluster.await_approval("one")
    cluster.issue("one")
    cluster.await_revocation("aaaaaa")


def test_a_request_that_is_written_in_the_grace_period_keeps_its_time(api, cluster, start):
    """Somebody adds a label to it, or all requests are listed again. So its token is revoked before that of a later one."""
    start("--grace=2s").wait_line("is the leader")
    for token_id, name, node in ("aaaaaa", "one", "n1"), ("bbbbbb", "later", "n2"):
        cluster.token(token_id, node)
        cluster.request(name, node, token_id)
        cluster.await_approval(name)
        cluster.issue(name)
        cluster.settle_tokens(f"after-{name}")
    api.objects.put(f"{CSRS}/one", api.objects.look(f"{CSRS}/one"), metadata={"labels": {"changed": "yes"}})
    cluster.await_revocation("bbbbbb")
    revoked = [request.place.name for request in api.seen("delete secrets")]
    assert revoked.index("bootstrap-token-aaaaaa") < revoked.index("bootstrap-token-bbbbbb")


LEFT = {
    "another name": ("TokenForAnotherNode", {"node": "n2"}, {}),
    "wrong usages": ("RequestMalformed", {"usages": ["digital signature", "server auth"]}, {}),
    "another organization": ("RequestMalformed", {"orgs": ["system:masters"]}, {}),
    "an expired token": ("TokenExpired", {}, {"expires": -60}),
    "a token that is gone": ("TokenMissing", {"token_id": "zzzzzz"}, {}),
}


@pytest.mark.parametrize("case", LEFT)
@pytest.mark.parametrize("is_denying", [False, True], ids=["left", "deny"])
def test_what_is_wrong_is_left_pending_or_denied(cluster, start, case, is_denying):
    reason, request, token = LEFT[case]
    cluster.token("aaaaaa", "n1", **token)
    cluster.request("one", **{"node": "n1", **request})
    start(*["--deny"] * is_denying)
    event, = cluster.await_event("one", reason)
    assert event["involvedObject"]["kind"] == "CertificateSigningRequest" and event["type"] == "Warning"
    cluster.settle()
    may_pass = reason == "TokenMissing"
    assert cluster.conditions("one") == (["Denied"] if is_denying and not may_pass else [])
    assert cluster.holder("aaaaaa") is None and len(cluster.await_event("one", reason)) == 1


UNTOUCHED = {
    "a renewal by the node": {"user": "system:node:n1"},
    "a person": {"user": "kubernetes-admin"},
    "a token for any node": {"token_id": "bbbbbb"},
    "another signer": {"signer": "kubernetes.io/kube-apiserver-client"},
}


@pytest.mark.parametrize("case", UNTOUCHED)
def test_what_others_decide_is_not_touched(api, cluster, start, case):
    cluster.token("aaaaaa", "n1")
    cluster.token("bbbbbb", None)
    cluster.request("one", **{"node": "n1", **UNTOUCHED[case]})
    start("--deny")
    cluster.settle()
    assert cluster.conditions("one") == [] and api.objects.all(EVENTS) == []


def test_the_second_use_of_a_token_is_not_approved(cluster, start):
    start().wait_line("is the leader")
    cluster.token("aaaaaa", "n1")
    cluster.request("one", "n1")
    cluster.await_approval("one")
    cluster.request("two", "n1")
    cluster.await_event("two", "TokenUsed")
    assert cluster.conditions("two") == []


def test_a_node_that_is_ready_is_not_replaced(cluster, start):
    start().wait_line("is the leader")
    cluster.token("aaaaaa", "n1")
    cluster.node("n1")
    cluster.request("one", "n1")
    cluster.await_event("one", "NodeReady")
    assert cluster.conditions("one") == [] and cluster.holder("aaaaaa") is None
    cluster.node("n1", ready="Unknown")
    cluster.await_approval("one")


def test_a_pending_request_that_is_deleted_does_not_use_up_its_token(api, cluster, start):
    start().wait_line("is the leader")
    cluster.token("aaaaaa", "n1")
    cluster.node("n1", ready="True")
    cluster.request("one", "n1")
    cluster.await_event("one", "NodeReady")
    api.objects.remove(f"{CSRS}/one")
    cluster.settle()        # the watch of Nodes could be faster than that of CSRs
    cluster.node("n1", ready="False")
    csr = cluster.request("two", "n1")
    cluster.await_approval("two")
    assert cluster.holder("aaaaaa") == holder_of(csr)


def test_a_token_that_is_being_deleted_admits_nobody(api, cluster, start):
    """A finalizer keeps its Secret. The request was made before."""
    secret = cluster.token("aaaaaa", "n1", created=-60)
    cluster.request("one", "n1", created=-30)
    api.objects.put(f"{SECRETS}/bootstrap-token-aaaaaa", secret, metadata={"deletionTimestamp": timestamp()})
    start()
    cluster.await_event("one", "TokenMissing")
    cluster.settle()
    assert cluster.conditions("one") == []


def test_a_token_that_is_bound_later_is_noticed(cluster, start):
    start().wait_line("is the leader")
    cluster.request("one", "n1", "cccccc")
    cluster.await_event("one", "TokenMissing")
    cluster.token("cccccc", "n1", created=-60)
    cluster.await_approval("one")


def make_request(node):
    return pki.sign_csr(pki.new_key(), pki.node_user(node), [pki.NODES])


def test_a_controller_that_takes_over_asks_for_the_proof_of_an_enrolled_node(api, cluster, start):
    """An attacker who waits for a failover gains nothing: the record is in the cluster."""
    first = start()
    first.wait_line("is the leader")
    start()
    cluster.enroll("n1", pki.new_key())
    first.stop()
    cluster.token("aaaaaa", "n1")
    cluster.request("thief", "n1")
    cluster.await_event("thief", "AttestationMissing")
    assert cluster.conditions("thief") == []


def test_an_enrolled_token_admits_enrolled_nodes_with_their_proofs(cluster, start):
    """Also repeatedly, since a fleet shares it; but nobody else, and no node with the key of another."""
    keys = {name: pki.new_key() for name in ("n1", "n2")}
    cluster.token("eeeeee", None, group=ENROLLED)
    for name, key in keys.items():
        cluster.enroll(name, key)
    for name, node, key in [("one", "n1", keys["n1"]), ("two", "n2", keys["n2"]), ("other", "n1", keys["n2"]), ("third", "n3", keys["n1"])]:
        pem = make_request(node)
        cluster.request(name, node, "eeeeee", pem=pem + pki.prove(key, pem, "eeeeee"))
    cluster.request("silent", "n1", "eeeeee")
    start()
    cluster.await_approval("one")
    cluster.await_approval("two")
    cluster.await_event("other", "AttestationInvalid")
    cluster.await_event("third", "NotEnrolled")
    cluster.await_event("silent", "AttestationMissing")
    assert cluster.holder("eeeeee") is None, "it is not for one use"
    assert [cluster.conditions(name) for name in ("other", "third", "silent")] == [[], [], []]


def test_an_unknown_machine_waits_until_its_key_is_enrolled(api, cluster, start):
    """The Event has the fingerprint, which the administrator compares. The same request is then approved."""
    key = pki.new_key()
    fingerprint = pki.fingerprint(key.public_key())
    cluster.token("eeeeee", None, group=ENROLLED)
    pem = make_request("n1")
    cluster.request("one", "n1", "eeeeee", pem=pem + pki.prove(key, pem, "eeeeee"))
    start()
    [event] = cluster.await_event("one", "NotEnrolled")
    assert f"the request names the key {fingerprint} (not verified)" in event["message"]
    done = api.run("enroll", "add", "n1", f"--fingerprint={fingerprint}")
    assert done.returncode == 0, done.stderr
    cluster.await_approval("one")


def test_a_replaced_mainboard(api, cluster, start):
    """Its request would be judged again after an hour only, but the new key wakes it."""
    enrolled, found = pki.new_key(), pki.new_key()
    cluster.token("eeeeee", None, group=ENROLLED)
    cluster.enroll("n1", enrolled)
    for name, named in ("new", None), ("old", False):
        pem = make_request("n1")
        cluster.request(name, "n1", "eeeeee", pem=pem + pki.prove(found, pem, "eeeeee", named))
    start()
    [new], [old] = (cluster.await_event(name, "AttestationInvalid") for name in ("new", "old"))
    assert f"names the key {pki.fingerprint(found.public_key())} (not verified); the enrolled key is {pki.fingerprint(enrolled.public_key())}" in new["message"]
    assert "sha256:" not in old["message"]
    words = "enroll", "add", "n1", f"--fingerprint={pki.fingerprint(found.public_key())}"
    assert api.run(*words).returncode == 73 and api.run(*words, "--force").returncode == 0
    cluster.await_approval("new")


def test_a_node_that_is_enrolled_without_a_key_needs_no_proof(cluster, start):
    """Its record has addresses for serving certificates. The enrolled token, and the policy, still need a key."""
    cluster.record("n1", node="n1", addresses="10.0.0.5")
    cluster.token("aaaaaa", "n1")
    cluster.token("eeeeee", None, group=ENROLLED)
    cluster.request("fleet", "n1", "eeeeee")
    start()
    cluster.await_event("fleet", "NotEnrolled")
    cluster.request("one", "n1")
    cluster.await_approval("one")
    assert cluster.conditions("fleet") == []


def test_a_token_of_the_bound_group_without_a_node_admits_nobody(cluster, start):
    cluster.token("bbbbbb", None, group=BOUND)
    cluster.request("one", "n1", "bbbbbb")
    start()
    cluster.await_event("one", "TokenWithoutNode")
    assert cluster.conditions("one") == []


def test_a_request_is_decided_by_the_time_at_which_it_was_made(cluster, start):
    """The controller was away while the token expired, or while it had not been made."""
    cluster.token("aaaaaa", "n1", expires=-60, created=-3600)
    cluster.request("late", "n1", created=-30)
    cluster.request("one", "n1", created=-120)
    start()
    cluster.await_event("late", "TokenExpired")
    cluster.await_approval("one")


UNUSABLE = {
    "of another node": {"node": "n2"},
    "of another type": {"node": "n1", "kind": "Opaque"},
    "whose removal is not complete": {"node": "n1", "removed": "removing"},
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_a_record_that_cannot_be_used_admits_nobody(cluster, start, case):
    cluster.token("aaaaaa", "n1")
    cluster.record("n1", **UNUSABLE[case])
    cluster.request("one", "n1")
    start("--deny")
    cluster.await_event("one", "RecordUnusable")
    assert cluster.conditions("one") == [] and cluster.holder("aaaaaa") is None


@pytest.mark.parametrize("policy", [{"requireproof": "true"}, {"requireProof": "yes"}, "forbidden", "deleted"], ids=["unknown key", "malformed", "forbidden", "deleted"])
def test_a_policy_that_cannot_be_used_admits_nobody(api, cluster, start, policy):
    """One that was deleted may have required a proof."""
    if policy == "deleted":
        api.objects.remove(POLICY)
    elif policy == "forbidden":
        api.denied.add("get configmaps")
    else:
        cluster.policy(**policy)
    cluster.token("aaaaaa", "n1")
    cluster.request("one", "n1")
    start()
    cluster.await_event("one", "PolicyUnusable")
    assert cluster.conditions("one") == []


def test_a_removed_node_needs_a_new_request(api, cluster, start):
    """A request that needed a proof when it was made is not approved because the node is no longer enrolled. The time is that of the API
    server, whose clock is an hour ahead of this machine's."""
    api.clock_offset = 3600
    cluster.enroll("n1", pki.new_key())
    cluster.token("aaaaaa", "n1", expires=7200)
    cluster.request("one", "n1", created=3590)
    done = api.run("enroll", "remove", "n1")
    assert done.returncode == 0, done.stderr
    start()
    cluster.await_event("one", "NodeRemoved")
    cluster.request("two", "n1", created=3660)
    cluster.await_approval("two")
    assert cluster.conditions("one") == []


ENROLLED_KEY, OTHER_KEY = pki.new_key(), pki.new_key()
ATTESTATIONS = {
    "no proof": ("AttestationMissing", True, lambda pem: b""),
    "the proof of another key": ("AttestationInvalid", True, lambda pem: pki.prove(pki.new_key(), pem, "aaaaaa")),
    "the proof of another request": ("AttestationInvalid", True, lambda pem: pki.prove(ENROLLED_KEY, make_request("n1"), "aaaaaa")),
    "a proof for another token": ("AttestationInvalid", True, lambda pem: pki.prove(ENROLLED_KEY, pem, "bbbbbb")),
    "no enrolled key": ("NotEnrolled", False, lambda pem: pki.prove(ENROLLED_KEY, pem, "aaaaaa")),
    "a proof": (None, True, lambda pem: pki.prove(ENROLLED_KEY, pem, "aaaaaa")),
    "a proof that names no key": (None, True, lambda pem: pki.prove(ENROLLED_KEY, pem, "aaaaaa", named=False)),
    "a proof that names another key": (None, True, lambda pem: pki.prove(ENROLLED_KEY, pem, "aaaaaa", named=OTHER_KEY)),
    "the enrolled key is named, and another signs": ("AttestationInvalid", True, lambda pem: pki.prove(OTHER_KEY, pem, "aaaaaa", named=ENROLLED_KEY)),
    "a key alone": ("AttestationMissing", True, lambda pem: pki.name_key(ENROLLED_KEY)),
}


@pytest.mark.parametrize("case", ATTESTATIONS)
def test_a_required_proof_is_verified(cluster, start, case):
    reason, is_enrolled, make_proof = ATTESTATIONS[case]
    cluster.policy(requireProof="true")
    if is_enrolled:
        cluster.enroll("n1", ENROLLED_KEY)
    cluster.token("aaaaaa", "n1")
    pem = make_request("n1")
    cluster.request("one", "n1", pem=pem + make_proof(pem))
    start()
    if reason:
        cluster.await_event("one", reason)
        assert cluster.conditions("one") == [] and cluster.holder("aaaaaa") is None
    else:
        cluster.await_approval("one")


def test_a_flood_of_requests_for_serving_certificates_hides_no_other(api, cluster, start):
    start("--parts=approve-client,approve-serving")
    for i in range(205):
        cluster.request(f"serving{i}", f"n{i}", user="system:node:n1", signer="kubernetes.io/kubelet-serving")
    until(lambda: len(api.objects.all(EVENTS)) >= 190, "there are as many Events", 60)
    cluster.token("aaaaaa", "n1")
    cluster.request("stolen", "n2")
    cluster.await_event("stolen", "TokenForAnotherNode")


def test_a_flood_of_requests_by_one_token_makes_few_events(api, cluster, start):
    cluster.token("aaaaaa", "n1")
    for i in range(40):
        cluster.request(f"bad{i}", "n2")
    start()
    until(lambda: count_reads(api, "aaaaaa") == 40, "each request is judged", PATIENCE)
    cluster.settle("zzz")
    events = api.objects.all(EVENTS)
    assert len(events) == 10 and sum("further requests" in event["message"] for event in events) == 1


def test_junk_of_a_revoked_token_hides_no_other(api, cluster, start):
    """Each of its requests waits for a token that does not exist."""
    for i in range(300):
        cluster.request(f"junk{i:03}", "n1", "aaaaaa", key=key_of("junk"))
    start()
    until(lambda: len(api.objects.all(EVENTS)) >= 10, "there are Events", 60)
    cluster.request("machine", "n2", "bbbbbb")
    cluster.await_event("machine", "TokenMissing", 60)
    assert len(api.objects.all(EVENTS)) == 11


def test_invented_nodes_hide_no_enrolled_one(cluster, start):
    """Whoever has the token of a fleet can invent nodes, but they are not enrolled."""
    cluster.token("eeeeee", None, group=ENROLLED)
    for node in ("n1", "n2"):
        cluster.enroll(node, ENROLLED_KEY)
    start().wait_line("is the leader")
    for i in range(20):
        cluster.request(f"junk{i}", "n2", "eeeeee")
    cluster.settle()
    cluster.request("machine", "n1", "eeeeee")
    cluster.await_event("machine", "AttestationMissing")


def test_a_flood_of_requests_by_one_token_does_not_delay_another_token(api, cluster, start):
    cluster.token("aaaaaa", "n1")
    cluster.token("bbbbbb", "n9")
    for i in range(200):
        cluster.request(f"bad{i:03}", "n2")
    cluster.request("good", "n9", "bbbbbb")
    start()
    cluster.await_approval("good")
    assert count_reads(api, "aaaaaa") < 100


def test_many_pending_requests_do_not_delay_a_revocation(api, cluster, start):
    """A token that is not revoked can be stolen."""
    cluster.token("aaaaaa", "n1")
    for i in range(200):
        cluster.request(f"bad{i:03}", "n2")
    cluster.token("bbbbbb", "n9")
    cluster.request("issued", "n9", "bbbbbb", approved=True)
    cluster.issue("issued")
    cluster.node("n9")
    start()
    cluster.await_revocation("bbbbbb")
    assert count_reads(api, "aaaaaa") < 100


def test_what_follows_the_approvals_of_a_fleet_does_not_delay_the_next_request(api, cluster, start):
    names = [f"{number:06}" for number in range(200)]
    for name in names:
        cluster.token(name, name)
        cluster.request(f"of-{name}", name, name, approved=True)
        cluster.issue(f"of-{name}")
    cluster.token("bbbbbb", "n9")
    cluster.request("good", "n9", "bbbbbb")
    start()
    cluster.await_approval("good")
    assert sum(count_reads(api, name) for name in names) < 100


# Restarts.


def test_a_controller_that_dies_between_claim_and_approval_is_continued(api, cluster, start):
    first = start()
    first.wait_line("is the leader")

    def die(request):
        first.process.send_signal(signal.SIGKILL)
        first.process.wait()
        return faults.hang_up_instead(request)
    api.on(APPROVAL, die, times=1)
    cluster.token("aaaaaa", "n1")
    csr = cluster.request("one", "n1")
    cluster.api.objects.wait(lambda: cluster.holder("aaaaaa"))
    cluster.request("two", "n1")
    first.process.wait(10)
    api.objects.remove(f"{LEASES}/node-bootstrap-controller")   # instead of waiting until it expires
    start()
    cluster.await_approval("one")
    cluster.await_event("two", "TokenUsed")
    assert cluster.holder("aaaaaa") == holder_of(csr) and cluster.conditions("two") == []


def test_a_claimed_token_whose_request_is_gone_is_revoked(cluster, start):
    cluster.claim("aaaaaa", "gone", "gone", cluster.token("aaaaaa", "n1"))
    cluster.token("bbbbbb", "n2")
    cluster.claim("bbbbbb", "gone", "gone", None)
    start("--grace=1s")
    cluster.await_revocation("aaaaaa")
    cluster.settle_tokens()
    assert cluster.exists("bbbbbb"), "the claim is of an earlier token with this ID"


FORGED = {
    "another user": {"user": "mallory"},
    "another user, for the token's node": {"user": "mallory", "node": "n1"},
    "another token": {"token_id": "bbbbbb"},
    "another user and usages": {"user": "mallory", "usages": ["client auth"]},
}


@pytest.mark.parametrize("case", FORGED)
def test_a_forged_claim_lets_no_other_request_in(cluster, start, case):
    """Whoever may create Leases can name any request in a claim, also one that the controller ignores."""
    secret = cluster.token("aaaaaa", "n1")
    cluster.token("bbbbbb", None)
    forged = cluster.request("forged", **{"node": "victim", **FORGED[case]})
    cluster.claim("aaaaaa", "forged", holder_of(forged), secret)
    start().wait_line("is the leader")
    cluster.settle_tokens()
    assert cluster.conditions("forged") == [] and cluster.exists("aaaaaa")


@pytest.mark.parametrize("is_watched_first", [False, True])
def test_a_forged_claim_lets_no_newer_request_in(api, cluster, start, is_watched_first):
    """The request is made when the list of requests is already read."""
    secret = cluster.token("aaaaaa", "n1")
    if is_watched_first:
        cluster.claim("a00000", "gone", "gone", cluster.token("a00000", "n0"))

    def forge(_):
        forged = cluster.request("forged", "victim")
        cluster.claim("aaaaaa", "forged", holder_of(forged), secret)
    api.on("list leases", forge, times=1)
    start().wait_line("is the leader")
    cluster.await_event("forged", "TokenForAnotherNode")
    cluster.settle_tokens()
    assert cluster.conditions("forged") == [] and cluster.exists("aaaaaa")


def test_a_request_of_an_earlier_token_with_the_same_id_is_not_approved(api, cluster, start):
    """The thief of a token that was revoked must not profit from the next one."""
    cluster.token("aaaaaa", "n1", created=-7200)
    cluster.request("thief", "n1", created=-3600)
    cluster.node("n1", ready="True")
    start()
    cluster.await_event("thief", "NodeReady")
    api.objects.remove(f"{SECRETS}/bootstrap-token-aaaaaa")
    cluster.token("aaaaaa", "n1")
    cluster.node("n1", ready="False")
    cluster.await_event("thief", "TokenRecreated")
    cluster.request("machine", "n1")
    cluster.await_approval("machine")
    assert cluster.conditions("thief") == []


def test_a_claim_that_is_not_of_this_token_delays_a_join_until_it_is_removed(api, cluster, start):
    """Kubernetes' garbage collector removes that of an earlier token with this ID after its Secret. Nobody removes one that somebody made."""
    for token_id, has_owner in ("aaaaaa", False), ("bbbbbb", True):
        old = cluster.token(token_id, "n1")
        api.objects.remove(f"{SECRETS}/bootstrap-token-{token_id}")
        cluster.token(token_id, "n2")
        cluster.claim(token_id, "gone", "gone", old if has_owner else None)
        cluster.request(f"of-{token_id}", "n2", token_id)
    start()
    for token_id in "aaaaaa", "bbbbbb":
        cluster.await_event(f"of-{token_id}", "TokenClaimForeign")
        assert cluster.exists(token_id) and cluster.conditions(f"of-{token_id}") == []
    for token_id in "aaaaaa", "bbbbbb":
        api.objects.remove(f"{LEASES}/node-bootstrap-token-{token_id}")
    for token_id in "aaaaaa", "bbbbbb":
        cluster.await_approval(f"of-{token_id}")


def test_a_copy_of_a_request_takes_nothing_from_its_machine(api, cluster, start):
    """A thief who has the token submits the machine's own signed request, and the machine submits it again."""
    cluster.token("aaaaaa", "n1")
    cluster.request("copy", "n1", key=key_of("machine"))
    start()
    cluster.await_approval("copy")
    api.objects.remove(f"{CSRS}/copy")
    cluster.request("machine", "n1")
    cluster.await_approval("machine")


def test_a_refusal_names_the_request_that_used_the_token(cluster, start):
    cluster.token("aaaaaa", "n1")
    cluster.request("first", "n1")
    start()
    cluster.await_approval("first")
    cluster.request("second", "n1")
    [event] = cluster.await_event("second", "TokenUsed")
    assert "first" in event["message"]


def test_a_token_that_was_created_again_is_not_revoked_for_the_use_of_the_first(api, cluster, start):
    cluster.token("aaaaaa", "n1")
    cluster.request("one", "n1")
    cluster.token("bbbbbb", "n2")
    cluster.request("later", "n2", "bbbbbb")
    start("--grace=3s")
    cluster.await_approval("one")
    cluster.await_approval("later")
    cluster.issue("one")
    cluster.settle()
    api.objects.remove(f"{SECRETS}/bootstrap-token-aaaaaa")
    cluster.token("aaaaaa", "n1")
    cluster.issue("later")
    cluster.await_revocation("bbbbbb")      # so the time of the first one is over
    cluster.settle_tokens("another")
    assert cluster.exists("aaaaaa")
