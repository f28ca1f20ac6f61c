# SPDX-License-Identifier: Apache-2.0
"""`node-bootstrap-admin cluster-info` beside a real control plane and the real kubeadm."""

import pytest

from common import pki
from common.wait import until
from .harness import controlplane
from .harness.controlplane import BINDINGS, CLUSTER_INFO, CLUSTER_INFO_BINDING, SECRETS

ROLE = CLUSTER_INFO_BINDING.replace("rolebindings", "roles")
OWN_BINDING = f"{BINDINGS}/node-bootstrap:kubelet-bootstrap"
OBJECTS = [
    CLUSTER_INFO, ROLE, CLUSTER_INFO_BINDING, BINDINGS.replace("bindings", "s") + "/kubeadm:get-nodes", f"{BINDINGS}/kubeadm:get-nodes",
    f"{BINDINGS}/kubeadm:kubelet-bootstrap", f"{BINDINGS}/kubeadm:node-autoapprove-certificate-rotation", OWN_BINDING,
    OWN_BINDING.replace("kubelet", "enrolled"),
]
CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
STANZA = "- path: /api/v1/namespaces/kube-public/configmaps/cluster-info"


@pytest.fixture(scope="module")
def cluster(world):
    """One of their own, since `verify` judges all tokens and requests."""
    made = controlplane.ControlPlane(world.assets, world.work / "published")
    yield made.start()
    made.stop()


@pytest.fixture(scope="module")
def admin(cluster, administer):
    """After a first publish, when cluster-info is signed."""
    admin = administer(cluster)
    publish(cluster, admin)
    await_health(admin)
    return admin


def publish(cluster, admin, *options):
    return admin.run("cluster-info", "publish", f"--server=https://{cluster.front.endpoint}", *options)


def meaning(cluster, path):
    """What an object says, without what the API server adds."""
    found = cluster.find(path)
    return found and {key: value for key, value in found.items() if key != "metadata"}


def versions(cluster):
    return {path: cluster.request("GET", path)["metadata"]["resourceVersion"] for path in OBJECTS}


def verify(admin, status, *texts):
    done = admin.command("cluster-info", "verify")
    assert done.returncode == status, done.stdout + done.stderr
    for text in texts:
        assert text in done.stdout
    return done.stdout


def await_health(admin):
    """Until the bootstrapsigner has signed, too."""
    until(lambda: admin.command("cluster-info", "verify").returncode == 0, "verify finds no problem")


def test_nothing_changes_that_kubeadm_published(cluster, admin):
    before = versions(cluster)
    assert "will" not in publish(cluster, admin)
    assert versions(cluster) == before


def test_kubeadm_changes_nothing_that_was_published(cluster, admin):
    before = {path: meaning(cluster, path) for path in OBJECTS}
    cluster.kubeadm("init", "phase", "bootstrap-token")
    assert {path: meaning(cluster, path) for path in OBJECTS} == before


@pytest.mark.parametrize("path", OBJECTS, ids=lambda path: path.rpartition("/")[2])
def test_a_missing_object_is_created_as_kubeadm_does(cluster, admin, path):
    before = meaning(cluster, path)
    cluster.request("DELETE", path)
    assert "will be created" in publish(cluster, admin, "--dry-run")
    assert cluster.find(path) is None
    publish(cluster, admin)
    if path == CLUSTER_INFO:
        # kubeadm leaves this line out from 1.34 on (#131741).
        ours, kubeadms = (found["data"]["kubeconfig"].replace("preferences: {}\n", "") for found in (meaning(cluster, path), before))
        assert ours == kubeadms
    else:
        assert meaning(cluster, path) == before


def test_a_damaged_binding_is_repaired_and_keeps_its_labels(cluster, admin):
    before = meaning(cluster, CLUSTER_INFO_BINDING)
    cluster.request("PATCH", CLUSTER_INFO_BINDING, {"metadata": {"labels": {"team": "a"}}, "subjects": [
        {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "somebody"}]})
    assert "system:anonymous" in publish(cluster, admin)
    repaired = cluster.request("GET", CLUSTER_INFO_BINDING)
    assert repaired["metadata"]["labels"] == {"team": "a"}
    assert {"system:anonymous", "somebody"} == {subject["name"] for subject in repaired["subjects"]}
    cluster.request("PATCH", CLUSTER_INFO_BINDING, {"metadata": {"labels": None}, "subjects": before["subjects"]})


