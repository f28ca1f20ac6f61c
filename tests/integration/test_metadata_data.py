# SPDX-License-Identifier: Apache-2.0
"""User data: forms, permitted settings, and precedence of the machine's own settings."""

import base64
import email
import email.encoders
import email.mime.base
import email.mime.multipart
import gzip

import pytest

import metadata
from cloud import MALFORMED, MISSING, OTHER_TOKEN, CloudCase, gives, knows_the_cluster
from faults import dead_endpoint
from machine import HEADER, NODE, TOKEN, to_yaml

SCRIPT = "#!/bin/sh\necho hello\n"
CLOUD_CONFIG = "#cloud-config\nhostname: other\nruncmd:\n- [true]\n"
INVALID = ("settings-invalid", 78)


# Forms.

def document(world):
    return world.document()


def to_base64(world):
    return base64.encodebytes(world.document().encode())


def to_gzip(world):
    return gzip.compress(world.document().encode())


def to_members(world):
    text = world.document().encode()
    return gzip.compress(text[:50]) + gzip.compress(text[50:])


def to_gzip_base64(world):
    return base64.b64encode(to_gzip(world))


def part(subtype, text, encode=None):
    made = email.mime.base.MIMEBase(*subtype.split("/"))
    made.set_payload(text)
    if encode:
        encode(made)
    return made


def mime(*parts):
    """A MIME message of a script and these parts; each is called with the world."""
    def make(world):
        message = email.mime.multipart.MIMEMultipart()
        message.attach(part("text/x-shellscript", SCRIPT))
        for one in parts:
            message.attach(one(world))
        return message.as_string()
    return make


def ours(world, encode=None):
    return part("application/vnd.node-bootstrap+yaml", world.document(), encode)


def cloud_config(world):
    sections = world.document().removeprefix(HEADER)
    return CLOUD_CONFIG + "node_bootstrap:\n" + "".join(f"  {line}\n" for line in sections.splitlines())


def join_configuration(world):
    return ("apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\n" +
            to_yaml({"discovery": {"bootstrapToken": {"apiServerEndpoint": world.server.endpoint, "token": TOKEN,
                                                      "caCertHashes": [world.cluster.ca.pin]}},
                     "nodeRegistration": {"name": NODE, "criSocket": "unix:///run/containerd/containerd.sock"}}))


def ignores_the_socket(world, run):
    said = "\n".join(run.stderr for run in world.machine.runs)
    assert "criSocket" in said


