# SPDX-License-Identifier: Apache-2.0
"""A k3s token in metadata: the hash in it identifies the cluster, and root has not seen it."""

import json

import pytest

from common import apiserver, pki, supervisor
from common.machine import NODE, SECRET, TOKEN, TOKEN_ID, Machine
from .cloud import CloudWorld
from .k3s import PASSWORD_FILE, SERVER_SECRET


class K3sCloudWorld(CloudWorld):
    server_type = supervisor.Supervisor

    def new_cluster(self):
        return supervisor.K3s(tokens={TOKEN_ID: apiserver.Token(SECRET)}, passwords={"node": SERVER_SECRET})

    def document(self, token=None, **changes):
        return super().document(token=token or self.cluster.k10(TOKEN), discovery={"endpoints": [self.server.endpoint]}, **changes)


@pytest.fixture
def world(tmp_path):
    world = K3sCloudWorld(tmp_path)
    world.machine.secrets = world.cluster.secrets()
    world.local = {"cluster": {"type": "k3s"}}
    world.configure()
    yield world
    world.close()
    world.check()


def handed_over(world, ca=None):
    """What a join has left, if it may lie about the CA, but for the metadata."""
    world.enter_cloud()
    world.machine.inspect().joined()
    world.machine.join().joined()
    if ca:
        world.machine.put_state("joined.json", json.dumps({**world.machine.handoff(), "ca": ca.decode()}))
    return world.machine


def install(world, token=None):
    """The next start finishes it, with what metadata says."""
    return world.machine.install_found(world.document(), token=token or world.cluster.k10(TOKEN))


def test_join(world):
    machine = world.machine
    world.enter_cloud()
    machine.unit().joined()
    record = json.loads(machine.read(Machine.RECORD))
    assert (record["node"], record["metadata"], record["joinMethod"]) == (NODE, "aws", "cacerts")
    assert record["caCertHashes"] == ["sha256:" + world.cluster.k10(TOKEN)[3:67]]
    assert machine.inspect().joined().note["verdict"] == "usable"


@pytest.mark.parametrize("sections", [{}, {"cluster": {"type": "k3s"}}], ids=["by the token", "by cluster.type"])
def test_type_from_metadata(world, sections):
    """The node's password is made once metadata is known."""
    world.local = {}
    world.configure()
    world.enter_cloud(user_data=world.document(**sections))
    world.machine.unit().joined()
    assert world.machine.target(PASSWORD_FILE).stat().st_mode & 0o777 == 0o600


def test_hash(world):
    """That of the token in metadata counts."""
    machine = handed_over(world)
    other = supervisor.K3s(tokens={TOKEN_ID: apiserver.Token(SECRET)}, passwords={"node": SERVER_SECRET})
    install(world, other.k10(TOKEN)).failed("handoff-untrusted", 76)
    assert set(machine.target_names()) == {PASSWORD_FILE}


def test_pins_of_the_machine_hold(world):
    """A hash of another CA than the pinned one."""
    world.local = {**world.local, "discovery": {"caCertHashes": [world.cluster.ca.pin]}}
    world.configure()
    other = pki.CA("other")
    bundle = other.pem + world.cluster.ca.pem
    machine = handed_over(world, bundle)
    install(world, f"K10{supervisor.hash_ca(bundle, other.cert)}::{TOKEN}").failed("handoff-untrusted", 76)
    assert set(machine.target_names()) == {PASSWORD_FILE}


def test_hash_of_more_than_the_pins(world):
    """`join` can provide any bundle with its hash: only the pinned CA in it is trusted."""
    world.local = {**world.local, "discovery": {"caCertHashes": [world.cluster.ca.pin]}}
    world.configure()
    bundle = pki.CA("other").pem + world.cluster.ca.pem
    machine = handed_over(world, bundle)
    install(world, f"K10{supervisor.hash_ca(bundle)}::{TOKEN}").joined()
    assert machine.read(Machine.CA_FILE) == world.cluster.ca.pem.decode()


def test_pins_of_the_machine_and_the_hash(world):
    world.local = {**world.local, "discovery": {"caCertHashes": [world.cluster.ca.pin]}}
    world.configure()
    handed_over(world)
    install(world).joined()
    assert world.machine.read(Machine.CA_FILE) == world.cluster.ca.pem.decode()


def test_hash_of_the_machine_holds(world):
    """After a token was delivered to the machine, metadata is ignored."""
    machine = handed_over(world)
    other = supervisor.K3s(tokens={TOKEN_ID: apiserver.Token(SECRET)}, passwords={"node": SERVER_SECRET})
    machine.set_credential("token", other.k10(TOKEN))
    world.configure(discovery={"endpoints": [world.server.endpoint]}, node={"name": NODE})
    machine.install().failed("handoff-untrusted", 76)
    assert set(machine.target_names()) == {PASSWORD_FILE}
