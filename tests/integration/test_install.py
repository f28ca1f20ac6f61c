# SPDX-License-Identifier: Apache-2.0
"""install with a valid handoff: which files it writes, where, and which it does not change."""

import datetime
import json
import os
import re
import socket
import ssl
import stat
import subprocess
import tempfile
from pathlib import Path

import pytest
import yaml

from common import pki
from common.machine import HEADER, NODE, TOKEN_ID, TOKEN_SOURCE, Machine, node_kubeconfig, to_yaml
from .installed import FLAGS, INSTANCE, OWN_ARGUMENTS, RUNTIME, SERVER, sha256, snapshot

pytestmark = pytest.mark.each_release
OTHER = pki.CA("other")


@pytest.fixture
def ca(cluster):
    return cluster.ca


def joined(machine, ca, **options):
    machine.put_handoff(ca, SERVER, **options)
    return machine.install().joined()


def is_same_key(one, other):
    """GnuTLS may write the private number with a leading zero."""
    return pki.load_key(one.encode()).private_numbers() == pki.load_key(other.encode()).private_numbers()


def test_layout(machine, ca):
    """Names, modes and contents are exactly kubelet's."""
    handoff = machine.put_handoff(ca, SERVER)
    key = (machine.state / "pending.key").read_text()
    machine.install().joined()
    names = machine.target_names()
    dated = next(name for name in names if re.fullmatch(r"var/lib/kubelet/pki/kubelet-client-\d{4}-\d\d-\d\d-\d\d-\d\d-\d\d\.pem", name))
    assert names == {Machine.KUBECONFIG: 0o600, Machine.CA_FILE: 0o644, Machine.CURRENT: 0o777, dated: 0o600, Machine.RECORD: 0o644,
                     "var/lib/kubelet/node-bootstrap.env": 0o644, FLAGS: 0o644, INSTANCE: 0o644}
    assert os.readlink(machine.target(Machine.CURRENT)) == "/" + dated
    text = machine.read(dated)
    assert text.startswith(handoff["certificate"]) and is_same_key(text.removeprefix(handoff["certificate"]), key)
    assert machine.read(Machine.CA_FILE) == handoff["ca"]
    for path in (machine.root / "var/lib/kubelet/pki", machine.root / "etc/kubernetes"):
        assert path.stat().st_mode & 0o777 == 0o755
    assert list(machine.state.iterdir()) == []


def is_in_memory(path):
    return subprocess.run(["stat", "--file-system", "--format=%T", path], capture_output=True, text=True, check=True).stdout.strip() in ("tmpfs", "ramfs")


def test_folder_in_memory(machine, ca):
    """A warning says that the machine will join again at every boot; the join succeeds."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        volatile = Machine(Path(folder))
        assert is_in_memory(folder)
        for made in (volatile, machine):
            made.configure(endpoints=["192.0.2.10:6443"], pins=[ca.pin])
            run = joined(made, ca)
            assert ("will join again at every boot" in run.stderr) == is_in_memory(made.root), run.stderr
        volatile.end()


def test_date_in_the_name_is_local_time(machine, ca):
    before = datetime.datetime.now().replace(microsecond=0)
    joined(machine, ca)
    name = os.path.basename(os.readlink(machine.target(Machine.CURRENT)))
    assert before <= datetime.datetime.strptime(name, "kubelet-client-%Y-%m-%d-%H-%M-%S.pem") <= datetime.datetime.now()


def test_kubeconfig(machine, ca):
    """Written from fields, with kubelet's own names, and read back by what reads it."""
    joined(machine, ca)
    text = machine.read(Machine.KUBECONFIG)
    unquoted = re.sub(r'"([^"]*)"', r"\1", text)
    for line in ("kind: Config", "current-context: default-context", f"server: {SERVER}", "certificate-authority: /etc/kubernetes/pki/ca.crt",
                 "client-certificate: /var/lib/kubelet/pki/kubelet-client-current.pem", "client-key: /var/lib/kubelet/pki/kubelet-client-current.pem",
                 "name: default-cluster", "name: default-auth", "name: default-context", "namespace: default"):
        assert re.search(rf"^[ -]*{re.escape(line)}$", unquoted, re.M), f"{line} is not in\n{text}"
    assert "proxy-url" not in text and "tls-server-name" not in text and "-data" not in text and "token" not in text
    assert machine.inspect().joined().note["verdict"] == "usable"


