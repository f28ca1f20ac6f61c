# SPDX-License-Identifier: Apache-2.0
"""Machines prove with their enrolled keys, sealed by systemd-creds, that the requests for their names are their own."""

from common.csrs import pending
from common.wait import until
from .harness import controlplane
from .harness import admin as admins
from .harness.approvals import GROUP, Place

EVENTS = "/api/v1/namespaces/default/events"
KEY = "/etc/credstore.encrypted/node-bootstrap.attestation-key"
SEAL = f"""
umask 077
openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out /run/attestation-key 2>/dev/null
openssl pkey -in /run/attestation-key -pubout
mkdir -p -m 0700 /etc/credstore.encrypted
systemd-creds encrypt --with-key=host --name=node-bootstrap.attestation-key /run/attestation-key {KEY} 2>/dev/null
rm /run/attestation-key
"""


def boot(node, token):
    """Returns the public key that the machine has made."""
    node.prepare(token, proof={"key": "credential"})
    node.drop_in("node-bootstrap-prover@.service", "[Service]\nLoadCredentialEncrypted=node-bootstrap.attestation-key\n")
    node.boot("--unit=basic.target")
    return node.run("sh", "-c", SEAL).stdout


def test_machine_with_an_enrolled_key_joins(new_node, cluster, administer):
    node, admin = new_node(), administer(cluster)
    binding = cluster.bind(GROUP, "system:node-bootstrapper")
    place = Place(cluster, admin, node.name)
    try:
        assert admin.command("enroll", "add", node.name, "--public-key=-", input=boot(node, place.token)).returncode == 0
        forged = place.submit()
        node.begin()
        own = until(lambda: [csr for csr in cluster.csrs(node.name) if csr["metadata"]["name"] != forged], "the machine's request appears")
        [name] = [csr["metadata"]["name"] for csr in own]
        listed = pending(admin.run("requests", "list", "--output=json"))
        assert (listed[forged]["proof"], listed[name]["proof"]) == ("missing", "valid")
        assert admin.command("requests", "approve", forged).returncode == 65
        admin.run("requests", "approve", name)
        assert node.await_end() == ("active", 0)
        assert node.certificate().subject.rfc4514_string() == f"CN=system:node:{node.name},O=system:nodes"
    finally:
        cluster.request("DELETE", binding)
        place.names = [forged]
        place.clear()


def test_a_fleet_of_one_image_and_one_token(new_node, cluster, administer):
    """Two machines hold their own keys, which are enrolled; the key of the third is not."""
    admin = administer(cluster)
    token = controlplane.Token(*admin.run("token", "create", "--enrolled", "--print=credential").strip().split("."))
    nodes = [new_node() for _ in range(3)]
    keys = [boot(node, token) for node in nodes]
    try:
        for node, key in zip(nodes[:2], keys):
            assert admin.command("enroll", "add", node.name, "--public-key=-", input=key).returncode == 0
        with admin.controller(account=admins.service_account(cluster)):
            for node in nodes:
                node.begin()
            for node in nodes[:2]:
                assert node.await_end() == ("active", 0)
                assert node.certificate().subject.rfc4514_string() == f"CN=system:node:{node.name},O=system:nodes"
            until(lambda: [e for e in cluster.request("GET", EVENTS)["items"] if e["reason"] == "NotEnrolled"], "an Event for the third")
            [csr] = cluster.csrs(nodes[2].name)
            assert not csr["status"].get("conditions")
            assert cluster.find(f"{controlplane.SECRETS}/bootstrap-token-{token.id}"), "the token is for more machines"
    finally:
        for node in nodes[:2]:
            cluster.request("DELETE", f"{controlplane.SECRETS}/node-bootstrap-node-{node.name}")
