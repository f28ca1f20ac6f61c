# SPDX-License-Identifier: Apache-2.0
"""node-bootstrap check on a booted machine predicts the result of the service."""

import contextlib
import json
import os
from pathlib import Path

import pytest

from common import pki
from common.failures import FAILURES, count_remedies
from .harness.controlplane import MANUAL_GROUP
from .harness.node import UNIT


@pytest.fixture(scope="module")
def node(new_shared_node):
    """Its kubelet is enabled, but does not start: the target that wants it is never reached."""
    node = new_shared_node("checked").enable("kubelet.service", off=True)
    node.boot("--unit=basic.target")
    node.run("systemctl", "add-wants", "graphical.target", "kubelet.service")
    node.run("systemctl", "start", "containerd.service")
    return node


def check(node, *user):
    done = node.run(*user, "node-bootstrap", "check", check=False)
    return done.returncode, done.stdout


def test_token_in_the_store(node, cluster):
    node.forget().configure()
    status, said = check(node)
    assert status == 1 and "✗ token-missing: " in said and "no cloud is recognised" in said
    token = cluster.token()
    node.give(token)
    status, said = check(node)
    assert status == 0 and f"node-bootstrap.token: bootstrap token {token.id}.**************** (/etc/credstore)" in said and str(token) not in said
    assert node.join(check=False).returncode == 0
    node.run("systemctl", "start", "kubelet.service")
    cluster.await_node(node.name)
    status, said = check(node)
    assert status == 0 and "this machine has joined (see" in said, said


def test_ordinary_user(node, cluster):
    node.forget().configure()
    node.give(cluster.token())
    status, said = check(node, "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    assert status == 0 and "cannot read /etc/credstore: run as root" in said and "whether a join can start: run as root" in said, said


def test_token_in_a_drop_in(node, cluster):
    node.forget().configure()
    node.write("/root/token", f"{cluster.token()}\n")
    node.drop_in(UNIT, "[Service]\nLoadCredential=node-bootstrap.token:/root/token\n")
    status, said = check(node)
    assert status == 0 and "(delivered by systemd)" in said, said
    assert node.join(check=False).returncode == 0


def report(node):
    """The object that --json prints, and its steps by name."""
    done = node.run("node-bootstrap", "check", "--json", check=False)
    found = json.loads(done.stdout)
    assert found["good"] == (done.returncode == 0)
    return found, {step["step"]: step for step in found["steps"]}


def text(step):
    return "\n".join(row["text"] for row in step["rows"])


def test_each_step_of_a_join(node, cluster):
    """Before a join that succeeds, beside a waiting join, and after it."""
    node.forget().configure()
    node.give(cluster.token()).enable(UNIT)
    before = node.tree()
    found, steps = report(node)
    assert found["good"], found
    assert cluster.csrs(node.name) == [] and node.tree() == before
    online = ("discovery", "api-server", "identity", "node-name", "request", "files", "kubelet")
    assert {name: steps[name]["state"] for name in online} == dict.fromkeys(online, "good")
    assert "signature: valid for the token" in text(steps["discovery"]) and f"there is no Node '{node.name}'" in text(steps["node-name"])
    assert "starts after node-bootstrap.service" in text(steps["kubelet"]) and "reads '/etc/kubernetes/kubelet.conf'" in text(steps["kubelet"])

    node.give(cluster.token(MANUAL_GROUP))
    found, steps = report(node)
    assert found["good"] and steps["node-name"]["state"] == "doubt" and "cannot determine whether" in text(steps["node-name"])
    node.begin()
    csr = cluster.await_csr(node.name)["metadata"]["name"]
    node.await_status("waiting for approval")
    found, steps = report(node)
    why = steps["request"]["failure"]
    assert found["failure"] == why["code"] == "csr-pending-unbound" and why["messageID"] == FAILURES["csr-pending-unbound"]["message-id"]
    assert why["remedy"].count(f"    kubectl certificate approve {csr}\n") == 1 and why["detail"].startswith(f"the CSR '{csr}' is waiting for approval: ")
    assert MANUAL_GROUP in why["detail"] and "cluster-info publish --auto-approve" in why["remedy"]
    cluster.kubectl("certificate", "approve", csr)
    assert node.await_end() == ("active", 0)

    found, steps = report(node)
    assert found["good"] and "none is pending" in text(steps["request"]) and len(cluster.csrs(node.name)) == 1
    status, said = check(node)
    assert status == 0 and "✗" not in said and "this machine has joined (see" in said


def test_wrong_pin(node, cluster):
    node.forget().configure(pins=[pki.CA("other").pin])
    node.give(cluster.token())
    status, said = check(node)
    assert status == 1 and said.count("✗") == 1 and "  ✗ ca-pin-mismatch: " in said and count_remedies(said, "ca-pin-mismatch")
    assert cluster.ca.pin in said and "  – identity: skipped\n" in said
    assert "accepts connections" in said and "  ✓ certificate: " in said


def test_expired_token(node, cluster):
    node.forget().configure()
    token = cluster.token()
    node.give(token)
    cluster.delete_token(token)
    found, steps = report(node)
    assert found["failure"] in ("token-unknown", "signature-missing") and "accepts connections" in text(steps["discovery"]), found
    assert steps["api-server"]["state"] == "untried"


def test_token_may_not_create_requests(node, cluster):
    node.forget().configure()
    node.give(cluster.token("system:bootstrappers:of-nobody"))
    found, steps = report(node)
    assert found["failure"] == "csr-forbidden" and "accepted by the API server" in text(steps["identity"]), found


def owners(node):
    """The status of each process of the machine that has a socket that is being connected."""
    rows = [line.split() for line in Path(f"/proc/{node.leader}/net/tcp").read_text().splitlines()[1:]]
    sockets = {f"socket:[{row[9]}]" for row in rows if row[3] == "02"}
    found = []
    for pid in node.pids() if sockets else ():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if sockets & {os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir()}:
                found.append(dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()))
    return found


