# SPDX-License-Identifier: Apache-2.0
"""Approves like OpenShift's cluster-machine-approver (pkg/controller/csr_check.go): a request of the bootstrap account for a
node that has a Machine, and nothing else; all others stay pending, and are never denied."""

import base64
import contextlib
import threading
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from cryptography import x509
from cryptography.x509.oid import NameOID

from common.csrs import CLIENT
from .controlplane import CSRS, ApiError

NAMESPACE = "openshift-machine-config-operator"
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:node-bootstrapper"
GROUPS = [f"system:serviceaccounts:{NAMESPACE}", "system:serviceaccounts"]
USAGES = [{"digital signature", "client auth"}, {"key encipherment", "digital signature", "client auth"}]
MAX_DIFFERENCE = 100        # of requests that wait, beyond the number of machines or nodes
BEFORE, AFTER, RECENT = timedelta(seconds=10), timedelta(hours=2), timedelta(hours=1)


@dataclass
class Machine:
    """status.addresses[type=InternalDNS], metadata.creationTimestamp, status.nodeRef."""

    internal_dns: str
    created: datetime
    node_ref: str = None


def now():
    return datetime.now(timezone.utc)


def parse_time(text):
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)


def node_of(csr):
    """The node that a client request is for; "" when it is none."""
    request = x509.load_pem_x509_csr(base64.b64decode(csr["spec"]["request"]))
    values = {oid: [part.value for part in request.subject.get_attributes_for_oid(oid)] for oid in (NameOID.ORGANIZATION_NAME, NameOID.COMMON_NAME)}
    has_names = any(isinstance(extension.value, x509.SubjectAlternativeName) for extension in request.extensions)
    common = values[NameOID.COMMON_NAME][-1:] or [""]
    if values[NameOID.ORGANIZATION_NAME] != ["system:nodes"] or has_names or set(csr["spec"]["usages"]) not in USAGES:
        return ""
    return common[0].removeprefix("system:node:") if common[0].startswith("system:node:") else ""


def why_not(csr, nodes, machines):
    """What keeps a request from being approved; None when nothing does."""
    node = node_of(csr)
    if csr["spec"].get("username") != ACCOUNT or set(csr["spec"]["groups"]) != {*GROUPS, "system:authenticated"}:
        return f"{csr['spec'].get('username')} of {csr['spec']['groups']} is not the bootstrap account"
    if not node:
        return "it is for no node"
    if node in nodes:
        return f"node {node} already exists, cannot approve"
    found = [machine for machine in machines if machine.internal_dns.lower().rstrip(".") == node]
    if not found:
        return f"machine for node {node} is not there"
    if found[0].node_ref:
        return f"machine for node {node} already has node ref"
    if not found[0].created - BEFORE < parse_time(csr["metadata"]["creationTimestamp"]) < found[0].created + AFTER:
        return "it was made too long before or after the machine"
    return None


def is_flooded(csrs, nodes, machines):
    """Then all requests are ignored."""
    waiting = [csr for csr in csrs if not csr["status"].get("conditions") and parse_time(csr["metadata"]["creationTimestamp"]) > now() - RECENT]
    return len(waiting) > max(len(machines), len(nodes)) + MAX_DIFFERENCE


class Approver:
    """Handles the requests of one cluster until it is closed; `machines` is the table, `reasons` why a request is pending."""

    def __init__(self, cluster):
        self.cluster, self.machines, self.reasons = cluster, [], {}
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        while not self._closing.wait(0.1):
            with contextlib.suppress(OSError, ApiError):
                self._look()

    def _look(self):
        nodes = [node["metadata"]["name"] for node in self.cluster.request("GET", "/api/v1/nodes")["items"]]
        csrs = [csr for csr in self.cluster.request("GET", CSRS)["items"] if csr["spec"]["signerName"] == CLIENT]
        if is_flooded(csrs, nodes, self.machines):
            return
        for csr in csrs:
            if csr["status"].get("conditions") or csr["spec"].get("username") != ACCOUNT:
                continue
            name = csr["metadata"]["name"]
            self.reasons[name] = why_not(csr, nodes, self.machines)
            if self.reasons[name] is None:
                self._approve(csr)

    def _approve(self, csr):
        message = "This CSR was approved by the Node CSR Approver (cluster-machine-approver)"
        csr["status"]["conditions"] = [{"type": "Approved", "status": "True", "reason": "NodeCSRApprove", "message": message}]
        self.cluster.request("PUT", f"{CSRS}/{csr['metadata']['name']}/approval", csr)

    def close(self):
        self._closing.set()
        self._thread.join(30)
