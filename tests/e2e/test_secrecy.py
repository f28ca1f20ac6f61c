# SPDX-License-Identifier: Apache-2.0
"""After the join the token is only in the credential store; during it, in no command line and no environment."""

import pytest

from .harness import controlplane
from .harness.leaks import Sampler, forms, found_in
from .harness.node import UNIT, settings


@pytest.mark.parametrize("source", ["credential of the machine", "credstore"])
def test_token_is_nowhere(new_node, cluster, source):
    token = cluster.token(controlplane.MANUAL_GROUP)
    node = new_node().configure().enable(UNIT)
    node.forms = forms(token)
    credentials = {}
    if source == "credstore":
        node.give(token)
    else:
        credentials = {"node-bootstrap.token": str(token), "node-bootstrap.config": settings(cluster)}
    node.boot("--log-level=debug", "--unit=basic.target", credentials=credentials)
    sampler = Sampler(node)
    sampler.start()
    try:
        node.begin()
        csr = cluster.await_csr(node.name)["metadata"]["name"]
        node.await_status("waiting for approval")
        assert not found_in(node), "while it waits"
        cluster.kubectl("certificate", "approve", csr)
        assert node.await_end() == ("active", 0)
        node.await_kubelet()
    finally:
        found = sampler.finish()
    assert not found
    assert b"/usr/bin/node-bootstrap" in sampler.programs
    shown = node.run("sh", "-c", f"systemctl show {UNIT}; systemctl status {UNIT}; journalctl --all --output=export").stdout
    assert not any(form.decode() in shown for form in node.forms)
    assert len(shown) > 50000, "debug messages are there"
    assert not found_in(node)
    node.run("systemctl", "stop", UNIT)
    assert not found_in(node)


def test_secret_of_a_refused_token_is_not_quoted(new_node, cluster):
    """Mistyped tokens are secrets too."""
    token = cluster.fresh_token()
    node = new_node().configure().enable(UNIT)
    node.write("/etc/credstore/node-bootstrap.token", f"{token}x\n", 0o600)
    node.boot("--unit=basic.target")
    assert node.join(check=False).returncode != 0
    assert node.said("token-malformed")
    assert token.secret not in node.journal_text("--all", "--output=export")
