# SPDX-License-Identifier: Apache-2.0
"""kubeadm's JoinConfiguration as a machine's only settings: in config.yaml, or in a credential."""

import yaml

from common.machine import NODE, TOKEN
from .join_methods import Case, World

OTHER = "fedcba.fedcba9876543210"
OTHER_ID, OTHER_SECRET = OTHER.split(".")
FLAGS = "var/lib/kubelet/kubeadm-flags.env"


def document(world, version="v1beta3", *, token=TOKEN, discovery=None, registration=None, timeout="80s", **more):
    """What `kubeadm config print join-defaults` prints, for this cluster. The token is in the document, and in no credential."""
    (world.machine.credentials / "node-bootstrap.token").unlink(missing_ok=True)
    by_token = {"bootstrapToken": {"token": token, "apiServerEndpoint": world.server.endpoint, "caCertHashes": [world.cluster.ca.pin]}}
    deadline = {"timeouts": {"discovery": "40s", "tlsBootstrap": "40s"}} if version == "v1beta4" else {}
    if version != "v1beta4":
        by_token["timeout"] = timeout
    return yaml.safe_dump({"apiVersion": f"kubeadm.k8s.io/{version}", "kind": "JoinConfiguration", "discovery": discovery or by_token,
                           "nodeRegistration": {"name": NODE, **(registration or {})}, **deadline, **more})


def as_file(text, mode=0o600):
    """config.yaml."""
    def prepare(world):
        made = text(world)
        path = world.machine.etc / "config.yaml"
        world.machine.secret_files.append(path)
        world.given_config = (path, made, mode)
        return {}
    return prepare


class Row(Case):
    """Writes config.yaml, or only the credential, instead of settings."""

    class world(World):
        def configure(self, *servers, **sections):
            if not hasattr(self, "given_config"):       # before the row has said what there is
                return super().configure(*servers, **sections)
            path, text, mode = self.given_config
            path.unlink(missing_ok=True)
            if text is not None:
                path.write_text(text)
                path.chmod(mode)


def as_credential(text):
    def prepare(world):
        world.machine.set_credential("config", text(world))
        world.given_config = (world.machine.etc / "config.yaml", None, 0)
        return {}
    return prepare
