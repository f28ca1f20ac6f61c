# SPDX-License-Identifier: Apache-2.0
"""CertificateSigningRequest objects: those that tests submit, and those of the scripted cluster, and how it approves and signs them.

`make()` is for scripted and real clusters. `Requests` keeps the objects with resourceVersion semantics and feeds watches. A controller
is a callable `(cluster, name)` that runs in a thread of its own after each create; the functions below make the ones that tests need,
the healthy one being `approve()`. What certificate is issued is again a callable, `(cluster, csr) -> PEM`.
"""

import base64
import copy
import datetime
import json
import threading
import time
import uuid

from cryptography import x509

from . import pki

MACHINE_CONFIG = "system:serviceaccount:openshift-machine-config-operator:node-bootstrapper"      # OpenShift's requester
CLIENT, SERVING = "kubernetes.io/kube-apiserver-client-kubelet", "kubernetes.io/kubelet-serving"     # signers
USAGES = {CLIENT: pki.USAGES, SERVING: ("digital signature", "key encipherment", "server auth")}
KNOWN_USAGES = {"digital signature", "key encipherment", "client auth", "server auth", "key agreement", "any"}


def timestamp(seconds=0):
    when = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")


def make(pem, name=None, signer=CLIENT, usages=None, **spec):
    """The object that a client submits. Without `name`, the API server generates one."""
    return {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
            "metadata": {"name": name} if name else {"generateName": "csr-"},
            "spec": {"request": base64.b64encode(pem).decode(), "signerName": signer, "usages": list(usages or USAGES.get(signer, pki.USAGES)), **spec}}


class Invalid(Exception):
    """What kube-apiserver answers with 422."""


class Exists(Exception):
    pass


class Gone(Exception):
    """The resourceVersion is no longer in the log: 410."""


