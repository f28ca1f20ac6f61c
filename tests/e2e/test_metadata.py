# SPDX-License-Identifier: Apache-2.0
"""Every cloud that has a metadata service, in the booted machine: the unit as it is shipped, the real control plane, and the services that
tests/common/metadata.py plays, at their real addresses. These machines have no DMI: a drop-in shows one to the unit.

Volumes and VMware's guestinfo are read by node-bootstrap-platform.service: see test_platform.py and test_vm.py.
"""

import pytest
import yaml

from common import metadata, namespace
from .harness import network
from .harness.node import UNIT

DMI = "/etc/e2e-dmi"


@pytest.fixture(scope="module")
def booted(new_shared_node):
    node = new_shared_node("fresh").enable(UNIT)
    for address in {cloud.address for cloud in metadata.ALL}:
        network.ip("-n", node.netns.name, "route", "replace", f"{address}/32", "via", network.GATEWAY, "dev", "eth0")
    node.boot("--unit=basic.target")
    return node


@pytest.fixture
def node(booted):
    """Without kubelet, which is slow and looks for a cloud too."""
    booted.forget()
    booted.run("systemctl", "mask", "--runtime", "kubelet.service")
    yield booted
    booted.run("systemctl", "unmask", "--runtime", "kubelet.service")
    booted.run("systemctl", "stop", "kubelet.service", UNIT)


def show(node, service):
    """The DMI strings of this cloud."""
    lines = "TemporaryFileSystem=/sys/class\n"
    for name, value in service.dmi.items():
        node.write(f"{DMI}/{name}", value + "\n")
    if service.dmi:
        lines += f"BindReadOnlyPaths={DMI}:/sys/class/dmi/id\n"
    node.drop_in(UNIT, "[Service]\n" + lines)


@pytest.fixture
def enter(node):
    """Moves the machine into a cloud; returns the cloud."""
    entered = []

    def enter(service, **options):
        show(node, service)
        network.reach(service.address)
        entered.append(service(**options).start())
        return entered[-1]

    yield enter
    for service in entered:
        service.stop()
        network.lose(service.address)
        node.run("rm", "-rf", DMI)


def document(cluster, token, **sections):
    return yaml.safe_dump({
        "apiVersion": "node-bootstrap/v1", "kind": "NodeBootstrap",
        "discovery": {"endpoints": [cluster.front.endpoint], "caCertHashes": [cluster.ca.pin]}, "bootstrap": {"token": str(token)}, **sections,
    })


def asked(service):
    """The requests of this program, without those of kubelet, which looks for a cloud too."""
    return [request for request in service.requests if request.headers.get("user-agent", "").startswith("node-bootstrap")]


def joined(node, cluster, service, token):
    done = node.join(check=False)
    said = node.journal_text("-u", "node-bootstrap", "--lines=60")
    assert done.returncode == 0, said
    assert node.kubeconfig()["clusters"][0]["cluster"]["server"] == f"https://{cluster.front.endpoint}"
    assert cluster.csrs(node.name)[0]["spec"]["username"] == f"system:bootstrap:{token.id}"
    assert asked(service) and service.violations == []
    assert f"of {service.title}" in node.entries("metadata-read")[-1]["MESSAGE"], said
    assert token.secret not in node.journal_text() and not node.state_files()


@pytest.mark.parametrize("service", metadata.ALL, ids=lambda service: service.provider)
def test_user_data(node, cluster, enter, service):
    """Token, endpoint and pin are in the user data alone."""
    token = cluster.token()
    joined(node, cluster, enter(service, user_data=document(cluster, token)), token)


@pytest.mark.parametrize("service", [pytest.param(cloud, marks=[pytest.mark.each_release] if cloud is metadata.Aws else [])
                                     for cloud in metadata.ALL if cloud.token_path], ids=lambda service: service.provider)
def test_narrower_place(node, cluster, enter, service):
    """The image has the endpoint and pin, the cloud has the token; the user data is for another tool."""
    token = cluster.token()
    node.configure()
    joined(node, cluster, enter(service, user_data="#!/bin/sh\n", token=str(token)), token)


def test_names(node, cluster, enter):
    """The node name and provider ID are from the cloud, and the next start needs no metadata."""
    token = cluster.token()
    node.run("systemctl", "unmask", "--runtime", "kubelet.service")
    service = enter(metadata.Aws, user_data=document(cluster, token, metadata={"nodeName": True, "providerID": True}))
    try:
        assert node.join(check=False).returncode == 0, node.journal_text("-u", "node-bootstrap", "--lines=60")
        found = cluster.await_node(metadata.NODE)
        assert found["spec"]["providerID"] == metadata.Aws.provider_id
        requests = len(asked(service))
        service.close()
        node.join("restart")
        assert len(asked(service)) == requests
        assert node.entries()[-1]["_SYSTEMD_UNIT"] == UNIT and cluster.node(metadata.NODE)
    finally:
        node.run("systemctl", "stop", "kubelet.service", UNIT)
        cluster.delete_node(metadata.NODE)


class Inside:
    """The machine's network namespace, to count packets."""

    def __init__(self, node):
        self.path = node.netns

    def within(self, function):
        return namespace.within(self.path, function)


def test_not_a_packet(node, cluster, enter):
    """A machine in a cloud sends no packet with a credential; without it, packets are counted."""
    service = enter(metadata.Aws, user_data="#!/bin/sh\n", token=str(cluster.token()))
    packets = namespace.Packets(Inside(node))
    try:
        node.prepare().join()
        sent = packets.sent()
        assert (cluster.front.address, 6443) in sent
        assert [target for target in sent if target[0] == metadata.LINK_LOCAL] == [] == service.connections
        node.forget()
        show(node, metadata.Aws)
        node.configure().join()
        assert (metadata.LINK_LOCAL, 80) in packets.sent() and service.connections
    finally:
        packets.close()
