# SPDX-License-Identifier: Apache-2.0
"""Every cloud: a machine fresh from an image finds its token and its settings in the metadata, and joins.

The services are those of metadata.py, at their real addresses in a network of the machine's own.
"""

import pytest

from common import faults, metadata
from common.machine import TOKEN
from .attackers import CloudPlay, plays
from .cloud import MALFORMED, MISSING, OTHER_TOKEN, CloudCase, gives, knows_the_cluster


def user_data(cloud):
    """Everything is in the user data."""
    return lambda world: world.enter_cloud(cloud) and None


def narrower_place(cloud):
    """Only the token beside the user data is valid."""
    return lambda world: world.enter_cloud(cloud, user_data=world.document(OTHER_TOKEN), token=TOKEN) and None


def token_alone(cloud):
    """The image has the settings; the cloud has only the token."""
    def prepare(world):
        world.enter_cloud(cloud, user_data=None, token=TOKEN + "\n")
        knows_the_cluster(world)
    return prepare


def nothing(cloud):
    return lambda world: world.enter_cloud(cloud, user_data=None) and None


def named(cloud):
    """Node name and provider ID come from the cloud too."""
    def prepare(world):
        world.local = {"metadata": {"nodeName": True, "providerID": True}}
        world.enter_cloud(cloud, user_data=world.document(node=None))
    return prepare


def has_provider_id(world, run):
    assert f"--provider-id={world.cloud.provider_id}" in world.machine.read("var/lib/kubelet/kubeadm-flags.env")


def asked_once(world, run):
    """No request twice: one attempt is enough."""
    targets = [(request.method, request.target) for request in world.cloud.requests]
    assert len(targets) == len(set(targets)), targets


def rows():
    for cloud in metadata.ALL:
        yield CloudCase(f"{cloud.provider}: user data", user_data(cloud), None, 0, cloud.title, check=asked_once)
        yield CloudCase(f"{cloud.provider}: nothing there", nothing(cloud), *MISSING, f"the metadata of {cloud.title} has nothing for node-bootstrap")
        yield CloudCase(f"{cloud.provider}: node name and provider ID", named(cloud), None, 0, node=metadata.NODE, check=has_provider_id)
        if cloud.token_path:
            yield CloudCase(f"{cloud.provider}: narrower place", narrower_place(cloud), None, 0, "the token is in", metadata.TOKEN_KEY)
            yield CloudCase(f"{cloud.provider}: token alone", token_alone(cloud), None, 0, f"metadata of {cloud.title}: the token is in")


@pytest.mark.parametrize("case", rows())
def test_provider(played, case):
    played(case)


# What a metadata service can do wrong.

UNREACHABLE = ("metadata-unreachable", 69)
REFUSED = ("metadata-refused", 77)
MANY = 10 * 1024 * 1024


def on(kind, action, cloud=metadata.Aws, **options):
    """The service works, except for this fault."""
    return lambda world: world.enter_cloud(cloud).on(kind, action, **options)


def at_connect(action):
    def prepare(world):
        world.enter_cloud().on_connect = action
    return prepare


def nobody_listens(world):
    world.recognised()
    world.namespace.reach(metadata.LINK_LOCAL)


def swallowed(world):
    world.recognised()


def no_route(world):
    world.recognised()
    world.namespace.ip("route", "add", "unreachable", "169.254.0.0/16")


def redirected(world):
    world.enter_cloud().on("user-data", faults.redirect(world.server.url + "/latest/user-data"))


def not_followed(world, run):
    assert world.server.connections == []
    assert world.server.endpoint in run.stderr, "where it was to go is named"


def expires_once(world):
    """The session expires before the first GET."""
    cloud = world.enter_cloud()

    def expire(request):
        cloud.expire()
    cloud.on("token", expire, times=1)


def expires_always(world):
    cloud = world.enter_cloud()

    def expire(request):
        if request.kind != "session":
            cloud.expire()
    cloud.on("any", expire)


def sessions(n):
    def check(world, run):
        assert len(world.cloud.seen("session")) == n
    return check


def without_ipv4(world):
    world.enter_cloud(address=metadata.Aws.address6)
    world.namespace.reach(metadata.LINK_LOCAL)


def beside_ipv6(kind, action, **options):
    """A single fault of the first address is no reason to use the second one, which an attacker might hold."""
    def prepare(world):
        world.enter_cloud().on(kind, action, times=1, **options)
        world.beside = second_address(world)
    return prepare


def reset_beside_ipv6(world):
    world.enter_cloud().on_connect = faults.flaky(1, faults.reset)
    world.beside = second_address(world)


def second_address(world):
    world.namespace.reach(metadata.Aws.address6)
    return world.closing(world.namespace.within(lambda: metadata.Aws(metadata.Aws.address6, user_data="#!/bin/sh\n")).start())


def never_asked(world, run):
    assert world.beside.requests == []


