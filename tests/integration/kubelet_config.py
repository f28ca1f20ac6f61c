# SPDX-License-Identifier: Apache-2.0
"""The KubeletConfiguration of a cluster: as kubeadm stores it, and as join leaves it."""

import json

from common import endpoint

CONFIG = "var/lib/kubelet/config.yaml"
KUBEADM = """apiVersion: kubelet.config.k8s.io/v1beta1
authentication:
  anonymous: {enabled: false}
  webhook: {cacheTTL: 0s, enabled: true}
  x509: {clientCAFile: /etc/kubernetes/pki/elsewhere.crt}
authorization: {mode: Webhook}
clusterDNS: [10.96.0.10]
kind: KubeletConfiguration
rotateCertificates: true
staticPodPath: /etc/kubernetes/manifests
"""
FILTERED = """apiVersion: "kubelet.config.k8s.io/v1beta1"
kind: "KubeletConfiguration"
authentication:
  anonymous:
    enabled: false
  webhook:
    cacheTTL: "0s"
    enabled: true
  x509:
    clientCAFile: "/etc/kubernetes/pki/ca.crt"
authorization:
  mode: "Webhook"
clusterDNS: ["10.96.0.10"]
rotateCertificates: true
"""


def config_map(text=KUBEADM, **changes):
    return endpoint.Reply(200, json.dumps({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "x"}, "data": {"kubelet": text}, **changes}).encode())
