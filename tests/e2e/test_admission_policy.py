# SPDX-License-Identifier: Apache-2.0
"""The admission policy of the administrator's package, in a real API server: what it refuses, and what it leaves alone.

The Kubernetes that tests/control-plane builds is too old. Run this file by hand with KUBEBUILDER_ASSETS of 1.30 or newer, see CONTRIBUTING.md.
"""

import contextlib
import itertools
import os
import re
import subprocess

import pytest
import yaml

from common import SOURCE, csrs, pki
from common.csrs import CLIENT, SERVING
from common.wait import PATIENCE, until
from .harness import admin as admins
from .harness.approvals import Place
from .harness.controlplane import CSRS, DEFAULT_GROUP, MANUAL_GROUP, ApiError, kubeconfig

pytestmark = pytest.mark.kubernetes_has("admission policy")

BOUND, ENROLLED = "system:bootstrappers:node-bootstrap", "system:bootstrappers:node-bootstrap-enrolled"
MEMBERS = "node-bootstrap:approvers"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"
# User and groups. RBAC permits them everything, so that only the policy can refuse it.
CONTROLLER = (admins.USER, "system:masters")
MEMBER = ("jane", MEMBERS, "system:masters")
CLUSTER_ADMIN = ("kubernetes-admin", "system:masters")
CONDITION = {"type": "Approved", "status": "True", "reason": "Test", "message": "by the test"}
numbers = itertools.count(1)


@pytest.fixture(scope="module")
def examples(admin_tree):
    """The directory in which docs/install.md applies the policy."""
    return admin_tree / "usr/share/doc/kube-node-bootstrap-admin/examples"


@pytest.fixture(scope="module")
def messages(examples):
    """By the name of the policy: what it answers."""
    documents = yaml.safe_load_all((examples / "admission-policy/policy.yaml").read_text())
    return {document["metadata"]["name"]: document["spec"]["validations"][0]["message"]
            for document in documents if document["kind"] == "ValidatingAdmissionPolicy"}


@pytest.fixture(scope="module", autouse=True)
def policy(cluster, examples, messages):
    """Applied as docs/install.md says. A policy is in force, and no longer in force, a moment after the command."""
    earlier = names_of_requests(cluster)
    bindings = [cluster.bind(group, "system:node-bootstrapper") for group in (BOUND, ENROLLED)]
    probe = submit(cluster)
    [command] = re.findall(r"`(kubectl\s+apply --filename=admission-policy/\S+)`", (SOURCE / "docs/install.md").read_text(encoding="utf-8"))
    environment = {**os.environ, "KUBECONFIG": str(cluster.work / "admin.conf")}
    subprocess.run(command.split(), cwd=examples, env=environment, check=True, timeout=PATIENCE)

    def answers():
        return {"node-bootstrap-approval": answer(by_merge_patch, cluster, probe, CLUSTER_ADMIN, "?dryRun=All"),
                "node-bootstrap-leases": answer(by_post, cluster, "kube-system", "kube-scheduler", CONTROLLER, "?dryRun=All")}

    until(lambda: all(messages[name] in said for name, said in answers().items()), lambda: f"both policies are in force: {answers()}")
    yield
    cluster.kubectl("delete", "--filename", examples / "admission-policy/policy.yaml")
    until(lambda: not any(answers().values()), lambda: f"a cluster-admin has removed the policies: {answers()}")
    for path in (*bindings, *(f"{CSRS}/{name}" for name in names_of_requests(cluster) - earlier)):
        cluster.request("DELETE", path)


def names_of_requests(cluster):
    return {item["metadata"]["name"] for item in cluster.request("GET", CSRS)["items"]}


def new_request():
    return pki.sign_csr(pki.new_key(), pki.node_user(f"judged-{next(numbers)}"))


def submit(cluster, *groups, **csr):
    """A request of a user with these groups, or with that of bound tokens, and one that may submit requests; returns its name."""
    return cluster.submit(new_request(), user="system:bootstrap:abcdef", groups=(*(groups or [BOUND]), MANUAL_GROUP), **csr)


def conditions(cluster, csr):
    return [entry["type"] for entry in cluster.request("GET", f"{CSRS}/{csr}")["status"].get("conditions", ())]


