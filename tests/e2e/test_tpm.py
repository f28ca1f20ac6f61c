# SPDX-License-Identifier: Apache-2.0
"""Machines whose enrolled key is in their TPM: only this machine can make the join, and no process with network has a part of the key."""

import contextlib
import hashlib
import os
import re
import socket
import subprocess
from pathlib import Path

import pytest
import yaml
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from common import pki
from common.csrs import pending
from common.documentation import commands
from common.failures import FAILURES
from common.tpm import ENDORSEMENT, OWNER
from common.wait import PATIENCE, until
from .harness import admin as admins
from .harness import controlplane
from .harness.node import UNIT
from .harness.tpm import DEVICE, options_of, tpm_of

pytestmark = pytest.mark.each_release
PROVER = "node-bootstrap-prover@.service"
FILE = "/etc/credstore/node-bootstrap.attestation-key"
SCRIPT = "/usr/share/doc/kube-node-bootstrap-admin/examples/fleet"
CAP_DAC_OVERRIDE = 1 << 1


class Fleet:
    """Machines of one image, with one enrolled token, and the controller that decides."""

    def __init__(self, new_node, cluster, admin, stack):
        self.new_node, self.cluster, self.admin, self.stack = new_node, cluster, admin, stack
        self.token = controlplane.Token(*admin.run("token", "create", "--enrolled", "--print=credential").strip().split("."))

    def boot(self, *options, key="tpm", tpm=None, **sections):
        node = self.new_node()
        node.prepare(self.token, **({"proof": {"key": key}} if key else {}), **sections)
        node.tpm = None
        if tpm is not None:
            node.tpm = self.stack.enter_context(tpm_of(node, **tpm))
            options += tuple(options_of(node.tpm))
        node.boot("--unit=basic.target", options=options)
        self.stack.callback(self.forget, node)
        return node

    def forget(self, node):
        record = f"{controlplane.SECRETS}/node-bootstrap-node-{node.name}"
        if self.cluster.find(record):
            self.cluster.request("DELETE", record)

    def enroll(self, name, pem):
        done = self.admin.command("enroll", "add", name, "--public-key=-", input=pem)
        assert done.returncode == 0, done.stderr

    def join_again(self, node):
        node.unjoin()
        self.cluster.delete_node(node.name)
        node.reset_limit()
        node.begin("restart")


@pytest.fixture
def fleet(new_node, cluster, administer):
    admin = administer(cluster)
    with contextlib.ExitStack() as stack:
        stack.enter_context(admin.controller(account=admins.service_account(cluster)))
        yield Fleet(new_node, cluster, admin, stack)


class Desk:
    """Where kubectl works. The commands of docs/first-boot.md run as they stand, but for the names and fingerprints of the machines."""

    def __init__(self, fleet, tree, folder):
        self.folder, self.script = folder, tree / SCRIPT[1:]
        (folder / "bin").mkdir()
        self.add_program("node-bootstrap-admin", f'exec {" ".join(map(str, fleet.admin.program))} "$@"')
        self.add_program("ssh", f'leader=$(cat {folder}/${{1#root@}}.leader); shift; exec nsenter --all --target=$leader --wdns=/ -- "$@"')
        self.environment = {"PATH": f"{folder}/bin:{os.environ['PATH']}", "KUBECONFIG": str(fleet.cluster.work / "kubeadm.conf"), "HOME": str(folder)}

    def add_program(self, name, command):
        path = self.folder / "bin" / name
        path.write_text(f"#!/bin/sh\n{command}\n")
        path.chmod(0o755)

    def type(self, text, status=0):
        done = subprocess.run(["sh", "-ec", text.replace(SCRIPT, f"{self.script} --timeout=0")], cwd=self.folder, env=self.environment, check=False, text=True,
                              capture_output=True, stdin=subprocess.DEVNULL, timeout=PATIENCE)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout

    def start(self, node, user_data):
        """The machine has what cloud-init would write."""
        for entry in yaml.safe_load((self.folder / user_data).read_text())["write_files"]:
            node.write(entry["path"], entry["content"], int(entry["permissions"], 8))
        node.begin()


@pytest.fixture
def desk(fleet, admin_tree, tmp_path):
    return Desk(fleet, admin_tree, tmp_path)


