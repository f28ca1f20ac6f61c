# SPDX-License-Identifier: Apache-2.0
"""The approver of serving certificates against a scripted API: where its facts come from, and what it does without them."""

import pytest

from common import apiserver, faults, pki
from . import admin
from .admin_cluster import POLICY, Cluster
from .admin_serving import CSRS, EVENTS, NETWORKS, NODE, SERVICES, approval, event, put_networks, put_node, put_policy, submit

CLUSTER_INFO = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
SERVICE = "/api/v1/namespaces/default/services/kubernetes"


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


@pytest.mark.parametrize("prepare", [lambda api: None, lambda api: api.on("list servicecidrs", faults.error(404, "NotFound", "the server could not find the requested resource")), lambda api: api.denied.add("list servicecidrs")],
                         ids=["none", "not served", "forbidden"])
def test_it_does_not_start_without_the_networks_of_services(api, prepare):
    prepare(api)
    put_policy(api, servingPrefixes="10.0.0.0/8")
    done = api.run("controller", "--parts=approve-serving", timeout=20)
    assert done.returncode == 64 and "serviceNetworks" in done.stderr


def test_both_sources_of_networks_count(api, run):
    """The documented prefix contains the addresses of Services."""
    api.objects.put(f"{NETWORKS}/more", spec={"cidrs": ["10.200.0.0/16"]})
    put_node(api, "10.96.0.10", "10.200.0.10", "10.0.0.5")
    for name, address in [("policy", "10.96.0.10"), ("object", "10.200.0.10"), ("good", "10.0.0.5")]:
        submit(api, name, address)
    run()
    api.objects.wait(lambda: approval(api, "good") == "Approved" and event(api, "policy") and event(api, "object"))
    assert "serviceNetworks of the policy" in event(api, "policy") and "a network of Services" in event(api, "object")
    assert approval(api, "policy") is None and approval(api, "object") is None


def test_without_a_usable_policy_nothing_is_approved(api, run):
    put_networks(api)
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
    assert f"of node {other} is enrolled for node {NODE}" in api.run("approve", "third").stderr, "with a snapshot that has the record"
    assert approval(api, "second") is None and approval(api, "third") is None


@pytest.mark.parametrize("names, is_known", [([f"{number:02}{'a' * 58}." * 3 + "b" for number in range(30)], True), (["a" * 60] * 18000, False)],
                         ids=["more than a record may have", "more than is read"])
def test_all_names_of_a_record_that_cannot_be_used_are_refused_to_others(api, names, is_known):
    put_policy(api)
    put_networks(api)
    Cluster(api).record("worker-2", node="worker-2", publicKey="?", dnsNames=",".join([*names, "db.example.org"]))
    put_node(api, "10.0.0.7", name="db.example.org")
    submit(api, "thief", "db.example.org", node="db.example.org")
    done = api.run("approve", "thief")
    assert done.returncode == 65 and ("is enrolled for node" if is_known else "more than 1000000 names") in done.stderr and approval(api, "thief") is None


def test_services_that_cannot_be_listed_are_not_passed_over(api, run):
    """With a status that the API server does not use for a list."""
    put_node(api, "10.0.0.5")
    api.objects.put(f"{SERVICES}/s1", spec={"clusterIP": "10.0.0.5"})
    api.on("list services", faults.error(409, "Conflict", "no"), times=1)
    submit(api, "bad", "10.0.0.5")
    run()
    api.objects.wait(lambda: "belongs to the Service" in event(api, "bad") or approval(api, "bad"))
    assert approval(api, "bad") is None and len(api.seen("list services")) > 1


def test_requests_that_wait_share_a_snapshot(api, run):
    for number in range(30):
        put_node(api, f"10.0.1.{number}", name=f"n{number}")
        submit(api, f"csr-{number}", f"10.0.1.{number}", node=f"n{number}")
    run()
    api.objects.wait(lambda: all(approval(api, f"csr-{number}") == "Approved" for number in range(30)), 30)
    assert len(api.seen("list nodes")) <= 3 and len(api.seen("list services")) <= 3


# What an address of the API server is known from.
API_SERVER = {
    "the server of cluster-info": lambda api: api.objects.put(CLUSTER_INFO, data={
        "kubeconfig": apiserver.kubeconfig("https://10.0.0.5:6443", api.cluster.ca.pem)}),
    "the Service": lambda api: api.objects.put(SERVICE, spec={"clusterIP": "10.0.0.5"}),
    "the second address of the Service": lambda api: api.objects.put(SERVICE, spec={"clusterIP": "fd00::1", "clusterIPs": ["fd00::1", "10.0.0.5"]}),
    "the Endpoints": lambda api: api.objects.put(admin.ENDPOINTS, subsets=[{"addresses": [{"ip": "10.0.0.4"}, {"ip": "10.0.0.5"}]}]),
    "a load balancer of that name": lambda api: api.objects.put(f"{SERVICES}/kubernetes", status={"loadBalancer": {"ingress": [{"ip": "10.0.0.5"}]}}),
    "Endpoints that are not ready": lambda api: api.objects.put(admin.ENDPOINTS, subsets=[{"notReadyAddresses": [{"ip": "10.0.0.5"}]}]),
}


@pytest.mark.parametrize("prepare", API_SERVER.values(), ids=API_SERVER)
def test_an_address_of_the_api_server_is_refused(api, run, prepare):
    prepare(api)
    put_node(api, "10.0.0.5", "10.0.0.6")
    submit(api, "bad", "10.0.0.5")
    submit(api, "good", "10.0.0.6")
    run()
    api.objects.wait(lambda: approval(api, "good") == "Approved" and event(api, "bad"))
    assert "'10.0.0.5' belongs to the cluster" in event(api, "bad") or "belongs to the Service " in event(api, "bad")
    assert approval(api, "bad") is None


