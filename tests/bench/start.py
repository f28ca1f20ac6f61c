# SPDX-License-Identifier: Apache-2.0
"""bench.start PACKAGE ROUNDS SUITE: the time that node-bootstrap.service takes at every boot of a machine that has joined, as JSON for bench.report.

Each round, in a booted container, starts the service of the package, and then a oneshot unit with the same sandbox, whose command does
nothing. The difference is the time of node-bootstrap itself. As root.
"""

import json
import re
import sys
from pathlib import Path

from common import pki
from e2e.harness import image, isolation, network
from e2e.harness.machine import Machine

UNIT, EMPTY = "node-bootstrap.service", "empty.service"
NODE = "bench"
CURRENT = "/var/lib/kubelet/pki/kubelet-client-current.pem"
KUBECONFIG = f"""apiVersion: v1
kind: Config
clusters:
- name: default-cluster
  cluster:
    certificate-authority: /etc/kubernetes/pki/ca.crt
    server: https://192.0.2.1:6443
contexts:
- name: default-context
  context:
    cluster: default-cluster
    user: default-auth
current-context: default-context
users:
- name: default-auth
  user:
    client-certificate: {CURRENT}
    client-key: {CURRENT}
"""


def join(machine):
    """What a join leaves."""
    ca = pki.CA()
    dated = CURRENT.replace("current", "2026-01-02-03-04-05")
    machine.write(dated, ca.node(NODE).combined, 0o600)
    machine.path(CURRENT).symlink_to(dated)
    machine.write("/etc/kubernetes/pki/ca.crt", ca.pem)
    machine.write("/etc/kubernetes/kubelet.conf", KUBECONFIG, 0o600)
    machine.write("/var/lib/kubelet/node-bootstrap.env", f"KUBELET_NODE_NAME={NODE}\n")
    machine.write("/etc/node-bootstrap/config.yaml", f"apiVersion: node-bootstrap/v1\nkind: NodeBootstrap\ndiscovery:\n  endpoints: [192.0.2.1:6443]\n  caCertHashes: ['{ca.pin}']\n")


def add_empty(machine):
    """The [Service] section of the unit, with another command and folders of its own."""
    text = machine.run("cat", f"/lib/systemd/system/{UNIT}").stdout
    service = text[text.index("[Service]"):text.index("[Install]")]
    service = re.sub(r"(?m)^ExecStart=.*$", "ExecStart=!/bin/true", service)
    service = re.sub(r"(?m)^StateDirectory=.*$", "StateDirectory=empty", service)
    machine.write(f"/etc/systemd/system/{EMPTY}", "[Unit]\nStartLimitIntervalSec=0\n" + service)
    machine.run("systemctl", "daemon-reload")


def start(machine, unit):
    """From the start of the unit's command to active, in ms."""
    machine.run("systemctl", "stop", unit)
    machine.run("systemctl", "start", unit)
    began, active = map(int, machine.show(unit, "InactiveExitTimestampMonotonic", "ActiveEnterTimestampMonotonic"))
    return (active - began) / 1000


def main():
    package, rounds, suite = Path(sys.argv[1]).resolve(), int(sys.argv[2]), sys.argv[3]
    work = isolation.cache() / "mnt"
    isolation.enter(work, lambda: image.debian(suite))
    network.start()
    tree = image.debian(suite)
    machine = Machine(work, [image.install(work / "layer", tree, package), tree], NODE)
    rows = {UNIT: [], EMPTY: []}
    try:
        join(machine)
        machine.boot()
        add_empty(machine)
        for number in range(-2, rounds):  # the first two rounds warm the caches, and are not counted
            for unit, row in rows.items():
                taken = start(machine, unit)
                if number >= 0:
                    row.append(taken)
        assert "has already joined" in machine.journal_text(f"--unit={UNIT}"), machine.journal_text()
        systemd = machine.run("systemctl", "--version").stdout.split()[1]
    finally:
        machine.close()
    print(json.dumps({"systemd": systemd, "node-bootstrap.service": rows[UNIT], "empty unit": rows[EMPTY]}))


if __name__ == "__main__":
    main()
