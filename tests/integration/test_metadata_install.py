# SPDX-License-Identifier: Apache-2.0
"""The installer and metadata, which it knows only from a child: it accepts only what root's settings leave open."""

import json
import socket
import struct

import pytest
import yaml

from common import pki
from common.machine import HEADER, NODE, TOKEN, Machine, node_kubeconfig, to_yaml
from .installed import SERVER, snapshot

PLAINTEXT = "etc/credstore/node-bootstrap.token"
FLAGS = "var/lib/kubelet/kubeadm-flags.env"
UNTRUSTED = ("handoff-untrusted", 76)
OTHER = pki.CA("other")


@pytest.fixture
def fresh(world):
    """The machine has only the name of its cloud in its settings: recognition is not needed."""
    machine = world.machine
    (machine.credentials / "node-bootstrap.token").unlink()
    settings(machine)
    return machine


def settings(machine, **sections):
    machine.write_settings(HEADER + to_yaml({"metadata": {"provider": "aws"}, **sections}))


def document(machine, ca, **sections):
    """The cluster in metadata, as the child passes it on."""
    sections = {"discovery": {"endpoints": machine.endpoints, "caCertHashes": [ca.pin]}, "node": {"name": NODE}, **sections}
    return HEADER + to_yaml({name: section for name, section in sections.items() if section is not None})


def handed_over(machine, ca, /, **options):
    return machine.put_handoff(ca, SERVER, **options)


def install(machine, ca, **sections):
    """What metadata says, and a handoff in the state directory."""
    return machine.install_found(document(machine, ca, **sections))


def record(machine):
    return json.loads(machine.read(Machine.RECORD))


def joined_by_metadata(machine, ca, **sections):
    handed_over(machine, ca, node=(sections.get("node") or {"name": NODE})["name"])
    install(machine, ca, **sections).joined()


def refused(machine, expected, ca, *words, **sections):
    before = snapshot(machine.root)
    install(machine, ca, **sections).failed(*expected, *words)
    assert snapshot(machine.root) == before
    return machine


def test_all_by_metadata(fresh, cluster):
    joined_by_metadata(fresh, cluster.ca, kubelet={"providerID": "aws:///a/i-0", "extraArgs": ["node-labels=a=b"]})
    assert {key: record(fresh).get(key) for key in ("node", "metadata", "caCertHashes", "joinMethod")} == {
        "node": NODE, "metadata": "aws", "caCertHashes": [cluster.ca.pin], "joinMethod": "token"}
    assert "--provider-id=aws:///a/i-0" in fresh.read(FLAGS) and "--node-labels=a=b" in fresh.read(FLAGS)
    assert list(fresh.state.iterdir()) == []


def test_finished_after_a_crash(fresh, cluster):
    """`install` was killed before it had written: the next start reads metadata again, which has the pins, and then installs; `join` does not run."""
    handed_over(fresh, cluster.ca)
    run = install(fresh, cluster.ca).joined()
    assert record(fresh)["node"] == NODE and list(fresh.state.iterdir()) == [] and "has joined the cluster" in run.stderr
    assert fresh.inspect().joined().note["verdict"] == "usable"


def test_token_alone_by_metadata(fresh, cluster):
    """The image names the cluster and the node."""
    settings(fresh, discovery={"endpoints": fresh.endpoints, "caCertHashes": [cluster.ca.pin]}, node={"name": NODE})
    handed_over(fresh, cluster.ca)
    fresh.install_found().joined()
    assert record(fresh)["node"] == NODE


def test_name_holds_at_the_next_start(fresh, cluster):
    """Whatever the host name is, and only if the machine's settings have no node name."""
    joined_by_metadata(fresh, cluster.ca)
    assert fresh.inspect().joined().note == {**fresh.inspect().note, "verdict": "usable", "node": NODE}
    settings(fresh, node={"name": "another"})
    assert fresh.inspect(is_metadata_read=False).joined().note["verdict"] == "other-node"
    fresh.write_settings(HEADER + to_yaml({"metadata": {"provider": "none"}}))
    assert fresh.inspect().joined().note["verdict"] == "usable"


