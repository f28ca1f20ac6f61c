# SPDX-License-Identifier: Apache-2.0
"""Proxies from the environment, their exceptions, and where libcurl and Go differ."""

import contextlib
import os
import ssl
import struct
import tempfile
import threading

import pytest

from common import apiserver, faults, pki
from common.machine import TOKEN_ID, Machine
from .join_methods import World

pytestmark = pytest.mark.each_release
DEAD = "http://127.0.0.1:1"
PINNED = 2      # connections of a join by token: the unverified one, and the verified one


class Refusing(faults.Proxy):
    """Refuses every connection."""

    def _serve(self, client):
        with client:
            self.asked.append(client.recv(65536).decode().split(" ")[1])
            client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n")


class Asking(faults.Proxy):
    """Records every request completely."""

    heads = ()

    def _serve(self, client):
        head = client.recv(65536, faults.socket.MSG_PEEK).decode()
        self.heads = [*self.heads, head]
        super()._serve(client)


class Socks(faults.Proxy):
    """A SOCKS5 proxy, which resolves names (RFC 1928)."""

    def _serve(self, client):
        with client:
            client.recv(257)
            client.sendall(b"\x05\x00")
            head = client.recv(5, faults.socket.MSG_WAITALL)
            assert head[:4] == b"\x05\x01\x00\x03", "CONNECT to a name"
            rest = client.recv(head[4] + 2, faults.socket.MSG_WAITALL)
            name, port = rest[:-2].decode(), int.from_bytes(rest[-2:], "big")
            self.asked.append(f"{name}:{port}")
            with faults.socket.create_connection((self.resolve(name), port)) as server:
                client.sendall(b"\x05\x00\x00\x01" + bytes(6))
                back = threading.Thread(target=self._pump, args=(server, client), daemon=True)
                back.start()
                self._pump(client, server)
                back.join(60)


@pytest.fixture
def world(tmp_path):
    world = World(tmp_path)
    yield world
    world.close()
    world.check()


@pytest.fixture
def by_token(world):
    world.configure(discovery={"endpoints": [world.server.endpoint], "caCertHashes": [world.cluster.ca.pin]})
    return world


USED = [
    ("HTTPS_PROXY", {"HTTPS_PROXY": "{proxy}"}),
    ("https_proxy", {"https_proxy": "{proxy}"}),
    ("ALL_PROXY, which Go does not know", {"ALL_PROXY": "{proxy}"}),
    ("https_proxy before HTTPS_PROXY, where Go has it the other way", {"https_proxy": "{proxy}", "HTTPS_PROXY": DEAD}),
    ("without a scheme", {"HTTPS_PROXY": "{bare}"}),
    ("although this address is a loopback one, which Go would never hand over", {"HTTPS_PROXY": "{proxy}", "NO_PROXY": ""}),
    ("an exception for another network", {"HTTPS_PROXY": "{proxy}", "NO_PROXY": "10.0.0.0/8,192.0.2.0/24"}),
    ("an exception for another address", {"HTTPS_PROXY": "{proxy}", "NO_PROXY": "127.0.0.2,example.org"}),
    ("an exception whose digits begin alike", {"HTTPS_PROXY": "{proxy}", "NO_PROXY": "127.0.0.11,7.0.0.1"}),
    ("an exception with a port, which only Go knows", {"HTTPS_PROXY": "{proxy}", "NO_PROXY": "{endpoint}"}),
]
PASSED_BY = [
    ("HTTP_PROXY alone", {"HTTP_PROXY": DEAD, "http_proxy": DEAD}),
    ("an address", {"HTTPS_PROXY": DEAD, "NO_PROXY": "127.0.0.1"}),
    ("no_proxy", {"HTTPS_PROXY": DEAD, "no_proxy": "127.0.0.1"}),
    ("a network", {"HTTPS_PROXY": DEAD, "NO_PROXY": "10.0.0.0/8,127.0.0.0/8"}),
    ("a network of one", {"HTTPS_PROXY": DEAD, "NO_PROXY": "127.0.0.1/32"}),
    ("blanks between", {"HTTPS_PROXY": DEAD, "NO_PROXY": "example.org, 127.0.0.0/8"}),
    ("everything", {"HTTPS_PROXY": DEAD, "NO_PROXY": "*"}),
]


@pytest.mark.parametrize("environment", [row[1] for row in USED], ids=[row[0] for row in USED])
def test_used(by_token, environment):
    proxy = by_token.closing(faults.Proxy())
    values = {"proxy": proxy.url, "bare": proxy.url.removeprefix("http://"), "endpoint": by_token.server.endpoint}
    by_token.machine.unit(environment={key: value.format(**values) for key, value in environment.items()}).joined()
    assert proxy.asked == [by_token.server.endpoint] * PINNED
    assert "proxy" not in by_token.machine.read(Machine.KUBECONFIG), "what is in the environment of this unit is not kubelet's"


