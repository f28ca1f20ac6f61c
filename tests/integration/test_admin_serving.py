# SPDX-License-Identifier: Apache-2.0
"""The approver of serving certificates against a scripted API: where its facts come from, and what it does without them."""

import pytest

from common import faults, pki
from common.csrs import timestamp
from . import admin
from .admin_cluster import APPROVAL, POLICY, Cluster
from .admin_serving import CSRS, EVENTS, NODE, approval, event, put_node, put_policy, submit


@pytest.fixture
def run(api):
    running = []

    def start(*options):
        running.append(admin.Running("controller", "--kubeconfig", api.kubeconfig(), "--parts", "approve-serving", *options))
        return running[-1]
    put_policy(api)
    yield start
    for process in running:
        process.stop()


def test_a_request_is_approved_as_it_was_read(api, run):
    put_node(api, "10.0.0.5", NODE)
    submit(api, "good", "10.0.0.5", NODE)
    run()
    api.objects.wait(lambda: approval(api, "good") == "Approved")
    [patch] = api.seen("patch certificatesigningrequests/approval")
    metadata = patch.json()["metadata"]
    assert metadata["uid"] == api.objects.look(f"{CSRS}/good")["metadata"]["uid"] and metadata["resourceVersion"]


def test_an_approval_whose_answer_is_lost_is_logged(api, run):
    put_node(api, "10.0.0.5", NODE)
    submit(api, "good", "10.0.0.5", NODE)

    def approve(request):
        api.healthy(request)
        return faults.hang_up_instead(request)
    api.on(APPROVAL, approve, times=1)
    run().wait_line("approved CSR good: ")


def test_a_name_that_is_too_long_is_what_is_wrong(api, run):
    put_node(api, "10.0.0.5", NODE)
    submit(api, "x" * 300, "10.0.0.5", NODE)
    run()
    [message] = api.objects.wait(lambda: [event["message"] for event in api.objects.all(EVENTS)])
    assert message == "the serving certificate is not approved: its name is not usable"


def test_without_a_usable_policy_nothing_is_approved(api, run):
    api.objects.remove(POLICY)
    put_node(api, "10.0.0.5")
    submit(api, "one", "10.0.0.5")
    run()
    api.objects.wait(lambda: "there is no ConfigMap kube-system/node-bootstrap-policy" in event(api, "one"))
    put_policy(api, servingPrefixes="10.0.0.1/8")
    submit(api, "two", "10.0.0.5")
    api.objects.wait(lambda: "data.servingPrefixes: expected prefixes" in event(api, "two"))
    assert approval(api, "one") is None and approval(api, "two") is None
    put_policy(api)
    api.objects.wait(lambda: approval(api, "one") == "Approved" and approval(api, "two") == "Approved", 20)


def test_a_record_that_cannot_be_used_allows_nothing(api, run):
    Cluster(api).record(NODE, node="other")
    put_node(api, "10.0.0.5")
    submit(api, "one", "10.0.0.5")
    run()
    api.objects.wait(lambda: "metadata.name: expected" in event(api, "one"))
    assert approval(api, "one") is None
    Cluster(api).enroll(NODE, pki.new_key())
    api.objects.wait(lambda: approval(api, "one") == "Approved", 20)


def test_what_is_enrolled_beats_what_is_claimed(api, run):
    """Neither can keep the other from the address, before it is enrolled for one of them; the Events name both."""
    other = "worker-2"
    put_node(api, "10.0.0.7")
    put_node(api, "10.0.0.7", name=other)
    submit(api, "first", "10.0.0.7")
    submit(api, "second", "10.0.0.7", node=other)
    run()
    api.objects.wait(lambda: event(api, "first") and event(api, "second"))
    assert f"of node {NODE} is also in the Node {other}" in event(api, "first") and f"of node {other} is also in the Node {NODE}" in event(api, "second")
    Cluster(api).enroll(NODE, pki.new_key(), addresses="10.0.0.7")
    api.objects.wait(lambda: approval(api, "first") == "Approved", 30)
    submit(api, "third", "10.0.0.7", node=other)
    api.objects.wait(lambda: f"of node {other} is" in event(api, "third") and NODE in event(api, "third"))
    assert f"of node {other} is enrolled for node {NODE}" in api.run("requests", "approve", "third").stderr, "with a snapshot that has the record"
    assert approval(api, "second") is None and approval(api, "third") is None


