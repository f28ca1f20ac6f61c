# SPDX-License-Identifier: Apache-2.0
"""The ServiceAccount of the controller: rbac.yaml has the permissions that all parts use, and no other.

The API server's audit log says what the controller asked for: each permission must have been used, and nothing refused.
"""

import json

import pytest
import yaml

from common import pki
from common.csrs import CLIENT, SERVING
from common.wait import until
from .harness import controlplane
from .harness import admin as admins
from .harness.admin import may

NODE, ADDRESS = "worker-1", "10.1.2.3"
NODE_GROUP = "system:bootstrappers:node-bootstrap"


@pytest.fixture(scope="module")
def audited(unattended_cluster):
    """What the controller of an earlier test has done is no part of the log."""
    made, log = unattended_cluster, unattended_cluster.work / "audit.log"
    made.audited_from = log.stat().st_size if log.exists() else 0
    made.policy(**controlplane.SERVING)
    binding = made.bind(NODE_GROUP, "system:node-bootstrapper")
    yield made
    made.policy()
    made.request("DELETE", binding)
    admins.service_account(made)


def is_approved(cluster, name):
    csr = cluster.request("GET", f"{controlplane.CSRS}/{name}")
    return any(c["type"] == "Approved" for c in csr["status"].get("conditions", ()))


def token_for(cluster, node):
    token = cluster.token(group=NODE_GROUP, signing=False)
    changes = {"metadata": {"annotations": {"node-bootstrap/node": node}}, "stringData": {"usage-bootstrap-signing": "true"}}
    cluster.request("PATCH", f"{controlplane.SECRETS}/bootstrap-token-{token.id}", changes)
    return token


def use_every_part(cluster):
    """A node joins with its token, another name is refused, the token is revoked, and an old one expires."""
    token, other = token_for(cluster, NODE), token_for(cluster, "other")
    until(lambda: f"jws-kubeconfig-{token.id}" in cluster.cluster_info(), "cluster-info is signed")
    for name, used in (("stolen", other), ("own", token)):
        request = pki.sign_csr(pki.new_key(), pki.node_user(NODE))
        cluster.submit(request, name, user=f"system:bootstrap:{used.id}", groups=["system:bootstrappers", NODE_GROUP])
    until(lambda: is_approved(cluster, "own"), "the request is approved")
    until(lambda: any(e["involvedObject"]["name"] == "stolen" for e in cluster.request("GET", "/api/v1/namespaces/default/events")["items"]),
          "an Event says why the other one is pending")
    assert not is_approved(cluster, "stolen")
    cluster.request("DELETE", f"{controlplane.CSRS}/stolen")    # while it is pending, its token is kept
    cluster.expire_token(other, 0)
    until(lambda: cluster.request("GET", f"{controlplane.CSRS}/own")["status"].get("certificate"), "the certificate is issued")
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}
    cluster.request("POST", "/api/v1/nodes", node)
    addresses = {"addresses": [{"type": "InternalIP", "address": ADDRESS}, {"type": "Hostname", "address": NODE}]}
    cluster.request("PATCH", f"/api/v1/nodes/{NODE}/status", {"status": addresses})
    for secret in (token, other):
        until(lambda: not cluster.find(f"{controlplane.SECRETS}/bootstrap-token-{secret.id}"), "revoked, and expired")
    cluster.submit(pki.sign_csr(pki.new_key(), pki.node_user(NODE), sans=[ADDRESS]), "serving", signer=SERVING, user=pki.node_user(NODE), groups=[pki.NODES])
    until(lambda: is_approved(cluster, "serving"), "the serving certificate is approved")


def audit(cluster):
    """(namespace, group, resource, verb, status) of each request of the controller."""
    found = set()
    for line in (cluster.work / "audit.log").read_bytes()[cluster.audited_from:].split(b"\n")[:-1]:     # without a line that is being written
        event = json.loads(line)
        target = event.get("objectRef", {})
        resource = "/".join(filter(None, (target.get("resource"), target.get("subresource"))))
        found.add((target.get("namespace", ""), target.get("apiGroup", ""), resource, event["verb"], event.get("responseStatus", {}).get("code", 0)))
    return found


def granted():
    """The same, of rbac.yaml. `approve` is no request: admission asks for it, and the approvals above need it."""
    for document in [document for name in ("rbac.yaml", "approve-serving/rbac.yaml")
                     for document in yaml.safe_load_all((admins.KUBERNETES / name).read_text())]:
        for rule in document.get("rules", ()):
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    if resource != "signers":
                        yield document["metadata"].get("namespace", ""), rule["apiGroups"][0], resource, verb


# For an Event that only a cluster with 5,001 tokens has; tests/integration/test_admin_signer.py has it.
RARE = {("kube-public", "", "events", "create")}


def wait_for_permissions(cluster, expected):
    until(lambda: expected <= {row[:4] for row in audit(cluster)},
          lambda: f"unused: {expected - {row[:4] for row in audit(cluster)}}")


def test_each_permission_is_used_and_none_is_missing(audited, administer):
    admin = administer(audited)
    with admin.controller("--parts=approve-client,approve-serving,signer,cleaner", account=admins.service_account(audited, is_serving=True)) as controller:
        use_every_part(audited)
        # The Lease is patched only at its first renewal, which may come later than all of the above. A watch is recorded when it ends.
        wait_for_permissions(audited, {row for row in granted() if row[3] != "watch"} - RARE)
        assert controller.stop() == 0
    wait_for_permissions(audited, set(granted()) - RARE)
    found = audit(audited)
    assert not [row for row in found if row[4] == 403], "nothing is refused"
    # What every user may do, such as asking for versions, is no resource.
    assert {row[:4] for row in found if row[2]} == set(granted()) - RARE


def test_a_claim_cannot_be_changed_and_serving_certificates_are_a_role_of_their_own(audited):
    admins.service_account(audited, is_serving=True)
    lease = {"group": "coordination.k8s.io", "resource": "leases", "namespace": "kube-system", "verb": "patch"}
    assert may(audited, **lease, name=admins.ACCOUNT)
    assert not may(audited, **lease, name="node-bootstrap-token-aaaaaa") and not may(audited, **lease)
    assert not may(audited, **{**lease, "verb": "delete"}, name=admins.ACCOUNT)
    signer = {"group": "certificates.k8s.io", "resource": "signers", "verb": "approve"}
    assert may(audited, **signer, name=SERVING)
    audited.kubectl("delete", "--filename", admins.KUBERNETES / "approve-serving/rbac.yaml")
    until(lambda: not may(audited, **signer, name=SERVING), "rbac.yaml alone does not permit it")
    assert may(audited, **signer, name=CLIENT)