@pytest.mark.parametrize("environment", [row[1] for row in PASSED_BY], ids=[row[0] for row in PASSED_BY])
def test_passed_by(by_token, environment):
    by_token.machine.unit(environment=environment).joined()
    assert len(by_token.server.connections) == PINNED, "each is made once"


NAMES = [
    ("the name", "localhost", False),
    ("a domain", "example.org,.localhost", False),
    ("a name that ends alike", "host", True),
    ("an address of the name, which is not looked up", "127.0.0.0/8,::1", True),
]


@pytest.mark.parametrize("exception, is_used", [row[1:] for row in NAMES], ids=[row[0] for row in NAMES])
def test_exception_for_a_name(world, exception, is_used):
    proxy = world.closing(faults.Proxy())
    endpoint = f"localhost:{world.server.port}"
    world.cluster.server = f"https://{endpoint}"
    world.configure(discovery={"endpoints": [endpoint], "caCertHashes": [world.cluster.ca.pin]})
    world.machine.unit(environment={"HTTPS_PROXY": proxy.url, "NO_PROXY": exception}).joined()
    assert proxy.asked == ([endpoint] * PINNED if is_used else [])


@pytest.mark.parametrize("name, exception, is_used", [
    ("api-int.example.org", "api-int.example.org", False), ("api-int.example.org", "example.com", True), ("localhost", "localhost", False),
])
def test_exception_for_a_tls_server_name(world, name, exception, is_used):
    """libcurl compares NO_PROXY with the name, which may be that of the server as well."""
    proxy = world.closing(faults.Proxy())
    world.server.identity = world.cluster.ca.serving([name])
    endpoint = f"localhost:{world.server.port}"
    world.cluster.server = f"https://{endpoint}"
    world.configure(discovery={"file": world.give("cluster.yaml", world.document(world.cluster.server, extra_cluster=f"    tls-server-name: {name}\n"))})
    world.machine.unit(environment={"HTTPS_PROXY": proxy.url, "NO_PROXY": exception}).joined()
    assert set(proxy.asked) == ({endpoint} if is_used else set())


class Tls(faults.Proxy):
    """A proxy behind TLS."""

    def __init__(self, identity):
        super().__init__()
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.NamedTemporaryFile() as pem:
            pem.write(identity.combined)
            pem.flush()
            self.context.load_cert_chain(pem.name)

    def _serve(self, client):
        with contextlib.suppress(OSError, ValueError):
            super()._serve(self.context.wrap_socket(client, server_side=True))


def anonymous(context):
    context.set_ciphers("aNULL:@SECLEVEL=0")
    context.maximum_version = ssl.TLSVersion.TLSv1_2


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.parametrize("is_trusted", [True, False])
def test_https(by_token, tmp_path, is_trusted):
    """The CAs of the system verify the proxy, and come by descriptor."""
    ca = pki.CA("proxies")
    proxy = by_token.closing(Tls(ca.serving(["localhost"])))
    (tmp_path / "ca.pem").write_bytes((ca if is_trusted else pki.CA("others")).pem)
    machine = by_token.machine
    command = f"mount --bind {tmp_path}/ca.pem /etc/ssl/certs/ca-certificates.crt && exec {machine.program('node-bootstrap')} check --config-directory={machine.etc}"
    url = proxy.url.replace("http://127.0.0.1", "https://localhost")
    run = machine.start("/usr/bin/unshare", "--mount", "sh", "-c", command, environment={"HTTPS_PROXY": url}).wait()
    assert (by_token.server.endpoint in proxy.asked) == is_trusted, run.stdout
    assert ("proxy-unusable" in run.stdout) != is_trusted and "tls-" not in run.stdout, run.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_https_before_a_server_without_certificate(by_token, tmp_path):
    """The certificate of the proxy, which is also for the server, is not taken for the server's. By default, OpenSSL refuses such a server."""
    proxy = by_token.closing(Tls(by_token.cluster.ca.serving(["127.0.0.1", "localhost"])))
    (tmp_path / "ca.pem").write_bytes(by_token.cluster.ca.pem)
    (tmp_path / "openssl.cnf").write_text("openssl_conf = a\n[a]\nssl_conf = b\n[b]\nsystem_default = c\n[c]\nCipherString = ALL:aNULL:@SECLEVEL=0\n")
    by_token.server.tls_options = anonymous
    machine = by_token.machine
    command = (f"mount --bind {tmp_path}/ca.pem /etc/ssl/certs/ca-certificates.crt && mount --bind {tmp_path}/openssl.cnf /etc/ssl/openssl.cnf && "
               f"exec {machine.program('node-bootstrap')} check --config-directory={machine.etc}")
    run = machine.start("/usr/bin/unshare", "--mount", "sh", "-c", command, environment={"HTTPS_PROXY": proxy.url.replace("http:", "https:")}).wait()
    assert by_token.server.endpoint in proxy.asked and "proxy-unusable" not in run.stdout, run.stdout
    assert all("authorization" not in request.headers for request in by_token.server.requests), run.stdout


