# SPDX-License-Identifier: Apache-2.0
"""Situations (see situations.py) of a machine that has joined, and whose kubelet cannot run."""

from . import pki
from .node import KUBECONFIG, UNIT
from .situations import situation
from .situations_kubelet import join_with_kubelet


def works(r):
    r.node.await_kubelet()
    assert r.node.run("node-bootstrap", "status", "--check").stdout.startswith("OK: ")


def expire(r):
    ended = pki.Authority(age=366 * pki.DAY).client(f"system:node:{r.node.name}", "system:nodes")
    r.node.write(r.node.dated(), b"".join(ended), 0o600)
    r.node.run("systemctl", "stop", "kubelet.service")
    r.says("node-bootstrap", "check", "--local")


@situation("join-needed")
def certificate_that_has_expired(r):
    join_with_kubelet(r)
    expire(r)
    r.here("systemctl restart")
    r.node.run("systemctl", "start", "kubelet.service")
    works(r)
    expire(r)
    said = r.here("node-bootstrap setup", stdin=r.there("kubeadm token create"))
    assert r.node.is_active(UNIT), said
    r.node.run("systemctl", "start", "kubelet.service")
    works(r)


@situation("kubelet-down")
def kubelet_that_was_stopped(r):
    join_with_kubelet(r)
    r.node.run("systemctl", "stop", "kubelet.service")
    r.says("node-bootstrap", "check", "--local")
    assert "kubelet" in r.here("journalctl")
    r.here("systemctl restart")
    works(r)


@situation("kubeconfig-lost")
def kubeconfig_that_was_removed(r):
    join_with_kubelet(r)
    before = r.node.certificate()
    r.node.path(KUBECONFIG).unlink()
    r.says("node-bootstrap", "check", "--local")
    r.here("systemctl reload-or-restart")
    r.here("systemctl restart")
    works(r)
    assert r.node.certificate() == before


@situation("node-renamed")
def host_name_that_was_changed(r):
    """To the old name, and on to the new one."""
    join_with_kubelet(r)
    old, new = r.node.name, f"{r.node.name}-new"
    r.stack.callback(r.node.set_host_name, old)
    r.node.set_host_name(new)
    r.says("node-bootstrap", "check", "--local")
    r.here("hostnamectl set-hostname")
    r.here("systemctl restart")
    works(r)
    r.node.set_host_name(new)
    r.node.run("systemctl", "stop", "kubelet.service")
    said = r.here("node-bootstrap setup", stdin=r.there("kubeadm token create"))
    assert r.node.is_active(UNIT), said
    r.node.run("systemctl", "start", "kubelet.service")
    works(r)
    r.cluster.await_node(new)
    r.there("kubectl delete node")
    assert not r.cluster.find(f"/api/v1/nodes/{old}") and r.cluster.find(f"/api/v1/nodes/{new}")