@pytest.mark.parametrize("spoil", [
    (lambda api: Cluster(api).record("worker-2", node="worker-2", publicKey="?", dnsNames="db.example.org")),
    (lambda api: api.objects.put("/api/v1/nodes/worker-2", status={"addresses": {}})),
    (lambda api: api.objects.put("/api/v1/nodes/worker-2", status={"addresses": [{"type": "InternalIP", "address": "10.0.0.5"}],
                                                                   "images": [{"sizeBytes": number} for number in range(21000)]})),
], ids=["a record", "a Node", "a large Node"])
def test_what_cannot_be_read_may_belong_to_another_node(api, run, spoil):
    """So only what is enrolled is approved."""
    spoil(api)
    put_node(api, "10.0.0.5")
    submit(api, "one", "10.0.0.5")
    run()
    Cluster(api).await_event("one", "ServingListIncomplete")
    assert "cannot be read" in event(api, "one") and approval(api, "one") is None
    assert api.run("requests", "approve", "one", "--force").returncode == 65 and approval(api, "one") is None
    Cluster(api).enroll(NODE, pki.new_key(), addresses="10.0.0.5")
    api.objects.wait(lambda: approval(api, "one") == "Approved", 20)


def test_requests_that_wait_share_a_snapshot(api, run):
    for number in range(30):
        put_node(api, f"10.0.1.{number}", name=f"n{number}")
        submit(api, f"csr-{number}", f"10.0.1.{number}", node=f"n{number}")
    run()
    api.objects.wait(lambda: all(approval(api, f"csr-{number}") == "Approved" for number in range(30)), 30)
    assert len(api.seen("list nodes")) <= 3


# What belongs to the cluster is what the policy says: no scan of the cluster knows the names of an SNI certificate, or of each Pod.
CLUSTER = {
    "the API server's certificate for SNI": ("api.corp.test", "api.corp.test", "is neither enrolled"),
    "a second API server": (NODE, "10.0.0.1", "is in servingRefused"),
    "the address of a Pod, in no podCIDR": (NODE, "10.244.3.3", "is within podNetworks"),
    "the address of a Service": (NODE, "10.96.0.10", "is within serviceNetworks"),
    "the name of an API server, in a suffix": ("api.example.org", "api.example.org", "is in servingRefused"),
}


@pytest.mark.parametrize("case", CLUSTER)
def test_what_belongs_to_the_cluster_is_refused(api, run, case):
    node, host, reason = CLUSTER[case]
    put_node(api, host, "10.0.0.6", name=node)
    submit(api, "bad", host, node=node)
    submit(api, "good", "10.0.0.6", node=node)
    run()
    api.objects.wait(lambda: approval(api, "good") == "Approved" and (event(api, "bad") or approval(api, "bad")))
    assert reason in event(api, "bad") and approval(api, "bad") is None
    assert api.run("requests", "approve", "bad", "--force").returncode == 65 and approval(api, "bad") is None


def test_a_refused_request_costs_no_list(api, run):
    put_node(api, "10.0.0.1", "10.0.0.6")
    submit(api, "bad", "10.0.0.1")
    run()
    Cluster(api).await_event("bad", "ServingNotItsOwn")
    put_node(api, "10.0.0.1", "10.0.0.6", changed="yes")
    submit(api, "outside", "192.0.2.1")
    Cluster(api).await_event("outside", "ServingNotAllowed")
    assert not api.seen("list nodes") and {request.kind for request in api.requests}.isdisjoint({"list services", "get endpoints"})


def test_a_request_from_before_the_removal_of_its_node_is_not_approved(api, run):
    """While its node was enrolled, it asked for more than was enrolled."""
    Cluster(api).enroll(NODE, pki.new_key(), addresses="10.0.0.5")
    put_node(api, "10.0.0.5", "10.0.0.6")
    submit(api, "before", "10.0.0.6")
    run()
    api.objects.wait(lambda: "is not among the addresses that are enrolled" in event(api, "before"))
    assert api.run("enroll", "remove", NODE).returncode == 0
    # An Event is written once for each verdict, which the controller may reach between the two steps of the removal.
    texts = "before the enrolled node was removed", "found 'removing'"
    api.objects.wait(lambda: any(text in event(api, "before") for text in texts) or approval(api, "before"), 20)
    done = api.run("requests", "approve", "before")
    assert done.returncode != 0 and texts[0] in done.stderr and approval(api, "before") is None


def test_an_empty_record_enrolls_nothing(api):
    """Somebody has deleted its keys. The node may have chosen its name itself."""
    node = "db.corp.test"
    Cluster(api).record(node, node=node)
    put_policy(api)
    put_node(api, name=node)
    submit(api, "own", node, node=node)
    done = api.run("requests", "approve", "own", "--force")
    assert done.returncode == 65 and "data: expected publicKey, addresses or dnsNames" in done.stderr and approval(api, "own") is None