def test_https_that_is_not_used(world):
    """The failure is not taken for one of the proxy."""
    world.server.identity = world.cluster.ca.serving(["192.0.2.1"])
    world.machine.configure(world.server, timeout="4s")
    world.machine.join(environment={"HTTPS_PROXY": "https://127.0.0.1:1", "NO_PROXY": "127.0.0.1"}).failed("tls-name-mismatch", 76, "is for 192.0.2.1")


@pytest.mark.parametrize("scheme", ["socks5", "socks5h", "SOCKS5"])
def test_socks(world, scheme):
    """The proxy resolves the name, as for client-go; this machine does not know it."""
    proxy = world.closing(Socks())
    proxy.resolve = lambda host: "127.0.0.1"
    endpoint = f"cluster.example:{world.server.port}"
    world.server.identity = world.cluster.ca.serving(["cluster.example"])
    world.cluster.server = f"https://{endpoint}"
    world.configure(discovery={"endpoints": [endpoint], "caCertHashes": [world.cluster.ca.pin]})
    world.machine.unit(environment={"HTTPS_PROXY": proxy.url.replace("http", scheme)}).joined()
    assert proxy.asked == [endpoint] * PINNED


def test_user_and_password(by_token):
    """Credentials are allowed in the environment, as for Go; they are never printed."""
    proxy = by_token.closing(Asking())
    by_token.machine.secrets.append("hunter2hunter2")
    by_token.machine.unit(environment={"HTTPS_PROXY": proxy.url.replace("//", "//user:hunter2hunter2@")}).joined()
    assert len(proxy.heads) == PINNED and all("Proxy-Authorization: Basic " in head for head in proxy.heads)


def test_nothing_of_ours_goes_to_the_proxy(by_token):
    proxy = by_token.closing(Asking())
    by_token.machine.unit(environment={"HTTPS_PROXY": proxy.url}).joined()
    assert proxy.heads and all(TOKEN_ID not in head and "\r\nAuthorization" not in head for head in proxy.heads)


def test_proxy_that_refuses(by_token):
    proxy = by_token.closing(Refusing())
    by_token.configure(discovery={"endpoints": [by_token.server.endpoint], "caCertHashes": [by_token.cluster.ca.pin]}, timeout="8s")
    by_token.machine.unit(environment={"HTTPS_PROXY": proxy.url}).failed("proxy-refused", 69, "407")
    assert proxy.asked and by_token.server.connections == []


def test_password_of_a_dead_proxy_is_not_printed(by_token):
    by_token.machine.secrets.append("hunter2hunter2")
    by_token.configure(discovery={"endpoints": [by_token.server.endpoint], "caCertHashes": [by_token.cluster.ca.pin]}, timeout="8s")
    by_token.machine.unit(environment={"HTTPS_PROXY": "http://user:hunter2hunter2@127.0.0.1:1"}).failed("proxy-unreachable", 69)


# Whether the proxy or the API server is the cause.

class Closing(faults.Proxy):
    """Ends each connection when it has read CONNECT."""

    def _serve(self, client):
        with client:
            self.asked.append(client.recv(65536).decode().split(" ")[1])


