# SPDX-License-Identifier: Apache-2.0
"""node-bootstrap-admin controller against a scripted API: what it approves, what it leaves, and what it does when the API fails."""

import json
import os
import signal
import socket
import time

import pytest

import admin
import faults
import objects
import pki
from admin_cluster import APPROVAL, CSRS, Cluster, EVENTS, INTERNAL, LEASES, NODES, SECRETS, await_true, cut_watches
from csrs import timestamp
from endpoint import Reply


@pytest.fixture
def cluster(api):
    return Cluster(api)


@pytest.fixture
def start(api):
    running = []

    def begin(*options, env=None):
        parts = ["--parts=approve-client"] * (not any(option.startswith("--parts") for option in options))
        running.append(admin.Running("controller", *parts, *options, "--kubeconfig", api.kubeconfig(), env=env))
        return running[-1]
    yield begin
    for controller in running:
        controller.stop()


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
    assert cluster.holder("aaaaaa") == csr["metadata"]["uid"]
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


def test_a_token_that_is_bound_later_is_noticed(cluster, start):
    start().wait_line("is the leader")
    cluster.request("one", "n1", "cccccc")
    cluster.await_event("one", "TokenMissing")
    cluster.token("cccccc", "n1")
    cluster.await_approval("one")


def test_the_inventory_admits_nodes_with_a_token_for_any_node(cluster, start, tmp_path):
    inventory = tmp_path / "inventory.yaml"
    inventory.write_text(f"n1: {{}}\nn2: {{until: '{timestamp(-60)}'}}\n")
    cluster.token("bbbbbb", None)
    for name in ("n1", "n2", "n3"):
        cluster.request(name, name, "bbbbbb")
    start(f"--inventory={inventory}")
    cluster.await_approval("n1")
    cluster.await_event("n2", "NotInInventory")
    cluster.await_event("n3", "NotInInventory")
    assert cluster.holder("bbbbbb") is None, "it is not for one use"


def test_an_inventory_that_cannot_be_read_admits_nobody(cluster, start, tmp_path):
    inventory = tmp_path / "inventory"
    inventory.write_text("n1: {}\n")
    start(f"--inventory={inventory}").wait_line("is the leader")
    inventory.write_text("n1: {until: tomorrow}\n")
    cluster.token("aaaaaa", "n1")
    cluster.request("one", "n1")
    [event] = cluster.await_event("one", "InventoryUnusable")
    assert f"{inventory}:1: until: expected a time" in event["message"]
    assert cluster.conditions("one") == []
    inventory.write_text("n1: {}\n")
    cluster.await_approval("one")


def test_a_flood_of_requests_for_serving_certificates_hides_no_other(api, cluster, start):
    start("--parts=approve-client,approve-serving", "--serving-names=.example.org")
    for i in range(205):
        cluster.request(f"serving{i}", "n1", user="system:node:n1", signer="kubernetes.io/kubelet-serving")
    await_true(lambda: len(api.objects.all(EVENTS)) >= 200)
    cluster.token("aaaaaa", "n1")
    cluster.request("stolen", "n2")
    cluster.await_event("stolen", "TokenForAnotherNode")


def test_a_flood_of_requests_by_one_token_makes_few_events(api, cluster, start):
    cluster.token("aaaaaa", "n1")
    for i in range(40):
        cluster.request(f"bad{i}", "n2")
    start()
    await_true(lambda: count_reads(api, "aaaaaa") == 40)
    cluster.settle("zzz")
    assert len(api.objects.all(EVENTS)) == 10


def test_a_flood_of_requests_by_one_token_does_not_delay_another_token(api, cluster, start):
    cluster.token("aaaaaa", "n1")
    cluster.token("bbbbbb", "n9")
    for i in range(200):
        cluster.request(f"bad{i:03}", "n2")
    cluster.request("good", "n9", "bbbbbb")
    start()
    cluster.await_approval("good")
    assert count_reads(api, "aaaaaa") < 100


# What somebody else approved.


def test_a_request_that_somebody_else_approved_uses_up_its_token(cluster, start):
    cluster.token("aaaaaa", "n1")
    csr = cluster.request("one", "n1", approved=True)
    start("--grace=1h").wait_line("is the leader")
    cluster.api.objects.wait(lambda: cluster.holder("aaaaaa") == csr["metadata"]["uid"])
    cluster.issue("one")
    cluster.node("n1", created=1)
    cluster.await_revocation("aaaaaa")


