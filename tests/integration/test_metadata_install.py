# SPDX-License-Identifier: Apache-2.0
"""The installer and metadata, which it knows only from `join`: it accepts only what root's settings leave open."""

import json
import socket

import pytest
import yaml

from common import pki
from common.machine import HEADER, NODE, TOKEN, Machine, node_kubeconfig, to_yaml
from .installed import SERVER, snapshot

NOTE = "metadata.yaml"
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


def said(machine, ca, **sections):
    """The cluster in metadata, as `join` hands it over."""
    sections = {"discovery": {"endpoints": machine.endpoints, "caCertHashes": [ca.pin]}, "node": {"name": NODE}, **sections}
    machine.put_state(NOTE, HEADER + to_yaml({name: section for name, section in sections.items() if section is not None}))


def handed_over(machine, ca, /, metadata="aws", **options):
    return machine.put_handoff(ca, SERVER, metadata=metadata, **options)


def record(machine):
    return json.loads(machine.read(Machine.RECORD))


def joined_by_metadata(machine, ca, **sections):
    said(machine, ca, **sections)
    handed_over(machine, ca, node=(sections.get("node") or {"name": NODE})["name"])
    machine.install().joined()


def refused(machine, expected, *words):
    before = snapshot(machine.root)
    machine.install().failed(*expected, *words)
    assert snapshot(machine.root) == before
    return machine


def test_all_by_metadata(fresh, cluster):
    joined_by_metadata(fresh, cluster.ca, kubelet={"providerID": "aws:///a/i-0", "extraArgs": ["node-labels=a=b"]})
    assert {key: record(fresh).get(key) for key in ("node", "metadata", "caCertHashes", "discovery")} == {
        "node": NODE, "metadata": "aws", "caCertHashes": [cluster.ca.pin], "discovery": "token"}
    assert "--provider-id=aws:///a/i-0" in fresh.read(FLAGS) and "--node-labels=a=b" in fresh.read(FLAGS)
    assert list(fresh.state.iterdir()) == []


def test_finished_after_a_crash(fresh, cluster):
    """`install` was killed before it started: the next start installs, without a connection."""
    said(fresh, cluster.ca)
    handed_over(fresh, cluster.ca)
    assert fresh.inspect().joined().note["verdict"] == "usable"
    assert record(fresh)["node"] == NODE and list(fresh.state.iterdir()) == []


def test_token_alone_by_metadata(fresh, cluster):
    """The image names the cluster and the node."""
    settings(fresh, discovery={"endpoints": fresh.endpoints, "caCertHashes": [cluster.ca.pin]}, node={"name": NODE})
    handed_over(fresh, cluster.ca)
    fresh.install().joined()
    assert (record(fresh)["metadata"], record(fresh)["node"]) == ("aws", NODE)


def test_name_holds_at_the_next_start(fresh, cluster):
    """Whatever the host name is, and only if the machine's settings have no node name."""
    joined_by_metadata(fresh, cluster.ca)
    assert fresh.inspect().joined().note == {**fresh.inspect().note, "verdict": "usable", "node": NODE}
    settings(fresh, node={"name": "another"})
    assert fresh.inspect().joined().note["verdict"] == "other-node"
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
    said(fresh, cluster.ca, node=None)
    handed_over(fresh, cluster.ca, node=host)
    fresh.install().joined()
    assert record(fresh)["node"] == host


# Root's own settings are stronger.

def test_pins_of_the_machine_hold(fresh, cluster):
    settings(fresh, discovery={"caCertHashes": [cluster.ca.pin]})
    said(fresh, OTHER)
    handed_over(fresh, OTHER)
    refused(fresh, UNTRUSTED, OTHER.pin[7:19])


