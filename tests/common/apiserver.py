# SPDX-License-Identifier: Apache-2.0
"""A scripted HTTPS API server: what a joining machine sees of a Kubernetes control plane.

`Cluster` is the state (CA, tokens, cluster-info, requests, who approves them), `ApiServer` one
endpoint of it. Healthy by default; tests change the cluster's attributes, or put an action in
front of the healthy answer with `server.on(kind, action, times=…)` (see faults.py). Everything that
arrives is recorded: `server.connections`, `server.requests`; whatever a machine must never do is in
`cluster.violations`.

As a program (`python3 -m common.apiserver`) it is a small control plane for demonstrations: it writes what a machine needs to know
into a folder and logs the requests.
"""

import argparse
import datetime
import json
import os
import pathlib
import re
import secrets
import ssl
import sys
import tempfile
import threading
import time
import urllib.parse
from dataclasses import dataclass

from . import csrs, endpoint, pki
from .endpoint import Reply, Stream

CLUSTER_INFO = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
NODES = "/api/v1/nodes"
CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
OTHERS = {REVIEWS: "review", "/version": "version", "/cacerts": "cacerts",
          **{f"/v1-{program}/{name}.crt": name for program in ("k3s", "rke2") for name in ("client-kubelet", "client-kube-proxy", "serving-kubelet")}}


# Requests and replies.

class Request(endpoint.Request):
    def __post_init__(self):
        super().__post_init__()
        prefix = self.connection.server.prefix
        self.path = self.path[len(prefix):] if self.path.startswith(prefix + "/") else "/outside" + self.path

    @property
    def kind(self):
        """What tests select by: cluster-info, create, get, list, watch, node, what OTHERS says, or other."""
        if self.path == CLUSTER_INFO:
            return "cluster-info"
        if self.path == CSRS:
            if self.method == "POST":
                return "create"
            return "watch" if self.query.get("watch") in ("true", "1") else "list"
        if self.path.startswith(NODES + "/"):
            return "node"
        return "get" if self.path.startswith(CSRS + "/") else OTHERS.get(self.path, "other")

    @property
    def name(self):
        if self.kind == "get":
            return urllib.parse.unquote(self.path[len(CSRS) + 1:])
        selected = re.fullmatch(r"metadata\.name=(.+)", self.query.get("fieldSelector", ""))
        return selected and selected[1]


def status(code, reason, message, *, headers=None, **details):
    """A Status object, as every error of the API server is."""
    body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
            "reason": reason, **({"details": details} if details else {}), "code": code}
    return Reply(code, pki.compact(body), headers or {})


def csr_status(code, reason, message, name=""):
    return status(code, reason, message, group="certificates.k8s.io", kind="certificatesigningrequests",
                  **({"name": name} if name else {}))


def unauthorized():
    return status(401, "Unauthorized", "Unauthorized")


def forbidden(user, verb):
    return csr_status(403, "Forbidden", f'certificatesigningrequests.certificates.k8s.io is forbidden: User "{user}" cannot {verb} '
                      'resource "certificatesigningrequests" in API group "certificates.k8s.io" at the cluster scope')


# The cluster.

@dataclass
class Token:
    secret: str
    signs: bool = True                  # usage-bootstrap-signing
    groups: tuple = ("system:bootstrappers", "system:bootstrappers:kubeadm:default-node-token")
    may: tuple = ("create", "get", "list", "watch", "nodeclient")
    valid: bool = True                  # False: deleted or expired


