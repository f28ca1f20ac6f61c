# SPDX-License-Identifier: Apache-2.0
"""`node-bootstrap-admin cluster-info publish` against an API that refuses a request, or goes away, in the middle."""

import json

import pytest

from common import faults, pki
from common.apiserver import status
from . import admin

RBAC = "/apis/rbac.authorization.k8s.io/v1"
PUBLIC = f"{RBAC}/namespaces/kube-public"
CLUSTER_INFO = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
ANONYMOUS = "kubeadm:bootstrap-signer-clusterinfo"
# In the order in which they are created.
OBJECTS = [
    ("configmaps", CLUSTER_INFO), ("roles", f"{PUBLIC}/roles/{ANONYMOUS}"), ("rolebindings", f"{PUBLIC}/rolebindings/{ANONYMOUS}"),
    ("clusterroles", f"{RBAC}/clusterroles/kubeadm:get-nodes"), ("clusterrolebindings", f"{RBAC}/clusterrolebindings/kubeadm:get-nodes"),
    ("clusterrolebindings", f"{RBAC}/clusterrolebindings/kubeadm:kubelet-bootstrap"),
    ("clusterrolebindings", f"{RBAC}/clusterrolebindings/kubeadm:node-autoapprove-certificate-rotation"),
    ("clusterrolebindings", f"{RBAC}/clusterrolebindings/node-bootstrap:kubelet-bootstrap"),
    ("clusterrolebindings", f"{RBAC}/clusterrolebindings/node-bootstrap:enrolled-bootstrap"),
]   # and the policy, which stays as it is
RESOURCES = list(dict.fromkeys(resource for resource, _ in OBJECTS))
KINDS = {"configmaps": "ConfigMap", "roles": "Role", "rolebindings": "RoleBinding", "clusterroles": "ClusterRole",
         "clusterrolebindings": "ClusterRoleBinding"}
WORDS = {"get": "", "create": "creating the ", "patch": "changing the "}
DAMAGE = {"configmaps": {"data": {"kubeconfig": "damaged"}}, "roles": {"rules": []}, "clusterroles": {"rules": []},
          "rolebindings": {"subjects": []}, "clusterrolebindings": {"subjects": []}}


def publish(api):
    return api.run("cluster-info", "publish", "--server=https://api.example:6443")


def existing(api):
    return [path for _, path in OBJECTS if api.objects.look(path)]


def damage(api):
    """All objects exist, and each needs a change."""
    assert publish(api).returncode == 0
    for resource, path in OBJECTS:
        api.objects.put(path, {**api.objects.look(path), **DAMAGE[resource]})


def before(resource):
    """How many objects come before the first one of a resource."""
    return [name for name, _ in OBJECTS].index(resource)


def complete(api):
    """A second run does the rest, and a third one finds nothing to do."""
    assert publish(api).returncode == 0
    assert existing(api) == [path for _, path in OBJECTS]
    api.requests.clear()
    assert "will" not in publish(api).stdout
    assert {request.method for request in api.requests} == {"GET"}


def verify_report(done, verb, resource, n_done):
    assert f": {WORDS[verb]}{KINDS[resource]} " in done.stderr, done.stderr
    assert sum("will be" not in line and line.endswith((" created", " changed")) for line in done.stdout.splitlines()) == n_done
    assert (f"{n_done} of {len(OBJECTS)} changes were already made" in done.stderr) == (n_done > 0)


@pytest.mark.parametrize("resource", RESOURCES)
@pytest.mark.parametrize("verb", WORDS)
def test_forbidden(api, verb, resource):
    if verb == "patch":
        damage(api)
    api.denied.add(f"{verb} {resource}")
    done = publish(api)
    assert done.returncode == 77 and f'cannot {verb} resource "{resource}"' in done.stderr
    verify_report(done, verb, resource, 0 if verb == "get" else before(resource))
    if verb == "get":
        assert not existing(api)
    api.denied.clear()
    complete(api)


@pytest.mark.parametrize("resource", RESOURCES)
@pytest.mark.parametrize("verb, reason", [("create", "AlreadyExists"), ("patch", "Conflict")])
def test_conflict(api, verb, reason, resource):
    if verb == "patch":
        damage(api)
    api.on(f"{verb} {resource}", lambda _: status(409, reason, "somebody else was faster"), times=1)
    done = publish(api)
    assert done.returncode == 75 and "it already exists, or somebody else has changed or deleted it" in done.stderr
    verify_report(done, verb, resource, before(resource))
    complete(api)


def carried_out(api):
    """The request is carried out, but its answer is lost."""
    def action(request):
        api.healthy(request)
        return faults.hang_up_instead(request)
    return action


