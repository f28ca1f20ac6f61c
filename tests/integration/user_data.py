# SPDX-License-Identifier: Apache-2.0
"""User data: the forms in which it holds settings, and settings that it must not hold."""

import base64
import gzip

from common import metadata
from common.machine import HEADER, NODE, TOKEN, to_yaml
from .cloud import MALFORMED, MISSING, CloudCase, gives

SCRIPT = "#!/bin/sh\necho hello\n"
CLOUD_CONFIG = "#cloud-config\nhostname: other\nruncmd:\n- [true]\n"
INVALID = ("settings-invalid", 78)


def document(world):
    return world.document()


def to_base64(world):
    return base64.encodebytes(world.document().encode())


def pad(text):
    """Base64 that ends with = ."""
    return base64.b64encode((text + "\n" * (len(text) % 3 == 0)).encode())


def to_gzip(world):
    return gzip.compress(world.document().encode())


def mime(world):
    return "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: text/cloud-config\n\n" + cloud_config(world) + "--b--\n"


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
    CloudCase("document with CR LF", gives(lambda world: world.document().replace("\n", "\r\n"))),
    CloudCase("JoinConfiguration", gives(join_configuration), check=ignores_the_socket),
    CloudCase("cloud-config", gives(cloud_config)),
    CloudCase("cloud-config behind an empty line", gives(lambda world: "\ufeff\n" + cloud_config(world))),

    CloudCase("script", gives(SCRIPT), *MISSING, "script"),
    CloudCase("cloud-config without us", gives(CLOUD_CONFIG), *MISSING, "cloud-config"),
    CloudCase("MIME", gives(mime), *MISSING, "is a MIME message; node-bootstrap reads neither MIME nor gzip: let cloud-init write"),
    CloudCase("gzip", gives(to_gzip), *MISSING, "is gzip; node-bootstrap reads neither"),
    CloudCase("gzip in base64", gives(lambda world: base64.b64encode(to_gzip(world))), *MISSING, "is gzip, in base64; node-bootstrap reads neither"),
    CloudCase("gzip, from a cloud that encodes", gives(to_gzip, metadata.Azure), *MISSING, "is gzip, in base64; node-bootstrap reads neither"),
    CloudCase("Ignition", gives('{"ignition": {"version": "3.4.0"}}'), *MISSING),
    CloudCase("bytes", gives(bytes(range(256)) * 16), *MISSING),
    CloudCase("the place of the cloud for a token", gives(None), *MISSING, "the token can be in instance tag 'node-bootstrap-token' or in the user data"),
    CloudCase("the place of a cloud without another one", gives(None, metadata.Hetzner), *MISSING, "the token can be in the user data"),
    CloudCase("white space", gives("\n \n"), *MISSING),

    CloudCase("cloud-config with an error", gives(lambda world: cloud_config(world) + "\t- [\n"), *MALFORMED),
    CloudCase("document with an error", gives(lambda world: world.document() + "unknown: true\n"), *INVALID, "user data of Amazon EC2", "unknown"),
    CloudCase("cloud-config with a key of ours that is unknown", gives(lambda world: cloud_config(world) + "  unknown: true\n"), *INVALID, "unknown"),
    CloudCase("invalid token", gives(lambda world: world.document("sesame")), *MALFORMED, "user data of Amazon EC2", "Correct the user data"),
    CloudCase("invalid token of k3s", gives(lambda world: world.document("K10mysecret::server:abc")), *MALFORMED, "begins with K10 and 64 hex digits", "Correct the user data"),
    CloudCase("invalid token in a JoinConfiguration", gives(lambda world: join_configuration(world).replace(TOKEN, "abcdef.0123")), *MALFORMED, "Correct the user data"),
    CloudCase("template with CR LF and empty lines", gives(lambda world: "## template: jinja\r\n\r\n" + cloud_config(world).replace("\n", "\r\n"))),
    CloudCase("MIME from its first boundary", gives(lambda world: mime(world).partition("\n\n")[2].replace("Content", "MIME-Version: 1.0\nContent", 1)), *MISSING, "is a MIME message; "),
    CloudCase("MIME in an mbox", gives(lambda world: "From nobody Mon Nov 30 02:46:47 2026\n" + mime(world)), *MISSING, "is a MIME message; "),
    CloudCase("UTF-16", gives(lambda world: cloud_config(world).encode("utf-16")), *MISSING, "is text in UTF-16; node-bootstrap reads UTF-8"),
    CloudCase("UTF-16 in base64, as of PowerShell", gives(lambda world: base64.b64encode(world.document().encode("utf-16-le"))), *MISSING, "is text in UTF-16, in base64; "),
    CloudCase("--- before the first line", gives(lambda world: "---\n" + cloud_config(world)), *MISSING, "does not begin with #cloud-config; make #cloud-config its first line"),
    CloudCase("no first line", gives(lambda world: cloud_config(world).removeprefix("#cloud-config\n")), *MISSING, "does not begin with #cloud-config; "),
    CloudCase("indented document", gives(lambda world: "".join(f"    {line}\n" for line in world.document().splitlines())), *MISSING, "is no such document; "),
    CloudCase("base64 of base64", gives(lambda world: base64.b64encode(to_base64(world))), *MISSING, "is base64, in base64; encode it only once"),
    CloudCase("base64 without =", gives(lambda world: pad(world.document()).rstrip(b"=")), *MISSING, "is incomplete base64; encode it again"),
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
    CloudCase(argument, with_argument(argument), *INVALID, "kubelet.extraArgs[0]", "config.yaml")
    for argument in ("config=/tmp/x", "authorization-mode=AlwaysAllow", "pod-manifest-path=/tmp", "node-labels-x=1")
]
