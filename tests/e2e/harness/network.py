# SPDX-License-Identifier: Apache-2.0
"""The network of a session: one bridge, one network name space for each machine, all below the session's own.

A machine routes everything to the bridge, which forwards nothing: an address that is not on the bridge is a black hole,
an address on the bridge where nobody listens refuses.
"""

import subprocess
from pathlib import Path

BRIDGE = "cluster"
GATEWAY = "192.0.2.1"


def ip(*args, check=True):
    subprocess.run(["ip", *args], check=check, capture_output=not check)


def start():
    # With an address of its own: else it takes one of its ports', and changes it as machines come and go.
    ip("link", "add", BRIDGE, "address", "02:00:00:00:00:01", "type", "bridge")
    ip("addr", "add", f"{GATEWAY}/24", "dev", BRIDGE)
    ip("link", "set", BRIDGE, "up")


def reach(address):
    """From now on packets to `address` arrive: at a listener, or they are refused."""
    ip("addr", "replace", f"{address}/32", "dev", BRIDGE)


def lose(address):
    """From now on packets to `address` are dropped silently."""
    ip("addr", "del", f"{address}/32", "dev", BRIDGE, check=False)


def attach(name, number):
    """A network name space for a machine; returns its path. The machine's address is 192.0.2.`number`."""
    inside = f"192.0.2.{number}"
    ip("netns", "add", name)
    ip("link", "add", f"v{number}", "type", "veth", "peer", "name", "eth0", "netns", name)
    ip("link", "set", f"v{number}", "master", BRIDGE, "up")
    ip("-n", name, "link", "set", "lo", "up")
    ip("-n", name, "addr", "add", f"{inside}/24", "dev", "eth0")
    ip("-n", name, "link", "set", "eth0", "up")
    ip("-n", name, "route", "add", "default", "via", GATEWAY)
    ip("-n", name, "route", "add", "unreachable", "169.254.0.0/16")  # kubelet asks clouds for their metadata
    return Path("/run/netns", name)


def detach(name, number):
    ip("link", "del", f"v{number}", check=False)
    ip("netns", "del", name, check=False)