class Resetting(Closing):
    def _serve(self, client):
        client.recv(65536)
        client.setsockopt(faults.socket.SOL_SOCKET, faults.socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()


class Silent(faults.Proxy):
    """Reads CONNECT, and does not answer."""

    def _serve(self, client):
        with client:
            while client.recv(65536):
                self.asked.append("")


class Portal(faults.Proxy):
    """Lets each CONNECT succeed, and answers with its own page."""

    def _serve(self, client):
        with client:
            client.recv(65536)
            client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            client.recv(65536)
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nlogin")


class Hangup(Portal):
    """Ends the connection after its answer to CONNECT."""

    def _serve(self, client):
        with client:
            client.recv(65536)
            client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")


BLAMED = [
    (None, "HTTPS_PROXY", "proxy-unreachable", "(HTTPS_PROXY): Connection refused"),
    (None, "all_proxy", "proxy-unreachable", "(all_proxy): Connection refused"),
    (Closing, "https_proxy", "proxy-unreachable", "(https_proxy): it closed the connection before it answered CONNECT"),
    (Resetting, "https_proxy", "proxy-unreachable", "(https_proxy): it closed the connection before it answered CONNECT"),
    (Silent, "https_proxy", "proxy-unreachable", "(https_proxy): no answer to CONNECT within 10 s: the proxy, or the API server behind it, is silent"),
    (Portal, "https_proxy", "endpoint-reset", "through the proxy at 127.0.0.1:"),
    (Hangup, "ALL_PROXY", "endpoint-reset", "(ALL_PROXY)"),
]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
@pytest.mark.parametrize("kind, name, code, words", BLAMED, ids=[f"{row[0].__name__ if row[0] else 'Dead'} {row[1]}" for row in BLAMED])
def test_which_of_the_two_is_blamed(by_token, kind, name, code, words, host):
    proxy = by_token.closing(kind()) if kind else None
    by_token.machine.secrets.append("hunter2hunter2")
    by_token.configure(discovery={"endpoints": [f"{host}:{by_token.server.port}"], "caCertHashes": [by_token.cluster.ca.pin]}, timeout="13s")
    address = proxy.url.removeprefix("http://") if proxy else "127.0.0.1:1"
    run = by_token.machine.unit(environment={name: f"http://user:hunter2hunter2@{address}"}).failed(code, 69, words, f"the proxy at {address}")
    assert set(run.codes) == {code} and by_token.server.connections == []


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_server_that_no_proxy_lists_is_blamed_itself(by_token, host):
    by_token.configure(discovery={"endpoints": [f"{host}:1"], "caCertHashes": [by_token.cluster.ca.pin]}, timeout="3s")
    run = by_token.machine.unit(environment={"HTTPS_PROXY": DEAD.replace(":1", ":9"), "NO_PROXY": host}).failed("endpoint-refused", 69, "Connection refused")
    assert "proxy at" not in run.stderr


@pytest.mark.parametrize("refused, is_behind", [("proxy", False), ("server", True)])
def test_socks_proxy_is_blamed(world, refused, is_behind):
    """A SOCKS proxy has no CONNECT: what it says, or that it says nothing, is of the proxy; what follows, of the server."""
    proxy = world.closing(Socks())
    proxy.resolve = lambda host: "127.0.0.1"
    endpoint = f"cluster.example:{world.server.port}"
    if is_behind:
        world.server.on_connect = faults.plain_http
    url = proxy.url.replace("http", "socks5") if is_behind else "socks5://127.0.0.1:1"
    world.configure(discovery={"endpoints": [endpoint], "caCertHashes": [world.cluster.ca.pin]}, timeout="5s")
    world.machine.unit(environment={"HTTPS_PROXY": url}).failed("endpoint-reset" if is_behind else "proxy-unreachable", 69)


UNUSABLE = [
    ("a slash in the password", "http://user:hunter2/hunter2@127.0.0.1:1"),
    ("a number sign in the password", "http://user:hunter2hunter2#@127.0.0.1:1"),
    ("a blank", "http://user:hunter2hunter2@ho st:1"),
    ("a port that does not exist", "http://user:hunter2hunter2@127.0.0.1:99999"),
    ("an unknown scheme", "socks9://user:hunter2hunter2@127.0.0.1:1"),
    ("a name that does not resolve", "http://user:hunter2hunter2@nowhere.invalid:1"),
    ("a slash, and what is before it taken for host and port", "http://hunter2.invalid:1/2@127.0.0.1:1"),
]


@pytest.mark.parametrize("proxy", [row[1] for row in UNUSABLE], ids=[row[0] for row in UNUSABLE])
def test_password_of_a_proxy_without_a_way_to_it_is_not_printed(by_token, proxy):
    """libcurl's messages quote the URL, or what it parses as the host."""
    by_token.machine.secrets.append("hunter2")
    by_token.configure(discovery={"endpoints": [by_token.server.endpoint], "caCertHashes": [by_token.cluster.ca.pin]}, timeout="5s")
    by_token.machine.unit(environment={"HTTPS_PROXY": proxy}).failed("proxy-unusable", 69, "https_proxy")
    for form in ([], ["--json"]):
        run = by_token.machine.start("node-bootstrap", "check", f"--config-directory={by_token.machine.etc}", *form, environment={"https_proxy": proxy}).wait()
        assert run.exit == 1 and "proxy-unusable" in run.stdout and "endpoint-unresolved" not in run.stdout
    assert by_token.server.kinds == []


# What check shows.

def checked(world, **environment):
    run = world.machine.start("node-bootstrap", "check", f"--config-directory={world.machine.etc}", environment=environment).wait()
    return run, [line[line.index("proxy: "):] for line in run.stdout.splitlines() if "proxy: " in line]


@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "https_proxy", "all_proxy"])
def test_check_shows_the_proxy(by_token, variable):
    proxy = by_token.closing(faults.Proxy())
    by_token.machine.secrets.append("hunter2")
    run, rows = checked(by_token, **{variable: proxy.url.replace("//", "//user:hunter2@"), "NO_PROXY": "example.org"})
    address = proxy.url.removeprefix("http://")
    assert rows == [f"proxy: {by_token.server.endpoint} is reached through the proxy at {address} ({variable})"], run.stdout