def test_server_name_and_proxy_and_prefix(machine, ca):
    machine.put_handoff(ca, "https://api.example.org:443/k8s/clusters/c-1", tlsServerName="kubernetes.example.org",
                        proxyURL="http://proxy.example.org:3128")
    machine.install().joined()
    unquoted = machine.read(Machine.KUBECONFIG).replace('"', "")
    for line in ("server: https://api.example.org:443/k8s/clusters/c-1", "tls-server-name: kubernetes.example.org", "proxy-url: http://proxy.example.org:3128"):
        assert re.search(rf"^[ -]*{re.escape(line)}$", unquoted, re.M)


def test_record(machine, ca):
    handoff = machine.put_handoff(ca, SERVER)
    machine.install().joined()
    record = json.loads(machine.read(Machine.RECORD))
    joined_at = datetime.datetime.strptime(record.pop("joinedAt"), "%Y-%m-%dT%H:%M:%SZ")
    assert abs(joined_at - pki.now()) < datetime.timedelta(minutes=5)
    assert record.pop("installUsec") > 0
    # What a refresh needs.
    settings = yaml.safe_load(record.pop("settings"))
    assert settings == {"apiVersion": "node-bootstrap/v1", "kind": "NodeBootstrap", "discovery": {"endpoints": [handoff["endpoint"]]}, "timeout": "80s"}
    assert record.pop("ca") == ca.pem.decode()
    written = [FLAGS, INSTANCE, Machine.KUBECONFIG, Machine.CA_FILE]
    assert sorted(record.pop("fileHashes")) == sorted(sha256(machine.read(path)) for path in written)
    assert record == {"version": 1, "node": NODE, "hostName": socket.gethostname(), "server": SERVER, "endpoint": handoff["endpoint"], "joinMethod": "token", "caCertHashes": [ca.pin],
                      "csr": handoff["csr"], "tokenID": TOKEN_ID, "tokenSource": TOKEN_SOURCE,
                      "kubeletArguments": OWN_ARGUMENTS, "runtimeEndpoint": RUNTIME, "kubeconfig": "/" + Machine.KUBECONFIG,
                      "certificate": os.readlink(machine.target(Machine.CURRENT))}


def test_intermediates_come_before_the_key(machine, ca):
    middle = pki.CA("intermediate", parent=ca)
    key = pki.new_key()
    leaf = middle.client(key.public_key(), pki.node_user(NODE))
    machine.put_handoff(ca, SERVER, key=key, certificate=pki.cert_pem(leaf) + middle.pem)
    machine.install().joined()
    text, chain = machine.installed_identity()[1], (pki.cert_pem(leaf) + middle.pem).decode()
    assert text.startswith(chain) and is_same_key(text.removeprefix(chain), pki.key_pem(key).decode())


def test_other_paths(machine, ca, server):
    machine.configure(server, kubelet={"kubeconfig": "/var/lib/kubelet/kubeconfig", "certificateDirectory": "/var/lib/k3s/pki", "caFile": "/etc/ssl/k8s/ca.pem"})
    joined(machine, ca)
    names = set(machine.target_names())
    assert {"var/lib/kubelet/kubeconfig", "var/lib/k3s/pki/kubelet-client-current.pem", "var/lib/k3s/pki/node-bootstrap.json", "etc/ssl/k8s/ca.pem"} <= names
    assert "/var/lib/k3s/pki/kubelet-client-current.pem" in machine.read("var/lib/kubelet/kubeconfig")


def test_nothing_to_do(machine, ca):
    """Joined before, and no handoff: nothing changes on disk."""
    joined(machine, ca)
    before = snapshot(machine.root)
    machine.install().joined()
    assert snapshot(machine.root) == before


def test_nothing_to_install(machine):
    run = machine.install().failed("handoff-missing", 65)
    assert run.stderr.startswith("node-bootstrap-install: ") and machine.target_names() == {}


