# SPDX-License-Identifier: Apache-2.0
"""What keeps the tests and the machine that runs them apart.

`hide_machine()` is for all tests. `Namespace` also has a network and a /sys of its own: the real addresses of metadata services,
DMI as clouds have it, and every packet seen.
"""

import ctypes
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import threading

import pytest

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWUSER, CLONE_NEWNET = 0x00020000, 0x04000000, 0x10000000, 0x40000000
MS_RDONLY, MS_REMOUNT, MS_REC, MS_PRIVATE = 1, 32, 16384, 1 << 18
ETH_P_ALL = 3
SYN, ACK = 0x02, 0x10   # of TCP
OUTGOING = 4            # of AF_PACKET: what this side sends; on the loopback each packet is also seen to come in

# All that a program may look at to tell where it is; eth0 swallows what is sent to nobody.
SCRIPT = """
set -e
ip link set lo up
ip link add eth0 type veth peer name away
ip link set away up
ip link set eth0 up
ip addr add 192.0.2.2/24 dev eth0
ip neigh add 192.0.2.1 lladdr 02:00:00:00:00:01 dev eth0
ip route add default via 192.0.2.1
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /sys/class
mkdir -p /sys/class/dmi/id
echo quiet >/run/cmdline
mount --bind /run/cmdline /proc/cmdline
echo ready
read -r _
"""

libc = ctypes.CDLL(None, use_errno=True)

# Where the programs look, whatever --root and --config-directory say.
HIDDEN = ("/run", "/etc/rancher", "/etc/kubernetes", "/etc/node-bootstrap", "/etc/credstore", "/etc/credstore.encrypted", "/etc/default",
          "/etc/systemd/system", "/usr/lib/credstore", "/usr/lib/credstore.encrypted", "/usr/local/lib/credstore",
          "/usr/local/lib/credstore.encrypted", "/var/lib/kubelet", "/var/lib/node-bootstrap", "/var/lib/dhcp", "/var/lib/systemd",
          "/sys/class/dmi/id", "/dev/disk")
READ_ONLY = ("/etc", "/usr", "/var/lib")
NOT_SEARCHED = ("/run", "/etc/systemd/system", "/sys/class/dmi/id", "/dev/disk")
MARK = "/run/node-bootstrap-tests"


def mount(source, target, kind, flags, options=None):
    words = [word.encode() if word else None for word in (source, target, kind)]
    if libc.mount(*words, ctypes.c_ulong(flags), options) < 0:
        raise OSError(ctypes.get_errno(), f"mount: {os.strerror(ctypes.get_errno())}", target)


def hide_machine():
    """From here on this process and its children have empty folders in the place of HIDDEN, root cannot change READ_ONLY, and
    the host has a name of the tests: a node may not be called "localhost", as a machine that runs them may be.

    An ordinary user does it in a user name space, and has no rights in it that programs inherit. Processes that come after, as
    those of pytest-xdist, find MARK; those of root have other empty folders, so that no test meets the files of another.
    """
    is_hidden = os.path.exists(MARK)
    if is_hidden and os.geteuid() != 0:
        return
    uid, gid = os.geteuid(), os.getegid()
    if libc.unshare(CLONE_NEWNS | CLONE_NEWUTS | (CLONE_NEWUSER if uid != 0 else 0)) < 0:
        raise OSError(ctypes.get_errno(), "the tests need a mount name space of their own, so that they do not touch this machine")
    if uid != 0:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
    socket.sethostname("machine")
    mount(None, "/", None, MS_REC | MS_PRIVATE)
    if uid == 0 and not is_hidden:
        mount("tmpfs", "/run", "tmpfs", 0, b"mode=755")
        for folder in READ_ONLY:    # each below a layer that has the folders that this machine lacks
            upper, work = (tempfile.mkdtemp(dir="/run") for _ in range(2))
            os.chmod(upper, 0o755)
            mount("overlay", folder, "overlay", 0, f"lowerdir={folder},upperdir={upper},workdir={work}".encode())
            for hidden in HIDDEN:
                if hidden.startswith(folder + "/"):
                    os.makedirs(hidden, exist_ok=True)
            mount(None, folder, None, MS_REMOUNT | MS_RDONLY)
    for folder in filter(os.path.isdir, HIDDEN):
        mount("tmpfs", folder, "tmpfs", 0, b"mode=755")
    with open(MARK, "w", encoding="ascii"):
        pass