def test_what_is_damaged_is_reported_and_repaired(cluster, admin):
    """The Role, the RoleBinding's subjects, and the kubeconfig in the ConfigMap."""
    damages = [(ROLE, {"rules": []}, "publish` repairs the Role"), (CLUSTER_INFO_BINDING, {"subjects": []}, "publish` repairs the Role"),
               (CLUSTER_INFO, {"data": {"kubeconfig": "damaged"}}, "publish` repairs it")]
    for path, damage, remedy in damages:
        before = meaning(cluster, path)
        cluster.request("PATCH", path, damage)
        if path != CLUSTER_INFO:
            cluster.await_anonymous(403)
        assert "PROBLEM" in verify(admin, 1, remedy)
        publish(cluster, admin)
        if path == CLUSTER_INFO:
            assert meaning(cluster, path)["data"]["kubeconfig"] == before["data"]["kubeconfig"]
        else:
            assert meaning(cluster, path) == before
        cluster.await_anonymous(200)
        await_health(admin)


def test_a_binding_to_another_role(cluster, admin):
    """Kubernetes lets nobody change it, so publish says how to delete it, and changes nothing else."""
    before = meaning(cluster, CLUSTER_INFO_BINDING)
    cluster.request("DELETE", CLUSTER_INFO_BINDING)
    wrong = {**before, "metadata": {"name": CLUSTER_INFO_BINDING.rpartition("/")[2]}, "roleRef": {**before["roleRef"], "name": "another"}}
    cluster.request("POST", CLUSTER_INFO_BINDING.rpartition("/")[0], wrong)
    cluster.await_anonymous(403)
    verify(admin, 1, "publish` repairs the Role")
    done = admin.command("cluster-info", "publish", f"--server=https://{cluster.front.endpoint}")
    assert done.returncode == 73 and "a roleRef cannot be changed" in done.stderr and f"kubectl delete RoleBinding {wrong['metadata']['name']} --namespace=kube-public`" in done.stderr
    cluster.request("DELETE", CLUSTER_INFO_BINDING)
    publish(cluster, admin)
    cluster.await_anonymous(200)
    await_health(admin)


def test_another_cluster_is_not_overwritten(cluster, admin):
    before = cluster.cluster_info()["kubeconfig"]
    other = before.replace(cluster.front.endpoint, "198.51.100.99:6443")
    cluster.request("PATCH", CLUSTER_INFO, {"data": {"kubeconfig": other}})
    done = admin.command("cluster-info", "publish", f"--server=https://{cluster.front.endpoint}")
    assert done.returncode == 65 and "198.51.100.99:6443" in done.stderr and "--force" in done.stderr
    assert cluster.cluster_info()["kubeconfig"] == other
    publish(cluster, admin, "--force")
    assert cluster.cluster_info()["kubeconfig"] == before


def test_a_loopback_server_is_refused(admin):
    done = admin.command("cluster-info", "publish")
    assert done.returncode == 64 and "127.0.0.1" in done.stderr and "--server" in done.stderr


def test_show_names_server_ca_and_signatures(cluster, admin):
    token = cluster.token()
    shown = admin.run("cluster-info", "show")
    assert f"https://{cluster.front.endpoint}" in shown and cluster.ca.pin in shown and token.id in shown and token.secret not in shown
    cluster.delete_token(token)


# verify

def test_a_group_that_no_token_may_have(cluster, admin):
    """Anybody who may write Secrets can put it there; it must not break the other checks."""
    token = cluster.token(group='system:bootstrappers:"x', signing=False)
    assert "system:bootstrappers" in verify(admin, 1)
    cluster.request("DELETE", f"{SECRETS}/bootstrap-token-{token.id}")


def test_ca_data_that_is_no_certificate(cluster, admin):
    before = cluster.cluster_info()["kubeconfig"]
    text = before.replace(before.split("certificate-authority-data: ")[1].split("\n")[0], "bm90aGluZw==")
    cluster.request("PATCH", CLUSTER_INFO, {"data": {"kubeconfig": text}})
    verify(admin, 1, "PROBLEM")
    cluster.request("PATCH", CLUSTER_INFO, {"data": {"kubeconfig": before}})


def test_a_healthy_cluster_has_no_problem(cluster, admin):
    token = cluster.token()
    shown = verify(admin, 0, f"anybody can read cluster-info at {cluster.front.endpoint}", "signed with all tokens",
                   "accepts bootstrap tokens", f"group {controlplane.DEFAULT_GROUP}: any holder can join as any node")
    assert "PROBLEM" not in shown and token.secret not in shown
    cluster.delete_token(token)


