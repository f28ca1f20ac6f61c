# SPDX-License-Identifier: Apache-2.0
"""Every way in which a join fails with a real control plane: code, exit status, MESSAGE_ID and catalogue; kubelet not started, nothing written.

The failures that the program confirms for 30 s, and those that wait for a deadline, run side by side, and are mended
then. Those that a short deadline ends come about meanwhile, on a few machines that take one after the other.
"""

import contextlib
from concurrent.futures import ThreadPoolExecutor

import pytest

from common import pki
from .harness import controlplane
from .harness.clock import fake_clock
from .harness.node import CONFIG, TOKEN, UNIT, settings
from .harness.web import Proxy, Web

WRONG_PIN = "sha256:" + 64 * "0"


def wrong_pin(node):
    node.prepare(pins=[WRONG_PIN])
    return node.configure


def wrong_secret(node):
    good = node.cluster.token()
    node.prepare(controlplane.Token(good.id, node.cluster.fresh_token().secret), timeout="30s")
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
    node.prepare(node.cluster.token(controlplane.MANUAL_GROUP), timeout="40s")
    return lambda: node.cluster.decide(node.cluster.csrs(node.name)[0], "Approved")


def nobody_listens(node):
    endpoint = node.cluster.new_front().refuse().endpoint
    node.prepare(endpoints=[endpoint], timeout="30s")
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


def words(node, code):
    """What the message must contain so that a person can continue."""
    token = node.read(TOKEN).decode()[:6]
    return {
        "ca-pin-mismatch": [WRONG_PIN, node.cluster.ca.pin],
        "token-unknown": [token],
        "signature-invalid": [token],
        "csr-forbidden": [f"system:bootstrap:{token}"],
        "token-rejected": ["401", token, "node-bootstrap.token"],
        "csr-denied": ["Gerät unbekannt", "node-csr-"],
        "csr-pending-unbound": [f"system:bootstrap:{token}", "the CSR 'node-csr-"],
        "endpoint-refused": ["198.51.100.", ":6443"],
    }[code]


@pytest.fixture(scope="module")
def failing(new_shared_node):
    """One machine for each case, all running."""
    nodes = {}
    for code, spoil in CASES.items():
        nodes[code] = node = new_shared_node(code)
        node.mend = spoil(node)
        node.enable(UNIT).boot("--unit=basic.target")
        node.before = node.tree()
        node.begin()
    return nodes


# Ended by a short deadline, or at once.

SHORT = "10s"


class Trouble:
    """A machine, its fault until `stack` is closed, and words that the message must contain."""

    def __init__(self, node, other, stack):
        self.node, self.cluster, self.other, self.stack = node, node.cluster, other, stack
        self.words, self.begun = [], lambda: None

    def prepare(self, *words, cluster=None, token=None, timeout=SHORT, **configuration):
        self.words += words
        self.node.prepare(token or (cluster or self.cluster).token(), cluster=cluster, timeout=timeout, **configuration)

    def front(self, ca=None, **times):
        """Another way to the API server, where TLS ends, with the API server's certificate or one that this CA issues."""
        front = self.cluster.new_front()
        self.stack.callback(front.close)
        if ca:
            front.certificate = [self.cluster.work / f"{front.address}.{kind}" for kind in ("crt", "key")]
            for path, data in zip(front.certificate, ca.serving([front.address], **times).pair):
                path.write_bytes(data)
        front.mode = "inspect"
        return front.listen()

    def set_environment(self, text):
        self.node.drop_in(UNIT, f"[Service]\nEnvironment={text}\n")


def expired_token(trouble):
    """The tokencleaner takes it away."""
    token = trouble.cluster.token(ttl=-60, signing=False)
    trouble.prepare(token.id, token=token)


def name_that_does_not_resolve(trouble):
    trouble.prepare("nosuch.invalid", endpoints=["nosuch.invalid:6443"])


def packets_vanish(trouble):
    address = controlplane.new_address()
    trouble.prepare(f"{address}:6443", endpoints=[f"{address}:6443"])


def connection_is_reset(trouble):
    front = trouble.front()
    front.mode = "reset"
    trouble.prepare(front.endpoint, endpoints=[front.endpoint])


def address_that_is_not_in_the_certificate(trouble):
    """The API server's own certificate does not contain this address."""
    front = trouble.cluster.new_front("198.51.100.200").listen()
    trouble.stack.callback(front.close)
    trouble.prepare(front.address, "kubernetes", endpoints=[front.endpoint])


def certificate_of_another_ca(trouble):
    front = trouble.front(pki.CA("stranger"))
    trouble.prepare(front.endpoint, "CN=stranger", endpoints=[front.endpoint])


