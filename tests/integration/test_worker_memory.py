# SPDX-License-Identifier: Apache-2.0
"""What the process of a connection has: neither the token before the server is verified, nor the node's key."""

import os
import pathlib
import re

import pytest

import csrs
import faults
import pki
from join_methods import World
from machine import SECRET
from memory import processes_with

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


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
