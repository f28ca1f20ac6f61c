# SPDX-License-Identifier: Apache-2.0
"""A machine that has joined; systemd, whose part the tests play, tells of the service and of kubelet."""

import json
import socket
import subprocess
import time

from common import pki, sockets
from common.failures import meet
from common.machine import NODE, TOKEN, Machine, find_program
from .journal import MACHINE_ID, Journal, last
from .manager import Manager

UNIT, KUBELET = "node-bootstrap.service", "kubelet.service"
INSIDE = f"""
hostname {NODE}
mount -t tmpfs tmpfs /etc
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/lib
mount -t tmpfs tmpfs /var/log
mkdir -p /etc/kubernetes /run/systemd /run/log
mount --bind "$0/systemd" /run/systemd
mount --bind "$0/swaps" /proc/swaps
ln -s "$0/journal" /run/log/journal
if [ -e "$0/last" ]; then cp -r "$0/last" /run/node-bootstrap; fi
cp -a "$0/root/etc/." /etc
cp -a "$0/root/var/lib/." /var/lib
echo {MACHINE_ID} >/etc/machine-id
exec "$@"
"""
RECORD = {"version": 1, "node": NODE, "server": "https://10.0.0.1:6443", "endpoint": "10.0.0.1:6443", "caCertHashes": [], "fileHashes": [],
          "csr": "", "joinMethod": "token", "tokenID": "", "tokenSource": "a test", "joinedAt": "2026-01-02T03:04:05Z", "certificate": "/x",
          "kubeconfig": "/" + Machine.KUBECONFIG}


def ago(seconds):
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000 - round(seconds * 1_000_000)


class Place:
    """The service has joined this machine."""

    def __init__(self, path, ca=None, **validity):
        self.path, self.has_socket = path, False
        self.machine, self.ca = Machine(path), ca or pki.CA()
        self.machine.put_joined_before(self.ca.node(NODE, **validity), "https://10.0.0.1:6443", ca=self.ca)
        self.machine.put(Machine.RECORD, json.dumps({**RECORD, "ca": self.ca.pem.decode()}))
        (path / "swaps").write_text("Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n")
        (path / "kubelet").write_text("")
        (path / "kubelet").chmod(0o755)
        self.journal = Journal(path / "journal")
        self.service = {"LoadState": "loaded", "ActiveState": "active", "SubState": "exited", "UnitFileState": "enabled", "Job": (0, "/")}
        self.manager = Manager(path / "systemd", {UNIT: self.service})
        self.kubelet()

    def kubelet(self, active="active", sub="running", age=60.0, **more):
        """`age`: for how many seconds it has been active."""
        command = [str(self.path / "kubelet"), "--healthz-port=0", f"--container-runtime-endpoint={self.path}/runtime.sock"]
        unit = {"LoadState": "loaded", "ActiveState": active, "SubState": sub, "UnitFileState": "enabled", "Job": (0, "/"),
                "ExecStart": [(command[0], command, False, *[0] * 7)], "ActiveEnterTimestampMonotonic": ago(age), "ExecMainStatus": 0, **more}
        self.manager.units[KUBELET] = unit
        return unit

    def tell(self, *words, **more):
        """What the service has reported: the arguments of last()."""
        (self.path / "last").mkdir(exist_ok=True)
        (self.path / "last/last.json").write_text(last(*words, **more))

    def put_socket(self):
        if not self.has_socket:
            with socket.socket(socket.AF_UNIX) as listener:
                sockets.bind(listener, self.path / "runtime.sock")
            self.has_socket = True

    def run(self, *words, stdout=subprocess.PIPE, before=()):
        argv = ["/usr/bin/unshare", "--user", "--map-root-user", "--mount", "--uts", "sh", "-ec", INSIDE, self.path, *before, find_program("node-bootstrap"), *words]
        done = subprocess.run(argv, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False, env={"PATH": "/usr/sbin:/usr/bin"})
        meet(done.stderr)
        meet(done.stdout or "")
        return done

    def setup(self, *options):
        return self.run("setup", "10.0.0.1:6443", "--token", TOKEN, "--discovery-token-ca-cert-hash", self.ca.pin, *options)

    def state(self):
        """What --json, --monitor and the text say alike."""
        line, text, found = self.run("status", "--monitor"), self.run("status"), json.loads(self.run("status", "--json").stdout)
        assert line.returncode == text.returncode
        label = found["state"].upper().replace("-", " ") if line.returncode else "OK"
        # A kubelet grows older between the answers.
        short = found["message"].removeprefix("not joined: ")
        assert line.stdout.startswith(f"{label}: {short[:30]}") and f"State: {found['message'][:30]}" in text.stdout
        return found, line.returncode