def certificate_that_has_expired(trouble):
    front = trouble.front(trouble.cluster.ca, start=-400 * pki.DAY, end=-35 * pki.DAY)
    trouble.prepare(front.endpoint, "expired on", endpoints=[front.endpoint])


def clock_is_behind(trouble):
    """The clock is behind by more than the age of the cluster's CA."""
    fake_clock(trouble.node, "-60d")
    trouble.prepare("clock")


def proxy_refuses(trouble):
    proxy = Proxy(controlplane.new_address(), "403 Forbidden")
    trouble.stack.callback(proxy.close)
    trouble.set_environment(f"HTTPS_PROXY={proxy.url}")
    trouble.prepare("403", trouble.cluster.front.endpoint)


def portal_answers(trouble):
    web = Web(controlplane.new_address(), "<html>Log in first</html>", "403 Forbidden")
    trouble.stack.callback(web.close)
    trouble.prepare("403", "no Status object", endpoints=[f"{web.address}:443"])


def bootstrap_kubeconfig_is_missing(trouble):
    trouble.prepare("/etc/node-bootstrap/bootstrap.conf", bootstrap={"kubeconfig": "/etc/node-bootstrap/bootstrap.conf"}, discovery={})


def signer_fails(trouble):
    trouble.prepare("SignerValidationFailure", "no such luck", token=trouble.cluster.token(controlplane.MANUAL_GROUP), timeout="infinity")
    condition = {"type": "Failed", "status": "True", "reason": "SignerValidationFailure", "message": "no such luck"}
    trouble.begun = lambda: trouble.cluster.set_status(trouble.cluster.await_csr(trouble.node.name), conditions=[condition])


def signer_issues_for_another_key(trouble):
    trouble.prepare("key", "issued for the request 'node-csr-", token=trouble.cluster.token(controlplane.MANUAL_GROUP), timeout="infinity")

    def issue():
        csr = trouble.cluster.await_csr(trouble.node.name)
        trouble.cluster.set_status(csr, certificate=controlplane.encode(trouble.cluster.ca.node(trouble.node.name).chain))
        trouble.cluster.decide(csr, "Approved")
    trouble.begun = issue


SOON = {
    "token expired": ("token-unknown", expired_token),
    "name that does not resolve": ("endpoint-unresolved", name_that_does_not_resolve),
    "packets vanish": ("endpoint-unreachable", packets_vanish),
    "connection is reset": ("endpoint-reset", connection_is_reset),
    "address that is not in the certificate": ("tls-name-mismatch", address_that_is_not_in_the_certificate),
    "certificate of another CA": ("tls-untrusted", certificate_of_another_ca),
    "certificate that has expired": ("tls-expired", certificate_that_has_expired),
    "clock is behind": ("clock-wrong", clock_is_behind),
    "proxy refuses": ("proxy-refused", proxy_refuses),
    "portal answers": ("answer-foreign", portal_answers),
    "bootstrap kubeconfig is missing": ("bootstrap-kubeconfig-unreadable", bootstrap_kubeconfig_is_missing),
    "signer fails": ("csr-failed", signer_fails),
    "signer issues for another key": ("certificate-unusable", signer_issues_for_another_key),
}


# What is wrong with a cluster for all its machines: of these, one at a time.

def nothing_is_signed(trouble):
    trouble.prepare("bootstrapsigner", cluster=trouble.other)
    trouble.stack.enter_context(trouble.other.paused("kube-controller-manager"))
    trouble.other.remove_signatures()


def no_cluster_info(trouble):
    trouble.prepare("no ConfigMap kube-public/cluster-info", cluster=trouble.other)
    trouble.stack.enter_context(trouble.other.without(controlplane.CLUSTER_INFO))


def no_role_for_cluster_info(trouble):
    trouble.prepare("403", "system:anonymous", cluster=trouble.other)
    trouble.stack.callback(trouble.other.await_anonymous, 200)
    trouble.stack.enter_context(trouble.other.without(controlplane.CLUSTER_INFO_BINDING))
    trouble.other.await_anonymous(403)


def server_where_nobody_listens(trouble):
    """The endpoint is good, and cluster-info names an address that is not: kubeadm's controlPlaneEndpoint of localhost, or of another network."""
    front = trouble.other.new_front().refuse()
    trouble.prepare(front.endpoint, cluster=trouble.other)
    trouble.stack.enter_context(trouble.other.naming(front.endpoint))


