# SPDX-License-Identifier: Apache-2.0
"""First an attacker answers, later the real server: after any answer of an unverified peer the join waits, says why, and then joins.

The attackers are the rows of the tables that describe such answers elsewhere, so that a new row is played here as well, and every
behaviour of faults.py. Each plays until an ordinary confirmation would have been over.
"""

import inspect

import pytest

import faults
import metadata
import test_cluster_info
import test_discovery_url
import test_endpoints
import test_k3s
import test_metadata
import test_metadata_data
import test_trust
from cloud import CloudCase
from k3s import K3sCase
from machine import FAILURES, TOKEN, Case, World
from ways import World as WaysWorld

FAST = "+0 x10"
# With pauses of at most 5 s that are at least half of what they may be, 16 attempts of one endpoint take longer than 30 s.
ATTEMPTS = 16
# Nobody answered: nothing was said, and an attempt takes until its timeout.
UNANSWERED = {code for code in FAILURES if code.startswith("endpoint-")} | {"metadata-unreachable"}
# Whoever signed it knows the token.
EVIDENCE = {"ca-pin-mismatch", "cluster-info-unacceptable"}


class Play:
    """First the attacker of a row, then the right cluster at the same addresses."""

    def __init__(self, row):
        self.row, self.name = row, row.name

    def play(self, path):
        path.mkdir()
        world = self.row.world(path)
        try:
            real = self.real(world)
            changes = self.row.prepare(world)
            settings = {**(changes if isinstance(changes, dict) else {}), **self.row.settings, "timeout": "infinity"}
            settings.pop("faketime", None)
            servers = settings.pop("servers", None) or [world.server]
            world.configure(*servers, **{**self.pins(real), **settings})
            run = self.start(world, real)
            run.wait_for_attempts(self.attempts(len(getattr(world.machine, "endpoints", [None]))))
            self.verify_waiting(world, run)
            self.recover(world, real)
            run.wait().joined()
        finally:
            world.close()
        world.machine.check_secret()

    def attempts(self, n_endpoints):
        return 2 if self.row.code in UNANSWERED else ATTEMPTS * n_endpoints

    def verify_waiting(self, world, run):
        assert run.is_running(), run.stderr
        # Where much else runs, the first attempts may end at a time limit, with another code.
        run.wait_until(lambda: self.is_explained(run, self.code(world, run)))
        assert len(run.codes) <= 2 * len(set(run.codes)), f"expected each reason once or twice:\n{run.stderr}"
        assert not any(server.seen("create") or server.seen("client-kubelet") for server in (world.server, *world._more))

    @staticmethod
    def is_explained(run, code):
        return code in run.codes and any(f"node-bootstrap explain {code}" in status for status in run.statuses)

    def code(self, world, run):
        return self.row.code

    def pins(self, real):
        return {"pins": [real.ca.pin]}

    def real(self, world):
        """An unchanged copy of this cluster."""
        real = world.new_cluster()
        real.ca, real.signer, real.bundle = world.cluster.ca, world.cluster.signer, [world.cluster.ca.pem]
        return real

    def start(self, world, real):
        return world.machine.start_join(faketime=FAST)

    def recover(self, world, real):
        for server in (world.server, *world._more):
            hostile = server.cluster
            server.become(real)
            hostile.stop()


class K3sPlay(Play):
    def pins(self, real):
        return {}

    def real(self, world):
        real = super().real(world)
        real.cacerts = world.cluster.cacerts
        return real

    def code(self, world, run):
        """The attacker's answer may match only the row's token."""
        is_other = self.row.code not in run.codes and world.cluster.k10(TOKEN) != world.k10
        return "ca-hash-mismatch" if is_other else self.row.code

    def start(self, world, real):
        """Even if the row has created a token for the attacker's answer, the machine has that of the real cluster."""
        world.k10 = real.k10(TOKEN)
        world.machine.set_credential("token", real.k10(TOKEN))
        world.machine.inspect().joined()
        return super().start(world, real)


class UrlPlay(Play):
    """The attacker replaces the web server that has the document."""

    def pins(self, real):
        return {}

    def recover(self, world, real):
        world.web.become(world.web.cluster)
        world.web.on("any", faults.answer(world.document(), Content_Type="text/yaml"))


