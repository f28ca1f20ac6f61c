# SPDX-License-Identifier: Apache-2.0
"""bench.fleet PACKAGE [--nodes=N] [--present=N]: approval of a fleet of nodes, by node-bootstrap-admin's controller and by
kube-controller-manager, on one control plane, one after the other. As root, after tests/control-plane.

PACKAGE is kube-node-bootstrap-admin's .deb. Each node has a token of its own and authenticates with it, as a real one does. First all
nodes submit their requests at once (approvals per second, and how long a request waits); then 50 nodes come one after the other.
With --present, a fleet of this size follows, and the controller is started again among its tokens and requests.
Latency is measured by a watch: from the event with the request to the event with its approval.
"""

import argparse
import http.client
import itertools
import json
import os
import ssl
import statistics
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from common import csrs, pki
from common.wait import until
from e2e.harness import admin, controlplane, isolation
from .table import Direct

NODE_GROUP = "system:bootstrappers:node-bootstrap"
SINGLE = 50
SENDERS = 8
token_ids = itertools.count()
KEY = pki.new_key()     # one for all: what is measured does not depend on it


class Connection:
    """One kept connection to the API server."""

    def __init__(self, plane, is_administrators):
        context = plane.client if is_administrators else ssl.create_default_context(cadata=plane.ca.pem.decode())
        self.connection = http.client.HTTPSConnection("127.0.0.1", plane.port, context=context, timeout=600)

    def post(self, path, body, token=None):
        headers = {"Content-Type": "application/json"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        self.connection.request("POST", path, json.dumps(body), headers)
        answer = self.connection.getresponse()
        data = answer.read()
        if answer.status != 201:
            raise controlplane.ApiError(answer.status, data.decode(errors="replace"))


class Watch:
    """When each request appeared, and when it was approved."""

    def __init__(self, plane):
        self.appeared, self.approved = {}, {}
        version = plane.request("GET", controlplane.CSRS)["metadata"]["resourceVersion"]
        connection = http.client.HTTPSConnection("127.0.0.1", plane.port, context=plane.client)
        connection.request("GET", f"{controlplane.CSRS}?watch=1&resourceVersion={version}")
        self.answer = connection.getresponse()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.answer:
            now, event = time.monotonic(), json.loads(line)
            name = event["object"]["metadata"]["name"]
            self.appeared.setdefault(name, now)
            if any(c["type"] == "Approved" for c in event["object"]["status"].get("conditions", ())):
                self.approved.setdefault(name, now)

    def await_approvals(self, names):
        until(lambda: all(name in self.approved for name in names), f"{len(names)} requests are approved", timeout=3600)

    def latencies(self, names):
        return sorted((self.approved[name] - self.appeared[name]) * 1000 for name in names)


def secret(name, token, group):
    data = {"token-id": token.id, "token-secret": token.secret, "auth-extra-groups": group, "usage-bootstrap-authentication": "true",
            "expiration": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 7200))}
    return {"apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token", "stringData": data,
            "metadata": {"name": f"bootstrap-token-{token.id}", "annotations": {"node-bootstrap/node": name}}}


class Fleet:
    """Nodes, each with a token that the cluster knows."""

    def __init__(self, plane, slug, size, group):
        self.plane = plane
        # Of 10,000 random IDs two are often equal.
        self.tokens = {f"{slug}-{number}": controlplane.Token(f"{next(token_ids):06d}", plane.fresh_token().secret) for number in range(size)}
        self.requests = {name: csrs.make(pki.sign_csr(KEY, pki.node_user(name)), f"csr-{name}") for name in self.tokens}
        self._each(True, lambda connection, name: connection.post(controlplane.SECRETS, secret(name, self.tokens[name], group)), self.tokens)

    def submit(self, names=None):
        """As the nodes do: without a client certificate, with their tokens. Returns the seconds that it took."""
        before = time.monotonic()
        self._each(False, lambda connection, name: connection.post(controlplane.CSRS, self.requests[name], self.tokens[name]), names or self.tokens)
        return time.monotonic() - before

    def _each(self, is_administrators, do, names):
        """With a few connections side by side."""
        def some(share):
            connection = Connection(self.plane, is_administrators)
            for name in share:
                do(connection, name)

        names = list(names)
        with ThreadPoolExecutor(SENDERS) as pool:
            for future in [pool.submit(some, names[n::SENDERS]) for n in range(min(SENDERS, len(names)))]:
                future.result()


