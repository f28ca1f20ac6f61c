# SPDX-License-Identifier: Apache-2.0
"""OpenShift: a bootstrap kubeconfig of a service account, kubelet's kubeconfig at OpenShift's path, and approval by Machine."""

import base64
import json

import pytest
import yaml

from common import pki
from common.failures import FAILURES
from common.wait import until
from .harness import controlplane
from .harness.machine_approver import ACCOUNT, GROUPS, NAMESPACE, Approver, Machine, now
from .harness.node import CONFIG, CURRENT, KUBECONFIG, UNIT

BOOTSTRAP = "/etc/kubernetes/kubeconfig"
TARGET = "/var/lib/kubelet/kubeconfig"
CREDENTIAL = "/etc/credstore/node-bootstrap.kubeconfig"
KUBELET = f"""[Service]
Environment="KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig={BOOTSTRAP} --kubeconfig={TARGET}"
"""
KUBELET_CONFIGURATION = "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n"


@pytest.fixture(scope="module")
def account(cluster):
    """The service account with system:node-bootstrapper, and its token, which does not expire."""
    core = f"/api/v1/namespaces/{NAMESPACE}"
    cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    cluster.request("POST", f"{core}/serviceaccounts", {"metadata": {"name": "node-bootstrapper"}})
    cluster.request("POST", f"{core}/secrets", {
        "type": "kubernetes.io/service-account-token",
        "metadata": {"name": "node-bootstrapper-token", "annotations": {"kubernetes.io/service-account.name": "node-bootstrapper"}},
    })
    cluster.request("POST", controlplane.BINDINGS, {
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "system-bootstrap-node-bootstrapper"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:node-bootstrapper"},
        "subjects": [{"kind": "ServiceAccount", "name": "node-bootstrapper", "namespace": NAMESPACE}],
    })
    secret = until(lambda: cluster.request("GET", f"{core}/secrets/node-bootstrapper-token").get("data", {}).get("token"), "the token is there")
    return base64.b64decode(secret).decode()


def boot(node):
    """With kubelet's configuration at the path where kubeadm has its kubeconfig."""
    node.enable(UNIT).drop_in("kubelet.service", KUBELET)
    node.boot("--unit=basic.target")
    node.write(KUBECONFIG, KUBELET_CONFIGURATION)
    return node


@pytest.fixture(scope="module", autouse=True)
def rejected(new_shared_node, cluster):
    """A machine whose client certificate is of another CA. Started first and collected last: 401 is reported after the retries."""
    node = boot(new_shared_node("rejected"))
    certificate, key = pki.CA().user(ACCOUNT, GROUPS).pair
    user = {"client-certificate-data": base64.b64encode(certificate).decode(), "client-key-data": base64.b64encode(key).decode()}
    node.write(BOOTSTRAP, kubeconfig(cluster, **user), 0o600)
    configure(node, kubeconfig=BOOTSTRAP)
    node.begin()
    return node


@pytest.fixture(scope="module")
def booted(new_shared_node):
    return boot(new_shared_node("openshift"))


@pytest.fixture
def node(booted):
    booted.forget()
    booted.write(KUBECONFIG, KUBELET_CONFIGURATION)
    yield booted
    booted.run("systemctl", "stop", "kubelet.service", UNIT)


@pytest.fixture
def approver(cluster):
    made = Approver(cluster)
    yield made
    made.close()


def configure(node, **bootstrap):
    node.write(CONFIG, yaml.safe_dump({"apiVersion": "node-bootstrap/v1", "kind": "NodeBootstrap", "kubelet": {"kubeconfig": TARGET},
                                       **({"bootstrap": bootstrap} if bootstrap else {})}))


def kubeconfig(cluster, **user):
    """As machine-config-server writes it."""
    return json.dumps({
        "clusters": [{"name": "local", "cluster": {"server": f"https://{cluster.front.endpoint}",
                                                   "certificate-authority-data": base64.b64encode(cluster.ca.pem).decode()}}],
        "users": [{"name": "kubelet", "user": user}],
        "contexts": [{"name": "kubelet", "context": {"cluster": "local", "user": "kubelet"}}], "current-context": "kubelet",
    })


