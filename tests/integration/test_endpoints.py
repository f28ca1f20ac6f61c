# SPDX-License-Identifier: Apache-2.0
"""Discovery: connections, that is invalid answers, TLS, several endpoints, another `server:`, clocks."""

import errno
import itertools
import os
import resource
import shutil
import socket
import sys
import threading

import pytest

from common import apiserver, faults, pki
from common.machine import Case
from . import handshakes
from .attackers import Play, plays

pytestmark = pytest.mark.each_release
numbers = itertools.count(1)

UNREACHABLE = ("endpoint-unreachable", 69)
UNRESOLVED = ("endpoint-unresolved", 69)
REFUSED = ("endpoint-refused", 69)
RESET = ("endpoint-reset", 69)
FOREIGN = ("answer-foreign", 65)
MALFORMED = ("answer-malformed", 65)


def on_connect(action):
    def prepare(world):
        world.server.on_connect = action
    return prepare


def discovery(action, **rule):
    return lambda world: world.server.on("cluster-info", action, **rule)


def edited(edit):
    return discovery(faults.edited(edit))


CONNECTIONS = [
    Case("nobody listens", lambda world: {"endpoints": [faults.dead_endpoint()]}, *REFUSED, "refused"),
    Case("no answer to the connection", lambda world: {"endpoints": [world.closing(faults.BlackHole()).endpoint]}, *UNREACHABLE),
    Case("name that does not resolve", lambda world: {"endpoints": ["nosuch.invalid:6443"]}, *UNRESOLVED, "nosuch.invalid"),
    Case("stalls before TLS", on_connect(faults.stall_before_tls), *UNREACHABLE, "does not answer the TLS handshake"),
    Case("reset before TLS", on_connect(faults.reset), *RESET),
    Case("hangs up before TLS", on_connect(faults.hang_up), *RESET),
    Case("stalls after the request", discovery(faults.stall), *UNREACHABLE),
    Case("hangs up after the request", discovery(faults.hang_up_instead), *RESET),
    Case("stalls after the headers", discovery(faults.stall_after_headers), *UNREACHABLE),
    Case("cut in the middle of the body", discovery(faults.cut), *RESET),
    Case("a byte every half second", discovery(faults.drip), *UNREACHABLE),
]


def old_tls(world):
    world.server.tls_options = faults.old_tls


def little_was_taken(world, run):
    """Some buffers of the kernel besides."""
    assert all(getattr(connection, "sent", 0) < 32 << 20 for connection in world.server.connections)


