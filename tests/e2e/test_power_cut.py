# SPDX-License-Identifier: Apache-2.0
"""A power cut during an installation: kubelet uses a complete credential, or finds no kubeconfig.

The states are those of tests/common/disk.py. kubelet is running with the files of each until it
makes a request, which shows its certificate and that it trusts the server, or until it exits. With
-s the outcomes are printed.
"""

import collections
import contextlib
import itertools
import json
import socket
import subprocess

import pytest

from common import disk, pki, versions
from common import machine as machines
from common.machine import Machine
from common.wait import until
from .harness import containerd, image

# The state is the upper layer, so that this machine's own folders do not change and kubelet's need not exist. The files over
# /proc/sys have the values that kubelet would set on this machine.
RUN = """
mkdir "$1/etc.work" "$1/lib.work"
mount -t overlay overlay /etc -o "lowerdir=/etc,upperdir=$1/root/etc,workdir=$1/etc.work"
mount -t overlay overlay /var/lib -o "lowerdir=/var/lib,upperdir=$1/root/var/lib,workdir=$1/lib.work"
for path in vm/overcommit_memory kernel/panic kernel/panic_on_oops; do
        mount --bind "$2/${path##*/}" /proc/sys/$path
done
shift 2
exec "$@"
"""
ARGUMENTS = [
    f"--kubeconfig=/{Machine.KUBECONFIG}", "--rotate-certificates",
    "--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf", f"--hostname-override={machines.NODE}",
]


class Kubelet:
    def __init__(self, program, folder, servers, runtime):
        self.program, self.folder, self.servers = program, folder, servers
        minor = versions.minor(program)
        configuration = folder / "config.yaml"
        configuration.write_text(image.kubelet_configuration(minor))
        self.arguments = [*ARGUMENTS, f"--config={configuration}", *versions.of(minor, "kubelet flags"), f"--container-runtime-endpoint=unix://{runtime}"]
        self.numbers = itertools.count()

    def load(self, state):
        """The server that gets a request and the serial number of the client certificate, or None."""
        folder = self.folder / f"state-{next(self.numbers)}"
        (folder / "root").mkdir(parents=True)
        disk.put(folder / "root", state)
        for name in ("etc", "var/lib"):
            (folder / "root" / name).mkdir(parents=True, exist_ok=True)
        for server in self.servers:
            await_idle(server)
            server.connections.clear()
            server.requests.clear()
        command = ["unshare", "--mount", "sh", "-euc", RUN, "sh", folder, image.FILES / "usr/lib/e2e", self.program, *self.arguments]
        with open(folder / "log", "wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as child:
            try:
                until(lambda: self.shown() or self.refused() or child.poll() is not None,
                      "kubelet makes a request or exits")
            finally:
                child.kill()
        self.log = (folder / "log").read_text()
        return self.shown()

    def shown(self):
        for server in self.servers:
            for request in list(server.requests):
                peer = request.connection.peer
                return server.url, peer and int(peer["serialNumber"], 16)
        return None

    def refused(self):
        return any(connection.error for server in self.servers for connection in list(server.connections))


def await_idle(server):
    """Connections are accepted in their order: those of a kubelet that was killed have ended, too."""
    with socket.create_connection((server.host, server.port)) as last, contextlib.suppress(OSError):
        last.shutdown(socket.SHUT_WR)
        while last.recv(1):
            pass
    until(lambda: not server._open, "the connections have ended")


@pytest.fixture
def world(world, monkeypatch):
    """A machine of the integration tests, with the programs of the package."""
    folder = world.work / "power-cut"
    (folder / "machine").mkdir(parents=True)
    subprocess.run(["dpkg-deb", "-x", world.deb, folder / "package"], check=True)
    monkeypatch.setattr(machines, "BUILD", folder / "package")
    machines.find_program.cache_clear()
    made = machines.World(folder / "machine")
    # Newer versions of kubelet make no request until the runtime has answered.
    with containerd.started(folder / "containerd"):
        made.kubelet = Kubelet(world.assets / "kubelet", folder, [made.server, made.endpoint()], folder / "containerd/socket")
        # As on the machines: see e2e-docker.service.
        command = ["systemd-socket-activate", "--listen=/run/e2e-docker.sock", "--accept", "--inetd", image.FILES / "usr/lib/e2e/docker"]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as docker:
            yield made
            docker.kill()
    made.close()
    subprocess.run(["rm", "-rf", folder], check=True)


def serial(state):
    """Of the certificate that the state holds."""
    return pki.load_certs(state[state[Machine.CURRENT].lstrip("/")])[0].serial_number


def load_each(world, *words):
    """kubelet loads each state that a power cut can leave, once per content of the files it reads."""
    machine, found = world.machine, {}
    old = disk.read(machine.root)
    for state in disk.replay(machine, machine.root, "strace", disk.install_argv(machine, *words)):
        current = state.get(Machine.CURRENT, "")
        paths = Machine.KUBECONFIG, Machine.CA_FILE, Machine.CURRENT, current.lstrip("/")
        found.setdefault(tuple(state.get(path) for path in paths), state)
    outcomes = collections.Counter()
    for state in found.values():
        shown = world.kubelet.load(state)
        if Machine.KUBECONFIG not in state:
            assert shown is None
            outcomes["none"] += 1
        else:
            assert shown, f"kubelet cannot use a state:\n{world.kubelet.log}"
            assert shown[0].encode() in state[Machine.KUBECONFIG] and shown[1] == serial(state)
            is_old = state[Machine.KUBECONFIG] == old.get(Machine.KUBECONFIG)
            outcomes["old" if is_old else "new"] += 1
    print(f"; kubelet loads {len(found)}: {dict(outcomes)}")
    return set(outcomes)


def test_install_and_reset(world):
    machine, ca = world.machine, world.cluster.ca
    machine.put_handoff(ca, world.server.url)
    assert load_each(world) == {"none", "new"}
    assert load_each(world, "--reset") == {"none", "old"}


def test_join_again_and_refresh(world):
    machine, ca = world.machine, world.cluster.ca
    first, second = (server.url for server in world.kubelet.servers)
    machine.put_joined_before(ca.node("former"), second, ca=ca)
    machine.put_handoff(ca, first)
    assert load_each(world) == {"none", "old", "new"}
    note = {"version": 1, "ca": (ca.pem + pki.CA("new").pem).decode(), "server": second,
            "tlsServerName": "", "proxyURL": ""}
    machine.put_state("refreshed.json", json.dumps(note))
    assert load_each(world, "--refresh") == {"old", "new"}


def test_half_a_credential(world):
    """The other tests detect faults: a certificate without its key, and empty files, are refused."""
    machine, ca = world.machine, world.cluster.ca
    machine.put_joined_before(ca.node(machines.NODE), world.server.url, ca=ca)
    state = disk.read(machine.root)
    assert world.kubelet.load(state) == (world.server.url, serial(state))
    current = state[Machine.CURRENT].lstrip("/")
    without_key = state[current].partition(b"-----BEGIN EC")[0]
    for path, data in ((current, without_key), (current, b""), (Machine.CA_FILE, b"")):
        assert world.kubelet.load({**state, path: data}) is None
