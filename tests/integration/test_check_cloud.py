# SPDX-License-Identifier: Apache-2.0
"""node-bootstrap check in a cloud: it contacts the servers that `join` would contact, and no others."""

import pytest

from common import metadata
from common.machine import NODE, TOKEN, TOKEN_ID
from .cloud import OTHER_TOKEN, CloudWorld, knows_the_cluster


@pytest.fixture
def world(tmp_path):
    world = CloudWorld(tmp_path)
    yield world
    world.close()
    world.check()


def check(world, code=None, is_decided=True):
    world.configure()
    run = world.machine.start("node-bootstrap", "check", "--local", f"--config-directory={world.machine.etc}").wait()
    assert run.exit == (1 if code else 0), run.stdout
    if code:
        assert f"  ✗ {code}: " in run.stdout
    else:
        assert "✗" not in run.stdout and ("  ✓ a join can start\n" in run.stdout) == is_decided
    assert world.server.connections == [], "a cluster was asked"
    return run.stdout


def test_user_data_and_a_narrower_token(world):
    world.local = {"metadata": {"nodeName": True}}
    world.enter_cloud(user_data=world.document(OTHER_TOKEN, node=None), token=TOKEN)
    world.machine.secrets.append(OTHER_TOKEN.split(".")[1])
    said = check(world)
    assert "  - recognised: Amazon EC2 (sys_vendor is 'Amazon EC2')\n  - querying Amazon EC2\n" in said
    assert "  - the user data of Amazon EC2: a NodeBootstrap document\n" in said
    assert f"  ✓ token: {TOKEN_ID}.**************** (instance tag 'node-bootstrap-token' of Amazon EC2)\n" in said
    assert f'  - discovery.endpoints: ["{world.server.endpoint}"] (the user data of Amazon EC2)\n' in said
    assert f'  - node.name: "{metadata.NODE}" (the metadata of Amazon EC2)\n' in said
    assert f"  - node name: {metadata.NODE} (the metadata of Amazon EC2)\n" in said


def test_no_user_data(world):
    world.enter_cloud(metadata.Hetzner, user_data=None)
    knows_the_cluster(world)
    assert "the metadata of Hetzner Cloud has nothing for node-bootstrap" in check(world, "token-missing")


def test_metadata_refused(world):
    world.enter_cloud().on("user-data", lambda request: metadata.error(403, "Forbidden"))
    assert "skipped: see above" in check(world, "metadata-refused")


def test_no_packet_with_a_token_credential(world):
    world.enter_cloud()
    world.machine.set_credential("token", TOKEN)
    world.local = {"discovery": {"endpoints": [world.server.endpoint], "caCertHashes": [world.cluster.ca.pin]}, "node": {"name": NODE}}
    packets = world.packets()
    assert "not queried: the identity is from credential 'node-bootstrap.token'" in check(world)
    assert packets.sent() == [] and world.cloud.connections == []
