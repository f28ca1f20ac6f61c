#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A scripted HTTPS API server: what a joining machine sees of a Kubernetes control plane.

`Cluster` is the state (CA, tokens, cluster-info, requests, who approves them), `ApiServer` one
endpoint of it. Healthy by default; tests change the cluster's attributes, or put an action in
front of the healthy answer with `server.on(kind, action, times=…)` (see faults.py). Everything that
arrives is recorded: `server.connections`, `server.requests`; whatever a machine must never do is in
`cluster.violations`.

As a program it is a small control plane for demonstrations: it writes what a machine needs to know
into a folder and logs the requests.
"""

import argparse
import datetime
import email.utils
import itertools
import json
import os
import pathlib
import re
import secrets
import socket
import ssl
import sys
import tempfile
import threading
import time
import urllib.parse
from dataclasses import dataclass, field

import csrs
import pki

CLUSTER_INFO = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
NODES = "/api/v1/nodes"
CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
OTHERS = {"/cacerts": "cacerts", "/v1-k3s/client-kubelet.crt": "client-kubelet", "/v1-rke2/client-kubelet.crt": "client-kubelet"}
MAX_REQUEST = 1 << 20


class Hangup(Exception):
    """Raised by an action or a reply: the connection is closed as it is."""


class BadRequest(Exception):
    pass


# Requests and replies.

@dataclass
class Request:
    method: str
    target: str
    headers: dict
    body: bytes
    connection: "Connection"
    when: float
    user: str = None
    token_id: str = None
    status: int = None

    def __post_init__(self):
        url = urllib.parse.urlsplit(self.target)
        prefix = self.connection.server.prefix
        self.path, self.query = url.path, dict(urllib.parse.parse_qsl(url.query))
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

    def json(self):
        return json.loads(self.body)


@dataclass
class Reply:
    status: int = 200
    body: bytes = b""
    headers: dict = field(default_factory=dict)
    keep: bool = True

    def head(self, date, **extra):
        headers = {"Audit-Id": "00000000-0000-4000-8000-000000000000", "Cache-Control": "no-cache, private",
                   "Content-Type": "application/json", "Date": date, **extra, **self.headers}
        reason = {200: "OK", 201: "Created"}.get(self.status, "Status")
        lines = [f"HTTP/1.1 {self.status} {reason}", *(f"{k}: {v}" for k, v in headers.items() if v is not None)]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    def send(self, connection):
        connection.send(self.head(connection.server.date(), **{"Content-Length": len(self.body)}) + self.body)


@dataclass
class Stream(Reply):
    """A chunked answer; `parts` may raise Hangup to be cut there."""
    parts: object = ()

    def send(self, connection):
        connection.send(self.head(connection.server.date(), **{"Transfer-Encoding": "chunked"}))
        for part in self.parts:
            connection.send(b"%x\r\n%s\r\n" % (len(part), part))
        connection.send(b"0\r\n\r\n")


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
    may: tuple = ("create", "get", "list", "watch")
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
        """What may stand in the Authorization header alone."""
        return [*(token.secret for token in self.tokens.values()), *self.bearers]

    def vouches_for(self, identity):
        """Whether a machine may trust this serving certificate."""
        leaf = identity.certs[0]
        try:
            self.ca.cert.public_key().verify(leaf.signature, leaf.tbs_certificate_bytes, pki.ec.ECDSA(leaf.signature_hash_algorithm))
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

class Connection:
    def __init__(self, server, sock, number):
        self.server, self.sock, self.number = server, sock, number
        self.requests, self.tls, self.error, self.user, self.peer = [], False, None, None, None
        self._buffer = b""

    def handshake(self, context):
        self.sock = context.wrap_socket(self.sock, server_side=True)
        self.tls = True
        self.peer = self.sock.getpeercert() or None
        if self.peer:
            self.user = dict(item for rdn in self.peer["subject"] for item in rdn)["commonName"]

    def send(self, data):
        self.sock.sendall(data)

    def _more(self):
        data = self.sock.recv(65536)
        if not data:
            raise EOFError
        self._buffer += data
        if len(self._buffer) > MAX_REQUEST:
            raise BadRequest("request too large")

    def read_request(self):
        while b"\r\n\r\n" not in self._buffer:
            self._more()
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        try:
            method, target, _ = first.split(" ")
            headers = {k.lower(): v.strip() for k, v in (line.split(":", 1) for line in lines)}
            length = int(headers.get("content-length", 0))
        except ValueError as error:
            raise BadRequest(first) from error
        while len(self._buffer) < length:
            self._more()
        body, self._buffer = self._buffer[:length], self._buffer[length:]
        return Request(method, target, headers, body, self, time.monotonic())


class ApiServer:
    """One HTTPS endpoint of a cluster; a context manager."""

    def __init__(self, cluster, listen=("127.0.0.1", 0), *, identity=None, advertise=None, log=None):
        self.cluster, self.log = cluster, log
        self._advertise, self._identity = advertise, identity or cluster.ca.serving()
        self._rules = []
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._open = set()
        self.connections, self.requests = [], []
        self.on_connect = None          # callable(connection), before TLS; may raise Hangup
        self.clock_offset = 0           # of the Date header
        self.prefix = ""                # of every path, as behind Rancher: /k8s/clusters/c-1
        self.tls_options = lambda context: None
        family = socket.AF_INET6 if ":" in listen[0] else socket.AF_INET
        self._listener = socket.socket(family)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind(listen)
        self.host, self.port = listen[0], self._listener.getsockname()[1]
        self._thread = None

    @property
    def endpoint(self):
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

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

    def date(self):
        return email.utils.formatdate(time.time() + self.clock_offset, usegmt=True)

    def start(self):
        self._listener.listen(64)
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()
        return self

    def stop(self):
        self.cluster.stop()
        self.close()

    def close(self):
        """Closes this endpoint with all its connections; the cluster lives on."""
        try:
            self._listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._listener.close()
        with self._lock:
            left = list(self._open)
        for connection in left:
            try:
                connection.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        if self._thread:
            self._thread.join(10)

    __enter__ = start

    def __exit__(self, *_):
        self.stop()

    # What tests script and look at.

    def on(self, kind, action, *, times=None, skip=0):
        """The next `times` requests of this kind (or `any`) after `skip` are answered by action(request) -> Reply;
        an action that returns None leaves the healthy answer. Rules made later go first."""
        self._rules.insert(0, [kind, action, times, skip])

    def seen(self, kind):
        return [request for request in self.requests if request.kind == kind]

    @property
    def kinds(self):
        """Without the question whether the node name is taken: see test_node.py."""
        return [request.kind for request in self.requests if request.kind != "node"]

    # Connections.

    def _accept(self):
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            connection = Connection(self, sock, next(self._numbers))
            with self._lock:
                self._open.add(connection)
                self.connections.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _context(self):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.NamedTemporaryFile() as pem:
            pem.write(self._identity.combined)
            pem.flush()
            context.load_cert_chain(pem.name)
        context.load_verify_locations(cadata=self.cluster.signer.pem.decode())
        context.verify_mode = ssl.CERT_OPTIONAL
        context.set_alpn_protocols(["http/1.1"])
        self.tls_options(context)
        return context

    def _serve(self, connection):
        try:
            connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.on_connect:
                self.on_connect(connection)
            connection.handshake(self._context())
            while not self.cluster.stopping.is_set():
                request = connection.read_request()
                reply = self._answer(request)
                request.status = reply.status
                if self.log:
                    self.log(request)
                reply.send(connection)
                if not reply.keep or request.headers.get("connection", "").lower() == "close":
                    break
        except (Hangup, EOFError):
            pass
        except BadRequest as error:
            self.cluster.violations.append(f"malformed request: {error}")
        except (OSError, ValueError) as error:
            connection.error = error
        finally:
            try:
                connection.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            connection.sock.close()
            with self._lock:
                self._open.discard(connection)

    def _answer(self, request):
        request.user, request.token_id, groups = self.cluster.authenticate(request.headers.get("authorization"))
        if request.user == "system:anonymous" and request.connection.user:
            request.user = request.connection.user
            groups = [*self.cluster.requesters.get(request.user, ()), "system:authenticated"]
        self._inspect(request)
        with self._lock:
            request.connection.requests.append(request)
            self.requests.append(request)
            action = self._rule(request.kind)
        if "authorization" in request.headers:
            request.headers["authorization"] = "Bearer …"
        request.groups = groups
        return (action and action(request)) or self.healthy(request)

    def _rule(self, kind):
        for rule in self._rules:
            if rule[0] not in (kind, "any"):
                continue
            if rule[3] > 0:
                rule[3] -= 1
            elif rule[2] is None or rule[2] > 0:
                rule[2] = None if rule[2] is None else rule[2] - 1
                return rule[1]
        return None

    def _inspect(self, request):
        """Records what no machine may ever do with its token."""
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
            return Reply(200, pki.compact({"major": "1", "minor": "34", "gitVersion": "v1.34.0"}))
        if request.kind == "cluster-info" and request.method == "GET":
            return Reply(200, pki.compact(self.cluster.cluster_info(self.url)))
        if request.user is None:
            return unauthorized()
        if request.kind == "node" and request.method == "GET":
            return self._node(request)
        token = self.cluster.tokens.get(request.token_id)
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
