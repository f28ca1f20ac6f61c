# SPDX-License-Identifier: Apache-2.0
"""bootstrap.token of a document, and kubelet.providerID, through all three commands."""

import re

import pytest

from common.machine import HEADER, NODE, TOKEN, TOKEN_ID, to_yaml
from .join_configuration import FLAGS, OTHER, OTHER_SECRET, Row, as_credential, as_file

PROVIDER_ID = "openstack:///8f1c3a52-0d1f-4a4d-9a55-3d7c0f3c5b11"


def document(world, token=TOKEN, **sections):
    (world.machine.credentials / "node-bootstrap.token").unlink(missing_ok=True)
    return HEADER + to_yaml({"bootstrap": {"token": token}, "node": {"name": NODE}, "timeout": "80s",
                             "discovery": {"endpoints": [world.server.endpoint], "caCertHashes": [world.cluster.ca.pin]}, **sections})


def of(**sections):
    return lambda world: document(world, **sections)


def by_token(world, run):
    assert world.request()["username"] == "system:bootstrap:" + TOKEN_ID
    assert world.server.kinds == ["cluster-info", "create", "watch"]


def has_provider_id(world, run):
    by_token(world, run)
    assert re.findall(r"--provider-id=(\S+?)[ \"]", world.machine.read(FLAGS)) == [PROVIDER_ID]


def weaker_than_a_credential(world):
    """The token in the document is one that the cluster does not know."""
    world.machine.secrets.append(OTHER_SECRET)
    text = document(world, OTHER)
    world.machine.set_credential("token", TOKEN)
    return text


def taken_back(world):
    """By a stronger document, which others can read."""
    folder = world.machine.etc / "config.yaml.d"
    folder.mkdir()
    (folder / "10.yaml").write_text(HEADER + to_yaml({"bootstrap": {"token": ""}}))
    return document(world)


def malformed(world):
    world.machine.secrets.append("ABCDEF0123456789")
    return document(world, "abcdef.ABCDEF0123456789")


ROWS = [
    Row("a token in config.yaml", as_file(of()), None, 0, check=by_token),
    Row("a token in the credential with settings", as_credential(of()), None, 0, check=by_token),
    Row("a credential is stronger", as_file(weaker_than_a_credential), None, 0, check=by_token),
    Row("a provider ID", as_file(of(kubelet={"providerID": PROVIDER_ID})), None, 0, check=has_provider_id),
    Row("others may read the token", as_file(of(), 0o644), "token-exposed", 78, "config.yaml", "bootstrap.token", requests=[]),
    Row("a token that is none", as_file(malformed), "token-malformed", 65, "config.yaml:4: bootstrap.token", requests=[]),
    Row("a token that a stronger document takes back", as_file(taken_back), "token-missing", 66, requests=[]),
    Row("two provider IDs", as_file(of(kubelet={"providerID": PROVIDER_ID, "extraArgs": ["provider-id=a://b"]})), "settings-invalid", 78,
        "kubelet.providerID", "kubelet.extraArgs", requests=[]),
]


@pytest.mark.parametrize("case", ROWS)
def test_token_of_a_document(played, case):
    played(case)
