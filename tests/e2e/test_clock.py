# SPDX-License-Identifier: Apache-2.0
"""A clock that is a day behind: the certificate is not blamed, and a joined node starts."""

import re

from common.wait import until
from .harness.clock import fake_clock, set_clock
from .harness.node import UNIT


CAP_SYS_TIME = 25


def test_no_machine_can_set_the_clock(node):
    """It is the host's, and that of all other machines."""
    node.boot()
    bound = re.search(r"^CapBnd:\s*([0-9a-f]+)$", node.run("cat", "/proc/1/status").stdout, re.M)[1]
    assert int(bound, 16) & 1 << CAP_SYS_TIME == 0


def test_clock_behind_at_a_new_cluster(new_node, other_cluster):
    """The API server's certificate looks not valid yet: the clock is to blame, and the join waits for it."""
    node = new_node(other_cluster).prepare().enable(UNIT)
    fake_clock(node, "-1d")
    node.boot()
    until(lambda: node.said("clock-wrong"), "the journal blames the clock")
    assert not node.said("tls-untrusted") and not node.said("certificate-unusable")
    node.await_status("clock")
    set_clock(node, "+0")
    until(lambda: node.is_active(UNIT), "the machine joins as soon as the clock is right")
    node.await_kubelet()
    assert len([c for c in other_cluster.csrs(node.name) if c["spec"]["username"].startswith("system:bootstrap")]) == 1


def test_clock_behind_at_an_old_cluster(node, cluster):
    """Only the node's new certificate is not valid yet: kubelet accepts that, and so does the join."""
    fake_clock(node, "-1d")
    node.enable(UNIT).boot()
    cluster.await_node(node.name)
    assert len(cluster.csrs(node.name)) == 1


def test_clock_behind_on_a_joined_machine(node, cluster):
    node.enable(UNIT).boot()
    cluster.await_node(node.name)
    before = node.joined_files()
    fake_clock(node, "-1d")
    node.reboot()
    node.await_kubelet()
    assert node.said("not-yet-valid")
    assert node.entries("not-yet-valid")[-1]["PRIORITY"] == "4"
    assert node.joined_files() == before
    assert len(cluster.csrs(node.name)) == 1


def test_clock_ahead_before_the_join(node, cluster):
    """Two days ahead: everything is valid, and the join succeeds."""
    fake_clock(node, "+2d")
    node.enable(UNIT).boot()
    until(lambda: node.is_active(UNIT), "the machine joins")
    node.await_kubelet()
