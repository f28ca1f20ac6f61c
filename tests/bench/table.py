# SPDX-License-Identifier: Apache-2.0
"""bench.table FOLDER ASSETS ROUNDS [ROOT]: what a join costs, beside others that end with the same certificate, as JSON for bench.report.

run makes FOLDER, with `measure`, `bare` and the package's files in `root`. Each round measures all rows, one after the other, with one control plane.
Their files are on the disk of the cache, which must not be in memory. With ROOT, the root of another release of Debian, `bare` and the
package are for that release, and run there; kubelet, which needs no library, does not run again.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import versions
from common.passed import make_recorder, with_passed
from common.wait import until
from e2e.harness import controlplane, isolation
from e2e.harness.node import settings

MS_BIND = 4096
PAUSE = 0.25    # seconds, in which kube-controller-manager may make more requests than a join needs
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


def kubelet(plane, work, token, name):
    """Arguments for a kubelet that does nothing but its TLS bootstrap, with its files in a new folder."""
    work.mkdir()
    (work / "config.yaml").write_text(json.dumps(KUBELET | versions.of(plane.minor, "kubelet configuration")))
    (work / "bootstrap.conf").write_text(controlplane.kubeconfig(f"https://127.0.0.1:{plane.port}", plane.ca.pem, token=token))
    return [plane.assets / "kubelet", f"--bootstrap-kubeconfig={work}/bootstrap.conf", f"--kubeconfig={work}/kubelet.conf",
            f"--config={work}/config.yaml", f"--cert-dir={work}/pki", f"--root-dir={work}/root", f"--hostname-override={name}"]


def enter_root(root, work, folder, disk):
    """A copy of the root that the measured programs run in. There, `folder` is /opt and `disk` is /srv."""
    inside = work / "root"
    inside.mkdir()
    for source, target in ((root, inside), (folder, inside / "opt"), (disk, inside / "srv"), ("/dev", inside / "dev"), ("/proc", inside / "proc")):
        isolation.mount(str(source), str(target), None, MS_BIND)
    isolation.mount("tmpfs", str(inside / "run"), "tmpfs")
    return inside


class Bench:
    def __init__(self, folder, assets, work, disk, root):
        self.folder, self.disk = folder, disk
        self.at = ["--root", enter_root(root, work, folder, disk)] if root else []
        self.programs, self.seen = (Path("/opt"), Path("/srv")) if root else (folder, disk)      # as the programs see them
        self.plane = controlplane.ControlPlane(assets, work / "cluster")
        self.plane.front = Direct(self.plane.port)
        self.plane.start()
        self.token = self.plane.token()

    def measure(self, command, environment=None, until_file=None, counter=()):
        """[ms, ms of CPU, MiB] of a command, which has to succeed."""
        waiting = ["--until", until_file] if until_file else []
        done = subprocess.run([self.folder / "measure", *waiting, *self.at, *counter, *command], env={"PATH": os.environ["PATH"]} | (environment or {}),
                              check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        wall, cpu, peak, status = map(int, done.stdout.split()[-4:])
        assert status == (-1 if until_file else 0), done.stderr.decode(errors="replace")[-2000:]
        # kube-controller-manager limits its own requests: a row does not pay for the one before.
        until(lambda: all("certificate" in csr["status"] for csr in self.plane.request("GET", controlplane.CSRS)["items"]), "all are issued")
        time.sleep(PAUSE)
        return [wall / 1000, cpu / 1000, peak / 1024]

    def machine(self, name):
        """The files of a machine that is to join, and the environment of the service."""
        base = self.disk / name
        for folder in ("etc", "credentials", "state", "root"):
            (base / folder).mkdir(parents=True, mode=0o700)
        (base / "etc/config.yaml").write_text(settings(self.plane, node={"name": name}))
        token = base / "credentials/node-bootstrap.token"
        token.touch(0o400)
        token.write_text(str(self.token))
        seen = self.seen / name
        return seen, {"STATE_DIRECTORY": f"{seen}/state", "CREDENTIALS_DIRECTORY": f"{seen}/credentials"}

    def bare(self, name, counter=()):
        (self.disk / name).mkdir()
        pin = self.plane.ca.pin.removeprefix("sha256:")
        command = [self.programs / "bare", self.plane.front.endpoint, str(self.token), pin, name, self.seen / name]
        yield "bare client", self.measure(command, counter=counter)

    def join(self, name, counter=()):
        base, environment = self.machine(name)
        recorder = make_recorder(self.disk / name, base)
        subprocess.run([self.folder / "measure", *self.at, *self.install_words(base, recorder)], env={"PATH": os.environ["PATH"]} | environment,
                       check=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        program = self.programs / "root/usr/bin/node-bootstrap"
        yield "join", self.measure([*with_passed(base / "passed"), program, "join", f"--config-directory={base}/etc"], environment, counter=counter)

    def install_words(self, base, program):
        return [self.programs / "root/usr/lib/node-bootstrap/install", f"--program={program}", f"--root={base}/root", f"--config-directory={base}/etc"]

    def install(self, name, counter=()):
        base, environment = self.machine(name)
        command = self.install_words(base, self.programs / "root/usr/bin/node-bootstrap")
        for row in ("install with join", "install, joined before"):
            yield row, self.measure(command, environment, counter=counter)
            assert (self.disk / name / "root/etc/kubernetes/kubelet.conf").exists()

    def kubelets(self, name):
        base = self.disk / name
        yield "kubelet's TLS bootstrap", self.measure(kubelet(self.plane, base, self.token, name), until_file=base / "kubelet.conf")
        assert (base / "pki/kubelet-client-current.pem").exists()

    def round(self, number):
        for slug in ("bare", "join", "install") if self.at else ("bare", "join", "install", "kubelets"):
            yield from getattr(self, slug)(f"{slug}-{number}")

    def fsyncs(self):
        """{row: (calls, ms)}: with strace, and so not in the runs that are timed."""
        found = {}
        summary = self.disk / "strace"
        counter = ["/usr/bin/strace", "--follow-forks", "--summary-only", "--summary-wall-clock", "--trace=fsync,fdatasync", f"--output={self.seen}/strace"]
        for slug in ("bare", "join", "install"):
            for row, _ in getattr(self, slug)(f"counted-{slug}", counter):
                lines = re.findall(r"(?m)^ *[\d.]+ +([\d.]+) +\d+ +(\d+) .*\bf(?:data)?sync$", summary.read_text())
                found[row] = sum(int(calls) for _, calls in lines), sum(float(seconds) for seconds, _ in lines) * 1000
        return found


def kind_of_disk(folder):
    """ "ext4 on a virtio disk": without a name that identifies it."""
    kind = subprocess.run(["stat", "--file-system", "--format=%T", folder], check=True, text=True, stdout=subprocess.PIPE).stdout.strip()
    if kind in ("tmpfs", "ramfs"):
        sys.exit(f"{folder} is in memory, where fsync costs nothing: set XDG_CACHE_HOME to a folder on a disk")
    device = Path(f"/sys/dev/block/{os.major(folder.stat().st_dev)}:{os.minor(folder.stat().st_dev)}")
    device = device.resolve().parent if (device / "partition").exists() else device
    model = device / "device/model"
    bus = device / "device/subsystem"
    name = model.read_text().strip() if model.exists() else bus.resolve().name if bus.exists() else "an unknown disk"
    return f"{'ext4' if kind == 'ext2/ext3' else kind} on {name}"


def processor():
    names = (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name"))
    return next(names, os.uname().machine)


def main():
    folder, assets, rounds, *roots = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), *map(Path, sys.argv[4:])
    missing = controlplane.check_assets(assets)
    if missing:
        sys.exit(missing)
    disk = Path(tempfile.mkdtemp(prefix="bench-", dir=isolation.cache()))
    bench = None
    try:
        on = kind_of_disk(disk)
        work = isolation.cache() / "mnt"
        isolation.enter(work)
        bench = Bench(folder, assets, work, disk, roots[0] if roots else None)
        rows = {}
        for number in range(-1, rounds):
            for row, figures in bench.round(number):
                if number >= 0:         # the first round warms the caches
                    rows.setdefault(row, []).append(figures)
        libraries = subprocess.run([folder / "measure", *bench.at, bench.programs / "bare"], check=False, text=True, stdout=subprocess.PIPE).stdout.split()
        print(json.dumps({
            "processor": processor(), "processors": os.cpu_count(), "kernel": os.uname().release.split("-")[0], "disk": on,
            "kubernetes": f"1.{bench.plane.minor}", "libraries": [name for name in libraries if name.startswith(("libcurl/", "GnuTLS/"))],
            "columns": ["ms", "ms of CPU", "MiB"], "rows": rows, "fsyncs": bench.fsyncs(),
        }))
    finally:
        if bench:
            bench.plane.stop()
        shutil.rmtree(disk)


if __name__ == "__main__":
    main()
