# SPDX-License-Identifier: Apache-2.0
"""kubelet with the result of a join: rotation on and off, a rotation, a node name other than the host name."""

import os
import re

import pytest
import yaml
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509 import load_pem_x509_certificate

from common import pki
from common.wait import until
from .harness.node import CURRENT, UNIT

FLAGS = "/var/lib/kubelet/kubeadm-flags.env"
KUBELET_CONFIG = "/var/lib/kubelet/config.yaml"


def configure_kubelet(node, **changes):
    document = yaml.safe_load(node.read(KUBELET_CONFIG))
    node.write(KUBELET_CONFIG, yaml.safe_dump({**document, **changes}))


@pytest.mark.parametrize("rotate", [True, False])
def test_rotate_certificates(node, cluster, rotate):
    configure_kubelet(node, rotateCertificates=rotate)
    node.enable(UNIT).boot()
    cluster.await_node(node.name)
    assert len(cluster.csrs(node.name)) == 1
    assert not node.exists("/etc/kubernetes/bootstrap-kubelet.conf")


def test_kubelet_rotates(new_node, other_cluster):
    """A certificate that is valid for one more minute: kubelet renews it in the files of the join."""
    node = new_node(other_cluster).prepare().enable(UNIT)
    node.boot()
    until(lambda: node.exists(CURRENT), "the machine joins")
    first, serial = node.dated(), node.certificate().serial_number
    other_cluster.await_node(node.name)
    until(lambda: node.exists(CURRENT) and node.dated() != first, "kubelet-client-current.pem moves on")
    data = node.read(node.dated())
    certificate = load_pem_x509_certificate(data)
    assert certificate.serial_number != serial
    assert pki.common_name(certificate) == f"system:node:{node.name}"
    key = load_pem_private_key(data[data.index(b"-----BEGIN EC") :], None)
    assert key.public_key().public_numbers() == certificate.public_key().public_numbers()
    requesters = {c["spec"]["username"].split(":")[1] for c in other_cluster.csrs(node.name)}
    assert requesters == {"bootstrap", "node"}
    until(lambda: other_cluster.front.peer_ports(node.address), "kubelet is in touch, by connections that it makes anew")


def kubelet_arguments(node):
    return node.read_of_kubelet("cmdline").split("\0")


def test_node_name_in_kubeadms_flags(node, cluster):
    name = f"other.{node.name}"
    node.configure(node={"name": name}).enable(UNIT).boot()
    cluster.await_node(name)
    assert f"--hostname-override={name}" in kubelet_arguments(node)
    assert node.read(FLAGS).decode() == f'KUBELET_KUBEADM_ARGS="--hostname-override={name}"\n'
    assert pki.common_name(node.certificate()) == f"system:node:{name}"
    assert (len(cluster.csrs(name)), cluster.node(node.name)) == (1, None)


def test_arguments_of_kubeadm_stay(node):
    """A kubeadm-flags.env that node-bootstrap did not write is not changed; the journal names what it lacks."""
    name = f"other.{node.name}"
    text = f'KUBELET_KUBEADM_ARGS="--v=1 --hostname-override={name} --register-with-taints=a=b:NoSchedule"\n'
    node.write(FLAGS, text)
    node.configure(node={"name": name}, kubelet={"extraArgs": ["max-pods=50"]}).enable(UNIT).boot()
    arguments = kubelet_arguments(node)
    assert {"--v=1", f"--hostname-override={name}", "--register-with-taints=a=b:NoSchedule"} <= set(arguments)
    assert node.read(FLAGS).decode() == text
    assert "add --max-pods=50" in node.journal_text()


def test_node_name_by_the_environment(node, cluster):
    """A unit that uses KUBELET_NODE_NAME, as on OpenShift."""
    name = f"env.{node.name}"
    node.write("/etc/systemd/system/kubelet.service.d/10-kubeadm.conf", """
[Service]
EnvironmentFile=/etc/default/kubelet
ExecStart=
ExecStart=/usr/bin/kubelet --hostname-override=${KUBELET_NODE_NAME} --kubeconfig=/etc/kubernetes/kubelet.conf \\
        --config=/var/lib/kubelet/config.yaml $KUBELET_EXTRA_ARGS
""")
    node.configure(node={"name": name}).enable(UNIT).boot()
    cluster.await_node(name)


def test_host_name_in_capitals(new_node, cluster):
    """As kubelet does: lower case."""
    node = new_node().prepare().enable(UNIT)
    lower = node.name
    node.name = lower.upper()
    node.boot()
    cluster.await_node(lower)


def test_other_paths(node, cluster):
    """Kubeconfig, certificates and CA file elsewhere, as k3s or OpenShift have them."""
    paths = {
        "kubeconfig": "/var/lib/kubelet/kubeconfig", "certificateDirectory": "/var/lib/kubelet/certificates",
        "caFile": "/etc/kubernetes/kubelet-ca.crt",
    }
    node.write("/etc/systemd/system/kubelet.service.d/10-kubeadm.conf", f"""
[Service]
EnvironmentFile=/etc/default/kubelet
ExecStart=
ExecStart=/usr/bin/kubelet --kubeconfig={paths['kubeconfig']} --config=/var/lib/kubelet/config.yaml \\
        --cert-dir={paths['certificateDirectory']} $KUBELET_EXTRA_ARGS
""")
    node.configure(kubelet=paths).enable(UNIT).boot()
    cluster.await_node(node.name)
    assert node.exists(paths["caFile"])
    assert not node.exists("/etc/kubernetes/kubelet.conf")
    assert len(cluster.csrs(node.name)) == 1
    assert re.match(paths["certificateDirectory"], os.readlink(node.path(paths["certificateDirectory"] + "/kubelet-client-current.pem")))