def test_settings_of_a_refresh(fresh, cluster):
    """What metadata supplied stays, but for the time limit; what the settings of this machine say is brought up to date."""
    def of_refresh():
        found = yaml.safe_load(record(fresh)["settings"])
        return {key: found.get(key) for key in ("discovery", "kubelet", "refresh", "timeout")}

    labels = ["node-labels=a=b"]
    joined_by_metadata(fresh, cluster.ca, kubelet={"extraArgs": labels}, timeout="7s")
    told = {"discovery": {"endpoints": fresh.endpoints}, "kubelet": {"extraArgs": labels}, "refresh": None, "timeout": None}
    assert of_refresh() == told
    settings(fresh, refresh={"restartKubelet": True}, timeout="9s")
    fresh.inspect().joined()
    assert of_refresh() == {**told, "refresh": {"restartKubelet": True}, "timeout": "9s"}
    settings(fresh, discovery={"endpoints": ["192.0.2.1:6443"]}, kubelet={"extraArgs": ["max-pods=9"]})
    fresh.inspect().joined()
    assert of_refresh() == {"discovery": {"endpoints": ["192.0.2.1:6443"]}, "kubelet": {"extraArgs": ["max-pods=9"]}, "refresh": None, "timeout": None}


def test_host_name_is_not_of_metadata(fresh, cluster):
    """Without a node name from metadata, the host name names the node."""
    host = socket.gethostname().lower()
    handed_over(fresh, cluster.ca, node=host)
    install(fresh, cluster.ca, node=None).joined()
    assert record(fresh)["node"] == host


# Root's own settings are stronger.

def test_pins_of_the_machine_hold(fresh, cluster):
    settings(fresh, discovery={"caCertHashes": [cluster.ca.pin]})
    handed_over(fresh, OTHER)
    refused(fresh, UNTRUSTED, OTHER, OTHER.pin[7:19])


@pytest.mark.parametrize("key", ["unsafeSkipCAVerification", "trustWholeBundle"])
def test_pins_of_the_machine_are_worth_what_they_are(fresh, cluster, key):
    settings(fresh, discovery={"caCertHashes": [cluster.ca.pin]})
    handed_over(fresh, OTHER, ca=(cluster.ca.pem + OTHER.pem).decode())
    refused(fresh, UNTRUSTED, OTHER, discovery={"endpoints": fresh.endpoints, key: True})


def test_origin_is_not_what_the_child_says(fresh, cluster):
    """Whatever it calls its settings, they are not those of this machine."""
    settings(fresh, discovery={"caCertHashes": [cluster.ca.pin]})
    handed_over(fresh, OTHER, ca=(cluster.ca.pem + OTHER.pem).decode())
    text = document(fresh, OTHER, discovery={"endpoints": fresh.endpoints, "trustWholeBundle": True})
    fresh.install_found(text, origin=str(fresh.etc / "config.yaml")).failed(*UNTRUSTED)
    assert fresh.target_names() == {}


TOO_MUCH = {
    "kubeconfig": {"kubelet": {"kubeconfig": "/etc/kubernetes/manifests/x.yaml"}},
    "extraArgs": {"kubelet": {"extraArgs": ["config=/tmp/x"]}},
    "caFile": {"kubelet": {"caFile": "/etc/passwd"}},
    "configFrom": {"kubelet": {"configFrom": "cluster"}},
}


@pytest.mark.parametrize("key", TOO_MUCH)
def test_document_that_says_too_much(fresh, cluster, key):
    """install's answer is that no join can begin with it; nothing is installed."""
    handed_over(fresh, cluster.ca)
    refused(fresh, UNTRUSTED, cluster.ca, **TOO_MUCH[key])


