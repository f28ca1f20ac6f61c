# SPDX-License-Identifier: Apache-2.0
"""Where metadata does not apply, no packet is sent for it; and what the installer accepts from it."""

import json
import os
import socket

import pytest

from common import metadata, pki
from common.machine import HEADER, NODE, TOKEN, Machine, to_yaml
from .cloud import PLATFORM, CloudWorld

METADATA = [metadata.LINK_LOCAL, metadata.Aws.address6, metadata.Alibaba.address]
NOTE = "metadata.yaml"


@pytest.fixture
def world(tmp_path):
    world = CloudWorld(tmp_path)
    yield world
    world.close()
    world.check()


@pytest.fixture
def machine(world):
    return world.machine


def settings(world, **sections):
    """All settings, without the token."""
    return {"discovery": {"endpoints": [world.server.endpoint], "caCertHashes": [world.cluster.ca.pin]}, "node": {"name": NODE}, **sections}


def configure(world, mode=0o644, **sections):
    world.machine.write_settings(HEADER + to_yaml(settings(world, **sections)))
    path = world.machine.etc / "config.yaml"
    path.chmod(mode)
    world.machine.secret_files.append(path)


# Not a packet.

def credential(world):
    configure(world)
    world.machine.set_credential("token", TOKEN)


def other_credential(world):
    configure(world)
    world.machine.set_credential("tls-bootstrap-token", TOKEN)
    world.machine.set_credential("token", TOKEN)


def token_in_settings(world):
    configure(world, 0o600, bootstrap={"token": TOKEN})


def join_configuration(world):
    text = ("apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\n" +
            to_yaml({"discovery": {"bootstrapToken": {"apiServerEndpoint": world.server.endpoint, "token": TOKEN, "caCertHashes": [world.cluster.ca.pin]}},
                     "nodeRegistration": {"name": NODE}}))
    world.machine.set_credential("config", text)


@pytest.mark.parametrize("give", [credential, other_credential, token_in_settings, join_configuration], ids=lambda give: give.__name__.replace("_", " "))
def test_token_on_the_machine(world, give):
    """A machine in a cloud that has its token from elsewhere only contacts the API server."""
    (world.machine.etc / "config.yaml").unlink()
    give(world)
    cloud = world.enter_cloud(user_data="#!/bin/sh\n")
    packets = world.packets()
    world.machine.unit().joined()
    world.assert_joined()
    sent = packets.sent()
    assert (world.server.host, world.server.port) in sent, "the packets are seen"
    assert [address for address, _ in sent if address in METADATA] == []
    assert {address for address, _ in sent} == {world.server.host}
    assert cloud.connections == []


@pytest.mark.parametrize("provider", ["auto", "none"])
def test_no_cloud(world, machine, provider):
    """No packet is sent outside of a cloud, or with metadata.provider: none."""
    configure(world, metadata={"provider": provider})
    if provider == "auto":
        world.namespace.set_dmi(sys_vendor="Dell Inc.", product_name="PowerEdge R650", chassis_asset_tag="Not Specified", bios_vendor="Dell Inc.")
        world.namespace.reach(metadata.LINK_LOCAL)
    else:
        world.enter_cloud()
    packets = world.packets()
    run = machine.unit().failed("token-missing", 66, "node-bootstrap.token")
    assert ("cloud" in run.stderr) == (provider == "auto")
    assert packets.sent() == []
    machine.start("node-bootstrap", "check", f"--config-directory={machine.etc}").wait()
    assert packets.sent() == []


def test_no_dmi(world, machine):
    """The machine has no /sys/class/dmi/id."""
    configure(world)
    packets = world.packets()
    machine.unit().failed("token-missing", 66)
    assert packets.sent() == []


def test_cloud_is_asked(world, machine):
    """The same machine without the credential sends packets, so the counter works."""
    configure(world)
    cloud = world.enter_cloud(user_data=None, token=TOKEN)
    packets = world.packets()
    machine.unit().joined()
    assert (metadata.LINK_LOCAL, 80) in packets.sent() and cloud.requests


def test_end_of_an_earlier_connection(world):
    """The counter ignores a server that is still closing a connection from before."""
    def connect():
        with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
            accepted, _ = server.accept()
            client.shutdown(socket.SHUT_WR)
            packets = world.packets()
            accepted.close()
            assert client.recv(1) == b""
            sent = packets.sent()
            with socket.create_connection(server.getsockname()):
                return sent, packets.sent(), server.getsockname()
    before, after, address = world.namespace.within(connect)
    assert before == [] and after == [address]


