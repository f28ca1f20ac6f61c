# SPDX-License-Identifier: Apache-2.0
"""A network and a /sys of a machine's own: the real addresses of metadata services, DMI as clouds have it, and every packet seen."""

import ctypes
import os
import socket
import subprocess
import threading

import pytest

CLONE_NEWNET = 0x40000000
ETH_P_ALL = 3
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
    """Ends with the test, and with whoever runs it: then nobody holds the other end of the pipe."""

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
        """What is sent to `address` arrives: at a listener, or it is refused."""
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
        """Shows a file of this side in the place of one that is there."""
        subprocess.run([*self.enter, "mount", "--bind", source, target], check=True)

    def close(self):
        self._holder.stdin.close()
        self._holder.stdout.close()
        self._holder.wait()


class Packets:
    """Where packets went, from now on: (address, port), port None for what has none."""

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
    return address, int.from_bytes(rest[2:4], "big") if kind in (socket.IPPROTO_TCP, socket.IPPROTO_UDP) else None
