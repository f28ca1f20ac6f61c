# SPDX-License-Identifier: Apache-2.0
"""node-bootstrap check on a booted machine says what the service then does."""

import json

import pytest
from harness import pki
from harness.controlplane import MANUAL_GROUP
from harness.node import UNIT, read_failures


@pytest.fixture(scope="module")
def node(new_shared_node):
    node = new_shared_node("checked").enable("kubelet.service", off=True)
    node.boot("--unit=basic.target")
    return node


def check(node, *user):
    done = node.run(*user, "node-bootstrap", "check", check=False)
    return done.returncode, done.stdout


def test_a_token_in_the_store(node, cluster):
    node.forget().configure()
    status, said = check(node)
    assert status == 1 and "✗ token-missing: " in said and "no cloud is recognised" in said
    token = cluster.token()
    node.give(token)
    status, said = check(node)
    assert status == 0 and f"node-bootstrap.token: bootstrap token {token.id}.**************** (/etc/credstore)" in said and str(token) not in said
    assert node.join(check=False).returncode == 0
    status, said = check(node)
    assert status == 0 and "this machine has joined already" in said


def test_an_ordinary_user_is_told_what_is_hidden(node, cluster):
    node.forget().configure()
    node.give(cluster.token())
    status, said = check(node, "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    assert status == 1 and "/etc/credstore cannot be looked into by this user: run as root" in said


def test_a_token_by_a_drop_in(node, cluster):
    """As `systemctl cat` has it."""
    node.forget().configure()
    node.write("/root/token", f"{cluster.token()}\n")
    node.drop_in(UNIT, "[Service]\nLoadCredential=node-bootstrap.token:/root/token\n")
    status, said = check(node)
    assert status == 0 and "the service gets it by a drop-in, and it is not looked into here: LoadCredential= /root/token" in said
    assert node.join(check=False).returncode == 0


def report(node):
    """What --json says: the object, and its steps by name."""
    done = node.run("node-bootstrap", "check", "--json", check=False)
    found = json.loads(done.stdout)
    assert found["good"] == (done.returncode == 0)
    return found, {step["step"]: step for step in found["steps"]}


def text(step):
    return "\n".join(row["text"] for row in step["rows"])


def test_each_step_of_a_join(node, cluster):
    """Before a join that will do; beside one that waits; after it."""
    node.forget().configure()
    node.give(cluster.token()).enable(UNIT)
    before = node.tree()
    found, steps = report(node)
    assert found["good"], found
    assert cluster.csrs(node.name) == [] and node.tree() == before
    online = ("name-resolution", "connection", "tls", "clock", "discovery", "signature", "ca", "api-server", "identity", "right", "node-name", "request",
              "files", "kubelet")
    assert {name: steps[name]["state"] for name in online} == dict.fromkeys(online, "good")
    assert "by CN=" in text(steps["tls"]) and f"there is no Node '{node.name}'" in text(steps["node-name"])
    assert "starts after node-bootstrap.service" in text(steps["kubelet"]) and "reads '/etc/kubernetes/kubelet.conf'" in text(steps["kubelet"])

    node.give(cluster.token(MANUAL_GROUP))
    found, steps = report(node)
    assert found["good"] and steps["node-name"]["state"] == "doubt" and "is not known: the API server answers 403" in text(steps["node-name"])
    node.begin()
    csr = cluster.await_csr(node.name)["metadata"]["name"]
    node.await_status("certificate approve")
    found, steps = report(node)
    why = steps["request"]["failure"]
    assert found["failure"] == why["code"] == "csr-pending-unbound" and why["messageID"] == read_failures()["csr-pending-unbound"]["message-id"]
    assert why["remedy"].startswith(f"`kubectl certificate approve {csr}`. ") and f"`kubectl certificate approve {csr}`" in why["detail"]
    assert MANUAL_GROUP in why["detail"] and "kubeadm:node-autoapprove-bootstrap" in why["remedy"]
    cluster.kubectl("certificate", "approve", csr)
    assert node.await_end() == ("active", 0)

    found, steps = report(node)
    assert found["good"] and "none is under way" in text(steps["request"]) and len(cluster.csrs(node.name)) == 1
    status, said = check(node)
    assert status == 0 and "✗" not in said and "this machine has joined already" in said


def test_a_wrong_pin(node, cluster):
    node.forget().configure(pins=[pki.Authority("other").pin])
    node.give(cluster.token())
    status, said = check(node)
    remedy = read_failures()["ca-pin-mismatch"]["remedy"].split("@")[0]
    assert status == 1 and said.count("✗") == 1 and "  ✗ ca-pin-mismatch: " in said and f"\n    {remedy}" in said
    assert cluster.ca.pin in said and "  – identity: not tried\n" in said
    assert "  ✓ signature: " in said and "  ✓ certificate: " in said


def test_a_token_that_has_expired(node, cluster):
    node.forget().configure()
    token = cluster.token()
    node.give(token)
    cluster.delete_token(token)
    found, steps = report(node)
    assert found["failure"] in ("token-unknown", "signature-missing") and steps["discovery"]["state"] == "good", found
    assert steps["api-server"]["state"] == "untried"


def test_a_token_without_the_right(node, cluster):
    node.forget().configure()
    node.give(cluster.token("system:bootstrappers:of-nobody"))
    found, steps = report(node)
    assert found["failure"] == "csr-forbidden" and steps["identity"]["state"] == "good", found