def memory(*pids):
    """Pss of processes, in MiB."""
    text = "".join(Path(f"/proc/{pid}/smaps_rollup").read_text() for pid in pids)
    return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")) / 1024


def measure(plane, slug, size, group, pids):
    """One row of the table."""
    burst, single = Fleet(plane, slug, size, group), Fleet(plane, f"{slug}-single", SINGLE, group)
    watch = Watch(plane)
    submitting = burst.submit()
    names = [f"csr-{name}" for name in burst.tokens]
    watch.await_approvals(names)
    took = max(watch.approved[name] for name in names) - min(watch.appeared[name] for name in names)
    for name in single.tokens:
        single.submit([name])
        watch.await_approvals([f"csr-{name}"])
    waits = (watch.latencies(names), watch.latencies(f"csr-{name}" for name in single.tokens))
    return [size, size / submitting, size / took, *(q for wait in waits for q in quantiles(wait)), memory(*pids())]


def quantiles(values):
    return statistics.median(values), values[min(len(values) - 1, int(len(values) * 0.99))]


HEAD = (f"{'':34}{'nodes':>7}{'submitted':>11}{'approved':>11}{'at once, p50':>14}{'p99':>11}{'singly, p50':>14}{'p99':>11}{'memory':>11}")


def row(name, figures):
    size, submitted, approved, *waits, pss = figures
    cells = "".join(f"{wait:>{width}.1f} ms" for wait, width in zip(waits, (11, 8, 11, 8)))
    return f"{name:34}{size:>7}{submitted:>9.0f}/s{approved:>9.1f}/s{cells}{pss:>7.1f} MiB"


def children(pid):
    found = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += children(int(child))
    return found


def compare(plane, tree, nodes, present):
    """Prints each row as soon as it is measured."""
    print(f"Kubernetes 1.{plane.minor}, {os.cpu_count()} processors\n{HEAD}")
    manager = plane.processes["kube-controller-manager"]
    print(row("kube-controller-manager", measure(plane, "kcm", nodes, controlplane.DEFAULT_GROUP, lambda: children(manager.pid))), flush=True)
    # The controller would claim and revoke the bound tokens of these requests, which is no part of the second row.
    plane.request("DELETE", f"{controlplane.SECRETS}?fieldSelector=type%3Dbootstrap.kubernetes.io/token")
    plane.request("DELETE", controlplane.CSRS)
    plane.end("kube-controller-manager")
    plane.enabled = "*,-csrapproving,-bootstrapsigner,-tokencleaner"
    plane.spawn_controllers()
    plane.bind(NODE_GROUP, "system:node-bootstrapper")
    administrator, account = admin.Admin(tree, plane), admin.service_account(plane)
    with administrator.controller(account=account) as controller:
        print(row("node-bootstrap-admin", measure(plane, "ours", nodes, NODE_GROUP, lambda: children(controller.process.pid))), flush=True)
        if not present:
            return
        print(row("node-bootstrap-admin", measure(plane, "present", present, NODE_GROUP, lambda: children(controller.process.pid))), flush=True)
        controller.stop()       # releases the Lease; after a kill the next leader would wait for it
        before = time.monotonic()
        controller.restart()
        print(f"started again in {time.monotonic() - before:.1f} s, {memory(*children(controller.process.pid)):.1f} MiB", flush=True)
        figures = measure(plane, "among", nodes, NODE_GROUP, lambda: children(controller.process.pid))
        print(row(f"among {present} more", figures), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--present", type=int, default=0)
    arguments = parser.parse_args()
    assets = controlplane.find_assets()
    missing = controlplane.check_assets(assets)
    if missing:
        sys.exit(missing)
    package = Path(arguments.package).resolve()
    work = isolation.cache() / "mnt"
    isolation.enter(work)
    subprocess.run(["dpkg-deb", "--extract", package, work / "tree"], check=True)
    plane = controlplane.ControlPlane(assets, work / "cluster")
    plane.front = Direct(plane.port)
    try:
        plane.start()
        compare(plane, work / "tree", arguments.nodes, arguments.present)
    finally:
        plane.stop()


if __name__ == "__main__":
    main()
