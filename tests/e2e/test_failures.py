# SPDX-License-Identifier: Apache-2.0
"""Every wrong setting: code, exit status and remedy; kubelet not started, nothing written; then mended.

The failures that the program confirms for 30 s, and the one that waits for its deadline, run side by side.
"""

import contextlib

import pytest
from harness import controlplane
from harness.node import CONFIG, TOKEN, UNIT, settings

WRONG_PIN = "sha256:" + 64 * "0"


def wrong_pin(node):
    node.prepare(pins=[WRONG_PIN])
    return node.configure


def wrong_secret(node):
    good = node.cluster.token()
    node.prepare(controlplane.Token(good.id, node.cluster.fresh_token().secret))
    return lambda: node.give(good)


def unknown_token(node):
    token = node.cluster.fresh_token()
    node.prepare(token, timeout="30s")
    return lambda: node.cluster.token(token=token)


def token_without_rights(node):
    node.prepare(node.cluster.token(controlplane.POWERLESS_GROUP))
    return lambda: node.give(node.cluster.token())


def token_not_for_authentication(node):
    token = node.cluster.token()
    node.cluster.patch_token(token, {"usage-bootstrap-authentication": "false"})
    node.prepare(token)
    return lambda: node.cluster.patch_token(token, {"usage-bootstrap-authentication": "true"})


def denied(node):
    node.prepare(node.cluster.token(controlplane.MANUAL_GROUP))
    return lambda: node.give(node.cluster.token())


def nobody_approves(node):
    node.prepare(node.cluster.token(controlplane.MANUAL_GROUP), timeout="20s")
    return lambda: node.cluster.decide(node.cluster.csrs(node.name)[0], "Approved")


def nobody_listens(node):
    endpoint = node.cluster.new_front().refuse().endpoint
    node.prepare(endpoints=[endpoint], timeout="5s")
    return node.configure


CASES = {
    "ca-pin-mismatch": wrong_pin,
    "signature-invalid": wrong_secret,
    "token-unknown": unknown_token,
    "csr-forbidden": token_without_rights,
    "token-rejected": token_not_for_authentication,
    "csr-denied": denied,
    "csr-pending-unbound": nobody_approves,
    "endpoint-refused": nobody_listens,
}


@pytest.fixture(scope="module")
def failing(new_shared_node):
    """One machine for each case, all of them at work."""
    nodes = {}
    for code, spoil in CASES.items():
        nodes[code] = node = new_shared_node(code)
        node.mend = spoil(node)
        node.enable(UNIT).boot("--unit=basic.target")
        node.before = node.tree()
        node.begin()
    return nodes


@pytest.mark.parametrize("code", CASES)
def test_failure_and_its_mending(failing, cluster, code):
    node = failing[code]
    if code == "csr-denied":
        cluster.decide(cluster.await_csr(node.name), "Denied", "not one of ours")
    entry = node.assert_failed(code, node.before)
    if code == "csr-denied":
        assert "not one of ours" in entry["MESSAGE"]
    assert not node.is_active("node-joined.target")
    requests = len(cluster.csrs(node.name))
    node.mend()
    node.join("restart")
    node.await_kubelet()
    expected = {"csr-denied": 2}.get(code, 1)
    assert (len(cluster.csrs(node.name)), expected - requests >= 0) == (expected, True)
    node.kill()


def test_failure_at_boot_does_not_stop_the_boot(new_node, cluster):
    node = new_node().prepare(pins=[WRONG_PIN]).enable(UNIT)
    node.boot(wait="multi-user.target")
    node.assert_failed("ca-pin-mismatch", node.tree())
    assert node.show("kubelet.service", "ActiveState") == "inactive"
    node.configure()
    node.join()
    node.await_kubelet()


# Settings and credentials: what is wrong before any connection. One machine, one case after the other.

GOOD = controlplane.Token("abcdef", "0123456789abcdef")
BEFORE_CONNECTING = {
    "token missing": ("token-missing", None, {}),
    "token in capitals": ("token-malformed", "ABCDEF.0123456789ABCDEF", {}),
    "token with two newlines": ("token-malformed", f"{GOOD}\n\n", {}),
    "token empty": ("token-malformed", "", {}),
    "settings not YAML": ("settings-malformed", GOOD, "discovery: ["),
    "settings with a key twice": ("settings-malformed", GOOD, "timeout: 5s\ntimeout: 6s\n"),
    "settings of an unknown key": ("settings-invalid", GOOD, {"discovry": {}}),
    "settings out of range": ("settings-invalid", GOOD, {"csr": {"expirationSeconds": -1}}),
    "no endpoint": ("settings-incomplete", GOOD, {"discovery": {"caCertHashes": [WRONG_PIN]}}),
    "no pin": ("settings-incomplete", GOOD, {"discovery": {"endpoints": ["198.51.100.200:6443"]}}),
    "node name of another kind": ("settings-invalid", GOOD, {"node": {"name": "under_score"}}),
    "host name of another kind": ("node-name-invalid", GOOD, {}),
}


@pytest.fixture(scope="module")
def unjoined(new_shared_node):
    node = new_shared_node("unjoined").enable(UNIT)
    node.boot("--unit=basic.target")
    return node


@pytest.mark.parametrize("case", BEFORE_CONNECTING)
def test_failure_before_connecting(unjoined, cluster, case):
    code, token, change = BEFORE_CONNECTING[case]
    connections = cluster.front.accepted
    with contextlib.suppress(FileNotFoundError):
        unjoined.path(TOKEN).unlink()
    if token is not None:
        unjoined.write(TOKEN, str(token), 0o600)
    unjoined.write(CONFIG, settings(cluster) + change if isinstance(change, str) else settings(cluster, **change))
    unjoined.set_host_name("under_score" if code == "node-name-invalid" else unjoined.name)
    before = unjoined.tree()
    assert unjoined.join(check=False).returncode != 0
    entry = unjoined.assert_failed(code, before)
    assert cluster.front.accepted == connections
    if code.startswith("settings-m") or code == "settings-invalid":
        assert "config.yaml:" in entry["MESSAGE"]
    if token:
        assert str(token).strip() not in unjoined.journal_text()


def test_mended_after_all_that(unjoined):
    unjoined.prepare()
    unjoined.set_host_name(unjoined.name)
    unjoined.join("restart")
    unjoined.await_kubelet()


def test_restart_again_and_again_is_not_refused(new_node):
    node = new_node().prepare(pins=[WRONG_PIN]).enable(UNIT)
    node.boot("--unit=basic.target")
    for _ in range(8):
        assert "too quickly" not in node.join(check=False).stdout
    node.configure()
    node.join()
