# SPDX-License-Identifier: Apache-2.0
"""What install reports about a start in last.json, how long the stages took according to the record, and the connections in the journal."""

import json
import signal
import stat

import pytest

from common import apiserver, csrs, faults
from common.failures import FAILURES
from common.machine import NODE, SECRET, TOKEN_ID, Machine, World
from common.wait import until
from .journal import LoggingMachine

NAME = "cp.example.org"
ID = {"INVOCATION_ID": "0123456789abcdef" * 2}
STAGES = ["prepare", "metadata", "discover", "connect", "node", "request", "await", "handoff", "install"]


@pytest.fixture
def told(world):
    """last.json of the machine, as a function; None without it."""
    folder = world.machine.target("run/node-bootstrap")
    folder.mkdir(parents=True)
    path = folder / "last.json"

    def read():
        return json.loads(path.read_text()) if path.exists() else None

    read.path = path
    return read


def found(told, *keys):
    last = told() or {}
    return tuple(last.get(key) for key in keys)


def test_a_join(world, told):
    world.machine.unit(environment=ID).joined()
    assert found(told, "version", "invocation", "state", "code", "detail") == (1, ID["INVOCATION_ID"], "joined", None, None)
    assert stat.S_IMODE(told.path.stat().st_mode) == 0o644
    world.machine.unit().joined()
    assert found(told, "state", "invocation") == ("kept", None), "the next start found that it had joined"


def test_how_long_the_stages_took(world):
    world.machine.unit().joined()
    record = json.loads(world.machine.read(Machine.RECORD))
    spans = {key.removesuffix("Usec"): value for key, value in record.items() if key.endswith("Usec")}
    assert {"prepare", "discover", "node", "request", "await", "install"} <= spans.keys() <= set(STAGES) and min(spans.values()) > 0
    assert sum(spans.values()) < 20_000_000


def test_a_wait(world, told):
    """With its name, and since when."""
    world.cluster.controller = csrs.never
    run = world.machine.start_unit()
    until(lambda: found(told, "code") == ("csr-pending",), lambda: f"it waits: {told()}", pause=0.01)
    name, = world.csrs()
    assert found(told, "state", "csr", "node") == ("joining", name, NODE) and f"'{name}' is waiting for approval" in told()["detail"]
    until(lambda: any(told()["since"][11:19] in status for status in run.statuses if status.startswith("Waiting")), "the status has the same time")
    run.signal(signal.SIGINT)
    run.wait()
    assert found(told, "state", "code") == ("failed", "stopped")


def test_a_wait_that_is_over(world, told):
    """Nothing is left of it, but how long it took."""
    world.cluster.tokens.pop(TOKEN_ID)
    run = world.machine.start_unit()
    until(lambda: found(told, "state", "code") == ("joining", "signature-missing"), lambda: f"it waits: {told()}", pause=0.01)
    world.cluster.tokens[TOKEN_ID] = apiserver.Token(SECRET)
    run.wait().joined()
    assert found(told, "state", "code", "detail") == ("joined", None, None)
    assert json.loads(world.machine.read(Machine.RECORD))["discoverUsec"] > 100_000


def test_a_failure(world, told):
    world.configure(pins=["sha256:" + "0" * 64])
    world.machine.unit().failed("ca-pin-mismatch", 76)
    assert found(told, "state", "code") == ("failed", "ca-pin-mismatch") and "sha256:" in told()["detail"]


def test_a_failure_of_the_installer(world, told):
    """Before join runs."""
    world.machine.write_settings("kind: Misspelt\n")
    run = world.machine.unit()
    assert run.exit != 0 and found(told, "state", "code") == ("failed", run.code)


def test_a_failure_that_is_ignored(world, told):
    machine, ca = world.machine, world.cluster.ca
    machine.put_joined_before(ca.node(NODE), world.server.url, ca=ca)
    machine.write_settings("kind: Misspelt\n")
    run = machine.unit()
    assert run.exit == 0 and found(told, "state", "code") == ("kept", run.code)


# What the program does in place of `join`; exit status, and what is told then.
PROGRAMS = [
    ("says nothing", "exit 77", 77, ("failed", "internal", "join ended with exit status 77")),
    ("lies", r"printf 'x\nCODE=csr-denied\nDETAIL=a\033[2Jb\nSINCE=99999999999\nstate=joined\n' >&3; exit 77", 77, ("failed", "csr-denied", "a [2Jb")),
    ("invents a code", r"printf 'x\nCODE=evil\nDETAIL=x\n' >&3; exit 77", 77, ("failed", "internal", "join ended with exit status 77")),
    ("says too much", "head -c 60000 /dev/zero | tr '\\0' '\\n' >&3; exit 77", 77, ("failed", "internal", "join ended with exit status 77")),
]