def with_names(text, nodes, fingerprints=()):
    for number, node in enumerate(nodes, 1):
        text = text.replace(f"worker-{number}", node.name)
    left = list(fingerprints)
    return re.sub(r"sha256:HASH\d?", lambda _: left.pop(0), text)


def proof_key(node, *arguments):
    """What `proof-key` prints: the key, and its fingerprint."""
    text = node.run("node-bootstrap", "proof-key", *arguments).stdout
    [pem] = re.findall("-----BEGIN.*?END PUBLIC KEY-----\n", text, re.S)
    [fingerprint] = re.findall("^sha256:[0-9a-f]{64}$", text, re.M)
    assert fingerprint == "sha256:" + hashlib.sha256(pki.spki(load_pem_public_key(pem.encode()))).hexdigest()
    return pem, fingerprint


def test_own_tpm_joins_and_no_other_one(fleet):
    """The same disk in another machine, with another TPM or none, waits or fails, and says why. A copy of the TPM joins as no other node."""
    node = fleet.boot(tpm={})
    fleet.enroll(node.name, proof_key(node)[0])
    other = fleet.boot(tpm={}, node={"name": node.name})
    other.begin()
    other.await_status(f"the fingerprint of this machine's proof key is {proof_key(other)[1]}")
    [csr] = fleet.cluster.csrs(node.name)
    assert pending(fleet.admin.run("requests", "list", "--output=json"))[csr["metadata"]["name"]]["proof"] == "INVALID"
    other.run("systemctl", "stop", UNIT)
    without = fleet.boot(node={"name": node.name})
    without.begin()
    assert without.await_end()[0] == "failed" and without.said("tpm-missing")
    look = "ls /dev/tpmrm0"
    assert f"\n    {look}\n" in FAILURES["tpm-missing"]["remedy"] and without.run(*look.split(), check=False).returncode != 0
    assert node.run(*look.split()).stdout == "/dev/tpmrm0\n"
    copy = fleet.boot(tpm={"copy_of": node.tpm})
    assert proof_key(copy) == proof_key(node)
    copy.begin()
    copy.await_status(f"the fingerprint of this machine's proof key is {proof_key(node)[1]}")
    copy.run("systemctl", "stop", UNIT)
    node.begin()
    assert node.await_end() == ("active", 0)
    assert node.certificate().subject.rfc4514_string() == f"CN=system:node:{node.name},O=system:nodes"
    for machine in (other, without, copy):
        assert not machine.exists("/etc/kubernetes/kubelet.conf")


def test_unknown_machine_joins_once_it_is_enrolled(fleet):
    """With the same request; the fingerprint is on the console. `check` leaves its prover alone, and one that is killed is not missed."""
    node = fleet.boot("--console=read-only", tpm={})
    node.begin()
    _, fingerprint = proof_key(node)
    node.await_status(f"the fingerprint of this machine's proof key is {fingerprint}")
    until(lambda: f"the fingerprint of the proof key of node '{node.name}' is {fingerprint}" in node.console(), "the console has the fingerprint")
    [csr] = fleet.cluster.csrs(node.name)
    [prover] = provers(node)
    assert f"the key {fingerprint} signs" in node.run("node-bootstrap", "check", check=False).stdout
    until(lambda: provers(node) == [prover], "only the prover of the join is left")
    node.run("systemctl", "kill", "--signal=KILL", "node-bootstrap-prover@*")
    fleet.enroll(node.name, proof_key(node)[0])
    assert node.await_end() == ("active", 0)
    assert [one["metadata"]["uid"] for one in fleet.cluster.csrs(node.name)] == [csr["metadata"]["uid"]]


def test_documented_commands_for_one_machine(fleet, desk):
    """The same user data is for a machine that boots before it is enrolled."""
    node = fleet.boot(tpm={})
    node.run("sh", "-ec", "cd /root\n" + with_names(commands("tpm-key"), [node]))
    (desk.folder / f"{node.name}.pem").write_bytes(node.read(f"/root/{node.name}.pem"))
    assert desk.type(with_names(commands("tpm-enroll"), [node])) == f"enrolled node {node.name}\n"
    desk.start(node, "user-data")
    assert node.await_end() == ("active", 0)
    early = fleet.boot(tpm={})
    desk.start(early, "user-data")
    _, fingerprint = proof_key(early)
    early.await_status(f"the fingerprint of this machine's proof key is {fingerprint}")
    desk.type(with_names(commands("tpm-fingerprint"), [early], [fingerprint]))
    assert early.await_end() == ("active", 0)


