# SPDX-License-Identifier: Apache-2.0
"""A scripted server of k3s or RKE2: what an agent that joins sees of its supervisor.

`K3s` is the state of such a cluster, `Supervisor` one endpoint of it: /cacerts, /ping and the
certificates below /v1-k3s; everything else falls through to the Kubernetes API (apiserver.py), as it
does in k3s, and the Kubernetes API knows no passwords. With program="rke2" it does not: the
supervisor of RKE2 has a port of its own, 9345. Status codes and words are those of k3s, and each
rule below has its source there:

a caller without one of three groups    403 forbidden (pkg/server/auth/auth.go, doAuth; handlers/router.go)
an invalid token or certificate         401 not authorized (doAuth: the authenticator returns an error)
no router yet                           503 starting, also for /cacerts (pkg/cluster/router.go)
no handlers of the API server yet       a bootstrap token: 403; passwords and certificates are known (pkg/daemons/control/server.go, Prepare)
no caches yet                           no bootstrap token is found: 401 (its authenticator uses a lister)
no core yet                             what needs a node password: 503 (pkg/nodepassword/validate.go)
the cache of Nodes is empty             a node's certificate: 401, nodes "NAME" not found (verifyNode)
an eleventh request at a time           429 with Retry-After: 1 (handlers/router.go, maxMutatingAgentRequests)
an address that is none                 500 (handlers/handlers.go, ServingKubeletCert)
a request that is not PKCS #10 in DER   a certificate for a key of the server, with that key (getCSR, signAndSend)
the dates of certificates               valid since the CA is (dynamiclistener, cert/cert.go)
"""

import base64
import hashlib
import ipaddress
import os
import re
import ssl
import time

from cryptography import x509

from . import apiserver, pki
from .apiserver import status
from .endpoint import Reply

# k3s looks at client certificates after TLS: one that has expired, or is of another CA, is answered with 401.
NO_CHECK_TIME = 0x200000        # X509_V_FLAG_NO_CHECK_TIME
AGENT_GROUPS = {"k3s:agent", "rke2:agent", "system:nodes", "system:bootstrappers"}
MOST_REQUESTS = 10
# The phases of a server's start, in their order.
ROUTER, HANDLERS, CACHES, CORE = "no router", "API server without handlers", "empty caches", "core not ready"
NODES, RUNNING = "no Nodes in the cache", "running"
PHASES = [ROUTER, HANDLERS, CACHES, CORE, NODES, RUNNING]


def hash_ca(cacerts, root=None):
    """The hash in a token: of the bytes of a single certificate, or of `root`, to which the first one chains."""
    return hashlib.sha256(cacerts if root is None else pki.der(root)).hexdigest()


def since(ca):
    """The certificates of this CA are valid as long as the CA itself."""
    return (pki.begin(ca.cert) - pki.now()).total_seconds()


def is_address(text):
    try:
        return bool(ipaddress.ip_address(text))
    except ValueError:
        return False


