# SPDX-License-Identifier: Apache-2.0
"""The connection for the token: opened by TCP while discovery waits for its answer, and used only after the server is verified."""

import os
import signal
import socket
import subprocess
import threading

import pytest

from common import faults
from common.machine import preloaded
from common.wait import PATIENCE, until
from .processes import nobody_left, workers

pytestmark = pytest.mark.each_release
EARLY = 2           # the number of the connection


def hold(action=lambda request: None):
    """Answers cluster-info only after the early connection was made."""
    def held(request):
        until(lambda: len(request.connection.server.connections) >= EARLY, "the early connection is made")
        return action(request)
    return held


def early(action):
    def on_connect(connection):
        if connection.number == EARLY:
            action(connection)
    return on_connect


def is_silent(connection):
    """Nothing has arrived; the other end is open."""
    connection.sock.setblocking(False)
    try:
        connection.sock.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    finally:
        connection.sock.setblocking(True)
    return False


def test_nothing_is_sent_before_the_server_is_verified(world):
    silent, ready = [], threading.Event()

    def wait_for_answer(connection):
        ready.wait(PATIENCE)

    def look(request):
        silent.append(is_silent(world.server.connections[EARLY - 1]))
        ready.set()

    world.server.on_connect = early(wait_for_answer)
    world.server.on("cluster-info", hold(look))
    run = world.machine.join().joined()
    assert silent == [True] and [request.connection.number for request in world.server.requests] == [1, 2, 2, 2]
    assert len(world.server.connections) == 2 and run.codes == []


@pytest.mark.parametrize("action", [faults.hang_up, faults.reset])
def test_closed_at_once(world, action):
    world.server.on_connect = early(action)
    run = world.machine.join().joined()
    assert len(world.server.connections) == 3 and run.codes == []


def test_closed_while_it_is_idle(world):
    """The server closes idle connections sooner than discovery ends."""
    def outlive(request):
        connection = world.server.connections[EARLY - 1]
        assert is_silent(connection)
        connection.sock.shutdown(socket.SHUT_RDWR)

    world.server.on_connect = early(lambda connection: world.server.stopping.wait(0.5))
    world.server.on("cluster-info", hold(outlive))
    run = world.machine.join().joined()
    assert [request.connection.number for request in world.server.requests] == [1, 3, 3, 3] and run.codes == []


def test_closed_again(world):
    """The connection that replaces it is not replaced again: the stage waits, as after any failure."""
    world.server.on_connect = lambda connection: connection.number in (2, 3) and faults.reset(connection)
    run = world.machine.join().joined()
    assert len(world.server.connections) == 4 and run.codes == ["endpoint-reset"]


def test_accepted_and_never_answered(world):
    world.server.on_connect = early(faults.stall_before_tls)
    world.machine.configure(world.server, timeout="600s")
    run = world.machine.join(faketime="+0 x4").joined()
    assert len(world.server.connections) == 3 and run.codes == ["endpoint-unreachable"]


def test_worker_is_killed(world):
    def kill(request):
        until(lambda: len(workers(world.machine.current())) == 2, "there are two workers")
        os.kill(workers(world.machine.current())[1], signal.SIGKILL)
        until(lambda: len(workers(world.machine.current())) == 1, "one worker is left")

    world.server.on("cluster-info", hold(kill))
    run = world.machine.join().joined()
    assert [request.connection.number for request in world.server.requests] == [1, 3, 3, 3] and run.codes == []


def test_stopped_meanwhile(world):
    world.server.on_connect = early(faults.stall_before_tls)
    world.server.on("cluster-info", hold(faults.stall))
    run = world.machine.start_join()
    until(lambda: len(world.server.connections) == EARLY, "the early connection is made")
    run.signal(signal.SIGTERM)
    assert run.wait().exit == 143
    nobody_left(world, run)


def test_not_used_for_another_server(world):
    """cluster-info names another endpoint: the early connection ends, without a byte."""
    other, ended = world.endpoint(), threading.Event()

    def await_end(connection):
        assert connection.sock.recv(1) == b""
        ended.set()
        faults.hang_up(connection)

    world.cluster.server = other.url
    world.server.on_connect = early(await_end)
    world.server.on("cluster-info", hold())
    world.machine.configure(world.server, other)
    world.machine.join().joined()
    assert ended.wait(PATIENCE) and len(world.server.connections) == 2 and other.kinds == ["create", "watch"]


def test_second_copy_uses_it(world):
    """The next verified connection is that for the second copy of cluster-info."""
    other = world.endpoint()
    world.cluster.server = other.url
    world.server.on("cluster-info", hold(), times=1)
    world.machine.join().joined()
    assert [request.connection.number for request in world.server.requests] == [1, 2] and other.kinds == ["create", "watch"]


def test_only_in_the_first_attempt(world):
    """A server that starts up is not burdened: each attempt uses the first connection again."""
    world.server.on("cluster-info", hold(faults.UNAVAILABLE), times=3)
    world.machine.join().joined()
    assert [request.connection.number for request in world.server.requests] == [1, 1, 1, 1, 3, 3, 3]


def test_liar_gets_nothing(world):
    liar, received = world.endpoint(world.stranger()), []

    def await_end(connection):
        received.append(connection.sock.recv(1))
        faults.hang_up(connection)

    liar.on_connect = early(await_end)
    liar.on("cluster-info", hold())
    world.machine.configure(liar, world.server, pins=[world.cluster.ca.pin])
    world.machine.join().joined()
    until(lambda: received == [b""], "the early connection ends")
    assert set(liar.kinds) == {"cluster-info"}


REFUSING = """
#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
int setrlimit64(__rlimit_resource_t resource, const struct rlimit64 *limit) {
        if (resource == RLIMIT_NPROC && access(getenv("REFUSED"), F_OK) == 0)
                return errno = EPERM, -1;
        return (int)syscall(SYS_prlimit64, 0, resource, limit, NULL);
}
"""


def test_second_step_of_the_sandbox_is_refused(world):
    """After the early connection is made: the request is not sent without it."""
    library, refused = world.machine.path / "refusing.so", world.machine.path / "refused"
    subprocess.run(["cc", "-shared", "-fPIC", "-D_GNU_SOURCE", "-x", "c", "-", "-o", library], input=REFUSING, text=True, check=True)

    def refuse(connection):
        if connection.number < EARLY:
            connection.sock.recv(1, socket.MSG_PEEK)        # its own process is in the second step
            refused.touch()

    world.machine.configure(world.server, timeout="6s")
    world.server.on_connect = refuse
    world.server.on("cluster-info", hold())
    environment = {**preloaded(library), "REFUSED": str(refused)}
    world.machine.join(environment=environment).failed("sandbox-refused", 78)
    assert world.server.kinds == ["cluster-info"] and not world.server.connections[EARLY - 1].tls
