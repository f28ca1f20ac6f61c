# SPDX-License-Identifier: Apache-2.0
"""Servers outside of the cluster: an https server, and a proxy for HTTPS."""

import contextlib
import select
import socket
import ssl
import tempfile
import threading

from common import pki
from . import network


class Server:
    """Listens at an address of its own."""

    def __init__(self, address, port):
        network.reach(address)
        self.address, self.port = address, port
        self._listener = socket.create_server((address, port))
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        with client, contextlib.suppress(OSError, ValueError):
            self.serve(client)

    def close(self):
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        network.lose(self.address)


def read_head(client):
    head = b""
    while b"\r\n\r\n" not in head:
        data = client.recv(65536)
        if not data:
            raise OSError("the request is cut off")
        head += data
    return head.decode()


class Web(Server):
    """Serves the same text to every client, with a certificate of its own CA, and records the requests."""

    def __init__(self, address, text, status="200 OK"):
        self.ca, self.text, self.status = pki.CA("web"), text, status
        self.heads, self.certificates = [], []
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.NamedTemporaryFile() as file:
            file.write(self.ca.serving([address], cn="web").combined)
            file.flush()
            self.context.load_cert_chain(file.name)
        self.context.load_verify_locations(cadata=self.ca.pem.decode())
        self.context.verify_mode = ssl.CERT_OPTIONAL
        super().__init__(address, 443)

    @property
    def url(self):
        return f"https://{self.address}/cluster-info.yaml"

    def serve(self, client):
        with self.context.wrap_socket(client, server_side=True) as near:
            self.heads.append(read_head(near))
            self.certificates.append(near.getpeercert())
            body = self.text.encode()
            near.sendall(f"HTTP/1.1 {self.status}\r\nContent-Type: text/yaml\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
            with contextlib.suppress(OSError):
                near.unwrap()


class Proxy(Server):
    """An HTTP proxy that supports CONNECT and records the requests; with `refusal`, a status, it refuses all."""

    def __init__(self, address, refusal=None):
        self.asked, self.refusal = [], refusal
        super().__init__(address, 3128)

    @property
    def url(self):
        return f"http://{self.address}:{self.port}"

    def serve(self, client):
        if self.refusal:
            read_head(client)
            client.sendall(f"HTTP/1.1 {self.refusal}\r\nContent-Length: 0\r\n\r\n".encode())
            return
        method, target, _ = read_head(client).split(" ", 2)
        if method != "CONNECT":
            return
        self.asked.append(target)
        host, port = target.rsplit(":", 1)
        with socket.create_connection((host.strip("[]"), int(port))) as server:
            client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            while True:
                for source, sink in select.select([client, server], [], [])[0] and [(client, server), (server, client)]:
                    if not select.select([source], [], [], 0)[0]:
                        continue
                    data = source.recv(65536)
                    if not data:
                        return
                    sink.sendall(data)