class Cluster:
    def __init__(self, *, ca=None, tokens=None, controller=None):
        self.ca = ca or pki.CA()
        self.signer = self.ca           # signs client certificates; need not be the serving CA
        self.tokens = tokens or {}      # id -> Token
        self.bearers = {}               # other bearer tokens -> user: service accounts
        self.requesters = {}            # user -> groups: who may ask for certificates without a bootstrap token
        self.controller = controller or csrs.approve()
        self.stopping = threading.Event()
        self.csrs = csrs.Requests(self.stopping)
        self.nodes = {}                 # name -> Node
        self.version = "v1.34.0"
        self.violations = []
        self.hostile = False            # no machine may ever trust an endpoint of this cluster
        self.bundle = [self.ca.pem]     # certificate-authority-data
        self.server = None              # server: in cluster-info; by default the endpoint's own URL
        self.kubeconfig = None          # the whole text instead, or a callable(endpoint URL)
        self.edit_info = lambda info: info      # last change to the ConfigMap, after signing

    def kubeconfig_text(self, url):
        if self.kubeconfig is not None:
            return self.kubeconfig(url) if callable(self.kubeconfig) else self.kubeconfig
        return kubeconfig(self.server or url, b"".join(self.bundle))

    def cluster_info(self, url):
        text = self.kubeconfig_text(url)
        data = {"kubeconfig": text}
        data.update({f"jws-kubeconfig-{key}": pki.jws(text, key, token.secret)
                     for key, token in self.tokens.items() if token.signs and token.valid})
        return self.edit_info({"kind": "ConfigMap", "apiVersion": "v1",
                               "metadata": {"name": "cluster-info", "namespace": "kube-public", "resourceVersion": "231"},
                               "data": data})

    def authenticate(self, header):
        """(user, token id, groups); user None: 401."""
        if header is None:
            return "system:anonymous", None, []
        if header.removeprefix("Bearer ") in self.bearers:
            user = self.bearers[header.removeprefix("Bearer ")]
            return user, None, [*self.requesters.get(user, ()), "system:authenticated"]
        match = re.fullmatch(r"Bearer ([a-z0-9]{6})\.([a-z0-9]{16})", header)
        token = match and self.tokens.get(match[1])
        if not token or not token.valid or token.secret != match[2]:
            return None, match and match[1], []
        return f"system:bootstrap:{match[1]}", match[1], [*token.groups, "system:authenticated"]

    def secrets(self):
        """What may appear only in the Authorization header."""
        return [*(token.secret for token in self.tokens.values()), *self.bearers]

    def vouches_for(self, identity):
        """Whether a machine can trust this serving certificate."""
        try:
            for cert, issuer in zip(identity.certs, [*identity.certs[1:], self.ca.cert]):
                pki.verify(cert, issuer)
                if issuer == self.ca.cert:
                    break
        except pki.InvalidSignature:
            return False
        return not self.hostile

    def stop(self):
        self.stopping.set()
        self.csrs.wake()


def kubeconfig(server, ca_pem, *, names=("",), extra_cluster="", tail="contexts: null\ncurrent-context: \"\"\nkind: Config\npreferences: {}\nusers: null\n"):
    """What kubeadm puts in cluster-info; ca_pem None leaves the CA out."""
    ca = "" if ca_pem is None else f"    certificate-authority-data: {pki.base64.b64encode(ca_pem).decode()}\n"
    clusters = "".join(f"- cluster:\n{ca}    server: {server}\n{extra_cluster}  name: {json.dumps(name)}\n" for name in names)
    return f"apiVersion: v1\nclusters:\n{clusters or '  []' + chr(10)}{tail}"


# One endpoint.