def test_an_automatic_approval_of_a_stolen_token_is_reported(cluster, start):
    cluster.token("aaaaaa", "n1")
    cluster.request("one", "n2", approved=True)
    start().wait_line("Somebody else approved this request")
    cluster.await_event("one", "TokenForAnotherNode")
    assert cluster.holder("aaaaaa") is None


# Restarts, and two of them.


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
    cluster.request("two", "n1")
    cluster.api.objects.wait(lambda: cluster.holder("aaaaaa"))
    first.process.wait(10)
    api.objects.remove(f"{LEASES}/node-bootstrap-controller")   # instead of waiting until it expires
    start()
    cluster.await_approval("one")
    cluster.await_event("two", "TokenUsed")
    assert cluster.holder("aaaaaa") == csr["metadata"]["uid"] and cluster.conditions("two") == []


def test_a_claimed_token_whose_request_is_gone_is_revoked(cluster, start):
    secret = cluster.token("aaaaaa", "n1")
    cluster.token("bbbbbb", "n2")
    for token_id, owner in (("aaaaaa", secret), ("bbbbbb", None)):
        cluster.api.objects.put(f"{LEASES}/node-bootstrap-token-{token_id}", spec={"holderIdentity": "gone"}, metadata={
            "annotations": {"node-bootstrap/csr": "gone"}, "labels": {"node-bootstrap/claim": "true"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Secret", "name": "x", "uid": owner["metadata"]["uid"]}] if owner else []})
    start()
    cluster.await_revocation("aaaaaa")
    cluster.settle_tokens()
    assert cluster.exists("bbbbbb"), "the claim is of an earlier token with this ID"


def test_a_forged_claim_lets_no_other_request_in(api, cluster, start):
    """Whoever may create Leases can name any request in a claim, also one that the controller ignores."""
    secret = cluster.token("aaaaaa", "n1")
    cluster.token("bbbbbb", None)
    for number, options in enumerate(({"user": "mallory"}, {"token_id": "bbbbbb"}, {"user": "mallory", "usages": ["client auth"]})):
        forged = cluster.request(f"forged-{number}", "victim", **options)
        api.objects.put(f"{LEASES}/node-bootstrap-token-aaaaaa", spec={"holderIdentity": forged["metadata"]["uid"]}, metadata={
            "annotations": {"node-bootstrap/csr": f"forged-{number}"}, "labels": {"node-bootstrap/claim": "true"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Secret", "name": "x", "uid": secret["metadata"]["uid"]}]})
        controller = start()
        controller.wait_line("is the leader")
        cluster.settle_tokens(f"fence-{number}")
        controller.stop()
        assert cluster.conditions(f"forged-{number}") == [] and cluster.exists("aaaaaa")


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


def test_a_claim_of_an_earlier_token_with_the_same_id_revokes_nothing(api, cluster, start):
    old = cluster.token("aaaaaa", "n1")
    api.objects.remove(f"{SECRETS}/bootstrap-token-aaaaaa")
    cluster.token("aaaaaa", "n2")
    api.objects.put(f"{LEASES}/node-bootstrap-token-aaaaaa", spec={"holderIdentity": "gone"}, metadata={
        "annotations": {"node-bootstrap/csr": "gone"}, "labels": {"node-bootstrap/claim": "true"},
        "ownerReferences": [{"apiVersion": "v1", "kind": "Secret", "name": "x", "uid": old["metadata"]["uid"]}]})
    start().wait_line("is the leader")
    cluster.settle_tokens()
    api.objects.remove(f"{LEASES}/node-bootstrap-token-aaaaaa")
    time.sleep(3)
    assert cluster.exists("aaaaaa")


def test_a_token_that_was_created_again_is_not_revoked_for_the_use_of_the_first(api, cluster, start):
    cluster.token("aaaaaa", "n1")
    cluster.request("one", "n1")
    start("--grace=2s")
    cluster.await_approval("one")
    cluster.issue("one")
    cluster.settle()
    api.objects.remove(f"{SECRETS}/bootstrap-token-aaaaaa")
    cluster.token("aaaaaa", "n1")
    time.sleep(4)
    assert cluster.exists("aaaaaa")


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


def test_the_lease_is_renewed_between_the_pages_of_a_list(api, start):
    def page(request):
        number = int(request.query.get("continue", "page0").removeprefix("page")) + 1
        return Reply(200, pki.compact({"kind": "CertificateSigningRequestList", "items": [], "metadata":
                                       {"resourceVersion": "1", **({"continue": f"page{number}"} if number < 3 else {})}}))
    api.on("list certificatesigningrequests", page)
    start().wait_line("is the leader")
    kinds = [request.kind for request in api.requests]
    assert kinds.count("list certificatesigningrequests") == 3
    assert kinds.index("create leases") < kinds.index("list certificatesigningrequests") + 2


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
    second.wait_line("is the leader", timeout=5)
    cluster.settle()


# When the API fails.


def test_a_watch_that_is_cut_continues_without_a_new_list(api, cluster, start):
    start().wait_line("is the leader")
    for i in range(3):
        cut_watches(api)
        cluster.settle(f"n{i}")
    assert len(api.seen("list certificatesigningrequests")) == 1


def test_a_request_that_was_deleted_before_a_new_list_is_noticed(api, cluster, start):
    """The record of an approved request leads to its token, which nobody can use any more."""
    start("--grace=1h").wait_line("is the leader")
    cluster.token("aaaaaa", "n1")
    cluster.request("one", "n1")
    cluster.await_approval("one")
    cluster.settle()

    def meanwhile(request):
        if api.objects.look(f"{CSRS}/one"):
            api.objects.remove(f"{CSRS}/one")
            api.objects.compact()
    api.on("watch certificatesigningrequests", meanwhile)
    cut_watches(api)
    cluster.await_revocation("aaaaaa")
    assert len(api.seen("list certificatesigningrequests")) == 2


def test_expired_watches_are_listed_again(api, cluster, start):
    start().wait_line("is the leader")
    for resource in ("certificatesigningrequests", "secrets", "nodes"):
        api.on(f"watch {resource}", faults.error(410, "Expired", "too old resource version"), times=1)
    cut_watches(api)
    await_true(lambda: all(len(api.seen(f"list {resource}")) == 2 for resource in ("certificatesigningrequests", "secrets", "nodes")))
    cluster.settle()


def test_a_watch_that_is_refused_is_tried_again_without_haste(api, cluster, start):
    api.on("watch certificatesigningrequests", INTERNAL, times=3)
    controller = start()
    controller.wait_line("server-error")
    cluster.settle()
    assert len([line for line in controller.lines if "server-error" in line]) == 1
    assert len(api.seen("watch certificatesigningrequests")) == 4


@pytest.mark.parametrize("kind", [APPROVAL, "get secrets", "create leases", "get nodes", "list secrets", "list leases"])
def test_a_request_that_fails_is_tried_again(api, cluster, start, kind):
    cluster.token("aaaaaa", "n1")
    cluster.request("one", "n1")
    api.on(kind, INTERNAL, times=2)
    start()
    cluster.await_approval("one", 20)


def test_one_request_that_always_fails_does_not_delay_others(api, cluster, start):
    cluster.token("aaaaaa", "n1")
    cluster.request("one", "n1")
    api.on("get secrets", lambda request: faults.error(403, "Forbidden", "no")(request) if
           request.place.name.endswith("aaaaaa") else None)
    start()
    for i in range(3):
        cluster.settle(f"other{i}")
    assert cluster.conditions("one") == []


def test_a_request_that_changes_during_the_decision_is_decided_again(api, cluster, start):
    start().wait_line("is the leader")

    def touch(request):
        csr = api.objects.look(f"{CSRS}/one")
        api.objects.put(f"{CSRS}/one", csr, metadata={"labels": {"changed": "yes"}})
    api.on(APPROVAL, touch, times=1)
    cluster.token("aaaaaa", "n1")
    cluster.request("one", "n1")
    cluster.await_approval("one")


def test_large_requests_do_not_end_the_watch(api, cluster, start):
    start().wait_line("is the leader")
    csr = cluster.request("large", "n1", "zzzzzz")
    for i in range(4):
        api.objects.put(f"{CSRS}/large", csr, metadata={"annotations": {"filler": f"{i}" * (1 << 20)}})
    cluster.settle()
    assert len(api.seen("list certificatesigningrequests")) == 1


def test_an_event_above_the_limit_costs_one_list(api, cluster, start):
    """The API server has such an event only if etcd's limit was raised."""
    controller = start()
    controller.wait_line("is the leader")
    csr = cluster.request("large", "n1", "zzzzzz")
    api.objects.put(f"{CSRS}/large", csr, metadata={"annotations": {"filler": "x" * (5 << 20)}})
    controller.wait_line("larger than")
    cluster.settle()
    assert len(api.seen("list certificatesigningrequests")) == 2


def test_a_lost_watch_continues_without_a_warning(api, cluster, start):
    controller = start()
    cluster.settle("first")
    connected = len(api.seen("watch certificatesigningrequests"))
    cut_watches(api)
    cluster.settle("second")
    assert len(api.seen("watch certificatesigningrequests")) > connected
    assert controller.stop(3) == 0
    assert not [line for line in controller.lines if "watching" in line], "the connection was lost, but the API server answered again"


def test_large_requests_do_not_prevent_the_list(api, cluster, start):
    csr = cluster.request("large", "n1", "zzzzzz")
    for i in range(8):
        api.objects.put(f"{CSRS}/large{i}", csr, metadata={"annotations": {"filler": "x" * (1 << 20)}})
    start()
    cluster.settle()


# The program.


def test_it_ends_at_once_and_gives_the_lease_away(api, cluster, start):
    controller = start()
    controller.wait_line("is the leader")
    assert controller.stop(3) == 0
    assert api.objects.look(f"{LEASES}/node-bootstrap-controller")["spec"]["holderIdentity"] == ""


def test_a_token_file_that_was_replaced_is_read_again(api, cluster, tmp_path):
    bearer = tmp_path / "token"
    bearer.write_text("first-token-of-the-account")
    api.cluster.bearers["first-token-of-the-account"] = admin.ADMIN
    path = api.kubeconfig("account.conf", user={"tokenFile": str(bearer)})
    with admin.Running("controller", "--parts=approve-client", "--kubeconfig", path) as controller:
        controller.wait_line("is the leader")
        bearer.write_text("second-token-of-the-account")
        api.cluster.bearers["second-token-of-the-account"] = admin.ADMIN
        del api.cluster.bearers["first-token-of-the-account"]
        cut_watches(api)
        cluster.settle()


def test_systemd_is_told_of_the_start_the_state_and_that_it_lives(cluster, start):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0node-bootstrap-test-{os.getpid()}")
        manager.settimeout(10)
        controller = start(env={"NOTIFY_SOCKET": f"@node-bootstrap-test-{os.getpid()}", "WATCHDOG_USEC": "600000"})
        seen = []

        def hear(text):
            while not any(line.startswith(text) for line in seen):
                seen.extend(manager.recv(65536).decode().splitlines())
        hear("READY=1")
        assert any(line.startswith("STATUS=") for line in seen), "who starts the unit may read the state at once"
        hear("STATUS=Leader; 0 pending, 0 tokens, 0 approved")
        cluster.settle("n1")
        hear("STATUS=Leader; 0 pending, 1 tokens, 1 approved; last: approved n1")
        seen.clear()
        hear("WATCHDOG=1")
        controller.stop()
        hear("STOPPING=1")


def test_it_is_ready_and_says_why_it_waits_when_the_api_server_is_away(api, tmp_path):
    path = api.kubeconfig()
    api.stop()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0node-bootstrap-test-{os.getpid()}-away")
        manager.settimeout(10)
        with admin.Running("controller", "--kubeconfig", path, env={"NOTIFY_SOCKET": f"@node-bootstrap-test-{os.getpid()}-away"}) as controller:
            lines = []
            while "READY=1" not in lines:
                lines.extend(manager.recv(65536).decode().splitlines())
            assert any(line.startswith("STATUS=Trying again: ") for line in lines)
            controller.wait_line("endpoint-refused")
            assert controller.stop(3) == 0


def test_metrics_are_written(cluster, start, tmp_path):
    metrics = tmp_path / "controller.prom"
    controller = start(f"--metrics={metrics}", "--grace=1s")
    controller.wait_line("is the leader")
    cluster.token("aaaaaa", "n1")
    cluster.request("one", "n1")
    cluster.await_approval("one")
    cluster.issue("one")
    controller.wait_line("revoked token aaaaaa")
    controller.stop()
    lines = metrics.read_text().splitlines()
    assert 'node_bootstrap_controller_actions_total{action="approved"} 1' in lines
    assert 'node_bootstrap_controller_actions_total{action="token_revoked"} 1' in lines
    assert "node_bootstrap_controller_leader 0" in lines and "node_bootstrap_controller_pending_requests 0" in lines
    assert all(line.startswith(("#", "node_bootstrap_controller_")) for line in lines)


@pytest.mark.parametrize("options, message", [
    (["--parts=approve-client,fly"], "unknown part"),
    (["--parts="], "unknown part"),
    (["--grace=soon"], "duration"),
    (["--metrics=file"], "absolute path"),
    (["--require-attestation"], "--inventory"),
])
def test_wrong_options_are_refused(api, options, message):
    done = api.run("controller", *options)
    assert done.returncode == 64 and message in done.stderr


def test_no_secret_of_a_token_is_logged(api, cluster, start):
    controller = start()
    cluster.settle()
    controller.stop()
    assert "0123456789abcdef" not in json.dumps(controller.lines)
    assert all("0123456789abcdef" not in (request.body or b"").decode(errors="replace") for request in api.requests)
