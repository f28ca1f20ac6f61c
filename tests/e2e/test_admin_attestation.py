# SPDX-License-Identifier: Apache-2.0
"""A machine proves with its enrolled key, sealed by systemd-creds, that the request for its name is its own."""

import json

from harness.csrs import GROUP, Place
from harness.node import UNIT
from harness.wait import until

KEY = "/etc/credstore.encrypted/node-bootstrap.attestation-key"
SEAL = f"""
umask 077
openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out /run/attestation-key 2>/dev/null
openssl pkey -in /run/attestation-key -pubout
mkdir -p -m 0700 /etc/credstore.encrypted
systemd-creds encrypt --with-key=host --name=node-bootstrap.attestation-key /run/attestation-key {KEY} 2>/dev/null
rm /run/attestation-key
"""


def test_machine_with_an_enrolled_key_joins(new_node, cluster, administer, tmp_path):
    node, admin = new_node(), administer(cluster)
    binding = cluster.bind(GROUP, "system:node-bootstrapper")
    place = Place(cluster, admin, node.name)
    try:
        node.prepare(place.token)
        node.drop_in(UNIT, f"[Service]\nLoadCredentialEncrypted=node-bootstrap.attestation-key:{KEY}\n")
        node.boot("--unit=basic.target")
        public = node.run("sh", "-c", SEAL).stdout
        assert admin.command("enroll", node.name, "--public-key=-", f"--inventory={tmp_path}", input=public).returncode == 0
        forged = place.submit()
        node.begin()
        own = until(lambda: [csr for csr in cluster.csrs(node.name) if csr["metadata"]["name"] != forged], "the machine's request appears")
        [name] = [csr["metadata"]["name"] for csr in own]
        listed = {item["name"]: item["proof"] for item in json.loads(admin.run("approve", "-o", "json", f"--inventory={tmp_path}"))}
        assert (listed[forged], listed[name]) == ("missing", "valid")
        assert admin.command("approve", forged, f"--inventory={tmp_path}").returncode == 65
        admin.run("approve", name, f"--inventory={tmp_path}")
        assert node.await_end() == ("active", 0)
        assert node.certificate().subject.rfc4514_string() == f"CN=system:node:{node.name},O=system:nodes"
    finally:
        cluster.request("DELETE", binding)
        place.names = [forged]
        place.clear()
