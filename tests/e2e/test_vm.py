# SPDX-License-Identifier: Apache-2.0
"""Virtual machines that boot with what a hypervisor or a cloud gives them, and join: no file in them was made for it."""

import base64

import pytest
from cryptography import x509
from harness import controlplane
from harness.node import CURRENT, KUBECONFIG, UNIT, settings
from harness.vm import Template, Vm


@pytest.fixture(scope="module")
def template(world):
    return Template(world.work, world.kernel, world.layer, world.base)


@pytest.fixture
def new_vm(world, template):
    made = []
    yield lambda name: made.append(Vm(world.work, template, name)) or made[-1]
    for vm in made:
        vm.close()


def joined_by(vm, cluster, token):
    """kubelet was started, after the machine got its certificate by this token."""
    vm.await_kubelet()
    assert vm.run(f"systemctl is-active {UNIT} node-joined.target").split() == ["active", "active"]
    certificate = x509.load_pem_x509_certificate(vm.run(f"cat {CURRENT}").encode())
    assert certificate.subject.rfc4514_string() == f"CN=system:node:{vm.name},O=system:nodes"
    assert f"server: https://{cluster.front.endpoint}" in vm.run(f"cat {KUBECONFIG}").replace('"', "")
    assert [csr["spec"]["username"] for csr in cluster.csrs(vm.name)] == [f"system:bootstrap:{token.id}"]


def test_credentials_of_the_hypervisor(new_vm, cluster):
    """Three credentials by three ways, none of which joins without the others. Secrets are not in QEMU's command line."""
    signing, asking = cluster.token(controlplane.POWERLESS_GROUP), cluster.token(signing=False)
    vm = new_vm("hypervisor")
    text = vm.file("text", f"io.systemd.credential:node-bootstrap.tls-bootstrap-token={asking}")
    config = base64.b64encode(settings(cluster).encode()).decode()
    vm.boot(
        "-fw_cfg", f"name=opt/io.systemd.credentials/node-bootstrap.token,file={vm.file('token', str(signing))}",
        "-smbios", f"type=11,path={text}", "-smbios", f"type=11,value=io.systemd.credential.binary:node-bootstrap.config={config}",
    )
    joined_by(vm, cluster, asking)
