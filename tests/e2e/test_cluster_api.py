# SPDX-License-Identifier: Apache-2.0
"""A worker of Cluster API: in its image, packaging/examples/cluster-api/kubeadm stands in for kubeadm.

The user data is what Cluster API's bootstrap provider for kubeadm writes for a worker. It was compared with the output of the provider's
own templates (kubernetes-sigs/cluster-api at ae7ff047db49, v1.14.0-rc.0-140).
"""

import json
from urllib.parse import quote

import pytest
import yaml

from common import SOURCE
from common.documentation import commands
from common.failures import FAILURES
from common.wait import until
from .harness import controlplane
from .harness.first_boot import SEED, apply_ignition
from .harness.node import KUBECONFIG, UNIT

TEMPLATE = yaml.safe_load((SOURCE / "packaging/examples/cluster-api/kubeadm-config-template.yaml").read_text())["spec"]["template"]["spec"]
SENTINEL, SENTINEL_UNIT = "/run/cluster-api/bootstrap-success.complete", "node-bootstrap-sentinel.service"
UNINITIALIZED = "node.cluster.x-k8s.io/uninitialized"
VERSIONS = ["v1beta3", "v1beta4"]

CLOUD_CONFIG = """## template: jinja
#cloud-config

write_files:
-   path: /run/kubeadm/kubeadm-join-config.yaml
    owner: root:root
    permissions: '0640'
    content: |
      ---
      {join}
-   path: /run/cluster-api/placeholder
    owner: root:root
    permissions: '0640'
    content: "This placeholder file is used to create the /run/cluster-api sub directory in a way that is compatible with both Linux and \
Windows (mkdir -p /run/cluster-api does not work with Windows)"
runcmd:
  - "echo before >>/root/commands"
  - kubeadm join --config /run/kubeadm/kubeadm-join-config.yaml --v 5 && echo success > /run/cluster-api/bootstrap-success.complete
  - "echo after >>/root/commands"
"""
KUBEADM_SERVICE = """[Unit]
Description=kubeadm
# Run only once. After successful run, this file is moved to /tmp/.
ConditionPathExists=/etc/kubeadm.yml
After=network.target
[Service]
# To not restart the unit when it exits, as it is expected.
Type=oneshot
ExecStart=/bin/bash /etc/kubeadm.sh
[Install]
WantedBy=multi-user.target
"""
KUBEADM_SH = """#!/bin/bash
set -e

echo before >>/root/commands

kubeadm join --config /etc/kubeadm.yml --v 5
mkdir -p /run/cluster-api && echo success > /run/cluster-api/bootstrap-success.complete
mv /etc/kubeadm.yml /tmp/

echo after >>/root/commands
"""


def join_configuration(cluster, version, token, limit="5m0s", **registration):
    """As the provider marshals it: sorted keys, and no key for what is not set. More than the example is set."""
    arguments = {one["name"]: one["value"] for one in TEMPLATE["joinConfiguration"]["nodeRegistration"]["kubeletExtraArgs"]} | {"v": "1"}
    document = {
        "apiVersion": f"kubeadm.k8s.io/{version}", "kind": "JoinConfiguration",
        "discovery": {"bootstrapToken": {"apiServerEndpoint": cluster.front.endpoint, "caCertHashes": [cluster.ca.pin], "token": str(token)}},
        "nodeRegistration": {
            **registration, "imagePullPolicy": "IfNotPresent", "ignorePreflightErrors": ["Swap"], "kubeletExtraArgs": arguments,
            "taints": [{"effect": "NoSchedule", "key": UNINITIALIZED}],
        },
        "patches": {"directory": "/etc/kubernetes/patches"}, "skipPhases": ["preflight"],
    }
    if version == "v1beta3":
        document["discovery"]["timeout"] = limit
    else:
        document["nodeRegistration"]["imagePullSerial"] = True
        document["nodeRegistration"]["kubeletExtraArgs"] = [{"name": name, "value": value} for name, value in arguments.items()]
        document["timeouts"] = {"tlsBootstrap": limit}
    return yaml.safe_dump(document, width=1000)


def worker(node, cluster):
    """The image that docs/cluster-api.md describes; the service is not enabled."""
    cluster.upload_kubelet_config(node)
    node.path("/var/lib/kubelet/config.yaml").unlink()
    node.run_offline("sh", "-ec", commands("cluster-api-image"))
    return node


def file_of(node, path, check=True):
    """/run is not in the tree of the machine."""
    done = node.run("cat", path, check=check)
    return done.stdout if done.returncode == 0 else ""


