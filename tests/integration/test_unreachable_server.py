# SPDX-License-Identifier: Apache-2.0
"""The server that cluster-info names cannot be reached: the join goes on through the endpoint that discovery has verified."""

import signal

import pytest

from common import csrs, faults
from common.wait import until
from .processes import nobody_left

pytestmark = pytest.mark.each_release
WARNING = "but kubelet will use the server in cluster-info"


def name_server(world, endpoint):
    world.cluster.server = f"https://{endpoint}"


def token_went_to(server):
    return {request.kind for request in server.requests if request.token_id or "authorization" in request.headers}


def joined_through_endpoint(world, run, copies):
    kinds = [kind for kind in world.server.kinds if kind != "version"]
    assert kinds == ["cluster-info"] * copies + ["create", "watch"] and run.stderr.count(WARNING) == 1
    assert world.machine.handoff()["server"] == world.cluster.server


def test_black_hole_that_is_no_endpoint(world):
    name_server(world, world.closing(faults.BlackHole()).endpoint)
    joined_through_endpoint(world, world.machine.join().joined(), 2)


def test_black_hole_that_is_an_endpoint(world):
    hole = world.closing(faults.BlackHole())
    name_server(world, hole.endpoint)
    world.machine.configure(world.server, endpoints=[world.server.endpoint, hole.endpoint])
    joined_through_endpoint(world, world.machine.join().joined(), 1)


def test_endpoint_that_tls_does_not_verify(world):
    """Its answer was signed and pinned, but its certificate is for another name: it gets nothing."""
    hole = world.closing(faults.BlackHole())
    name_server(world, hole.endpoint)
    world.server.identity = world.cluster.ca.serving(["kubernetes"])
    world.machine.configure(world.server, endpoints=[world.server.endpoint, hole.endpoint], timeout="3s")
    world.machine.join().failed("endpoint-unreachable", 69, hole.endpoint)
    assert set(world.server.kinds) == {"cluster-info"} and token_went_to(world.server) == set()


def test_reachable_server_is_used(world):
    """A connection within 250 ms: the endpoint is not asked again."""
    other = world.endpoint()
    name_server(world, other.endpoint)
    world.machine.join(faketime="+0 x0.1").joined()
    assert world.server.kinds == ["cluster-info"] * 2 and other.kinds == ["create", "watch"]
    assert len(world.server.connections) == 2 and len(other.connections) == 1


def test_connections_to_the_endpoint_are_lost(world):
    """The server is chosen again after each of them, but the journal says so once."""
    name_server(world, world.closing(faults.BlackHole()).endpoint)
    world.server.on("create", faults.hang_up_instead, times=4)
    run = world.machine.join().joined()
    assert world.server.kinds.count("version") == 3 and run.stderr.count(WARNING) == 1


def test_deadline_while_the_endpoint_is_silent(world):
    hole = world.closing(faults.BlackHole())
    name_server(world, hole.endpoint)
    world.server.on("version", faults.stall)
    world.machine.configure(world.server, timeout="1s")
    run = world.machine.join(faketime="+0 x0.5").failed("endpoint-unreachable", 69, hole.endpoint)
    assert run.seconds < 3 / 0.5, "OTHER_MAX_MS in stages.c"


def test_refusal_is_an_answer(world):
    """Usually cluster-info has a wrong address, such as localhost: the join says so, and waits."""
    name_server(world, faults.dead_endpoint())
    world.machine.configure(world.server, timeout="2s")
    world.machine.join().failed("endpoint-refused", 69)
    assert set(world.server.kinds) == {"cluster-info"}


def test_endpoint_dies_and_the_server_can_be_reached(world):
    late = world.closing(faults.BlackHole(world.endpoint_type(world.cluster)))
    name_server(world, late.endpoint)
    world.cluster.controller = csrs.never
    run = world.machine.start_join()
    until(lambda: world.server.seen("watch"), "the machine watches")
    late.server.start()
    world.server.close()
    until(lambda: late.server.seen("watch"), "the machine watches at the other server")
    csrs.approve()(world.cluster, world.csrs()[0])
    run.wait().joined()


def test_stopped_while_the_endpoint_is_silent_as_well(world):
    name_server(world, world.closing(faults.BlackHole()).endpoint)
    world.server.on("version", faults.stall)
    run = world.machine.start_join()
    until(lambda: world.server.seen("version"), "the version is requested")
    run.signal(signal.SIGTERM)
    assert run.wait().exit == 143
    nobody_left(world, run)


def test_both_are_silent(world):
    """The endpoint is given a few seconds; then the server in cluster-info is waited for, and named."""
    hole = world.closing(faults.BlackHole())
    name_server(world, hole.endpoint)
    world.server.on("version", faults.stall)
    world.machine.configure(world.server, timeout="20s")
    world.machine.join(faketime="+0 x10").failed("endpoint-unreachable", 69, hole.endpoint)
    assert {"create", "watch"}.isdisjoint(world.server.kinds)
