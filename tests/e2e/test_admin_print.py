# SPDX-License-Identifier: Apache-2.0
"""`node-bootstrap-admin token create --print`: the program that a form is for accepts it. Also in test_cloud_init.py, test_ignition.py
and test_restart.py."""

import re
import subprocess

from common.wait import PATIENCE, until
from .harness.node import UNIT
from .harness.vmware import on_vmware


def preflight(cluster, folder, text):
    """The first phase of kubeadm join checks the arguments, verifies cluster-info and the CA, and reads from the cluster with the token.
    Returns whether it is allowed to."""
    done = subprocess.run(
        [cluster.assets / "kubeadm", "join", "phase", "preflight", *text.split()[2:], "--ignore-preflight-errors=all"],
        cwd=folder, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE,
    )
    forbidden = re.search(r'User "system:bootstrap:\w+" cannot get resource "configmaps"', done.stdout)
    assert done.returncode == 0 or forbidden, done.stdout
    return done.returncode == 0


def test_kubeadm(printed, administer, cluster, tmp_path):
    """It may only verify the cluster with a bound token, and a warning says so. test_restart.py joins with the line."""
    cluster.upload_config()
    assert preflight(cluster, tmp_path, printed("kubeadm")[0])
    words = ("token", "create", "--print=kubeadm", f"--kubeconfig={cluster.work / 'kubeadm.conf'}")
    assert administer(cluster).command(*words).stderr == ""
    done = administer(cluster).command(*words, "--node=kubeadm-1")
    assert "`kubeadm join` also reads" in done.stderr and "kubeadm-1" in done.stdout
    assert not preflight(cluster, tmp_path, done.stdout)


def test_settings_are_user_data(printed, new_node, cluster):
    """The token is bound, so its request waits for an approval."""
    node = new_node()
    text, token = printed("config", "--node", f"{node.name}-x")
    on_vmware(node, userdata=text).enable(UNIT).boot()
    csr = cluster.await_csr(f"{node.name}-x")
    assert csr["spec"]["username"] == f"system:bootstrap:{token[:6]}"
    cluster.decide(csr, "Approved")
    until(lambda: node.is_active(UNIT), "the machine has joined")
    cluster.await_node(f"{node.name}-x")
    assert token.split(".")[1] not in node.journal_text("--all", "--output=export")


def test_the_credential_is_the_token(printed):
    text, token = printed("credential")
    assert text == f"{token}\n"
