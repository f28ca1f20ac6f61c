# SPDX-License-Identifier: Apache-2.0
"""node-bootstrap check on a booted machine says what the service then does."""

import pytest
from harness.node import UNIT


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