# How the node name reaches kubelet.

# name, kubeadm-flags.env before, whether it is written, whether an argument is reported as missing
FLAG_FILES = [
    ("none", None, True, False),
    ("ours", f'KUBELET_KUBEADM_ARGS="{OWN_ARGUMENTS}"\n', True, False),
    ("other arguments", 'KUBELET_KUBEADM_ARGS="--pod-infra-container-image=registry.k8s.io/pause:3.9"\n', False, True),
    ("another name", 'KUBELET_KUBEADM_ARGS="--hostname-override=old --v=2"\n', False, True),
    ("the same name", f'KUBELET_KUBEADM_ARGS="--v=2 {OWN_ARGUMENTS}"\n', False, False),
    ("a form that kubeadm never writes", f"A='\n{OWN_ARGUMENTS}", False, False),
]


@pytest.mark.parametrize("old, is_written, is_missing", [row[1:] for row in FLAG_FILES], ids=[row[0] for row in FLAG_FILES])
def test_node_name(machine, ca, old, is_written, is_missing):
    if old is not None:
        machine.put(FLAGS, old, 0o644)
    run = joined(machine, ca)
    assert machine.read(FLAGS) == (f'KUBELET_KUBEADM_ARGS="{OWN_ARGUMENTS}"\n' if is_written else old)
    assert (f"'/{FLAGS}' was not written by node-bootstrap, or has been changed since, and is left unchanged; add {OWN_ARGUMENTS}" in run.stderr) == is_missing, run.stderr
    assert machine.read("var/lib/kubelet/node-bootstrap.env").strip() == f"KUBELET_NODE_NAME={NODE}"


def test_second_join_replaces_the_arguments_of_the_first(machine, ca):
    joined(machine, ca)
    machine.write_settings(HEADER + to_yaml({"kubelet": {"extraArgs": ["v=4"]}}), "config.yaml.d/10-arguments.yaml")
    machine.target(machine.KUBECONFIG).unlink()
    joined(machine, ca)
    assert machine.read(FLAGS) == f'KUBELET_KUBEADM_ARGS="{OWN_ARGUMENTS} --v=4"\n'


# What somebody has made of the file since the join; None: nothing. Whether the next start writes it, and whether a warning says what it lacks.
CHANGED_SINCE = [
    ("as it was", None, True, False),
    ("lost", "", True, False),
    ("in the form of kubeadm", f"KUBELET_KUBEADM_ARGS=--v=2 {OWN_ARGUMENTS}\n", True, False),
    ("changed", f'KUBELET_KUBEADM_ARGS="{OWN_ARGUMENTS} --v=3"\n', False, True),
    ("changed to what the settings say now", f'KUBELET_KUBEADM_ARGS="--v=4 {OWN_ARGUMENTS}"\n', True, False),
]


@pytest.mark.parametrize("text, is_written, is_missing", [row[1:] for row in CHANGED_SINCE], ids=[row[0] for row in CHANGED_SINCE])
def test_settings_that_change_after_the_join(machine, ca, text, is_written, is_missing):
    arguments = "config.yaml.d/10-arguments.yaml"
    machine.write_settings(HEADER + to_yaml({"kubelet": {"extraArgs": ["v=2"]}}), arguments)
    joined(machine, ca)
    machine.write_settings(HEADER + to_yaml({"kubelet": {"extraArgs": ["v=4"]}}), arguments)
    if text is not None:
        machine.put(FLAGS, text, 0o644)
    run = machine.install().joined()
    assert machine.read(FLAGS) == (f'KUBELET_KUBEADM_ARGS="{OWN_ARGUMENTS} --v=4"\n' if is_written else text)
    assert (f"'/{FLAGS}' was written again, since the settings have changed" in run.stderr) == is_written, run.stderr
    assert ("add --v=4" in run.stderr) == is_missing, run.stderr
    files = snapshot(machine.root)
    assert "add " not in machine.install().joined().stderr and snapshot(machine.root) == files
    (machine.etc / arguments).unlink()
    machine.install().joined()
    assert ("--v" in machine.read(FLAGS)) != is_written
    machine.install("--reset")
    assert machine.target(FLAGS).exists() != is_written