class CloudPlay(Play):
    def play(self, path):
        path.mkdir()
        world = self.row.world(path)
        try:
            self.row.prepare(world)
            world.configure(timeout="infinity")
            world.machine.inspect().joined()
            run = world.machine.start_join(faketime=FAST)
            run.wait_for_attempts(self.attempts(1))
            self.verify_waiting(world, run)
            self.recover(world, None)
            run.wait().joined()
            world.machine.install().joined()
            world.assert_joined(self.row.node)
        finally:
            world.close()
        world.machine.check_secret()

    def recover(self, world, real):
        if world.cloud is None:
            world.enter_cloud()
        else:
            world.cloud.become(user_data=world.document().encode())


def plays(play, rows, *left_out):
    """The rows of a table that fail without evidence; `left_out` names rows that are not answers, or not of a peer that can change."""
    names = {row.name for row in rows}
    assert names >= set(left_out), f"no such row: {set(left_out) - names}"
    return [play(row) for row in rows if row.code and row.code not in EVIDENCE and row.name not in left_out]


CLUSTER_INFO = [
    *plays(Play, test_cluster_info.SIGNATURES),
    *plays(Play, test_endpoints.CONNECTIONS, "nobody listens", "no answer to the connection", "name that does not resolve"),
    *plays(Play, test_endpoints.ANSWERS),
    # The pin is that of the expired CA.
    *plays(Play, test_endpoints.TLS, "the proven CA has expired", "another CA of the name of the proven one, which has expired"),
    *plays(Play, test_endpoints.ELSEWHERE, "to where nobody listens"),
    *plays(Play, test_trust.TRUST),
]
# The machine of the second row has a CA file that no server can prove; the others are about its clock, and about an address without a server.
URLS = plays(UrlPlay, test_discovery_url.WHO, "another CA", "one that the system's CAs do not know", "nobody",
             "a certificate that a clock of before this program takes for a future one")
CACERTS = plays(K3sPlay, test_k3s.BAD_CACERTS, "liar before a dead endpoint")
METADATA = [
    *plays(CloudPlay, test_metadata.FAULTS, "no route"),
    *plays(CloudPlay, test_metadata_data.FORMS),
    *plays(CloudPlay, test_metadata_data.FORBIDDEN),
    *plays(CloudPlay, [row for row in test_metadata.rows() if row.name.endswith("nothing there")]),
]


@pytest.mark.parametrize("case", CLUSTER_INFO)
def test_cluster_info(played, case):
    played(case)


@pytest.mark.parametrize("case", URLS)
def test_url(played, case):
    played(case)


@pytest.mark.parametrize("case", CACERTS)
def test_cacerts(played, case):
    played(case)


@pytest.mark.parametrize("case", METADATA)
def test_metadata_service(played, case):
    played(case)


# What faults.py has, each name once. How a behaviour is brought about: for a request, at connect, in TLS.

HELPERS = {"healthy", "in_turn", "flaky", "Proxy", "BlackHole", "dead_endpoint", "shut_down"}
MADE = {    # name -> the arguments of functions that return an action
    "answer": ("<html>", 200), "error": (403, "Forbidden", "no"), "redirect": ("https://192.0.2.1/",), "forbidden_to": ("system:anonymous",),
    "edited": (lambda obj: obj.clear(),), "rewritten": (lambda body: body[::-1],), "announced": (1 << 30,), "large": (2 << 20,), "deep": (10000,),
}
HARMLESS = {"with_headers", "slow"}             # the answer is the healthy one
VERIFIED = {name for name in vars(faults) if name.startswith(("watch_", "WATCH_"))}     # asked with the token, over verified TLS
CONNECTIONS = {"stall_before_tls", "reset", "hang_up", "plain_http", "garbage_before_tls"}


def behaviours():
    """Everything public that is defined in faults.py, and no helper."""
    found = {name for name, value in vars(faults).items() if not name.startswith("_") and not inspect.ismodule(value)
             and getattr(value, "__module__", "faults") == "faults"}
    assert found > HELPERS | set(MADE) | HARMLESS | VERIFIED | CONNECTIONS
    return sorted(found - HELPERS - HARMLESS - VERIFIED)


