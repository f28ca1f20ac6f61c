# SPDX-License-Identifier: Apache-2.0
"""bench.waiting PACKAGE [--minutes=N] [--record]: what a join costs while nobody approves its request, an hour by default.

The service runs in a booted container, beside a kubelet that waits with its own TLS bootstrap, on one control plane. Counted from the
moment when both wait: how often their threads were switched in, CPU time, memory (the share of each process, PSS), lines in the journal
or log, and the requests that the API server has seen. --record writes docs/waiting.json, and the table into docs/comparison.md. As root,
after tests/control-plane.
"""

import argparse
import collections
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from e2e.harness import controlplane, image, isolation, network
from e2e.harness.node import UNIT, Node
from . import report
from .table import kubelet, processor

PAUSE = 5       # seconds between two looks at the processes, which may come and go
SETTLE = 10     # until nothing is under way that both do once
TICK = os.sysconf("SC_CLK_TCK")
POLICY = {
    "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "userGroups": ["system:bootstrappers", "system:unauthenticated"]}],
}


def read(pid):
    """Switches, seconds of CPU and KiB of one process, and when it started; None when it has ended."""
    folder = Path("/proc", str(pid))
    try:
        stat = (folder / "stat").read_text().rpartition(")")[2].split()
        switches = sum(int(line.split()[1]) for status in folder.glob("task/*/status") for line in status.read_text().splitlines()
                       if "ctxt_switches" in line)
        [pss] = [int(line.split()[1]) for line in (folder / "smaps_rollup").read_text().splitlines() if line.startswith("Pss:")]
    except (FileNotFoundError, ProcessLookupError, ValueError):
        return None
    return {"switches": switches, "cpu": (int(stat[11]) + int(stat[12])) / TICK, "pss": pss, "started": stat[19]}


class Watched:
    """The processes that `pids` finds, from the first look on; also those that come and go."""

    def __init__(self, pids):
        self.pids, self.last = pids, {}
        self.look()
        self.first, self.pss = dict(self.last), self.memory()

    def look(self):
        found = ((pid, read(pid)) for pid in self.pids())
        now = {(pid, one["started"]): one for pid, one in found if one}
        self.present = list(now)
        self.last |= now

    def memory(self):
        return round(sum(self.last[key]["pss"] for key in self.present) / 1024, 2)

    def spent(self, what):
        return sum(last[what] - self.first.get(key, {what: 0})[what] for key, last in self.last.items())

    def figures(self):
        return {"processes": len(self.present), "switches": self.spent("switches"), "cpuSeconds": round(self.spent("cpu"), 2),
                "pssMiB": [self.pss, self.memory()]}


def of_unit(node):
    """The processes of the service."""
    def pids():
        for pid in node.pids():
            try:
                if f"/{UNIT}" in Path(f"/proc/{pid}/cgroup").read_text():
                    yield pid
            except (FileNotFoundError, ProcessLookupError):
                pass
    return pids


def lines(path):
    return path.read_text(errors="replace").splitlines()


def requests(plane, since):
    """{program: number of requests}, by the name that it calls itself."""
    events = (json.loads(line) for line in lines(plane.work / "audit.log")[since:])
    return collections.Counter(e["userAgent"].split("/")[0] for e in events if e["stage"] != "ResponseStarted")


def wait(plane, node, work, minutes):
    ttl = minutes * 60 + 3600
    node.prepare(plane.token(controlplane.MANUAL_GROUP, ttl=ttl))
    node.boot("--unit=basic.target")
    node.begin()
    log = work / "kubelet.log"
    with open(log, "wb") as output:
        other = subprocess.Popen(kubelet(plane, work / "kubelet", plane.token(controlplane.MANUAL_GROUP, ttl=ttl), "kubelet"),
                                 stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        for name in (node.name, "kubelet"):
            plane.await_csr(name)
        node.await_status("waiting for approval")
        time.sleep(SETTLE)
        audited, said, logged = len(lines(plane.work / "audit.log")), len(node.entries()), len(lines(log))
        watched = {"node-bootstrap": Watched(of_unit(node)), "kubelet": Watched(lambda: [other.pid])}
        end = time.monotonic() + minutes * 60
        while time.monotonic() < end:
            time.sleep(PAUSE)
            for one in watched.values():
                one.look()
        seen = requests(plane, audited)
        entries = {"node-bootstrap": len(node.entries()) - said, "kubelet": len(lines(log)) - logged}
        node.await_status("waiting for approval")
        return {name: one.figures() | {"logLines": entries[name], "requests": seen[name]} for name, one in watched.items()}
    finally:
        other.kill()
        other.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", type=lambda name: Path(name).resolve())
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--record", action="store_true")
    arguments = parser.parse_args()
    assets = controlplane.find_assets()
    missing = controlplane.check_assets(assets)
    if missing:
        sys.exit(missing)
    work = isolation.cache() / "mnt"
    isolation.enter(work, image.debian)
    network.start()
    tree = image.debian()
    (work / "policy.json").write_text(json.dumps(POLICY))
    plane = controlplane.ControlPlane(assets, work / "cluster", apiserver=[f"--audit-policy-file={work}/policy.json", "--audit-log-path=audit.log"])
    node = None
    try:
        plane.start()
        node = Node(work, [image.install(work / "layer", tree, arguments.package), tree], "waits", [], plane)
        found = {"processor": processor(), "kernel": os.uname().release.split("-")[0], "kubernetes": f"1.{plane.minor}",
                 "minutes": arguments.minutes, "waiting": wait(plane, node, work, arguments.minutes)}
    finally:
        if node:
            node.close()
        plane.stop()
    print("\n".join(report.waiting_table(found)))
    if arguments.record:
        report.record_waiting(found)


if __name__ == "__main__":
    main()