def test_settings_that_are_gone_after_the_join(machine, ca):
    """They may have been in a credential of the first boot: kubelet keeps its arguments."""
    machine.write_settings(HEADER + to_yaml({"kubelet": {"extraArgs": ["v=2"]}}), "config.yaml.d/10-arguments.yaml")
    joined(machine, ca)
    for path in (machine.etc / "config.yaml", machine.etc / "config.yaml.d/10-arguments.yaml"):
        path.unlink()
    machine.install().joined()
    assert machine.read(FLAGS) == f'KUBELET_KUBEADM_ARGS="{OWN_ARGUMENTS} --v=2"\n'


def test_host_name(machine, ca, server):
    node = socket.gethostname().lower()
    machine.configure(server, node="")
    joined(machine, ca, node=node)
    assert machine.read(FLAGS) == f'KUBELET_KUBEADM_ARGS="--hostname-override={node}"\n'
    assert machine.read("var/lib/kubelet/node-bootstrap.env").strip() == f"KUBELET_NODE_NAME={node}"


def test_host_name_and_arguments_of_another_program(machine, ca, server):
    """kubelet uses the host name without an argument."""
    machine.configure(server, node="")
    machine.put(FLAGS, 'KUBELET_KUBEADM_ARGS="--v=2"\n', 0o644)
    assert FLAGS not in joined(machine, ca, node=socket.gethostname().lower()).stderr


SOCKET = "/run/containerd/containerd.sock"
ARGUMENTS = [
    ("taints", {"node": {"taints": ["a=b:NoSchedule", "c:NoExecute"]}}, ["--register-with-taints=a=b:NoSchedule,c:NoExecute"]),
    ("socket", {"kubelet": {"criSocket": SOCKET}}, [f"--container-runtime-endpoint=unix://{SOCKET}"]),
    ("extra arguments", {"kubelet": {"extraArgs": ["v=4", "node-labels=a=b,c=d"]}}, ["--v=4", "--node-labels=a=b,c=d"]),
]


@pytest.mark.parametrize("settings, arguments", [row[1:] for row in ARGUMENTS], ids=[row[0] for row in ARGUMENTS])
def test_arguments_of_kubelet(machine, ca, settings, arguments):
    """As kubeadm writes them."""
    machine.write_settings(HEADER + to_yaml(settings), "config.yaml.d/10-arguments.yaml")
    joined(machine, ca)
    assert sorted(machine.read(FLAGS).split('"')[1].split()) == sorted([OWN_ARGUMENTS, *arguments])


def test_extra_args_are_the_operators(machine, ca):
    for path in ("etc/default/kubelet", "etc/sysconfig/kubelet"):
        machine.put(path, "KUBELET_EXTRA_ARGS=--v=4\n", 0o644)
    joined(machine, ca)
    assert machine.read("etc/default/kubelet") == machine.read("etc/sysconfig/kubelet") == "KUBELET_EXTRA_ARGS=--v=4\n"


# Something else is in the place of a file.

FOREIGN = [
    ("KubeletConfiguration", "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"),
    ("no kind", "apiVersion: v1\nclusters: []\n"),
    ("not YAML", "{[\n"),
    ("binary", b"\x7fELF\2\1\1" + bytes(64)),
    ("text", "do not touch\n"),
]


@pytest.mark.parametrize("contents", [row[1] for row in FOREIGN], ids=[row[0] for row in FOREIGN])
def test_not_a_kubeconfig(machine, ca, contents):
    """Replaces only a `kind: Config`."""
    path = machine.put(Machine.KUBECONFIG, contents, 0o644)
    before = snapshot(machine.root)
    machine.put_handoff(ca, SERVER)
    machine.install().failed("target-not-kubeconfig", 73, "/" + Machine.KUBECONFIG)
    assert snapshot(machine.root) == before and path.exists()
    assert (machine.state / "joined.json").exists()     # the next attempt goes on with it


