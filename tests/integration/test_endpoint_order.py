# SPDX-License-Identifier: Apache-2.0
"""The endpoints are asked one after the other: each is given 250 ms before the next one is asked as well."""

import re

import pytest

from common import faults
from common.wait import until

pytestmark = pytest.mark.each_release
DELAY = 0.25        # NEXT_AFTER_MS in race.c
SLOW = "+0 x0.2"     # a busy machine stops for longer than 250 ms
CONNECT_TIMEOUT = 5     # what an endpoint that is waited for costs, at the least


def discovered_after(run):
    """Seconds of the stage."""
    return int(re.search(r"discover: .* \((\d+) ms\)", run.stderr)[1]) / 1000


def test_only_the_first_endpoint_is_asked(world):
    others = [world.endpoint() for _ in range(3)]
    world.machine.configure(world.server, *others)
    world.machine.join(faketime=SLOW).joined()
    assert world.server.kinds[0] == "cluster-info" and [other.connections for other in others] == [[], [], []]


def test_black_hole_first(world):
    hole, last = world.closing(faults.BlackHole()), world.endpoint()
    world.machine.configure(world.server, endpoints=[hole.endpoint, world.server.endpoint, last.endpoint])
    run = world.machine.join().joined()
    assert DELAY <= discovered_after(run) < CONNECT_TIMEOUT and last.requests == []


def test_slow_endpoint_continues(world):
    """It answers before the second one does, which was asked meanwhile."""
    other = world.endpoint()
    world.server.on("cluster-info", faults.slow(2 * DELAY), times=1)
    other.on("cluster-info", faults.stall)
    world.machine.configure(world.server, other)
    run = world.machine.join().joined()
    assert other.kinds == ["cluster-info"] and discovered_after(run) < CONNECT_TIMEOUT


def test_refusals_are_not_waited_for(world):
    """16 endpoints, of which only the last one works."""
    dead = [faults.dead_endpoint() for _ in range(15)]
    world.machine.configure(world.server, endpoints=[*dead, world.server.endpoint])
    assert discovered_after(world.machine.join().joined()) < 15 * DELAY


def test_silence_of_all_but_the_last(world):
    silent = [world.endpoint() for _ in range(15)]
    for server in silent:
        server.on_connect = faults.stall_before_tls
    world.machine.configure(world.server, endpoints=[*(server.endpoint for server in silent), world.server.endpoint])
    assert 15 * DELAY <= discovered_after(world.machine.join().joined()) < 15 * DELAY + CONNECT_TIMEOUT
    assert [len(server.connections) for server in silent] == [1] * 15


def test_deadline_is_near(world):
    """Each endpoint is asked before it."""
    silent = [world.server, *(world.endpoint() for _ in range(15))]
    for server in silent:
        server.on_connect = faults.stall_before_tls
    world.machine.configure(*silent, timeout="2s")
    world.machine.join(faketime=SLOW).failed("endpoint-unreachable", 69, world.server.endpoint)
    until(lambda: [len(server.connections) for server in silent] == [1] * 16, "each is asked once")    # the last ones may be accepted after its end
