# SPDX-License-Identifier: Apache-2.0
"""Killed at any moment, the process or the whole machine: the next start finishes the join, with exactly one request."""

import json
import shutil

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from common.wait import PATIENCE, until
from .harness.controlplane import CLUSTER_INFO, CSRS
from .harness.node import CA_FILE, CURRENT, KUBECONFIG, PKI, PROGRAM, UNIT

STAGES = {
    "discovery": ("GET", CLUSTER_INFO, False),
    "before the request": ("POST", CSRS, False),
    "request made, answer not read": ("POST", CSRS, True),
    "watch not answered": ("GET", CSRS, False),
}
HELD = "/etc/e2e-held"
HOLD_BEFORE_INSTALL = f"$0.real \"$@\" || exit; while test -e {HELD}; do sleep 0.05; done\n"


@pytest.fixture(autouse=True)
def patience(request):
    """systemd waits 5 s before it restarts a crashed join, and with cgroup v1 10 s for processes that are gone already; here less, unless the
    test is about it."""
    for name in {"node", "manual"} & set(request.fixturenames):
        if request.node.name != "test_crash_needs_no_hand":
            request.getfixturevalue(name).drop_in(UNIT, "[Service]\nRestartSec=100ms\nTimeoutStopSec=1\n", "60-patience.conf")


def kill(node, what):
    """Returns when the machine is up again or the process has ended; the join has restarted."""
    if what == "machine":
        node.kill()
        node.boot()
    else:
        restarts = int(node.show(UNIT, "NRestarts"))
        node.run("systemctl", "kill", "--signal=KILL", UNIT)
        until(lambda: int(node.show(UNIT, "NRestarts")) > restarts, "systemd has noticed")


def assert_joined_once(node, cluster):
    until(lambda: node.is_active(UNIT), "the join is finished")
    assert len(cluster.csrs(node.name)) == 1
    node.await_kubelet()
    assert node.state_files() == []


@pytest.mark.parametrize("what", ["process", "machine"])
@pytest.mark.parametrize("stage", STAGES)
def test_killed_while_talking(node, cluster, stage, what):
    node.enable(UNIT).boot("--unit=basic.target")
    gate = cluster.front.gate(*STAGES[stage])
    try:
        node.begin()
        assert gate.reached.wait(PATIENCE), stage
        kill(node, what)
    finally:
        cluster.front.plain()
    assert_joined_once(node, cluster)


@pytest.mark.parametrize("what", ["process", "machine"])
def test_killed_while_waiting(manual, cluster, what):
    manual.enable(UNIT).boot("--unit=basic.target")
    manual.begin()
    csr = cluster.await_csr(manual.name)["metadata"]["name"]
    manual.await_status("waiting for approval")
    kill(manual, what)
    manual.await_status("waiting for approval")
    cluster.kubectl("certificate", "approve", csr)
    assert_joined_once(manual, cluster)


@pytest.mark.parametrize("what", ["process", "machine"])
def test_killed_between_join_and_install(node, cluster, what):
    node.replace_join(HOLD_BEFORE_INSTALL)
    node.write(HELD, "")
    node.enable(UNIT).boot("--unit=basic.target")
    node.begin()
    until(lambda: node.state_files() == ["joined.json", "pending.key"], "join has handed over")
    assert not node.exists(KUBECONFIG)
    node.run("sh", "-c", f"kill -STOP $(pidof -x {PROGRAM}); sync; rm {HELD}")
    kill(node, what)
    assert_joined_once(node, cluster)


def test_machine_killed_right_after(node, cluster):
    node.run_offline("systemctl", "--quiet", "disable", "kubelet.service")
    node.enable(UNIT).boot("--unit=basic.target")
    node.join()
    before = node.joined_files()
    node.kill()
    node.enable("kubelet.service").boot()
    assert_joined_once(node, cluster)
    assert node.joined_files() == before


@pytest.mark.each_release
def test_crash_needs_no_hand(manual, cluster):
    """systemd starts it again, and kubelet's start is queued again."""
    manual.enable(UNIT).boot()
    csr = cluster.await_csr(manual.name)["metadata"]["name"]
    manual.await_status("waiting for approval")
    manual.run("systemctl", "kill", "--signal=KILL", UNIT)
    until(lambda: manual.show(UNIT, "NRestarts") == "1", "started again")
    cluster.kubectl("certificate", "approve", csr)
    assert_joined_once(manual, cluster)


