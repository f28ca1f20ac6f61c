# SPDX-License-Identifier: Apache-2.0
"""What differs between the versions of Kubernetes that the tests can run with. Nothing else compares versions."""

import json
import subprocess

from . import SOURCE

# Newest first: those that README.md lists. The tests can run with these, and with the versions between them.
SUPPORTED = json.loads((SOURCE / "tests/kubernetes.json").read_text(encoding="utf-8"))
# Of kubelet on the machines of the end-to-end tests, besides those of its version.
KUBELET_FLAGS = [
    "--container-runtime-endpoint=unix:///run/containerd/containerd.sock",
    "--enforce-node-allocatable=",  # kubeadm removes an empty list from config.yaml
]
# By the first minor version that it applies to. Numbers are those of pull requests of kubernetes/kubernetes.
TABLE = {
    # The default is dockershim until 1.24 (#107094); 1.27 refuses the flag (#114017). cAdvisor looks for Docker with any runtime.
    "kubelet flags": {20: ["--container-runtime=remote", "--docker=unix:///run/e2e-docker.sock"], 24: []},
    # kubelet refuses to start with cgroup v1 from 1.35 on (#134298); the field is there since 1.31 (#126031).
    "kubelet configuration": {20: {}, 35: {"failCgroupV1": False}},
    # The port without TLS, which is open by default until #96216, in 1.22. The flag is gone in 1.24 (#106860).
    "controller manager flags": {20: ["--port=0"], 24: []},
    # --cluster-signing-duration for a certificate that is valid for one more minute: the end, too, is 5 minutes earlier until 1.22 (#99412).
    "one minute": {20: "6m", 22: "1m"},
    # v1beta3: #101129; v1beta4: "Supported versions" in cmd/kubeadm/app/apis/kubeadm/v1beta4/doc.go.
    "kubeadm API": {20: "v1beta2", 22: "v1beta3", 31: "v1beta4"},
    # Its annotation of the Node is what `kubeadm upgrade node` takes a runtime from until 1.25 (#107295).
    "annotation names the runtime": {20: True, 25: False},
    # Which group lets system:node:a request a certificate for system:node:b: NodeRestriction forbids it to nodes from 1.31 on (#126015).
    "groups to impersonate a node": {20: ("system:nodes",), 31: ("system:masters",)},
    # #108027
    "ConfigMap of kubelet": {20: "kubelet-config-1.{minor}", 24: "kubelet-config"},
    # ValidatingAdmissionPolicy in v1, which is on by default (#123405).
    "admission policy": {20: False, 30: True},
}


def minor(program):
    """kubelet's, kube-apiserver's and so on: "Kubernetes v1.36.2"."""
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    return int(said.split(".")[1])


def complaint(program):
    """A sentence if the tests do not know what this version needs."""
    newest, oldest = (int(SUPPORTED[index]["minor"].split(".")[1]) for index in (0, -1))
    found = minor(program)
    return None if oldest <= found <= newest else f"{program} is of Kubernetes 1.{found}, and the tests know 1.{oldest} to 1.{newest}"


def of(version, what):
    """The row that applies to this minor version."""
    rows = TABLE[what]
    return rows[max(first for first in rows if first <= version)]
