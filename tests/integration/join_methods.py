# SPDX-License-Identifier: Apache-2.0
"""Join methods other than token and endpoints, and cases that run the unit's command."""

import base64
import hashlib
import json

import yaml

from common import apiserver, pki
from common import machine as machines
from common.machine import HEADER, NODE, Machine, to_yaml
from .installed import SERVER


class World(machines.World):
    """Settings by section; the only endpoints are those that a test sets."""

    def __init__(self, path):
        super().__init__(path)
        self.given = path / "given"
        self.given.mkdir(mode=0o755)

    def configure(self, *_, node=NODE, timeout="80s", document=None, **sections):
        settings = {"node": {"name": node}, "timeout": timeout, **{key: value for key, value in sections.items() if value}}
        self.machine.write_settings(document or HEADER + to_yaml(settings))

    def give(self, name, text, mode=0o600):
        """A file that the settings name."""
        path = self.given / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        path.chmod(mode)
        return str(path)

    def document(self, server=None, ca=None, **options):
        """cluster-info in the form of a file."""
        return apiserver.kubeconfig(server or self.server.url, ca if ca is not None else self.cluster.ca.pem, **options)

    def kubeconfig(self):
        """What kubelet got: (cluster, user)."""
        text = yaml.safe_load(self.machine.read(Machine.KUBECONFIG))
        return text["clusters"][0]["cluster"], text["users"][0]["user"]

    def installed_cas(self):
        return [pki.pin(cert) for cert in pki.load_certs(self.machine.target(Machine.CA_FILE).read_bytes())]

    def request(self):
        """The one request that was made."""
        [name] = self.csrs()
        return self.cluster.csrs.get(name)["spec"]


class Case(machines.Case):
    """Runs the unit's command; returns what is installed."""

    world = World

    def join(self, world):
        return world.machine.unit(faketime=self.faketime)

    def verify(self, world, run):
        said = "\n".join(one.stderr for one in world.machine.runs)
        if self.code:
            run.failed(self.code, self.exit)
            assert world.machine.target_names() == {}
        else:
            run.joined()
            certificates, _ = world.machine.installed_identity()
            assert pki.subject(certificates[0]) == ([pki.NODES], [pki.node_user(NODE)])
        for word in self.words:
            assert word in said, f"{word!r} is not in:\n{said}"
        if self.requests is not None:
            assert world.server.kinds == self.requests
        if self.csrs is not None:
            assert len(world.csrs()) == self.csrs
        if self.check:
            self.check(world, run)


def data(pem):
    return base64.b64encode(pem).decode()


def bootstrap_kubeconfig(api_server, ca, user, **cluster):
    """A kubeconfig with one user, as JSON, which is YAML."""
    authority = {"certificate-authority-data": data(ca)} if ca else {}
    return json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": "kubelet",
                       "clusters": [{"name": "local", "cluster": {"server": api_server, **authority, **cluster}}],
                       "users": [{"name": "kubelet", "user": user}],
                       "contexts": [{"name": "kubelet", "context": {"cluster": "local", "user": "kubelet"}}]}, indent=1)


# What identifies the cluster.
DOCUMENT, URL, K3S = "document", "url", "k3s"
K10 = "::abcdef.0123456789abcdef"


def discover_by(machine, method, ca, **discovery):
    """Settings that discover by a document (with the CA that is given), a URL, or the hash in a k3s token."""
    machine.endpoints = ["192.0.2.10:6443"]
    sections = {"discovery": discovery, "node": {"name": NODE}}
    if method == DOCUMENT:
        authority = f"    certificate-authority-data: {base64.b64encode(ca.pem).decode()}\n" if ca else ""
        path = machine.path / "cluster.conf"
        path.write_text(f"apiVersion: v1\nkind: Config\nclusters:\n- name: k\n  cluster:\n    server: {SERVER}\n{authority}")
        discovery["file"] = str(path)
    elif method == URL:
        discovery["file"] = "https://192.0.2.10:6443/cluster.conf"
    else:
        discovery["endpoints"] = machine.endpoints
        sections["cluster"] = {"type": "k3s"}
        machine.set_credential("token", "K10" + (hashlib.sha256(ca.pem).hexdigest() if ca else "") + K10)
    machine.write_settings(HEADER + to_yaml(sections))