class Requests:
    def __init__(self, stopping):
        self._changed = threading.Condition()
        self._stopping = stopping
        self._log = []                  # (resourceVersion, event type, snapshot)
        self.objects = {}
        self.version = 1000
        self.oldest = 1000

    def wake(self):
        with self._changed:
            self._changed.notify_all()

    def _record(self, kind, obj):
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        self._log.append((self.version, kind, copy.deepcopy(obj)))
        self._changed.notify_all()

    def create(self, obj, user, groups):
        spec, name = obj["spec"], obj["metadata"].get("name") or "csr-" + uuid.uuid4().hex[:5]
        validate(spec)
        with self._changed:
            if name in self.objects:
                raise Exists(name)
            made = {"kind": "CertificateSigningRequest", "apiVersion": "certificates.k8s.io/v1",
                    "metadata": {"name": name, "uid": str(uuid.uuid4()), "creationTimestamp": timestamp(),
                                 "managedFields": [{"manager": "node-bootstrap", "operation": "Update"}]},
                    "spec": {**spec, "username": user, "groups": groups}, "status": {}}
            self.objects[name] = made
            self._record("ADDED", made)
            return copy.deepcopy(made)

    def put(self, name, key, *, cn, orgs=(pki.NODES,), age=0, user="system:bootstrap:abcdef", **changes):
        """An object that was there before the machine came."""
        self.create(make(pki.sign_csr(key, cn, orgs), name, **changes), user, ["system:bootstrappers"])
        self.change(name, lambda obj: obj["metadata"].update(creationTimestamp=timestamp(-age)))

    def get(self, name):
        with self._changed:
            return copy.deepcopy(self.objects.get(name))

    def all(self, name=None):
        with self._changed:
            return [copy.deepcopy(obj) for key, obj in self.objects.items() if name in (None, key)]

    def change(self, name, edit):
        with self._changed:
            if name in self.objects:
                edit(self.objects[name])
                self._record("MODIFIED", self.objects[name])

    def delete(self, name):
        with self._changed:
            if name in self.objects:
                self._record("DELETED", self.objects.pop(name))

    def replace(self, name, edit=lambda obj: None):
        """Deletes the object and creates it again with the same name, another UID and no status."""
        with self._changed:
            obj = self.objects[name]
            self._record("DELETED", obj)
            obj["metadata"]["uid"], obj["status"] = str(uuid.uuid4()), {}
            edit(obj)
            self._record("ADDED", obj)

    def condition(self, name, kind, reason, message, status="True"):
        entry = {"type": kind, "status": status, "reason": reason, "message": message,
                 "lastUpdateTime": timestamp(), "lastTransitionTime": timestamp()}
        self.change(name, lambda obj: obj["status"].setdefault("conditions", []).append(entry))

    def issue(self, name, pem):
        self.change(name, lambda obj: obj["status"].update(certificate=base64.b64encode(pem).decode()))

    def forget(self):
        """Compaction: watches from before now are answered with 410."""
        with self._changed:
            self._log.clear()
            self.oldest = self.version

    def wait_for(self, n=1, timeout=90):
        """The names of the objects, once there are n of them; for tests."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.objects) >= n, timeout), "no CSR was created"
            return list(self.objects)

    def events(self, since, name, seconds, bookmarks, bookmark_every=60):
        """Healthy watch events, as dicts; ends after `seconds` or when the server stops."""
        end, marked = time.monotonic() + seconds, time.monotonic()
        if since < self.oldest and since != 0:
            raise Gone
        if since == 0:
            with self._changed:
                since, start = self.version, [copy.deepcopy(obj) for obj in self.objects.values()]
            for obj in start:
                if name in (None, obj["metadata"]["name"]):
                    yield {"type": "ADDED", "object": obj}
        while not self._stopping.is_set():
            with self._changed:
                pending = [entry for entry in self._log if entry[0] > since]
                now = time.monotonic()
                if not pending:
                    if now >= end:
                        break
                    due = marked + bookmark_every
                    self._changed.wait(min(end, due if bookmarks else end) - now if min(end, due) > now else 0)
            for since, kind, obj in pending:
                if name in (None, obj["metadata"]["name"]):
                    yield {"type": kind, "object": obj}
            if not pending and bookmarks and time.monotonic() >= marked + bookmark_every:
                marked = time.monotonic()
                yield bookmark(self.version)
        if bookmarks:
            yield bookmark(self.version)


def bookmark(version):
    return {"type": "BOOKMARK", "object": {"kind": "CertificateSigningRequest", "apiVersion": "certificates.k8s.io/v1",
                                           "metadata": {"resourceVersion": str(version), "creationTimestamp": None},
                                           "spec": {"request": None, "signerName": ""}, "status": {}}}


def validate(spec):
    """The validation of kube-apiserver, in its words."""
    pem = base64.b64decode(spec.get("request") or "")
    if not pem.startswith(b"-----BEGIN CERTIFICATE REQUEST-----"):
        raise Invalid("spec.request: Invalid value: []byte{…}: PEM block type must be CERTIFICATE REQUEST")
    if not x509.load_pem_x509_csr(pem).is_signature_valid:
        raise Invalid("spec.request: Invalid value: []byte{…}: x509: ECDSA verification failure")
    usages = spec.get("usages") or []
    if not usages:
        raise Invalid("spec.usages: Required value")
    for usage in usages:
        if usage not in KNOWN_USAGES or usages.count(usage) > 1:
            raise Invalid(f'spec.usages: Unsupported value: "{usage}"')
    if "/" not in spec.get("signerName", ""):
        raise Invalid("spec.signerName: Required value")
    expiration = spec.get("expirationSeconds")
    if expiration is not None and expiration < 600:
        raise Invalid(f"spec.expirationSeconds: Invalid value: {expiration}: may not specify a duration less than 600 seconds (10 minutes)")


def pending(text):
    """What `requests list --output=json` lists, by the name of the request."""
    items = {}
    for item in json.loads(text):
        mark = {"ok": "ok: ", "check": "check it: "}.get(item["verdict"], "")
        description = f" ({item['description']})" if item["description"] else ""
        items[item["name"]] = {"node": item["node"], "kind": item["kind"], "state": item["nodeState"], "proof": item["proof"], "names": item["names"],
                               "requestor": item["requestor"] + description, "reason": item["verdict"], "verdict": mark + item["text"],
                               "suspicious": not mark}
    return items


# What becomes of a request.

def never(cluster, name):
    """The request stays pending; a test may call another of these functions later."""


def approve(certificate=None, *, after=0.01, issue_after=0.005, reason="AutoApproved"):
    def controller(cluster, name):
        cluster.stopping.wait(after)
        cluster.csrs.condition(name, "Approved", reason, "Auto approving kubelet client certificate after SubjectAccessReview.")
        cluster.stopping.wait(issue_after)
        obj = cluster.csrs.get(name)
        if obj is not None:
            cluster.csrs.issue(name, (certificate or issued)(cluster, parsed(obj)))
    return controller


def approved_only(cluster, name):
    """No signing key in the controller manager: Approved, and never issued."""
    cluster.csrs.condition(name, "Approved", "KubectlApprove", "This CSR was approved by kubectl certificate approve.")


def deny(reason="KubectlDeny", message="This CSR was denied by kubectl certificate deny.", *, after=0.01):
    def controller(cluster, name):
        cluster.stopping.wait(after)
        cluster.csrs.condition(name, "Denied", reason, message)
    return controller


def fail(reason="SignerValidationFailure", message="subject organization is not system:nodes", *, after=0.01):
    def controller(cluster, name):
        cluster.stopping.wait(after)
        cluster.csrs.condition(name, "Approved", "KubectlApprove", "This CSR was approved by kubectl certificate approve.")
        cluster.csrs.condition(name, "Failed", reason, message)
    return controller


def once(first, then):
    """One outcome for the first request, another for later ones."""
    fates = iter([first])
    return lambda cluster, name: next(fates, then)(cluster, name)


def delete(*, after=0.01):
    def controller(cluster, name):
        cluster.stopping.wait(after)
        cluster.csrs.delete(name)
    return controller


def replace(*, after=0.01, edit=lambda obj: None):
    def controller(cluster, name):
        cluster.stopping.wait(after)
        cluster.csrs.replace(name, edit)
    return controller


# What certificate is issued.

def parsed(obj):
    return x509.load_pem_x509_csr(base64.b64decode(obj["spec"]["request"]))


def issued(cluster, csr, **changes):
    """As kube-controller-manager: key and subject of the request, client auth, from five minutes ago."""
    orgs, cns = pki.subject(csr)
    options = {"cn": cns[0] if cns else None, "orgs": orgs, "public_key": csr.public_key(), "end": pki.YEAR, **changes}
    return pki.cert_pem(cluster.signer.client(**options))


def with_changes(**changes):
    return lambda cluster, csr: issued(cluster, csr, **changes)


def other_key(cluster, csr):
    return issued(cluster, csr, public_key=pki.new_key().public_key())


def other_type_of_key(cluster, csr):
    return issued(cluster, csr, public_key=pki.new_key("rsa").public_key())


def literal(pem):
    return lambda cluster, csr: pem


def with_intermediates(cluster, csr):
    """Signed by an intermediate CA, which follows the leaf."""
    middle = pki.CA("intermediate", parent=cluster.signer)
    orgs, cns = pki.subject(csr)
    return pki.cert_pem(middle.client(csr.public_key(), cns[0], orgs)) + middle.pem


def leaf_last(cluster, csr):
    return cluster.signer.pem + issued(cluster, csr)


def then(text):
    """A valid certificate with something after it."""
    return lambda cluster, csr: issued(cluster, csr) + text


def first(text):
    return lambda cluster, csr: text + issued(cluster, csr)


FOREIGN_KEY = pki.key_pem(pki.new_key())
