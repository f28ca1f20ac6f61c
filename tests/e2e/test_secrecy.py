# SPDX-License-Identifier: Apache-2.0
"""After the join the token is only in the credential store; during it, in no command line and no environment."""

import base64
import contextlib
import os
import threading
from pathlib import Path

import pytest
from harness import controlplane
from harness.node import UNIT, settings

STORES = ("/etc/credstore", "/run/credentials", "/run/host/credentials", "/run/credstore")


class Sampler(threading.Thread):
    """Reads command line and environment of every process of a machine, again and again."""

    def __init__(self, node):
        super().__init__(daemon=True)
        self.node, self.found, self.over, self.programs = node, [], threading.Event(), set()

    def run(self):
        while not self.over.is_set():
            for pid in self.node.pids():
                for name in ("cmdline", "environ"):
                    try:
                        data = Path(f"/proc/{pid}/{name}").read_bytes()
                    except OSError:
                        continue
                    if name == "cmdline":
                        self.programs.add(data.split(b"\0")[0])
                    if any(form in data for form in self.node.forms):
                        self.found.append((pid, name, data))

    def finish(self):
        self.over.set()
        self.join()
        return self.found


def forms(token):
    """What a leak could look like."""
    whole = str(token).encode()
    encoded = [base64.b64encode(b"x" * n + whole)[4:-4] for n in range(3)]
    return [token.secret.encode(), token.secret.encode().hex().encode(), *encoded]


@pytest.mark.parametrize("source", ["credential of the machine", "credstore"])
def test_token_is_nowhere(new_node, cluster, source):
    token = cluster.token(controlplane.MANUAL_GROUP)
    node = new_node().configure().enable(UNIT)
    node.forms = forms(token)
    credentials = {}
    if source == "credstore":
        node.give(token)
    else:
        credentials = {"node-bootstrap.token": str(token), "node-bootstrap.config": settings(cluster)}
    node.boot("--log-level=debug", "--unit=basic.target", credentials=credentials)
    sampler = Sampler(node)
    sampler.start()
    try:
        node.begin()
        csr = cluster.await_csr(node.name)["metadata"]["name"]
        node.await_status("certificate approve")
        assert not found_in(node), "while it waits"
        cluster.kubectl("certificate", "approve", csr)
        assert node.await_end() == ("active", 0)
        node.await_kubelet()
    finally:
        found = sampler.finish()
    assert not found
    assert b"/usr/bin/node-bootstrap" in sampler.programs
    shown = node.run("sh", "-c", f"systemctl show {UNIT}; systemctl status {UNIT}; journalctl --all --output=export").stdout
    assert not any(form.decode() in shown for form in node.forms)
    assert len(shown) > 50000, "debug messages are there"
    assert not found_in(node)
    node.run("systemctl", "stop", UNIT)
    assert not found_in(node)


def found_in(node):
    """Files that contain the token, on the machine's disk and in its memory file systems."""
    places = [node.root] + [Path(f"/proc/{node.leader}/root{name}") for name in ("/run", "/tmp", "/dev/shm")]
    found = []
    for place in places:
        inside = str(place).removeprefix(f"/proc/{node.leader}/root") if place != node.root else ""
        top = node.upper if place == node.root else place
        for folder, _, files in os.walk(top):
            for name in files:
                path = Path(folder, name)
                shown = inside + "/" + str(path.relative_to(top))
                if shown.startswith(STORES) or not path.is_file() or path.is_symlink():
                    continue
                with contextlib.suppress(FileNotFoundError):    # a temporary file
                    data = path.read_bytes()
                    found += [shown] if any(form in data for form in node.forms) else []
    return found


def test_secret_of_a_refused_token_is_not_quoted(new_node, cluster):
    """Mistyped tokens are secrets too."""
    token = cluster.fresh_token()
    node = new_node().configure().enable(UNIT)
    node.write("/etc/credstore/node-bootstrap.token", f"{token}x\n", 0o600)
    node.boot("--unit=basic.target")
    assert node.join(check=False).returncode != 0
    assert node.said("token-malformed")
    assert token.secret not in node.journal_text("--all", "--output=export")