class ApiServer(endpoint.Endpoint):
    """One HTTPS endpoint of a cluster; a context manager."""

    request_type = Request

    def __init__(self, cluster, listen=("127.0.0.1", 0), *, identity=None, advertise=None, log=None):
        super().__init__(listen, log=log)
        self.cluster = cluster
        self.stopping, self.violations = cluster.stopping, cluster.violations
        self._advertise, self._identity = advertise, identity or cluster.ca.serving()
        self.prefix = ""                # of every path, as behind Rancher: /k8s/clusters/c-1
        self.tls_options = lambda context: None
        self._made = None, None         # what the last context was made for, and that context

    @property
    def url(self):
        return self._advertise or f"https://{self.endpoint}{self.prefix}"

    @property
    def identity(self):
        return self._identity

    @identity.setter
    def identity(self, value):
        """From the next connection on."""
        self._identity = value

    def become(self, cluster):
        """Forgets what was scripted: from the next connection on a healthy endpoint of this cluster."""
        with self._lock:
            self._rules.clear()
        self.on_connect, self.tls_options, self.prefix = None, lambda context: None, ""
        self.cluster, self.stopping, self.violations = cluster, cluster.stopping, cluster.violations
        self._identity = cluster.ca.serving()

    def stop(self):
        self.cluster.stop()
        self.close()

    @property
    def kinds(self):
        """Without the requests for the Node object: see test_node_name_taken.py."""
        return [request.kind for request in self.requests if request.kind != "node"]

    def secure(self, connection):
        wanted = self._identity, self.verifiers(), self.tls_options
        made_for, context = self._made
        if made_for != wanted:
            context = self._context()
            self._made = wanted, context
        connection.handshake(context)

    def verifiers(self):
        """The CAs whose client certificates are accepted."""
        return [self.cluster.signer]

    def _context(self):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.NamedTemporaryFile() as pem:
            pem.write(self._identity.combined)
            pem.flush()
            context.load_cert_chain(pem.name)
        context.load_verify_locations(cadata="".join(ca.pem.decode() for ca in self.verifiers()))
        context.verify_mode = ssl.CERT_OPTIONAL
        context.set_alpn_protocols(["http/1.1"])
        context.sni_callback = endpoint.note_server_name
        self.tls_options(context)
        return context

    def answer(self, request):
        request.user, request.token_id, groups = self.cluster.authenticate(request.headers.get("authorization"))
        if request.user == "system:anonymous" and request.connection.user:
            request.user = request.connection.user
            groups = [*self.cluster.requesters.get(request.user, ()), "system:authenticated"]
        self._inspect(request)
        self.record(request)
        action = self.rule(request.kind)
        if "authorization" in request.headers:
            request.headers["authorization"] = "Bearer …"
        request.groups = groups
        return (action and action(request)) or self.healthy(request)

    def _inspect(self, request):
        """Records misuse of the token as a violation."""
        complain = self.cluster.violations.append
        where = f"{request.method} {request.path} on connection {request.connection.number}"
        header = request.headers.get("authorization")
        if header is not None and request.kind == "cluster-info":
            complain(f"credential sent for cluster-info: {where}")
        if header is not None and any(r.kind == "cluster-info" for r in request.connection.requests) and len(self.seen("cluster-info")) < 2:
            complain(f"credential sent on the unverified connection: {where}")
        if header is not None and not self.cluster.vouches_for(self.identity):
            complain(f"credential sent to a server that the cluster does not vouch for: {where}")
        rest = repr((request.target, request.body, {k: v for k, v in request.headers.items() if k != "authorization"}))
        if any(secret in rest for secret in self.cluster.secrets()):
            complain(f"the token's secret outside of the Authorization header: {where}")
        if "PRIVATE KEY" in rest:
            complain(f"a private key was sent: {where}")

    # Healthy answers.

    def healthy(self, request):
        if request.path in ("/healthz", "/readyz", "/livez"):
            return Reply(200, b"ok", {"Content-Type": "text/plain; charset=utf-8"})
        if request.path == "/version":
            return Reply(200, pki.compact({"major": "1", "minor": "34", "gitVersion": self.cluster.version}))
        if request.kind == "cluster-info" and request.method == "GET":
            return Reply(200, pki.compact(self.cluster.cluster_info(self.url)))
        if request.user is None:
            return unauthorized()
        if request.kind == "node" and request.method == "GET":
            return self._node(request)
        token = self.cluster.tokens.get(request.token_id)
        if request.kind == "review" and request.method == "POST":
            return self._review(request, token)
        if request.kind in ("create", "get", "list", "watch"):
            if request.user not in self.cluster.requesters and (token is None or request.kind not in token.may):
                return forbidden(request.user, request.kind)
            return getattr(self, "_" + request.kind)(request)
        return status(404, "NotFound", "the server could not find the requested resource")

    def _create(self, request):
        try:
            made = self.cluster.csrs.create(request.json(), request.user, request.groups)
        except csrs.Exists as error:
            return csr_status(409, "AlreadyExists", f'certificatesigningrequests.certificates.k8s.io "{error}" already exists', str(error))
        except (csrs.Invalid, KeyError, TypeError, ValueError) as error:
            return csr_status(422, "Invalid", f'CertificateSigningRequest.certificates.k8s.io "" is invalid: {error}')
        threading.Thread(target=self.cluster.controller, args=(self.cluster, made["metadata"]["name"]), daemon=True).start()
        return Reply(201, pki.compact(made))

    def _review(self, request, token):
        """A SelfSubjectAccessReview; only two rights are ever requested."""
        review = request.json()
        right = "nodeclient" if "subresource" in review["spec"]["resourceAttributes"] else "create"
        asked = {"verb": "create", "group": "certificates.k8s.io", "resource": "certificatesigningrequests",
                 **({"subresource": right} if right == "nodeclient" else {})}
        if review != {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": asked}}:
            self.cluster.violations.append(f"an unexpected access review: {review}")
        allowed = bool(token and right in token.may) or (right == "create" and request.user in self.cluster.requesters)
        return Reply(201, pki.compact({**review, "metadata": {}, "status": {"allowed": allowed}}))

    def _node(self, request):
        name = urllib.parse.unquote(request.path[len(NODES) + 1:])
        if request.user == "system:anonymous":
            return status(403, "Forbidden", f'nodes "{name}" is forbidden: User "system:anonymous" cannot get resource "nodes"')
        if name not in self.cluster.nodes:
            return status(404, "NotFound", f'nodes "{name}" not found', kind="nodes", name=name)
        return Reply(200, pki.compact(self.cluster.nodes[name]))

    def _get(self, request):
        obj = self.cluster.csrs.get(request.name)
        if obj is None:
            return csr_status(404, "NotFound", f'certificatesigningrequests.certificates.k8s.io "{request.name}" not found', request.name)
        return Reply(200, pki.compact(obj))

    def _list(self, request):
        return Reply(200, pki.compact({"kind": "CertificateSigningRequestList", "apiVersion": "certificates.k8s.io/v1",
                                       "metadata": {"resourceVersion": str(self.cluster.csrs.version)},
                                       "items": self.cluster.csrs.all(request.name)}))

    def _watch(self, request):
        return Stream(parts=self.lines(request))

    def lines(self, request, **options):
        """The healthy events of a watch, one line each."""
        query = request.query
        events = self.cluster.csrs.events(int(query.get("resourceVersion") or 0), request.name,
                                          int(query.get("timeoutSeconds") or 1800), query.get("allowWatchBookmarks") in ("true", "1"), **options)
        try:
            for event in events:
                yield pki.compact(event)
        except csrs.Gone:
            yield pki.compact(expired_event(query.get("resourceVersion"), self.cluster.csrs.oldest))


def expired_event(asked, oldest):
    obj = json.loads(status(410, "Expired", f"too old resource version: {asked} ({oldest})").body)
    return {"type": "ERROR", "object": obj}


# The program.

def node_object(name="node-1", ready="True", address="192.0.2.77", **changes):
    conditions = [{"type": "MemoryPressure", "status": "False"}]
    if ready is not None:
        conditions.append({"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-02T03:04:05Z"})
    info = {"kubeletVersion": "v1.36.3", "osImage": "Debian GNU/Linux 13 (trixie)", "systemUUID": "0c5f0d6e-5a0b-4c5e-9d53-5d3a1a7e0001"}
    return {"kind": "Node", "apiVersion": "v1", "metadata": {"name": name},
            "status": {"conditions": conditions, "nodeInfo": info, "addresses": [{"type": "Hostname", "address": name}, {"type": "InternalIP", "address": address}]}, **changes}


def new_token():
    letters = "abcdefghijklmnopqrstuvwxyz0123456789"
    return "".join(secrets.choice(letters) for _ in range(6)) + "." + "".join(secrets.choice(letters) for _ in range(16))


def write(path, data, mode=0o644):
    temporary = path.with_name("." + path.name)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "w") as file:
        file.write(data)
    temporary.rename(path)


