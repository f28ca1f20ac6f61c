# SPDX-License-Identifier: Apache-2.0
"""bench.network BUILD [--rounds=N]: a join across a network with a delay, beside kubelet's TLS bootstrap and `kubeadm join`, with one real control plane.

BUILD is a build folder of meson. Run it as root, after tests/control-plane. Machines reach the API server only through a pair of TUN
devices, of which this program holds each packet for half of the round trip: TCP's own handshake is delayed as well.
"""

import argparse
import contextlib
import fcntl
import heapq
import json
import os
import select
import statistics
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

from common import versions
from common.passed import make_recorder, with_passed
from common.wait import until
from e2e.harness import controlplane, isolation
from e2e.harness.node import settings
from .table import KUBELET, Direct


SERVER, MACHINE = "198.51.100.1", "198.51.100.2"
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 1, 0x1000
SYN = 2
TO_SERVER, TO_MACHINE = 0, 1


class Network:
    """One network name space for machines, and the delay. `packets`: when, which way, for TCP packets with SYN or data."""

    def __init__(self):
        self.devices = [self.make(name) for name in ("machine", "server")]      # what is read from one is written to the other
        self.half, self.packets = 0, []
        self.holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
        until(lambda: os.readlink(f"/proc/{self.holder.pid}/ns/net") != os.readlink("/proc/self/ns/net"), "it has a name space")
        self.enter = ["nsenter", f"--net=/proc/{self.holder.pid}/ns/net"]
        subprocess.run(["ip", "link", "set", "machine", "netns", str(self.holder.pid)], check=True)
        for enter, name, address, peer in ((self.enter, "machine", MACHINE, SERVER), ([], "server", SERVER, MACHINE)):
            subprocess.run([*enter, "ip", "address", "add", address, "peer", peer, "dev", name], check=True)
            subprocess.run([*enter, "ip", "link", "set", name, "up"], check=True)
        subprocess.run([*self.enter, "ip", "link", "set", "lo", "up"], check=True)
        threading.Thread(target=self.forward, daemon=True).start()

    @staticmethod
    def make(name):
        device = os.open("/dev/net/tun", os.O_RDWR)
        fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TUN | IFF_NO_PI))
        return device

    def forward(self):
        poll, held = select.poll(), []
        for device in self.devices:
            poll.register(device, select.POLLIN)
        while True:
            now = time.monotonic()
            while held and held[0][0] <= now:
                _, _, device, packet = heapq.heappop(held)
                with contextlib.suppress(OSError):
                    os.write(device, packet)
            for device, _ in poll.poll(max(0, (held[0][0] - now) * 1000) if held else None):
                packet, way = os.read(device, 65536), self.devices.index(device)
                now = time.monotonic()
                heapq.heappush(held, (now + self.half, len(self.packets), self.devices[1 - way], packet))
                self.note(now, way, packet)

    def note(self, now, way, packet):
        if packet[0] >> 4 != 4 or packet[9] != 6:
            return
        at = 4 * (packet[0] & 15)
        has_data = len(packet) > at + 4 * (packet[at + 12] >> 4)
        if has_data or packet[at + 13] & SYN:
            self.packets.append((now, way))

    def round_trips(self, end):
        """Of the longest chain up to `end` in which each packet was sent after the one before it had arrived."""
        n, time_left, way = 0, end, TO_MACHINE
        for sent, sent_way in reversed(self.packets):
            if sent_way == way and sent + self.half <= time_left:
                n, time_left, way = n + 1, sent, 1 - way
        return n / 2


