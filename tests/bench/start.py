# SPDX-License-Identifier: Apache-2.0
"""bench.start PACKAGE ROUNDS SUITE: the time that node-bootstrap.service and its gate take at every boot of a machine that has joined, as JSON for bench.report.

Each round, in a booted container, starts both units of the package, and after each of them a oneshot unit with the same sandbox, whose
command does nothing. The difference is the time of node-bootstrap itself. As root.
"""

import json
import re
import sys
from pathlib import Path

from e2e.harness import image, isolation, network, on_disk
from e2e.harness.machine import Machine

UNIT, GATE = "node-bootstrap.service", "node-bootstrap-gate.service"
NODE = "bench"


def add_empty(machine, unit):
    """A unit with the [Service] section of another, but a command that does nothing and folders of its own. Returns its name. It stays active,
    since systemd forgets the times of a unit that has ended and that no other unit names."""
    text = machine.run("cat", f"/lib/systemd/system/{unit}").stdout
    service = text[text.index("[Service]"):text.index("[Install]")]
    service = re.sub(r"(?m)^ExecStart=(!?).*$", r"ExecStart=\1/bin/true", service)
    service = re.sub(r"(?m)^StateDirectory=.*$", "StateDirectory=empty", service)
    machine.write(f"/etc/systemd/system/empty-{unit}", "[Unit]\nStartLimitIntervalSec=0\n" + service + "RemainAfterExit=yes\n")
    return f"empty-{unit}"


def start(machine, unit):
    """From the start of the unit's command to active, or to the end of the gate, in ms."""
    machine.run("systemctl", "stop", unit, check=False)     # the gate refuses, but has ended
    machine.run("systemctl", "--quiet", "reset-failed", unit, check=False)     # systemd may have forgotten the unit
    machine.run("systemctl", "start", unit)
    began, *ended = map(int, machine.show(unit, "InactiveExitTimestampMonotonic", "ActiveEnterTimestampMonotonic", "InactiveEnterTimestampMonotonic"))
    return (max(ended) - began) / 1000


def main():
    package, rounds, suite = Path(sys.argv[1]).resolve(), int(sys.argv[2]), sys.argv[3]
    work = isolation.cache() / "mnt"
    isolation.enter(work, lambda: image.debian(suite))
    network.start()
    tree = image.debian(suite)
    machine = Machine(work, [image.install(work / "layer", tree, package), tree], NODE)
    try:
        ca = on_disk.put(machine, NODE)
        machine.write("/etc/node-bootstrap/config.yaml", "apiVersion: node-bootstrap/v1\nkind: NodeBootstrap\ndiscovery:\n"
                      f"  endpoints: [192.0.2.1:6443]\n  caCertHashes: ['{ca.pin}']\n")
        machine.boot()
        rows = {name: [] for unit in (UNIT, GATE) for name in (unit, add_empty(machine, unit))}
        machine.run("systemctl", "daemon-reload")
        for number in range(-2, rounds):  # the first two rounds warm the caches, and are not counted
            for unit, row in rows.items():
                taken = start(machine, unit)
                if number >= 0:
                    row.append(taken)
        assert "has already joined" in machine.journal_text(f"--unit={UNIT}"), machine.journal_text()
        systemd = machine.run("systemctl", "--version").stdout.split()[1]
    finally:
        machine.close()
    print(json.dumps({"systemd": systemd, "rows": rows}))


if __name__ == "__main__":
    main()
