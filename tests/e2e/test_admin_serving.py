# SPDX-License-Identifier: Apache-2.0
"""The controller's approver of serving certificates, with the faults that other approvers had in 2026."""

import base64

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from common import pki, versions
from common.csrs import SERVING
from common.wait import until
from .harness import controlplane
from .harness import admin as admins

NODE = "worker-1.nodes.example.org"
NODES = "/api/v1/nodes"
EVENTS = "/api/v1/namespaces/default/events"
PART = "--parts=approve-serving"
POLICY = {**controlplane.SERVING, "servingPrefixes": "10.0.0.0/8,fd00::/8,192.0.2.0/24", "servingNames": ".nodes.example.org"}
OTHER = "worker-2.nodes.example.org"

# A node reports its own addresses, so a hostile one reports all that it wants.
ADDRESSES = {
    "InternalIP": ["10.9.0.5", "fd00::5", "10.96.0.1", "10.96.0.77", "192.0.2.1", "127.0.0.1", "169.254.169.254", "172.16.0.5", "10.9.0.9"],
    "Hostname": [NODE],
    "InternalDNS": [f"{NODE}.example.com", "kubernetes", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local", "localhost",
                    "worker-2.nodes.example.org", "db.example.net", "cp.example.org", "*.nodes.example.org"],
}


def make_request(*names, common=pki.node_user(NODE), organizations=(pki.NODES,), more=()):
    return pki.sign_csr(pki.new_key(), common, organizations, more=more, sans=names)