def test_cluster_info_that_nobody_may_read(cluster, admin):
    with cluster.without(CLUSTER_INFO_BINDING):
        cluster.await_anonymous(403)
        verify(admin, 1, "machines without a credential cannot read cluster-info", "(403)", STANZA)
    cluster.await_anonymous(200)


def test_an_api_server_without_anonymous_access(cluster, admin):
    """No Role helps then, so verify prints what to configure."""
    options = cluster.extra["kube-apiserver"]
    restart_apiserver(cluster, [*options, "--anonymous-auth=false"])
    verify(admin, 1, "machines without a credential cannot read cluster-info", "(401)", "allow anonymous requests", STANZA)
    restart_apiserver(cluster, options)
    cluster.await_anonymous(200)
    await_health(admin)


def restart_apiserver(cluster, options):
    cluster.extra["kube-apiserver"] = options
    cluster.end("kube-apiserver")
    cluster.spawn_apiserver()


def test_a_missing_cluster_info(cluster, admin):
    cluster.request("DELETE", CLUSTER_INFO)
    verify(admin, 1, "there is no ConfigMap kube-public/cluster-info")
    publish(cluster, admin)


def test_missing_and_wrong_signatures_and_expired_tokens(cluster, admin):
    signed = cluster.token()
    with cluster.paused("kube-controller-manager"):
        unsigned = cluster.fresh_token()
        late = cluster.token(ttl=-600, signing=False)
        cluster.request("POST", SECRETS, secret_like(cluster, signed, unsigned))
        cluster.request("PATCH", CLUSTER_INFO, {"data": {f"jws-kubeconfig-{signed.id}": "x..y"}})
        verify(admin, 1, "not signed, or wrongly, with these of", signed.id, unsigned.id, "expired tokens that were not removed: 1")
    until(lambda: cluster.find(f"{SECRETS}/bootstrap-token-{late.id}") is None, "the expired token is removed")
    for token in (signed, unsigned):
        cluster.delete_token(token)


def secret_like(cluster, token, new):
    """The Secret of another token, like an existing one."""
    found = cluster.request("GET", f"{SECRETS}/bootstrap-token-{token.id}")
    found["metadata"] = {"name": f"bootstrap-token-{new.id}"}
    found["stringData"] = {"token-id": new.id, "token-secret": new.secret}
    return found


def test_tokens_for_a_node_need_a_controller_and_no_automatic_approval(cluster, admin):
    admin.run("token", "create", "--node=verified", "--print=credential")
    verify(admin, 1, "bound and enrolled tokens: 1, but no controller is running")
    with admin.controller():
        until(lambda: "controller is running" in admin.command("cluster-info", "verify").stdout, "the Lease is held")
        await_health(admin)
        assert "PROBLEM" not in verify(admin, 0)
        binding = cluster.bind("system:bootstrappers:node-bootstrap",
                               "system:certificates.k8s.io:certificatesigningrequests:nodeclient")
        until(lambda: admin.command("cluster-info", "verify").returncode == 1, "the binding has an effect")
        verify(admin, 1, "system:bootstrappers:node-bootstrap: any holder can join as any node")
        cluster.request("DELETE", binding)
    verify(admin, 1, "no controller is running")    # it has given up its Lease
    admin.run("token", "revoke", "--node=verified")
    await_health(admin)


def test_the_requests_of_nodes(cluster, admin):
    """kube-controller-manager's certificate is compared with the client CA that the API server itself publishes."""
    verify(admin, 0, "no request of a node is pending")
    with cluster.paused("kube-controller-manager"):     # it approves an administrator's request
        cluster.submit(pki.sign_csr(pki.new_key(), pki.node_user("seen")), "seen")
        verify(admin, 0, "pending requests of nodes: 1", "`node-bootstrap-admin requests list`")
    until(lambda: cluster.request("GET", f"{CSRS}/seen")["status"].get("certificate"), "the certificate is issued")
    verify(admin, 0, "no request of a node is pending", "the API servers trust the CA that issues certificates of nodes")
    cluster.request("DELETE", f"{CSRS}/seen")


def test_lack_of_a_permission_is_a_line(cluster, admin, tmp_path):
    token = cluster.token()
    weak = tmp_path / "weak.conf"
    weak.write_text(controlplane.kubeconfig(f"https://127.0.0.1:{cluster.port}", cluster.ca.pem, token=token))
    weak.chmod(0o600)
    done = admin.command("cluster-info", "verify", f"--kubeconfig={weak}")
    assert done.returncode == 2 and "not known" in done.stdout and "cannot list resource" in done.stdout and token.secret not in done.stdout + done.stderr
    cluster.delete_token(token)