MESSAGES = {
    "a head that is too short": b"\x04\0\0\0",
    "no cloud of that number": struct.pack("=IIII256s", 1000, 0, 0, 0, b""),
    "less than it announces": struct.pack("=IIII256s", 4, 100, 0, 0, b""),
    "more than it announces": struct.pack("=IIII256s", 4, 0, 0, 0, b"") + b"x",
    "lengths that overflow": struct.pack("=IIII256s", 4, 0xffffffff, 1, 0, b""),
    "a document that is too large": struct.pack("=IIII256s", 4, 65537, 0, 0, b"") + b"#" * 65537,
    "a token that is too large": struct.pack("=IIII256s", 4, 0, 5000, 0, b"") + b"a" * 5000,
    "no YAML": struct.pack("=IIII256s", 4, 3, 0, 0, b"") + b"\0\xff[",
    "no token": struct.pack("=IIII256s", 4, 0, 0, 0, b""),
    "a token that is none": struct.pack("=IIII256s", 4, 0, 3, 0, b"") + b"abc",
}


@pytest.mark.parametrize("name", MESSAGES)
def test_hostile_message(fresh, cluster, name):
    handed_over(fresh, cluster.ca)
    refused_by = fresh.install_found(message=MESSAGES[name])
    refused_by.failed(*UNTRUSTED)
    assert fresh.target_names() == {}


def test_endpoints_of_the_machine_hold(fresh, cluster):
    settings(fresh, discovery={"endpoints": ["192.0.2.1:6443"]})
    handed_over(fresh, cluster.ca)
    refused(fresh, UNTRUSTED, cluster.ca, "not in discovery.endpoints")


def test_name_of_the_machine_holds(fresh, cluster):
    settings(fresh, node={"name": "mine"})
    handed_over(fresh, cluster.ca)
    refused(fresh, ("certificate-unusable", 76), cluster.ca, "mine")


@pytest.mark.parametrize("credential", ["token", "tls-bootstrap-token", "kubeconfig"])
def test_nothing_counts_beside_a_credential(fresh, cluster, credential):
    kubeconfig = node_kubeconfig("https://192.0.2.1:6443", cluster.ca.node(NODE))
    fresh.set_credential(credential, kubeconfig if credential == "kubeconfig" else TOKEN)
    handed_over(fresh, cluster.ca)
    before = snapshot(fresh.root)
    run = install(fresh, cluster.ca)
    assert run.exit != 0 and not fresh.asked.exists(), run.stderr
    assert snapshot(fresh.root) == before


@pytest.mark.parametrize("sections", [{"metadata": {"provider": "none"}}, {"bootstrap": {"token": TOKEN}}], ids=["none", "a token in the settings"])
def test_nothing_counts_where_metadata_is_not_wanted(fresh, cluster, sections):
    fresh.write_settings(HEADER + to_yaml(sections))
    (fresh.etc / "config.yaml").chmod(0o600)
    fresh.secret_files.append(fresh.etc / "config.yaml")
    handed_over(fresh, cluster.ca)
    refused(fresh, UNTRUSTED, cluster.ca, "not in discovery.endpoints")


# Beside a certificate that still does.

def keeps(machine, ca, *words, **sections):
    """The certificate is valid, but kubelet cannot renew it, so the machine joins again."""
    current = machine.target(Machine.CURRENT)
    data = machine.target(str(current.readlink()).removeprefix("/")).read_bytes()
    current.unlink()
    machine.put(Machine.CURRENT, data)
    before = snapshot(machine.root)
    handed_over(machine, ca, node=(sections.get("node") or {"name": NODE})["name"])
    run = install(machine, ca, **sections)
    for word in words:
        assert word in run.stderr, run.stderr
    return snapshot(machine.root) == before


def test_another_cluster_beside_a_good_certificate(fresh, cluster):
    joined_by_metadata(fresh, cluster.ca)
    assert keeps(fresh, OTHER, "handoff-untrusted")


def test_another_name_beside_a_good_certificate(fresh, cluster):
    joined_by_metadata(fresh, cluster.ca)
    assert keeps(fresh, cluster.ca, "handoff-untrusted", "other", node={"name": "other"})


def test_same_cluster_beside_a_good_certificate(fresh, cluster):
    joined_by_metadata(fresh, cluster.ca)
    assert not keeps(fresh, cluster.ca)


# token.discard.

DISCARD = {"token": {"discard": True}}


def has_token(machine):
    return machine.target(PLAINTEXT).exists()