def test_documented_commands_for_many_machines(fleet, desk):
    """Two with keys that were collected, two by the fingerprints of their keys."""
    nodes = [fleet.boot(tpm={}) for _ in range(4)]
    for node in nodes:
        (desk.folder / f"{node.name}.leader").write_text(str(node.leader))
    desk.type(with_names(commands("tpm-fleet"), nodes[:2]), status=1)      # none has joined yet
    for node in nodes:
        desk.start(node, "workers/user-data")
    for node in nodes[:2]:
        assert node.await_end() == ("active", 0)
    fingerprints = [proof_key(node)[1] for node in nodes[2:]]
    for node, fingerprint in zip(nodes[2:], fingerprints):
        node.await_status(f"the fingerprint of this machine's proof key is {fingerprint}")
    desk.type(with_names(commands("tpm-inventory"), nodes[2:], fingerprints))
    for node in nodes[2:]:
        assert node.await_end() == ("active", 0)


def test_what_may_happen_to_a_tpm(fleet):
    """The key outlives a clear, an owner's password and the lockout; a password of the endorsement hierarchy is said."""
    node = fleet.boot(tpm={"owner": 996, "group": 995, "mode": 0o660})
    key = proof_key(node)
    fleet.enroll(node.name, key[0])
    for happens in (lambda: None, node.tpm.clear, lambda: node.tpm.set_password(OWNER), node.tpm.lock_out):
        happens()
        fleet.join_again(node)
        assert node.await_end() == ("active", 0), node.journal_text("--lines=50")
        assert proof_key(node) == key
    node.tpm.set_password(ENDORSEMENT)
    fleet.join_again(node)
    assert node.await_end() == ("failed", 74) and node.said("tpm-error") and "0x9a2" in node.journal_text("-u", UNIT)
    assert "0x9a2" in node.run("node-bootstrap", "check", check=False).stdout


def test_driver_that_loads_late(fleet):
    """systemd chooses the devices of an instance of the prover at its start, so the join asks another one."""
    node = fleet.boot(tpm={"device": "/dev/late"})
    node.begin()
    until(lambda: node.said("tpm-missing"), "the join waits for a TPM")
    node.run("sh", "-ec", f": >{DEVICE}; mount --bind /dev/late {DEVICE}")
    fleet.enroll(node.name, proof_key(node)[0])
    assert node.await_end() == ("active", 0)


def provers(node):
    """The processes of the service, as numbers seen from here."""
    found = []
    for pid in node.pids():
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:2] == [b"/usr/bin/node-bootstrap", b"prover"]:
                found.append(pid)
    return found


def of_service(node):
    """Those of node-bootstrap.service: install, its runner, join and the processes of its connections."""
    found = []
    for pid in node.pids():
        with contextlib.suppress(OSError):
            if f"/{UNIT}" in Path(f"/proc/{pid}/cgroup").read_text():
                found.append(pid)
    return found


def memory_has(pid, words):
    found = set()
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            start, end = (int(part, 16) for part in line.split()[0].split("-"))
            if "r" not in line.split()[1] or "[v" in line:
                continue
            with contextlib.suppress(OSError, OverflowError, ValueError):
                memory.seek(start)
                data = memory.read(end - start)
                found |= {word for word in words if word in data}
    return found


def test_join_has_neither_key_nor_tpm(fleet):
    """Searched while it waits; the token shows that the search finds something."""
    key = pki.new_key()
    scalar, text = key.private_numbers().private_value.to_bytes(32, "big"), pki.key_pem(key).splitlines()[1]
    for kind, tpm in (("credential", None), ("tpm", {})):
        node = fleet.new_node()
        node.write(FILE, pki.key_pem(key), 0o600)
        node.tpm = fleet.stack.enter_context(tpm_of(node)) if tpm is not None else None
        node.prepare(fleet.token, proof={"key": kind})
        node.boot("--unit=basic.target", options=options_of(node.tpm) if node.tpm else ())
        fleet.stack.callback(fleet.forget, node)
        node.begin()
        node.await_status("the fingerprint of this machine's proof key is")
        [prover], processes = provers(node), of_service(node)
        assert len(processes) >= 3 and prover not in processes
        secret = fleet.token.secret.encode()
        found = [memory_has(pid, (scalar, text, secret)) for pid in processes]
        assert set().union(*found) == {secret}, kind
        device = os.stat(node.tpm.path).st_rdev if node.tpm else None
        for pid in processes:
            links = [os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir()]
            assert not any(DEVICE in link or "attestation" in link for link in links)
            assert device is None or device not in [os.stat(path).st_rdev for path in Path(f"/proc/{pid}/fd").iterdir()]
            assert not Path(f"/proc/{pid}/root/run/credentials/{UNIT}/node-bootstrap.attestation-key").exists()


