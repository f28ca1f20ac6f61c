# SPDX-License-Identifier: Apache-2.0
"""Certificate signing requests for a node that does not exist, submitted as the API server sees them."""

import base64
import hashlib
import itertools
import json

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from common.wait import until
from . import controlplane, pki

GROUP = "system:bootstrappers:node-bootstrap"
CLIENT, SERVING = "kubernetes.io/kube-apiserver-client-kubelet", "kubernetes.io/kubelet-serving"
CLIENT_USAGES, SERVING_USAGES = (["digital signature", "key encipherment", f"{kind} auth"] for kind in ("client", "server"))
numbers = itertools.count(1)


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

    def submit(self, *, user=None, groups=None, signer=CLIENT, usages=None, organizations=("system:nodes",), names=(), proof=None, node=None):
        """A request as this user submits it; returns its name."""
        builder = x509.CertificateSigningRequestBuilder().subject_name(pki.name(f"system:node:{node or self.node}", *organizations))
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        request = builder.sign(pki.new_key(), hashes.SHA256())
        text = request.public_bytes(Encoding.PEM) + (sign(proof, request, self.token.id) if proof else b"")
        name = f"csr-approve-{next(numbers)}"
        usages = usages or (CLIENT_USAGES if signer == CLIENT else SERVING_USAGES)
        csr = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
               "spec": {"request": base64.b64encode(text).decode(), "signerName": signer, "usages": usages}}
        path = self.cluster.work / f"{name}.json"
        path.write_text(json.dumps(csr))
        user, groups = user or f"system:bootstrap:{self.token.id}", groups or ("system:bootstrappers", GROUP)
        as_user = [f"--as={user}", *(f"--as-group={group}" for group in (*groups, "system:authenticated"))]
        self.cluster.kubectl("create", "--filename", str(path), *as_user)
        self.names.append(name)
        return name

    def csr(self, name):
        return self.cluster.request("GET", f"{controlplane.CSRS}/{name}")

    def conditions(self, name):
        return [(c["type"], c["reason"]) for c in self.csr(name)["status"].get("conditions", ())]

    def listed(self, name, *options):
        return pending(self.admin.run("approve", *options))[name]

    def refused(self, name, text, *options):
        """One look at the list is enough, and approving it by name is refused."""
        item = self.listed(name, *options)
        assert item["suspicious"] and text in item["verdict"], item
        lines = self.admin.run("approve", *options).splitlines()
        at = next(i for i, line in enumerate(lines) if line.startswith(name + " "))
        assert any(text in line and not line.startswith("    ok") for line in lines[at + 1:at + 6]), lines
        done = self.admin.command("approve", name, *options)
        assert done.returncode == 65 and "admin-request-suspicious" in done.stderr and text in done.stderr and done.stdout == ""
        assert self.conditions(name) == []
        return item

    def approved(self, name, *options):
        assert f"approved {name}, node " in self.admin.run("approve", name, *options)
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


def pending(text):
    """What `approve` lists, by the name of the request."""
    items, item = {}, {}
    for line in text.splitlines()[1:]:
        if not line.startswith("    "):
            name, node, kind, _, *state, proof = line.split()
            item = items[name] = {"node": node, "kind": kind, "state": " ".join(state), "proof": proof, "names": []}
        elif line.startswith("    requested by "):
            item["requestor"] = line.removeprefix("    requested by ")
        elif line.startswith("    name: "):
            item["names"].append(line.removeprefix("    name: "))
        else:
            item["verdict"] = line.strip()
            item["suspicious"] = not item["verdict"].startswith(("ok: ", "check it: "))
    return items


def sign(key, request, token_id):
    """What a machine with an enrolled key appends to its request."""
    message = f"node-bootstrap attestation v2\n{token_id}\n".encode() + hashlib.sha256(request.public_bytes(Encoding.DER)).digest()
    proof = key.sign(message, ec.ECDSA(hashes.SHA256()))
    lines = base64.encodebytes(proof).replace(b"\n", b"")
    wrapped = b"\n".join(lines[i:i + 64] for i in range(0, len(lines), 64))
    return b"-----BEGIN NODE-BOOTSTRAP KEY SIGNATURE-----\n" + wrapped + b"\n-----END NODE-BOOTSTRAP KEY SIGNATURE-----\n"
