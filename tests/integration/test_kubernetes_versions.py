# SPDX-License-Identifier: Apache-2.0
"""The table of the end-to-end tests of what differs between the versions of Kubernetes (tests/common/versions.py)."""

import pytest
import yaml

from common import SOURCE, documentation, versions
from . import kubeadm

REMOTE, PORT, CGROUPS = ["--container-runtime=remote", "--docker=unix:///run/e2e-docker.sock"], ["--port=0"], {"failCgroupV1": False}
NODES, MASTERS = ("system:nodes",), ("system:masters",)
NAMES = ["kubelet flags", "kubelet configuration", "controller manager flags", "one minute", "kubeadm API",
         "annotation names the runtime", "groups to impersonate a node", "ConfigMap of kubelet", "admission policy"]
ROWS = {
    20: (REMOTE, {}, PORT, "6m", "v1beta2", True, NODES, "kubelet-config-1.{minor}", False),
    22: (REMOTE, {}, PORT, "1m", "v1beta3", True, NODES, "kubelet-config-1.{minor}", False),
    23: (REMOTE, {}, PORT, "1m", "v1beta3", True, NODES, "kubelet-config-1.{minor}", False),
    24: ([], {}, [], "1m", "v1beta3", True, NODES, "kubelet-config", False),
    26: ([], {}, [], "1m", "v1beta3", False, NODES, "kubelet-config", False),
    27: ([], {}, [], "1m", "v1beta3", False, NODES, "kubelet-config", False),
    29: ([], {}, [], "1m", "v1beta3", False, NODES, "kubelet-config", False),
    30: ([], {}, [], "1m", "v1beta3", False, NODES, "kubelet-config", True),
    31: ([], {}, [], "1m", "v1beta4", False, MASTERS, "kubelet-config", True),
    34: ([], {}, [], "1m", "v1beta4", False, MASTERS, "kubelet-config", True),
    35: ([], CGROUPS, [], "1m", "v1beta4", False, MASTERS, "kubelet-config", True),
    36: ([], CGROUPS, [], "1m", "v1beta4", False, MASTERS, "kubelet-config", True),
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


@pytest.mark.parametrize("minor, is_known", [(19, False), (20, True), (30, True), (36, True), (37, False)])
def test_versions_that_the_tests_do_not_know(tmp_path, minor, is_known):
    program = tmp_path / "kubelet"
    program.write_text(f"#!/bin/sh\necho Kubernetes v1.{minor}.0\n")
    program.chmod(0o755)
    assert (versions.complaint(program) is None) == is_known


def test_supported_versions():
    """README.md lists those of the file, newest first; CI runs three with the binaries of upstream, and the oldest."""
    assert documentation.rows_of("Kubernetes versions") == [[row["minor"], row["tests"]] for row in versions.SUPPORTED]
    minors = [int(row["minor"].removeprefix("1.")) for row in versions.SUPPORTED]
    newest = minors[0]
    assert minors == [newest, newest - 1, newest - 2, 20]
    jobs = yaml.safe_load((SOURCE / ".github/workflows/ci.yml").read_text())["jobs"]
    assert sorted(jobs["kubernetes"]["strategy"]["matrix"]["kubernetes"], reverse=True) == [row["minor"] for row in versions.SUPPORTED[:3]]
    assert f"from 1.20 to 1.{newest}," in (SOURCE / "CONTRIBUTING.md").read_text()
