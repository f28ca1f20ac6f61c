# SPDX-License-Identifier: Apache-2.0
"""`node-bootstrap-admin cluster-info verify`: what it says if it lacks a fact, and what the requests of nodes tell."""

import json

import pytest

from common import faults, pki
from common.apiserver import Token
from common.csrs import timestamp
from . import admin_cluster, admin_serving

CLUSTER_INFO = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
CLIENT_CA = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"


@pytest.fixture
def cluster(api):
    api.anonymous.add("get configmaps")
    api.objects.put(CLIENT_CA, data={"client-ca-file": api.cluster.ca.pem.decode()})
    publish(api, api.url)
    return admin_cluster.Cluster(api)


def publish(api, server):
    kubeconfig = {"apiVersion": "v1", "kind": "Config", "clusters": [{"name": "", "cluster": api.user_cluster(server=server)}]}
    api.objects.put(CLUSTER_INFO, data={"kubeconfig": json.dumps(kubeconfig)})


def verify(api):
    """The lines, each with its remedy, by what they begin with."""
    done = api.run("cluster-info", "verify")
    assert done.returncode in (1, 2), done.stderr
    words = {"ok": [], "warning": [], "PROBLEM": [], "not known": []}
    for line in done.stdout.splitlines():
        word = line[:12].strip()
        if word:
            last = words[word]
            last.append(line[13:])
        else:
            last[-1] += "\n" + line.strip()
    return words


def has(lines, *texts):
    return any(all(text in line for text in texts) for line in lines)


def test_tokens_that_cannot_be_listed(api, cluster):
    api.denied.add("list secrets")
    lines = verify(api)
    assert has(lines["not known"], 'cannot list resource "secrets"')
    assert not has(lines["ok"], "token")


def test_cluster_info_that_cannot_be_read(api, cluster):
    api.denied.add("get configmaps")
    lines = verify(api)
    assert has(lines["not known"], 'cannot get resource "configmaps"')
    assert not has(lines["ok"], "cluster-info") and not has(lines["ok"], "trust the CA")


@pytest.mark.parametrize("is_accepted", [True, False])
def test_a_live_token_is_only_in_the_header(api, cluster, is_accepted):
    """Audit logs keep the bodies of requests, such as that of a TokenReview."""
    cluster.token("aaaaaa", "worker-1")
    if is_accepted:
        api.cluster.tokens["aaaaaa"] = Token("0123456789abcdef")
    lines = verify(api)
    assert has(lines["ok"], "accepts bootstrap tokens") if is_accepted else has(lines["PROBLEM"], "rejects the bootstrap token aaaaaa")
    assert not has(lines["ok"] + lines["PROBLEM"] + lines["not known"], "0123456789abcdef")
    shown = [request for request in api.requests if "0123456789abcdef" in request.path or b"0123456789abcdef" in (request.body or b"")]
    assert not shown and len([request for request in api.requests if request.headers.get("authorization") == "Bearer aaaaaa.0123456789abcdef"]) == 1


@pytest.mark.parametrize("group, word, remedy", [
    ("system:bootstrappers:kubeadm:default-node-token", "warning", "kubectl delete clusterrolebinding kubeadm:node-autoapprove-bootstrap"),
    ("system:bootstrappers:node-bootstrap", "PROBLEM", "kubectl get clusterrolebindings"),
    ("system:bootstrappers:node-bootstrap-enrolled", "PROBLEM", "kubectl get clusterrolebindings"),
])
def test_automatic_approval(api, cluster, group, word, remedy):
    secret = cluster.token("aaaaaa", None)
    api.objects.put(f"{admin_cluster.SECRETS}/bootstrap-token-aaaaaa", secret, data={"auth-extra-groups": admin_cluster.encode(group)})
    assert not has(verify(api)[word], "approves every request")
    api.allows = lambda attributes: True
    assert has(verify(api)[word], f"approves every request with a token of the group {group}", remedy)
    api.allows = lambda attributes: False
    assert has(verify(api)["PROBLEM"], f"tokens of the group {group} may not submit", "cluster-info publish")


def test_groups_that_are_too_many(api, cluster):
    """A binding of one of them must not go unnoticed."""
    for number in range(50):
        name = f"aaaa{number:02}"
        token = {"token-id": name, "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true",
                 "auth-extra-groups": f"system:bootstrappers:group{number}"}
        api.objects.put(f"{admin_cluster.SECRETS}/bootstrap-token-{name}", type="bootstrap.kubernetes.io/token",
                        data={key: admin_cluster.encode(value) for key, value in token.items()})
    assert has(verify(api)["not known"], "too many groups")