ANSWERS = [
    Case("plain HTTP on the port", on_connect(faults.plain_http), *RESET, "TLS"),
    Case("another protocol on the port", on_connect(faults.garbage_before_tls), *RESET, "TLS"),
    Case("TLS 1.1 only", old_tls, *RESET, "protocol version"),
    Case("redirect", discovery(faults.redirect("https://127.0.0.1:1/")), *FOREIGN, "302"),
    Case("web page of a portal", discovery(faults.PORTAL), *MALFORMED, "cluster-info from ", ": expected JSON, found HTML (status 200)"),
    Case("not JSON", discovery(faults.answer("pong")), *MALFORMED),
    Case("empty body", discovery(faults.answer("")), *MALFORMED),
    Case("JSON that is no object", discovery(faults.answer('["ConfigMap"]')), *MALFORMED),
    Case("text after the JSON", discovery(faults.rewritten(lambda body: body + b"{}")), *MALFORMED),
    Case("duplicate keys", discovery(faults.rewritten(lambda body: body.replace(b'{"kind"', b'{"kind":"ConfigMap","kind"', 1))), *MALFORMED),
    Case("duplicate kubeconfig", discovery(faults.rewritten(lambda body: body.replace(b'"data":{', b'"data":{"kubeconfig":"x",', 1))), *MALFORMED),
    Case("NUL in the kubeconfig", edited(lambda info: info["data"].update(kubeconfig="apiVersion: v1\0" + info["data"]["kubeconfig"])), *MALFORMED),
    Case("invalid UTF-8", discovery(faults.rewritten(lambda body: body.replace(b"cluster-info", b"cluster\xff\xfeinfo"))), *MALFORMED),
    Case("nested ten thousand deep", discovery(faults.deep(10000)), *MALFORMED),
    Case("another kind", edited(lambda info: info.update(kind="Secret")), *MALFORMED, "kind"),
    Case("Status with 200", discovery(faults.error(200, "Success", "all well")), *MALFORMED),
    Case("no data", edited(lambda info: info.pop("data") and None), *MALFORMED, "data"),
    Case("no kubeconfig", edited(lambda info: info["data"].pop("kubeconfig") and None), *MALFORMED, "kubeconfig"),
    Case("kubeconfig is no string", edited(lambda info: info["data"].update(kubeconfig={"a": 1})), *MALFORMED, "kubeconfig"),
    Case("two megabytes", discovery(faults.large(2 << 20)), *MALFORMED),
    Case("body without end", discovery(faults.flood), *MALFORMED),
    Case("brackets without end", discovery(faults.flood_of_brackets), *MALFORMED),
    Case("100 headers of 1 KiB", discovery(faults.with_headers(**{f"x-{number}": "x" * 1024 for number in range(100)})), *MALFORMED, "larger than"),
    Case("headers without end", discovery(faults.endless_headers), *MALFORMED),
    Case("one header line of 300 KiB", discovery(faults.long_header_line), *MALFORMED, "larger than"),
    Case("error without end", discovery(faults.error_flood), *MALFORMED, "larger than"),
    Case("chunk extension without end", discovery(faults.endless_extension), *MALFORMED, "larger than", check=little_was_taken),
    Case("announces a terabyte, and sends nothing", discovery(faults.announced(1 << 40)), *UNREACHABLE),
    Case("204 without contents", discovery(faults.answer("", 204)), *MALFORMED),
    Case("404", discovery(faults.error(404, "NotFound", 'configmaps "cluster-info" not found')), "cluster-info-missing", 69),
    Case("401, anonymous requests are off", discovery(faults.unauthorized), "cluster-info-forbidden", 77, "401"),
    Case("403, no role for anonymous", discovery(faults.forbidden), "cluster-info-forbidden", 77, "403"),
    Case("429", discovery(faults.TOO_MANY), "server-error", 69, "429"),
    Case("500", discovery(faults.INTERNAL), "server-error", 69, "500"),
    Case("503", discovery(faults.UNAVAILABLE), "server-error", 69, "503"),
    Case("502 of a load balancer", discovery(faults.BAD_GATEWAY), "server-error", 69, "502"),
]


def identity(make):
    """The serving certificate is another one: unverified discovery succeeds, and the verified connection must fail."""
    def prepare(world):
        world.server.identity = make(world.cluster.ca)
    return prepare


def expired_ca(world):
    """The certificate of the API server itself is valid."""
    world.cluster.ca = world.cluster.signer = pki.CA(start=-400 * pki.DAY, end=-pki.DAY)
    world.cluster.bundle = [world.cluster.ca.pem]
    world.server.identity = world.cluster.ca.serving()


def another_beside_expired_ca(world):
    expired_ca(world)
    world.server.identity = pki.CA().serving()


