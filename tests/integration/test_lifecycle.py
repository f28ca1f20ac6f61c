# SPDX-License-Identifier: Apache-2.0
"""Start and end: SIGTERM, SIGKILL at each stage, deadlines, and what `status` prints afterwards."""

import json
import os
import signal
import time

import pytest

from common import apiserver, csrs, faults, pki
from common.machine import NODE, SECRET, TOKEN, TOKEN_ID, TOKEN_SOURCE, Case, Machine, node_kubeconfig
from common.wait import until
from .installed import status

LEEWAY = 0.3


# SIGTERM.

def waits_for_connection(world):
    world.server.on_connect = faults.reset
    return "endpoint-reset"


def waits_for_answer(world):
    world.server.on("cluster-info", faults.stall)
    return None


def waits_for_signature(world):
    world.cluster.tokens[TOKEN_ID].signs = False
    return "signature-missing"


def waits_for_server(world):
    world.server.on("create", faults.UNAVAILABLE)
    return "server-error"


def waits_for_approval(world):
    """The cause is not asserted: with a fast clock the API server may or may not answer in time."""
    world.cluster.controller = csrs.never
    world.server.on("review", faults.forbidden)
    return "csr-pending"


def waits_for_poll(world):
    waits_for_approval(world)
    world.server.on("watch", faults.forbidden)
    return "csr-pending"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
@pytest.mark.parametrize("prepare", [waits_for_connection, waits_for_answer, waits_for_signature, waits_for_server, waits_for_approval, waits_for_poll],
                         ids=lambda prepare: prepare.__name__)
def test_stopped(world, prepare, number):
    """Ends at once, does not count as joined, and the next start continues with the same key."""
    line = prepare(world)
    run = world.machine.start_join()
    if line:
        run.wait_for_line(line)
    else:
        until(lambda: world.server.requests, "a request comes", pause=0.01)
    run.signal(number)
    assert run.wait().exit == 143, run.stderr
    assert "stopped before" in run.stderr and run.codes[1:] == []
    assert not (world.machine.state / "joined.json").exists()
    world.machine.install().failed("handoff-missing", 65)

    key = world.machine.state / "pending.key"
    before = key.read_bytes() if key.exists() else None
    world.server.on_connect = None
    world.server.on("any", faults.healthy)
    world.cluster.tokens[TOKEN_ID].signs = True
    world.cluster.controller = csrs.approve()
    for name in world.csrs():
        csrs.approve()(world.cluster, name)
    world.machine.join().joined()
    assert before in (None, key.read_bytes()) and len(world.csrs()) == 1


# SIGKILL at each stage.

def kill_now(world):
    def action(request):
        run = world.machine.current()
        os.kill(run.pid, signal.SIGKILL)
        run.wait()
    return action


def kill_after(world):
    """The server completes the request, and the machine dies before the answer."""
    def action(request):
        reply = request.connection.server.healthy(request)
        kill_now(world)(request)
        return reply
    return action


KILLS = [
    ("at cluster-info", "cluster-info", kill_now),
    ("before the request is made", "create", kill_now),
    ("after the request is made", "create", kill_after),
    ("at the watch", "watch", kill_now),
]


@pytest.mark.parametrize("kind, action", [row[1:] for row in KILLS], ids=[row[0] for row in KILLS])
def test_killed(world, kind, action):
    """The next start finishes the join, and there is one request for this node."""
    world.server.on(kind, action(world), times=1)
    assert world.machine.start_join().wait().exit == -signal.SIGKILL
    world.machine.unit().joined()
    assert len(world.csrs()) == 1 and world.machine.inspect().note["verdict"] == "usable"


def test_killed_again_and_again(world):
    """Killed at each request in turn, until one start completes."""
    world.cluster.controller = csrs.never
    for kind in ("cluster-info", "create", "watch", "create", "watch"):
        world.server.on(kind, kill_after(world), times=1)
        assert world.machine.start_join().wait().exit == -signal.SIGKILL
    csrs.approve()(world.cluster, world.csrs()[0])
    world.machine.unit().joined()
    assert len(world.csrs()) == 1


