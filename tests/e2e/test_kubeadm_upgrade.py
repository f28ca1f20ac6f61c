# SPDX-License-Identifier: Apache-2.0
"""kubeadm's upgrade of a machine that `setup -` joined, and what the join writes for it."""

import re

import pytest
import yaml

from common import SOURCE, versions
from .harness.node import PKI, UNIT

FLAGS, INSTANCE, RECORD = "/var/lib/kubelet/kubeadm-flags.env", "/var/lib/kubelet/instance-config.yaml", f"{PKI}/node-bootstrap.json"
DEFAULTS = "/etc/default/kubelet"
CONTAINERD = "unix:///run/containerd/containerd.sock"


@pytest.fixture
def fresh(new_node):
    """A booted machine with the package and an enabled kubelet, and nothing else."""
    node = new_node()
    node.boot("--unit=basic.target")
    return node


def paste(node, cluster, words=""):
    done = node.run("node-bootstrap", "setup", "-", *words.split(), check=False, stdin=cluster.join_command() + "\n")
    assert done.returncode == 0, done.stdout
    node.await_kubelet()
    cluster.await_node(node.name)


def runtime(node):
    return yaml.safe_load(node.read(INSTANCE)) == {"containerRuntimeEndpoint": CONTAINERD}


def arguments(node):
    return node.read_of_kubelet("cmdline").split("\0")


def annotate(node, cluster):
    """The line of the manual page."""
    page = (SOURCE / "man/node-bootstrap.service.8.in").read_text().replace("\\-", "-")
    [line] = re.findall(r"^\.Dl kubectl (annotate node NAME .*)$", page.replace("\\e\n.Dl ", ""), re.M)
    cluster.kubectl(*line.replace("NAME", node.name).replace("ENDPOINT", CONTAINERD).split())


def test_upgrade(fresh, cluster):
    """The files are still recognized afterwards: a start changes nothing, and reset removes them."""
    paste(fresh, cluster)
    if versions.of(cluster.minor, "annotation names the runtime"):
        annotate(fresh, cluster)
    assert fresh.read(FLAGS).decode() == f'KUBELET_KUBEADM_ARGS="--hostname-override={fresh.name}"\n' and runtime(fresh)
    cluster.upload_config()
    # SystemVerification: from 1.35 on, a machine with cgroup v1 does not pass it.
    said = fresh.run("kubeadm", "upgrade", "node", "--ignore-preflight-errors=SystemVerification", timeout=300).stdout
    assert re.search("configuration for this node was successfully (updated|upgraded)", said), said
    before = [fresh.read(path) for path in (FLAGS, INSTANCE, RECORD)]
    fresh.run("systemctl", "restart", "kubelet.service")
    assert f"--hostname-override={fresh.name}" in arguments(fresh)
    fresh.join("restart")
    assert [fresh.read(path) for path in (FLAGS, INSTANCE, RECORD)] == before
    fresh.run("node-bootstrap", "reset", "--stop-kubelet")
    assert not fresh.exists(FLAGS) and not fresh.exists(INSTANCE)


def test_runtime_by_the_join_line(fresh, cluster):
    """Nothing else names the runtime."""
    fresh.write(DEFAULTS, re.sub(r"--container-runtime\S*", "", fresh.read(DEFAULTS).decode()))
    paste(fresh, cluster, f"--cri-socket={CONTAINERD}")
    assert (f"--container-runtime-endpoint={CONTAINERD}" in arguments(fresh)) and runtime(fresh)
    ours, wanted = ([word for word in words if word.startswith("--container-runtime=")]
                    for words in (arguments(fresh), versions.of(cluster.minor, "kubelet flags")))
    assert ours == wanted
