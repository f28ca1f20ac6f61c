# SPDX-License-Identifier: Apache-2.0
"""A scripted HTTP server: what apiserver.py and metadata.py have in common.

`Endpoint` answers as its subclass does in `healthy(request)`, unless a test has put an action in front of it with
`on(kind, action, times=…)` (see faults.py). Everything that arrives is recorded: `connections`, `requests`.
"""

import email.utils
import itertools
import json
import socket
import threading
import time
import urllib.parse
from dataclasses import dataclass, field

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
        self.path, self.query = url.path, dict(urllib.parse.parse_qsl(url.query))

    @property
    def kind(self):
        """What tests select by."""
        return self.path

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


class Connection:
    def __init__(self, server, sock, number):
        self.server, self.sock, self.number = server, sock, number
        self.requests, self.tls, self.error, self.user, self.peer = [], False, None, None, None
        self.received, self.server_name = b"", None     # all that was decrypted; what TLS began with
        self._buffer = b""

    def handshake(self, context):
        self.sock = context.wrap_socket(self.sock, server_side=True, do_handshake_on_connect=False)
        self.sock.connection = self
        self.sock.do_handshake()
        self.tls = True
        try:
            self.peer = self.sock.getpeercert() or None
        except AttributeError:              # the server has stopped, and closed it meanwhile
            raise Hangup from None
        if self.peer:
            self.user = dict(item for rdn in self.peer["subject"] for item in rdn)["commonName"]

    def send(self, data):
        self.sock.sendall(data)

    def _more(self):
        data = self.sock.recv(65536)
        if not data:
            raise EOFError
        self._buffer += data
        self.received += data
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
        return self.server.request_type(method, target, headers, body, self, time.monotonic())


def note_server_name(sock, name, _):
    """For SSLContext.sni_callback: a context is shared by connections."""
    sock.connection.server_name = name


class Endpoint:
    """Listens at one address from when it is made, and serves from start() on; a context manager."""

    request_type = Request

    def __init__(self, listen, *, log=None):
        self.log = log
        self.violations = []
        self.stopping = threading.Event()
        self._rules = []
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._open = set()
        self.connections, self.requests = [], []
        self.on_connect = None          # callable(connection), before TLS; may raise Hangup
        self.clock_offset = 0           # of the Date header
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

    def date(self):
        return email.utils.formatdate(time.time() + self.clock_offset, usegmt=True)

    def start(self):
        self._listener.listen(64)
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()
        return self

    def stop(self):
        self.stopping.set()
        self.close()

    def close(self):
        """Closes this endpoint with all its connections; the cluster keeps running."""
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
        an action that returns None leaves the healthy answer. Later rules take precedence."""
        self._rules.insert(0, [kind, action, times, skip])

    def seen(self, kind):
        return [request for request in self.requests if request.kind == kind]

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

    def secure(self, connection):
        """TLS, where the server has it."""

    def _serve(self, connection):
        try:
            connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.on_connect:
                self.on_connect(connection)
            self.secure(connection)
            while not self.stopping.is_set():
                request = connection.read_request()
                reply = self.answer(request)
                request.status = reply.status
                if self.log:
                    self.log(request)
                reply.send(connection)
                if not reply.keep or request.headers.get("connection", "").lower() == "close":
                    break
        except (Hangup, EOFError):
            pass
        except BadRequest as error:
            self.violations.append(f"malformed request: {error}")
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

    def answer(self, request):
        self.record(request)
        action = self.rule(request.kind)
        return (action and action(request)) or self.healthy(request)

    def healthy(self, request):
        raise NotImplementedError

    def record(self, request):
        with self._lock:
            request.connection.requests.append(request)
            self.requests.append(request)

    def rule(self, kind):
        with self._lock:
            return self._rule(kind)

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
