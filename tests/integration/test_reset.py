# SPDX-License-Identifier: Apache-2.0
"""install --reset removes what the join wrote, and nothing else."""

import json
import os
import re
import socket

import pytest

from common import pki
from common.machine import HEADER, NODE, Machine, node_kubeconfig

FLAGS = "var/lib/kubelet/kubeadm-flags.env"
ENV = "var/lib/kubelet/node-bootstrap.env"


@pytest.fixture
def joined(machine):
    machine.unit().joined()
    return machine


def reset(machine):
    run = machine.install("--reset")
    assert run.exit == 0, run.stderr
    return run


def said(run, word, path):
    return [line for line in run.stdout.splitlines() if line.startswith(word + " ") and f"/{path}" in line]


def test_all_files_of_the_join_are_removed(joined):
    written = joined.target_names()
    run = reset(joined)
    assert joined.target_names() == {}
    for path in written:
        assert said(run, "removed", path), f"{path} is not named:\n{run.stdout}"
    assert f"kubectl delete node {NODE}" in run.stdout


def test_joins_again_afterwards(joined):
    reset(joined)
    joined.unit().joined()
    assert joined.KUBECONFIG in joined.target_names()


def test_a_second_reset_finds_nothing(joined):
    reset(joined)
    run = reset(joined)
    assert "has not joined this machine" in run.stdout and "removed" not in run.stdout


def test_state_is_removed(joined):
    joined.put_state("pending.key", "x")
    joined.put_state("joined.json", "x")
    joined.put_state("other", "x")
    reset(joined)
    assert os.listdir(joined.state) == ["other"]


def test_kubelets_own_files_stay(joined):
    kept = {"var/lib/kubelet/config.yaml": "kind: KubeletConfiguration\n", f"{joined.PKI}/kubelet.crt": "c", f"{joined.PKI}/kubelet.key": "k",
            f"{joined.PKI}/kubelet-server-2026-01-02-03-04-05.pem": "s", "etc/kubernetes/manifests/pod.yaml": "p"}
    for path, text in kept.items():
        joined.put(path, text)
    run = reset(joined)
    assert {path: joined.read(path) for path in joined.target_names()} == kept
    assert f"left     kubelet's own files in /var/lib/kubelet and /{joined.PKI}, certificates of earlier joins, and *.old files" in run.stdout


def test_certificate_that_kubelet_renewed_stays(joined):
    renewed = f"{joined.PKI}/kubelet-client-2030-01-02-03-04-05.pem"
    joined.put(renewed, "renewed")
    link = joined.target(joined.CURRENT)
    first = os.readlink(link).lstrip("/")
    link.unlink()
    link.symlink_to("/" + renewed)
    run = reset(joined)
    assert list(joined.target_names()) == [renewed] and not joined.target(first).exists()
    assert "stays valid until it expires" in run.stdout


def test_files_set_aside_stay(joined):
    names = [f"{joined.KUBECONFIG}.old", f"{joined.KUBECONFIG}.old.2", f"{joined.CA_FILE}.old", f"{joined.CURRENT}.old"]
    for name in names:
        joined.put(name, "before")
    reset(joined)
    assert sorted(joined.target_names()) == sorted(names)


def test_all_in_one_folder(machine):
    text = (machine.etc / "config.yaml").read_text()
    machine.write_settings(text.replace("kubelet:\n", "") + "kubelet:\n  kubeconfig: /srv/k\n  certificateDirectory: /srv\n  caFile: /srv/ca.crt\n")
    machine.unit().joined()
    machine.put("srv/k.old", "before")
    reset(machine)
    assert list(machine.target_names()) == ["srv/k.old"]


PATHS = "kubelet:\n  kubeconfig: /srv/k\n  certificateDirectory: /srv\n"


@pytest.mark.parametrize("text", [
    f"{HEADER}discovery: {{endpoint: [a.example.org]}}\n{PATHS}",
    f"{HEADER}{PATHS}discovery: [unfinished\n",
    f"{HEADER}{PATHS.replace('/srv/k', 'srv/k')}",
], ids=["misspelt key", "not YAML", "invalid path"])
def test_settings_that_cannot_be_used(machine, text):
    """The paths are those of the last join."""
    settings = (machine.etc / "config.yaml").read_text()
    machine.write_settings(settings.replace("kubelet:\n", "") + PATHS)
    machine.unit().joined()
    assert machine.target("srv/k").exists()
    machine.write_settings(text)
    run = reset(machine)
    assert machine.target_names() == {}
    assert run.stderr == ""