def assert_joined(node, cluster, said, commands_run="before\nafter\n"):
    """With the label and the taint that Cluster API waits for; the log says what was ignored."""
    assert file_of(node, SENTINEL, check=False) == "success\n" and file_of(node, "/root/commands") == commands_run, said
    found = cluster.node(node.name)
    assert found["metadata"]["labels"]["example.org/pool"] == "workers"
    assert (UNINITIALIZED, "NoSchedule") in {(taint["key"], taint["effect"]) for taint in found["spec"]["taints"]}
    assert node.is_active(UNIT) and node.show(UNIT, "UnitFileState") == "enabled"
    assert f"Node '{node.name}' is registered" in said
    for ignored in ("--v", "nodeRegistration.imagePullPolicy", "nodeRegistration.ignorePreflightErrors", "patches", "skipPhases"):
        assert ignored in said


@pytest.mark.parametrize("version", ["v1beta3", pytest.param("v1beta4", marks=pytest.mark.each_release)])
def test_cloud_config(new_node, cluster, with_cloud_init, version):
    """Of a machine whose service the stand-in enables."""
    node = worker(new_node(layers=with_cloud_init), cluster)
    join = join_configuration(cluster, version, cluster.token(), name=TEMPLATE["joinConfiguration"]["nodeRegistration"]["name"])
    node.write(f"{SEED}/user-data", CLOUD_CONFIG.format(join=join.replace("\n", "\n      ")), 0o600)
    node.write(f"{SEED}/meta-data", f"instance-id: {node.name}\nlocal-hostname: {node.name}\n")
    node.boot()
    done = node.run("cloud-init", "status", "--wait", "--long", check=False)
    # Since 24.3, one process runs all stages.
    said = node.journal_text("-u", "cloud-final.service", "-u", "cloud-init-main.service")
    assert "status: done" in done.stdout, said
    assert_joined(node, cluster, said)
    assert not node.is_active(SENTINEL_UNIT)


@pytest.mark.parametrize("version, restarts", zip(VERSIONS, (False, True)), ids=["v1beta3", "v1beta4-restarts"])
def test_ignition(new_node, cluster, with_ignition, version, restarts):
    """The provider writes version 2.3 of Ignition's config, which Debian's Ignition does not read: here the same files and the same unit
    are in version 3.3. The unit runs again if the machine restarts during the join."""
    token = cluster.token(controlplane.MANUAL_GROUP if restarts else controlplane.DEFAULT_GROUP)
    node = worker(new_node(layers=with_ignition), cluster)
    files = {"/etc/kubeadm.sh": (0o700, KUBEADM_SH), "/etc/kubeadm.yml": (0o600, f"---\n{join_configuration(cluster, version, token)}")}
    node.write("/root/config.ign", json.dumps({
        "ignition": {"version": "3.3.0"},
        "storage": {"files": [{"path": path, "mode": mode, "contents": {"source": f"data:,{quote(text)}"}} for path, (mode, text) in files.items()]},
        "systemd": {"units": [{"name": "kubeadm.service", "enabled": True, "contents": KUBEADM_SERVICE}]},
    }), 0o600)
    apply_ignition(node, "/root/config.ign")
    node.write("/etc/machine-id", "uninitialized\n")
    node.boot()
    if restarts:
        csr = cluster.await_csr(node.name)["metadata"]["name"]
        node.await_status("waiting for approval")
        node.reboot()
        node.await_status("waiting for approval")
        cluster.kubectl("certificate", "approve", csr)
    until(lambda: node.show("kubeadm.service", "ExecMainExitTimestampMonotonic") not in ("", "0"), "kubeadm.service ends")
    said = node.journal_text("-u", "kubeadm.service")
    assert node.show("kubeadm.service", "Result") == "success", said
    assert_joined(node, cluster, said, "before\n" * restarts + "before\nafter\n")


def test_sentinel(new_node, cluster):
    """The stand-in fails when the join fails, and the unit writes the sentinel only while the machine has joined."""
    node = worker(new_node(), cluster)
    node.run_offline("sh", "-ec", commands("cluster-api-sentinel"))
    node.boot()

    def join(token, limit):
        node.write("/root/join.yaml", join_configuration(cluster, "v1beta4", token, limit), 0o600)
        return node.run("kubeadm", "join", "--config", "/root/join.yaml", check=False)

    failed = join(cluster.fresh_token(), "3s")
    assert failed.returncode == int(FAILURES["token-unknown"]["exit"]), failed.stdout
    assert file_of(node, SENTINEL, check=False) == "" and not node.is_active(SENTINEL_UNIT) and not node.exists(KUBECONFIG)
    assert node.show(UNIT, "ActiveState") == "failed", "a machine that has failed could join later, unseen"
    done = join(cluster.token(), "5m0s")
    assert done.returncode == 0 and cluster.node(node.name), done.stdout
    until(lambda: node.is_active(SENTINEL_UNIT), "the unit has written the sentinel")
    assert file_of(node, SENTINEL) == "success\n"
    node.run("node-bootstrap", "reset", "--stop-kubelet")
    assert file_of(node, SENTINEL, check=False) == "", "a reset machine has not joined"