@pytest.mark.parametrize("resource", RESOURCES)
@pytest.mark.parametrize("verb", WORDS)
@pytest.mark.parametrize("is_carried_out", [False, True], ids=["refused", "carried-out"])
def test_api_server_goes_away(api, verb, resource, is_carried_out):
    if verb == "patch":
        damage(api)
    is_back = False
    action = carried_out(api) if is_carried_out else faults.hang_up_instead
    api.on(f"{verb} {resource}", lambda request: None if is_back else action(request))
    done = publish(api)
    assert done.returncode not in (0, 70) and f"127.0.0.1:{api.port}" in done.stderr
    verify_report(done, verb, resource, 0 if verb == "get" else before(resource))
    is_back = True
    complete(api)


def test_what_an_administrator_added_stays(api):
    """Subjects of any kind, labels and annotations; the rules of a Role do not, since anybody would get them."""
    assert publish(api).returncode == 0
    binding, role = OBJECTS[2][1], OBJECTS[1][1]
    added = [{"kind": "ServiceAccount", "name": "a", "namespace": "b"}, {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": 'c"d'}]
    mine = {"labels": {"team": "a"}, "annotations": {"why": "b"}}
    api.objects.put(binding, {**api.objects.look(binding), "subjects": added, "metadata": mine})
    api.objects.put(role, {**api.objects.look(role), "rules": [{"verbs": ["*"], "apiGroups": [""], "resources": ["secrets"]}], "metadata": mine})
    done = publish(api)
    assert done.returncode == 0 and '    - [{"verbs":["*"]' in done.stdout and '"name":"system:anonymous"' in done.stdout
    assert api.objects.look(binding)["subjects"][:2] == added and api.objects.look(binding)["subjects"][2]["name"] == "system:anonymous"
    assert [rule["resources"] for rule in api.objects.look(role)["rules"]] == [["configmaps"]]
    for path in (binding, role):
        assert {key: api.objects.look(path)["metadata"][key] for key in mine} == mine
    complete(api)


def test_another_server_is_not_another_cluster(api):
    assert publish(api).returncode == 0
    done = api.run("cluster-info", "publish", "--server=https://balancer.example:6443")
    assert done.returncode == 65 and "another server of this cluster" in done.stderr and "another CA" not in done.stderr
    assert "https://api.example:6443" in done.stderr and "https://balancer.example:6443" in done.stderr and "--force" in done.stderr


def test_the_same_cas_in_another_order(api):
    """As during a rotation: pins stay valid, so nothing is refused or reported."""
    both = [api.cluster.ca.pem, pki.CA("next").pem]
    published = api.user_cluster(**{"certificate-authority-data": admin.encode(b"".join(reversed(both))), "server": "https://api.example:6443"})
    api.objects.put(CLUSTER_INFO, data={"kubeconfig": json.dumps({"apiVersion": "v1", "kind": "Config", "clusters": [{"name": "", "cluster": published}]})})
    own = api.kubeconfig("two.conf", cluster=api.user_cluster(**{"certificate-authority-data": admin.encode(b"".join(both))}))
    done = admin.run_admin("cluster-info", "publish", "--server=https://api.example:6443", "--kubeconfig", own)
    assert done.returncode == 0, done.stderr
    assert "other CA certificates" not in admin.run_admin("cluster-info", "verify", "--kubeconfig", own).stdout


def test_a_name_that_begins_like_a_loopback_address(api):
    assert api.run("cluster-info", "publish", "--server=https://127.example.org:6443", "--dry-run").returncode == 0
    done = api.run("cluster-info", "publish", "--server=https://127.1.2.3:6443", "--dry-run")
    assert done.returncode != 0 and "127.1.2.3" in done.stderr


def test_another_ca(api):
    assert publish(api).returncode == 0
    cluster = api.user_cluster(**{"certificate-authority-data": admin.encode(pki.CA("elsewhere").pem)})
    kubeconfig = json.dumps({"apiVersion": "v1", "kind": "Config", "clusters": [{"name": "", "cluster": cluster}]})
    api.objects.put(CLUSTER_INFO, data={"kubeconfig": kubeconfig})
    done = publish(api)
    assert done.returncode == 65 and "another CA" in done.stderr and "another server" not in done.stderr
    assert api.objects.look(CLUSTER_INFO)["data"]["kubeconfig"] == kubeconfig


def test_a_policy_is_created_but_never_changed(api):
    api.objects.remove(admin.POLICY)
    assert "ConfigMap node-bootstrap-policy: created" in publish(api).stdout
    assert api.objects.look(admin.POLICY).get("data") == {}
    api.objects.put(admin.POLICY, data={"requireProof": "true"})
    assert "ConfigMap node-bootstrap-policy: unchanged" in publish(api).stdout
    assert api.objects.look(admin.POLICY)["data"] == {"requireProof": "true"}