@pytest.mark.parametrize("documents, words", [
    ({"config.yaml": f"{HEADER}discovery: {{endpoint: [a.example.org]}}\n{PATHS}"}, None),
    ({"config.yaml": "unfinished: [\n", "config.yaml.d/50-paths.yaml": f"{HEADER}{PATHS}"}, "config.yaml:"),
    ({"config.yaml": f"{HEADER}{PATHS}", "config.yaml.d/10.yaml": None}, "config.yaml.d/10.yaml cannot be read"),
    ({"config.yaml": f"{HEADER}{PATHS.replace('/srv/k', 'srv/k')}"}, "kubelet.kubeconfig"),
], ids=["misspelt key", "not YAML, beside another document", "dangling link", "invalid path"])
def test_settings_that_cannot_be_used_without_the_paths_of_the_join(machine, documents, words):
    """A crash can end a join before it has written them. What is found is removed, but there may be more."""
    settings = (machine.etc / "config.yaml").read_text()
    machine.write_settings(settings.replace("kubelet:\n", "") + PATHS)
    machine.unit().joined()
    machine.target(ENV).unlink()
    (machine.etc / "config.yaml.d").mkdir(exist_ok=True)
    for name, text in documents.items():
        if text is None:
            (machine.etc / name).symlink_to("none")
        else:
            (machine.etc / name).write_text(text)
    if words is None:
        reset(machine)
    else:
        for _ in range(2):
            run = machine.install("--reset")
            run.failed("reset-unfinished", 73, "the settings may name other files of a join: ", words)
            assert "has not joined" not in run.stdout
    assert {name for name in machine.target_names() if name.startswith("srv/")} == ({"srv/k"} if words == "kubelet.kubeconfig" else set())


def test_settings_that_reset_does_not_see(machine):
    """They are in a credential, which only the service receives. The last join recorded its paths, in a file that is removed late."""
    settings = (machine.etc / "config.yaml").read_text()
    machine.write_settings(settings.replace("kubelet:\n", "") + PATHS + "  caFile: /srv/pki/ca.crt\n")
    machine.unit().joined()
    machine.write_settings(settings)
    run = reset(machine)
    assert machine.target_names() == {}
    removed = [line.split("/", 1)[1] for line in run.stdout.splitlines() if line.startswith("removed ")]
    assert removed[-2:] == [ENV, "srv/node-bootstrap.json"]


def test_machine_joined_by_another_program(machine, server):
    machine.put(machine.KUBECONFIG, node_kubeconfig(f"https://{server.endpoint}"))
    machine.put(f"{machine.PKI}/kubelet-client-2026-01-02-03-04-05.pem", "theirs")
    before = machine.target_names()
    run = reset(machine)
    assert machine.target_names() == before
    assert said(run, "left", machine.KUBECONFIG) and "there is no" in run.stdout


@pytest.mark.parametrize("text", [
    "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n",
    "not: [yaml",
], ids=["kubelet's configuration", "damaged"])
def test_file_that_is_not_a_kubeconfig(joined, text):
    joined.put(joined.KUBECONFIG, text)
    run = reset(joined)
    assert said(run, "left", joined.KUBECONFIG)
    assert joined.target_names() == {joined.KUBECONFIG: 0o600} and joined.read(joined.KUBECONFIG) == text


@pytest.mark.parametrize("change, why", [
    (lambda text: text.replace(f"/{Machine.CURRENT}", "/etc/kubernetes/other.pem"), "another client certificate"),
    (lambda text: re.sub(r"server: .*", "server: https://other.example.org:6443", text), "another API server"),
], ids=["names other files", "of another cluster"])
def test_kubeconfig_that_is_not_ours(joined, change, why):
    """Another program has joined this machine since: the files it uses stay."""
    joined.put(joined.KUBECONFIG, change(joined.read(joined.KUBECONFIG)))
    before = joined.target_names()
    run = reset(joined)
    [line] = said(run, "left", joined.KUBECONFIG)
    assert why in line
    for path in (joined.CURRENT, joined.CA_FILE, FLAGS):
        assert said(run, "left", path), f"{path} is not named:\n{run.stdout}"
    assert set(before) - set(joined.target_names()) == {ENV, joined.RECORD}