FORMS = [
    CloudCase("document", gives(document)),
    CloudCase("document in base64", gives(to_base64)),
    CloudCase("document in gzip", gives(to_gzip)),
    CloudCase("document in two members of gzip", gives(to_members)),
    CloudCase("document in gzip and base64", gives(to_gzip_base64)),
    CloudCase("document in gzip, from a cloud that encodes", gives(to_gzip, metadata.Azure)),
    CloudCase("document with CR LF", gives(lambda world: world.document().replace("\n", "\r\n"))),
    CloudCase("JoinConfiguration", gives(join_configuration), check=ignores_the_socket),
    CloudCase("MIME", gives(mime(ours))),
    CloudCase("MIME in gzip", gives(lambda world: gzip.compress(mime(ours)(world).encode()))),
    CloudCase("MIME, part in base64", gives(mime(lambda world: ours(world, email.encoders.encode_base64)))),
    CloudCase("MIME, cloud-config in it", gives(mime(lambda world: part("text/cloud-config", cloud_config(world))))),
    CloudCase("MIME in MIME", gives(mime(lambda world: email.message_from_string(mime(ours)(world))))),
    CloudCase("cloud-config", gives(cloud_config)),
    CloudCase("cloud-config behind an empty line", gives(lambda world: "\ufeff\n" + cloud_config(world))),
    CloudCase("cloud-config in gzip and base64", gives(lambda world: base64.b64encode(gzip.compress(cloud_config(world).encode())))),

    CloudCase("script", gives(SCRIPT), *MISSING, "script"),
    CloudCase("script in gzip", gives(gzip.compress(SCRIPT.encode())), *MISSING),
    CloudCase("cloud-config without us", gives(CLOUD_CONFIG), *MISSING, "cloud-config"),
    CloudCase("MIME without us", gives(mime()), *MISSING),
    CloudCase("Ignition", gives('{"ignition": {"version": "3.4.0"}}'), *MISSING),
    CloudCase("bytes", gives(bytes(range(256)) * 16), *MISSING),
    CloudCase("the place of the cloud for a token", gives(None), *MISSING, "the token can be in instance tag 'node-bootstrap-token' or in the user data"),
    CloudCase("the place of a cloud without another one", gives(None, metadata.Hetzner), *MISSING, "the token can be in the user data"),
    CloudCase("white space", gives("\n \n"), *MISSING),

    CloudCase("gzip that is cut", gives(lambda world: to_gzip(world)[:-20]), *MALFORMED, "gzip"),
    CloudCase("cloud-config with an error", gives(lambda world: cloud_config(world) + "\t- [\n"), *MALFORMED),
    CloudCase("document with an error", gives(lambda world: world.document() + "unknown: true\n"), *INVALID, "user data of Amazon EC2", "unknown"),
    CloudCase("cloud-config with a key of ours that is unknown", gives(lambda world: cloud_config(world) + "  unknown: true\n"), *INVALID, "unknown"),
    CloudCase("invalid token", gives(lambda world: world.document("sesame")), "token-malformed", 65, "user data of Amazon EC2"),
]


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
        world.find_platform(hasGuestinfo=True, token=token, user_data=gzip.compress(SCRIPT.encode())[:-20])
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
        ("gzip that is cut", gzip.compress(SCRIPT.encode())[:-20], "truncated or damaged gzip data"),
        ("gzip that is too large", gzip.compress(b"#" * (2 * 1024 * 1024)), "gzip of more than 1 MiB"),
        ("a script", SCRIPT, "a shell script"))),
    CloudCase("narrower place of OpenStack", beside(gzip.compress(SCRIPT.encode())[:-20], metadata.OpenStack), None, 0, "truncated or damaged gzip"),
    CloudCase("narrower place of VMware", vmware(TOKEN), None, 0, "truncated or damaged gzip", "guestinfo.node-bootstrap.token"),
    CloudCase("user data of VMware", vmware(None), *MALFORMED, "truncated or damaged gzip"),
    CloudCase("narrower place beside a document of ours with an error", gives(lambda world: cloud_config(world) + "\t- [\n", token=TOKEN), *MALFORMED),
    CloudCase("narrower place beats the token of user data", gives(lambda world: world.document(OTHER_TOKEN), token=TOKEN)),
]


@pytest.mark.parametrize("case", PRECEDENCE)
def test_precedence(played, case):
    played(case)


# What user data may not say.

def says(**sections):
    return gives(lambda world: world.document(**sections))


def with_argument(argument):
    return gives(lambda world: world.document(kubelet={"extraArgs": [argument]}))


FORBIDDEN = [
    CloudCase(key, says(**{key.split(".", maxsplit=1)[0]: {key.split(".")[1]: value}}), *INVALID, key, "user data of Amazon EC2", "config.yaml")
    for key, value in (("kubelet.kubeconfig", "/etc/kubernetes/manifests/x.yaml"), ("kubelet.certificateDirectory", "/etc/ssl"),
                       ("kubelet.caFile", "/etc/passwd"), ("metadata.provider", "none"),
                       ("discovery.file", "/etc/shadow"))
] + [
    CloudCase(argument, with_argument(argument), *INVALID, argument.split("=", maxsplit=1)[0], "config.yaml")
    for argument in ("config=/tmp/x", "authorization-mode=AlwaysAllow", "pod-manifest-path=/tmp", "node-labels-x=1")
]


@pytest.mark.parametrize("case", FORBIDDEN)
def test_forbidden(played, case):
    played(case)
