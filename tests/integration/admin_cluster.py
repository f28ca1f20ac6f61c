# SPDX-License-Identifier: Apache-2.0
"""What the controller finds in a cluster, and what it does there, for its tests."""

import base64
import contextlib
import functools
import hashlib
import http.client
import itertools
import random
import socket
import threading
import time

from cryptography import x509

from common import csrs, faults, pki
from common.csrs import timestamp
from common.endpoint import Stream
from common.wait import until
from . import admin
from .admin import POLICY
from .objects import PATIENCE

SECRETS = "/api/v1/namespaces/kube-system/secrets"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
EVENTS = "/api/v1/namespaces/default/events"
NODES = "/api/v1/nodes"
APPROVAL = "patch certificatesigningrequests/approval"
BOUND, ENROLLED, UNBOUND = (f"system:bootstrappers:{name}" for name in ("node-bootstrap", "node-bootstrap-enrolled", "kubeadm:default-node-token"))
INTERNAL = faults.error(500, "InternalError", "an error on the server")
AT_ONCE = 4.5       # seconds: less than renew_ms of lease.c, after which a controller with nothing to do wakes up
METRICS_PREFIX = "node_bootstrap_controller_"


def encode(text):
    return base64.b64encode(text.encode()).decode()


@functools.cache
def key_of(name):
    """The key of the machine that submits the request of this name."""
    return pki.new_key()


def holder_of(csr):
    """What the claim for this request says: the SHA-256 of its public key."""
    request = x509.load_pem_x509_csr(base64.b64decode(csr["spec"]["request"]))
    return hashlib.sha256(pki.spki(request.public_key())).hexdigest()


def decisions(decision, reason):
    return f'decisions_total{{kind="client",decision="{decision}",reason="{reason}"}}'


def silent(api):
    """What a connection that is dead, but not closed, lets through."""
    def wait():
        api.stopping.wait()
        yield from ()
    return lambda request: Stream(parts=wait())


def buffering(api):
    """What a proxy lets through that keeps an answer until it is complete. The API server ends a watch."""
    def collect(request):
        kept, end = [], time.monotonic() + int(request.query["timeoutSeconds"])
        ended = threading.Event()

        def read():
            for part in api.objects.watch(request.place, request.query):
                if ended.is_set():
                    return
                kept.append(part)
        threading.Thread(target=read, daemon=True).start()
        while not api.stopping.is_set() and time.monotonic() < end:
            api.stopping.wait(0.2)
        ended.set()
        yield from kept
    return lambda request: Stream(parts=collect(request))