UNTRUSTED = ("tls-untrusted", 76)
EXPIRED = ("tls-expired", 76)
OTHER_NAME = ("tls-name-mismatch", 76)
TLS = [
    Case("the proven CA has expired", expired_ca, *EXPIRED, "the CA that issued the server's certificate, 'CN=kubernetes', expired on "),
    Case("another CA of the name of the proven one, which has expired", another_beside_expired_ca, *UNTRUSTED, "not by the cluster's CA"),
    Case("certificate of another CA", identity(lambda ca: pki.CA().serving()), *UNTRUSTED, "issued by 'CN=", "not by the cluster's CA"),
    Case("certificate that has expired", identity(lambda ca: ca.serving(start=-2 * pki.DAY, end=-pki.HOUR)), *EXPIRED, "expired on"),
    Case("certificate that is not valid yet", identity(lambda ca: ca.serving(start=pki.HOUR)), *EXPIRED, "is not valid before"),
    Case("certificate for another name", identity(lambda ca: ca.serving(["10.96.0.1", "kubernetes"])), *OTHER_NAME, "for 10.96.0.1, kubernetes, not for"),
    Case("certificate for clients", identity(lambda ca: ca.node()), *UNTRUSTED, "the server's certificate is not for TLS servers"),
    Case("certificate with its name as the common name", identity(lambda ca: ca.serving([], cn="127.0.0.1")), *OTHER_NAME, "for no name"),
]


def no_credential(world, run):
    assert all("authorization" not in request.headers for request in world.server.requests)


for case in TLS:
    case.check = no_credential


# `server:` is not one of the endpoints.

def elsewhere(world):
    world.other = world.endpoint()
    world.cluster.server = world.other.url


def equal(world):
    elsewhere(world)

    def check(world, run):
        assert world.server.kinds == ["cluster-info", "cluster-info"] and world.machine.handoff()["server"] == world.other.url
        assert world.other.kinds == ["create", "watch"]
    world.check_elsewhere = check


def different(world):
    elsewhere(world)
    other = faults.edited(lambda info: info["data"].update(kubeconfig=info["data"]["kubeconfig"] + "# other\n"))
    world.server.on("cluster-info", lambda request: other(request) if len(world.server.seen("cluster-info")) % 2 == 0 else None)


def same_length(world):
    """Each copy is properly signed, and has other bytes."""
    elsewhere(world)
    numbers = iter(range(10 ** 6))
    text = world.cluster.kubeconfig_text
    world.cluster.kubeconfig_text = lambda url: text(url) + f"# {next(numbers):06}\n"


def alternating(world):
    """Each fetch gets another correctly signed kubeconfig."""
    elsewhere(world)
    numbers = iter(range(10 ** 6))
    text = world.cluster.kubeconfig_text
    world.cluster.kubeconfig_text = lambda url: text(url) + f"# {next(numbers)}\n"


def changing_once(world):
    """cluster-info is changed between the two fetches, and stays so."""
    elsewhere(world)
    text, numbers = world.cluster.kubeconfig_text, iter(range(10 ** 6))
    world.cluster.kubeconfig_text = lambda url: text(url) + ("" if next(numbers) == 0 else "# later\n")


def forged(world):
    """Someone who holds the token, but not the CA's key, answers at the endpoint and sends the machine elsewhere."""
    liar = world.stranger()
    world.trap = world.endpoint(liar)
    world.cluster.server = world.trap.url
    world.server.identity = liar.ca.serving()


def dead_server(world):
    world.cluster.server = "https://" + faults.dead_endpoint()


def never_sent(world, run):
    assert world.csrs() == [] and no_credential(world, run) is None
    for name in ("other", "trap"):
        if hasattr(world, name):
            assert getattr(world, name).seen("create") == []


ELSEWHERE = [
    Case("equal second copy", equal, None, 0, check=lambda world, run: world.check_elsewhere(world, run)),
    Case("changed once between the copies", changing_once, None, 0),
    Case("another second copy", different, "cluster-info-changed", 76, check=never_sent),
    Case("another second copy of the same length", same_length, "cluster-info-changed", 76, check=never_sent),
    Case("changing all the time", alternating, "cluster-info-changed", 76, check=never_sent),
    Case("second copy cut", lambda world: elsewhere(world) or world.server.on("cluster-info", faults.cut, skip=1), *RESET, check=never_sent),
    Case("forged by a holder of the token", forged, *UNTRUSTED, check=never_sent),
    Case("to where nobody listens", dead_server, *REFUSED, "refused", check=never_sent),
]


# Several endpoints.

