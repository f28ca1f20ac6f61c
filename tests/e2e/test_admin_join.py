# SPDX-License-Identifier: Apache-2.0
"""A machine joins a cluster in which nothing but node-bootstrap-admin's controller signs cluster-info, approves and revokes."""

import re
import shutil
from pathlib import Path

import pytest

from common import documentation
from common.documentation import commands
from common.wait import until
from .harness import controlplane
from .harness import admin as admins

CONTROLLER = admins.CONTROLLER_UNIT
[DROP_IN] = [example for example in documentation.examples("unit") if example.argument == CONTROLLER]
KUBECONFIG = "/etc/node-bootstrap/controller.kubeconfig"


@pytest.fixture(scope="module")
def admin(administer, unattended_cluster):
    return administer(unattended_cluster)


@pytest.fixture(scope="module")
def account(unattended_cluster):
    """The ServiceAccount of rbac.yaml: the controller has no other right."""
    return admins.service_account(unattended_cluster)


@pytest.fixture
def fresh(new_node, unattended_cluster):
    """A machine with the package and nothing else."""
    node = new_node(of=unattended_cluster)
    node.boot("--unit=basic.target")
    return node


def create_token(admin, node, *options):
    """What the administrator hands over: the line for `setup`, and the ID of the token in it."""
    line = admin.run("token", "create", f"--node={node.name}", "--print=kubeadm", *options)
    return line, re.search(r"--token[= ]([a-z0-9]{6})\.", line)[1]


def secret(cluster, token):
    return cluster.find(f"{controlplane.SECRETS}/bootstrap-token-{token}")


def assert_joined(node, cluster, token):
    """kubelet has registered the Node with a certificate of the one request, and the token is of no use any more."""
    cluster.await_node(node.name)
    node.await_kubelet()
    [csr] = cluster.csrs(node.name)
    assert csr["spec"]["username"] == f"system:bootstrap:{token}"
    assert [c["type"] for c in csr["status"]["conditions"]] == ["Approved"]
    until(lambda: not secret(cluster, token), "the token is revoked")
    until(lambda: not cluster.find(f"{admins.CLAIMS}/node-bootstrap-token-{token}"), "the claim ends with its token")
    until(lambda: f"jws-kubeconfig-{token}" not in cluster.cluster_info(), "cluster-info is not signed with it any more")


def test_a_node_joins_with_the_controller_alone(admin, account, fresh, unattended_cluster):
    """kubeadm's Role does not let the token read kubelet's configuration, but the node."""
    unattended_cluster.upload_kubelet_config(fresh)
    fresh.path("/var/lib/kubelet/config.yaml").unlink()
    with admin.controller(account=account):
        line, token = create_token(admin, fresh)
        fresh.run("node-bootstrap", "setup", "-", "--kubelet-config-from=cluster", stdin=line)
        assert_joined(fresh, unattended_cluster, token)
    assert b"10.96.0.10" in fresh.read("/var/lib/kubelet/config.yaml")


def test_the_controller_starts_after_the_machine(admin, account, fresh, unattended_cluster):
    """A machine that waits joins when the controller comes."""
    line, token = create_token(admin, fresh)
    fresh.run("node-bootstrap", "setup", "--no-start", "-", stdin=line)
    fresh.begin()
    with admin.controller(account=account):
        assert_joined(fresh, unattended_cluster, token)


@pytest.fixture
def controller_machine(new_node, unattended_cluster, world):
    """The administrator's package, installed as users install it, with kubectl and its kubeconfig."""
    machine = new_node(of=unattended_cluster, package=False)
    machine.write("/root/kube-node-bootstrap-admin.deb", world.admin_package)
    machine.write("/usr/bin/kubectl", Path(shutil.which("kubectl")).read_bytes(), 0o755)
    machine.write("/root/.kube/config", (unattended_cluster.work / "kubeadm.conf").read_text(), 0o600)
    machine.boot("--unit=basic.target")
    machine.run("dpkg", "--install", "/root/kube-node-bootstrap-admin.deb")
    return machine