@pytest.fixture(scope="module")
def cluster(unattended_cluster):
    """With the hostile node, which is enrolled, and an honest one of another name."""
    made = unattended_cluster
    made.policy(**POLICY)
    made.request("POST", controlplane.SECRETS, {
        "apiVersion": "v1", "kind": "Secret", "type": "node-bootstrap/enrolled-node", "metadata": {"name": f"node-bootstrap-node-{NODE}"},
        "stringData": {"node": NODE, "publicKey": pki.public_pem(pki.new_key()).decode(), "dnsNames": f"{NODE}.example.com"}})
    for name in (NODE, "worker-2.nodes.example.org"):
        made.request("POST", NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    addresses = [{"type": kind, "address": address} for kind, texts in ADDRESSES.items() for address in texts]
    made.request("PATCH", f"{NODES}/{NODE}/status", {"status": {"addresses": addresses}})
    made.request("PATCH", f"{NODES}/{OTHER}/status", {"status": {"addresses": [{"type": "InternalIP", "address": "10.9.0.9"}]}})
    yield made
    made.policy()
    made.request("DELETE", f"{controlplane.SECRETS}/node-bootstrap-node-{NODE}")
    for name in (NODE, "worker-2.nodes.example.org"):
        made.request("DELETE", f"{NODES}/{name}")


@pytest.fixture(scope="module")
def account(cluster):
    """The permissions of rbac.yaml are enough."""
    return admins.service_account(cluster, is_serving=True)


@pytest.fixture(scope="module")
def submit(cluster):
    """submit(name, request): as the node, or as another user."""
    def run(name, request, user=pki.node_user(NODE), groups=(pki.NODES,), usages=None):
        return cluster.submit(request, name, user=user, groups=groups, signer=SERVING, usages=usages)
    return run


def conditions(cluster, name):
    return [condition["type"] for condition in cluster.request("GET", f"{controlplane.CSRS}/{name}")["status"].get("conditions", ())]


def reason(cluster, name):
    """What the Events of a request say, or None."""
    events = cluster.request("GET", f"{EVENTS}?fieldSelector=involvedObject.name%3D{name}")["items"]
    return " / ".join(event["message"] for event in events) or None


def issued(cluster, name):
    text = until(lambda: cluster.request("GET", f"{controlplane.CSRS}/{name}")["status"].get("certificate"), f"{name} is issued")
    return x509.load_pem_x509_certificate(base64.b64decode(text))


GOOD = {
    "an address": ["10.9.0.5"],
    "what kubelet requests": [NODE, "10.9.0.5", "fd00::5"],
    "an enrolled name": ["Worker-1.nodes.example.org.example.com", "10.9.0.5"],
}

# name -> (request, part of the reason, what else submit() takes)
BAD = {
    # k0s#8333 and ironcore GHSA-rwxr-qr3p-5xq2: anybody who may create requests got certificates for any node.
    "another user": (make_request("10.9.0.5"), "is not the node that the request names", {"user": "mallory", "groups": ("system:masters",)}),
    "another node": (make_request("10.9.0.5"), "is not the node that the request names", {"user": "system:node:worker-2.nodes.example.org"}),
    "a foreign common name": (make_request("10.9.0.5", common="system:node:worker-2.nodes.example.org"), "is not the node that the request names", {}),
    "a second organization": (make_request("10.9.0.5", organizations=("system:nodes", "system:masters")), "organization", {}),
    "another organization": (make_request("10.9.0.5", organizations=("system:masters",)), "organization", {}),
    "more in the subject": (make_request("10.9.0.5", more=[(NameOID.COUNTRY_NAME, "DE")]), "subject", {}),
    "the usages of a client": (make_request("10.9.0.5"), "usage", {"usages": ["digital signature", "key encipherment", "server auth",
                                                                              "client auth"]}),
    # talos-cloud-controller-manager GHSA-87pw-5j2g-6376: DNS names were not checked, requests without addresses always approved, and
    # the list of forbidden names was case-sensitive.
    "no names": (make_request(), "no alternative names", {}),
    "a foreign DNS name": (make_request("10.9.0.5", "db.example.net"), "is neither enrolled", {}),
    "a foreign DNS name alone": (make_request("db.example.net"), "is neither enrolled", {}),
    "the name of another node": (make_request(OTHER), "is neither enrolled", {}),
    "the address of another node": (make_request("10.9.0.9"), f"of node {NODE} is also in the Node {OTHER}", {}),
    "a name of the cluster": (make_request("kubernetes"), "is neither enrolled", {}),
    "a name of the cluster in capitals": (make_request("KUBERNETES.Default.SVC"), "is neither enrolled", {}),
    "a name of the cluster with a dot": (make_request("kubernetes.default.svc.cluster.local."), "is neither enrolled", {}),
    "the local host": (make_request("LocalHost"), "is neither enrolled", {}),
    "a wildcard": (make_request("*.nodes.example.org"), "not a DNS name", {}),
    "an email address": (make_request("10.9.0.5", "root@example.org"), "not a DNS name", {}),
    # kubelet-serving-cert-approver #337, #348: an address was right because it was asked for.
    "an address of another machine": (make_request("10.9.0.6"), "status of the Node", {}),
    "an address outside the prefixes": (make_request("172.16.0.5"), "servingPrefixes", {}),
    "the address of the Service": (make_request("10.96.0.1"), "serviceNetworks", {}),
    "an address of Services": (make_request("10.96.0.77"), "serviceNetworks", {}),
    "the address of the API server": (make_request("192.0.2.1"), "servingRefused", {}),
    "the loopback address": (make_request("127.0.0.1"), "one machine", {}),
    "the loopback address as IPv6": (make_request("::ffff:127.0.0.1"), "not a DNS name, IPv4 or IPv6", {}),
    "a link-local address": (make_request("169.254.169.254"), "one machine", {}),
}


IMPERSONATION = ("another node", "a foreign common name")


def slug(text):
    return "serving-" + "".join(c if c.isalnum() else "-" for c in text.lower())


def test_exactly_the_good_ones_are_approved(cluster, administer, account, submit):
    groups = versions.of(cluster.minor, "groups to impersonate a node")
    with administer(cluster).controller(PART, account=account) as controller:
        for name, (request, _, more) in BAD.items():
            submit(slug(name), request, **more, **({"groups": groups} if name in IMPERSONATION else {}))
        for name, names in GOOD.items():
            submit(slug(name), make_request(*names))
        for name, names in GOOD.items():
            found = issued(cluster, slug(name)).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
            assert sorted(found, key=str) == sorted([pki.alternative(text) for text in names], key=str)
        for name, (_, expected, _) in BAD.items():
            said = until(lambda name=name: reason(cluster, slug(name)), f"an Event for {name}\n{controller.log()}", timeout=20)
            assert expected in said, f"{name}: {said}"
            assert conditions(cluster, slug(name)) == [], name


def test_addresses_may_come_later(cluster, administer, account, submit):
    """The status of a Node may be behind its request."""
    other, name = OTHER, "serving-later"
    with administer(cluster).controller(PART, account=account):
        submit(name, make_request("10.9.0.7", common=f"system:node:{other}"), user=f"system:node:{other}")
        until(lambda: reason(cluster, name), "an Event")
        cluster.request("PATCH", f"{NODES}/{other}/status", {"status": {"addresses": [
            {"type": "InternalIP", "address": address} for address in ("10.9.0.7", "10.9.0.9")]}})
        until(lambda: "Approved" in conditions(cluster, name), "it is approved")


def test_forged_request_through_approve(cluster, administer, submit):
    """A kubelet that reports the names and addresses of the API server; not even with force."""
    admin = administer(cluster)
    for number, names in enumerate([["kubernetes.default.svc"], ["10.96.0.1"], [NODE, "10.96.0.77"], ["10.9.0.9"], ["192.0.2.1"]]):
        name = submit(f"forged-{number}", make_request(*names))
        for options in ((), ("--force",)):
            done = admin.command("requests", "approve", name, *options)
            assert done.returncode == 65 and "--force approves" not in done.stderr, done.stderr
        assert conditions(cluster, name) == []
    name = submit("behind", make_request("10.9.0.8"))
    assert admin.command("requests", "approve", name).returncode == 65 and conditions(cluster, name) == []
    admin.run("requests", "approve", name, "--force")
    assert issued(cluster, name)


def test_it_is_off_by_default(cluster, administer, account, submit):
    with administer(cluster).controller(account=account):
        name = submit("serving-default", make_request("10.9.0.5"))
        cluster.token()     # returns when the controller has signed cluster-info
        assert conditions(cluster, name) == [] and reason(cluster, name) is None