FAULTS = [
    CloudCase("nobody listens", nobody_listens, *UNREACHABLE, metadata.LINK_LOCAL),
    CloudCase("packets are dropped", swallowed, *UNREACHABLE, metadata.LINK_LOCAL),
    CloudCase("no route", no_route, *UNREACHABLE, metadata.LINK_LOCAL),
    CloudCase("IPv6 alone", without_ipv4),
    CloudCase("hangs up once, beside IPv6", beside_ipv6("user-data", faults.hang_up_instead), check=never_asked),
    CloudCase("cut once, beside IPv6", beside_ipv6("user-data", faults.cut), check=never_asked),
    CloudCase("no answer once, beside IPv6", beside_ipv6("session", faults.stall), check=never_asked),
    CloudCase("headers without a body once, beside IPv6", beside_ipv6("user-data", faults.stall_after_headers), check=never_asked),
    CloudCase("reset once, beside IPv6", reset_beside_ipv6, check=never_asked),
    CloudCase("no answer", on("any", faults.stall), *UNREACHABLE),
    CloudCase("one byte at a time", on("user-data", faults.drip), *UNREACHABLE),
    CloudCase("slow", on("any", faults.slow(0.3))),
    CloudCase("hangs up", on("user-data", faults.hang_up_instead), *UNREACHABLE),
    CloudCase("truncated answer", on("user-data", faults.cut), *UNREACHABLE),
    CloudCase("reset", at_connect(faults.reset), *UNREACHABLE),
    CloudCase("500 once", on("any", faults.INTERNAL, times=1)),
    CloudCase("500 always", on("any", faults.INTERNAL), *UNREACHABLE, "500"),
    CloudCase("429 once", on("user-data", faults.TOO_MANY, times=1)),
    CloudCase("429 always", on("user-data", faults.TOO_MANY), *UNREACHABLE, "429"),
    CloudCase("hangs up and then good", on("session", faults.hang_up_instead, times=1)),
    CloudCase("403 for the session", on("session", faults.answer("", 403)), *REFUSED, "403"),
    CloudCase("403 for the user data", on("user-data", faults.answer("", 403)), *REFUSED, "403"),
    CloudCase("400", on("user-data", faults.answer("", 400)), *REFUSED, "400"),
    CloudCase("418", on("user-data", faults.answer("", 418)), *REFUSED, "418"),
    CloudCase("404 for the user data", on("user-data", faults.answer("", 404)), *MISSING),
    CloudCase("204", on("user-data", faults.answer("", 204)), *MISSING),
    CloudCase("empty", on("user-data", faults.answer("")), *MISSING),
    CloudCase("page of a portal", on("user-data", faults.PORTAL), *MISSING),
    CloudCase("session that expires once", expires_once, check=sessions(2)),
    CloudCase("session that always expires", expires_always, *REFUSED, "401"),
    CloudCase("empty session", on("session", faults.answer("")), *REFUSED),
    CloudCase("session token with a line break", on("session", faults.answer("a\r\nX-Forwarded-For: 192.0.2.1")), *REFUSED),
    CloudCase("endless session token", on("session", faults.answer("A" * 100000)), *REFUSED),
    CloudCase("10 MiB", gives(b"#cloud-config\n" + b"#" * MANY), *REFUSED),
    CloudCase("10 MiB announced", on("user-data", faults.announced(MANY)), *UNREACHABLE),
    CloudCase("endless body", on("user-data", faults.flood), *REFUSED),
    CloudCase("endless headers", on("user-data", faults.endless_headers), *REFUSED),
    CloudCase("redirect to the API server", redirected, *REFUSED, "302", check=not_followed),
    CloudCase("redirect to itself", on("any", faults.redirect("/latest/user-data")), *REFUSED, "302"),
    # What is otherwise elsewhere.
    CloudCase("Azure: 404, not yet", on("user-data", faults.answer("", 404), metadata.Azure, times=2)),
    CloudCase("Azure: 410, not yet", on("token", faults.answer("", 410), metadata.Azure, times=1)),
    CloudCase("Azure: 404 until the deadline", on("any", faults.answer("", 404), metadata.Azure), *UNREACHABLE, "404"),
    CloudCase("Azure: tags that are not JSON", on("token", faults.PORTAL, metadata.Azure), *MALFORMED, "tag"),
    CloudCase("OpenStack: meta_data.json that is not JSON", on("token", faults.PORTAL, metadata.OpenStack), *MALFORMED, "meta_data.json"),
    CloudCase("OpenStack: no meta_data.json", on("token", faults.answer("", 404), metadata.OpenStack)),
    CloudCase("Google: 403", on("any", faults.answer("", 403), metadata.Gce), *REFUSED, "403"),
    CloudCase("Oracle: 429 once", on("any", faults.TOO_MANY, metadata.Oracle, times=1)),
    CloudCase("Hetzner: redirect", on("any", faults.redirect("http://192.0.2.1/"), metadata.Hetzner), *REFUSED, "302"),
    CloudCase("DigitalOcean: endless body", on("user-data", faults.flood, metadata.DigitalOcean), *REFUSED),
    CloudCase("invalid token", gives(None, token="not a token"), *MALFORMED, "tag 'node-bootstrap-token' of Amazon EC2", "Correct the user data or the attribute"),
    CloudCase("invalid token of k3s", gives(None, token="K10abc::node:x"), *MALFORMED, "tag 'node-bootstrap-token'", "begins with K10 and 64 hex digits", "Correct the user data"),
    CloudCase("short password", gives(None, metadata.Gce, token="hunter2"), *MALFORMED, "instance attribute 'node-bootstrap-token'", "the full token of `k3s token create`"),
    CloudCase("encrypted token", gives(None, token="0123456789012345678901AAAAABAAAADAAAABAAAA0123"), *MALFORMED, "it is encrypted"),
    CloudCase("endless token", gives(None, token="A" * 100000), *REFUSED),
]


@pytest.mark.parametrize("case", FAULTS)
def test_fault(played, case):
    played(case)


@pytest.mark.parametrize("case", [
    *plays(CloudPlay, FAULTS, "no route"),
    *plays(CloudPlay, [row for row in rows() if row.name.endswith("nothing there")])])
def test_waits_for_the_real_server(played, case):
    played(case)
