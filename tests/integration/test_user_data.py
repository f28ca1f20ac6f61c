# SPDX-License-Identifier: Apache-2.0
"""User data: forms, permitted settings, and precedence of the machine's own settings."""

import gzip

import pytest

from common import metadata
from common.faults import dead_endpoint
from common.machine import HEADER, NODE, TOKEN, to_yaml
from .attackers import CloudPlay, plays
from .cloud import MALFORMED, MISSING, OTHER_TOKEN, CloudCase, gives, knows_the_cluster
from .user_data import FORBIDDEN, FORMS, SCRIPT, cloud_config, to_gzip


@pytest.mark.parametrize("case", FORMS)
def test_form(played, case):
    played(case)


# What is on the machine is stronger.

def local(sections, **of_user_data):
    """config.yaml has `sections`; both are called with the world."""
    def prepare(world):
        world.local = sections(world)
        world.enter_cloud(user_data=world.document(**{key: value(world) for key, value in of_user_data.items()}))
    return prepare


def good_discovery(world):
    return {"endpoints": [world.server.endpoint], "caCertHashes": [world.cluster.ca.pin]}


def dead_discovery(world):
    return {"endpoints": [dead_endpoint()], "caCertHashes": ["sha256:" + "0" * 64]}


def in_drop_in(world):
    world.machine.write_settings(HEADER + to_yaml({"discovery": good_discovery(world)}), "config.yaml.d/50-site.yaml")
    world.enter_cloud(user_data=world.document(discovery=dead_discovery(world)))


def in_credential(world):
    world.machine.set_credential("config", HEADER + to_yaml({"discovery": good_discovery(world), "node": {"name": NODE}}))
    world.enter_cloud(user_data=world.document(discovery=dead_discovery(world), node={"name": "other"}))


def pin_alone(world):
    """The machine's pin overrides the one in metadata."""
    world.local = {"discovery": {"caCertHashes": ["sha256:" + "0" * 64]}}
    world.enter_cloud()


def another_cloud(world):
    """The provider in the settings overrides recognition."""
    world.local = {"metadata": {"provider": "gce"}}
    world.namespace.set_dmi(**metadata.Hetzner.dmi)
    world.enter_cloud(metadata.Gce)
    world.namespace.set_dmi(**{"chassis_asset_tag": "", **metadata.Hetzner.dmi})


def by_kernel_line(world):
    """The kernel command line overrides DMI."""
    world.enter_cloud(metadata.DigitalOcean)
    world.namespace.set_dmi(**metadata.Hetzner.dmi)
    world.namespace.set_kernel_line("quiet ignition.platform.id=digitalocean")


def named_here(world):
    """A node name on the machine overrides metadata.nodeName."""
    world.local = {"metadata": {"nodeName": True}, "node": {"name": NODE}}
    world.enter_cloud(user_data=world.document(node=None))


def named_in_user_data(world):
    world.enter_cloud(user_data=world.document(node=None, metadata={"nodeName": True, "providerID": True}))


def given_provider_id(world):
    world.enter_cloud(user_data=world.document(kubelet={"providerID": "site://1", "extraArgs": ["node-labels=pool=gpu"]}))


def has_arguments(*arguments):
    def check(world, run):
        text = world.machine.read("var/lib/kubelet/kubeadm-flags.env")
        assert all(argument in text for argument in arguments), text
    return check


def beside(data, cloud=metadata.Aws):
    """The image has everything but the token; the user data is for another tool."""
    def prepare(world):
        knows_the_cluster(world)
        world.enter_cloud(cloud, user_data=data, token=TOKEN)
    return prepare


def vmware(token):
    def prepare(world):
        knows_the_cluster(world)
        world.find_platform(hasGuestinfo=True, token=token, user_data=to_gzip(world))
    return prepare


PRECEDENCE = [
    CloudCase("config.yaml", local(lambda world: {"discovery": good_discovery(world)}, discovery=dead_discovery)),
    CloudCase("config.yaml, node name", local(lambda world: {"node": {"name": NODE}}, node=lambda world: {"name": "other"})),
    CloudCase("config.yaml.d", in_drop_in),
    CloudCase("credential", in_credential),
    CloudCase("pin of the machine", pin_alone, "ca-pin-mismatch", 76, requests=["cluster-info"], timeout="30s"),
    CloudCase("provider by name", another_cloud, None, 0, "Google Compute Engine"),
    CloudCase("provider by the kernel command line", by_kernel_line, None, 0, "DigitalOcean"),
    CloudCase("node name of the machine", named_here),
    CloudCase("names that user data asks for", named_in_user_data, node=metadata.NODE, check=has_arguments(f"--provider-id={metadata.Aws.provider_id}")),
    CloudCase("provider ID and label of user data", given_provider_id, check=has_arguments("--provider-id=site://1", "--node-labels=pool=gpu")),
    *(CloudCase(f"narrower place beside {name}", beside(data), None, 0, said) for name, data, said in (
        ("gzip", gzip.compress(SCRIPT.encode()), "is gzip"),
        ("MIME", "Content-Type: multipart/mixed; boundary=b\n\n--b--\n", "is a MIME message"),
        ("a script", SCRIPT, "a shell script"))),
    CloudCase("narrower place of OpenStack", beside(gzip.compress(SCRIPT.encode()), metadata.OpenStack), None, 0, "is gzip"),
    CloudCase("narrower place of VMware", vmware(TOKEN), None, 0, "is gzip", "guestinfo.node-bootstrap.token"),
    CloudCase("user data of VMware", vmware(None), *MISSING, "is gzip; node-bootstrap reads neither"),
    CloudCase("narrower place beside a document of ours with an error", gives(lambda world: cloud_config(world) + "\t- [\n", token=TOKEN), *MALFORMED),
    CloudCase("narrower place beats the token of user data", gives(lambda world: world.document(OTHER_TOKEN), token=TOKEN)),
]


@pytest.mark.parametrize("case", PRECEDENCE)
def test_precedence(played, case):
    played(case)


# What user data may not say.


@pytest.mark.parametrize("case", FORBIDDEN)
def test_forbidden(played, case):
    played(case)


@pytest.mark.parametrize("case", [*plays(CloudPlay, FORMS), *plays(CloudPlay, FORBIDDEN)])
def test_waits_for_the_real_server(played, case):
    played(case)
