#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""demo.py PACKAGE: a machine with the package joins a cluster, seen from outside. tests/demo builds the package and calls this."""

import os
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "integration")]

from harness import controlplane, image, isolation, network, versions  # noqa: E402
from harness.node import CA_FILE, CURRENT, KUBECONFIG, PKI, UNIT, Node  # noqa: E402

STAND_IN = """#!/bin/sh
echo "a stand-in for kubelet, started with: $*"
exec sleep infinity
"""


class EmbeddedCluster:
    """The scripted API server of the integration tests, as it is when nothing is scripted."""

    def __init__(self):
        import apiserver

        identifier, secret = "demo42", "0123456789abcdef"
        self.token = f"{identifier}.{secret}"
        cluster = apiserver.Cluster(tokens={identifier: apiserver.Token(secret)})
        self.server = apiserver.ApiServer(cluster, (network.GATEWAY, 6443), identity=cluster.ca.serving([network.GATEWAY]))
        self.server.start()
        self.endpoint, self.pin = self.server.endpoint, cluster.ca.pin

    def prepare(self, node):
        node.write("/usr/bin/kubelet", STAND_IN, 0o755)

    def show(self, node):
        requests = [f"connection {request.connection.number}: {request.method} {request.path}" for request in self.server.requests]
        print("\n".join(requests))


class RealCluster:
    """A control plane out of $KUBEBUILDER_ASSETS, and its kubelet on the machine."""

    def __init__(self, assets, work):
        self.plane = controlplane.ControlPlane(assets, work / "cluster").start()
        self.token, self.endpoint, self.pin = self.plane.token(), self.plane.front.endpoint, self.plane.ca.pin

    def prepare(self, node):
        pass

    def show(self, node):
        print(self.plane.kubectl("get", "csr"), end="")
        self.plane.await_node(node.name)
        print(self.plane.kubectl("get", "nodes"), end="")


def title(text):
    print(f"\n==== {text}", flush=True)


def shell(node, command, check=True):
    print(f"$ {command}", flush=True)
    done = node.run("sh", "-c", command, check=False)
    print(done.stdout, end="", flush=True)
    if check and done.returncode != 0:
        sys.exit(f"exit status {done.returncode}")
    return done.returncode


def play(work, base, package, assets):
    title("A cluster and a machine")
    network.start()
    cluster = RealCluster(assets, work) if assets else EmbeddedCluster()
    print("a real control plane" if assets else "a small API server, made for this", "at", cluster.endpoint)
    kubelet = f"{assets}/kubelet" if assets else None
    layer = image.install(work / "session", base, package, versions.minor(kubelet) if kubelet else 20)
    binds = [f"{kubelet}:/usr/bin/kubelet"] if kubelet else []
    node = Node(work, [layer, base], "machine", binds, None)
    cluster.prepare(node)
    node.give(cluster.token)
    node.write("/etc/node-bootstrap/config.yaml", f"""apiVersion: node-bootstrap/v1
kind: NodeBootstrap
discovery:
  endpoints: ["{cluster.endpoint}"]
  caCertHashes: ["{cluster.pin}"]
""")
    node.enable(UNIT)
    try:
        node.boot("--unit=basic.target")
    except AssertionError as error:
        sys.exit(f"{error}\n{node.console()}")
    shell(node, "cat /etc/node-bootstrap/config.yaml")
    shell(node, "ls -l /etc/credstore")

    title("The join")
    started = time.monotonic()
    failed = shell(node, f"systemctl start {UNIT}", check=False)
    print(f"exit status {failed} after {(time.monotonic() - started) * 1000:.0f} ms")
    print(node.journal_text("--output=short-precise", f"--unit={UNIT}"), end="")
    if failed:
        sys.exit(1)

    title("What kubelet gets")
    shell(node, f"ls -l {KUBECONFIG} {CA_FILE} {PKI} /var/lib/kubelet/*.env")
    shell(node, f"cat {KUBECONFIG}")
    shell(node, f"readlink {CURRENT}")
    shell(node, "node-bootstrap status")
    shell(node, "systemctl status --no-pager --lines=2 kubelet.service", check=False)

    title("What the cluster saw")
    cluster.show(node)
    title("Joined; all of it is being removed")


def main():
    package = Path(sys.argv[1]).read_bytes()
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    missing = assets and controlplane.check_assets(assets)
    if missing:
        sys.exit(f"KUBEBUILDER_ASSETS: {missing}")
    title("The root of the machine")
    base = image.debian()
    print(base, flush=True)
    work = isolation.cache() / "mnt"
    isolation.enter(work)
    deb = work / "node-bootstrap.deb"
    deb.write_bytes(package)
    play(work, base, deb, assets)


if __name__ == "__main__":
    main()