@pytest.mark.parametrize("row", PROGRAMS, ids=[row[0] for row in PROGRAMS])
def test_a_hostile_join(world, told, row):
    _, text, status, expected = row
    program = world.machine.path / "program"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    run = world.machine.start("install", *world.machine.install_words(f"--program={program}")).wait()
    assert run.exit == status and found(told, "state", "code", "detail") == expected
    assert told()["since"] < "2100"


def test_a_join_that_is_killed(world, told):
    """It cannot report that, but systemd knows it."""
    program = world.machine.path / "program"
    program.write_text("#!/bin/sh\nkill -KILL $$\n")
    program.chmod(0o755)
    run = world.machine.start("install", *world.machine.install_words(f"--program={program}")).wait()
    assert run.exit == -signal.SIGKILL and found(told, "state", "code") == ("joining", None)


@pytest.mark.parametrize("what", ["no folder", "a link to another folder", "a folder in its place"])
def test_what_cannot_be_told_prevents_no_join(world, told, what):
    folder = told.path.parent
    if what == "a folder in its place":
        (told.path / "x").mkdir(parents=True)
    else:
        folder.rmdir()
    if what == "a link to another folder":
        (world.machine.path / "other").mkdir()
        folder.symlink_to(world.machine.path / "other")
    world.machine.unit().joined()
    assert not (world.machine.path / "other/last.json").exists()


class Local(faults.Proxy):
    """Resolves every name to this machine."""

    @staticmethod
    def resolve(_):
        return "127.0.0.1"


class LoggingWorld(World):
    machine_type = LoggingMachine

    def join(self, server=None, **environment):
        """Joins; the journal's codes, and its connections: for each stage their fields."""
        self.configure(server or self.server)
        run = self.machine.join(environment=environment)
        assert (run.exit, run.stderr) == (0, "")
        connections, codes = {}, []
        for _, fields in self.machine.journal.read():
            codes.append(fields.get("NODE_BOOTSTRAP_CODE"))
            if fields.get("MESSAGE_ID") == FAILURES["connected"]["message-id"]:
                own = {key.removeprefix("NODE_BOOTSTRAP_"): value for key, value in fields.items()}
                connections.setdefault(own["STAGE"], []).append(own)
        return codes, connections

    def by_name(self):
        (self.machine.path / "hosts").write_text(f"127.0.0.1 localhost {NAME}\n")
        server = self.endpoint(identity=self.cluster.ca.serving([NAME]))
        server.host = NAME
        return server


@pytest.fixture
def logging_world(tmp_path):
    world = LoggingWorld(tmp_path)
    yield world
    world.close()
    world.check()


@pytest.mark.parametrize("is_name, proxy, has_resolved", [
    (True, None, True), (False, None, False), (False, NAME, True), (True, "127.0.0.1", False),
], ids=["name", "address", "address, by a proxy with a name", "name, by a proxy with an address"])
def test_connections_in_the_journal(logging_world, is_name, proxy, has_resolved):
    named = logging_world.by_name()
    server = named if is_name else logging_world.server
    environment = {"HTTPS_PROXY": logging_world.closing(Local()).url.replace("127.0.0.1", "me:secret@" + proxy)} if proxy else {}
    _, made = logging_world.join(server, **environment)
    assert {stage: len(connections) for stage, connections in made.items()} == {"discover": 1, "node": 1}
    for [connection] in made.values():
        assert connection["ENDPOINT"] == server.endpoint and ("RESOLVE_USEC" in connection) == has_resolved
        steps = [int(connection.get(f"{step}_USEC", 1)) for step in ("RESOLVE", "TCP", "TLS")]
        assert min(steps) > 0 and sum(steps) <= int(connection["AGE_USEC"]) + 1, connection
    assert logging_world.machine.handoff()["discoverUsec"] >= int(made["discover"][0]["TLS_USEC"])


def test_the_second_copy_is_a_connection_of_its_own(logging_world):
    """cluster-info names another server than the endpoint it came from."""
    logging_world.cluster.server = logging_world.by_name().url
    _, made = logging_world.join()
    assert [[c["ENDPOINT"].split(":")[0] for c in made[stage]] for stage in ("discover", "node")] == [["127.0.0.1", "127.0.0.1"], [NAME]]


def test_a_reused_connection_is_logged_once(logging_world):
    """cluster-info is not signed at first; when it is, the answer comes over the connection that is there."""
    logging_world.cluster.tokens.pop(TOKEN_ID)
    logging_world.server.on("cluster-info", lambda _: logging_world.cluster.tokens.setdefault(TOKEN_ID, apiserver.Token(SECRET)) and None, skip=1)
    codes, made = logging_world.join()
    assert "signature-missing" in codes and len(made["discover"]) == 1
    assert logging_world.machine.handoff()["discoverUsec"] > 100_000, "with the pause, of 100 ms at least"


@pytest.mark.parametrize("words, expected", [(["now"], "(3 characters)"), (["--plot"], "unknown option: argument")], ids=["a word", "an option"])
def test_wrong_words(machine, words, expected):
    machine.status(*words).failed("usage", 64, expected)