class Bench:
    def __init__(self, assets, work, build):
        self.assets, self.work, self.network = assets, work, Network()
        self.plane = controlplane.ControlPlane(assets, work / "cluster", apiserver=["--bind-address=0.0.0.0"])
        self.plane.front = Direct(self.plane.port)
        self.plane.front.endpoint = f"{SERVER}:{self.plane.port}"
        self.plane.start()
        self.plane.upload_config()
        self.token = self.plane.token()
        self.program, self.install = (next(path for path in build.glob(f"**/{name}") if path.is_file()) for name in ("node-bootstrap", "install"))

    def start(self, *command, log, **environment):
        with open(log, "wb") as file:
            return subprocess.Popen([*self.network.enter, *command], env={"PATH": os.environ["PATH"], "HOME": "/root", **environment},
                                    stdin=subprocess.DEVNULL, stdout=file, stderr=file)

    def folder(self, name):
        base = self.work / name
        base.mkdir(mode=0o700)
        return base

    def ours(self, name):
        base = self.folder(name)
        for part in ("etc", "credentials", "state", "root"):
            (base / part).mkdir(mode=0o700)
        (base / "etc/config.yaml").write_text(settings(self.plane, node={"name": name}))
        token = base / "credentials/node-bootstrap.token"
        token.touch(0o400)
        token.write_text(str(self.token))
        environment = {"STATE_DIRECTORY": str(base / "state"), "CREDENTIALS_DIRECTORY": str(base / "credentials")}
        self.start(self.install, f"--program={make_recorder(base)}", f"--root={base / 'root'}", f"--config-directory={base / 'etc'}", log=base / "install.log", **environment).wait()
        join = self.start(*with_passed(base / "passed"), self.program, "join", f"--config-directory={base / 'etc'}", log=base / "log", **environment)
        assert join.wait() == 0, (base / "log").read_text()
        return time.monotonic()

    def start_kubelet(self, base, name, bootstrap, kubeconfig):
        (base / "config.yaml").write_text(json.dumps(KUBELET | versions.of(self.plane.minor, "kubelet configuration")))
        return self.start(self.assets / "kubelet", f"--bootstrap-kubeconfig={bootstrap}", f"--kubeconfig={kubeconfig}", f"--config={base}/config.yaml",
                          f"--cert-dir={base}/pki", f"--root-dir={base}/root", f"--hostname-override={name}", log=base / "kubelet.log")

    def kubelets(self, name):
        base = self.folder(name)
        (base / "bootstrap.conf").write_text(controlplane.kubeconfig(f"https://{self.plane.front.endpoint}", self.plane.ca.pem, token=self.token))
        kubelet = self.start_kubelet(base, name, base / "bootstrap.conf", base / "kubelet.conf")
        return self.await_file(base / "kubelet.conf", kubelet)

    def kubeadms(self, name):
        """It writes the files of kubelet, starts kubelet, and waits for its kubeconfig; there is no systemd here, so kubelet is started here."""
        base, etc = self.folder(name), Path("/etc/kubernetes")
        for old in (*etc.glob("*.conf"), *etc.glob("pki/*"), *Path("/var/lib/kubelet").glob("*.*")):
            old.unlink()
        kubeadm = self.start(self.assets / "kubeadm", "join", self.plane.front.endpoint, f"--token={self.token}", f"--node-name={name}",
                             f"--discovery-token-ca-cert-hash={self.plane.ca.pin}", "--ignore-preflight-errors=all", log=base / "log")
        until(lambda: Path("/var/lib/kubelet/kubeadm-flags.env").exists() or kubeadm.poll() is not None, "kubeadm starts kubelet", pause=0.005)
        kubelet = self.start_kubelet(base, name, etc / "bootstrap-kubelet.conf", etc / "kubelet.conf")
        return self.await_file(etc / "kubelet.conf", kubelet, kubeadm)

    @staticmethod
    def await_file(path, *processes):
        until(path.exists, f"{path} is written", pause=0.002)
        end = time.monotonic()
        for process in processes:
            process.kill()
            process.wait()
        return end

    def measure(self, join, name, delay):
        time.sleep(4 * delay)       # what the round before left
        self.network.half, self.network.packets = delay / 2, []
        end = join(name)
        begin = self.network.packets[0][0]
        trips = self.network.round_trips(end)
        return end - begin, trips, end - begin - trips * delay


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=lambda name: Path(name).resolve())
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    assets = controlplane.find_assets()
    missing = controlplane.check_assets(assets)
    if missing:
        sys.exit(missing)
    work = isolation.cache() / "mnt"
    isolation.enter(work)
    for path in ("/etc", "/var/lib"):           # what kubeadm writes is not seen by the machine
        upper, scratch = work / f"upper{path}", work / f"work{path}"
        upper.mkdir(parents=True), scratch.mkdir(parents=True)
        isolation.mount("overlay", path, "overlay", 0, f"lowerdir={path},upperdir={upper},workdir={scratch}")
    bench = Bench(assets, work, arguments.build)
    print(f"Kubernetes 1.{bench.plane.minor}; medians of {arguments.rounds} rounds. Columns: the time of one round trip, the program, the time from the first")
    print("packet to the certificate, the number of round trips, and the part of the time that is not spent on round trips.")
    try:
        for delay in (0.05, 0.15):
            for what, join in (("node-bootstrap join", bench.ours), ("kubelet's TLS bootstrap", bench.kubelets), ("kubeadm join", bench.kubeadms)):
                figures = [bench.measure(join, f"{join.__name__}-{delay * 1000:.0f}-{number}", delay) for number in range(arguments.rounds)]
                wall, trips, rest = (statistics.median(column) for column in zip(*figures))
                print(f"{delay * 1000:>4.0f} ms  {what:24}{wall * 1000:>8.0f} ms {trips:>6.1f}{rest * 1000:>8.0f} ms", flush=True)
    finally:
        bench.network.holder.kill()
        bench.plane.stop()


if __name__ == "__main__":
    main()
