# SPDX-License-Identifier: Apache-2.0
"""The table of the end-to-end tests of what differs between the versions of Kubernetes (tests/common/versions.py)."""

import pytest

from common import versions
from . import kubeadm

REMOTE, PORT, CGROUPS = ["--container-runtime=remote", "--docker=unix:///run/e2e-docker.sock"], ["--port=0"], {"failCgroupV1": False}
NODES, MASTERS = ("system:nodes",), ("system:masters",)
NAMES = ["kubelet flags", "kubelet configuration", "controller manager flags", "one minute", "kubeadm API",
         "annotation names the runtime", "groups to impersonate a node", "ConfigMap of kubelet"]
ROWS = {
    20: (REMOTE, {}, PORT, "6m", "v1beta2", True, NODES, "kubelet-config-1.{minor}"),
    22: (REMOTE, {}, PORT, "1m", "v1beta3", True, NODES, "kubelet-config-1.{minor}"),
    23: (REMOTE, {}, PORT, "1m", "v1beta3", True, NODES, "kubelet-config-1.{minor}"),
    24: ([], {}, [], "1m", "v1beta3", True, NODES, "kubelet-config"),
    26: ([], {}, [], "1m", "v1beta3", False, NODES, "kubelet-config"),
    27: ([], {}, [], "1m", "v1beta3", False, NODES, "kubelet-config"),
    31: ([], {}, [], "1m", "v1beta4", False, MASTERS, "kubelet-config"),
    34: ([], {}, [], "1m", "v1beta4", False, MASTERS, "kubelet-config"),
    35: ([], CGROUPS, [], "1m", "v1beta4", False, MASTERS, "kubelet-config"),
    36: ([], CGROUPS, [], "1m", "v1beta4", False, MASTERS, "kubelet-config"),
}


@pytest.mark.parametrize("minor", ROWS)
def test_rows(minor):
    assert NAMES == list(versions.TABLE)
    assert tuple(versions.of(minor, name) for name in NAMES) == ROWS[minor]


@pytest.mark.parametrize("minor", kubeadm.VERSIONS)
def test_kubelet_accepts_its_flags(machine, minor):
    words = [*versions.of(minor, "kubelet flags"), *versions.KUBELET_FLAGS]
    machine.put(kubeadm.FLAGS, f'{kubeadm.PREFIX}"{" ".join(words)}"\n')
    kubeadm.start_kubelet(machine, minor)


@pytest.mark.parametrize("said, minor", [("Kubernetes v1.20.2\n", 20), ("Kubernetes v1.36.3+k3s1\n", 36)])
def test_version_of_a_program(tmp_path, said, minor):
    program = tmp_path / "kubelet"
    program.write_text(f"#!/bin/sh\nprintf %s '{said}'\n")
    program.chmod(0o755)
    assert versions.minor(program) == minor
