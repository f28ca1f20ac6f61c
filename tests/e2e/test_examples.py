# SPDX-License-Identifier: Apache-2.0
"""The command lines in packaging/examples: what a container manager hands to the machine is enough."""

from pathlib import Path

from harness.node import SOURCE, UNIT, settings


def test_nspawn(new_node, cluster):
    node, token = new_node().enable(UNIT), str(cluster.token())
    (node.directory / "token").touch(0o600)
    (node.directory / "token").write_text(token)
    (node.directory / "config.yaml").write_text(settings(cluster))
    node.boot(script=SOURCE / "packaging/examples/nspawn.sh")
    cluster.await_node(node.name)
    assert node.is_active(UNIT)
    assert token not in Path(f"/proc/{node.nspawn.pid}/cmdline").read_text()