class Cluster:
    """What a test does in the cluster, and sees there."""

    def __init__(self, api):
        self.api, self.numbers = api, itertools.count()

    def token(self, token_id, node, expires=3600, created=0, group=None, **annotations):
        metadata = {"annotations": {**({"node-bootstrap/node": node} if node else {}), **annotations}, "creationTimestamp": timestamp(created)}
        data = {"token-id": token_id, "token-secret": "0123456789abcdef", "expiration": timestamp(expires),
                "usage-bootstrap-authentication": "true", "auth-extra-groups": group or (BOUND if node else UNBOUND)}
        return self.api.objects.put(f"{SECRETS}/bootstrap-token-{token_id}", metadata=metadata, type="bootstrap.kubernetes.io/token",
                                    data={key: encode(value) for key, value in data.items()})

    def request(self, name, node, token_id="aaaaaa", *, user=None, groups=None, orgs=(pki.NODES,), sans=(), approved=False, created=0, pem=None,
                key=None, metadata=None, **csr):
        """A CSR, as an API server stores it: with the groups that its token has now. `approved` may be what the condition says."""
        if groups is None:
            secret = self.api.objects.look(f"{SECRETS}/bootstrap-token-{token_id}")
            groups = ["system:bootstrappers", base64.b64decode(secret["data"]["auth-extra-groups"]).decode() if secret else BOUND]
        status = {"conditions": [{"type": "Approved", "status": "True", "lastUpdateTime": timestamp(),
                                  "reason": approved if isinstance(approved, str) else "KubectlApprove"}]}
        pem = pem or pki.sign_csr(key or key_of(name), pki.node_user(node), orgs, sans=sans)
        return self.api.objects.put(f"{CSRS}/{name}", csrs.make(
            pem, name, username=user or f"system:bootstrap:{token_id}", groups=[*groups, "system:authenticated"], **csr),
            metadata={"creationTimestamp": timestamp(created), **(metadata or {})}, status=status if approved else {})

    def enroll(self, node, key, **data):
        """The record of a node, as `enroll` writes it."""
        return self.record(node, node=node, publicKey=pki.public_pem(key).decode(), **data)

    def record(self, name, kind="node-bootstrap/enrolled-node", **data):
        return self.api.objects.put(f"{SECRETS}/node-bootstrap-node-{name}", type=kind, data={key: encode(value) for key, value in data.items()})

    def policy(self, **data):
        self.api.objects.put(POLICY, data=data)

    def claim(self, token_id, csr_name, holder, owner):
        """The claim of a token, as the controller makes it, or somebody forges it. `owner` is the Secret, or None."""
        self.api.objects.put(f"{LEASES}/node-bootstrap-token-{token_id}", spec={"holderIdentity": holder}, metadata={
            "annotations": {"node-bootstrap/csr": csr_name}, "labels": {"node-bootstrap/claim": "true"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Secret", "name": "x", "uid": owner["metadata"]["uid"]}] if owner else []})

    def issue(self, name):
        csr = self.api.objects.look(f"{CSRS}/{name}")
        csr["status"]["certificate"] = encode("certificate")
        self.api.objects.put(f"{CSRS}/{name}", csr)

    def node(self, name, ready="True", created=0):
        self.api.objects.put(f"{NODES}/{name}", metadata={"creationTimestamp": timestamp(created)},
                             status={"conditions": [{"type": "Ready", "status": ready}]})

    def conditions(self, name):
        return [entry["type"] for entry in (self.api.objects.look(f"{CSRS}/{name}") or {}).get("status", {}).get("conditions", [])]

    def await_approval(self, name, timeout=PATIENCE):
        self.api.objects.wait(lambda: self.conditions(name) == ["Approved"], timeout)

    def await_event(self, name, reason, timeout=PATIENCE):
        def find():
            return [event for event in self.api.objects.all(EVENTS) if
                    event["involvedObject"]["name"] == name and event["reason"] == reason]
        return self.api.objects.wait(find, timeout)

    def await_revocation(self, token_id, timeout=PATIENCE):
        self.api.objects.wait(lambda: not self.exists(token_id), timeout)

    def exists(self, token_id):
        return self.api.objects.look(f"{SECRETS}/bootstrap-token-{token_id}") is not None

    def holder(self, token_id):
        lease = self.api.objects.look(f"{LEASES}/node-bootstrap-token-{token_id}")
        return lease and lease["spec"]["holderIdentity"]

    def await_leader(self):
        """Until a controller has listed everything and acts."""
        self.api.objects.wait(lambda: (self.api.objects.look(f"{LEASES}/node-bootstrap-controller") or {}).get("spec", {})
                              .get("holderIdentity"))

    def settle(self, name="fence"):
        """Returns when the controller has decided everything before: it decides in order."""
        token_id = f"f{next(self.numbers):05}"
        self.token(token_id, name)
        self.request(name, name, token_id)
        self.await_approval(name)
        return token_id

    def settle_tokens(self, name="fence"):
        """The same for what follows approvals, which is a queue of its own."""
        token_id = self.settle(name)
        self.issue(name)
        self.node(name, created=1)
        self.await_revocation(token_id)


def free_port(host="127.0.0.1"):
    """Not one that the kernel may choose for somebody else before a controller listens there: those are above 32768."""
    while True:
        with contextlib.suppress(OSError):
            with socket.create_server((host, random.randrange(10000, 30000)), family=socket.AF_INET6 if ":" in host else socket.AF_INET) as taken:
                return taken.getsockname()[1]


def cut_watches(api):
    """Each once: a watch may continue on another connection as soon as its own is cut."""
    for connection in [c for c in api.connections if c.requests and c.requests[-1].verb == "watch"]:
        with contextlib.suppress(OSError):
            connection.sock.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def controllers(api):
    """Yields what starts a controller; ends them all."""
    running = []

    def begin(*options, env=None):
        parts = ["--parts=approve-client"] * (not any(option.startswith("--parts") for option in options))
        running.append(admin.Running("controller", *parts, *options, "--kubeconfig", api.kubeconfig(), env=env))
        return running[-1]
    try:
        yield begin
    finally:
        for controller in running:
            controller.stop()


class Served:
    """A controller and what it serves."""

    def __init__(self, start, *options, host=""):
        self.host, self.port = host.strip("[]") or "127.0.0.1", free_port(host.strip("[]") or "127.0.0.1")
        self.controller = start(*options, f"--listen={host}:{self.port}")
        until(self.is_listening, "the controller listens", PATIENCE)

    def is_listening(self):
        with contextlib.suppress(OSError):
            return self.get("/healthz")

    def get(self, path, method="GET", body=None):
        connection = http.client.HTTPConnection(self.host, self.port, timeout=20)
        connection.request(method, path, body)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text

    def metric(self, name):
        """The value of one line, such as `leader` or `decisions_total{...}`; None if there is none."""
        found = [line.rpartition(" ")[2] for line in self.get("/metrics")[1].splitlines() if line.rpartition(" ")[0] == METRICS_PREFIX + name]
        return int(found[0]) if found else None