def arguments():
    parser = argparse.ArgumentParser(description="A small Kubernetes API server for demonstrations: cluster-info and certificate "
                                     "signing requests, with a CA and a bootstrap token of its own. It writes ca.crt, pin, token, "
                                     "endpoint and port into a folder, port last, and logs each request on standard output.")
    parser.add_argument("--directory", type=pathlib.Path, required=True, help="where to write the files")
    parser.add_argument("--listen", default="127.0.0.1:0", metavar="HOST:PORT", help="default 127.0.0.1 and any free port")
    parser.add_argument("--advertise", metavar="HOST", help="name or address by which machines reach it, default that of --listen")
    parser.add_argument("--token", help="a bootstrap token of your own (it is then visible in the list of processes)")
    parser.add_argument("--approve", default="10", metavar="MS|never", help="milliseconds until a request is approved, or never; default 10")
    return parser.parse_args()


def main():
    options = arguments()
    host, _, port = options.listen.rpartition(":")
    host = host.strip("[]")
    reached = (options.advertise or host).strip("[]")
    token = options.token or new_token()
    token_id, _, secret = token.partition(".")
    controller = csrs.never if options.approve == "never" else csrs.approve(after=int(options.approve) / 1000)
    cluster = Cluster(tokens={token_id: Token(secret)}, controller=controller)
    names = dict.fromkeys([reached, host, "127.0.0.1", "::1", "localhost", "kubernetes"])

    def log(request):
        clock = datetime.datetime.now().strftime("%H:%M:%S.%f")[:-3]
        print(f"{clock} connection {request.connection.number} {request.status} {request.user or '-'} {request.method} {request.target}", flush=True)

    identity = cluster.ca.serving(names)
    server = ApiServer(cluster, (host, int(port)), identity=identity, log=log)
    server.host = reached
    options.directory.mkdir(parents=True, exist_ok=True)
    with server:
        write(options.directory / "ca.crt", cluster.ca.pem.decode())
        write(options.directory / "pin", cluster.ca.pin + "\n")
        write(options.directory / "token", token + "\n", 0o600)
        write(options.directory / "endpoint", server.endpoint + "\n")
        write(options.directory / "port", f"{server.port}\n")
        print(f"listening on {server.endpoint}, pin {cluster.ca.pin}", flush=True)
        try:
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