def answer(act, *arguments):
    """The refusal, or nothing."""
    try:
        act(*arguments)
    except ApiError as error:
        return str(error)
    return ""


def refusal(act, *arguments):
    """The text of a 403, which is not RBAC's alone: the caller compares it with that of the policy."""
    with pytest.raises((ApiError, AssertionError), match=r"^403: |Error from server \(Forbidden\): ") as caught:
        act(*arguments)
    return str(caught.value)


def impersonate(who):
    user, *groups = who
    return [("Impersonate-User", user), *(("Impersonate-Group", group) for group in groups)]


# The ways to approve a request.

def by_kubectl(cluster, csr, who):
    user, *groups = who
    cluster.kubectl("certificate", "approve", csr, f"--as={user}", *(f"--as-group={group}" for group in groups))


def by_merge_patch(cluster, csr, who, query=""):
    cluster.request("PATCH", f"{CSRS}/{csr}/approval{query}", {"status": {"conditions": [CONDITION]}}, headers=impersonate(who))


def by_strategic_merge_patch(cluster, csr, who):
    cluster.request("PATCH", f"{CSRS}/{csr}/approval", {"status": {"conditions": [CONDITION]}}, headers=impersonate(who), patch="strategic-merge-patch+json")


def by_json_patch(cluster, csr, who):
    changes = [{"op": "add", "path": "/status/conditions", "value": [CONDITION]}]
    cluster.request("PATCH", f"{CSRS}/{csr}/approval", changes, headers=impersonate(who), patch="json-patch+json")


def by_server_side_apply(cluster, csr, who):
    wanted = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": csr}, "status": {"conditions": [CONDITION]}}
    cluster.request("PATCH", f"{CSRS}/{csr}/approval?fieldManager=test", wanted, headers=impersonate(who), patch="apply-patch+yaml")


def by_put(cluster, csr, who, subresource="/approval"):
    wanted = cluster.request("GET", f"{CSRS}/{csr}")
    wanted["status"]["conditions"] = [CONDITION]
    cluster.request("PUT", f"{CSRS}/{csr}{subresource}", wanted, headers=impersonate(who))


WAYS = [by_kubectl, by_merge_patch, by_strategic_merge_patch, by_json_patch, by_server_side_apply, by_put]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_each_way_to_approve_is_for_the_controller_and_the_group(cluster, messages, way):
    for who in (CONTROLLER, MEMBER):
        csr = submit(cluster)
        assert messages["node-bootstrap-approval"] in refusal(way, cluster, csr, CLUSTER_ADMIN)
        assert conditions(cluster, csr) == []
        way(cluster, csr, who)
        assert conditions(cluster, csr) == ["Approved"]


@pytest.mark.parametrize("who", [
    ("kubernetes-super-admin", "system:masters", "system:authenticated"),
    ("jane", f"{MEMBERS}-2", "system:masters"),
    (MEMBERS, "system:masters"),
    ("system:serviceaccount:default:node-bootstrap-controller", "system:masters"),
    ("system:serviceaccount:kube-system:node-bootstrap-controller-2", "system:masters"),
    ("system:kube-controller-manager", "system:masters"),
], ids=lambda who: who[0])
def test_nobody_else_approves(cluster, messages, who):
    csr = submit(cluster)
    assert messages["node-bootstrap-approval"] in refusal(by_merge_patch, cluster, csr, who)
    assert conditions(cluster, csr) == []


@pytest.mark.parametrize("groups, signer, is_restricted", [
    pytest.param([BOUND], CLIENT, True, id="bound"),
    pytest.param([ENROLLED], CLIENT, True, id="enrolled"),
    pytest.param([DEFAULT_GROUP, ENROLLED, BOUND], CLIENT, True, id="every kind of token at once"),
    pytest.param([BOUND], SERVING, True, id="bound, serving certificate"),
    pytest.param([BOUND], "kubernetes.io/kube-apiserver-client", True, id="bound, certificate of any client"),
    pytest.param([ENROLLED], "example.org/other", True, id="enrolled, other signer"),
    pytest.param(["system:bootstrappers"], CLIENT, False, id="unbound"),
    pytest.param([f"{BOUND}-2"], CLIENT, False, id="similar group"),
    pytest.param([pki.NODES], SERVING, False, id="node, serving certificate"),
    pytest.param(["developers"], "example.org/other", False, id="other signer"),
])
def test_requests_of_bound_and_enrolled_tokens_are_restricted_and_no_others(cluster, messages, groups, signer, is_restricted):
    csr = submit(cluster, *groups, signer=signer)
    if is_restricted:
        assert messages["node-bootstrap-approval"] in refusal(by_put, cluster, csr, CLUSTER_ADMIN)
        assert conditions(cluster, csr) == []
    else:
        by_put(cluster, csr, CLUSTER_ADMIN)
        assert "Approved" in conditions(cluster, csr)       # and "Failed", if kube-controller-manager was quick: it signs no such serving certificate


