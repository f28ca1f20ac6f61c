# SPDX-License-Identifier: Apache-2.0
"""A fresh machine joins: exactly kubelet's files, one request, and kubelet starts with them."""

import base64
import json
import re
import stat

import pytest
import yaml
from cryptography import x509

from common import pki
from common.failures import FAILURES
from common.wait import until
from .harness import controlplane
from .harness.node import CA_FILE, CURRENT, KUBECONFIG, PKI, STATE, UNIT, settings

pytestmark = pytest.mark.each_release


@pytest.fixture(scope="module")
def by_kubelet(new_shared_node, cluster):
    """A machine that the real kubelet joined by its own TLS bootstrap, as the model."""
    node = new_shared_node("by-kubelet")
    text = controlplane.kubeconfig(f"https://{cluster.front.endpoint}", cluster.ca.pem, token=cluster.token())
    node.write("/etc/kubernetes/bootstrap-kubelet.conf", text, 0o600)
    node.boot()
    cluster.await_node(node.name)
    return node


@pytest.fixture(scope="module")
def joined(new_shared_node, cluster):
    """A machine that node-bootstrap joined by hand, with its kubelet running."""
    node = new_shared_node("joined").prepare().enable(UNIT)
    node.boot("--unit=basic.target")
    node.done = node.join(check=False)
    cluster.await_node(node.name)
    return node


def test_start_returns_zero_when_joined(joined):
    assert joined.done.returncode == 0, joined.journal_text()
    assert joined.is_active(UNIT)
    until(lambda: joined.is_active("node-joined.target"), "node-joined.target is reached")
    assert joined.said("joined") and joined.said("installed")


def test_kubelet_makes_no_request_of_its_own(joined, cluster):
    requests = cluster.csrs(joined.name)
    assert len(requests) == 1
    assert re.fullmatch(r"node-csr-[A-Za-z0-9_-]{43}", requests[0]["metadata"]["name"])
    assert requests[0]["spec"]["username"].startswith("system:bootstrap:")
    issued = base64.b64decode(requests[0]["status"]["certificate"])
    assert x509.load_pem_x509_certificate(issued) == joined.certificate()


def test_request_is_kubelets(joined, by_kubelet, cluster):
    ours, model = (cluster.csrs(node.name)[0]["spec"] for node in (joined, by_kubelet))
    for key in ("signerName", "groups"):
        assert sorted(ours[key]) == sorted(model[key])
    # From 1.27 on, kubelet does not ask for this usage with an EC key; controllers before 1.25 insist on it (#111660, #111061).
    assert set(ours["usages"]) == {*model["usages"], "key encipherment"}
    ours, model = (x509.load_pem_x509_csr(base64.b64decode(spec["request"])) for spec in (ours, model))
    assert ours.is_signature_valid
    assert [(n.oid, n.value.replace(joined.name, by_kubelet.name)) for n in ours.subject] == [(n.oid, n.value) for n in model.subject]
    assert len(ours.extensions) == len(model.extensions) == 0
    assert ours.public_key().curve.name == model.public_key().curve.name == "secp256r1"
    assert ours.signature_hash_algorithm.name == model.signature_hash_algorithm.name


def shapes(node):
    """Type, mode and owner of a join's files, without the dates in names and targets."""
    def plain(text):
        return re.sub(r"\d{4}(-\d\d){5}", "DATE", text)

    found = {}
    for path, (mode, uid, gid, content, _) in node.joined_files().items():
        if path in (KUBECONFIG, PKI) or "kubelet-client" in path:
            found[plain(path)] = (mode, uid, gid, plain(content) if mode.startswith("l") else None)
    return found


def test_files_owners_and_modes_are_kubelets(joined, by_kubelet):
    ours = shapes(joined)
    assert ours == shapes(by_kubelet)
    assert len(ours) == 3
    assert re.fullmatch(PKI + r"/kubelet-client-\d{4}(-\d\d){5}\.pem", joined.dated())


def test_certificate_file_is_kubelets(joined, by_kubelet):
    blocks = [re.findall(rb"-----BEGIN ([A-Z ]+)-----", node.read(node.dated())) for node in (joined, by_kubelet)]
    assert blocks[0] == blocks[1] == [b"CERTIFICATE", b"EC PRIVATE KEY"]


def test_kubeconfig_is_kubelets(joined, by_kubelet, cluster):
    ours, model = joined.kubeconfig(), by_kubelet.kubeconfig()
    cluster_entry = ours["clusters"][0]["cluster"]
    if "certificate-authority" in cluster_entry:
        assert cluster_entry["certificate-authority"] == CA_FILE
        cluster_entry["certificate-authority-data"] = base64.b64encode(joined.read(cluster_entry.pop("certificate-authority"))).decode()
    for config in (ours, model):
        data = config["clusters"][0]["cluster"].pop("certificate-authority-data")
        assert x509.load_pem_x509_certificate(base64.b64decode(data)) == cluster.ca.cert
    assert ours == {"preferences": {}, **model}     # kubelet leaves it out from 1.34 on (#131741)