PATHS = ("/run/probe", "/run/systemd/system/probe", "/etc/probe", "/var/lib/probe", "/root/probe")
PROBE = """
for path in {paths}; do
        touch $path && echo "writes $path"
done
systemctl is-active basic.target && echo connects
: </dev/tcp/{host}/{port} && echo "reaches the API server"
cat /proc/self/net/dev
"""


def test_prover_has_no_network(fleet):
    """The process itself, and what a program that takes its place can do."""
    node = fleet.boot(tpm={})
    node.begin()
    node.await_status("the fingerprint of this machine's proof key is")
    [prover] = provers(node)
    interfaces = re.findall(r"^ *(\w+):", Path(f"/proc/{prover}/net/dev").read_text(), re.M)
    assert interfaces == ["lo"] and os.readlink(f"/proc/{prover}/ns/net") != os.readlink(f"/proc/{node.leader}/ns/net")
    status = dict(re.findall(r"^(\w+):\s*(.*)$", Path(f"/proc/{prover}/status").read_text(), re.M))
    assert [int(status[name], 16) for name in ("CapPrm", "CapEff", "CapBnd")] == [CAP_DAC_OVERRIDE] * 3
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    text = re.sub("^(ExecStart|StandardInput|StandardError|StandardOutput)=.*$", "", node.read(node.show(PROVER.replace("@", "@x"), "FragmentPath")).decode(), flags=re.M)
    node.write("/probe", PROBE.format(paths=" ".join(PATHS), host=fleet.cluster.address, port=6443))
    node.write("/etc/systemd/system/probe.service", text.replace(
        "[Service]\n", "[Service]\nType=oneshot\nExecStart=/bin/bash /probe\nStandardOutput=file:/run/probe.out\nStandardError=null\n"))
    node.run("systemctl", "daemon-reload")
    node.run("systemctl", "start", "probe.service")
    said = node.run("cat", "/run/probe.out").stdout
    assert re.findall(r"^ *(\w+):", said, re.M) == ["lo"] and not re.search("writes|connects|reaches", said), said
    said = node.run("bash", "/probe").stdout.splitlines()
    assert {*(f"writes {path}" for path in PATHS), "connects", "reaches the API server"} <= set(said), "the probe can tell"


def test_joins_that_are_repeated_use_up_no_start_of_the_socket(fleet):
    """systemd's own limit is 5 starts in 10 s."""
    node = fleet.boot(tpm={})
    node.run("sh", "-ec", "for i in $(seq 12); do systemctl start node-bootstrap-prover.socket; systemctl stop node-bootstrap-prover.socket; done")


def test_nobody_else_can_ask(fleet):
    """The socket belongs to root, and is up only as long as the service needs it."""
    node = fleet.boot(tpm={})
    assert not node.is_active("node-bootstrap-prover.socket")
    node.begin()
    node.await_status("the fingerprint of this machine's proof key is")
    assert node.run("stat", "--format=%a %U %F", "/run/node-bootstrap-prover.socket").stdout == "600 root socket\n"
    # A process that outlives the service, and keeps the other end.
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as kept:
        kept.connect(f"/proc/{node.leader}/root/run/node-bootstrap-prover.socket")
        until(lambda: len(provers(node)) == 2, "a second prover")
        node.run("systemctl", "stop", UNIT)
        until(lambda: not node.is_active("node-bootstrap-prover.socket"), "the socket is gone")
        until(lambda: not provers(node), "the provers have ended")
    assert not node.exists("/run/node-bootstrap-prover.socket")
    until(lambda: not node.run("systemctl", "list-units", "--all", "--plain", "--no-legend", "node-bootstrap-prover@*").stdout.strip(), "no instance is left")
