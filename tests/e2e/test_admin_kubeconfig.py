# SPDX-License-Identifier: Apache-2.0
"""The credentials of node-bootstrap-admin beside a real control plane: a ServiceAccount's token, and a plugin that writes a client certificate."""

import json
import subprocess

import pytest

from .harness import controlplane

ACCOUNTS = "/api/v1/namespaces/kube-system/serviceaccounts"
ACCOUNT = "system:serviceaccount:kube-system:e2e-kubeconfig"
BINDING = f"{controlplane.BINDINGS}/e2e:kubeconfig"
PLUGIN = "client.authentication.k8s.io/v1beta1"     # Debian's kubectl, 1.20, knows no newer one


@pytest.fixture
def admin(cluster, administer):
    return administer(cluster)


def write_kubeconfig(cluster, name, user):
    document = json.loads((cluster.work / "admin.conf").read_text())
    document["users"][0]["user"] = user
    path = cluster.work / name
    path.write_text(json.dumps(document))
    return path


def refused_user(admin, path):
    """Who the API server says this is, when it may not list tokens."""
    done = admin.command("token", "list", f"--kubeconfig={path}")
    assert done.returncode == 77 and ": admin-forbidden: " in done.stderr, done.stderr
    return done.stderr.partition('User "')[2].partition('"')[0]


def test_a_service_account(cluster, admin):
    """A token of a ServiceAccount, as a TokenRequest has it and kubelet writes it to a file."""
    cluster.request("POST", ACCOUNTS, {"metadata": {"name": "e2e-kubeconfig"}})
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    made = cluster.request("POST", f"{ACCOUNTS}/e2e-kubeconfig/token", request)
    (cluster.work / "account-token").write_text(made["status"]["token"] + "\n")
    path = write_kubeconfig(cluster, "account.conf", {"tokenFile": "account-token"})
    assert refused_user(admin, path) == ACCOUNT
    cluster.request("POST", controlplane.BINDINGS, {
        "metadata": {"name": "e2e:kubeconfig"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "e2e-kubeconfig", "namespace": "kube-system"}]})
    try:
        token = str(cluster.token())
        assert token[:6] in admin.run("token", "list", f"--kubeconfig={path}")
    finally:
        cluster.request("DELETE", BINDING)


def test_a_plugin(cluster, admin):
    """Its client certificate decides, as with kubectl and the same kubeconfig."""
    token = str(cluster.token())
    for name, groups in (("e2e-plugin-admin", ["system:masters"]), ("e2e-plugin-nobody", [])):
        certificate, key = cluster.ca.user(name, groups).pair
        credential = {"apiVersion": PLUGIN, "kind": "ExecCredential", "status": {
            "clientCertificateData": certificate.decode(), "clientKeyData": key.decode(),
            "expirationTimestamp": "2100-01-01T00:00:00Z"}}
        (cluster.work / "credential").write_text(json.dumps(credential))
        plugin = cluster.work / "plugin"
        plugin.write_text(f"#!/bin/sh\nexec cat {cluster.work}/credential\n")
        plugin.chmod(0o755)
        user = {"exec": {"apiVersion": PLUGIN, "command": "./plugin", "interactiveMode": "Never", "provideClusterInfo": True}}
        path = write_kubeconfig(cluster, "plugin.conf", user)
        if groups:
            assert token[:6] in admin.run("token", "list", f"--kubeconfig={path}")
            names = subprocess.run(["kubectl", "get", "secrets", "-n", "kube-system", f"--kubeconfig={path}"], capture_output=True, text=True,
                                   check=True, timeout=60).stdout
            assert f"bootstrap-token-{token[:6]}" in names
        else:
            assert refused_user(admin, path) == name
