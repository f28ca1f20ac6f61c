#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""table.py FOLDER ASSETS ROUNDS: measures, and prints the table. run makes FOLDER, with `measure` and the package's files in `root`."""

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))

from harness import controlplane, isolation, versions  # noqa: E402
from harness.node import settings  # noqa: E402
from harness.wait import until  # noqa: E402

KUBELET = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
    # Its way to do all of it at once, and to write the kubeconfig last.
    "rotateCertificates": False, "failSwapOn": False, "cgroupDriver": "cgroupfs", "cgroupsPerQOS": False, "enforceNodeAllocatable": [],
}


class Direct:
    """No proxy in between: cluster-info names the API server itself."""

    def __init__(self, port):
        self.endpoint = f"127.0.0.1:{port}"

    def listen(self):
        pass

    def close(self):
        pass


class Bench:
    def __init__(self, folder, assets, work):
        self.folder, self.assets, self.work = folder, assets, work
        self.plane = controlplane.ControlPlane(assets, work / "cluster")
        self.plane.front = Direct(self.plane.port)
        self.plane.start()
        self.token = self.plane.token()
        self.rows = {"install and join": [], "install, joined before": [], "kubelet's TLS bootstrap": []}

    def measure(self, *command, environment=None, until_file=None, log=None):
        waiting = ["--until", until_file] if until_file else []
        done = subprocess.run(
            [self.folder / "measure", *waiting, *command], env=environment or {"PATH": os.environ["PATH"]}, check=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=open(log, "wb") if log else None,
        )
        wall, cpu, peak, status = map(int, done.stdout.split())
        return wall / 1000, cpu / 1000, peak / 1024, status

    def ours(self, number):
        base = self.work / f"ours-{number}"
        for name in ("etc", "credentials", "state", "run", "root"):
            (base / name).mkdir(parents=True, mode=0o700)
        (base / "etc/config.yaml").write_text(settings(self.plane, node={"name": f"ours-{number}"}))
        token = base / "credentials/node-bootstrap.token"
        token.touch(0o400)
        token.write_text(str(self.token))
        environment = {
            "PATH": os.environ["PATH"], "STATE_DIRECTORY": str(base / "state"),
            "CREDENTIALS_DIRECTORY": str(base / "credentials"),
        }
        program, installer = self.folder / "root/usr/bin/node-bootstrap", self.folder / "root/usr/lib/node-bootstrap/install"
        common, target = f"--config-directory={base / 'etc'}", f"--root={base / 'root'}"
        for name in ("install and join", "install, joined before"):
            *figures, status = self.measure(installer, f"--program={program}", target, common, environment=environment, log=base / f"{name}.log")
            assert status == 0, (base / f"{name}.log").read_text()
            self.rows[name].append(figures)
            assert (base / "root/etc/kubernetes/kubelet.conf").exists()

    def kubelets(self, number):
        base = self.work / f"kubelet-{number}"
        base.mkdir()
        (base / "config.yaml").write_text(json.dumps(KUBELET | versions.of(self.plane.minor, "kubelet configuration")))
        server = f"https://{self.plane.front.endpoint}"
        (base / "bootstrap.conf").write_text(controlplane.kubeconfig(server, self.plane.ca.pem, token=self.token))
        *figures, status = self.measure(
            self.assets / "kubelet", f"--bootstrap-kubeconfig={base}/bootstrap.conf", f"--kubeconfig={base}/kubelet.conf",
            f"--config={base}/config.yaml", f"--cert-dir={base}/pki", f"--root-dir={base}/root", f"--hostname-override=kubelet-{number}",
            until_file=base / "kubelet.conf", log=base / "log",
        )
        assert status == -1, (base / "log").read_text()
        assert (base / "pki/kubelet-client-current.pem").exists()
        self.rows["kubelet's TLS bootstrap"].append(figures)

    def close(self):
        self.plane.stop()

    def table(self):
        kubelet = medians(self.rows["kubelet's TLS bootstrap"])
        yield f"{'':26}{'wall':>12}{'CPU':>12}{'peak memory':>14}   kubelet's, in multiples of it"
        for name, figures in self.rows.items():
            wall, cpu, peak = medians(figures)
            multiples = "" if "kubelet" in name else "   " + "".join(f"{k / m:>8.1f}" for k, m in zip(kubelet, (wall, cpu, peak)))
            yield f"{name:26}{wall:>9.1f} ms{cpu:>9.1f} ms{peak:>10.1f} MiB{multiples}"


def medians(figures):
    return [statistics.median(column) for column in zip(*figures)]


def main():
    folder, assets, rounds = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    missing = controlplane.check_assets(assets)
    if missing:
        sys.exit(missing)
    work = isolation.cache() / "mnt"
    isolation.enter(work)
    bench = Bench(folder, assets, work)
    try:
        for number in range(-1, rounds):        # the first round warms the caches, and is not counted
            bench.ours(number)
            bench.kubelets(number)
            if number < 0:
                for figures in bench.rows.values():
                    figures.clear()
            # kube-controller-manager limits its own requests: a round does not pay for the one before.
            until(lambda: all("certificate" in csr["status"] for csr in bench.plane.request("GET", controlplane.CSRS)["items"]), "all issued")
        print(f"Kubernetes 1.{bench.plane.minor}, {os.cpu_count()} processors; medians of {rounds} rounds, in turn")
        print("\n".join(bench.table()))
    finally:
        bench.close()


if __name__ == "__main__":
    main()