def test_what_is_enrolled_after_a_removal_is_allowed(api):
    put_policy(api)
    put_node(api, "10.0.0.5")
    Cluster(api).record(NODE, node=NODE, removed=timestamp(-60), addresses="192.0.2.1")
    submit(api, "enrolled", "192.0.2.1")
    submit(api, "status", "10.0.0.5")
    assert api.run("requests", "approve", "enrolled").returncode == 0
    assert "is not among the addresses that are enrolled" in api.run("requests", "approve", "status").stderr


@pytest.mark.parametrize("kind", ["list secrets", "list nodes", "get nodes"])
def test_without_a_fact_nothing_is_approved(api, run, kind):
    """Once it may be read, the request is approved."""
    api.denied.add(kind)
    put_node(api, "10.0.0.5")
    submit(api, "good", "10.0.0.5")
    controller = run()
    controller.wait_line("forbidden")
    assert approval(api, "good") is None
    api.denied.clear()
    api.objects.wait(lambda: approval(api, "good") == "Approved")


def test_the_node_may_come_later(api, run):
    """And its addresses after it. The Events say what is missing, each once."""
    submit(api, "good", "10.0.0.5")
    run()
    api.objects.wait(lambda: "there is no Node of this name" in event(api, "good"))
    put_node(api, "10.0.0.6")
    api.objects.wait(lambda: "not among the addresses in the status" in event(api, "good"), 20)
    put_node(api, "10.0.0.5")
    api.objects.wait(lambda: approval(api, "good") == "Approved", 30)
    assert len(api.objects.all(EVENTS)) == 2


def test_one_request_does_not_hold_up_another(api, run):
    put_node(api, "10.0.0.5")
    put_node(api, "10.0.0.6", name="other")
    api.on("get nodes", lambda request: faults.INTERNAL(request) if request.place.name == NODE else None)
    submit(api, "a-first", "10.0.0.5")
    submit(api, "b-second", "10.0.0.6", node="other")
    run()
    api.objects.wait(lambda: approval(api, "b-second") == "Approved")
    assert approval(api, "a-first") is None


def test_decided_requests_are_left_alone(api, run):
    put_node(api, "10.0.0.5")
    submit(api, "denied", "10.0.0.5")
    denied = api.objects.look(f"{CSRS}/denied")
    api.objects.put(f"{CSRS}/denied", denied, status={"conditions": [{"type": "Denied", "status": "True"}]})
    submit(api, "good", "10.0.0.5")
    run()
    api.objects.wait(lambda: approval(api, "good") == "Approved")
    assert len(api.seen("patch certificatesigningrequests/approval")) == 1


def test_approve_judges_by_the_same_policy(api):
    """A kubelet that reports the names and addresses of the API server is not approved, not even with force. Force is for a Node that is
    behind."""
    put_policy(api)
    forged = {"address": "10.0.0.1", "service": "10.96.0.77", "other": "10.0.0.7", "name": "kubernetes.default.svc", "outside": "172.16.0.5"}
    put_node(api, "10.0.0.5", *forged.values())
    put_node(api, "10.0.0.7", name="worker-2")
    for name, host in forged.items():
        submit(api, name, host, "10.0.0.5")
        for options in ((), ("--force",)):
            done = api.run("requests", "approve", name, *options)
            assert done.returncode == 65 and "--force approves" not in done.stderr and approval(api, name) is None
            assert ("FORGED?" in done.stderr) == ("admin-request-suspicious" in done.stderr) == (name in ("address", "service", "other"))
    submit(api, "behind", "10.0.0.8")
    submit(api, "behind-and-other", "10.0.0.8", "10.0.0.7")
    assert api.run("requests", "approve", "behind-and-other", "--force").returncode == 65
    done = api.run("requests", "approve", "behind")
    assert done.returncode == 65 and "status of the Node" in done.stderr and "--force approves it" in done.stderr
    assert api.run("requests", "approve", "behind", "--force").returncode == 0 and approval(api, "behind") == "Approved"
    submit(api, "good", "10.0.0.5")
    assert api.run("requests", "approve", "good").returncode == 0


def test_a_requestor_that_is_not_the_node_is_never_approved(api):
    put_policy(api)
    put_node(api, "10.0.0.5")
    submit(api, "bad", "10.0.0.5")
    spec = api.objects.look(f"{CSRS}/bad")["spec"]
    api.objects.put(f"{CSRS}/bad", spec={**spec, "username": "mallory"})
    done = api.run("requests", "approve", "bad", "--force")
    assert done.returncode == 65 and "is not the node that the request names" in done.stderr and approval(api, "bad") is None


def test_approve_without_a_policy(api):
    """What is never allowed must be known, even with force."""
    api.objects.remove(POLICY)
    put_node(api, "10.0.0.5")
    submit(api, "good", "10.0.0.5")
    assert api.run("requests", "approve", "good", "--force").returncode == 65 and approval(api, "good") is None
