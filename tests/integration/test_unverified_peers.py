# SPDX-License-Identifier: Apache-2.0
"""After any answer of an unverified peer the join waits, and joins when the real server answers: every behaviour of faults.py, and proxies.

The rows of tables are played where the tables are: test_waits_for_the_real_server, in several files. See attackers.py.
"""

import inspect

import pytest

from common import faults
from common.machine import Case, World
from .attackers import ATTEMPTS, FAST, K3sPlay, Play
from .cloud import CloudCase
from .join_methods import World as MethodWorld
from .k3s import K3sCase

pytestmark = pytest.mark.each_release


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
             and getattr(value, "__module__", faults.__name__) == faults.__name__}
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


# A proxy in between, which has proven nothing either.

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
            if self.world is MethodWorld:
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


@pytest.mark.parametrize("case", [ProxyPlay(f"{method}: {name}", words, world) for name, words in PROXY_ANSWERS.items()
                                  for method, world in (("token", World), ("file", MethodWorld))])
def test_proxy(played, case):
    played(case)