def client_certificate(cluster):
    certificate, key = cluster.ca.user(ACCOUNT, GROUPS).pair
    return {"client-certificate-data": base64.b64encode(certificate).decode(), "client-key-data": base64.b64encode(key).decode()}


def joined(node, cluster):
    """Joined by this account, and kubelet is running with the result; the other file of that name is unchanged."""
    cluster.await_node(node.name)
    [csr] = cluster.csrs(node.name)
    assert csr["spec"]["username"] == ACCOUNT and set(csr["spec"]["groups"]) == {*GROUPS, "system:authenticated"}
    assert csr["status"]["conditions"][0]["reason"] == "NodeCSRApprove"
    config = yaml.safe_load(node.read(TARGET))
    assert config["users"][0]["user"] == {"client-certificate": CURRENT, "client-key": CURRENT}
    assert node.read(KUBECONFIG).decode() == KUBELET_CONFIGURATION


def failed(node, code):
    assert node.await_end() == ("failed", int(FAILURES[code]["exit"])), node.journal_text("-u", "node-bootstrap", "--lines=40")
    assert [entry for entry in node.entries() if "NODE_BOOTSTRAP_CODE" in entry][-1]["NODE_BOOTSTRAP_CODE"] == code
    assert not node.exists(TARGET) and not node.kubelet_pid()


def start(node):
    done = node.join(check=False)
    assert done.returncode == 0, node.journal_text("-u", "node-bootstrap", "--lines=40")


def test_worker_waits_for_its_machine(node, cluster, account, approver):
    """By path, mode 0600, owner root: the network side cannot read it itself. Without a Machine the request stays pending, with a message."""
    node.write(BOOTSTRAP, kubeconfig(cluster, token=account), 0o600)
    configure(node, kubeconfig=BOOTSTRAP)
    node.drop_in(UNIT, f"[Service]\nExecStartPre=/bin/sh -c '! cat {BOOTSTRAP} && [ -e {BOOTSTRAP} ]'\n")
    created = now()     # the approver allows a request only 10 s before its Machine
    node.begin()
    csr = cluster.await_csr(node.name)["metadata"]["name"]
    until(lambda: approver.reasons.get(csr), "the approver has looked")
    assert approver.reasons[csr] == f"machine for node {node.name} is not there"
    node.await_status("waiting for approval")
    assert not node.kubelet_pid()
    approver.machines.append(Machine(node.name.upper() + ".", created))
    assert node.await_end() == ("active", 0)
    joined(node, cluster)
    said = node.journal_text("-u", "node-bootstrap")
    assert account not in said and account.split(".")[2] not in said


def test_worker_by_credential(node, cluster, account, approver):
    node.write(CREDENTIAL, kubeconfig(cluster, token=account), 0o600)
    configure(node)
    approver.machines.append(Machine(node.name, now()))
    start(node)
    joined(node, cluster)


@pytest.mark.parametrize("by_credential", [False, True], ids=["by path", "by credential"])
def test_master(node, cluster, account, approver, by_credential):
    """A client certificate of the same name, which the cluster's client CA has signed."""
    node.write(CREDENTIAL if by_credential else BOOTSTRAP, kubeconfig(cluster, **client_certificate(cluster)), 0o600)
    configure(node, **({} if by_credential else {"kubeconfig": BOOTSTRAP}))
    approver.machines.append(Machine(node.name, now()))
    start(node)
    joined(node, cluster)


def test_file_that_others_read(node, cluster, account):
    node.write(BOOTSTRAP, kubeconfig(cluster, token=account), 0o644)
    configure(node, kubeconfig=BOOTSTRAP)
    node.begin()
    failed(node, "token-exposed")
    assert cluster.csrs(node.name) == []


def test_client_certificate_of_another_ca(rejected):
    failed(rejected, "token-rejected")