class K3s(apiserver.Cluster):
    def __init__(self, *, program="k3s", tokens=None, passwords=None, **options):
        super().__init__(ca=options.pop("ca", None) or pki.CA(f"{program}-server-ca@1700000000"), tokens=tokens, **options)
        self.program = program
        self.signer = pki.CA(f"{program}-client-ca@1700000000")
        self.passwords = passwords or {}        # user -> password: what stands after the hash in a server's own token
        self.cacerts = self.ca.pem              # as served, byte for byte
        self.members = set()                    # names of Nodes
        self.node_passwords = {}                # node -> salt and hash: the secrets NODE.node-password.k3s
        self.phase = RUNNING
        self.crowd = 0                          # requests of other agents that are being served
        self.signs = True                       # False: a server before v1.32.1, which answers with a key of its own
        self.others = []                        # CAs whose client certificates get through TLS, and are no good then
        self.old_signers = []                   # CAs of earlier times whose client certificates are still good
        self.certificate = lambda leaf: leaf + self.signer.pem      # what is made of the certificate that was issued
        self.serving_certificate = lambda leaf: leaf + self.ca.pem
        self.life = pki.YEAR                    # seconds until a certificate expires

    def k10(self, credentials, root=None):
        """The token in full."""
        return f"K10{hash_ca(self.cacerts, root)}::{credentials}"

    def lacks(self, phase):
        """Whether the server has not got beyond this phase yet."""
        return PHASES.index(self.phase) <= PHASES.index(phase)

    def authenticate(self, header):
        match = header and re.fullmatch(r"Basic ([A-Za-z0-9+/=]+)", header)
        if not match:
            return super().authenticate(header)
        user, _, password = base64.b64decode(match[1]).decode().partition(":")
        if self.passwords.get(user) != password:
            return None, None, []
        group = {"node": "agent"}.get(user, user)
        return user, None, [f"{self.program}:{group}", "system:authenticated"]

    def secrets(self):
        """What may appear only in its own header."""
        return [*super().secrets(), *self.passwords.values()]

    def check_node_password(self, node, password):
        """Stores the hash of the first one, as k3s does."""
        salt, known = self.node_passwords.setdefault(node, (salt := os.urandom(8), self._hash(password, salt)))
        return self._hash(password, salt) == known

    @staticmethod
    def _hash(password, salt):
        return hashlib.scrypt(password.encode(), salt=salt, n=1 << 4, r=8, p=1)

    def issue(self, csr, node):
        """Uses only the public key of the request."""
        return self.certificate(self._sign_client(csr.public_key(), pki.node_user(node), pki.NODES))

    def issue_proxy(self, csr):
        return self._sign_client(csr.public_key(), "system:kube-proxy") + self.signer.pem

    def issue_serving(self, csr, node, ips):
        names = [x509.DNSName(node), x509.DNSName("localhost"), *(x509.IPAddress(ipaddress.ip_address(ip)) for ip in ["127.0.0.1", *ips])]
        leaf = self.ca.client(csr.public_key(), node, (), start=since(self.ca), end=self.life, eku=(pki.SERVER_AUTH,), sans=names)
        return self.serving_certificate(pki.cert_pem(leaf))

    def _sign_client(self, key, user, *groups):
        return pki.cert_pem(self.signer.client(key, user, groups, start=since(self.signer), end=self.life))


