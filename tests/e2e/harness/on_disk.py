# SPDX-License-Identifier: Apache-2.0
"""What a join leaves on disk, without a cluster."""

from common import pki

FILES = {
    "certificate": "/var/lib/kubelet/pki/kubelet-client-2026-01-02-03-04-05.pem", "link": "/var/lib/kubelet/pki/kubelet-client-current.pem",
    "ca": "/etc/kubernetes/pki/ca.crt", "kubeconfig": "/etc/kubernetes/kubelet.conf", "environment": "/var/lib/kubelet/node-bootstrap.env",
}
KUBECONFIG = f"""apiVersion: v1
kind: Config
clusters:
- name: default-cluster
  cluster:
    certificate-authority: /etc/kubernetes/pki/ca.crt
    server: https://192.0.2.1:6443
contexts:
- name: default-context
  context:
    cluster: default-cluster
    user: default-auth
current-context: default-context
users:
- name: default-auth
  user:
    client-certificate: {FILES['link']}
    client-key: {FILES['link']}
"""


def put(machine, name, **validity):
    """`validity` as for pki.CA.node(). Returns the CA."""
    ca = pki.CA()
    remove(machine)
    machine.write(FILES["certificate"], ca.node(name, **validity).combined, 0o600)
    machine.path(FILES["link"]).symlink_to(FILES["certificate"])
    machine.write(FILES["ca"], ca.pem)
    machine.write(FILES["kubeconfig"], KUBECONFIG, 0o600)
    machine.write(FILES["environment"], f"KUBELET_NODE_NAME={name}\n")
    return ca


def remove(machine):
    for path in FILES.values():
        machine.path(path).unlink(missing_ok=True)