def link_out(machine, path):
    outside = machine.path / "outside"
    outside.write_text(node_kubeconfig(SERVER))
    machine.target(path).symlink_to(outside)


def fifo(machine, path):
    os.mkfifo(machine.target(path))


def folder(machine, path):
    machine.target(path).mkdir()


@pytest.mark.parametrize("make", [link_out, fifo, folder], ids=lambda make: make.__name__)
@pytest.mark.parametrize("path", [Machine.KUBECONFIG, Machine.CA_FILE, Machine.RECORD, "var/lib/kubelet/node-bootstrap.env", FLAGS])
def test_no_file_in_its_place(machine, ca, path, make):
    """A link, a FIFO or a folder in place of a file is replaced or refused, never followed or waited for."""
    machine.target(path).parent.mkdir(parents=True)
    make(machine, path)
    outside = machine.path / "outside"
    before = outside.read_bytes() if outside.exists() else None
    machine.put_handoff(ca, SERVER)
    run = machine.install()
    assert before == (outside.read_bytes() if outside.exists() else None)
    if run.exit == 0:
        assert stat.S_ISREG(machine.target(path).lstat().st_mode) or (path == FLAGS and "is left unchanged" in run.stderr)
    else:
        assert run.code in ("target-unwritable", "target-not-kubeconfig") and run.exit == 73 and "/" + path in run.stderr
        assert path == Machine.KUBECONFIG or not machine.target(Machine.KUBECONFIG).exists()


def link(machine, path):
    machine.put(path + ".other", "other: {}\n", 0o644)
    machine.target(path).symlink_to(os.path.basename(path) + ".other")


def large(machine, path):
    machine.put(path, "#" * 5000, 0o644)


@pytest.mark.parametrize("make", [link, fifo, folder, large], ids=lambda make: make.__name__)
def test_instance_of_somebody_else(machine, ca, make):
    """Only kubeadm needs this file: whatever is in its place stays, and the machine joins."""
    machine.target(INSTANCE).parent.mkdir(parents=True)
    make(machine, INSTANCE)
    before = machine.target(INSTANCE).lstat()
    joined(machine, ca)
    assert machine.target(INSTANCE).lstat().st_ino == before.st_ino


def test_current_is_a_file(machine, ca):
    """A machine on which someone copied the certificate to kubelet-client-current.pem."""
    machine.put(Machine.CURRENT, b"old", 0o600)
    run = joined(machine, ca)
    assert machine.target(Machine.CURRENT).is_symlink() and machine.read(Machine.CURRENT + ".old") == "old"
    assert "kubelet-client-current.pem.old" in run.stderr


def test_folder_that_is_a_file(machine, ca):
    machine.put(Machine.PKI, "not a folder")
    machine.put_handoff(ca, SERVER)
    machine.install().failed("target-unwritable", 73, "/" + Machine.PKI)
    assert not machine.target(Machine.KUBECONFIG).exists() and (machine.state / "joined.json").exists()


def test_two_in_one_second(machine, ca):
    """If the dated name exists, another one is used, and nothing is overwritten."""
    start = datetime.datetime.now()
    taken = [f"{Machine.PKI}/kubelet-client-{(start + datetime.timedelta(seconds=i)):%Y-%m-%d-%H-%M-%S}.pem" for i in range(-1, 4)]
    for path in taken:
        machine.put(path, "taken")
    joined(machine, ca)
    assert all(machine.read(path) == "taken" for path in taken)
    assert machine.installed_identity()[0]


# Joining again.

def test_rejoin(machine, ca):
    """The old kubeconfig is renamed, and the old certificate stays."""
    machine.put_joined_before(ca.node(end=-pki.HOUR, start=-pki.DAY), SERVER, ca=ca)
    old = machine.read(Machine.KUBECONFIG)
    joined(machine, ca)
    assert machine.read(Machine.KUBECONFIG + ".old") == old
    assert machine.read(Machine.PKI + "/kubelet-client-2026-01-02-03-04-05.pem")
    assert machine.inspect().note["verdict"] == "usable"


