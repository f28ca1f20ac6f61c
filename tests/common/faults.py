# SPDX-License-Identifier: Apache-2.0
"""Faults of a server: actions for `ApiServer.on()` and for `ApiServer.on_connect`.

An action takes the request and returns a Reply, or None for the healthy one. Functions that take
arguments return an action.
"""

import json
import socket
import ssl
import threading

from . import apiserver, pki
from .apiserver import status
from .endpoint import Hangup, Reply, Stream

# Before TLS (on_connect).


def stall_before_tls(connection):
    connection.server.stopping.wait()
    raise Hangup


def reset(connection):
    connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    connection.sock.close()
    raise Hangup


def hang_up(connection):
    raise Hangup


def plain_http(connection):
    """Another service on the port, which speaks HTTP without TLS."""
    connection.sock.recv(4096)
    connection.sock.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n")
    raise Hangup


def garbage_before_tls(connection):
    connection.sock.recv(4096)
    connection.sock.sendall(b"\0\1\2\3SSH-2.0-OpenSSH_9.2\r\n" * 10)
    raise Hangup


def flaky(n, action):
    """Applies to the first n connections."""
    def on_connect(connection):
        if connection.number <= n:
            action(connection)
    return on_connect


# TLS (tls_options).

def old_tls(context):
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")


# Whole answers.

def answer(body, code=200, **headers):
    body = body if isinstance(body, bytes) else body.encode()
    headers = {key.replace("_", "-"): value for key, value in headers.items()}
    return lambda request: Reply(code, body, headers)


def error(code, reason, message, **headers):
    headers = {key.replace("_", "-"): value for key, value in headers.items()}
    return lambda request: status(code, reason, message, headers=headers)


def unauthorized(request):
    return apiserver.unauthorized()


def forbidden(request):
    return apiserver.forbidden(request.user or "system:anonymous", request.kind)


def forbidden_to(user):
    return lambda request: apiserver.forbidden(user, request.kind)


TOO_MANY = error(429, "TooManyRequests", "Too many requests, please try again later.", Retry_After="1")
UNAVAILABLE = error(503, "ServiceUnavailable", "apiserver not ready")
INTERNAL = error(500, "InternalError", "Internal error occurred: etcdserver: request timed out")
BAD_GATEWAY = answer("<html><body><h1>502 Bad Gateway</h1></body></html>", 502, Content_Type="text/html")
PORTAL = answer("<!DOCTYPE html><html><title>Guest Wi-Fi</title></html>", Content_Type="text/html")


def redirect(location):
    return answer("", 302, Location=location)


def edited(edit):
    """The healthy answer with its JSON changed by edit(object), which changes it in place or returns another."""
    def action(request):
        reply = request.connection.server.healthy(request)
        obj = json.loads(reply.body)
        changed = edit(obj)
        reply.body = pki.compact(obj if changed is None else changed)
        return reply
    return action


def rewritten(edit):
    """The healthy answer with its bytes changed."""
    def action(request):
        reply = request.connection.server.healthy(request)
        reply.body = edit(reply.body)
        return reply
    return action


def with_headers(**headers):
    def action(request):
        reply = request.connection.server.healthy(request)
        reply.headers.update({key.replace("_", "-"): value for key, value in headers.items()})
        return reply
    return action


def in_turn(*actions):
    """One action after the other; the last one repeats."""
    left = list(actions)
    return lambda request: (left.pop(0) if len(left) > 1 else left[0])(request)


def healthy(request):
    return None


# Answers that stop or do not end.

def stall(request):
    """Accepts the request and does not answer."""
    request.connection.server.stopping.wait()
    raise Hangup


def hang_up_instead(request):
    raise Hangup


class _Stalled(Reply):
    def send(self, connection):
        connection.send(self.head(connection.server.date(), **{"Content-Length": 4096}) + b'{"kind":')
        connection.server.stopping.wait()
        raise Hangup


def stall_after_headers(request):
    return _Stalled()


