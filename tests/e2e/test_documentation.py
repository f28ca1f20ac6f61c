# SPDX-License-Identifier: Apache-2.0
"""The commands in the documents and the manual pages, run as written, from a fresh machine to a node."""

import os
import re
import subprocess

import pytest

from common import SOURCE, documentation, versions
from common.documentation import commands
from common.failures import FAILURES, GENERATOR
from common.wait import until
from .harness.node import CONFIG, KUBECONFIG, UNIT, settings


def type_in(node, text, check=True):
    """A shell in a folder with the token in a file."""
    done = node.run("sh", "-ec", f"cd /root && {text}", check=False)
    assert done.returncode == 0 or not check, f"{text}\n{done.stdout}"
    return done.stdout


def on_the_control_plane(cluster, text):
    """What is typed on a control plane node: the same, with this one's paths."""
    text = text.replace("/etc/kubernetes/pki/ca.crt", str(cluster.work / "ca.crt"))
    text = text.replace("kubeadm", f"{cluster.assets / 'kubeadm'} --kubeconfig={cluster.work / 'admin.conf'}")
    return subprocess.run(["sh", "-ec", text], check=True, text=True, stdout=subprocess.PIPE).stdout


def test_by_hand(new_node, cluster):
    """docs/install.md, "Join by hand", step by step; then what docs/images.md, docs/troubleshooting.md and docs/operations.md say."""
    lines = on_the_control_plane(cluster, commands("token-and-pin")).split("\n")
    token, pin = lines[0], "sha256:" + lines[1].split()[0].removeprefix("SHA2-256(stdin)= ")
    assert pin == cluster.ca.pin
    until(lambda: f"jws-kubeconfig-{token[:6]}" in cluster.cluster_info(), "cluster-info is signed with the new token")

    node = new_node()
    node.boot("--unit=basic.target")
    node.write("/root/token", f"{token}\n")
    example = next(e for e in documentation.of_document(SOURCE / "docs/install.md") if e.kind == "yaml").text
    ours = example.replace("10.0.0.10:6443", cluster.front.endpoint)
    ours = ours.replace(ours.split('"')[1], pin)
    assert pin in ours and cluster.front.endpoint in ours
    node.write(CONFIG, ours)
    type_in(node, commands("credential"))
    assert oct(node.path("/etc/credstore/node-bootstrap.token").stat().st_mode)[-4:] == "0600"
    type_in(node, commands("image"))
    assert not node.is_active(UNIT), "an image is not joined"
    type_in(node, commands("start"))
    assert node.is_active(UNIT)
    cluster.await_node(node.name)
    said = type_in(node, commands("look"))
    assert "Joined" in said and "State: joined" in said and cluster.ca.pin in said
    type_in(node, commands("refresh"))
    assert node.is_active("node-bootstrap-refresh.timer")
    type_in(node, commands("remove"))
    assert not node.exists(KUBECONFIG) and not node.is_active(UNIT)


def test_in_one_line(new_node, cluster):
    """docs/install.md, "Join with one line": what kubeadm prints, pasted."""
    assert commands("print-join-command").strip() == "kubeadm token create --print-join-command"
    command = cluster.join_command()
    assert commands("setup").strip() == "node-bootstrap setup -" and command.startswith("kubeadm join ")
    node = new_node()
    node.boot("--unit=basic.target")
    node.write("/root/line", f"{command}\n", 0o600)
    type_in(node, "node-bootstrap setup - <line")
    cluster.await_node(node.name)


def test_waiting_and_removed(new_node, cluster):
    """What docs/operations.md says under "Timeouts" and "Removing a node"."""
    node = new_node().prepare("zzzzzz.0123456789abcdef")
    node.enable(UNIT).boot()
    until(lambda: node.said("token-unknown"), "the journal says that the token is unknown")
    assert node.run("systemctl", "is-system-running", check=False).stdout.strip() == "starting"
    assert not node.is_active("multi-user.target")
    node.write("/root/line", f"{cluster.join_command()}\n", 0o600)
    type_in(node, "node-bootstrap setup - <line")
    cluster.await_node(node.name)
    until(lambda: node.is_active("multi-user.target"), "the boot ends")

    cluster.delete_node(node.name)
    node.run("systemctl", "restart", "kubelet.service")
    cluster.await_node(node.name)

    type_in(node, commands("remove"))
    assert node.exists(CONFIG), "setup did not write it"
    node.reboot()
    until(lambda: node.show("kubelet.service", "Result") == "exit-code", "kubelet is not held back, and fails without a kubeconfig")


def test_tested_with_this_kubernetes(cluster):
    """The row of CI in README.md."""
    said = subprocess.run([cluster.assets / "kubelet", "--version"], check=True, text=True, stdout=subprocess.PIPE).stdout
    in_ci = {row["ci"] for row in versions.SUPPORTED if "ci" in row}
    assert in_ci == {said.split()[1].removeprefix("v")} or "CI" not in os.environ


SETUPS = [e for e in documentation.examples("shell-setup") if "kubeadm" in e.text]


@pytest.mark.parametrize("example", SETUPS, ids=str)
def test_setup_and_reset(new_node, cluster, example):
    """EXAMPLES of node-bootstrap(8): a node in one line, and out of the cluster again."""
    token = str(cluster.token())
    node = new_node()
    node.boot("--unit=basic.target")
    line = f"kubeadm join {cluster.front.endpoint} --token {token} --discovery-token-ca-cert-hash {cluster.ca.pin}"
    node.write("/root/line", f"{line}\n", 0o600)
    text = example.text.replace("ssh control-plane kubeadm token create --print-join-command", "cat line")
    text = text.replace("10.0.0.10:6443", cluster.front.endpoint)
    text = re.sub(r"sha256:[0-9a-f]{64}", cluster.ca.pin, text).replace("abcdef.0123456789abcdef", token)
    assert "kubelet is running" in type_in(node, text)
    cluster.await_node(node.name)
    node.await_kubelet()
    type_in(node, commands("remove"))
    assert not node.kubelet_pid() and not node.exists(KUBECONFIG) and not node.exists("/etc/credstore/node-bootstrap.token")


@pytest.mark.parametrize("example", [e for e in documentation.examples("shell") if not e.is_of_document and "node-bootstrap-admin" not in e.where
                                     and "systemd-creds" not in e.text], ids=str)     # test_credentials.py
def test_commands_of_pages(joined_once, example):
    """They run and print a result."""
    assert type_in(joined_once, example.text).strip()


@pytest.fixture(scope="module")
def joined_once(new_shared_node):
    node = new_shared_node("documented").prepare().enable(UNIT)
    node.boot("--unit=basic.target")
    # A failure first, so that each search in the journal finds something.
    node.give("zzzzzz.0123456789abcdef")
    node.begin()
    until(lambda: node.said("token-unknown"), "the journal says that the token is unknown")
    node.run("systemctl", "stop", UNIT)
    # Otherwise its answer would be that of the next start as well.
    until(lambda: node.show("node-bootstrap-gate.service", "ActiveState") == "failed", "the gate has answered")
    node.prepare()
    node.join()
    # It starts the container runtime as well, without which `check` reports kubelet-unprepared.
    node.await_kubelet()
    return node


def test_pin_of_the_pages(cluster):
    """The command that node-bootstrap.yaml(5) refers to prints the pin for caCertHashes."""
    [command] = [text for text in GENERATOR.commands(FAILURES["settings-incomplete"]["remedy"]) if text.startswith("openssl")]
    assert on_the_control_plane(cluster, command).split()[0] == cluster.ca.pin.removeprefix("sha256:")
