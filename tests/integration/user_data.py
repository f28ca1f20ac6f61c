# SPDX-License-Identifier: Apache-2.0
"""User data: the forms in which it holds settings, and settings that it must not hold."""

import base64
import email
import email.encoders
import email.mime.base
import email.mime.multipart
import gzip

import metadata
from cloud import MALFORMED, MISSING, CloudCase, gives
from machine import HEADER, NODE, TOKEN, to_yaml

SCRIPT = "#!/bin/sh\necho hello\n"
CLOUD_CONFIG = "#cloud-config\nhostname: other\nruncmd:\n- [true]\n"
INVALID = ("settings-invalid", 78)


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