def test_discard(fresh, cluster):
    fresh.put(PLAINTEXT, "the plaintext")
    joined_by_metadata(fresh, cluster.ca, **DISCARD)
    assert not has_token(fresh) and f"the token was removed: /{PLAINTEXT}" in fresh.runs[-1].stderr
    assert record(fresh)["discardFromMetadata"]


def test_discard_by_the_machine(fresh, cluster):
    """Then the record does not mention metadata."""
    fresh.put(PLAINTEXT, "the plaintext")
    settings(fresh, **DISCARD)
    joined_by_metadata(fresh, cluster.ca, **DISCARD)
    assert not has_token(fresh) and "discardFromMetadata" not in record(fresh)


def test_no_discard_unless_it_is_asked_for(fresh, cluster):
    fresh.put(PLAINTEXT, "the plaintext")
    joined_by_metadata(fresh, cluster.ca)
    assert has_token(fresh)


def test_no_discard_by_a_join_that_failed(fresh, cluster):
    fresh.put(PLAINTEXT, "the plaintext")
    handed_over(fresh, cluster.ca)
    fresh.target(Machine.KUBECONFIG).mkdir(parents=True)
    install(fresh, cluster.ca, **DISCARD).failed("target-not-kubeconfig", 73)
    assert has_token(fresh)


def test_discard_at_each_start(machine):
    machine.put(PLAINTEXT, "the plaintext")
    machine.unit().joined()
    assert has_token(machine)
    machine.write_settings(HEADER + to_yaml(DISCARD), "config.yaml.d/10.yaml")
    for _ in range(2):
        machine.put(PLAINTEXT, "the plaintext")
        machine.unit().joined()
        assert not has_token(machine)


def test_what_cannot_be_discarded(machine):
    """The plaintext would stay on the disk under its other name. The join is complete all the same."""
    token = machine.put(PLAINTEXT, "the plaintext")
    (machine.path / "copy").hardlink_to(token)
    machine.write_settings(HEADER + to_yaml(DISCARD), "config.yaml.d/10.yaml")
    machine.unit().joined()
    assert machine.runs[-1].codes[-1] == "token-not-discarded"
    assert f"'/{PLAINTEXT}' is not a regular file with one hard link; not removed" in machine.runs[-1].stderr and has_token(machine)


def test_no_discard_where_joining_again_failed(machine, cluster):
    """The previous certificate stays, and so does the token, which the next attempt needs."""
    machine.unit().joined()
    machine.write_settings(HEADER + to_yaml(DISCARD), "config.yaml.d/10.yaml")
    machine.put(PLAINTEXT, "the plaintext")
    machine.configure(pins=[OTHER.pin])
    assert machine.inspect().joined().note["verdict"] == "other-cluster"
    machine.install().joined()
    assert has_token(machine)


def test_no_discard_before_the_certificate_is_valid(machine):
    machine.unit().joined()
    machine.write_settings(HEADER + to_yaml(DISCARD), "config.yaml.d/10.yaml")
    machine.put(PLAINTEXT, "the plaintext")
    machine.install(faketime="-1d").joined()
    assert has_token(machine)


@pytest.mark.parametrize("sections, expected", [({}, True), ({"token": {"discard": False}}, False), ({"metadata": {"provider": "none"}}, False)],
                         ids=["as metadata said", "the machine says no", "metadata is not wanted"])
def test_discard_by_metadata_at_the_next_start(fresh, cluster, sections, expected):
    joined_by_metadata(fresh, cluster.ca, **DISCARD)
    fresh.put(PLAINTEXT, "the plaintext")
    settings(fresh, **sections)
    fresh.install().joined()
    assert has_token(fresh) != expected


# Afterwards.

def test_refresh(world, cluster, fresh):
    """Settings without a cluster are accepted: a refresh uses what the node has."""
    fresh.put_handoff(cluster.ca, world.server.url)
    install(fresh, cluster.ca).joined()
    fresh.inspect("--refresh").joined()
    run = fresh.start_child("refresh").wait().joined()
    assert "has the same CA and server as this node" in run.stderr, run.stderr
    fresh.install("--refresh").joined()
    assert record(fresh)["node"] == NODE