@pytest.mark.parametrize("exception", ["127.0.0.1", "127.0.0.0/8", "*"])
def test_check_shows_that_no_proxy_applies(by_token, exception):
    run, rows = checked(by_token, HTTPS_PROXY=DEAD, NO_PROXY=exception)
    assert rows == [f"proxy: {by_token.server.endpoint} is reached directly, since NO_PROXY lists it (HTTPS_PROXY is set)"], run.stdout
    run, rows = checked(by_token)
    assert "answers with a certificate of the CA" in run.stdout and not rows, run.stdout


@pytest.mark.parametrize("name, exception", [("127.0.0.1", "127.0.0.1"), ("localhost", "localhost"), ("localhost", "*")])
def test_failure_without_the_proxy(by_token, name, exception):
    """It may be the reason."""
    by_token.configure(discovery={"endpoints": [f"{name}:1"], "caCertHashes": [by_token.cluster.ca.pin]})
    run, _ = checked(by_token, HTTPS_PROXY=DEAD, NO_PROXY=exception)
    assert run.exit == 1 and "endpoint-refused" in run.stdout, run.stdout
    assert f"cluster-info from {name}:1: directly, since NO_PROXY lists it (HTTPS_PROXY is set): " in run.stdout, run.stdout


def test_check_shows_the_proxy_of_the_kubeconfig(world):
    proxy = world.closing(faults.Proxy())
    text = apiserver.kubeconfig(world.server.url, world.cluster.ca.pem, extra_cluster=f"    proxy-url: {proxy.url}\n")
    world.configure(discovery={"file": world.give("cluster.conf", text)})
    run, rows = checked(world, HTTPS_PROXY=DEAD, NO_PROXY="*")
    assert rows == [f"proxy: {world.server.endpoint} is reached through the proxy at {proxy.url.removeprefix('http://')} (proxy-url in the kubeconfig)"], run.stdout


# The other join methods.

def test_url_discovery(world):
    """Web server and API server, both through the proxy."""
    proxy = world.closing(faults.Proxy())
    web = world.endpoint(world.stranger())
    web.on("any", faults.answer(world.document()))
    world.configure(discovery={"file": f"https://{web.endpoint}/x", "urlCAFile": world.give("web.crt", web.cluster.ca.pem)})
    world.machine.unit(environment={"HTTPS_PROXY": proxy.url}).joined()
    assert proxy.asked == [web.endpoint, world.server.endpoint, world.server.endpoint]


def test_proxy_url_is_stronger(world):
    """As in clientcmd: the document's proxy applies to its cluster, whatever the environment says."""
    proxy = world.closing(faults.Proxy())
    text = apiserver.kubeconfig(world.server.url, world.cluster.ca.pem, extra_cluster=f"    proxy-url: {proxy.url}\n")
    world.configure(discovery={"file": world.give("cluster.conf", text)})
    world.machine.unit(environment={"HTTPS_PROXY": DEAD}).joined()
    assert proxy.asked == [world.server.endpoint] * 2
    assert proxy.url in world.machine.read(Machine.KUBECONFIG)


def test_proxy_url_although_the_environment_excepts_it(world):
    """As in clientcmd: NO_PROXY is for the proxies of the environment."""
    proxy = world.closing(faults.Proxy())
    text = apiserver.kubeconfig(world.server.url, world.cluster.ca.pem, extra_cluster=f"    proxy-url: {proxy.url}\n")
    world.configure(discovery={"file": world.give("cluster.conf", text)})
    world.machine.unit(environment={"NO_PROXY": "127.0.0.0/8"}).joined()
    assert proxy.asked == [world.server.endpoint] * 2
