# SPDX-License-Identifier: Apache-2.0
"""`kubeadm upgrade node` on a machine that has joined: which files install writes for it, at the join and when they are lost."""

import json

import pytest

from common.machine import HEADER, NODE, to_yaml
from . import kubeadm
from .crash import points, put_back, save, traced
from .installed import listen, lose_certificate, snapshot
from .kubeadm import CONFIG, FLAGS, INSTANCE, VERSIONS

NAME = f"--hostname-override={NODE}"
CONTAINERD, CRIO, DOCKER = "/run/containerd/containerd.sock", "/run/crio/crio.sock", "/run/cri-dockerd.sock"
KUBELET = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"


def flags(*words):
    return f'KUBELET_KUBEADM_ARGS="{" ".join(words)}"\n'


def instance(path):
    return f'containerRuntimeEndpoint: "unix://{path}"\n'


def configure(machine, **kubelet):
    machine.write_settings(HEADER + to_yaml({"kubelet": kubelet}), "config.yaml.d/10-kubelet.yaml")


def set_record(machine, **changes):
    """None takes a member out."""
    record = {**json.loads(machine.read(machine.RECORD)), **changes}
    machine.put(machine.RECORD, json.dumps({key: value for key, value in record.items() if value is not None}), 0o644)


@pytest.fixture
def joined(machine):
    machine.put(CONFIG, KUBELET, 0o644)
    machine.unit().joined()
    return machine


@pytest.fixture
def lost(joined):
    """A machine that has lost both files."""
    for path in (FLAGS, INSTANCE):
        joined.target(path).unlink()
    return joined


def upgrade_all(machine):
    """From each version to the next."""
    for minor in VERSIONS:
        kubeadm.upgrade(machine, minor)
        kubeadm.start_kubelet(machine, minor)


# What kubeadm 1.36.3 refused.

REFUSED = [
    ("no file", None, "error reading kubeadm flags file"),
    ("an empty file", "", "expected prefix"),
    ("empty flags", flags(), "no flags found"),
    ("only the node name", flags(NAME), "no runtime"),
]