def test_join_by_kubeadm_since(joined, world):
    """Its files replaced ours, except our certificate, which is removed."""
    other, ours = world.stranger(), os.readlink(joined.target(joined.CURRENT)).lstrip("/")
    joined.put_joined_before(other.ca.node(NODE), "https://other.example.org:6443", ca=other.ca)
    reset(joined)
    left = joined.target_names()
    assert {joined.KUBECONFIG, joined.CURRENT, joined.CA_FILE} <= set(left) and ours not in left


def test_ca_file_that_was_there_before(machine, cluster):
    machine.put(machine.CA_FILE, cluster.ca.pem, 0o644)
    machine.unit().joined()
    run = reset(machine)
    assert list(machine.target_names()) == [machine.CA_FILE] and said(run, "left", machine.CA_FILE)


def test_ca_file_and_arguments_of_the_join_before(joined):
    """Joining again finds the files of the earlier join; they still belong to the join."""
    joined.target(joined.KUBECONFIG).unlink()
    joined.unit().joined()
    reset(joined)
    assert not joined.target(joined.CA_FILE).exists() and not joined.target(FLAGS).exists()


def test_ca_file_that_is_not_ours(joined):
    for text in (pki.CA().pem.decode(), joined.read(joined.CA_FILE) + pki.CA().pem.decode(), "", "nothing"):
        joined.put(joined.CA_FILE, text, 0o644)
        record = joined.read(joined.RECORD)
        run = reset(joined)
        assert said(run, "left", joined.CA_FILE) and joined.read(joined.CA_FILE) == text
        joined.put(joined.RECORD, record, 0o644)


FOREIGN_FLAGS = [
    ("another argument", f'KUBELET_KUBEADM_ARGS="--hostname-override={NODE} --v=2"\n'),
    ("another line", f'A=b\nKUBELET_KUBEADM_ARGS="--hostname-override={NODE}"\n'),
    ("another name", 'KUBELET_KUBEADM_ARGS="--hostname-override=other"\n'),
]


@pytest.mark.parametrize("text", [row[1] for row in FOREIGN_FLAGS], ids=[row[0] for row in FOREIGN_FLAGS])
def test_arguments_that_the_join_did_not_write_stay(joined, text):
    joined.put(FLAGS, text, 0o644)
    run = reset(joined)
    assert joined.read(FLAGS) == text
    assert said(run, "left", FLAGS)


def test_arguments_that_the_join_wrote(joined):
    assert NODE != socket.gethostname() and f"--hostname-override={NODE}" in joined.read(FLAGS)
    run = reset(joined)
    assert not joined.target(FLAGS).exists()
    assert said(run, "removed", FLAGS)


def test_arguments_that_the_settings_no_longer_have(machine):
    before = (machine.etc / "config.yaml").read_text()
    machine.write_settings(before.replace("kubelet:\n", "") + "kubelet:\n  criSocket: /run/c.sock\n  extraArgs: [v=2]\n")
    machine.unit().joined()
    assert "--container-runtime-endpoint=unix:///run/c.sock" in machine.read(FLAGS) and "--v=2" in machine.read(FLAGS)
    machine.write_settings(before)
    reset(machine)
    assert not machine.target(FLAGS).exists()


def test_damaged_record(joined):
    joined.put(joined.RECORD, "{}", 0o644)
    before = joined.target_names()
    joined.install("--reset").failed("installed-malformed", 65, joined.RECORD)
    assert joined.target_names() == before


def test_record_that_names_a_file_elsewhere(joined):
    record = json.loads(joined.read(joined.RECORD))
    joined.put("etc/precious.pem", "precious")
    joined.put(f"{joined.PKI}/other/kubelet-client-1.pem", "precious")
    for path in ("/etc/precious.pem", f"/{joined.PKI}/../../../../etc/precious.pem", f"/{joined.PKI}/other/kubelet-client-1.pem"):
        joined.put(joined.RECORD, json.dumps({**record, "certificate": path}), 0o644)
        joined.install("--reset")
        assert joined.target("etc/precious.pem").exists() and joined.target(f"{joined.PKI}/other/kubelet-client-1.pem").exists()


def test_goes_on_where_it_ended(joined):
    """One file cannot be removed: the kubeconfig is already removed, and the record stays for the next attempt."""
    joined.target(ENV).unlink()
    joined.target(ENV).mkdir()
    run = joined.install("--reset")
    run.failed("reset-unfinished", 73, ENV)
    assert not joined.target(joined.KUBECONFIG).exists() and joined.target(joined.RECORD).exists()
    joined.target(ENV).rmdir()
    reset(joined)
    assert joined.target_names() == {}
