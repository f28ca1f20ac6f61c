# SPDX-License-Identifier: Apache-2.0
"""node-bootstrap-refresh.service on a node of a real cluster: a second CA appears in cluster-info."""

import base64
import json

import pytest
import yaml

from common import pki
from common.failures import FAILURES
from common.wait import until
from .harness.node import CA_FILE, KUBECONFIG, PKI, UNIT

REFRESH, TIMER = "node-bootstrap-refresh.service", "node-bootstrap-refresh.timer"
AUTOMATIC = "/var/lib/kubelet/node-bootstrap.automatic-refresh"
ONCE_A_SECOND = "[Timer]\nOnCalendar=\nOnCalendar=*:*:*\nRandomizedDelaySec=0\nAccuracySec=100ms\n"
CLUSTER_INFO = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
STATE = "/var/lib/private/node-bootstrap-refresh"
MARK = "/var/lib/kubelet/node-bootstrap.restart"


def renewed(cluster, name):
    """The time of kubelet's last contact with the API server."""
    lease = cluster.find(f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}")
    return lease["spec"]["renewTime"] if lease else ""


def set_bundle(cluster, *pems):
    """As kubeadm's documentation describes a rotation; the controllers sign it again."""
    text = yaml.safe_load(cluster.find(CLUSTER_INFO)["data"]["kubeconfig"])
    text["clusters"][0]["cluster"]["certificate-authority-data"] = base64.b64encode(b"".join(pems)).decode()
    cluster.request("PATCH", CLUSTER_INFO, {"data": {"kubeconfig": yaml.safe_dump(text)}})


def said(node, code):
    return bool(node.journal(f"_SYSTEMD_UNIT={REFRESH}", "MESSAGE_ID=" + FAILURES[code]["message-id"]))


def refresh(node):
    node.run("systemctl", "start", REFRESH)
    assert node.show(REFRESH, "ActiveState", "Result") == ("inactive", "success")


def test_second_ca(node, cluster):
    node.configure(refresh={"restartKubelet": True})
    node.enable(UNIT).boot()
    cluster.await_node(node.name)
    node.await_kubelet()
    kubeconfig, pid = node.read(KUBECONFIG), node.kubelet_pid()
    refresh(node)
    assert said(node, "refresh-unchanged") and node.kubelet_pid() == pid

    first, second = cluster.ca.pem, pki.CA("second").pem
    set_bundle(cluster, first, second)
    try:
        refresh(node)
    finally:
        set_bundle(cluster, first)
    assert said(node, "refreshed")
    assert node.read(CA_FILE) == first + second and node.read(KUBECONFIG) == kubeconfig
    assert json.loads(node.read(f"{PKI}/node-bootstrap.json"))["refreshedAt"]
    until(lambda: node.kubelet_pid() not in (0, pid), "kubelet is restarted")
    assert not node.exists(MARK)
    before = renewed(cluster, node.name)
    until(lambda: renewed(cluster, node.name) > before, "kubelet is in touch by the new bundle")
    assert node.is_active(UNIT)
    assert not list(node.path(STATE).iterdir()) and not node.exists("/run/node-bootstrap-refresh")

    pid = node.kubelet_pid()
    refresh(node)
    assert node.read(CA_FILE) == first, "it is gone from cluster-info, and from the node"
    until(lambda: node.kubelet_pid() not in (0, pid), "kubelet is restarted again")
    assert not node.exists(MARK) and not node.is_active(TIMER)


@pytest.mark.each_release
def test_timer(node, cluster):
    """Once a day, even if the service fails or is stopped, until the settings change."""
    node.configure(refresh={"automatic": True})
    node.drop_in(TIMER, ONCE_A_SECOND)
    node.enable(UNIT).boot()
    node.await_kubelet()
    assert node.is_active(TIMER)
    until(lambda: node.show(REFRESH, "ExecMainExitTimestampMonotonic") not in ("", "0"), "the timer has started the refresh")
    assert not said(node, "refresh-unchanged"), "the join is not a day old"
    node.drop_in(UNIT, "[Service]\nExecStartPre=/bin/false\n")
    node.run("touch", "--date=-1day", AUTOMATIC)
    node.reboot()
    until(lambda: said(node, "refresh-unchanged"), "the timer has started a refresh")
    assert not node.is_active(UNIT) and node.is_active(TIMER)
    node.drop_in(UNIT, "")
    node.run("systemctl", "restart", UNIT)
    node.run("systemctl", "stop", UNIT)
    assert node.is_active(TIMER)
    node.configure()
    node.run("systemctl", "start", UNIT)
    assert not node.exists(AUTOMATIC)
    node.run("systemctl", "stop", TIMER)
    node.run("systemctl", "restart", UNIT)
    assert not node.is_active(TIMER)
    node.configure(refresh={"automatic": True})
    node.run("systemctl", "restart", UNIT)
    assert node.is_active(TIMER)
    node.await_kubelet()
    pid = node.kubelet_pid()
    node.run("dpkg", "--purge", "kube-node-bootstrap")
    assert not node.is_active(TIMER) and node.kubelet_pid() == pid and not node.exists(STATE)


def test_machine_that_has_not_joined(node):
    node.boot()
    refresh(node)
    assert said(node, "refresh-inapplicable") and not node.exists(KUBECONFIG)