def test_killed_while_pending_then_approved(world):
    world.cluster.controller = csrs.never
    run = world.machine.start_join()
    name, = world.cluster.csrs.wait_for()
    time.sleep(LEEWAY)
    run.kill()
    csrs.approve()(world.cluster, name)
    world.machine.unit().joined()
    assert world.csrs() == [name]


def test_killed_before_the_installer(world):
    """joined.json is there, the machine reboots: the next start does not ask again, or asks for the same."""
    world.machine.join().joined()
    key = (world.machine.state / "pending.key").read_bytes()
    world.machine.unit().joined()
    assert len(world.csrs()) == 1
    assert pki.spki(pki.load_key(key).public_key()) == pki.spki(world.machine.installed_identity()[0][0].public_key())


def test_later_start_with_an_expired_certificate(world):
    """The certificate of an old request was issued meanwhile and has expired: a new request is created automatically."""
    world.cluster.controller = csrs.never
    run = world.machine.start_join()
    name, = world.cluster.csrs.wait_for()
    run.kill()
    csrs.approve(csrs.with_changes(start=-2 * pki.DAY, end=-pki.DAY))(world.cluster, name)
    world.cluster.controller = csrs.approve()
    world.machine.join().joined()
    assert len(world.csrs()) == 2


# Deadlines.

def until_then(world, run):
    assert run.seconds > 2.9


DEADLINES = [
    Case("unreachable", waits_for_connection, "endpoint-reset", 69),
    Case("no answer", waits_for_answer, "endpoint-unreachable", 69),
    Case("no signature", waits_for_signature, "signature-missing", 69),
    Case("server not ready", waits_for_server, "server-error", 69),
    Case("pending", waits_for_approval, "csr-pending", 75),
    Case("pending, by polling", waits_for_poll, "csr-pending", 75),
]
for case in DEADLINES:
    case.words, case.check, case.faketime, case.settings = ("30 s",), until_then, "+0 x10", {"timeout": "30s"}


@pytest.mark.parametrize("case", DEADLINES)
def test_deadline(played, case):
    played(case)


def test_no_deadline(world):
    """infinity, the default: still waiting after more than ten minutes of machine time."""
    world.cluster.controller = csrs.never
    world.machine.configure(world.server, timeout=None)
    run = world.machine.start_join(faketime="+0 x40")      # with a faster one, a busy computer might not finish a handshake within 10 s
    run.wait_for_status("waiting for approval")
    time.sleep(16)
    assert run.is_running()
    csrs.approve()(world.cluster, world.csrs()[0])
    run.wait().joined()


def test_refusals_hours_apart(world):
    """A rejection caused by a race is retried each time, however long ago the last one was."""
    world.cluster.controller = csrs.never
    world.server.on("watch", faults.error(405, "MethodNotAllowed", "no"))
    world.machine.configure(world.server, timeout=None)
    run = world.machine.start_join(faketime="+0 x30")
    for _ in range(2):
        seen = len(world.server.seen("get"))
        world.server.on("get", faults.forbidden, times=1)
        end = time.monotonic() + 60
        while len(world.server.seen("get")) < seen + 4 and time.monotonic() < end:
            time.sleep(0.05)
        time.sleep(1.5)     # 45 s to the machine
        assert run.is_running(), run.stderr
    assert run.is_running(), run.stderr
    csrs.approve()(world.cluster, world.csrs()[0])
    run.wait().joined()


# Nobody is flooded.

def watch_answered(action):
    def prepare(world):
        world.cluster.controller = csrs.never
        world.server.on("watch", action)
    return prepare


def deleted_again_and_again(world):
    world.cluster.controller = csrs.delete()
    world.server.on("watch", faults.WATCH_ENDS)


def few_requests(world, run):
    assert len(world.server.requests) < 40, f"{len(world.server.requests)} requests in 4 s"
    assert len(world.server.seen("create")) < 12


