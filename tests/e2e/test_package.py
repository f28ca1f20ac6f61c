# SPDX-License-Identifier: Apache-2.0
"""The Debian packages: the node's delays nothing, starts nothing, and does not affect a running kubelet; the administrator's is apart."""

import json
import os
import re
import subprocess

import pytest

from common import SOURCE, failures
from .harness import controlplane, image, sbom
from .harness.node import CONFIG, GATE, TOKEN, UNIT

KUBELET, TIMER = "kubelet.service", "node-bootstrap-metrics.timer"
SETUP = "50-setup"


@pytest.fixture
def bare(new_node, cluster):
    """A machine without the package, whose kubelet joined by its own TLS bootstrap."""
    node = new_node(package=False)
    text = controlplane.kubeconfig(f"https://{cluster.front.endpoint}", cluster.ca.pem, token=cluster.token())
    node.write("/etc/kubernetes/bootstrap-kubelet.conf", text, 0o600)
    node.boot()
    await_registered(node)
    return node


def await_registered(node):
    """kubelet may end once, before its runtime is there, and its process is another one then; not after it has made its Node."""
    node.cluster.await_node(node.name)
    node.await_kubelet()


def dpkg(node, world, *arguments):
    node.write("/root/kube-node-bootstrap.deb", world.package)
    return node.run("dpkg", *arguments).stdout


def test_installing_and_removing_leave_kubelet_alone(bare, world):
    kubelet = bare.kubelet_pid()
    dpkg(bare, world, "--install", "/root/kube-node-bootstrap.deb")
    assert bare.kubelet_pid() == kubelet
    assert bare.run("systemctl", "is-enabled", UNIT, check=False).stdout.strip() == "disabled"
    assert not bare.is_active(UNIT)
    assert GATE not in bare.show(KUBELET, "Requires")
    assert not bare.run("systemctl", "--failed", "--no-legend").stdout
    bare.run("systemctl", "restart", KUBELET)
    kubelet = bare.kubelet_pid()
    dpkg(bare, world, "--install", "/root/kube-node-bootstrap.deb")
    dpkg(bare, world, "--remove", "kube-node-bootstrap")
    dpkg(bare, world, "--purge", "kube-node-bootstrap")
    assert bare.kubelet_pid() == kubelet
    bare.reboot()
    bare.await_kubelet()


def test_removing_and_installing_keep_what_is_enabled(bare, world):
    """While the package is removed, kubelet starts without it. A purge forgets."""
    names = [f"{KUBELET}.wants/{UNIT}", f"{KUBELET}.requires/{GATE}", f"{UNIT}.wants/{GATE}", f"timers.target.wants/{TIMER}"]
    *links, wanted = [f"/etc/systemd/system/{name}" for name in names]

    def states():
        enabled = [bare.run("systemctl", "is-enabled", unit, check=False).stdout.strip() for unit in (UNIT, TIMER)]
        assert [os.path.lexists(bare.path(path)) for path in (*links, wanted)] == [state == "enabled" for state in (*[enabled[0]] * 3, enabled[1])]
        return enabled

    for how, units, kept in [("remove", [UNIT, TIMER], True), ("remove", [], True), ("purge", [UNIT, TIMER], False), ("remove", [UNIT], True)]:
        dpkg(bare, world, "--install", "/root/kube-node-bootstrap.deb")
        bare.enable(UNIT, TIMER, off=True)
        if units:
            bare.enable(*units)
        before = states()
        assert before == ["enabled" if unit in units else "disabled" for unit in (UNIT, TIMER)]
        dpkg(bare, world, f"--{how}", "kube-node-bootstrap")
        assert not any(os.path.lexists(bare.path(link)) for link in links) and GATE not in bare.show(KUBELET, "Requires")
        bare.run("systemctl", "restart", KUBELET)
        bare.await_kubelet()
        dpkg(bare, world, "--install", "/root/kube-node-bootstrap.deb")
        assert states() == (before if kept else ["disabled"] * 2), how
    bare.run("systemctl", "restart", KUBELET)
    assert bare.is_active(UNIT), "kubelet wants it again"