def beside(make):
    """The good endpoint is the second of two."""
    def prepare(world):
        other = make(world)
        return {"endpoints": [getattr(other, "endpoint", other), world.server.endpoint]}
    return prepare


def bad(action=None, **attributes):
    def make(world):
        server = world.endpoint()
        for key, value in attributes.items():
            setattr(server, key, value)
        if action:
            server.on("cluster-info", action)
        return server
    return make


def liar(same_token):
    """Another cluster answers at one of the endpoints; in the second case it knows our token."""
    def make(world):
        tokens = dict(world.cluster.tokens) if same_token else {}
        world.liar = world.endpoint(world.stranger(tokens=tokens))
        return world.liar
    return make


def stalls_at_the_second_copy(world):
    """`server:` is another address, and one endpoint answers only once: the other one continues."""
    elsewhere(world)
    world.stalling = world.endpoint()
    world.stalling.on("cluster-info", faults.stall, skip=1)
    world.server.on("cluster-info", faults.slow(0.3), times=1)
    return world.stalling


def not_held_up(world, run):
    """From the request that nobody answers, which is given up after 10 s, to what comes after it."""
    stalled, [create] = world.stalling.seen("cluster-info")[1:], world.other.seen("create") + world.server.seen("create")
    assert all(create.when < request.when + 9 for request in stalled)


def only_discovery(world, run):
    assert set(world.liar.kinds) <= {"cluster-info"}


TWO = [
    Case("dead", beside(lambda world: faults.dead_endpoint()), None, 0),
    Case("black hole", beside(lambda world: world.closing(faults.BlackHole())), None, 0),
    Case("name that does not resolve", beside(lambda world: "nosuch.invalid:6443"), None, 0),
    Case("stalls before TLS", beside(bad(on_connect=faults.stall_before_tls)), None, 0),
    Case("stalls after the request", beside(bad(faults.stall)), None, 0),
    Case("slow", beside(bad(faults.slow(5))), None, 0),
    Case("flood", beside(bad(faults.flood)), None, 0),
    Case("starting up", beside(bad(faults.UNAVAILABLE)), None, 0),
    Case("refuses", beside(bad(faults.forbidden)), None, 0),
    Case("stalls at the second copy", beside(stalls_at_the_second_copy), None, 0, check=not_held_up),
    Case("liar", beside(liar(False)), None, 0, check=only_discovery),
    Case("liar with our token", beside(liar(True)), None, 0, check=only_discovery),
    Case("only a liar with our token and a dead one", lambda world: {"endpoints": [liar(True)(world).endpoint, faults.dead_endpoint()], "timeout": "3s"},
         "ca-pin-mismatch", 76, check=only_discovery),
    Case("both dead", lambda world: {"endpoints": [faults.dead_endpoint(), faults.dead_endpoint()]}, *REFUSED, "refused"),
]


@pytest.mark.parametrize("case", CONNECTIONS)
def test_connection(played, case):
    played(case)


@pytest.mark.parametrize("case", ANSWERS)
def test_answer(played, case):
    played(case)


@pytest.mark.parametrize("case", TLS)
def test_tls(played, case):
    played(case)


@pytest.mark.parametrize("case", ELSEWHERE)
def test_elsewhere(played, case):
    played(case)


@pytest.mark.parametrize("case", TWO)
def test_two_endpoints(played, case):
    played(case)


# The pin is that of the expired CA.
@pytest.mark.parametrize("case", [
    *plays(Play, CONNECTIONS, "nobody listens", "no answer to the connection", "name that does not resolve"), *plays(Play, ANSWERS),
    *plays(Play, TLS, "the proven CA has expired", "another CA of the name of the proven one, which has expired"),
    *plays(Play, ELSEWHERE, "to where nobody listens")])
def test_waits_for_the_real_server(played, case):
    played(case)


# A file system in which the name servers are those of the test.
WITH_NAME_SERVERS = """
import os, subprocess, sys
subprocess.run(["mount", "--bind", sys.argv[1], "/etc/resolv.conf"], check=True)
os.execv(sys.argv[2], sys.argv[2:])
"""