# At every single step on disk: die_at.c kills the process at its n-th one.


@pytest.fixture
def fragile(new_node, cluster, library):
    """A machine without kubelet on which join and install can be told when to die."""
    node = new_node()
    shutil.copy(library, node.path("/usr/lib/die_at.so"))
    node.drop_in(UNIT, "[Service]\nEnvironment=LD_PRELOAD=/usr/lib/die_at.so\nRestart=no\n")
    node.run_offline("systemctl", "--quiet", "disable", "kubelet.service")
    node.boot("--unit=basic.target")
    return node.give(cluster.token())


def die_at_every_step(node, program, begin):
    """begin(name) prepares one more join; yields the node's name after each crash and recovery."""
    for step in range(1, 200):
        name = f"{node.name}-{step}"
        begin(name)
        node.write("/etc/e2e-die-at", f"{program} {step}\n")
        died = node.join(check=False).returncode != 0
        node.path("/etc/e2e-die-at").unlink()
        if not died:
            assert step > 5, "the steps were not counted"
            return
        assert node.show(UNIT, "Result") == "signal", node.journal_text("-u", UNIT)
        assert_whole(node)
        node.join()
        assert_whole(node)
        assert len(node.cluster.csrs(name)) == 1, f"step {step}"
        assert node.state_files() == []
        leftovers = [path for path in node.joined_files() if path.endswith((".tmp", ".new"))]
        assert not leftovers, f"step {step}"
    pytest.fail("it never ends")


def assert_whole(node):
    """An existing kubeconfig is usable: key and certificate match each other and one name."""
    if not node.exists(KUBECONFIG):
        return
    config = yaml.safe_load(node.read(KUBECONFIG))
    assert config["users"][0]["user"]["client-key"] == CURRENT
    data = node.read(node.dated())
    key = serialization.load_pem_private_key(data[data.index(b"-----BEGIN EC") :], None)
    assert key.public_key().public_numbers() == x509.load_pem_x509_certificate(data).public_key().public_numbers()
    assert x509.load_pem_x509_certificate(node.read(CA_FILE)) == node.cluster.ca.cert


@pytest.mark.nightly
@pytest.mark.parametrize("program", ["node-bootstrap", "install"])
def test_dies_at_every_step(fragile, program):
    def begin(name):
        fragile.unjoin()
        fragile.configure(node={"name": name})

    die_at_every_step(fragile, program, begin)


@pytest.mark.nightly
def test_dies_at_every_step_of_a_join_anew(fragile):
    """The certificate of the name before is replaced: never a mix of old and new."""
    def begin(name):
        fragile.run("systemctl", "stop", UNIT)
        fragile.configure(node={"name": name})
        for path in fragile.path(KUBECONFIG).parent.glob("*.old*"):
            path.unlink()  # the next free name is one step further
        for path in fragile.path(PKI).glob("kubelet-client-2*.pem"):
            if str(path) != f"{fragile.root}{fragile.dated()}":
                path.unlink()  # those of one second step aside, each one second further

    fragile.configure(node={"name": f"{fragile.name}-0"})
    fragile.join()
    die_at_every_step(fragile, "install", begin)
    assert fragile.exists(f"{KUBECONFIG}.old")


def status(node):
    return json.loads(node.run("node-bootstrap", "status", "--json", check=False).stdout)["lastJoin"]


def test_status_of_a_join_that_was_killed(manual):
    """A killed join is not shown as running: it cannot report that, but systemd knows it."""
    manual.drop_in(UNIT, "[Service]\nRestart=no\n")
    manual.enable(UNIT).boot("--unit=basic.target")
    manual.begin()
    manual.await_status("waiting for approval")
    assert status(manual)["outcome"] == "under-way"
    manual.run("systemctl", "kill", "--signal=KILL", UNIT)
    manual.await_end()
    found = status(manual)
    assert (found["outcome"], found["code"]) == ("failed", None) and "was ended (signal)" in found["message"]