def test_the_unit(controller_machine, admin, fresh, unattended_cluster):
    """Set up with the commands in docs/install.md; it approves, is confined, and outlives a crash."""
    machine = controller_machine
    assert machine.run("systemctl", "is-enabled", CONTROLLER, check=False).stdout.strip() == "disabled"
    assert not machine.is_active(CONTROLLER)
    refused = machine.run("systemctl", "start", CONTROLLER, check=False)
    assert refused.returncode != 0 and "ssert" in refused.stdout, "without a kubeconfig the start fails, and says so"
    machine.run("env", "HOME=/root", "sh", "-ec", commands("controller"))
    assert oct(machine.path(KUBECONFIG).stat().st_mode)[-3:] == "600"
    assert machine.show(CONTROLLER, "StatusText")
    unattended_cluster.policy(**controlplane.SERVING)    # the example runs approve-serving
    machine.write(f"/etc/systemd/system/{CONTROLLER}.d/50-example.conf", DROP_IN.text)
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "restart", CONTROLLER)
    ask = "exec 3<>/dev/tcp/127.0.0.1/10270; printf 'GET /readyz HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3"
    until(lambda: machine.run("bash", "-c", ask, check=False).stdout.endswith("ok\n"), "the sandbox allows what the drop-in adds")
    pid = machine.show(CONTROLLER, "MainPID")
    assert_confined(machine, pid)
    line, token = create_token(admin, fresh)
    fresh.run("node-bootstrap", "setup", "-", stdin=line)
    assert_joined(fresh, unattended_cluster, token)
    machine.run("kill", "-KILL", pid)
    until(lambda: machine.show(CONTROLLER, "NRestarts") == "1" and machine.is_active(CONTROLLER), "systemd starts it again")
    machine.run("dpkg", "--install", "/root/kube-node-bootstrap-admin.deb")
    assert machine.is_active(CONTROLLER), "an upgrade does not stop it"
    machine.run("dpkg", "--purge", "kube-node-bootstrap-admin")
    assert not machine.is_active(CONTROLLER) and machine.exists(KUBECONFIG)


@pytest.fixture(scope="module")
def desk(new_shared_node, unattended_cluster, admin_tree):
    """Where an administrator works: the program and a kubeconfig."""
    machine = new_shared_node("desk", of=unattended_cluster)
    machine.write(f"/{admins.PROGRAM}", (admin_tree / admins.PROGRAM).read_bytes(), 0o755)
    machine.write("/root/.kube/config", (unattended_cluster.work / "kubeadm.conf").read_text(), 0o600)
    machine.boot("--unit=basic.target")
    return machine


@pytest.mark.parametrize("example", documentation.examples("admin"), ids=str)
def test_examples_of_the_page(desk, example):
    desk.run("env", "HOME=/root", "sh", "-ec", f"cd /root && {example.text.replace('ssh worker-1', 'sh -c')}")


def test_commands_of_the_document(controller_machine, unattended_cluster):
    """The three commands of a user in a hurry."""
    said = controller_machine.run("env", "HOME=/root", "sh", "-c", commands("admin")).stdout
    assert "#cloud-config" in said and unattended_cluster.front.endpoint in said


def assert_confined(machine, pid):
    """No root, no capability, no way to gain one, and the kubeconfig is readable for nobody else."""
    status = dict(line.split(":\t", 1) for line in machine.run("cat", f"/proc/{pid}/status").stdout.splitlines() if ":\t" in line)
    assert "0" not in status["Uid"].split() and status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
    assert {int(status[key], 16) for key in ("CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
    credential = machine.run("stat", "--format=%a", f"/run/credentials/{CONTROLLER}/kubeconfig").stdout.strip()
    assert credential in ("400", "440")
