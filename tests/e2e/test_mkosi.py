# SPDX-License-Identifier: Apache-2.0
"""packaging/mkosi: the image has what docs/images.md says and nothing that it forbids, and a machine from it joins at its first boot."""

import os
import re
import shutil
import subprocess

import pytest
import yaml

from common import SOURCE
from common.documentation import commands
from common.wait import until
from .harness import image, mkosi
from .harness.node import CONFIG, GATE, UNIT, settings

pytestmark = [pytest.mark.only_release(mkosi.RELEASE), pytest.mark.nightly]
KUBELET_CONFIG = "/var/lib/kubelet/config.yaml"


@pytest.fixture(scope="module")
def tree(world, cluster):
    files = {"kubelet": (world.assets / "kubelet").read_bytes(), "config.yaml": settings(cluster, kubelet={"configFrom": "cluster"}).encode(),
             "kube-node-bootstrap.deb": world.package}
    made = mkosi.build(world.work / "mkosi", world.workshop, world.mkosi_debs, commands("mkosi"), files)
    yield made
    shutil.rmtree(world.work / "mkosi")


def forbidden():
    """The paths in the table of docs/images.md."""
    text = (SOURCE / "docs/images.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\|.*\|$", text.split("## What must not be in the image\n")[1].split("\n## ")[0], re.M)[2:]
    return {path for row in rows for path in re.findall(r"`(/[^`]+)`", row.split("|")[2])}


def files_below(path):
    """Also `path` itself, if it is a file."""
    return [path] if path.is_symlink() or path.is_file() else [found for found in path.rglob("*") if not found.is_dir()]


def test_what_is_in_it(tree):
    paths = forbidden()
    assert {"/etc/credstore", "/etc/machine-id", "/var/lib/systemd/credential.secret", "/var/lib/kubelet/pki"} <= paths
    found = [str(file.relative_to(tree)) for path in paths for file in files_below(tree / path.lstrip("/"))]
    # At the first boot, systemd replaces the word in the former; the latter is systemd's.
    assert sorted(found) == ["etc/machine-id", "etc/ssh/ssh_config.d/20-systemd-ssh-proxy.conf"]
    assert (tree / "etc/machine-id").read_text() == "uninitialized\n"
    for name in ("etc/apt/sources.list.d", "etc/hostname", "root/.ssh/authorized_keys", KUBELET_CONFIG.lstrip("/"), "usr/sbin/policy-rc.d"):
        assert not os.path.lexists(tree / name), name
    states = subprocess.run(["systemctl", f"--root={tree}", "list-unit-files", "--no-legend"], check=True, text=True, stdout=subprocess.PIPE).stdout
    states = {line.split()[0]: line.split()[1] for line in states.splitlines()}
    ours = {unit for unit, state in states.items() if "node-bootstrap" in unit and state == "enabled"}
    assert ours == {UNIT, GATE} and {states[f"{name}.service"] for name in ("kubelet", "containerd", "systemd-networkd")} == {"enabled"}


def test_joins_at_its_first_boot(world, new_node, cluster, tree):
    """The machine gets its token as a credential. What kubelet needs in a container, and at its version, is added to the image."""
    node, token = new_node(tree=tree), cluster.token()
    node.write("/etc/machine-id", (tree / "etc/machine-id").read_bytes(), 0o444)
    node.write("/etc/systemd/network/10-test.network",
               f"[Match]\nName=eth0\n[Network]\nAddress={node.address}/24\nGateway=192.0.2.1\n")
    node.write("/etc/default/kubelet", image.kubelet_arguments(world.minor))
    node.write(KUBELET_CONFIG, image.kubelet_configuration(world.minor))
    shutil.copytree(image.FILES / "usr/lib/e2e", node.path("/usr/lib/e2e"))
    node.drop_in("kubelet.service", (image.FILES / "usr/lib/systemd/system/kubelet.service.d/90-container.conf").read_text())
    cluster.upload_kubelet_config(node)
    node.path(KUBELET_CONFIG).unlink()
    before = (node.read(CONFIG), node.read("/usr/bin/kubelet") == (world.assets / "kubelet").read_bytes())
    assert before == (settings(cluster, kubelet={"configFrom": "cluster"}).encode(), True)

    node.boot(credentials={"node-bootstrap.token": str(token)})
    cluster.await_node(node.name)
    assert [csr["spec"]["username"] for csr in cluster.csrs(node.name)] == [f"system:bootstrap:{token.id}"]
    information = until(lambda: cluster.node(node.name).get("status", {}).get("nodeInfo"), "kubelet reports")
    [containerd] = [path.name for path in world.mkosi_debs.glob("containerd_*.deb")]
    version = re.match(r"containerd_([0-9.]+)", containerd)[1]
    assert information["containerRuntimeVersion"].startswith(f"containerd://{version}") and information["osImage"].startswith("Debian GNU/Linux 13")
    assert re.fullmatch("[0-9a-f]{32}", information["machineID"]) and node.read("/etc/machine-id").decode() == information["machineID"] + "\n"
    assert "staticPodPath" not in yaml.safe_load(node.read(KUBELET_CONFIG))
    until(lambda: node.is_active("multi-user.target"), "the boot ends")
    assert node.is_active(UNIT) and not node.run("systemctl", "--failed", "--no-legend").stdout
    assert "✗" not in node.run("node-bootstrap", "check").stdout

    node.reboot()
    node.await_kubelet()
    assert len(cluster.csrs(node.name)) == 1