def test_catalog_is_updated(new_node):
    node = new_node()
    node.boot()
    listed = node.run("journalctl", "--list-catalog").stdout
    for code, row in failures.FAILURES.items():
        assert (row["message-id"] in listed) != row["remedy"].startswith("Nothing to do."), code


@pytest.mark.each_release
def test_upgrading_and_removing_on_a_joined_machine(node, world):
    node.enable(UNIT).boot()
    await_registered(node)
    kubelet, files = node.kubelet_pid(), node.joined_files()
    dpkg(node, world, "--install", "/root/kube-node-bootstrap.deb")
    assert (node.kubelet_pid(), node.is_active(UNIT)) == (kubelet, True)
    assert node.run("systemctl", "is-enabled", UNIT).stdout.strip() == "enabled"
    dpkg(node, world, "--purge", "kube-node-bootstrap")
    assert node.kubelet_pid() == kubelet
    assert {k: v for k, v in node.joined_files().items() if "lib/private" not in k} == {
        k: v for k, v in files.items() if "lib/private" not in k
    }
    assert node.exists(CONFIG) and node.exists(TOKEN), "the operator's files stay"
    node.reboot()
    node.await_kubelet()


@pytest.mark.each_release
def test_beside_debians_package_of_this_name(node, world):
    """Debian's node-bootstrap, a front-end framework, has no file of ours. Its removal and its purge leave a joined machine alone, and it stays
    complete when ours is purged and installed."""
    [framework] = [path for path in world.dependencies if path.name.startswith(f"{image.NAMESAKE}_")]
    node.write("/root/framework.deb", framework.read_bytes())
    node.enable(UNIT).boot()
    await_registered(node)

    def install_framework():
        node.run("dpkg", "--install", "--force-depends", "/root/framework.deb")

    def assert_complete(package):
        assert node.run("dpkg", "--verify", package, check=False).stdout == ""

    def state():
        return node.kubelet_pid(), node.is_active(UNIT), node.run("systemctl", "is-enabled", UNIT, GATE).stdout, node.joined_files()

    before = state()
    for how in ("remove", "purge"):
        install_framework()
        dpkg(node, world, "--install", "/root/kube-node-bootstrap.deb")
        assert_complete(image.NAMESAKE)
        node.run("dpkg", f"--{how}", image.NAMESAKE)
        assert_complete("kube-node-bootstrap")
        assert state() == before, how
    install_framework()
    dpkg(node, world, "--purge", "kube-node-bootstrap")
    assert_complete(image.NAMESAKE)
    dpkg(node, world, "--install", "/root/kube-node-bootstrap.deb")
    assert_complete(image.NAMESAKE)
    assert_complete("kube-node-bootstrap")
    assert node.kubelet_pid() == before[0]


def test_purging_removes_what_setup_wrote(new_node, cluster):
    """Credentials stay, since they may be the operator's; they are named."""
    node = new_node()
    node.boot("--unit=basic.target")
    node.write("/etc/node-bootstrap/config.yaml.d/60-site.yaml", "apiVersion: node-bootstrap/v1\nkind: NodeBootstrap\n")
    node.run("node-bootstrap", "setup", "--no-start", cluster.front.endpoint, f"--token={cluster.token()}", f"--ca-cert-hash={cluster.ca.pin}")
    ours = f"/etc/node-bootstrap/config.yaml.d/{SETUP}.yaml"
    assert node.exists(ours)
    said = node.run("dpkg", "--purge", "kube-node-bootstrap").stdout
    assert f"kept '{TOKEN}'" in said and node.exists(TOKEN)
    assert not node.exists(ours) and node.exists("/etc/node-bootstrap/config.yaml.d/60-site.yaml")


def test_purging_keeps_a_link_and_a_mount_point(new_node):
    """Another disk has kubelet's files: what the administrator put in place of an empty directory is no reason to fail."""
    node = new_node()
    node.run_offline("sh", "-ec", "rm -r /var/lib/kubelet; mkdir -p /srv/kubelet; ln -s /srv/kubelet /var/lib")
    node.boot("--unit=basic.target")
    node.run("mount", "-t", "tmpfs", "tmpfs", "/etc/kubernetes")
    said = node.run("dpkg", "--purge", "kube-node-bootstrap").stdout
    assert "ailed" not in said, said
    assert node.exists("/srv/kubelet") and node.path("/var/lib/kubelet").is_symlink()
    node.run("mountpoint", "/etc/kubernetes")