def test_other_files(joined, cluster):
    """Files that kubelet does not create: the CA file, the record, the environment file; nothing else remains."""
    files = joined.joined_files()
    assert files.pop(CA_FILE)[:3] == ("-rw-r--r--", 0, 0)
    assert x509.load_pem_x509_certificate(joined.read(CA_FILE)) == cluster.ca.cert
    record = f"{PKI}/node-bootstrap.json"
    assert files.pop(record)[:3] == ("-rw-r--r--", 0, 0)
    assert yaml.safe_load(joined.read(record))["caCertHashes"] == [cluster.ca.pin]
    assert files.pop("/var/lib/kubelet/node-bootstrap.env")[:3] == ("-rw-r--r--", 0, 0)
    assert joined.read("/var/lib/kubelet/node-bootstrap.env").decode().split() == [f"KUBELET_NODE_NAME={joined.name}"]
    assert joined.read("/var/lib/kubelet/kubeadm-flags.env").decode() == f'KUBELET_KUBEADM_ARGS="--hostname-override={joined.name}"\n'
    assert joined.read("/var/lib/kubelet/instance-config.yaml").decode() == 'containerRuntimeEndpoint: "unix:///run/containerd/containerd.sock"\n'
    assert joined.state_files() == []
    assert stat.S_IMODE(joined.path("/var/lib/private").stat().st_mode) == 0o700
    ours = {KUBECONFIG, CURRENT, joined.dated(), STATE}
    assert set(files) == ours


def test_join_is_logged_for_people_and_machines(joined, cluster):
    stages = [e.get("NODE_BOOTSTRAP_STAGE") for e in joined.entries("stage-done")]
    assert len(stages) >= 3 and all(stages)
    fields = {key: value for entry in joined.entries() for key, value in entry.items()}
    assert fields["NODE_BOOTSTRAP_NODE"] == joined.name
    assert fields["NODE_BOOTSTRAP_CSR"] == cluster.csrs(joined.name)[0]["metadata"]["name"]
    assert fields["NODE_BOOTSTRAP_TOKEN_ID"] == joined.read("/etc/credstore/node-bootstrap.token")[:6].decode()
    assert "node-bootstrap.token" in fields["NODE_BOOTSTRAP_TOKEN_SOURCE"]
    slow = FAILURES["csr-pending"]["message-id"]     # the cluster took more than 2 s to approve
    assert not [e for e in joined.entries() if int(e["PRIORITY"]) <= 4 and e["MESSAGE_ID"] != slow], "a join without trouble warns of nothing"


def test_status_prints_what_was_installed(joined, cluster):
    said = joined.run("node-bootstrap", "status").stdout
    serial = joined.certificate()
    for expected in (
        joined.name, f"system:node:{joined.name}", pki.common_name(cluster.ca.cert), cluster.ca.pin,
        cluster.front.endpoint, "node-bootstrap.token", serial.not_valid_after.strftime("%Y-%m-%d"),
    ):
        assert expected in said, said


def test_status_tells_what_the_join_took(joined):
    found = json.loads(joined.run("node-bootstrap", "status", "--json").stdout)
    assert found["joined"] is True and found["node"] == joined.name
    took = found["lastJoin"]
    assert (took["outcome"], took["code"]) == ("done", None)
    assert [s["stage"] for s in took["stages"] if s["stage"] not in ("metadata", "connect")] == ["prepare", "discover", "node", "request", "await", "install"]
    assert sum(s["durationUsec"] for s in took["stages"]) == took["durationUsec"]
    text = joined.run("node-bootstrap", "status").stdout
    for stage in took["stages"]:
        assert re.search(rf"^  {stage['stage']} .*#", text, re.M), stage


def test_node_stays_in_touch(joined, cluster):
    """kubelet renews its lease with the files of the join."""
    lease = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{joined.name}"
    first = until(lambda: cluster.find(lease), "a lease appears")["spec"]["renewTime"]
    until(lambda: cluster.find(lease)["spec"]["renewTime"] != first, "the lease is renewed")


def test_credentials_from_the_machine_itself(new_node, cluster):
    """Token and settings from outside, as SMBIOS or a container manager would pass them; joined while it boots."""
    node = new_node().enable(UNIT)
    node.boot(credentials={"node-bootstrap.token": str(cluster.token()), "node-bootstrap.config": settings(cluster)})
    until(lambda: node.is_active(UNIT), "joined at boot")
    node.await_kubelet()