def take_left_files():
    """What a test left in the folders that are hidden from this machine: the next one would find it. It is removed."""
    if not os.path.exists(MARK):
        return []
    left = [path for folder in HIDDEN if folder not in NOT_SEARCHED for path in pathlib.Path(folder).glob("*") if str(path) != MARK]
    for path in left:
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    return [str(path) for path in left]


def within(network, function):
    """function() on a thread of its own, in this network name space: sockets and children of it stay there."""
    outcome = []

    def work():
        try:
            with open(network, "rb") as namespace:
                if libc.setns(namespace.fileno(), CLONE_NEWNET) < 0:
                    raise OSError(ctypes.get_errno(), "setns")
            outcome.append((function(), None))
        except BaseException as error:      # pylint: disable=broad-except
            outcome.append((None, error))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    value, error = outcome[0]
    if error:
        raise error
    return value


class Namespace:
    """Ends with the test and with its runner: then the other end of the pipe is closed."""

    def __init__(self):
        if os.geteuid() != 0:
            pytest.skip("name spaces need root")
        self._holder = subprocess.Popen(["unshare", "--net", "--mount", "sh", "-c", SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._holder.stdout.readline() == b"ready\n", "the name spaces cannot be made"
        self.path = f"/proc/{self._holder.pid}"
        self.enter = ["nsenter", f"--mount={self.path}/ns/mnt", "--"]

    def within(self, function):
        return within(f"{self.path}/ns/net", function)

    def ip(self, *arguments):
        subprocess.run(["nsenter", f"--net={self.path}/ns/net", "--", "ip", *arguments], check=True)

    def reach(self, address):
        """Packets to `address` arrive: at a listener, or they are refused."""
        self.ip("addr", "replace", f"{address}/{128 if ':' in address else 32}", "dev", "lo", *(["nodad"] if ":" in address else []))

    def write(self, path, data, mode=0o644):
        """A file as programs of this machine see it."""
        inside = f"{self.path}/root{path}"
        os.makedirs(os.path.dirname(inside), exist_ok=True)
        with open(os.open(inside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
            file.write(data if isinstance(data, bytes) else data.encode())

    def set_dmi(self, **files):
        for name, value in files.items():
            self.write(f"/sys/class/dmi/id/{name}", value + "\n", 0o444)

    def set_kernel_line(self, text):
        self.write("/run/cmdline", text + "\n")

    def bind(self, source, target):
        """Mounts a file of the tester over an existing one."""
        subprocess.run([*self.enter, "mount", "--bind", source, target], check=True)

    def close(self):
        self._holder.stdin.close()
        self._holder.stdout.close()
        self._holder.wait()


class Packets:
    """Contacts from now on: (address, port), port None for protocols without ports. Only the first packet of a TCP connection counts: the
    server of an earlier connection may still be closing it."""

    def __init__(self, namespace):
        self._socket = namespace.within(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL)))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)

    def sent(self):
        """All of them until now."""
        found = []
        while True:
            try:
                data, (_, protocol, kind, *_) = self._socket.recvfrom(128, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return found
            if kind == OUTGOING and (target := parse(protocol, data)):
                found.append(target)

    def close(self):
        self._socket.close()


def parse(protocol, data):
    """The destination of an IP packet; None for the kernel's own housekeeping (ARP, IPv6 neighbours and multicast)."""
    if protocol == 0x0800:
        address, kind, rest = socket.inet_ntop(socket.AF_INET, data[16:20]), data[9], data[(data[0] & 15) * 4:]
    elif protocol == 0x86DD:
        address, kind, rest = socket.inet_ntop(socket.AF_INET6, data[24:40]), data[6], data[40:]
    else:
        return None
    if kind in (0, socket.IPPROTO_ICMPV6):
        return None
    if kind == socket.IPPROTO_TCP and rest[13] & (SYN | ACK) != SYN:
        return None
    return address, int.from_bytes(rest[2:4], "big") if kind in (socket.IPPROTO_TCP, socket.IPPROTO_UDP) else None
