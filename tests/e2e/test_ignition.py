# SPDX-License-Identifier: Apache-2.0
"""First boot of a machine that Debian's Ignition has set up with the config of packaging/examples."""

from urllib.parse import quote

import pytest

from common import SOURCE
from .harness.first_boot import apply_ignition
from .harness.node import CONFIG, TOKEN, UNIT, example


def test_first_boot(new_node, cluster, with_ignition):
    node, token = new_node(layers=with_ignition), str(cluster.token())
    node.write("/root/config.ign", example("node-bootstrap.ign", {
        r"abcdef\.0123456789abcdef": token, r"10\.0\.0\.10%3A6443": quote(cluster.front.endpoint, safe=""),
        r"sha256%3A[0-9a-f]{64}": quote(cluster.ca.pin, safe=""),
    }), 0o600)
    apply_ignition(node, "/root/config.ign")
    assert node.read(TOKEN).decode() == f"{token}\n"
    modes = [oct(node.path(name).stat().st_mode)[-4:] for name in ("/etc/credstore", TOKEN, CONFIG)]
    assert modes == ["0700", "0600", "0644"]

    # Ignition enables by a preset, which systemd applies at the first boot, against that of the package.
    assert "disabled" in node.run_offline("sh", "-c", f"systemctl is-enabled {UNIT} || true")
    node.write("/etc/machine-id", "uninitialized\n")
    node.boot()
    cluster.await_node(node.name)
    assert node.is_active(UNIT) and len(cluster.csrs(node.name)) == 1
    assert node.run("systemctl", "is-enabled", UNIT).stdout.strip() == "enabled"


def test_printed_config(new_node, cluster, with_ignition, printed):
    """What `node-bootstrap-admin token create --print=ignition` prints."""
    node = new_node(layers=with_ignition)
    text, token = printed("ignition", f"--node={node.name}")
    node.write("/root/config.ign", text, 0o600)
    node.run_offline("ignition-validate", "/root/config.ign")
    apply_ignition(node, "/root/config.ign")
    node.assert_holds(token, node={"name": node.name})
    assert oct(node.path("/etc/credstore").stat().st_mode)[-4:] == "0700"
    assert f"enable {UNIT}\n" in node.read("/etc/systemd/system-preset/20-ignition.preset").decode()


def test_examples_are_valid(new_node, with_ignition):
    """An invalid config is refused: Ignition reads its version."""
    node, text = new_node(layers=with_ignition), (SOURCE / "packaging/examples/node-bootstrap.ign").read_text()
    for name, content in (("good", text), ("bad", text.replace('"mode": 384', '"mode": "0600"'))):
        node.write(f"/root/{name}.ign", content)
    node.run_offline("ignition-validate", "/root/good.ign")
    with pytest.raises(RuntimeError, match="mode"):
        node.run_offline("ignition-validate", "/root/bad.ign")
