# SPDX-License-Identifier: Apache-2.0
"""Units started and stopped by an operator: what starts and stops kubelet, and what does not."""

import pytest

from common.wait import until
from .harness import controlplane
from .harness.node import KUBECONFIG, PKI, UNIT

KUBELET = "kubelet.service"
RECORD = f"{PKI}/node-bootstrap.json"


@pytest.fixture
def running(node):
    """A joined machine with kubelet running, gated by the unit."""
    node.enable(UNIT).boot()
    node.await_kubelet()
    return node


def test_disabled_kubelet_is_not_started_at_boot(node):
    """A start of the service by hand starts it."""
    node.enable(UNIT)
    node.run_offline("systemctl", "--quiet", "disable", KUBELET)
    node.boot(wait="multi-user.target")
    assert not node.kubelet_was_started() and node.show(UNIT, "ActiveState") == "inactive"
    node.join()
    node.await_kubelet()


def test_kubelet_keeps_running_when_the_new_join_fails(running, cluster):
    cluster.await_node(running.name)
    kubelet = running.kubelet_pid()
    running.path(KUBECONFIG).unlink()
    running.path(RECORD).unlink()
    running.configure(pins=["sha256:" + 64 * "0"])
    assert running.join("restart", check=False).returncode != 0
    assert running.show(UNIT, "ActiveState") == "failed" and running.kubelet_pid() == kubelet
    assert running.run("systemctl", "restart", KUBELET, check=False).returncode != 0 and not running.kubelet_pid()
    running.configure()
    running.join()
    running.await_kubelet()


@pytest.mark.each_release
def test_kubelet_that_is_not_gated(new_node, cluster):
    """Installed but not enabled: kubelet does not depend on the unit."""
    node = new_node().prepare()
    text = controlplane.kubeconfig(f"https://{cluster.front.endpoint}", cluster.ca.pem, token=cluster.token())
    node.write("/etc/kubernetes/bootstrap-kubelet.conf", text, 0o600)
    node.boot()
    cluster.await_node(node.name)
    first = node.kubelet_pid()
    for verb in ("start", "restart", "stop"):
        node.run("systemctl", verb, UNIT)
    assert node.kubelet_pid() == first
    node.configure(pins=["sha256:" + 64 * "0"])
    node.path(KUBECONFIG).unlink()
    assert node.join(check=False).returncode != 0
    assert node.kubelet_pid() == first


@pytest.mark.each_release
def test_boot_that_does_not_wait(manual, cluster):
    """The drop-in of node-bootstrap.service(8): multi-user.target is reached while the join waits."""
    manual.drop_in(KUBELET, "[Unit]\nAfter=multi-user.target\n")
    manual.enable(UNIT).boot(wait="multi-user.target")
    manual.await_status("waiting for approval")
    cluster.kubectl("certificate", "approve", cluster.csrs(manual.name)[0]["metadata"]["name"])
    manual.await_kubelet()


@pytest.mark.each_release
def test_login_does_not_wait(manual, cluster):
    """Without it multi-user.target waits, but logins work."""
    manual.write("/etc/systemd/system/login.service", "[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n")
    manual.enable(UNIT, "login.service").boot()
    manual.await_status("waiting for approval")
    until(lambda: manual.is_active("login.service"), "logins work")
    assert not manual.is_active("multi-user.target")
    cluster.kubectl("certificate", "approve", cluster.csrs(manual.name)[0]["metadata"]["name"])
    until(lambda: manual.is_active("multi-user.target"), "the boot is over")


@pytest.mark.each_release
def test_units_after_the_join(manual, cluster):
    """node-joined.target: units ordered after it start when the machine has joined."""
    manual.write("/etc/systemd/system/after-join.service", """
[Unit]
After=node-joined.target
Requires=node-joined.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/true
[Install]
WantedBy=node-joined.target
""")
    manual.enable(UNIT, "after-join.service").boot()
    manual.await_status("waiting for approval")
    assert not manual.is_active("after-join.service")
    cluster.kubectl("certificate", "approve", cluster.csrs(manual.name)[0]["metadata"]["name"])
    until(lambda: manual.is_active("after-join.service"), "it starts")


@pytest.mark.each_release
def test_file_systems_that_are_mounted_late(node):
    """Neither join nor kubelet starts before /etc/kubernetes and /var/lib/kubelet are mounted."""
    node.write("/etc/systemd/system/late.service", "[Service]\nType=oneshot\nExecStart=/bin/sleep 5\n")
    mounts = {"etc-kubernetes.mount": "/etc/kubernetes", "var-lib-kubelet.mount": "/var/lib/kubelet"}
    for name, path in mounts.items():
        node.write(f"/etc/systemd/system/{name}", f"""
[Unit]
DefaultDependencies=no
Wants=late.service
After=late.service
[Mount]
What=tmpfs
Type=tmpfs
Where={path}
[Install]
WantedBy=multi-user.target
""")
    # kubelet would end again and again, since its configuration is hidden.
    node.drop_in(KUBELET, "[Service]\nExecStart=\nExecStart=/bin/sleep infinity\n")
    node.enable(UNIT, *mounts).boot()
    node.await_kubelet()
    assert all(node.run("mountpoint", path) for path in mounts.values())
    assert "kind: Config" in node.run("cat", KUBECONFIG).stdout
    until(lambda: "KUBELET_NODE_NAME" in node.run("cat", f"/proc/{node.kubelet_pid()}/environ").stdout, "kubelet's variables are set")
