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
    machine.join().failed("token-missing", 66)
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
    machine.inspect()
    run = machine.join(environment={**proxy, "no_proxy": world.server.host})
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
    """User data with the token has the settings too. join reads copies: it cannot access the folder itself."""
    if found.get("user_data") == TOKEN:
        found = {**found, "user_data": world.document(node=None if has_name else {"name": NODE})}
    else:
        world.local = settings(world) if not has_name else {"discovery": settings(world)["discovery"]}
    world.local["metadata"] = {"nodeName": has_name}
    world.configure()
    world.find_platform(**found)
    packets = world.packets()
    machine.inspect().joined()
    folder = f"{world.namespace.path}/root{PLATFORM}"
    os.rename(folder, folder + "-away")
    run = machine.join().joined()
    assert f"metadata of {title}: " in run.stderr
    machine.install().joined()
    world.assert_joined(metadata.NODE if has_name else NODE)
    assert {address for address, _ in packets.sent()} == {world.server.host}


@pytest.mark.parametrize("found", [{"volume": "cidata", "user_data": "#!/bin/sh\n"}, {"volume": "config-2", "meta_data": "{}"}, {"hasGuestinfo": True}],
                         ids=["NoCloud", "config drive", "VMware"])
def test_platform_with_nothing(world, machine, found):
    configure(world)
    world.find_platform(**found)
    packets = world.packets()
    machine.unit().failed("token-missing", 66, "has nothing for node-bootstrap")
    assert packets.sent() == []


# What the installer takes of it.

def joined_by_metadata(world, **changes):
    cloud = world.enter_cloud(user_data=world.document(**changes))
    world.machine.inspect().joined()
    world.machine.join().joined()
    return cloud


def test_note_for_the_installer(world, machine):
    """The settings from metadata, without the token; removed after the join."""
    joined_by_metadata(world)
    path = machine.state / NOTE
    assert path.stat().st_mode & 0o777 == 0o600
    text = path.read_text()
    assert world.server.endpoint in text and NODE in text and TOKEN.split(".", maxsplit=1)[0] not in text
    machine.install().joined()
    world.assert_joined()
    assert list(machine.state.iterdir()) == []


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


def put_note(machine, **sections):
    machine.put_state(NOTE, HEADER + to_yaml(sections))


def test_note_where_a_credential_gives_the_token(world, machine):
    """A file from a hostile join is ignored if metadata does not apply."""
    configure(world)
    machine.set_credential("token", TOKEN)
    machine.inspect().joined()
    machine.join().joined()
    put_note(machine, node={"taints": [{"key": "evil", "effect": "NoSchedule"}]}, kubelet={"extraArgs": ["node-labels=evil=true"]})
    machine.install().joined()
    world.assert_joined()
    assert not any("evil" in path.read_text() for path in machine.root.rglob("*") if path.is_file())
    assert list(machine.state.iterdir()) == []


@pytest.mark.parametrize("keys", [{}, {"unsafeSkipCAVerification": True}, {"trustWholeBundle": True}], ids=["pins", "no pins", "whole bundle"])
def test_note_of_another_cluster(world, machine, keys):
    """A pin in the settings overrides those of a cloud or a hostile join."""
    world.local = {"discovery": {"caCertHashes": [world.cluster.ca.pin]}}
    world.configure()
    world.recognised()
    other = pki.CA("other")
    machine.put_handoff(other, world.server.url, metadata="aws")
    put_note(machine, **settings(world, discovery={"endpoints": [world.server.endpoint], **(keys or {"caCertHashes": [other.pin]})}))
    machine.install().failed("handoff-untrusted", 76)
    assert machine.target_names() == {}


def test_note_where_metadata_is_switched_off(world, machine):
    """The only pin would be the attacker's: without metadata there is none, and nothing is installed."""
    machine.put_handoff(world.cluster.ca, world.server.url, metadata="aws")
    put_note(machine, **settings(world))
    world.configure(metadata={"provider": "none"})
    machine.install().failed("handoff-untrusted", 76)
    assert machine.target_names() == {}


@pytest.mark.parametrize("section, key, value", [("kubelet", "kubeconfig", "/etc/kubernetes/manifests/x.yaml"), ("kubelet", "extraArgs", ["config=/tmp/x"]),
                                                 ("kubelet", "caFile", "/etc/passwd")], ids=lambda value: str(value)[:20])
def test_note_that_says_too_much(world, machine, section, key, value):
    """The file from join may only have the keys that user data may have."""
    joined_by_metadata(world)
    put_note(machine, **settings(world, **{section: {key: value}}))
    run = machine.install()
    assert run.exit != 0 and key in run.stderr and "config.yaml" in run.stderr, run.stderr
    assert machine.target_names() == {}


def test_note_that_names_another_node(world, machine):
    """The certificate is for the node name from the cloud."""
    joined_by_metadata(world)
    put_note(machine, **{**settings(world), "node": {"name": "other"}})
    run = machine.install()
    assert run.exit != 0 and machine.target_names() == {}, run.stderr


@pytest.mark.parametrize("make", [lambda path: path.symlink_to("/etc/hostname"), os.mkfifo, lambda path: path.mkdir(),
                                  lambda path: path.write_bytes(b"#" * (4 << 20)), lambda path: path.write_bytes(b"\0\xff[")],
                         ids=["link", "FIFO", "folder", "too large", "not YAML"])
def test_note_that_is_no_file(world, machine, make):
    joined_by_metadata(world)
    (machine.state / NOTE).unlink()
    make(machine.state / NOTE)
    run = machine.install()
    assert run.exit != 0 and machine.target_names() == {}, run.stderr


def test_note_that_is_missing(world, machine):
    """The settings from metadata are needed, and join left none."""
    joined_by_metadata(world)
    (machine.state / NOTE).unlink()
    run = machine.install()
    assert run.exit != 0 and machine.target_names() == {}, run.stderr