def test_the_server_of_the_kubeconfig_is_refused(api):
    """It is reached at 127.0.0.1 here, so by the name that it is verified with."""
    put_node(api, "kubernetes.example.org", "localhost", name="kubernetes.example.org")
    submit(api, "bad", "kubernetes.example.org", node="kubernetes.example.org")
    api.identity = api.cluster.ca.serving(["kubernetes.example.org"])
    kubeconfig = api.kubeconfig(cluster=api.user_cluster(**{"tls-server-name": "kubernetes.example.org"}))
    put_policy(api)
    with admin.Running("controller", "--kubeconfig", kubeconfig, "--parts", "approve-serving"):
        api.objects.wait(lambda: "belongs to the cluster" in event(api, "bad"))


def test_a_request_from_before_the_removal_of_its_node_is_not_approved(api, run):
    """While its node was enrolled, it asked for more than was enrolled."""
    Cluster(api).enroll(NODE, pki.new_key(), addresses="10.0.0.5")
    put_node(api, "10.0.0.5", "10.0.0.6")
    submit(api, "before", "10.0.0.6")
    run()
    api.objects.wait(lambda: "is not enrolled for the node" in event(api, "before"))
    assert api.run("enroll", NODE, "--remove").returncode == 0
    # An Event is written once for each verdict, which the controller may reach between the two steps of the removal.
    texts = "before the enrolled node was removed", "found 'removing'"
    api.objects.wait(lambda: any(text in event(api, "before") for text in texts) or approval(api, "before"), 20)
    done = api.run("approve", "before")
    assert done.returncode != 0 and texts[0] in done.stderr and approval(api, "before") is None


@pytest.mark.parametrize("node, name", [("api.example.org", "API.example.org"), (NODE, "10.0.0.9")])
def test_a_name_in_the_certificate_of_the_api_server_is_refused(api, run, node, name):
    """No object of the cluster has this name. A node may have chosen it, and clients of the API server would accept its certificate."""
    api.identity = api.cluster.ca.serving(["127.0.0.1", name])
    put_node(api, name, "10.0.0.6", name=node)
    submit(api, "bad", name, node=node)
    submit(api, "good", "10.0.0.6", node=node)
    run()
    api.objects.wait(lambda: approval(api, "good") == "Approved" and (event(api, "bad") or approval(api, "bad")))
    assert "belongs to the cluster: the API server's certificate" in event(api, "bad") and approval(api, "bad") is None
    assert api.run("approve", "bad", "--force").returncode == 65 and approval(api, "bad") is None


def test_without_an_address_of_the_api_servers_nothing_is_approved(api, run):
    """While an API server starts, or if somebody deletes the Endpoints."""
    api.objects.put(admin.ENDPOINTS, subsets=[])
    put_node(api, "10.0.0.5", "10.0.0.6")
    submit(api, "bad", "10.0.0.5")
    submit(api, "good", "10.0.0.6")
    run().wait_line("the addresses of the API servers are not known")
    assert approval(api, "good") is None and api.run("approve", "good", "--force").returncode != 0
    api.objects.put(admin.ENDPOINTS, subsets=[{"addresses": [{"ip": "10.0.0.5"}]}])
    api.objects.wait(lambda: approval(api, "good") == "Approved" and "belongs to the cluster" in event(api, "bad"), 20)
    assert approval(api, "bad") is None


@pytest.mark.parametrize("kind", ["list services", "list secrets", "list nodes", "get endpoints", "get nodes"])
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
    """A kubelet that reports the names and addresses of the API server is not approved, not even with force."""
    put_policy(api)
    api.objects.put(SERVICE, spec={"clusterIP": "10.96.0.1"})
    forged = {"address": "10.96.0.1", "name": "kubernetes.default.svc", "service": "10.96.0.77", "other": "10.0.0.7"}
    put_node(api, "10.0.0.5", "172.16.0.5", *forged.values())
    put_node(api, "10.0.0.7", name="worker-2")
    for name, host in forged.items():
        submit(api, name, host, "10.0.0.5")
        for options in ((), ("--force",)):
            done = api.run("approve", name, *options)
            assert done.returncode == 65 and "FORGED?" in done.stderr and "--force approves" not in done.stderr and approval(api, name) is None
    submit(api, "outside", "172.16.0.5")
    done = api.run("approve", "outside")
    assert done.returncode == 65 and "is not within servingPrefixes" in done.stderr and "--force approves it" in done.stderr
    assert api.run("approve", "outside", "--force").returncode == 0 and approval(api, "outside") == "Approved"
    submit(api, "good", "10.0.0.5")
    assert api.run("approve", "good").returncode == 0


def test_a_requestor_that_is_not_the_node_is_never_approved(api):
    put_policy(api)
    put_node(api, "10.0.0.5")
    submit(api, "bad", "10.0.0.5")
    spec = api.objects.look(f"{CSRS}/bad")["spec"]
    api.objects.put(f"{CSRS}/bad", spec={**spec, "username": "mallory"})
    done = api.run("approve", "bad", "--force")
    assert done.returncode == 65 and "is not the node that the request names" in done.stderr and approval(api, "bad") is None


def test_approve_without_a_policy(api):
    """What is never allowed must be known, even with force."""
    put_node(api, "10.0.0.5")
    submit(api, "good", "10.0.0.5")
    assert api.run("approve", "good", "--force").returncode == 65 and approval(api, "good") is None
    put_networks(api)
    assert api.run("approve", "good").returncode == 65 and approval(api, "good") is None
    assert api.run("approve", "good", "--force").returncode == 0 and approval(api, "good") == "Approved"