PENDING = ("csr-pending", 75)
FLOODS = [
    Case("watch that always ends at once", watch_answered(faults.WATCH_ENDS), *PENDING, csrs=1),
    Case("watch that always says 410", watch_answered(faults.WATCH_EXPIRED), *PENDING, csrs=1),
    Case("watch with one bookmark", watch_answered(faults.watch_bookmarks_only), *PENDING, csrs=1),
    Case("watch that is not JSON", watch_answered(faults.watch_events(b"pong\n")), *PENDING, csrs=1),
    Case("watch that hangs up", watch_answered(faults.hang_up_instead), *PENDING, csrs=1),
    Case("watch of others", watch_answered(faults.watch_of_others), *PENDING, csrs=1),
    Case("deleted again and again", deleted_again_and_again, *PENDING),
]
for case in FLOODS:
    case.check, case.settings = few_requests, {"timeout": "4s"}


@pytest.mark.parametrize("case", FLOODS)
def test_polite(played, case):
    """A failing server is contacted rarely: a waiting fleet must not overload it."""
    played(case)


# status

def test_status_of_a_joined_machine(world):
    world.machine.unit().joined()
    machine = world.machine
    run = status(machine)
    assert run.exit == 0
    for words in (NODE, "system:nodes", "system:node:" + NODE, "kubernetes", world.server.url, world.cluster.ca.pin, TOKEN_ID, TOKEN_SOURCE):
        assert words in run.stdout, f"{words!r} is not in:\n{run.stdout}"
    assert SECRET not in run.stdout and TOKEN not in run.stdout


def test_status_for_programs(world):
    world.machine.unit().joined()
    found = json.loads(status(world.machine, "--json").stdout)
    assert found["joined"] is True and found["node"] == NODE and found["server"] == world.server.url and found["tokenID"] == TOKEN_ID
    assert found["tokenSource"] == TOKEN_SOURCE and found["caFileHashes"] == [world.cluster.ca.pin] and found["refreshedAt"] is None
    certificate = found["certificate"]
    assert certificate["subject"] and certificate["issuer"]
    assert certificate["notBefore"] < certificate["renewalFrom"] < certificate["renewalUntil"] < certificate["notAfter"]


# What `status` says of a certificate that is good for a year, by the clock; options, exit status, state, words.
VALIDITY = [
    ("in its middle", "+180d", [], 0, "valid", "Renewed: by kubelet"),
    ("expired", "+400d", [], 2, "expired", "EXPIRED: since "),
    ("not yet valid", "-30d", [], 2, "not-yet-valid", "NOT VALID: not yet; this machine's clock"),
    ("checked in its middle", "+180d", ["--monitor"], 0, "valid", "OK: joined"),
    ("checked two months before its end", "+320d", ["--monitor=60d"], 3, "expiring", "EXPIRING: joined"),
    ("checked two months before its end, for a week", "+320d", ["--monitor=7d"], 0, "valid", "OK: joined"),
    ("checked when kubelet should have renewed it", "+340d", ["--monitor=7d"], 3, "valid", "RENEWAL OVERDUE: joined"),
    ("checked and expired", "+400d", ["--monitor"], 2, "expired", "EXPIRED: the client certificate expired at "),
    ("checked and not yet valid", "-30d", ["--monitor"], 2, "not-yet-valid", "NOT YET VALID: joined, but this machine's clock is wrong"),
]


def test_status_tells_whether_the_certificate_is_valid(world):
    world.machine.unit().joined()
    for name, clock, options, exit_status, state, words in VALIDITY:
        run = status(world.machine, *options, faketime=clock)
        assert run.exit == exit_status and words in run.stdout, f"{name}: {run.exit}, {run.stdout}"
        assert ("EXPIRED" in run.stdout) is (state == "expired") and ("Renewed" in run.stdout) is (not options and state != "expired"), name
        if options:
            assert run.stdout.count("\n") == 1 and NODE in run.stdout, name
        run = status(world.machine, "--json", *options, faketime=clock)
        assert (run.exit, json.loads(run.stdout)["certificate"]["state"]) == (exit_status, state), name


