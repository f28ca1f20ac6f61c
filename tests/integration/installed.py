# SPDX-License-Identifier: Apache-2.0
"""Machines on which install has written, now or for an earlier join, and what they hold afterwards."""

import hashlib
import json
import os
import pathlib
import socket

from common import pki, sockets
from common.machine import NODE, TOKEN_ID, TOKEN_SOURCE, Machine

SERVER = "https://192.0.2.10:6443"
FLAGS = "var/lib/kubelet/kubeadm-flags.env"
INSTANCE = "var/lib/kubelet/instance-config.yaml"
OWN_ARGUMENTS = f"--hostname-override={NODE}"
RUNTIME = "unix:///run/containerd/containerd.sock"      # kubelet's default
OTHER = pki.CA("other")
DATED = Machine.PKI + "/kubelet-client-2026-01-02-03-04-05.pem"


def sha256(text):
    """As the record has it."""
    return "sha256:" + hashlib.sha256(text if isinstance(text, bytes) else text.encode()).hexdigest()


def snapshot(folder):
    return {str(path): (path.lstat().st_ino, path.lstat().st_mtime_ns, path.lstat().st_mode, path.read_bytes() if path.is_file() else None)
            for path in folder.rglob("*")}


def lose_certificate(machine):
    """Nothing on the disk can replace it, as it can the link."""
    machine.target(json.loads(machine.read(machine.RECORD))["certificate"].lstrip("/")).unlink()


def before(ca=None, *, kubeconfig=None, embedded=False, pem=None, **options):
    """A machine that joined with a certificate of this kind."""
    def make(machine, own):
        identity = (ca or own).node(**{"node": NODE, **options})
        machine.put_joined_before(identity, SERVER, ca=own, embedded=embedded)
        if pem is not None:
            machine.put(DATED, pem(identity))
        if kubeconfig is not None:
            machine.put(Machine.KUBECONFIG, kubeconfig)
    return make


def record(make, *, pins, ca_file=None):
    """Also the record of our own join with these pins; ca_file replaces the CA file."""
    def both(machine, own):
        make(machine, own)
        instance = f'containerRuntimeEndpoint: "{RUNTIME}"\n'
        machine.put(Machine.RECORD, json.dumps({
            "version": 1, "node": NODE, "hostName": socket.gethostname(), "kubeconfig": "/" + Machine.KUBECONFIG, "server": SERVER, "endpoint": "192.0.2.10:6443", "joinMethod": "token",
            "caCertHashes": [pin(own) for pin in pins],
            "ca": own.pem.decode(), "fileHashes": [sha256(text) for text in (own.pem, instance)], "csr": "node-csr-x", "tokenID": TOKEN_ID, "tokenSource": TOKEN_SOURCE,
            "joinedAt": "2026-01-02T03:04:05Z", "certificate": "/" + DATED, "kubeletArguments": OWN_ARGUMENTS,
            "runtimeEndpoint": RUNTIME}), 0o644)
        machine.put(FLAGS, f'KUBELET_KUBEADM_ARGS="{OWN_ARGUMENTS}"\n', 0o644)
        machine.put(INSTANCE, instance, 0o644)
        if ca_file is not None:
            machine.put(Machine.CA_FILE, ca_file(own), 0o644)
    return both


def own_pin(ca):
    return ca.pin


def other_pin(ca):
    return OTHER.pin


def plain_file(machine, ca, **options):
    """kubelet-client-current.pem is a file: kubelet loads it anyway."""
    before(**options)(machine, ca)
    path = machine.target(Machine.CURRENT)
    path.unlink()
    path.write_bytes(machine.target(DATED).read_bytes())


def other_cluster(world):
    """Joined before with other pins; the settings now name the cluster that answers."""
    world.machine.put_joined_before(OTHER.node(NODE), SERVER, ca=OTHER)
    record(lambda machine, ca: None, pins=[other_pin])(world.machine, OTHER)


def listen(machine, path):
    """The socket of a container runtime."""
    target = machine.target(path.lstrip("/"))
    target.parent.mkdir(parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        sockets.bind(listener, target)


def contents(machine):
    """What kubelet would see."""
    return {name: os.readlink(machine.target(name)) if machine.target(name).is_symlink() else machine.target(name).read_bytes()
            for name in machine.target_names()}


def refresh_handoff(machine, cas, **changes):
    """What `refresh` leaves for install: these CAs, and the server of the join."""
    server = json.loads(machine.read(Machine.RECORD))["server"]
    return {"version": 1, "ca": b"".join(cas).decode(), "server": server, "tlsServerName": "", "proxyURL": "", **changes}


def paths_env(kubeconfig, certificateDirectory, caFile):
    """node-bootstrap.env with these paths."""
    return f"NODE_BOOTSTRAP_KUBECONFIG={kubeconfig}\nNODE_BOOTSTRAP_CERTIFICATE_DIRECTORY={certificateDirectory}\nNODE_BOOTSTRAP_CA_FILE={caFile}\nKUBELET_NODE_NAME={NODE}\n"


def status(machine, *options, **more):
    """`status` knows no --root: node-bootstrap.env, kubeconfig and link name the files below it. No kubelet runs here."""
    env = pathlib.Path("/", Machine.ENV)
    env.write_text(paths_env(machine.target(Machine.KUBECONFIG), machine.target(Machine.PKI), machine.target(Machine.CA_FILE)), encoding="utf-8")
    kubeconfig, link = machine.target(Machine.KUBECONFIG), machine.target(Machine.CURRENT)
    text = kubeconfig.read_text() if kubeconfig.is_file() else ""
    if text:
        kubeconfig.write_text(text.replace('"/var/', f'"{machine.root}/var/').replace('"/etc/', f'"{machine.root}/etc/'))
    if link.is_symlink() and not os.readlink(link).startswith(str(machine.root)):
        target = os.readlink(link)
        link.unlink()
        link.symlink_to(str(machine.root) + target)
    run = machine.status("--no-kubelet", *options, **more)
    env.unlink()
    if text:
        kubeconfig.write_text(text)
    return run
