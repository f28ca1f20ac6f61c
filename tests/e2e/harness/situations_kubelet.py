# SPDX-License-Identifier: Apache-2.0
"""More of situations.py: what is reported of kubelet's settings."""

import re

from common import pki
from common.wait import until
from .node import KUBECONFIG, TOKEN
from .situations import situation


@situation("kubelet-arguments-missing")
def arguments_of_another_program(r):
    path = "/var/lib/kubelet/kubeadm-flags.env"
    r.node.write(path, 'KUBELET_KUBEADM_ARGS="--v=1"\n')
    r.stack.callback(r.node.run, "rm", "-f", path)
    r.begin(kubelet={"providerID": "test://1"})
    r.joins()
    r.node.run("systemctl", "stop", "kubelet.service")
    r.node.path(path).unlink()
    r.here("node-bootstrap reset")
    r.joins(restart=True)
    assert b"--provider-id=test://1" in r.node.read(path)


@situation("runtime-ambiguous")
def two_container_runtimes(r):
    path, arguments = "/etc/default/kubelet", r.node.read("/etc/default/kubelet").decode()
    r.stack.callback(r.node.write, path, arguments)
    r.node.write(path, re.sub(r"--container-runtime-endpoint=\S+", "", arguments))
    r.node.run("mkdir", "--parents", "/run/crio")
    r.node.run("systemd-run", "--unit=crio", "socat", "UNIX-LISTEN:/run/crio/crio.sock,fork", "PIPE")
    r.stack.callback(r.node.run, "systemctl", "stop", "crio.service")
    until(lambda: r.node.run("test", "-S", "/run/crio/crio.sock", check=False).returncode == 0, "the socket exists")
    r.begin()
    r.joins()
    r.node.configure(kubelet={"criSocket": "/run/crio/crio.sock"})
    r.here("systemctl reload")
    assert "/run/crio/crio.sock" in r.here("cat")


def join_with_kubelet(r):
    r.node.prepare()
    r.joins(restart=True)
    r.node.run("systemctl", "start", "kubelet.service")
    r.node.await_kubelet()
    r.cluster.await_node(r.node.name)


@situation("node-deleted")
def node_that_was_deleted(r):
    join_with_kubelet(r)
    r.cluster.delete_node(r.node.name)
    until(lambda: "node-deleted: " in r.node.run("node-bootstrap", "check", check=False).stdout, "kubelet has been running for a while")
    r.says("node-bootstrap", "check")
    r.here("systemctl restart")
    r.cluster.await_node(r.node.name)
    r.here("node-bootstrap reset")
    assert not r.node.exists(KUBECONFIG)


@situation("node-access-revoked")
def certificate_of_another_ca(r):
    join_with_kubelet(r)
    r.node.write(r.node.dated(), pki.CA().node(r.node.name).combined, 0o600)
    r.says("node-bootstrap", "check")
    r.here("node-bootstrap reset")
    r.cluster.delete_node(r.node.name)
    for path in ("/etc/node-bootstrap/config.yaml", TOKEN):
        r.node.path(path).unlink(missing_ok=True)
    said = r.here("node-bootstrap setup", stdin=r.there("kubeadm token create"))
    assert "kubelet is running" in said, said
    r.cluster.await_node(r.node.name)


@situation("kubelet-unprepared")
def kubelet_and_runtime_do_not_start(r):
    r.stack.callback(r.node.enable, "kubelet.service")
    r.stack.callback(r.node.enable, "containerd.service", off=True)
    join_with_kubelet(r)
    r.node.run("systemctl", "stop", "containerd.service")
    r.says("node-bootstrap", "check")
    r.here("systemctl enable --now containerd")
    r.node.run("systemctl", "mask", "kubelet.service")
    r.says("node-bootstrap", "check")
    r.here("systemctl unmask")
    r.node.run("systemctl", "disable", "--now", "kubelet.service")
    r.says("node-bootstrap", "check")
    r.here("systemctl enable --now kubelet")
    r.node.await_kubelet()
    assert "kubelet-unprepared: " not in r.node.run("node-bootstrap", "check", check=False).stdout