def name_server(world):
    """One that receives queries and does not answer."""
    server = world.closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    while True:
        try:
            server.bind((f"127.{os.getpid() % 250 + 2}.{next(numbers)}.53", 53))
            return server
        except PermissionError:
            pytest.skip("port 53 needs root")
        except OSError as error:
            if error.errno != errno.EADDRINUSE:     # by other tests
                raise


def answer_names(server):
    """All of them are 127.0.0.1, and none has an IPv6 address."""
    while True:
        question, peer = server.recvfrom(512)
        end = question.index(b"\0", 12) + 5
        is_ipv4 = question[end - 4:end - 2] == b"\0\1"
        answer = question[:2] + b"\x81\x80\0\1\0" + bytes([is_ipv4]) + bytes(4) + question[12:end]
        server.sendto(answer + (b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\x7f\0\0\1" if is_ipv4 else b""), peer)


def start_join_with(world, servers, options="", **more):
    resolver = world.machine.path / "resolv.conf"
    resolver.write_text("".join(f"nameserver {server.getsockname()[0]}\n" for server in servers) + options)
    return world.machine.start_join(under=[shutil.which("unshare"), "--mount", sys.executable, "-c", WITH_NAME_SERVERS, resolver], **more)


def test_one_silent_name_server_of_two(world):
    """The C library tries the second one after 5 s, so a join must wait at least that long."""
    servers = name_server(world), name_server(world)
    threading.Thread(target=answer_names, args=[servers[1]], daemon=True).start()
    world.machine.configure(world.server, endpoints=[world.server.endpoint.replace("127.0.0.1", "kubernetes")])
    start_join_with(world, servers).wait().joined()


def test_silent_name_server_is_no_trouble_of_routes(world):
    world.machine.configure(world.server, endpoints=["api.example.org:6443"], timeout="infinity")
    run = start_join_with(world, [name_server(world)], "options timeout:3 attempts:1\n", faketime="+0 x10")
    run.wait_for_line(" api.example.org:6443: ")
    assert run.codes == ["endpoint-unresolved"] and "no answer from a name server within 10 s" in run.stderr


# Proxies, and what else the environment could say.

DEAD_PROXY = "http://127.0.0.1:1"


@pytest.mark.parametrize("name", ["HTTPS_PROXY", "https_proxy", "ALL_PROXY"])
def test_proxy_of_the_environment(world, name):
    proxy = world.closing(faults.Proxy())
    world.machine.join(environment={name: proxy.url}).joined()
    assert set(proxy.asked) == {world.server.endpoint}


def test_what_a_proxy_says_of_itself(world):
    """Its Retry-After does not apply to the server, which is contacted again soon."""
    proxy = world.closing(faults.Proxy())
    proxy.answer = b"HTTP/1.1 200 Connection established\r\nRetry-After: 600\r\n\r\n"
    world.server.on("cluster-info", faults.UNAVAILABLE, times=1)
    world.machine.configure(world.server, timeout="30s")
    world.machine.join(environment={"HTTPS_PROXY": proxy.url}).joined()


def test_proxy_that_is_not_for_this_address(world):
    world.machine.join(environment={"HTTPS_PROXY": DEAD_PROXY, "NO_PROXY": "example.org,127.0.0.0/8"}).joined()


def test_dead_proxy(world):
    world.machine.configure(world.server, timeout="5s")
    world.machine.join(environment={"HTTPS_PROXY": DEAD_PROXY}).failed("proxy-unreachable", 69)
    assert world.server.connections == []


def test_proxy_of_cluster_info(world):
    """No pin covers it, so cluster-info is fetched again; all later requests use this server."""
    proxy = world.closing(faults.Proxy())
    world.cluster.kubeconfig = lambda url: apiserver.kubeconfig(url, world.cluster.ca.pem, extra_cluster=f"    proxy-url: {proxy.url}\n")
    world.machine.join().joined()
    assert proxy.asked == [world.server.endpoint] and world.machine.handoff()["proxyURL"] == proxy.url
    assert world.server.kinds == ["cluster-info", "cluster-info", "create", "watch"]


def test_server_name_of_cluster_info(world):
    """The certificate is verified for that name, even if it does not contain the server's address."""
    other = world.endpoint(identity=world.cluster.ca.serving(["api.example.org"]))
    world.cluster.kubeconfig = apiserver.kubeconfig(other.url, world.cluster.ca.pem, extra_cluster="    tls-server-name: api.example.org\n")
    world.machine.join().joined()
    assert other.kinds == ["create", "watch"] and world.machine.handoff()["tlsServerName"] == "api.example.org"


def use_server_name(world, *names):
    """cluster-info has the configured endpoint with a server name, and the server a certificate for these names."""
    world.server.identity = world.cluster.ca.serving(names)
    world.cluster.kubeconfig = lambda url: apiserver.kubeconfig(url, world.cluster.ca.pem, extra_cluster="    tls-server-name: metrics.example.org\n")


def test_server_name_for_the_configured_endpoint(world):
    """No pin covers the name, so cluster-info is fetched again under the endpoint's own name."""
    use_server_name(world, "metrics.example.org", "127.0.0.1")
    world.machine.join().joined()
    assert world.server.kinds == ["cluster-info", "cluster-info", "create", "watch"]


def test_server_name_of_another_certificate_of_the_cluster(world):
    """Another holder of the token signs a cluster-info for a certificate of the same CA that is not the API server's."""
    use_server_name(world, "metrics.example.org")
    world.machine.configure(world.server, timeout="5s")
    run = world.machine.join().failed("tls-name-mismatch", 76)
    assert set(world.server.kinds) == {"cluster-info"} and no_credential(world, run) is None


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "CURL_CA_BUNDLE", "SSL_CERT_DIR"])
def test_environment_adds_no_trust(world, name):
    """Only the proven CA is trusted, whatever the environment names."""
    stranger = pki.CA()
    world.server.identity = stranger.serving()
    path = world.machine.path / "ca.pem"
    path.write_bytes(stranger.pem)
    world.machine.configure(world.server, timeout="5s")
    world.machine.join(environment={name: str(path.parent if name.endswith("DIR") else path)}).failed(*UNTRUSTED)
    assert no_credential(world, None) is None