def action(name):
    value = getattr(faults, name)
    return value(*MADE[name]) if name in MADE else value


def fault(name, kind):
    def prepare(world):
        if name in CONNECTIONS:
            world.server.on_connect = action(name)
        elif name == "old_tls":
            world.server.tls_options = faults.old_tls
        else:
            world.server.on(kind, action(name))
    return prepare


class AnyCode:
    """Another test asserts the code."""

    def attempts(self, n_endpoints):
        return 2 if self.name in CONNECTIONS | {"old_tls", "announced", "cut", "drip", "hang_up_instead", "stall", "stall_after_headers"} else ATTEMPTS

    def verify_waiting(self, world, run):
        assert run.is_running(), run.stderr
        run.wait_until(lambda: run.codes)


class FaultPlay(AnyCode, Play):
    pass


class K3sFaultPlay(AnyCode, K3sPlay):
    pass


BEHAVIOURS = [play(row(name, fault(name, kind), "answer-malformed", 0)) for name in behaviours()
              for play, row, kind in ((FaultPlay, Case, "cluster-info"), (K3sFaultPlay, K3sCase, "cacerts"))]


@pytest.mark.parametrize("case", BEHAVIOURS)
def test_behaviour(played, case):
    played(case)


# What node-bootstrap-platform.service has read does not come from the network, so it is evidence.

def volume(user_data):
    return lambda world: world.find_platform(volume="cidata", user_data=user_data)


LOCAL_ROWS = [
    CloudCase("nothing on a volume", volume("#!/bin/sh\n"), "token-missing", 66, timeout="infinity"),
    CloudCase("a volume that is malformed", volume("#cloud-config\nnode_bootstrap: ["), "metadata-malformed", 65, timeout="infinity"),
]


@pytest.mark.parametrize("case", LOCAL_ROWS)
def test_evidence_is_final(played, case):
    played(case)


# A proxy on the way, which has proven nothing either.

class RudeProxy(faults.Proxy):
    def __init__(self, words):
        super().__init__()
        self.words = words

    def _serve(self, client):
        if self.words is None:
            super()._serve(client)
            return
        with client:
            client.recv(65536)
            self.asked.append(self.words)
            client.sendall(self.words)


PROXY_ANSWERS = {
    "nothing": b"", "another protocol": b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "no status": b"HTTP/1.1 two hundred\r\n\r\n",
    "another version of HTTP": b"HTTP/9.9 200 OK\r\n\r\n", "wants a login": b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n",
    "page of a portal": b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html>Guest Wi-Fi</html>",
    "redirect": b"HTTP/1.1 302 Found\r\nLocation: https://192.0.2.1/\r\n\r\n", "length out of range": b"HTTP/1.1 407 No\r\nContent-Length: " + b"9" * 40 + b"\r\n\r\n",
    "large header": b"HTTP/1.1 407 No\r\nX-Filler: " + b"A" * 90000 + b"\r\n\r\n", "many headers": b"HTTP/1.1 407 No\r\n" + b"X-Filler: A\r\n" * 20000 + b"\r\n",
}


class ProxyPlay:
    """Discovery by a file verifies its first connection; discovery by token does not."""

    def __init__(self, name, words, world):
        self.name, self.words, self.world = name, words, world

    def play(self, path):
        path.mkdir()
        world = self.world(path)
        try:
            proxy = world.closing(RudeProxy(self.words))
            if self.world is WaysWorld:
                world.configure(timeout="infinity", discovery={"file": world.give("cluster-info.conf", world.document())})
            else:
                world.configure(timeout="infinity")
            run = world.machine.start_join(faketime=FAST, environment={"https_proxy": proxy.url, "no_proxy": ""})
            run.wait_for_attempts(ATTEMPTS)
            assert run.is_running() and proxy.asked and not world.server.connections
            proxy.words = None
            run.wait().joined()
        finally:
            world.close()
        world.check()


@pytest.mark.parametrize("case", [ProxyPlay(f"{way}: {name}", words, world) for name, words in PROXY_ANSWERS.items()
                                  for way, world in (("token", World), ("file", WaysWorld))])
def test_proxy(played, case):
    played(case)