@pytest.mark.parametrize("text, words", [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_rules_refuse(lost, text, words):
    if text is not None:
        lost.put(FLAGS, text, 0o644)
    with pytest.raises(kubeadm.Refused, match=words):
        kubeadm.upgrade(lost, 36)


@pytest.mark.parametrize("minor, words", [(23, ["--container-runtime-endpoint=unix:///x"]), (27, ["--container-runtime=remote"]),
                                          (35, ["--pod-infra-container-image=x"])])
def test_rules_of_kubelet_refuse(lost, minor, words):
    lost.put(FLAGS, flags(*words), 0o644)
    with pytest.raises(kubeadm.Refused):
        kubeadm.start_kubelet(lost, minor)
    lost.put(FLAGS, flags(NAME), 0o644)
    kubeadm.start_kubelet(lost, minor)


# What a join writes.

def test_join(joined):
    assert (joined.read(FLAGS), joined.read(INSTANCE)) == (flags(NAME), instance(CONTAINERD))
    upgrade_all(joined)


@pytest.mark.parametrize("minor", VERSIONS)
def test_each_version(joined, minor):
    kubeadm.upgrade(joined, minor)
    kubeadm.start_kubelet(joined, minor)


def test_lost_files(lost, server):
    server.requests.clear()
    run = lost.install().joined()
    assert (lost.read(FLAGS), lost.read(INSTANCE)) == (flags(NAME), instance(CONTAINERD)) and "WARNING" not in run.stderr
    assert f"'/{FLAGS}' was written again" in run.stderr and server.requests == []
    files = snapshot(lost.root)
    assert "written again" not in lost.install().joined().stderr
    assert snapshot(lost.root) == files
    upgrade_all(lost)


RECORDED = [     # recorded arguments, file, what it becomes, whether a reset leaves it; the settings ask for the recorded ones
    ("a file that is gone", "--v=4 " + NAME, None, flags("--v=4", NAME), False),
    ("an empty file", NAME, "", flags(NAME), False),
    ("no arguments", NAME, flags(), flags(NAME), False),
    ("an endpoint, which kubeadm takes out", f"--container-runtime-endpoint=unix://{CRIO} {NAME}", flags(NAME), flags(NAME), False),
    ("the arguments of another program", NAME, flags("--v=2"), flags("--v=2"), True),
    ("a form that kubeadm never writes", NAME, "A=b\n", "A=b\n", True),
]


@pytest.mark.parametrize("arguments, old, new, is_left", [row[1:] for row in RECORDED], ids=[row[0] for row in RECORDED])
def test_recorded_arguments(lost, arguments, old, new, is_left):
    configure(lost, **({"extraArgs": ["v=4"]} if "--v=4" in arguments else {"criSocket": CRIO} if CRIO in arguments else {}))
    set_record(lost, kubeletArguments=arguments, **({"fileHashes": []} if CRIO in arguments else {}))     # not of the file without it
    if old is not None:
        lost.put(FLAGS, old, 0o644)
    lost.install().joined()
    assert lost.read(FLAGS) == new
    files = snapshot(lost.root)
    lost.install().joined()
    assert snapshot(lost.root) == files
    lost.install("--reset")
    assert lost.target(FLAGS).exists() == is_left


def test_not_without_a_record(lost):
    """Somebody else joined this machine."""
    lost.target(lost.RECORD).unlink()
    files = snapshot(lost.root)
    lost.install().joined()
    assert snapshot(lost.root) == files


# The socket of the container runtime.

def by_setting(machine):
    configure(machine, criSocket=CRIO)
    by_configuration(machine, CONTAINERD)


def by_configuration(machine, path=CRIO):
    machine.put(CONFIG, f"{KUBELET}containerRuntimeEndpoint: unix://{path}\n", 0o644)
    listen(machine, CONTAINERD)


SOCKETS = [
    ("kubelet.criSocket", by_setting, CRIO, False),
    ("kubelet's configuration", by_configuration, CRIO, False),
    ("a path in kubelet's configuration", lambda machine: machine.put(CONFIG, f"{KUBELET}containerRuntimeEndpoint: {CRIO}\n", 0o644), CRIO, False),
    ("no text in kubelet's configuration", lambda machine: machine.put(CONFIG, f"{KUBELET}containerRuntimeEndpoint: [a]\n", 0o644), CONTAINERD, False),
    ("what cannot be quoted", lambda machine: machine.put(CONFIG, f"{KUBELET}containerRuntimeEndpoint: 'unix:///a\"b'\n", 0o644), CONTAINERD, False),
    ("no socket", lambda machine: machine.put(CONFIG, KUBELET.replace(":", "")), CONTAINERD, False),
    ("one socket", lambda machine: listen(machine, CRIO), CRIO, False),
    ("cri-dockerd", lambda machine: listen(machine, DOCKER), DOCKER, False),
    ("a file in place of a socket", lambda machine: machine.put(CONTAINERD[1:], ""), CONTAINERD, False),
    ("two sockets", lambda machine: listen(machine, CRIO) or listen(machine, DOCKER), CRIO, True),
]


@pytest.mark.parametrize("prepare, path, is_ambiguous", [row[1:] for row in SOCKETS], ids=[row[0] for row in SOCKETS])
def test_socket(machine, prepare, path, is_ambiguous):
    prepare(machine)
    run = machine.unit().joined()
    assert machine.read(INSTANCE) == instance(path)
    assert ("there are several container runtimes, " in run.stderr) == is_ambiguous


def test_socket_of_another_program(machine):
    text = "kind: KubeletConfiguration\ncontainerRuntimeEndpoint: unix:///x\n"
    machine.put(INSTANCE, text, 0o644)
    configure(machine, criSocket=CRIO)
    for _ in range(2):
        machine.unit().joined()
        assert machine.read(INSTANCE) == text
    machine.install("--reset")
    assert machine.read(INSTANCE) == text


def test_socket_changes(joined):
    configure(joined, criSocket=CRIO)
    joined.install().joined()
    assert joined.read(INSTANCE) == instance(CRIO)
    configure(joined)
    joined.install().joined()
    assert joined.read(INSTANCE) == instance(CRIO), "what is there remains"
    joined.install("--reset")
    assert not joined.target(INSTANCE).exists()


# After an upgrade the files are still ours.

@pytest.mark.parametrize("minor", [26, 34, 36, 37])
def test_kubeadm_has_written(machine, minor):
    machine.put(CONFIG, KUBELET, 0o644)
    configure(machine, criSocket=CRIO, extraArgs=["v=4", "node-labels=a=b", "container-runtime=remote"])
    machine.unit().joined()
    before = machine.read(FLAGS)
    kubeadm.upgrade(machine, minor)
    assert (machine.read(FLAGS) == before) == (minor == 34) and "--v=4" in machine.read(FLAGS)
    files = snapshot(machine.root)
    machine.install().joined()
    assert snapshot(machine.root) == files
    lose_certificate(machine)
    configure(machine, criSocket=CRIO, extraArgs=["v=5"])
    assert "was not written by node-bootstrap" not in machine.unit().joined().stderr
    assert "--v=5" in machine.read(FLAGS) and "--v=4" not in machine.read(FLAGS)
    kubeadm.upgrade(machine, minor)
    machine.install("--reset")
    assert not machine.target(FLAGS).exists() and not machine.target(INSTANCE).exists()


# Faults.

def install(machine, strace, inject=None):
    return traced(machine, strace, "install", *machine.install_words("--program="), inject=inject)


@pytest.mark.parametrize("is_change", [False, True], ids=["new files", "another socket"])
def test_killed(lost, strace, is_change):
    """Killed anywhere: the machine has joined, and the next start completes it, so that reset finds both files."""
    path, arguments = (CRIO, [f"--container-runtime-endpoint=unix://{CRIO}", NAME]) if is_change else (CONTAINERD, [NAME])
    if is_change:
        lost.install().joined()
        configure(lost, criSocket=CRIO)
    files = save(lost)
    install(lost, strace).joined()
    for name, number in points(lost):
        put_back(lost, files)
        install(lost, strace, f"{name}:signal=KILL:when={number}")
        lost.install().joined()
        where = f"killed at {name} {number}"
        assert (lost.read(FLAGS), lost.read(INSTANCE)) == (flags(*arguments), instance(path)), where
        assert [file for file in lost.target_names() if ".tmp" in file] == [], where
        lost.install("--reset")
        assert not lost.target(FLAGS).exists() and not lost.target(INSTANCE).exists(), where


def test_full_disk(lost, strace):
    """The machine has joined: a warning."""
    run = install(lost, strace, "fsync:error=ENOSPC").joined()
    assert "': No space left on device" in run.stderr and "so kubelet can start" in run.stderr
    assert "has already joined" in run.stderr and not [file for file in lost.target_names() if ".tmp" in file]