def test_status_check_with_a_damaged_record(world):
    """The certificate names its node."""
    world.machine.unit().joined()
    world.machine.put(Machine.RECORD, "{")
    run = status(world.machine, "--monitor")
    assert run.exit == 0 and run.stdout.startswith("OK: ") and f"system:node:{NODE}" in run.stdout


def test_status_check_of_a_fresh_machine(machine):
    run = status(machine, "--monitor")
    assert run.exit == 1 and run.stdout.startswith("NOT JOINED: ") and run.stdout.count("\n") == 1
    for words in (["--monitor=soon"], ["--monitor=-1d"]):
        status(machine, *words).failed("usage", 64, "'--monitor'")


def test_status_of_a_fresh_machine(machine):
    run = status(machine)
    assert run.exit == 1 and "not joined" in run.stdout


def test_status_of_a_machine_that_kubeadm_joined(machine, cluster):
    """There is no record, but kubelet has what it needs."""
    machine.put_joined_before(cluster.ca.node(NODE), "https://192.0.2.10:6443", ca=cluster.ca)
    machine.put(Machine.KUBECONFIG, node_kubeconfig("https://192.0.2.10:6443", paths=[str(machine.target(Machine.CURRENT))] * 2))
    run = status(machine)
    assert run.exit == 0 and "State: joined" in run.stdout and f"system:node:{NODE}" in run.stdout


def test_status_with_an_escape_sequence_in_the_record(world):
    """Control characters in the record do not reach the terminal."""
    world.machine.unit().joined()
    path = world.machine.target(Machine.RECORD)
    path.write_text(path.read_text().replace(world.server.url, "https://\\u001b[2J.example.org"))
    run = status(world.machine)
    assert "\x1b" not in run.stdout + run.stderr


def put_link(path):
    path.symlink_to("nowhere")


def put_text(text):
    return lambda path: path.write_text(text)


@pytest.mark.parametrize("path, make", [(Machine.CURRENT, put_link), (Machine.CURRENT, os.mkdir), (Machine.CURRENT, put_text("x"))],
                         ids=["certificate is not there", "certificate is a folder", "certificate is none"])
def test_status_of_what_cannot_be_read(world, path, make):
    """The text mentions neither the network side nor an attack."""
    world.machine.unit().joined()
    target = world.machine.target(path)
    target.unlink()
    make(target)
    run = status(world.machine)
    assert run.exit == 1 and ": not joined: " in run.stdout and target.name in run.stdout and "explain join-needed" in run.stdout
    assert "network side" not in run.stderr + run.stdout


def test_second_endpoint_in_the_record(world):
    """The verified endpoint is shown, not the first one."""
    world.machine.configure(world.server, endpoints=[faults.dead_endpoint(), world.server.endpoint])
    world.machine.join().joined()
    assert world.machine.handoff()["endpoint"] == world.server.endpoint


def test_two_machines_at_once(world, tmp_path):
    """Two nodes with one token: two requests, two certificates."""
    (tmp_path / "second").mkdir()
    second = Machine(tmp_path / "second")
    second.configure(world.server, node="node-2")
    runs = [world.machine.start_join(), second.start_join()]
    for run in runs:
        run.wait().joined()
    names = sorted(pki.subject(pki.load_certs(machine.handoff()["certificate"].encode())[0])[1][0] for machine in (world.machine, second))
    assert names == ["system:node:node-1", "system:node:node-2"] and len(world.csrs()) == 2


def test_ipv6(world):
    """An IPv6 endpoint, with brackets wherever it is shown."""
    server = apiserver.ApiServer(world.cluster, ("::1", 0), identity=world.cluster.ca.serving(["::1"])).start()
    world._more.append(server)
    world.machine.configure(server)
    world.machine.unit().joined()
    assert f"https://[::1]:{server.port}" in world.machine.read(Machine.KUBECONFIG)