def test_upgrading_while_it_waits(manual, cluster, world):
    manual.enable(UNIT).boot()
    csr = cluster.await_csr(manual.name)["metadata"]["name"]
    manual.await_status("waiting for approval")
    pid = manual.show(UNIT, "MainPID")
    dpkg(manual, world, "--install", "/root/kube-node-bootstrap.deb")
    assert manual.show(UNIT, "MainPID") == pid
    cluster.kubectl("certificate", "approve", csr)
    manual.await_kubelet()


def test_bills_of_materials(world):
    """What each package needs of the machine, without a version: that is the machine's."""
    for deb in (world.deb, world.admin_deb):
        ours, *needed = sbom.made_of(world.work, deb)["components"]
        fields = subprocess.run(["dpkg-deb", "--field", deb, "Version", "Depends"], check=True, text=True, stdout=subprocess.PIPE).stdout
        assert ours["version"] == re.search("^Version: (.*)", fields, re.M)[1]
        assert {row["name"] for row in needed} == set(re.findall(r"(?:^Depends: |, )([^ ,\n]+)", fields, re.M))
        assert {row["purl"] for row in needed} == {f"pkg:deb/debian/{row['name']}" for row in needed} and not any("version" in row for row in needed)


def test_same_files_as_meson_install(world):
    """Compares with meson's list of installed files, without another build."""
    build = world.work / "by-meson"
    subprocess.run(["meson", "setup", "--prefix=/usr", build, SOURCE], check=True, capture_output=True)
    by_meson = set(json.loads(subprocess.run(["meson", "introspect", "--installed", build], check=True, capture_output=True).stdout).values())
    by_meson = {re.sub("^/lib/", "/usr/lib/", path) for path in by_meson}
    nodes, admins = files_of(world, world.deb), files_of(world, world.admin_deb)
    assert nodes | admins == by_meson and not nodes & admins


def files_of(world, deb):
    """Without documentation."""
    tree = world.work / f"{deb.stem}-tree"
    subprocess.run(["dpkg-deb", "--extract", deb, tree], check=True)
    paths = {re.sub(r"\.gz$", "", "/" + str(p.relative_to(tree))) for p in tree.rglob("*") if not p.is_dir()}
    return {re.sub("^/lib/", "/usr/lib/", path) for path in paths if not path.startswith("/usr/share/doc/")}


@pytest.mark.each_release
def test_a_node_gets_little(world):
    """In KiB, as dpkg counts a package's size: each file is rounded up. Without documentation, as images and minimal systems leave it out."""
    files_of(world, world.deb)
    tree = world.work / f"{world.deb.stem}-tree"
    sizes = {str(path.relative_to(tree)): -(-path.lstat().st_size // 1024) for path in tree.rglob("*") if not path.is_dir()}
    sizes = {path: size for path, size in sizes.items() if not path.startswith(("usr/share/doc/", "usr/share/man/"))}
    print(sum(sizes.values()), "KiB:", sorted(sizes.items(), key=lambda item: -item[1])[:5])
    assert sum(sizes.values()) <= 1200


def test_nodes_carry_nothing_of_the_administrators_side(world):
    """Neither a file nor a text of its failures."""
    assert not [path for path in files_of(world, world.deb) if "admin" in path or "controller" in path]
    program = (world.work / f"{world.deb.stem}-tree/usr/bin/node-bootstrap").read_bytes()
    codes = failures.read("src/admin/admin_failures.def")
    assert codes and not [code for code in codes if code.encode() in program]


@pytest.mark.parametrize("package", ["deb", "admin_deb"])
def test_files_hold_no_surprise(world, package):
    """Programs, units, pages; no set-ID bit; no file that others can write."""
    listing = subprocess.run(["dpkg-deb", "--contents", getattr(world, package)], check=True, capture_output=True, text=True).stdout
    for line in listing.splitlines():
        mode, owner = line.split()[:2]
        assert owner == "root/root", line
        assert "s" not in mode[1:] and mode[5] == mode[8] == "-" or mode.startswith("l"), line
