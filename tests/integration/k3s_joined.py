# SPDX-License-Identifier: Apache-2.0
"""A node that a scripted supervisor has joined, long ago if need be, and its refresh."""

import datetime
import json
import os
import re

from cryptography import x509

from common import pki
from common.machine import NODE, Machine
from .installed import contents
from .k3s import K3sWorld

CLIENT_CA = "etc/kubernetes/pki/client-ca.crt"
CERTIFICATE, KEY, SERVING = (f"{Machine.PKI}/{name}" for name in ("kubelet.crt", "kubelet.key", "kubelet-serving.pem"))
RESTART, MARK = "var/lib/kubelet/node-bootstrap.restart", "var/lib/kubelet/node-bootstrap.automatic-refresh"
RENEWED = {RESTART, Machine.RECORD, CLIENT_CA, SERVING, Machine.CURRENT}



class OldWorld(K3sWorld):
    """Its CAs are older than what the machine has joined."""

    def __init__(self, path):
        super().__init__(path)
        self.cluster.ca, self.cluster.signer = (pki.CA(f"k3s-{name}-ca@1600000000", start=-5 * pki.YEAR) for name in ("server", "client"))
        self.cluster.cacerts = self.cluster.ca.pem
        self.server.identity = self.cluster.ca.serving()
        self.give()


def join(world, **settings):
    world.configure(**settings)
    world.machine.unit().joined()
    world.cluster.members.add(NODE)
    world.server.requests.clear()
    return world.machine


def joined_long_ago(world, days=300, timeout=None, **settings):
    """A node whose certificate is valid for 65 days more, and has been for so many. The unit that renews it has no token."""
    world.cluster.life = 65 * pki.DAY
    machine = join(world, **settings)
    world.cluster.life = pki.YEAR
    age(machine, days)
    if timeout:     # of the refresh; the join has more time
        found = record(machine)
        machine.put(Machine.RECORD, json.dumps({**found, "settings": re.sub("timeout: .*", f"timeout: {timeout}", found["settings"])}, indent=2) + "\n", 0o644)
    world.cluster.tokens.clear()
    (machine.credentials / "node-bootstrap.token").unlink()
    return machine


def record(machine):
    return json.loads(machine.read(Machine.RECORD))


def age(machine, days):
    at = pki.now() - datetime.timedelta(days=days)
    machine.put(Machine.RECORD, json.dumps({**record(machine), "joinedAt": at.strftime("%Y-%m-%dT%H:%M:%SZ")}, indent=2) + "\n", 0o644)


def refresh(machine, **options):
    return machine.unit("--refresh", **options)


def pair(machine):
    """What kubelet serves: one file, under both names."""
    assert [os.readlink(machine.target(path)) for path in (CERTIFICATE, KEY)] == ["kubelet-serving.pem"] * 2
    text = machine.target(CERTIFICATE).read_bytes()
    leaf, ca = pki.load_certs(text)
    assert pki.spki(pki.load_key(machine.target(KEY).read_bytes()).public_key()) == pki.spki(leaf.public_key())
    assert machine.target(SERVING).stat().st_mode & 0o777 == 0o600
    return leaf, ca


def names(leaf):
    return [str(name.value) for name in leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value]


def key_of(leaf):
    return pki.spki(leaf.public_key())


def assert_only_noted(machine, before, code):
    """A renewal has failed, and nothing but the record says so."""
    assert {**contents(machine), Machine.RECORD: before[Machine.RECORD]} == before
    found = record(machine)
    assert found == {**json.loads(before[Machine.RECORD]), "renewalFailure": code, "renewalFailedAt": found["renewalFailedAt"]}