def test_no_root_on_the_network(node, cluster):
    """A neighbour that is not there does not answer: the socket is seen while it is being connected."""
    node.forget().configure(endpoints=["198.51.100.250:6443"])
    node.give(cluster.token())
    found = []
    while not found:
        checking = node.start("node-bootstrap", "check")
        while checking.poll() is None:
            found += owners(node)
        checking.stdout.close()
    for status in found:
        assert "0" not in status["Uid"].split(), status
        assert int(status["CapPrm"], 16) == int(status["CapEff"], 16) == 0, status


def test_failures_of_kubelet(node, cluster):
    node.forget().configure()
    node.give(cluster.token()).enable(UNIT)
    for before, after, word in [
            ("systemctl stop containerd.service", "systemctl start containerd.service", "containerd.sock"),
            ("mv /var/lib/kubelet/config.yaml /root", "mv /root/config.yaml /var/lib/kubelet", "configFrom"),
            ("rm /etc/systemd/system/graphical.target.wants/kubelet.service; systemctl daemon-reload", "systemctl add-wants graphical.target kubelet.service", "is disabled"),
            ("systemctl mask --runtime kubelet.service", "systemctl unmask --runtime kubelet.service", "is masked")]:
        node.run("sh", "-ec", before)
        found, steps = report(node)
        node.run("sh", "-ec", after)
        assert found["failure"] == "kubelet-unprepared" and word in steps["kubelet"]["failure"]["detail"], found
        assert steps["request"]["state"] == "good"
    found, _ = report(node)
    assert found["good"], found


def test_token_removed_after_the_join(node, cluster):
    node.forget().configure()
    node.give(cluster.token()).enable(UNIT)
    assert node.join(check=False).returncode == 0
    node.run("sh", "-c", "rm /etc/credstore/node-bootstrap.token")
    # The gate starts kubelet once the service has ended.
    cluster.await_node(node.name)
    status, said = check(node)
    assert status == 0 and "no token required" in said, said
