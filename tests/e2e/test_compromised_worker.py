# SPDX-License-Identifier: Apache-2.0
"""A server takes over the process of its connection at the first byte of TLS: what attack_worker.c tries in the real unit, by name."""

import re
import shutil
import socket

import pytest

from common.failures import FAILURES
from common.wait import until
from .harness import image
from .harness.node import STATE, UNIT

EINPROGRESS = 115
EACCES = 13
LIBRARY = "/usr/lib/attack_worker.so"
# The filter depends on what the libraries of a release call, Landlock on the kernel alone.
ABIS = [pytest.param(None, marks=pytest.mark.each_release), 2]


@pytest.fixture(scope="module")
def attacker(world):
    return image.library(world.release, world.work, "attack_worker", "-pthread")


@pytest.fixture
def hostile(cluster):
    """An endpoint that accepts connections and reads what the attack says."""
    made = socket.create_server((cluster.front.address, 0))
    made.settimeout(60)
    yield made
    made.close()


def preload(node, library, **environment):
    shutil.copy(library, node.path(LIBRARY))
    words = [f"LD_PRELOAD={LIBRARY}", *(f"{name}={value}" for name, value in environment.items() if value)]
    node.drop_in(UNIT, f"[Service]\nEnvironment={' '.join(words)}\n")


def attack(node, hostile, library, abi=None):
    """{name of the attack: error number}; the descriptors that the process has; the MiB that it could fill."""
    preload(node, library, ATTACK_LANDLOCK_ABI=abi)
    host, port = hostile.getsockname()[:2]
    node.prepare(endpoints=[f"{host}:{port}"], timeout="5m").enable(UNIT).boot("--unit=basic.target")
    node.begin()
    return read_results(hostile)


def read_results(hostile):
    connection, _ = hostile.accept()
    connection.settimeout(60)
    text = ""
    while not text.endswith("\nend\n"):
        piece = connection.recv(65536).decode()
        assert piece, f"the process ended after:\n{text}"
        text += piece
    results = dict(line.rsplit(": ", 1) for line in text.splitlines() if ": " in line and not line.startswith("descriptor"))
    descriptors = {int(a): int(b) for a, b in re.findall(r"descriptor: (\d+) (-?\d+)", text)}
    memory = int(results.pop("MiB of memory", 0))
    return connection, {name: int(number) for name, number in results.items()}, descriptors, memory


def assert_join_goes_on(node, before, lines):
    """Neither stopped nor killed, with its limits, and nothing is in the state directory or in the journal."""
    pid = node.join_pid()
    until(lambda: re.search(r"^State:\s+S", node.run("cat", f"/proc/{pid}/status").stdout, re.MULTILINE), "join sleeps until something happens")
    assert re.search(r"Max cpu time\s+unlimited", node.run("cat", f"/proc/{pid}/limits").stdout)
    assert sorted(p.name for p in node.path(STATE).iterdir()) == before
    assert len(node.entries()) <= lines + 5, "the attack cannot fill the journal"


@pytest.mark.parametrize("abi", ABIS, ids=["all that the kernel has", "Landlock of Linux 6.1"])
def test_every_attack_fails(node, hostile, attacker, abi):
    connection, results, descriptors, memory = attack(node, hostile, attacker, abi)
    with connection:
        possible = {name for name, number in results.items() if number == 0}
        assert not possible, f"possible: {sorted(possible)}"
        assert len(results) > 70
        # The filter refuses most calls. Opening to read is permitted; there Landlock refuses, which proves that it is in force.
        assert {results[f"read {what}"] for what in ("the token", "the settings", "a public file")} == {EACCES}
        assert {results[name] for name in results if name.startswith("connect to ") or name == "disconnect"} == {EINPROGRESS}
        # The standard streams, the socket to join, the connection and what libcurl uses to wake itself (a pair of sockets, or an
        # event descriptor); no CA, since it is not verified.
        assert {fd for fd, family in descriptors.items() if family == -1} == {0, 1, 2}, descriptors
        assert len([fd for fd, family in descriptors.items() if family == -2]) <= 1, descriptors
        assert set(descriptors.values()) - {-2} == {-1, socket.AF_UNIX, socket.AF_INET}, descriptors
        assert 16 < memory < 300
        assert_join_goes_on(node, [], len(node.entries()))
        main = node.show(UNIT, "MainPID")
    node.await_status("answer-malformed|endpoint-reset")
    assert node.show(UNIT, "MainPID") == main and node.show(UNIT, "NRestarts") == "0"


@pytest.mark.parametrize("abi", ABIS, ids=["all that the kernel has", "Landlock of Linux 6.1"])
def test_a_name_server_can_only_connect(node, cluster, hostile, attacker, abi):
    """It takes over the process while a name is resolved. The join goes on with the other endpoint."""
    host, port = hostile.getsockname()[:2]
    preload(node, attacker, ATTACK_LANDLOCK_ABI=abi, ATTACK_NAME="hostile.example", ATTACK_SERVER=f"{host}:{port}")
    node.prepare(endpoints=["hostile.example:6443", cluster.front.endpoint], timeout="5m").enable(UNIT).boot("--unit=basic.target")
    cluster.front.refuse()
    try:
        node.begin()
        connection, results, _, _ = read_results(hostile)
        node.await_status("endpoint-refused|endpoint-unreachable|Discovering|connect")
    finally:
        cluster.front.listen()
    with connection:
        possible = {name for name, number in results.items() if number == 0}
        assert not possible, f"possible: {sorted(possible)}"
        assert len(results) > 60
    assert node.await_end() == ("active", 0)


@pytest.mark.each_release
def test_landlock_is_in_force_or_nothing_starts(node, cluster):
    """A drop-in that refuses the calls is a failure of the installation, not a weaker sandbox."""
    node.drop_in(UNIT, "[Service]\nSystemCallFilter=~landlock_create_ruleset\n")
    node.prepare().enable(UNIT).boot("--unit=basic.target")
    node.join(check=False)
    assert node.await_end() == ("failed", 78)
    assert [e["NODE_BOOTSTRAP_CODE"] for e in node.entries() if "NODE_BOOTSTRAP_CODE" in e][-1] == "sandbox-refused"
    node.path(f"/etc/systemd/system/{UNIT}.d").rename(node.path("/etc/systemd/system/removed"))
    node.run("systemctl", "daemon-reload")
    node.join("restart")


def test_kernel_without_landlock(node, hostile, attacker):
    """One line says so, and the filter still holds: no other process, connection or file to write to."""
    connection, results, _, _ = attack(node, hostile, attacker, "none")
    with connection:
        possible = {name for name, number in results.items() if number == 0}
        # The token is in reach of every process of this user: what docs/security-design.md says about such a kernel.
        assert possible <= {"read the token", "read the settings", "read a public file"}
        assert len(node.journal("MESSAGE_ID=" + FAILURES["sandbox-partial"]["message-id"])) == 1
        until(lambda: node.show(UNIT, "MainPID") != "0", "the unit runs")