@pytest.mark.parametrize("key", ["unsafeSkipCAVerification", "trustWholeBundle"])
def test_pins_of_the_machine_are_worth_what_they_are(fresh, cluster, key):
    settings(fresh, discovery={"caCertHashes": [cluster.ca.pin]})
    said(fresh, OTHER, discovery={"endpoints": fresh.endpoints, key: True})
    handed_over(fresh, OTHER, ca=(cluster.ca.pem + OTHER.pem).decode())
    refused(fresh, UNTRUSTED)


def test_endpoints_of_the_machine_hold(fresh, cluster):
    settings(fresh, discovery={"endpoints": ["192.0.2.1:6443"]})
    said(fresh, cluster.ca)
    handed_over(fresh, cluster.ca)
    refused(fresh, UNTRUSTED, "not in discovery.endpoints")


def test_name_of_the_machine_holds(fresh, cluster):
    settings(fresh, node={"name": "mine"})
    said(fresh, cluster.ca)
    handed_over(fresh, cluster.ca)
    refused(fresh, ("certificate-unusable", 76), "mine")


@pytest.mark.parametrize("credential", ["token", "tls-bootstrap-token", "kubeconfig"])
def test_nothing_counts_beside_a_credential(fresh, cluster, credential):
    kubeconfig = node_kubeconfig("https://192.0.2.1:6443", cluster.ca.node(NODE))
    fresh.set_credential(credential, kubeconfig if credential == "kubeconfig" else TOKEN)
    said(fresh, cluster.ca)
    handed_over(fresh, cluster.ca)
    before = snapshot(fresh.root)
    run = fresh.install()
    assert run.exit != 0 and NOTE not in run.stderr, run.stderr
    assert snapshot(fresh.root) == before


@pytest.mark.parametrize("sections", [{"metadata": {"provider": "none"}}, {"bootstrap": {"token": TOKEN}}], ids=["none", "a token in the settings"])
def test_nothing_counts_where_metadata_is_not_wanted(fresh, cluster, sections):
    fresh.write_settings(HEADER + to_yaml(sections))
    (fresh.etc / "config.yaml").chmod(0o600)
    fresh.secret_files.append(fresh.etc / "config.yaml")
    said(fresh, cluster.ca)
    handed_over(fresh, cluster.ca)
    refused(fresh, UNTRUSTED, "not in discovery.endpoints")


def test_cloud_of_a_join_with_a_token(machine, cluster):
    """The record does not depend on `join`."""
    handed_over(machine, cluster.ca, metadata="gce")
    machine.install().joined()
    assert "metadata" not in record(machine)


@pytest.mark.parametrize("name, value", [("metadata", "none"), ("metadata", "x"), ("metadata", 1), ("k3sHash", "0"), ("k3sHash", "G" * 64)])
def test_member_that_is_none(fresh, cluster, name, value):
    said(fresh, cluster.ca)
    handed_over(fresh, cluster.ca, **{name: value})
    refused(fresh, ("handoff-malformed", 65), name)


# Beside a certificate that still does.

def keeps(machine, ca, *words, **sections):
    """The certificate is valid, but kubelet cannot renew it, so the machine joins again."""
    current = machine.target(Machine.CURRENT)
    data = machine.target(str(current.readlink()).removeprefix("/")).read_bytes()
    current.unlink()
    machine.put(Machine.CURRENT, data)
    before = snapshot(machine.root)
    said(machine, ca, **sections)
    handed_over(machine, ca, node=(sections.get("node") or {"name": NODE})["name"])
    run = machine.install()
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
    said(fresh, cluster.ca, **DISCARD)
    handed_over(fresh, cluster.ca)
    fresh.target(Machine.KUBECONFIG).mkdir(parents=True)
    fresh.install().failed("target-not-kubeconfig", 73)
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
    said(fresh, cluster.ca)
    fresh.put_handoff(cluster.ca, world.server.url, metadata="aws")
    fresh.install().joined()
    fresh.inspect("--refresh").joined()
    run = fresh.start_child("refresh").wait().joined()
    assert "has the same CA and server as this node" in run.stderr, run.stderr
    fresh.install("--refresh").joined()
    assert record(fresh)["node"] == NODE