class Supervisor(apiserver.ApiServer):
    """One endpoint; `is_apiserver` False for a port that serves no Kubernetes API, as RKE2's 9345."""

    def __init__(self, cluster, *arguments, is_apiserver=True, **options):
        super().__init__(cluster, *arguments, **options)
        self.is_apiserver = is_apiserver

    def verifiers(self):
        return [*super().verifiers(), *self.cluster.others]

    def _context(self):
        context = super()._context()
        context.verify_flags |= NO_CHECK_TIME
        return context

    def _inspect(self, request):
        super()._inspect(request)
        complain = self.cluster.violations.append
        where = f"{request.method} {request.path} on connection {request.connection.number}"
        password = request.headers.get(f"{self.cluster.program}-node-password")
        is_credential = "authorization" in request.headers or password is not None or request.connection.user is not None
        if is_credential and request.kind == "cacerts":
            complain(f"credential sent for /cacerts: {where}")
        if is_credential and any(r.kind == "cacerts" for r in request.connection.requests) and len(self.seen("cacerts")) < 2:
            complain(f"credential sent on the unverified connection: {where}")
        if password is not None and not self.cluster.vouches_for(self.identity):
            complain(f"node password sent to a server that the cluster does not vouch for: {where}")
        if request.connection.user is not None and "authorization" in request.headers:
            complain(f"token and client certificate sent together: {where}")
        if password and (request.kind not in ("client-kubelet", "serving-kubelet") or password in repr((request.target, request.body))):
            complain(f"node password sent where nobody asks for it: {where}")

    def healthy(self, request):
        if self.cluster.lacks(ROUTER):
            return status(503, "ServiceUnavailable", "starting")
        if request.path == "/cacerts":
            return Reply(200, self.cluster.cacerts, {"Content-Type": "text/plain"})
        if request.path == "/ping":
            return Reply(200, b"pong", {"Content-Type": "text/plain"})
        match = re.fullmatch(r"/v1-([a-z0-9]+)/(client-kubelet|serving-kubelet|client-kube-proxy)\.crt", request.path)
        if match:
            return self._certificate(request, *match.groups())
        match = re.fullmatch(r"/v1-([a-z0-9]+)/readyz", request.path)
        if match:
            return self._refuse_caller(request) or self._ready()
        if not self.is_apiserver:
            return Reply(404, b"404 page not found\n", {"Content-Type": "text/plain; charset=utf-8"})
        if any(group.startswith(f"{self.cluster.program}:") for group in request.groups):
            return apiserver.unauthorized()     # only the supervisor knows passwords
        if request.connection.peer is not None and self._groups(request) is None:
            return apiserver.unauthorized()
        if self.cluster.lacks(HANDLERS):
            return status(503, "ServiceUnavailable", "apiserver not ready")
        return super().healthy(request)

    def _node(self, request):
        name = request.path.rpartition("/")[2]
        return Reply(200, pki.compact(apiserver.node_object(name))) if name in self.cluster.members else super()._node(request)

    def _groups(self, request):
        """Those of the caller; None: 401."""
        peer = request.connection.peer
        if peer is not None:
            issuer = dict(item for rdn in peer["issuer"] for item in rdn)["commonName"]
            signers = [pki.subject(ca.cert)[1][0] for ca in (self.cluster.signer, *self.cluster.old_signers)]
            is_good = issuer in signers and ssl.cert_time_to_seconds(peer["notAfter"]) > time.time()
            return ["system:nodes"] if is_good else None
        return None if request.user is None else request.groups

    def _refuse_caller(self, request):
        cluster, groups = self.cluster, self._groups(request)
        is_token = request.token_id is not None
        if is_token and cluster.lacks(HANDLERS):
            return status(403, "Forbidden", "forbidden")
        if is_token and cluster.lacks(CACHES) or groups is None:
            return status(401, "Unauthorized", "not authorized")
        if not AGENT_GROUPS & set(groups):
            return status(403, "Forbidden", "forbidden")
        if request.method == "POST" and cluster.crowd >= MOST_REQUESTS:
            return Reply(429, b"Too many requests, please try again later.\n", {"Content-Type": "text/plain; charset=utf-8", "Retry-After": "1"})
        return None

    def _ready(self):
        return status(503, "ServiceUnavailable", "runtime core not ready") if self.cluster.lacks(CORE) else Reply(200, b"ok", {"Content-Type": "text/plain"})

    def _certificate(self, request, program, name):
        cluster = self.cluster
        refusal = self._refuse_caller(request)
        if refusal:
            return refusal
        node = request.headers.get(f"{program}-node-name", "").lower()
        refusal = name != "client-kube-proxy" and self._refuse_node(request, program, node)
        if refusal:
            return refusal
        try:
            csr = x509.load_der_x509_csr(request.body if request.method == "POST" else b"")
        except ValueError:
            cluster.violations.append(f"a request without a CSR in DER: {request.method} {request.path}")
            csr = None
        if csr is None or not cluster.signs:    # a key that all nodes share
            return Reply(200, cluster.signer.node(node).combined)
        ips = request.headers.get(f"{program}-node-ip")
        if name == "serving-kubelet" and ips and not all(map(is_address, ips.split(","))):
            return status(500, "InternalError", "Internal error occurred: invalid node IP address <nil>")
        pem = {"client-kube-proxy": lambda: cluster.issue_proxy(csr), "client-kubelet": lambda: cluster.issue(csr, node),
               "serving-kubelet": lambda: cluster.issue_serving(csr, node, ips.split(",") if ips else [])}[name]()
        return Reply(200, pem, {"Content-Type": None})

    def _refuse_node(self, request, program, node):
        cluster, password = self.cluster, request.headers.get(f"{program}-node-password", "")
        if not node or not password:
            return status(400, "BadRequest", f"node {'password' if node else 'name'} not set")
        if request.connection.user is not None and request.connection.user != pki.node_user(node):
            return status(400, "BadRequest", "header node name does not match auth node name")
        if cluster.lacks(CORE):
            return status(503, "ServiceUnavailable", "runtime core not ready")
        if request.connection.user is not None and (cluster.lacks(NODES) or node not in cluster.members):
            return status(401, "Unauthorized", f'unable to verify node identity: nodes "{node}" not found')
        if not cluster.check_node_password(node, password):
            return status(403, "Forbidden", f"unable to verify hash for node '{node}': hash does not match")
        return None
