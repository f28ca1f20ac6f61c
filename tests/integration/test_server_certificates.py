# SPDX-License-Identifier: Apache-2.0
"""Certificates of API servers that kubelet, which is written in Go, accepts, and those that it would refuse."""

import pytest

from common import pki
from common.machine import Case

pytestmark = pytest.mark.each_release


def identity(make):
    def prepare(world):
        world.server.identity = make(world.cluster.ca)
    return prepare


def no_credential(world, run):
    assert all("authorization" not in request.headers for request in world.server.requests)


def below(kind, is_sent=True):
    """The certificate of an intermediate CA, which has a key of this kind."""
    def make(ca):
        found = pki.CA("intermediate", parent=ca, key=pki.new_key(kind)).serving()
        return found if is_sent else pki.Identity(found.key, found.certs[0])
    return make


REFUSED = [
    Case("key that Go does not know", identity(lambda ca: ca.serving(key="ed448")), "tls-untrusted", 76, "Ed448"),
    Case("key that Go does not know, of an intermediate CA", identity(below("ed448")), "tls-untrusted", 76, "Ed448"),
    Case("intermediate CA that is not sent", identity(below("ec", False)), "tls-untrusted", 76, "not by the cluster's CA"),
]
for refused in REFUSED:
    refused.check = no_credential


def rotated(is_old, *order):
    """Before and after a rotation of the CA, whose name stays. The server has a certificate of the old or the new one."""
    def prepare(world):
        old, new = (pki.CA(has_identifier=False) for _ in range(2))
        world.cluster.ca = world.cluster.signer = old if is_old else new
        world.cluster.bundle = [(old, new)[i].pem for i in order]
        world.server.identity = world.cluster.ca.serving()
        return {"pins": [old.pin, new.pin]}
    return prepare


ACCEPTED = [
    *(Case(f"{kind}", identity(lambda ca, kind=kind: ca.serving(key=kind)), None, 0) for kind in ("rsa", "ed25519")),
    *(Case(f"{kind}, of an intermediate CA", identity(below(kind)), None, 0) for kind in ("ec", "rsa", "ed25519")),
    *(Case(f"{'old' if is_old else 'new'} CA, {'old' if order[0] == 0 else 'new'} one first", rotated(is_old, *order), None, 0)
      for is_old in (True, False) for order in ((0, 1), (1, 0))),
]


@pytest.mark.parametrize("case", ACCEPTED + REFUSED)
def test_certificate(played, case):
    played(case)