def test_no_token(api, cluster):
    assert has(verify(api)["not known"], "accepts bootstrap tokens", "none that may authenticate")


def test_a_server_that_does_not_answer(api, cluster):
    dead = faults.dead_endpoint()
    publish(api, f"https://{dead}")
    assert has(verify(api)["PROBLEM"], dead, "make the address reachable", "publish --server=URL --force")


@pytest.mark.parametrize("ago, word", [(0, "ok"), (120, "PROBLEM")])
def test_a_certificate_is_due_since_the_approval(api, cluster, ago, word):
    cluster.request("one", "a", approved=True, created=-3600)
    path = f"{admin_cluster.CSRS}/one"
    csr = api.objects.look(path)
    csr["status"]["conditions"][0]["lastUpdateTime"] = timestamp(-ago)
    api.objects.put(path, csr)
    lines = verify(api)
    assert has(lines[word], "no approved request" if word == "ok" else "approved requests of nodes without a certificate: 1")


def issue(api, cluster, ca):
    """Issues a certificate of a node, by this CA."""
    cluster.request("one", "a", approved=True)
    path = f"{admin_cluster.CSRS}/one"
    csr = api.objects.look(path)
    certificate = pki.cert_pem(ca.client(admin_cluster.key_of("one").public_key(), pki.node_user("a")))
    csr["status"]["certificate"] = admin_cluster.encode(certificate.decode())
    api.objects.put(path, csr)


def test_a_signing_ca_that_the_api_servers_trust(api, cluster):
    assert not has(verify(api)["ok"], "trust the CA that issues")
    issue(api, cluster, api.cluster.ca)
    assert has(verify(api)["ok"], "trust the CA that issues")


def test_another_signing_ca(api, cluster):
    issue(api, cluster, pki.CA("elsewhere"))
    assert has(verify(api)["PROBLEM"], "certificates of nodes that the API servers do not trust: 1, issued by 'CN=elsewhere'", "--cluster-signing-cert-file")
    api.objects.remove(CLIENT_CA)
    assert not has(verify(api)["ok"], "trust the CA that issues")


def test_pending_requests(api, cluster):
    assert has(verify(api)["ok"], "no request of a node is pending")
    oldest = timestamp(-600)
    cluster.request("one", "a", created=-300)
    cluster.request("two", "b", created=-600)
    cluster.request("three", "c", created=-10)
    assert has(verify(api)["warning"], "pending requests of nodes: 3, the oldest since", oldest[:15], "`node-bootstrap-admin requests list`")


def test_networks_of_services_that_the_policy_lacks(api, cluster):
    """A part of a network is not all of it."""
    api.objects.put("/apis/networking.k8s.io/v1/servicecidrs/kubernetes", spec={"cidrs": ["10.96.0.0/12", "fd00:96::/112"]})
    assert has(verify(api)["ok"], "the policy can be used"), "it allows no addresses"
    usual = {**admin_serving.USUAL, "serviceNetworks": "10.96.0.0/16"}
    cluster.policy(**usual)
    assert has(verify(api)["PROBLEM"], "the policy lacks networks of Services", ": 10.96.0.0/12, fd00:96::/112", "add them to serviceNetworks")
    cluster.policy(**{**usual, "serviceNetworks": "10.0.0.0/8,fd00:96::/112"})
    assert has(verify(api)["ok"], "the policy can be used")
    api.on("list servicecidrs", faults.error(404, "NotFound", "the server could not find the requested resource"))
    assert has(verify(api)["ok"], "the policy can be used")


@pytest.mark.parametrize("policy, text", [(None, "there is no ConfigMap kube-system/node-bootstrap-policy"), ({"a": "b"}, "found 'a'")])
def test_a_policy_that_cannot_be_used(api, cluster, policy, text):
    cluster.token("aaaaaa", "n1")
    api.objects.remove(admin_cluster.POLICY)
    if policy:
        cluster.policy(**policy)
    assert has(verify(api)["PROBLEM"], text, "stay pending", "publish")


def test_a_missing_policy_that_no_token_needs(api, cluster):
    """As a controller that is not running."""
    cluster.token("aaaaaa", None, group="system:bootstrappers:kubeadm:default-node-token")
    api.objects.remove(admin_cluster.POLICY)
    lines = verify(api)
    assert has(lines["ok"], "there is no ConfigMap kube-system/node-bootstrap-policy, and no bound or enrolled token needs it")
    assert not has(lines["PROBLEM"], "policy") and has(lines["ok"], "no token needs it")
    api.denied.add("list secrets")
    assert has(verify(api)["PROBLEM"], "there is no ConfigMap kube-system/node-bootstrap-policy")