def test_no_proxy(world, machine):
    """Metadata requests ignore the proxy of the environment, which does not exist."""
    cloud = world.enter_cloud()
    proxy = {name: "http://192.0.2.1:3128" for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy")}
    run = machine.unit(environment={**proxy, "no_proxy": world.server.host})
    assert len(cloud.seen("user-data")) == 1, run.stderr
    run.joined()


# Volumes and guestinfo: node-bootstrap-platform.service has read them, and the network is not asked.

CONFIG_DRIVE = json.dumps({"uuid": "8bb7a1c9-0d4f-4c47-a6f1-c5ad0c1d8a6a", "name": metadata.NODE, "meta": {metadata.TOKEN_KEY: TOKEN}})
SEED = f"instance-id: i-1\nlocal-hostname: {metadata.NODE}\n"


@pytest.mark.parametrize("found, title, has_name", [
    ({"volume": "config-2", "meta_data": CONFIG_DRIVE}, "OpenStack", True),
    ({"volume": "config-2", "user_data": TOKEN, "meta_data": "{}"}, "OpenStack", False),
    ({"volume": "cidata", "user_data": TOKEN, "meta_data": SEED}, "NoCloud", True),
    ({"dataSource": "nocloud", "volume": "cidata", "user_data": TOKEN}, "NoCloud", False),
    ({"hasGuestinfo": True, "token": TOKEN}, "VMware", False),
    ({"hasGuestinfo": True, "user_data": TOKEN}, "VMware", False),
], ids=["config drive", "config drive, user data", "NoCloud", "NoCloud, no meta-data", "guestinfo, token", "guestinfo, user data"])
def test_platform(world, machine, found, title, has_name):
    """User data with the token has the settings too. The child reads copies: it cannot access the folder itself."""
    if found.get("user_data") == TOKEN:
        found = {**found, "user_data": world.document(node=None if has_name else {"name": NODE})}
    else:
        world.local = settings(world) if not has_name else {"discovery": settings(world)["discovery"]}
    world.local["metadata"] = {"nodeName": has_name}
    world.configure()
    world.find_platform(**found)
    packets = world.packets()
    run = machine.unit().joined()
    assert f"metadata of {title}: " in run.stderr
    world.assert_joined(metadata.NODE if has_name else NODE)
    assert {address for address, _ in packets.sent()} == {world.server.host}


@pytest.mark.parametrize("meta_data, title", [
    ("\ufeff" + CONFIG_DRIVE, "OpenStack"),
    (CONFIG_DRIVE + "\n" + "\0" * 100, "OpenStack"),
    ("\ufeff{}\0", "OpenStack"),
    ('{"uuid": "u", "meta": []}', "OpenStack"),
    ('{"uuid": "u", "meta": ""}', "OpenStack"),
    ('{"uuid": "u", "meta": [{"key": "a"}]}', "OpenStack"),
    ("[]", "OpenStack"),
    ("\0" * 512, "OpenStack"),
    ("\ufeff" + SEED + "\0\0", "NoCloud"),
], ids=["mark", "NULs", "mark and NUL", "meta is a list", "meta is a string", "meta has entries", "a list", "NULs alone", "NoCloud"])
def test_document_beside_user_data(world, machine, meta_data, title):
    """What another tool wrote beside user data that has everything does not end the join."""
    world.local = {"metadata": {"nodeName": title == "NoCloud"}}
    world.configure()
    world.find_platform(volume="config-2" if title == "OpenStack" else "cidata", meta_data=meta_data,
                        user_data=world.document(node={"name": NODE} if title == "OpenStack" else None))
    run = machine.unit().joined()
    assert f"metadata of {title}: " in run.stderr
    world.assert_joined(NODE if title == "OpenStack" else metadata.NODE)


@pytest.mark.parametrize("found", [{"volume": "cidata", "user_data": "#!/bin/sh\n"}, {"volume": "config-2", "meta_data": "{}"}, {"hasGuestinfo": True}],
                         ids=["NoCloud", "config drive", "VMware"])
def test_platform_with_nothing(world, machine, found):
    configure(world)
    world.find_platform(**found)
    packets = world.packets()
    machine.unit().failed("token-missing", 66, "has nothing for node-bootstrap")
    assert packets.sent() == []


@pytest.mark.parametrize("found", [{"volume": "cidata", "user_data": "x", "meta_data": SEED}, {"hasGuestinfo": True, "token": TOKEN}], ids=["NoCloud", "guestinfo"])
def test_what_the_child_gets(world, machine, found):
    """The copies, and settings about metadata. No credential: those of this machine are for `join`."""
    world.local = {"metadata": {"nodeName": True}, "discovery": settings(world)["discovery"]}
    world.configure()
    world.find_platform(**found)
    machine.inspect(is_metadata_read=False)
    assert "--metadata" in machine.arguments
    assert {name for kind, name in machine.passed.entries if kind == machine.passed.CREDENTIAL} == set()
    names = {"user_data": "user-data", "meta_data": "meta-data", "token": "token"}
    assert {name.rsplit("/", 1)[-1] for name in machine.passed.files} == {"platform.json"} | {names[name] for name in found if name in names}
    plan = machine.passed.entries[machine.passed.PLAN, "plan"][2]
    assert world.server.host.encode() not in plan or world.server.endpoint.encode() not in plan


# What the installer takes of it.


def test_record(world, machine):
    world.local = {"metadata": {"nodeName": True}}
    world.configure()
    world.enter_cloud(user_data=world.document(node=None))
    machine.unit().joined()
    record = json.loads(machine.read(Machine.RECORD))
    assert (record["node"], record["metadata"]) == (metadata.NODE, "aws")
    assert record["caCertHashes"] == [world.cluster.ca.pin]


@pytest.mark.parametrize("is_there", [True, False], ids=["cloud", "no cloud any more"])
def test_next_boot(world, machine, is_there):
    """The record has the node name from the cloud, so that the next boot needs no metadata."""
    world.local = {"metadata": {"nodeName": True}}
    world.configure()
    cloud = world.enter_cloud(user_data=world.document(node=None))
    machine.unit().joined()
    asked = len(cloud.requests)
    if not is_there:
        world.namespace.set_dmi(**{name: "x" for name in metadata.Aws.dmi})
    packets = world.packets()
    run = machine.inspect().joined()
    assert run.note["verdict"] == "usable", run.note
    machine.unit().joined()
    assert packets.sent() == [] and len(cloud.requests) == asked
    world.assert_joined(metadata.NODE)


def test_name_on_the_machine_is_another(world, machine):
    """A node name in the settings overrides the one that was recorded from metadata."""
    world.enter_cloud(user_data=world.document(node={"name": "elsewhere"}))
    machine.unit().joined()
    world.local = {"node": {"name": NODE}}
    world.configure()
    assert machine.inspect().joined().note["verdict"] != "usable"
