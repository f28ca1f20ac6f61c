# SPDX-License-Identifier: Apache-2.0
"""Where a program has crashed, although it leaves no core: docs/support.md says how."""

import re

import pytest

from common.documentation import commands
from common.wait import PATIENCE, until
from .harness import controlplane, image, leaks

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def layers(world):
    """gdb, and the debug symbols of the package."""
    work = world.work / "gdb"
    path = world.work / "kube-node-bootstrap-dbgsym.deb"
    path.write_bytes(world.debug_package)
    return [image.extend(work, [*world.gdb_debs, path], world.layer, world.base)]


@pytest.mark.each_release
def test_a_join_that_crashes(new_node, cluster, layers):
    """While it waits for approval. The functions are there with files and lines, and nothing of the token, neither there nor on the disk."""
    token = cluster.token(controlplane.MANUAL_GROUP)
    node = new_node(layers=layers).prepare(token)
    node.forms = leaks.forms(token)
    node.boot()
    debugger = node.start("sh", "-ec", commands("backtrace"))
    node.begin()
    node.await_status("waiting for approval")
    pid = node.join_pid()
    until(lambda: re.search(r"^TracerPid:\s[1-9]", node.run("cat", f"/proc/{pid}/status").stdout, re.M), "gdb is attached")
    node.run("kill", "-ABRT", pid)
    said, _ = debugger.communicate(timeout=PATIENCE)
    frames = re.findall(r"^#\d+ .*?(\w+) \(.*\) at (\S+):\d+$", said, re.M)
    assert "received signal SIGABRT" in said and len([name for name, _ in frames if name.startswith("nb_")]) > 2, said
    assert frames[-1][0] == "main" and frames[-1][1].endswith("/main.c"), said
    assert not [form for form in node.forms if form in said.encode()] and leaks.found_in(node) == []