@pytest.mark.parametrize("group", [BOUND, ENROLLED])
def test_the_groups_are_those_of_the_token(cluster, messages, group):
    csr = cluster.submit(new_request(), token=cluster.token(group=group, signing=False))
    assert messages["node-bootstrap-approval"] in refusal(by_put, cluster, csr, CLUSTER_ADMIN)
    assert conditions(cluster, csr) == []


@pytest.mark.parametrize("group", [BOUND, ENROLLED])
def test_nobody_writes_the_groups_into_the_request(cluster, messages, group):
    """Neither the client that submits it nor a cluster-admin who changes it."""
    forged = csrs.make(new_request(), username="jane", groups=["system:authenticated"])
    made = cluster.request("POST", CSRS, forged, headers=impersonate(("system:bootstrap:abcdef", group, MANUAL_GROUP)))
    csr = made["metadata"]["name"]
    cluster.request("PATCH", f"{CSRS}/{csr}", {"spec": {"username": "jane", "groups": ["system:authenticated"]}})
    assert group in cluster.request("GET", f"{CSRS}/{csr}")["spec"]["groups"]
    assert messages["node-bootstrap-approval"] in refusal(by_put, cluster, csr, CLUSTER_ADMIN)


def test_no_request_is_submitted_as_approved(cluster):
    approved = {**csrs.make(new_request()), "status": {"conditions": [CONDITION]}}
    made = cluster.request("POST", CSRS, approved, headers=impersonate(("system:bootstrap:abcdef", BOUND, MANUAL_GROUP)))
    assert conditions(cluster, made["metadata"]["name"]) == []


@pytest.mark.parametrize("subresource", ["", "/status"])
def test_nothing_but_the_subresource_approval_approves(cluster, subresource):
    """The policy does not judge the others: the API server lets nobody approve with them."""
    csr = submit(cluster)
    with contextlib.suppress(ApiError):     # some versions ignore the condition, others answer 422
        by_put(cluster, csr, CLUSTER_ADMIN, subresource)
    assert conditions(cluster, csr) == []


def test_denying_is_not_restricted(cluster):
    csr = submit(cluster)
    cluster.kubectl("certificate", "deny", csr)
    assert conditions(cluster, csr) == ["Denied"]


def test_kube_controller_manager_cannot_approve(cluster, messages):
    """It would approve both, since it knows only the group of kubeadm's tokens."""
    csr, other = submit(cluster, DEFAULT_GROUP, BOUND), submit(cluster, DEFAULT_GROUP)
    until(lambda: conditions(cluster, other), "it approves a request of kubeadm's token")

    def refused():
        log = (cluster.work / "kube-controller-manager.log").read_text(errors="replace")
        return [line for line in log.splitlines() if csr in line and messages["node-bootstrap-approval"] in line]

    until(refused, "it tries to approve a request of a bound token, and is refused")
    assert conditions(cluster, csr) == []


def test_the_controller_works(cluster, administer):
    """With its own permissions: it creates its Lease and a claim, approves, and the certificate is issued."""
    account, node = admins.service_account(cluster), f"judged-{next(numbers)}"
    lease, place = f"{admins.CLAIMS}/{admins.ACCOUNT}", Place(cluster, administer(cluster), node)
    if cluster.find(lease):
        cluster.request("DELETE", lease)
    with administer(cluster).controller("--parts=approve-client", account=account) as controller:
        csr = cluster.submit(pki.sign_csr(pki.new_key(), pki.node_user(node)), token=place.token)
        until(lambda: cluster.request("GET", f"{CSRS}/{csr}")["status"].get("certificate"), lambda: f"the certificate is issued:\n{controller.log()}")
    assert cluster.find(lease) and cluster.find(f"{admins.CLAIMS}/node-bootstrap-token-{place.token.id}")