class _Cut(Reply):
    def send(self, connection):
        connection.send(self.head(connection.server.date(), **{"Content-Length": len(self.body)}) + self.body[:len(self.body) // 2])
        raise Hangup


def cut(request):
    """Half of the healthy body."""
    reply = request.connection.server.healthy(request)
    return _Cut(reply.status, reply.body, reply.headers)


class _Endless(Reply):
    def send(self, connection):
        connection.send(self.head(connection.server.date(), **{"Transfer-Encoding": "chunked"}))
        filler = self.body * (65536 // len(self.body))
        while not connection.server.stopping.is_set():
            connection.send(b"%x\r\n%s\r\n" % (len(filler), filler))


def flood(request):
    return _Endless(body=b'{"kind":"ConfigMap","data":{"x":"' + b"A" * 4000)


def flood_of_brackets(request):
    return _Endless(body=b"[")


def error_flood(request):
    return _Endless(500, body=b"no ")


class _EndlessExtension(Reply):
    def send(self, connection):
        connection.send(self.head(connection.server.date(), **{"Transfer-Encoding": "chunked"}))
        connection.send(b"1;x=")
        while not connection.server.stopping.is_set():
            connection.send(b"A" * 65536)
            connection.sent = getattr(connection, "sent", 0) + 65536


def endless_extension(request):
    """One chunk whose size line has an endless extension, which is not part of the body."""
    return _EndlessExtension()


def long_header_line(request):
    """Larger than libcurl accepts, and above our limit for all headers."""
    return Reply(200, b"{}", {"X-Filler": "A" * (300 << 10)})


class _EndlessHeaders(Reply):
    def send(self, connection):
        connection.send(b"HTTP/1.1 200 OK\r\n")
        line = b"X-Filler: " + b"A" * 1000 + b"\r\n"
        while not connection.server.stopping.is_set():
            connection.send(line * 16)


def endless_headers(request):
    return _EndlessHeaders()


def announced(length):
    """A huge Content-Length, then nothing."""
    class Announced(Reply):
        def send(self, connection):
            connection.send(self.head(connection.server.date(), **{"Content-Length": length}))
            connection.server.stopping.wait()
            raise Hangup
    return lambda request: Announced()


def large(size):
    """Valid JSON of this size that holds the healthy object and filler."""
    return edited(lambda obj: {**obj, "filler": "A" * size})


def deep(depth):
    return rewritten(lambda body: body.rstrip()[:-1] + b',"filler":' + b"[" * depth + b"]" * depth + b"}")


class _Drip(Reply):
    def send(self, connection):
        connection.send(self.head(connection.server.date(), **{"Content-Length": len(self.body)}))
        for i in range(len(self.body)):
            if connection.server.stopping.wait(0.5):
                raise Hangup
            connection.send(self.body[i:i + 1])


def drip(request):
    """The healthy answer, a byte every half second."""
    reply = request.connection.server.healthy(request)
    return _Drip(reply.status, reply.body, reply.headers)


def slow(seconds):
    def action(request):
        request.connection.server.stopping.wait(seconds)
    return action


# Watches.

def _watch(function):
    return lambda request: Stream(parts=function(request.connection.server, request))


def watch_events(*events):
    """Exactly these events (dicts, or bytes as they are), then the end."""
    return lambda request: Stream(parts=[event if isinstance(event, bytes) else pki.compact(event) for event in events])


def watch_error(code, reason, message):
    obj = json.loads(status(code, reason, message).body)
    return watch_events({"type": "ERROR", "object": obj})


WATCH_EXPIRED = watch_error(410, "Expired", "too old resource version: 1 (5000)")
WATCH_ENDS = watch_events()


@_watch
def watch_silent(server, request):
    """A load balancer that dropped its backend connection: open, but without data."""
    server.stopping.wait()
    raise Hangup
    yield


@_watch
def watch_bookmarks_only(server, request):
    yield pki.compact(apiserver.csrs.bookmark(server.cluster.csrs.version))


@_watch
def watch_cut_in_line(server, request):
    """The first event that carries a status is cut in the middle of its line."""
    for line in server.lines(request):
        if b'"status":{}' in line:
            yield line
        else:
            yield line[:len(line) // 2]
            raise Hangup


@_watch
def watch_in_pieces(server, request):
    """Every event in pieces of 97 bytes, which fall in the middle of everything."""
    for line in server.lines(request):
        yield from (line[i:i + 97] for i in range(0, len(line), 97))


@_watch
def watch_together(server, request):
    """All events up to the certificate in one piece, with empty lines between."""
    lines = []
    for line in server.lines(request):
        lines.append(line)
        if b'"certificate"' in line:
            break
    yield b"\n".join(lines)
    yield from server.lines(request)


@_watch
def watch_of_others(server, request):
    """A server that ignores the field selector: events of another machine come first."""
    for line in server.lines(request):
        event = json.loads(line)
        event["object"]["metadata"].setdefault("name", "")
        event["object"]["metadata"]["name"] += "-other"
        event["object"]["metadata"]["uid"] = "00000000-0000-4000-8000-000000000000"
        yield pki.compact(event)
        yield line


@_watch
def watch_long_line(server, request):
    while True:
        yield b" " * 65536


class Proxy:
    """An HTTP proxy that supports CONNECT and counts requests."""

    def __init__(self):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:%d" % self._listener.getsockname()[1]
        self.asked = []
        self.answer = b"HTTP/1.1 200 Connection established\r\n\r\n"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    @staticmethod
    def resolve(host):
        return host

    def _serve(self, client):
        request = client.recv(65536).decode()
        if not request:      # of an attempt that was given up
            client.close()
            return
        method, target, *_ = request.split(" ")
        assert method == "CONNECT"
        self.asked.append(target)
        host, port = target.rsplit(":", 1)
        with client, socket.create_connection((self.resolve(host), int(port))) as server:
            client.sendall(self.answer)
            back = threading.Thread(target=self._pump, args=(server, client), daemon=True)
            back.start()
            self._pump(client, server)
            back.join(60)

    @staticmethod
    def _pump(source, sink):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def close(self):
        self._listener.close()


class BlackHole:
    """An address that swallows connections: a listener with its queue full, so that a SYN gets no answer.

    With a server, it is that server's address until `server.start()`."""

    def __init__(self, server=None):
        self.server = server
        self._listener = server._listener if server else socket.socket()
        if not server:
            self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(0)
        self.endpoint = "127.0.0.1:%d" % self._listener.getsockname()[1]
        self._fill = []
        for _ in range(4):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(self._listener.getsockname())
            self._fill.append(filler)

    def close(self):
        for sock in (*self._fill, self._listener):
            sock.close()


_kept = []


def shut_down(server):
    """Its port is bound again, so that no other test's server gets it."""
    server.close()
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((server.host, server.port))
    _kept.append(sock)


def dead_endpoint():
    """An address without a listener, bound so that no other test's server gets it."""
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    _kept.append(sock)
    return "127.0.0.1:%d" % sock.getsockname()[1]
