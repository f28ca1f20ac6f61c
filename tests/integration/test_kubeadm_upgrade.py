# SPDX-License-Identifier: Apache-2.0
"""`kubeadm upgrade node` on a machine that has joined: which files install writes for it, at the join and on machines that joined earlier."""

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
OLD_FIELDS = ("kubeletArguments", "runtimeEndpoint")


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
def earlier(joined):
    """A machine that a version before these files joined."""
    for path in (FLAGS, INSTANCE):
        joined.target(path).unlink()
    set_record(joined, **dict.fromkeys(OLD_FIELDS))
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
def test_rules_refuse(earlier, text, words):
    if text is not None:
        earlier.put(FLAGS, text, 0o644)
    with pytest.raises(kubeadm.Refused, match=words):
        kubeadm.upgrade(earlier, 36)


@pytest.mark.parametrize("minor, words", [(23, ["--container-runtime-endpoint=unix:///x"]), (27, ["--container-runtime=remote"]),
                                          (35, ["--pod-infra-container-image=x"])])
def test_rules_of_kubelet_refuse(earlier, minor, words):
    earlier.put(FLAGS, flags(*words), 0o644)
    with pytest.raises(kubeadm.Refused):
        kubeadm.start_kubelet(earlier, minor)
    earlier.put(FLAGS, flags(NAME), 0o644)
    kubeadm.start_kubelet(earlier, minor)


# What a join writes.

def test_join(joined):
    assert (joined.read(FLAGS), joined.read(INSTANCE)) == (flags(NAME), instance(CONTAINERD))
    upgrade_all(joined)


@pytest.mark.parametrize("minor", VERSIONS)
def test_each_version(joined, minor):
    kubeadm.upgrade(joined, minor)
    kubeadm.start_kubelet(joined, minor)


def test_machine_that_joined_earlier(earlier, server):
    server.requests.clear()
    run = earlier.install().joined()
    assert (earlier.read(FLAGS), earlier.read(INSTANCE)) == (flags(NAME), instance(CONTAINERD)) and "WARNING" not in run.stderr
    assert "for `kubeadm upgrade node`" in run.stderr and server.requests == []
    files = snapshot(earlier.root)
    assert "kubeadm" not in earlier.install().joined().stderr
    assert snapshot(earlier.root) == files
    upgrade_all(earlier)


EARLIER = [     # recorded arguments, file, what it becomes
    ("arguments", "--v=4", flags("--v=4"), flags("--v=4", NAME)),
    ("an endpoint, which kubeadm takes out", f"--container-runtime-endpoint=unix://{CRIO}", flags(f"--container-runtime-endpoint=unix://{CRIO}"),
     flags(f"--container-runtime-endpoint=unix://{CRIO}", NAME)),
    ("a file that is gone", "--v=4 " + NAME, None, flags("--v=4", NAME)),
    ("an empty file", None, "", flags(NAME)),
    ("no arguments", None, flags(), flags(NAME)),
    ("the arguments of another program", None, flags("--v=2"), flags("--v=2")),
    ("a form that kubeadm never writes", None, "A=b\n", "A=b\n"),
]


@pytest.mark.parametrize("arguments, old, new", [row[1:] for row in EARLIER], ids=[row[0] for row in EARLIER])
def test_arguments_of_an_earlier_join(earlier, arguments, old, new):
    set_record(earlier, kubeletArguments=arguments)
    if old is not None:
        earlier.put(FLAGS, old, 0o644)
    earlier.install().joined()
    assert earlier.read(FLAGS) == new
    files = snapshot(earlier.root)
    earlier.install().joined()
    assert snapshot(earlier.root) == files
    earlier.install("--reset")
    assert earlier.target(FLAGS).exists() == (old == new)


def test_not_without_a_record(earlier):
    """Somebody else joined this machine."""
    earlier.target(earlier.RECORD).unlink()
    files = snapshot(earlier.root)
    earlier.install().joined()
    assert snapshot(earlier.root) == files


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
@pytest.mark.parametrize("when", ["join", "later"])
def test_socket(machine, when, prepare, path, is_ambiguous):
    if when == "later":
        machine.unit().joined()
        machine.target(INSTANCE).unlink()
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


def test_empty_endpoint_of_kubeadm(earlier):
    """What kubeadm 1.36 left on a machine that joined earlier."""
    earlier.put(FLAGS, flags(NAME), 0o644)
    kubeadm.write_instance(earlier)
    earlier.install().joined()
    assert earlier.read(INSTANCE) == instance(CONTAINERD)


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
def test_killed(earlier, strace, is_change):
    """Killed anywhere: the machine has joined, and the next start completes it, so that reset finds both files."""
    path = CRIO if is_change else CONTAINERD
    if is_change:
        earlier.install().joined()
        configure(earlier, criSocket=CRIO)
    files = save(earlier)
    install(earlier, strace).joined()
    for name, number in points(earlier):
        put_back(earlier, files)
        install(earlier, strace, f"{name}:signal=KILL:when={number}")
        earlier.install().joined()
        where = f"killed at {name} {number}"
        assert (earlier.read(FLAGS), earlier.read(INSTANCE)) == (flags(NAME), instance(path)), where
        assert [file for file in earlier.target_names() if ".tmp" in file] == [], where
        earlier.install("--reset")
        assert not earlier.target(FLAGS).exists() and not earlier.target(INSTANCE).exists(), where


def test_full_disk(earlier, strace):
    """The machine has joined: a warning."""
    run = install(earlier, strace, "fsync:error=ENOSPC").joined()
    assert "without which `kubeadm upgrade node` fails: No space left on device" in run.stderr
    assert "has already joined" in run.stderr and not [file for file in earlier.target_names() if ".tmp" in file]
