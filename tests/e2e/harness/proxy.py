# SPDX-License-Identifier: Apache-2.0
"""A proxy between the machines and an API server: it counts, refuses, stops forwarding, and inspects.

`Front` listens on the cluster's addresses. Every connection is counted. Its mode can change at any moment:
    forward   bytes pass through untouched
    silent    connections are accepted and nothing is ever said
    reset     connections are closed at once
    inspect   TLS ends here, with the API server's own certificate: requests are recorded, and gates can hold them.
              Bearer tokens pass; client certificates do not, so no kubelet gets through.
"""

import contextlib
import select
import socket
import ssl
import threading
from dataclasses import dataclass, field

from . import network


@dataclass
class Gate:
    """Holds the first matching request, before the API server receives it or after its answer."""

    method: str
    path: str
    after: bool = False
    reached: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)

    def fits(self, method, path):
        return method == self.method and path.startswith(self.path) and not self.reached.is_set()

    def hold(self):
        self.reached.set()
        self.released.wait()


class Front:
    def __init__(self, address, port, target, certificate=None):
        self.address, self.port, self.target, self.certificate = address, port, target, certificate
        self.mode = "forward"
        self.accepted = 0
        self.requests = []
        self.gates = []
        self.listener = None
        self.open = set()
        self.lock = threading.Lock()

    @property
    def endpoint(self):
        return f"{self.address}:{self.port}"

    # from refusing to answering and back; from there to a black hole and back

    def listen(self):
        network.reach(self.address)
        if self.listener:
            return self
        self.listener = socket.create_server((self.address, self.port), backlog=128)
        threading.Thread(target=self._accept, args=(self.listener,), daemon=True).start()
        return self

    def refuse(self):
        """From now on connections are refused; the open ones are cut."""
        network.reach(self.address)
        if self.listener:
            with contextlib.suppress(OSError):
                self.listener.shutdown(socket.SHUT_RDWR)
            self.listener.close()
            self.listener = None
        self.cut()
        return self

    def vanish(self):
        """From now on packets to this address are dropped; the open connections hang."""
        network.lose(self.address)
        return self

    def appear(self):
        network.reach(self.address)
        return self

    def peer_ports(self, address):
        """The ports of the open connections that come from an address."""
        found = []
        for one in self._open_now():
            with contextlib.suppress(OSError):
                host, port = one.getpeername()
                found += [port] if host == address else []
        return found

    def _open_now(self):
        with self.lock:
            return list(self.open)

    def cut(self):
        for one in self._open_now():
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self):
        for gate in self.gates:
            gate.released.set()
        self.refuse()
        network.lose(self.address)

    def gate(self, method, path, after=False):
        self.mode = "inspect"
        self.gates.append(Gate(method, path, after))
        return self.gates[-1]

    def plain(self):
        """Back to forwarding: gates are opened, inspected connections are cut."""
        self.mode = "forward"
        for gate in self.gates:
            gate.released.set()
        self.gates.clear()
        self.cut()

    # the inside

    def _accept(self, listener):
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            self.accepted += 1
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        mode = self.mode
        with client, contextlib.suppress(OSError, ssl.SSLError):
            with self._opened(client):
                if not self.listener:   # accepted before refuse(), and not open yet when refuse() cut the open ones
                    return
                if mode == "silent":
                    while client.recv(65536):
                        pass
                elif mode == "forward":
                    with socket.create_connection(self.target) as server, self._opened(server):
                        pump(client, server)
                elif mode == "inspect":
                    self._inspect(client)

    @contextlib.contextmanager
    def _opened(self, one):
        with self.lock:
            self.open.add(one)
        try:
            yield
        finally:
            with self.lock:
                self.open.discard(one)

    def _inspect(self, client):
        outer = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        outer.load_cert_chain(*self.certificate)
        inner = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        inner.check_hostname, inner.verify_mode = False, ssl.CERT_NONE
        with outer.wrap_socket(client, server_side=True) as near:
            with self._opened(near), inner.wrap_socket(socket.create_connection(self.target)) as far, self._opened(far):
                pump(near, far, self._request, self._answer)

    def _request(self, data, state):
        method, _, rest = data.partition(b" ")
        if method not in (b"GET", b"POST", b"PUT", b"PATCH", b"DELETE"):
            return
        state["gate"] = None
        method, path = method.decode(), rest.split(b" ", 1)[0].decode()
        authorized = b"\r\nauthorization:" in data.split(b"\r\n\r\n", 1)[0].lower()
        self.requests.append((method, path, authorized))
        for gate in self.gates:
            if gate.fits(method, path):
                if gate.after:
                    state["gate"] = gate
                else:
                    gate.hold()

    @staticmethod
    def _answer(_data, state):
        gate = state.pop("gate", None)
        if gate:
            gate.hold()


def pump(near, far, on_request=None, on_answer=None):
    """Passes bytes both ways until either side ends."""
    state = {}
    while True:
        waiting = [s for s in (near, far) if isinstance(s, ssl.SSLSocket) and s.pending()]
        for source in waiting or select.select([near, far], [], [])[0]:
            data = receive(source)
            if data is None:
                continue
            if not data:
                return
            look = on_request if source is near else on_answer
            if look:
                look(data, state)
            (far if source is near else near).sendall(data)


def receive(source):
    """The available data; None if it is not application data, such as TLS's own records."""
    source.setblocking(False)
    try:
        return source.recv(65536)
    except (BlockingIOError, ssl.SSLWantReadError):
        return None
    finally:
        source.setblocking(True)
