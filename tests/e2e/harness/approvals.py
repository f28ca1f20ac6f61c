# SPDX-License-Identifier: Apache-2.0
"""Requests for a node that does not exist, as `node-bootstrap-admin requests` judges them."""

import re

from common import pki
from common.csrs import pending
from common.wait import until
from . import controlplane

GROUP = "system:bootstrappers:node-bootstrap"


class Place:
    """A node that does not exist, its token, and the requests for it."""

    def __init__(self, cluster, admin, node):
        self.cluster, self.admin, self.node, self.names = cluster, admin, node, []
        self.token = self.new_token(node)

    def new_token(self, node, description="rack 4", group=GROUP):
        token = self.cluster.fresh_token()
        self.cluster.request("POST", controlplane.SECRETS, {
            "apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
            "metadata": {"name": f"bootstrap-token-{token.id}", "annotations": {"node-bootstrap/node": node} if node else {}},
            "stringData": {"token-id": token.id, "token-secret": token.secret, "auth-extra-groups": group, "description": description,
                           "usage-bootstrap-authentication": "true", "usage-bootstrap-signing": "true"},
        })
        return token

    def submit(self, *, user=None, groups=None, organizations=(pki.NODES,), names=(), proof=None, node=None, **csr):
        """A request as this user submits it; returns its name."""
        pem = pki.sign_csr(pki.new_key(), pki.node_user(node or self.node), organizations, sans=names)
        name = self.cluster.submit(pem + (pki.prove(proof, pem, self.token.id) if proof else b""), user=user or f"system:bootstrap:{self.token.id}",
                                   groups=groups or ("system:bootstrappers", GROUP), **csr)
        self.names.append(name)
        return name

    def csr(self, name):
        return self.cluster.request("GET", f"{controlplane.CSRS}/{name}")

    def conditions(self, name):
        return [(c["type"], c["reason"]) for c in self.csr(name)["status"].get("conditions", ())]

    def listed(self, name):
        return pending(self.admin.run("requests", "list", "--output=json"))[name]

    def refused(self, name, text, *options):
        """One look at the list is enough, and approving it by name is refused."""
        item = self.listed(name)
        assert item["suspicious"] and text in item["verdict"], item
        [row] = [line for line in self.admin.run("requests", "list", "--limit=0").splitlines() if line.startswith(name + " ")]
        assert text in row and f" {item['reason']} " in row, row
        done = self.admin.command("requests", "approve", name, *options)
        code = "suspicious" if re.match(r"FORGED|TAKEOVER|unknown requestor", item["verdict"]) else "blocked"
        assert done.returncode == 65 and f"admin-request-{code}: " in done.stderr and text in done.stderr and done.stdout == ""
        assert self.conditions(name) == []
        return item

    def approved(self, name, *options):
        assert f"approved {name}, node " in self.admin.run("requests", "approve", name, *options)
        assert self.conditions(name) == [("Approved", "ApprovedByAdministrator")]
        return until(lambda: self.csr(name)["status"].get("certificate"), "the certificate is issued")

    def make_node(self, ready="True", addresses=()):
        self.cluster.request("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": self.node}})
        self.cluster.request("PATCH", f"/api/v1/nodes/{self.node}/status", {"status": {
            "conditions": [{"type": "Ready", "status": ready, "reason": "Test", "message": ""}],
            "addresses": [{"type": "InternalIP" if part[0].isdigit() else "Hostname", "address": part} for part in addresses]}})

    def clear(self):
        for name in self.names:
            self.cluster.request("DELETE", f"{controlplane.CSRS}/{name}")
        record = f"{controlplane.SECRETS}/node-bootstrap-node-{self.node}"
        if self.cluster.find(record):
            self.cluster.request("DELETE", record)
        if self.cluster.node(self.node):
            self.cluster.request("DELETE", f"/api/v1/nodes/{self.node}")