def test_a_member_approves_with_the_permissions_of_the_group_and_a_cluster_admin_cannot(cluster, administer, examples, messages, tmp_path):
    admin = administer(cluster)
    place = Place(cluster, admin, f"judged-{next(numbers)}")
    csr = place.submit(name=f"node-csr-{'a' * 43}")    # as long as kubelet's
    refused = admin.command("requests", "approve", csr)
    assert refused.returncode == 77 and messages["node-bootstrap-approval"] in refused.stderr, refused
    assert conditions(cluster, csr) == []
    cluster.kubectl("apply", "--filename", examples / "approvers/rbac.yaml")
    for document in yaml.safe_load_all((examples / "approvers/rbac.yaml").read_text()):
        admins.await_permissions(cluster, document, "jane", [MEMBERS])
    certificate, key = cluster.ca.user("jane", [MEMBERS]).pair
    (tmp_path / "jane.conf").touch(0o600)
    (tmp_path / "jane.conf").write_text(kubeconfig(f"https://127.0.0.1:{cluster.port}", cluster.ca.pem, certificate=certificate, key=key))
    place.approved(csr, f"--kubeconfig={tmp_path}/jane.conf")
    cluster.kubectl("delete", "--filename", examples / "approvers/rbac.yaml")


# The ways to create a Lease.

def lease_named(namespace, **metadata):
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"namespace": namespace, **metadata}, "spec": {"holderIdentity": "test"}}


def by_post(cluster, namespace, name, who, query=""):
    cluster.request("POST", LEASES.format(namespace) + query, lease_named(namespace, name=name), headers=impersonate(who))


def by_put_of_a_new_one(cluster, namespace, name, who):
    cluster.request("PUT", f"{LEASES.format(namespace)}/{name}", lease_named(namespace, name=name), headers=impersonate(who))


def by_apply_of_a_new_one(cluster, namespace, name, who):
    cluster.request("PATCH", f"{LEASES.format(namespace)}/{name}?fieldManager=test", lease_named(namespace, name=name), headers=impersonate(who),
                    patch="apply-patch+yaml")


@pytest.mark.parametrize("way", [by_post, by_put_of_a_new_one, by_apply_of_a_new_one], ids=lambda way: way.__name__)
@pytest.mark.parametrize("namespace, name, is_permitted", [
    ("kube-system", "node-bootstrap-controller", True),
    ("kube-system", "node-bootstrap-token-a1b2c3", True),
    ("kube-system", "kube-controller-manager", False),
    ("kube-system", "node-bootstrap-controller-2", False),
    ("kube-system", "node-bootstrap-token-a1b2c", False),
    ("kube-system", "node-bootstrap-token-a1b2c3d", False),
    ("kube-system", "node-bootstrap-token-a1b.c3", False),
    ("kube-system", "my-node-bootstrap-token-a1b2c3", False),
    ("default", "node-bootstrap-controller", False),
    ("default", "node-bootstrap-token-a1b2c3", False),
])
def test_the_controller_creates_its_lease_and_claims_and_no_others(cluster, messages, way, namespace, name, is_permitted):
    path = f"{LEASES.format(namespace)}/{name}"
    if cluster.find(path):
        cluster.request("DELETE", path)
    if is_permitted:
        way(cluster, namespace, name, CONTROLLER)
    else:
        assert messages["node-bootstrap-leases"] in refusal(way, cluster, namespace, name, CONTROLLER)
        assert not cluster.find(path)
        way(cluster, namespace, name, CLUSTER_ADMIN)    # everybody else may
    cluster.request("DELETE", path)


def test_a_generated_name_of_a_lease_is_judged(cluster, messages):
    def generate(prefix, who):
        return cluster.request("POST", admins.CLAIMS, lease_named("kube-system", generateName=prefix), headers=impersonate(who))["metadata"]["name"]

    assert messages["node-bootstrap-leases"] in refusal(generate, "kube-controller-", CONTROLLER)
    for prefix, who in (("kube-controller-", CLUSTER_ADMIN), ("node-bootstrap-token-a", CONTROLLER)):     # five characters are added
        cluster.request("DELETE", f"{admins.CLAIMS}/{generate(prefix, who)}")
