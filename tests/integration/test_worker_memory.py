# SPDX-License-Identifier: Apache-2.0
"""What the process of a connection has: neither the token before the server is verified, nor the node's key."""

import os
import pathlib
import re
import signal
import subprocess
import time

import pytest

from common import csrs, faults, pki
from common.machine import SECRET
from common.wait import until
from .attackers import FAST
from .crash import WITHOUT_LEAK_DETECTION
from .join_methods import World
from .memory import processes_with

pytestmark = [pytest.mark.each_release, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]


@pytest.fixture
def world(tmp_path):
    world = World(tmp_path)
    world.configure(discovery={"endpoints": [world.server.endpoint], "caCertHashes": [world.cluster.ca.pin]})
    yield world
    world.close()
    world.check()


def is_join(pid):
    """The others are forked from the launcher, and are its siblings."""
    parent = re.search(r"^PPid:\t(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text(), re.M)[1]
    return pathlib.Path(f"/proc/{parent}/comm").read_text() != "node-bootstrap\n"


def holders(world, secrets):
    found = processes_with(secrets, world.machine.current().pid)
    return sorted({"join" if is_join(pid) else "another" for pid, name, _ in found if name == "node-bootstrap"})


def test_token_is_in_join_alone_until_a_server_is_verified(world):
    found, secret = [], f".{SECRET}".encode()     # the C library has a table of the same digits
    world.server.on("cluster-info", lambda request: found.append(holders(world, [secret])))
    world.machine.unit().joined()
    assert found[0] == ["join"]


def children_of(pid):
    return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def children_of_join(world):
    """The launcher, then the processes of connections. join is a child of the runner, the only child of install."""
    [runner] = children_of(world.machine.current().pid)
    return children_of(children_of(runner)[0])


def signal_launcher(world, number):
    """While the first connection is open, which is then lost."""
    def act(request):
        if not world.signalled:
            world.signalled = children_of_join(world)[0]
            os.kill(world.signalled, number)
            faults.reset(request.connection)
    world.signalled = None
    world.server.on("cluster-info", act)


def test_launcher_that_is_killed(world):
    """No connection can be made any more: join ends by a signal, after which systemd starts the service again."""
    signal_launcher(world, signal.SIGKILL)
    run = world.machine.unit()
    assert run.exit == -signal.SIGABRT and "something has ended the process that makes connections" in run.stderr


def test_launcher_that_answers_late(world):
    """The late answer is not taken for the next one: join ends each process of a connection, and no other."""
    def look(request):
        states.extend(re.search(r"^State:\t(\w)", pathlib.Path(f"/proc/{pid}/status").read_text(), re.M)[1] for pid in children_of_join(world))

    states = []
    signal_launcher(world, signal.SIGSTOP)
    world.server.on("create", look)
    run = world.machine.start_unit(faketime=FAST)
    run.wait_until(lambda: "worker-unstartable" in run.codes)
    os.kill(world.signalled, signal.SIGCONT)
    run.wait().joined()
    assert len(states) == 2 and "Z" not in states, "the launcher, and the process of this connection"


def test_launcher_that_gets_ready_late(world, strace):
    """join has read its settings long before, and waits. The processes of the connections are as slow."""
    late = [strace, "-f", "-qq", "-o", "/dev/null", "-e", "trace=getppid", "-e", "inject=getppid:delay_enter=500000:when=1"]
    world.machine.inspect().joined()
    world.machine.start(*world.machine.child_words("join", under=late), environment=WITHOUT_LEAK_DETECTION).wait().joined()


STRIKING = """
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
pid_t getppid(void) {
        if (!strcmp(program_invocation_short_name, "node-bootstrap") && open(getenv("STRUCK"), O_CREAT | O_EXCL, 0600) >= 0)
                raise(atoi(getenv("SIGNAL")));
        return (pid_t)syscall(SYS_getppid);
}
"""


def start_struck(world, number):
    """join, whose launcher gets this signal before it is ready."""
    library, struck = world.machine.path / "striking.so", world.machine.path / "struck"
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", library], input=STRIKING, text=True, check=True)
    run = world.machine.start_join(faketime=FAST, environment={"LD_PRELOAD": str(library), "STRUCK": str(struck), "SIGNAL": str(int(number))})
    until(struck.exists, "the launcher is struck")
    return run


def test_launcher_that_is_killed_before_it_is_ready(world):
    """join ends by a signal, as when the launcher is killed later, so that systemd starts it again: the kernel may have killed it for lack of memory."""
    run = start_struck(world, signal.SIGKILL).wait()
    assert run.exit == -signal.SIGABRT and "something has ended the process that makes connections" in run.stderr


def test_launcher_that_stands_still(world):
    """Before it is ready, for longer than any time limit: join waits."""
    run = start_struck(world, signal.SIGSTOP)
    time.sleep(70 / 10)
    [launcher] = children_of(run.pid)
    os.kill(launcher, signal.SIGCONT)
    run.wait().joined()


def test_key_is_in_join_alone(world):
    """Also in a process that is forked after the key exists, since the first connection was lost."""
    found = {}

    def look(request):
        key = pki.load_key((world.machine.state / "pending.key").read_bytes())
        secrets = [pki.key_pem(key).splitlines()[1], key.private_numbers().private_value.to_bytes(32, "big")]
        found.setdefault(request.kind, []).append(holders(world, secrets))
        if len(found[request.kind]) < 3:
            faults.reset(request.connection)

    world.cluster.controller = csrs.approve(after=1)
    for kind in ("list", "watch", "get"):
        world.server.on(kind, look)
    world.machine.unit().joined()
    assert sum(map(len, found.values())) >= 3, "no connection was opened again"
    assert {tuple(names) for some in found.values() for names in some} == {("join",)}