def test_rejoin_many_times(machine, ca):
    """A renamed kubeconfig is never overwritten."""
    kubeconfigs, names = [], ["kubelet.conf.old", "kubelet.conf.old.2", "kubelet.conf.old.3"]
    for name in names:
        machine.put_joined_before(ca.node(end=-pki.HOUR, start=-pki.DAY), f"https://192.0.2.{len(kubeconfigs) + 1}:6443", ca=ca)
        kubeconfigs.append(machine.read(Machine.KUBECONFIG))
        machine.put_handoff(ca, SERVER)
        run = machine.install().joined()
        assert f"the existing '/{Machine.KUBECONFIG}' was renamed to '{name}'" in run.stderr
        assert [machine.read("etc/kubernetes/" + name) for name in names[:len(kubeconfigs)]] == kubeconfigs


def test_other_ca_file_is_renamed(machine, ca):
    machine.put(Machine.CA_FILE, OTHER.pem, 0o644)
    run = joined(machine, ca)
    assert machine.read(Machine.CA_FILE).encode() == ca.pem and machine.read(Machine.CA_FILE + ".old").encode() == OTHER.pem
    assert f"the existing '/{Machine.CA_FILE}' was renamed" in run.stderr


def test_same_ca_file_stays(machine, ca):
    path = machine.put(Machine.CA_FILE, ca.pem, 0o644)
    before = path.stat().st_ino
    run = joined(machine, ca)
    assert path.stat().st_ino == before and "renamed" not in run.stderr and not machine.target(Machine.CA_FILE + ".old").exists()


@pytest.mark.parametrize("path", [f"{Machine.PKI}/.node-bootstrap.json.tmp", "etc/kubernetes/.kubelet.conf.tmp"])
def test_renaming_is_undone(machine, ca, path):
    """If one file cannot be written, all others keep their contents and names."""
    machine.put_joined_before(OTHER.node(end=-pki.HOUR, start=-pki.DAY), SERVER, ca=OTHER)
    machine.target(Machine.CURRENT).unlink()
    machine.put(Machine.CURRENT, "by hand")
    machine.put(f"{path}/in the way", "")
    before = {name: entry[3] for name, entry in snapshot(machine.root).items()}
    machine.put_handoff(ca, SERVER)
    machine.install().failed("target-unwritable", 73)
    assert {name: entry[3] for name, entry in snapshot(machine.root).items()} == before


def test_rejoin_only_after_all_checks(machine, ca):
    machine.put_joined_before(ca.node(end=-pki.HOUR, start=-pki.DAY), SERVER, ca=ca)
    before = snapshot(machine.root)
    machine.put_handoff(ca, SERVER, node="node-2")
    machine.install().failed("certificate-unusable", 76)
    assert snapshot(machine.root) == before


def test_failure_leaves_no_key_behind(machine, ca):
    """Neither the first attempt nor later ones."""
    machine.put_handoff(ca, SERVER)
    machine.target(Machine.CA_FILE).mkdir(parents=True)
    for _ in range(2):
        machine.install().failed("target-unwritable", 73, "/" + Machine.CA_FILE)
    assert machine.target_names() == {}


def test_whole_unit(world):
    """A join; then a second start without a connection and without a change."""
    world.machine.unit().joined()
    certificates, text = world.machine.installed_identity()
    assert pki.subject(certificates[0]) == (["system:nodes"], [pki.node_user(NODE)])
    identity = world.machine.path / "identity.pem"
    identity.write_text(text)
    context = ssl.create_default_context(cafile=world.machine.target(Machine.CA_FILE))
    context.load_cert_chain(identity)
    with socket.create_connection((world.server.host, world.server.port)) as sock, \
            context.wrap_socket(sock, server_hostname=world.server.host) as tls:
        tls.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert b"200 OK" in tls.recv(4096)
    assert world.server.requests[-1].user == pki.node_user(NODE)

    count, before = len(world.server.connections), snapshot(world.machine.root)
    run = world.machine.unit().joined()
    assert (len(world.server.connections), snapshot(world.machine.root)) == (count, before)
    assert any("joined" in status or "already" in status for status in world.machine.runs[-2].statuses) or "joined" in world.machine.runs[-2].stderr
    assert run.exit == 0