def test_environment_of_the_tls_library(world):
    """It names no file for the keys of connections, and no configuration, such as this one, with which TLS would fail."""
    configuration, keys = world.machine.path / "openssl.cnf", world.machine.path / "keys"
    configuration.write_text("openssl_conf = a\n[a]\nssl_conf = b\n[b]\nsystem_default = c\n[c]\nGroups = secp521r1\nMaxProtocol = TLSv1.1\n")
    world.machine.join(environment={"SSLKEYLOGFILE": str(keys), "OPENSSL_CONF": str(configuration), "CURL_SSL_BACKEND": "schannel"}).joined()
    assert not keys.exists()


def test_attempt_cut_short_by_the_deadline(world):
    """The failure is that of the last complete attempt, not of the interrupted one."""
    seen = []

    def stall_later(connection):
        seen.append(connection)
        if len(seen) > 2:
            faults.stall_before_tls(connection)

    world.server.identity = pki.CA().serving()
    world.server.on_connect = stall_later
    world.machine.configure(world.server, timeout="8s")
    world.machine.join().failed(*UNTRUSTED, "gave up after 8 s")
    assert len(seen) > 2


# Clocks.

@pytest.mark.parametrize("clock", ["-1d", "-3y", "+20y"])
def test_wrong_clock(world, clock):
    """The machine's clock is wrong: the certificate is not blamed, and the join waits."""
    world.machine.configure(world.server, timeout="6s")
    run = world.machine.join(faketime=clock).failed("clock-wrong", 69, "clock")
    assert "tls-untrusted" not in run.codes and world.csrs() == []


