# SPDX-License-Identifier: Apache-2.0
"""Situations (see situations.py) of a machine that has joined; the functions of a node are for other tests too."""

import json

from common import pki
from common.wait import until
from .node import CA_FILE, KUBECONFIG, PKI, TOKEN, UNIT
from .remedies import type_on
from .situations import join, situation

KUBELET_CONFIG = "/var/lib/kubelet/config.yaml"


def await_crash(node):
    until(lambda: node.show("kubelet.service", "SubState") == "auto-restart", "kubelet has ended")


def break_kubelet(node):
    """Returns its configuration, which is now one that it refuses."""
    config = node.read(KUBELET_CONFIG)
    node.write(KUBELET_CONFIG, config.replace(b"kubelet.config.k8s.io/v1beta1", b"no.such.group/v1"))
    node.run("systemctl", "restart", "kubelet.service")
    await_crash(node)
    return config


def lose(node, path):
    node.path(path).unlink()
    node.run("systemctl", "restart", "kubelet.service", check=False)


def expire(node):
    node.write(node.dated(), pki.CA(start=-366 * pki.DAY).node(node.name, start=-366 * pki.DAY, end=-pki.DAY).combined, 0o600)
    node.run("systemctl", "stop", "kubelet.service")


def assert_well(r, name=None):
    """The Node is there, and monitoring is content."""
    r.node.await_kubelet()
    r.cluster.await_node(name or r.node.name)
    until(lambda: r.node.run("node-bootstrap", "status", "--monitor", check=False).stdout.startswith("OK: "), "systemd restarted kubelet long enough ago")


@situation("join-needed")
def certificate_has_expired(r):
    join(r)
    for by_hand in (True, False):
        before = r.node.certificate().serial_number
        expire(r.node)
        r.cluster.delete_node(r.node.name)
        r.says("node-bootstrap", "check")
        if by_hand:
            assert "kubelet is running" in r.here("node-bootstrap setup -", stdin=r.there("kubeadm token create"))
        else:
            r.here("systemctl restart")
        assert_well(r)
        assert r.node.certificate().serial_number != before


@situation("kubelet-down")
def kubelet_ends_again_and_again(r):
    join(r)
    config = break_kubelet(r.node)
    r.stack.callback(r.node.write, KUBELET_CONFIG, config)
    r.says("node-bootstrap", "setup")
    assert "no.such.group" in r.here("journalctl")
    r.node.write(KUBELET_CONFIG, config)
    r.here("systemctl restart kubelet.service")
    assert_well(r)
    r.cluster.upload_kubelet_config(r.node)
    r.stack.callback(r.node.write, KUBELET_CONFIG, config)
    r.node.configure(kubelet={"configFrom": "cluster"})
    r.node.path(KUBELET_CONFIG).unlink()
    r.node.run("systemctl", "restart", "kubelet.service")
    await_crash(r.node)
    r.says("node-bootstrap", "setup")
    r.here("systemctl restart node-bootstrap.service")
    assert_well(r)


@situation("kubeconfig-lost")
def kubeconfig_is_removed(r):
    """And then the CA file."""
    join(r)
    r.node.path(TOKEN).unlink()
    r.stack.callback(r.cluster.front.listen)
    for number, path in enumerate((KUBECONFIG, CA_FILE), 1):
        lose(r.node, path)
        r.says("node-bootstrap", "check")
        r.cluster.front.refuse()
        r.here("systemctl reload-or-restart")
        assert len(r.entries("file-restored")) == number
        r.here("systemctl restart kubelet.service")
        r.node.await_kubelet()
        r.cluster.front.listen()
    assert_well(r)


def join_before_a_renaming(r, suffix):
    """The machine gets both names back at the end. Returns its name, the next one, and its certificate's serial number."""
    old, new = r.node.name, r.node.name + suffix
    r.stack.callback(r.cluster.delete_node, new)
    r.stack.callback(r.node.run, "hostnamectl", "set-hostname", old)
    join(r)
    r.node.path(TOKEN).unlink()
    return old, new, r.node.certificate().serial_number


@situation("node-renamed")
def host_name_changed(r):
    """The node keeps its name, and the warning ends; then it is renamed on purpose."""
    old, new, before = join_before_a_renaming(r, "-new")
    r.node.run("hostnamectl", "set-hostname", new)
    r.start()
    assert "recorded this machine's host name" in r.here("node-bootstrap setup")
    assert_well(r)
    assert json.loads(r.node.run("node-bootstrap", "status", "--json").stdout)["code"] is None and r.node.certificate().serial_number == before
    r.here("node-bootstrap setup - --force --node-name", f" {new}", stdin=r.there("kubeadm token create"))
    r.here("systemctl restart node-bootstrap.service")
    r.here("systemctl restart kubelet.service")
    assert_well(r, new)
    assert "deleted" in r.there("kubectl delete node")
    assert not r.cluster.node(old)


def become_copy(r, name):
    """The host name and the machine ID are not those in the record."""
    record = json.loads(r.node.read(f"{PKI}/node-bootstrap.json"))
    r.node.write(f"{PKI}/node-bootstrap.json", json.dumps({**record, "machineID": "0" * 64}))
    r.node.run("hostnamectl", "set-hostname", name)
    r.node.run("systemctl", "stop", "kubelet.service", UNIT)
    r.start()
    assert r.node.await_end()[0] == "failed" and not r.node.kubelet_pid()


@situation("machine-copied")
def copy_of_a_machine(r):
    """It is the machine that joined; then it is a copy."""
    old, new, before = join_before_a_renaming(r, "-copy")
    become_copy(r, f"{old}-again")
    r.here("node-bootstrap setup --node-name")
    assert_well(r)
    assert r.node.certificate().serial_number == before
    r.node.path("/etc/node-bootstrap/config.yaml.d/50-setup.yaml").unlink()
    become_copy(r, new)
    assert "kubelet is running" in r.here("node-bootstrap setup -", stdin=r.there("kubeadm token create"))
    assert_well(r, new)


@situation("kubelet-paths-kept")
def other_paths(r):
    join(r)
    r.node.configure(kubelet={"caFile": "/etc/kubernetes/other-ca.crt"})
    r.start()
    assert_well(r)
    r.here("node-bootstrap reset --stop-kubelet")
    r.cluster.delete_node(r.node.name)
    r.here("node-bootstrap setup -", stdin=r.cluster.join_command())
    assert_well(r)
    assert r.node.exists("/etc/kubernetes/other-ca.crt")


@situation("installed-malformed")
def damaged_record(r):
    join(r)
    r.cluster.await_node(r.node.name)
    r.node.write(f"{PKI}/node-bootstrap.json", "{")
    r.says("node-bootstrap", "status")
    r.here("systemctl status")
    kubelet = r.take("systemctl stop kubelet.service")
    restart = r.take("systemctl restart")
    serial = r.node.certificate().serial_number
    # A join that does not end, and the way back from it.
    r.node.give("zzzzzz.0123456789abcdef")
    type_on(r.node, kubelet)
    r.node.begin("restart")
    until(lambda: r.entries("token-unknown"), "the join waits")
    r.here("systemctl stop node-bootstrap.service")
    r.node.await_kubelet()
    assert r.node.certificate().serial_number == serial
    # Again, with a token that the cluster knows.
    r.node.give(r.cluster.token())
    type_on(r.node, kubelet)
    assert "NotReady" in r.there("kubectl get node")
    type_on(r.node, restart)
    r.joins()
    assert r.node.certificate().serial_number != serial
    assert "Joined: " in r.node.run("node-bootstrap", "status").stdout
