# SPDX-License-Identifier: Apache-2.0
"""Unverified servers that cause work: the deadline, SIGTERM and the other endpoints do not wait for them."""

import signal
import subprocess
import time
from pathlib import Path

import pytest

from common import faults, machine
from common.failures import FAILURES
from common.machine import Case
from common.wait import until
from . import handshakes
from .processes import nobody_left, processes

pytestmark = pytest.mark.each_release
ATTACKS = {
    "RSA of 64 kbit": handshakes.huge_rsa(),
    "DHE of 64 kbit": handshakes.huge_dhe(),
    "a chain without an end": handshakes.huge_chain(),
    "silent after ServerHello": handshakes.silent_after_hello,
    "drip": handshakes.drip,
}
OUTCOMES = [(code, int(FAILURES[code]["exit"])) for code in ("endpoint-costly", "endpoint-reset", "endpoint-unreachable", "answer-malformed")]


def attack(action, first=1):
    def prepare(world):
        world.server.on_connect = handshakes.from_connection(first, action)
    return prepare


def elsewhere(world):
    """cluster-info names another server, so that it is fetched again over TLS that the pinned CA verifies."""
    other = world.endpoint()
    world.cluster.server = other.url
    return other


def attack_second_copy(action):
    """The attacker replays the real cluster-info, which anyone can read."""
    def prepare(world):
        elsewhere(world)
        attack(action, 2)(world)
    return prepare


def attack_server(action):
    """The server at the address that cluster-info names."""
    def prepare(world):
        elsewhere(world).on_connect = action
    return prepare


def beside(prepare_bad):
    """Two endpoints; the good one answers late, when the other one is in the middle of its handshake."""
    def prepare(world):
        good = world.endpoint()
        good.on("cluster-info", faults.slow(0.5), times=1)
        prepare_bad(world)
        return {"servers": [world.server, good], "timeout": "80s"}
    return prepare


class Waits(Case):
    """Ends at the deadline with a failure of class wait, and leaves no process."""

    def verify(self, world, run):
        assert (run.code, run.exit) in OUTCOMES, run.stderr
        nobody_left(world, run)


CASES = [
    *(Waits(f"{name}, at the {where}", prepare(action), None, 69, timeout="4s")
      for name, action in ATTACKS.items()
      for where, prepare in (("only endpoint", attack), ("second copy", attack_second_copy), ("server of cluster-info", attack_server))),
    *(Case(f"{name}, beside a good endpoint, at the {where}", beside(prepare(action)), None, 0, check=nobody_left)
      for name, action in ATTACKS.items() for where, prepare in (("first copy", attack), ("second copy", attack_second_copy))),
]


@pytest.mark.parametrize("case", CASES)
def test_handshake(played, case):
    played(case)


@pytest.fixture(scope="module")
def preloaded(tmp_path_factory):
    """tls_library.c, with which what GnuTLS takes long for takes long with OpenSSL as well."""
    library = tmp_path_factory.mktemp("library") / "tls_library.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, Path(__file__).with_name("tls_library.c"), "-ldl"], check=True)
    return machine.preloaded(library)


@pytest.mark.parametrize("first", [1, 2], ids=["first connection", "connection for the token"])
def test_what_costs_too_much_is_said(world, preloaded, first):
    attack(ATTACKS["RSA of 64 kbit"], first)(world)
    run = world.machine.start_join(environment=preloaded)
    run.wait_until(lambda: "endpoint-costly" in run.codes)
    run.signal(signal.SIGTERM)
    assert run.wait().exit == 143 and "took more than 1 s of CPU time" in run.stderr


def test_pause_after_costly_handshake(world, preloaded):
    """An earlier failure does not replace the costly handshake, after which the server is left alone for 10 s."""
    opened = []

    def reset_then_costly(connection):
        opened.append(time.monotonic())
        (faults.reset if len(opened) == 1 else ATTACKS["RSA of 64 kbit"])(connection)

    world.server.on_connect = reset_then_costly
    run = world.machine.start_join(environment=preloaded)
    until(lambda: len(opened) == 3, "there are three connections")
    assert opened[2] - opened[1] > 10
    run.signal(signal.SIGTERM)
    assert run.wait().exit == 143


@pytest.mark.parametrize("first", [1, 2], ids=["first connection", "connection for the token"])
def test_stopped_in_the_middle(world, first):
    attack(ATTACKS["RSA of 64 kbit"], first)(world)
    run = world.machine.start_join()
    until(lambda: any(getattr(connection, "is_bombed", False) for connection in world.server.connections), "the attack begins")
    run.signal(signal.SIGTERM)
    assert run.wait().exit == 143
    nobody_left(world, run)


def test_killed_in_the_middle(world):
    """Its workers end with it."""
    attack(ATTACKS["RSA of 64 kbit"])(world)
    run = world.machine.start_join()
    until(lambda: any(getattr(connection, "is_bombed", False) for connection in world.server.connections), "the attack begins")
    run.kill()
    until(lambda: processes(run) == [], "its processes end")


def test_library_that_returns_no_certificates(world, preloaded):
    """As some other TLS library of libcurl: nothing is sent to a server that cannot be verified."""
    world.machine.configure(world.server, timeout="3s")
    run = world.machine.join(environment={**preloaded, "TLS_LIBRARY": "no-certificates"}).failed("internal", 70, "does not return the server's certificates")
    assert set(run.codes) == {"internal"} and all("authorization" not in request.headers for request in world.server.requests)


def test_answer_that_the_kernel_has_received_before_its_status_is_read(world, preloaded):
    """It is compared with the limit for answers, which is above that for errors."""
    world.machine.configure(world.server)
    world.machine.join(environment={**preloaded, "RECEIVED": str(900 << 10)}).joined()