def test_wrong_clock_after_an_outage(world):
    """An earlier failure of the same stage does not hide that the clock is wrong."""
    def reset_for_a_while(connection):
        """The early connection, and the one that replaces it."""
        if connection.number in (2, 3):
            faults.reset(connection)

    world.server.on_connect = reset_for_a_while
    world.machine.configure(world.server, timeout="6s")
    run = world.machine.join(faketime="-3y").failed("clock-wrong", 69, "clock")
    assert run.codes[0] == "endpoint-reset"


@pytest.mark.parametrize("clock", ["-5m", "+5m"])
def test_another_ca_and_a_clock_that_is_off(world, clock):
    """The certificate is valid by either clock but from another CA: an unverified Date header does not turn that into a wait for the clock."""
    world.server.identity = pki.CA("other").serving(start=-pki.DAY)
    world.machine.configure(world.server, timeout="6s")
    assert "clock-wrong" not in world.machine.join(faketime=clock).failed(*UNTRUSTED, "issued by 'CN=other'").codes


def test_wrong_date_of_the_server(world):
    """A wrong Date header from a verified server changes nothing."""
    world.server.clock_offset = -400 * pki.DAY
    world.machine.join().joined()


def test_clock_of_the_server_wrong_and_certificate_bad(world):
    """If the clocks agree, an expired certificate is reported as expired."""
    world.server.identity = world.cluster.ca.serving(start=-2 * pki.DAY, end=-pki.DAY)
    world.machine.configure(world.server, timeout="6s")
    assert "clock-wrong" not in world.machine.join().failed(*EXPIRED).codes


# Retrying.

def test_comes_up_later(world):
    """Refused connections first, then a server that starts up, then a good one."""
    world.server.on_connect = faults.flaky(2, faults.reset)
    world.server.on("cluster-info", faults.UNAVAILABLE, times=2)
    run = world.machine.join().joined()
    assert run.codes[:2] == ["endpoint-reset", "server-error"] and len(world.csrs()) == 1


@pytest.mark.parametrize("stage", ["discover", "connect"])
def test_no_process_for_a_connection(world, stage):
    """Waits while the limit on open files is reached, and then joins."""
    limits = []

    def limit(connection):
        if connection.number == 1:
            pid = world.machine.current().pid
            limits.append(resource.prlimit(pid, resource.RLIMIT_NOFILE))
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, limits[0][1]))
            if stage == "discover":
                costly(connection)

    costly = handshakes.huge_rsa()
    world.server.on_connect = limit
    run = world.machine.start_join()
    run.wait_until(lambda: "worker-unstartable" in run.codes)
    resource.prlimit(run.pid, resource.RLIMIT_NOFILE, limits[0])
    assert "Too many open files" in run.wait().joined().stderr


def test_reason_is_told_once(world):
    """Warns when the reason changes, not at each attempt; the status says what the join waits for."""
    world.server.on("cluster-info", faults.UNAVAILABLE)
    world.machine.configure(world.server, timeout="60s")
    run = world.machine.join(faketime="+0 x5").failed("server-error", 69)
    assert len(world.server.requests) > 3 and 1 <= run.codes.count("server-error") <= 2
    assert any(world.server.endpoint in status for status in run.statuses)


def test_retry_after(world):
    """Retry-After is obeyed up to a limit; an hour exceeds it."""
    world.server.on("cluster-info", faults.error(429, "TooManyRequests", "later", Retry_After="3600"), times=1)
    world.machine.configure(world.server, timeout="600s")
    world.machine.join(faketime="+0 x30").joined()


def test_confirm_takes_half_a_minute(world):
    """A verified server that refuses may not be up to date: the join retries for 30 s, then fails, even without a deadline."""
    world.server.on("create", faults.unauthorized)
    world.machine.configure(world.server, timeout=None)
    run = world.machine.join(faketime="+0 x10").failed("token-rejected", 77)
    assert len(world.server.seen("create")) >= 3 and run.seconds > 2
