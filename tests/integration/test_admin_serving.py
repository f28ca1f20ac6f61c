# SPDX-License-Identifier: Apache-2.0
"""The approver of serving certificates against a scripted API: where its facts come from, and what it does without them."""

import base64
import ipaddress

import pytest
from cryptography import x509

import admin
import apiserver
import faults
import pki
from objects import Place

CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
CLUSTER_INFO = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
SERVICE = "/api/v1/namespaces/default/services/kubernetes"
ENDPOINTS = "/api/v1/namespaces/default/endpoints/kubernetes"
EVENTS = "/api/v1/namespaces/default/events"
NODE = "worker-1.example.org"
PREFIXES = "--serving-prefixes=10.0.0.0/8"


def put_node(api, *addresses, name=NODE, **metadata):
    api.objects.put(f"/api/v1/nodes/{name}", metadata=metadata,
                    status={"addresses": [{"type": "InternalIP", "address": address} for address in addresses]})


def submit(api, name, *names, node=NODE):
    sans = [x509.DNSName(text) if text[0].isalpha() else x509.IPAddress(ipaddress.ip_address(text)) for text in names]
    user = pki.node_user(node)
    request = base64.b64encode(pki.sign_csr(pki.new_key(), user, sans=sans)).decode()
    spec = {"request": request, "signerName": "kubernetes.io/kubelet-serving", "usages": ["digital signature", "server auth"]}
    api.objects.create(Place(f"{CSRS}/{name}"), {"metadata": {"name": name}, "spec": spec, "status": {}}, user,
                       ["system:nodes", "system:authenticated"])


def approval(api, name):
    conditions = (api.objects.look(f"{CSRS}/{name}").get("status") or {}).get("conditions") or [{}]
    return conditions[0].get("type")


def event(api, name):
    return " / ".join(e["message"] for e in api.objects.all(EVENTS) if e["involvedObject"]["name"] == name)


@pytest.fixture
def run(api):
    running = []

    def start(*options):
        running.append(admin.Running("controller", "--kubeconfig", api.kubeconfig(), "--parts", "approve-serving", *options))
        return running[-1]
    yield start
    for process in running:
        process.stop()


def test_a_request_is_approved_as_it_was_read(api, run):
    put_node(api, "10.0.0.5", NODE)
    submit(api, "good", "10.0.0.5", NODE)
    run(PREFIXES)
    api.objects.wait(lambda: approval(api, "good") == "Approved")
    [patch] = api.seen("patch certificatesigningrequests/approval")
    metadata = patch.json()["metadata"]
    assert metadata["uid"] == api.objects.look(f"{CSRS}/good")["metadata"]["uid"] and metadata["resourceVersion"]


# What an address of the API server is known from.
API_SERVER = {
    "the server of cluster-info": lambda api: api.objects.put(CLUSTER_INFO, data={
        "kubeconfig": apiserver.kubeconfig("https://10.0.0.5:6443", api.cluster.ca.pem)}),
    "the Service": lambda api: api.objects.put(SERVICE, spec={"clusterIP": "10.0.0.5"}),
    "the second address of the Service": lambda api: api.objects.put(SERVICE, spec={"clusterIP": "fd00::1", "clusterIPs": ["fd00::1", "10.0.0.5"]}),
    "the Endpoints": lambda api: api.objects.put(ENDPOINTS, subsets=[{"addresses": [{"ip": "10.0.0.4"}, {"ip": "10.0.0.5"}]}]),
    "Endpoints that are not ready": lambda api: api.objects.put(ENDPOINTS, subsets=[{"notReadyAddresses": [{"ip": "10.0.0.5"}]}]),
}


@pytest.mark.parametrize("prepare", API_SERVER.values(), ids=API_SERVER)
def test_an_address_of_the_api_server_is_refused(api, run, prepare):
    prepare(api)
    put_node(api, "10.0.0.5", "10.0.0.6")
    submit(api, "bad", "10.0.0.5")
    submit(api, "good", "10.0.0.6")
    run(PREFIXES)
    api.objects.wait(lambda: approval(api, "good") == "Approved" and event(api, "bad"))
    assert "'10.0.0.5' is an address of the API server" in event(api, "bad")
    assert approval(api, "bad") is None


def test_the_server_of_the_kubeconfig_is_refused(api, run):
    """It is reached at 127.0.0.1 here, so by the name that it is verified with."""
    put_node(api, "kubernetes.example.org", "localhost", name="kubernetes.example.org")
    submit(api, "bad", "kubernetes.example.org", node="kubernetes.example.org")
    api.identity = api.cluster.ca.serving(["kubernetes.example.org"])
    kubeconfig = api.kubeconfig(cluster=api.user_cluster(**{"tls-server-name": "kubernetes.example.org"}))
    with admin.Running("controller", "--kubeconfig", kubeconfig, "--parts", "approve-serving", PREFIXES):
        api.objects.wait(lambda: "is a name of the API server" in event(api, "bad"))


@pytest.mark.parametrize("kind", ["get services", "get endpoints", "get configmaps", "get nodes"])
def test_without_a_fact_nothing_is_approved(api, run, kind):
    """Once it may be read, the request is approved."""
    api.denied.add(kind)
    put_node(api, "10.0.0.5")
    submit(api, "good", "10.0.0.5")
    controller = run(PREFIXES)
    controller.wait_line("forbidden")
    assert approval(api, "good") is None
    api.denied.clear()
    api.objects.wait(lambda: approval(api, "good") == "Approved")


def test_the_node_may_come_later(api, run):
    """And its addresses after it. The Events say what is missing, each once."""
    submit(api, "good", "10.0.0.5")
    run(PREFIXES)
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
    run(PREFIXES)
    api.objects.wait(lambda: approval(api, "b-second") == "Approved")
    assert approval(api, "a-first") is None


def test_decided_requests_are_left_alone(api, run):
    put_node(api, "10.0.0.5")
    submit(api, "denied", "10.0.0.5")
    denied = api.objects.look(f"{CSRS}/denied")
    api.objects.put(f"{CSRS}/denied", denied, status={"conditions": [{"type": "Denied", "status": "True"}]})
    submit(api, "good", "10.0.0.5")
    run(PREFIXES)
    api.objects.wait(lambda: approval(api, "good") == "Approved")
    assert len(api.seen("patch certificatesigningrequests/approval")) == 1


@pytest.mark.parametrize("option", ["--serving-prefixes=10.0.0.1/8", "--serving-names=example.org", "--service-cidrs=10.96.0.0",
                                    "--cluster-domain=Cluster.Local"])
def test_a_malformed_option_is_named(api, option):
    done = api.run("controller", "--parts=approve-serving", option)
    assert done.returncode == 64 and option.partition("=")[0] in done.stderr