def nobody_signs(trouble):
    trouble.prepare(cluster=trouble.other, token=trouble.other.token(controlplane.MANUAL_GROUP), timeout="20s")
    trouble.stack.enter_context(trouble.other.paused("kube-controller-manager"))
    trouble.begun = lambda: trouble.other.decide(trouble.other.await_csr(trouble.node.name), "Approved")


def client_certificate_is_lost(trouble):
    """By a load balancer that terminates TLS: the API server sees an anonymous client."""
    front = trouble.other.front
    trouble.stack.callback(front.plain)
    front.mode = "inspect"
    pair = trouble.other.ca.user("system:bootstrap:e2e", [controlplane.DEFAULT_GROUP]).pair
    text = controlplane.kubeconfig(f"https://{front.endpoint}", trouble.other.ca.pem, None, *pair)
    trouble.node.write("/etc/node-bootstrap/bootstrap.conf", text, 0o600)
    trouble.prepare("as anonymous", "bootstrap.conf", bootstrap={"kubeconfig": "/etc/node-bootstrap/bootstrap.conf"}, discovery={}, cluster=trouble.other)
    trouble.node.path(TOKEN).unlink()


AT_OTHER_CLUSTER = {
    "nothing is signed": ("signature-missing", nothing_is_signed),
    "no cluster-info": ("cluster-info-missing", no_cluster_info),
    "no role for cluster-info": ("cluster-info-forbidden", no_role_for_cluster_info),
    "client certificate is lost": ("token-rejected", client_certificate_is_lost),
    "server where nobody listens": ("endpoint-refused", server_where_nobody_listens),
    "nobody signs": ("csr-not-issued", nobody_signs),
}


def play(node, other, code, prepare):
    """Causes a failure; returns its entry, and the words that must be in it."""
    with contextlib.ExitStack() as stack:
        stack.callback(node.forget)
        stack.callback(other.delete_node, node.name)
        trouble = Trouble(node, other, stack)
        prepare(trouble)
        before = node.tree()
        node.begin()
        trouble.begun()
        return node.assert_failed(code, before), trouble.words


@pytest.fixture(scope="module")
def soon(failing, new_shared_node, other_cluster):
    """The result of each case, or an exception; `failing` was started before."""
    nodes = [new_shared_node(f"soon-{number}").enable(UNIT) for number in range(4)]
    for node in nodes:
        node.boot("--unit=basic.target")
    names = list(SOON)
    found = {}

    def work(node, cases):
        for name, case in cases:
            try:
                found[name] = play(node, other_cluster, *case)
            except Exception as error:  # pylint: disable=broad-except
                found[name] = error

    with ThreadPoolExecutor(len(nodes)) as pool:
        pool.submit(work, nodes[0], AT_OTHER_CLUSTER.items())
        for number, node in enumerate(nodes[1:]):
            pool.submit(work, node, [(name, SOON[name]) for name in names[number::len(nodes) - 1]])
    return found


@pytest.mark.parametrize("case", [*AT_OTHER_CLUSTER, *SOON])
def test_failure_that_ends_soon(soon, case):
    if isinstance(soon[case], Exception):
        raise soon[case]
    entry, words = soon[case]
    assert [word for word in words if word not in entry["MESSAGE"]] == [], entry["MESSAGE"]


@pytest.mark.parametrize("code", CASES)
def test_failure_and_its_mending(failing, cluster, code):
    node = failing[code]
    if code == "csr-denied":
        cluster.decide(cluster.await_csr(node.name), "Denied", "Gerät unbekannt")
    entry = node.assert_failed(code, node.before)
    assert [word for word in words(node, code) if word not in entry["MESSAGE"]] == [], entry["MESSAGE"]
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
    "token empty": ("token-malformed", "", {}),
    "settings not YAML": ("settings-malformed", GOOD, "discovery: ["),
    "settings with a key twice": ("settings-malformed", GOOD, "timeout: 5s\ntimeout: 6s\n"),
    "settings of an unknown key": ("settings-invalid", GOOD, {"discovry": {}}),
    "settings out of range": ("settings-invalid", GOOD, {"csr": {"expirationSeconds": -1}}),
    "no endpoint": ("settings-incomplete", GOOD, {"discovery": {"caCertHashes": [WRONG_PIN]}}),
    "no pin": ("settings-incomplete", GOOD, {"discovery": {"endpoints": ["198.51.100.200:6443"]}}),
    "node name of another kind": ("settings-invalid", GOOD, {"node": {"name": "under_score"}}),
    "host name of another kind": ("node-name-invalid", GOOD, {}),
    "node name of a machine without one": ("node-name-localhost", GOOD, {"node": {"name": "localhost"}}),
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
