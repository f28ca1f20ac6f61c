# SPDX-License-Identifier: Apache-2.0
"""The server that cluster-info names cannot be reached: the join waits for it, since kubelet will use it, and names it."""

import pytest

from common import faults

pytestmark = pytest.mark.each_release


def name_server(world, endpoint):
    world.cluster.server = f"https://{endpoint}"


def token_went_to(server):
    return {request.kind for request in server.requests if request.token_id or "authorization" in request.headers}


def waits_in_vain(world, code, endpoint):
    world.machine.configure(world.server, timeout="2s")
    world.machine.join().failed(code, 69, endpoint)
    assert set(world.server.kinds) == {"cluster-info"} and token_went_to(world.server) == set()


def test_black_hole(world):
    hole = world.closing(faults.BlackHole())
    name_server(world, hole.endpoint)
    waits_in_vain(world, "endpoint-unreachable", hole.endpoint)


def test_refusal(world):
    """Usually cluster-info has a wrong address, such as localhost."""
    dead = faults.dead_endpoint()
    name_server(world, dead)
    waits_in_vain(world, "endpoint-refused", dead)


def test_server_can_be_reached_later(world):
    late = world.closing(faults.BlackHole(world.endpoint_type(world.cluster)))
    name_server(world, late.endpoint)
    run = world.machine.start_join()
    run.wait_for_status("Waiting since")
    late.server.start()
    run.wait().joined()
    assert late.server.kinds == ["create", "watch"] and token_went_to(world.server) == set()


def test_only_this_server_gets_the_token(world):
    other = world.endpoint()
    name_server(world, other.endpoint)
    world.machine.join().joined()
    assert world.server.kinds == ["cluster-info"] * 2 and other.kinds == ["create", "watch"]
    assert len(world.server.connections) == 2 and len(other.connections) == 1
