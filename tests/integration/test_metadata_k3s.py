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


def handed_over(world):
    world.enter_cloud()
    world.machine.inspect().joined()
    world.machine.join().joined()
    return world.machine


def change(machine, **members):
    note = {**machine.handoff(), **members}
    machine.put_state("joined.json", json.dumps({name: value for name, value in note.items() if value is not None}))


def test_join(world):
    machine = handed_over(world)
    machine.install().joined()
    record = json.loads(machine.read(Machine.RECORD))
    assert (record["node"], record["metadata"], record["discovery"]) == (NODE, "aws", "cacerts")
    assert record["caCertHashes"] == ["sha256:" + world.cluster.k10(TOKEN)[3:67]]
    assert machine.inspect().joined().note["verdict"] == "usable"


def test_type_is_for_the_machine(world):
    """The node's password is made before metadata is read, so a token from there cannot select k3s."""
    world.local = {}
    world.configure(timeout="10s")
    world.enter_cloud()
    world.machine.inspect().joined()
    world.machine.join().failed("settings-incomplete", 78, "cluster.type: expected k3s in the settings on this machine")
    assert world.csrs() == [] and not world.machine.target(PASSWORD_FILE).exists()


@pytest.mark.parametrize("members, code, status", [({"k3sHash": "0" * 64}, "handoff-untrusted", 76), ({"k3sHash": None}, "handoff-untrusted", 76)],
                         ids=["another hash", "no hash"])
def test_hash(world, members, code, status):
    machine = handed_over(world)
    change(machine, **members)
    machine.install().failed(code, status)
    assert set(machine.target_names()) == {PASSWORD_FILE}


def test_pins_of_the_machine_hold(world):
    """A hash of another CA than the pinned one."""
    world.local = {**world.local, "discovery": {"caCertHashes": [world.cluster.ca.pin]}}
    world.configure()
    machine = handed_over(world)
    other = pki.CA("other")
    change(machine, ca=(other.pem + world.cluster.ca.pem).decode(), k3sHash=supervisor.hash_ca(other.pem + world.cluster.ca.pem, other.cert))
    machine.install().failed("handoff-untrusted", 76)
    assert set(machine.target_names()) == {PASSWORD_FILE}


def test_hash_of_more_than_the_pins(world):
    """`join` can provide any bundle with its hash: only the pinned CA in it is trusted."""
    world.local = {**world.local, "discovery": {"caCertHashes": [world.cluster.ca.pin]}}
    world.configure()
    machine = handed_over(world)
    bundle = pki.CA("other").pem + world.cluster.ca.pem
    change(machine, ca=bundle.decode(), k3sHash=supervisor.hash_ca(bundle))
    machine.install().joined()
    assert machine.read(Machine.CA_FILE) == world.cluster.ca.pem.decode()


def test_pins_of_the_machine_and_the_hash(world):
    world.local = {**world.local, "discovery": {"caCertHashes": [world.cluster.ca.pin]}}
    world.configure()
    handed_over(world).install().joined()
    assert world.machine.read(Machine.CA_FILE) == world.cluster.ca.pem.decode()


def test_hash_of_the_machine_holds(world):
    """After a token was delivered to the machine, metadata is ignored."""
    machine = handed_over(world)
    other = supervisor.K3s(tokens={TOKEN_ID: apiserver.Token(SECRET)}, passwords={"node": SERVER_SECRET})
    machine.set_credential("token", other.k10(TOKEN))
    world.configure(discovery={"endpoints": [world.server.endpoint]}, node={"name": NODE})
    machine.install().failed("handoff-untrusted", 76)
    assert set(machine.target_names()) == {PASSWORD_FILE}
