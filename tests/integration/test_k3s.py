# SPDX-License-Identifier: Apache-2.0
"""k3s: /cacerts verified with the hash in the token, and the answers of the supervisor."""

import re

import pytest
from cryptography import x509

from common import apiserver, csrs, faults, pki, supervisor
from common.machine import HEADER, NODE, TOKEN, TOKEN_ID, to_yaml
from .attackers import K3sPlay, plays
from .k3s import SERVER_SECRET, USER, K3sCase, K3sWorld

pytestmark = pytest.mark.each_release
UNTRUSTED = ("tls-untrusted", 76)
UNUSABLE = ("certificate-unusable", 76)
MALFORMED = ("answer-malformed", 65)
HASH_MISMATCH = ("ca-hash-mismatch", 76)


def keep(world):
    """Nothing is bad."""


def nothing_asked(world, run):
    assert world.server.connections == []


def nothing_sent(world, run):
    """No credential has left the machine."""
    assert world.server.seen("client-kubelet") == [] and world.csrs() == []


def cacerts(action, **rule):
    return lambda world: world.server.on("cacerts", action, **rule)


def in_phase(phase):
    return lambda world: setattr(world.cluster, "phase", phase)


def starting(world):
    """More attempts than fit into 30 s, for each of which a server that starts has another answer."""
    phases = iter([supervisor.HANDLERS] * 9 + [supervisor.CACHES] * 9 + [supervisor.CORE] * 3 + [supervisor.RUNNING] * 9)
    world.server.on("client-kube-proxy", lambda request: setattr(world.cluster, "phase", next(phases)))


def without_router(world):
    phases = iter([supervisor.ROUTER] * 3 + [supervisor.RUNNING] * 9)
    world.server.on("cacerts", lambda request: setattr(world.cluster, "phase", next(phases)))


def starting_with_password(world):
    world.give(f"node:{SERVER_SECRET}")
    starting(world)


def crowded(world):
    crowds = iter([supervisor.MOST_REQUESTS] * 3 + [0] * 9)
    world.server.on("client-kube-proxy", lambda request: setattr(world.cluster, "crowd", next(crowds)))


def second_time(action):
    return faults.in_turn(*[faults.healthy, action] * 50)


def sign(action, **rule):
    return lambda world: world.server.on("client-kubelet", action, **rule)


def served(edit, root=None):
    """Another /cacerts; the token is made for it."""
    def prepare(world):
        world.cluster.cacerts = edit(world.cluster)
        world.give(root=root and root(world.cluster))
    return prepare


def with_intermediate(world):
    """An administrator's own CA: the supervisor serves intermediate and root, and its certificate is of the intermediate."""
    cluster = world.cluster
    root = pki.CA("own root")
    cluster.ca = pki.CA("own intermediate", parent=root)
    cluster.cacerts = cluster.ca.pem + root.pem
    world.server.identity = cluster.ca.serving()
    world.give(root=root.cert)
    return root


def intermediate_and_stranger(world):
    root = with_intermediate(world)
    world.cluster.cacerts += pki.CA("stranger").pem
    world.give(root=root.cert)


def left_out(world, run):
    assert world.machine.handoff()["ca"].encode() == b"".join(pki.cert_pem(cert) for cert in pki.load_certs(world.cluster.cacerts)[:2])


def kept_whole(world, run):
    assert world.machine.handoff()["ca"].encode() == world.cluster.cacerts


def ipv6(world):
    return {"servers": [world.endpoint(listen=("::1", 0), identity=world.cluster.ca.serving(["::1"]))]}


def dead_before(world):
    return {"endpoints": [faults.dead_endpoint(), world.server.endpoint]}


def liar_before(world):
    """Its answer has the right hash, but its TLS does not: the other endpoint is taken."""
    return {"endpoints": [world.endpoint(world.liar()).endpoint, world.server.endpoint]}


def other_cluster_before(world):
    return {"endpoints": [world.endpoint(world.stranger()).endpoint, world.server.endpoint]}


GOOD = [
    K3sCase("bootstrap token", keep, None, 0, requests=["cacerts", "cacerts", "client-kube-proxy", "client-kubelet", "serving-kubelet"]),
    K3sCase("agent token of the server", lambda world: world.give(f"node:{SERVER_SECRET}"), None, 0, requests=["cacerts", "cacerts", "client-kube-proxy", "client-kubelet", "serving-kubelet"]),
    K3sCase("token of the server, which an agent shows as its own", lambda world: world.give(f"server:{SERVER_SECRET}"), None, 0),
    K3sCase("comment before the certificate", served(lambda cluster: b"# k3s\n" + cluster.ca.pem), None, 0, check=kept_whole),
    K3sCase("no newline at the end", served(lambda cluster: cluster.ca.pem.rstrip()), None, 0, check=kept_whole),
    K3sCase("carriage returns", served(lambda cluster: cluster.ca.pem.replace(b"\n", b"\r\n")), None, 0, check=kept_whole),
    K3sCase("the same certificate twice", served(lambda cluster: cluster.ca.pem * 2, root=lambda cluster: cluster.ca.cert), None, 0),
    K3sCase("intermediate and root", with_intermediate, None, 0, check=kept_whole),
    K3sCase("root before the intermediate", lambda world: with_intermediate(world) and cacerts(faults.rewritten(
        lambda body: b"".join(pki.cert_pem(cert) for cert in pki.load_certs(body)[::-1])))(world), None, 0),
    K3sCase("a CA beside that the token does not vouch for", intermediate_and_stranger, None, 0, "ignoring a certificate", check=left_out),
    K3sCase("a CA beside, and the whole bundle asked for", intermediate_and_stranger, None, 0, discovery={"trustWholeBundle": True}, check=kept_whole),
    K3sCase("pin besides", lambda world: {"pins": [world.cluster.ca.pin]}, None, 0),
    K3sCase("IPv6", ipv6, None, 0),
    K3sCase("first endpoint is dead", dead_before, None, 0),
    K3sCase("first endpoint is of another cluster", other_cluster_before, None, 0),
    K3sCase("supervisor that starts", sign(faults.UNAVAILABLE, times=2), None, 0, "server-error", timeout="60s"),
    K3sCase("server that has no router yet", without_router, None, 0, "server-error", "503 ServiceUnavailable: 'starting'", timeout="60s"),
    K3sCase("site that starts", starting, None, 0, "supervisor-forbidden", "token-rejected", "server-error", timeout="1h", faketime="+0 x10"),
    K3sCase("site that starts, and an agent's password", starting_with_password, None, 0, "server-error", timeout="1h", faketime="+0 x10"),
    K3sCase("too many agents at once", crowded, None, 0, "server-error", "429", timeout="60s"),
]


@pytest.mark.parametrize("case", GOOD)
def test_good(played, case):
    played(case)


def spoiled(edit):
    """The answer is changed, the token is not."""
    return cacerts(faults.rewritten(edit))


def other_ca(world):
    world.cluster.cacerts = pki.CA("k3s-server-ca@1700000000").pem


def root_of_another(world):
    """The attacker's CA with the real root in the same bundle, which does not make it valid."""
    root = with_intermediate(world)
    own = pki.CA("own root")
    world.cluster.cacerts = own.pem + root.pem
    world.server.identity = own.serving()


def is_one_with_others(world):
    """The hash of a single certificate covers its bytes: with another certificate beside it, it is another bundle."""
    world.cluster.cacerts += pki.CA("stranger").pem


def tls_of_another(world):
    world.server.identity = pki.CA("stranger").serving()


def tls_of_a_stranger_in_the_bundle(world):
    """Only certificates that chain to the hashed root may verify TLS; k3s itself would accept it."""
    root = with_intermediate(world)
    stranger = pki.CA("stranger")
    world.cluster.cacerts += stranger.pem
    world.give(root=root.cert)
    world.server.identity = stranger.serving()


def for_another_name(world):
    world.server.identity = world.cluster.ca.serving(["k3s.example.com"])


BAD_CACERTS = [
    K3sCase("another CA", other_ca, *HASH_MISMATCH, "of the token is not that of the CA bundle", check=nothing_sent),
    K3sCase("one newline more", spoiled(lambda body: body + b"\n"), *HASH_MISMATCH, check=nothing_sent),
    K3sCase("a certificate beside the one", is_one_with_others, *HASH_MISMATCH, check=nothing_sent),
    K3sCase("the right root under a chain of another", root_of_another, *UNTRUSTED, check=nothing_sent),
    K3sCase("the intermediate without the root of the token", lambda world: with_intermediate(world) and cacerts(faults.rewritten(
        lambda body: pki.cert_pem(pki.load_certs(body)[0])))(world), *HASH_MISMATCH, check=nothing_sent),
    K3sCase("liar alone", lambda world: {"servers": [world.endpoint(world.liar())]}, *UNTRUSTED, check=nothing_sent),
    K3sCase("liar before a dead endpoint", lambda world: {"endpoints": [world.endpoint(world.liar()).endpoint, faults.dead_endpoint()]}, *UNTRUSTED),
    K3sCase("TLS of another CA", tls_of_another, *UNTRUSTED, check=nothing_sent),
    K3sCase("TLS of another CA that stands in the bundle", tls_of_a_stranger_in_the_bundle, *UNTRUSTED, discovery={"trustWholeBundle": True}),
    K3sCase("TLS for another name", for_another_name, "tls-name-mismatch", 76, check=nothing_sent),
    K3sCase("other bytes over verified TLS", cacerts(second_time(faults.rewritten(lambda body: body + b"\n"))), "cacerts-changed", 76, check=nothing_sent),
    K3sCase("other bytes of the same length over verified TLS", cacerts(second_time(faults.rewritten(lambda body: body[:-1] + b"\t"))), "cacerts-changed", 76,
            check=nothing_sent),
    K3sCase("another pin besides", lambda world: {"pins": [pki.CA("other").pin]}, "ca-pin-mismatch", 76, check=nothing_sent),
    K3sCase("private key in it", served(lambda cluster: cluster.ca.pem + pki.key_pem(pki.new_key())), *MALFORMED, check=nothing_sent),
    K3sCase("no CA", served(lambda cluster: cluster.signer.node().chain), *HASH_MISMATCH, "is not a CA", check=nothing_sent),
    K3sCase("empty", cacerts(faults.answer("")), *MALFORMED),
    K3sCase("pong", cacerts(faults.answer("pong")), *MALFORMED),
    K3sCase("web page of a portal", cacerts(faults.PORTAL), *MALFORMED),
    K3sCase("redirect", cacerts(faults.redirect("https://127.0.0.1:1/cacerts")), "answer-foreign", 65, "302"),
    K3sCase("flood", cacerts(faults.flood), *MALFORMED),
    K3sCase("more certificates than anybody needs", served(lambda cluster: cluster.ca.pem * 40), *MALFORMED),
    K3sCase("stall", cacerts(faults.stall), "endpoint-unreachable", 69),
    K3sCase("stall at the second time", cacerts(second_time(faults.stall)), "endpoint-unreachable", 69, check=nothing_sent),
    K3sCase("not there", cacerts(faults.error(404, "NotFound", "the server could not find the requested resource")), "supervisor-missing", 69, "404"),
    K3sCase("unauthorized", cacerts(faults.unauthorized), "supervisor-missing", 69, "401"),
    K3sCase("forbidden", cacerts(faults.answer("forbidden", 403)), "supervisor-missing", 69, "403"),
    K3sCase("not ready", cacerts(faults.UNAVAILABLE), "server-error", 69),
]


@pytest.mark.parametrize("case", BAD_CACERTS)
def test_cacerts(played, case):
    played(case)


class MalformedCase(K3sCase):
    """Nothing shows that the token is for a supervisor."""
    untouched = {}


def without_hash(credentials):
    return lambda world: world.machine.set_credential("token", f"K10::{credentials}")


def plain(world):
    """The short form, which k3s takes as well."""
    world.machine.set_credential("token", TOKEN)


FULL = "the full token of `k3s token create` or /var/lib/rancher/k3s/server/node-token begins with K10 and 64 hex digits"
TOKENS = [
    K3sCase("no hash", without_hash(TOKEN), "settings-incomplete", 78, check=nothing_asked),
    K3sCase("no hash, user and password", without_hash(f"node:{SERVER_SECRET}"), "settings-incomplete", 78, check=nothing_asked),
    K3sCase("no hash, and none wanted", without_hash(TOKEN), None, 0, discovery={"unsafeSkipCAVerification": True}),
    MalformedCase("hash of another length", lambda world: world.machine.set_credential("token", f"K10{'a' * 40}::{TOKEN}"), "token-malformed", 65, check=nothing_asked),
    *(MalformedCase(name, lambda world, token=token: world.machine.set_credential("token", token), "token-malformed", 65, FULL, check=nothing_asked)
      for name, token in (("short hash", f"K10{'a' * 60}::{TOKEN}"), ("short hash alone", f"K10{'a' * 60}"), ("hash alone", "a" * 64), ("hash and K10 alone", f"K10{'A' * 64}"),
                          ("words instead of the hash", "K10mysecret::server:abc"), ("hash with a letter that is none", f"K10{'g' * 64}::{TOKEN}"))),
    *(MalformedCase(f"password alone, {name}", lambda world: world.machine.set_credential("token", "hunter2"), "token-malformed", 65, FULL, check=nothing_asked,
                    **settings) for name, settings in (("cluster.type", {"cluster": {"type": "k3s"}}), ("port of RKE2", {"discovery": {"endpoints": ["127.0.0.1:9345"]}}))),
    MalformedCase("token that others can read", lambda world: world.machine.set_credential("token", world.cluster.k10(TOKEN), 0o644), "token-exposed", 78,
                  check=nothing_asked, cluster={"type": "k3s"}),
    MalformedCase("port of RKE2, token that others can read", lambda world: world.machine.set_credential("token", TOKEN, 0o644), "token-exposed", 78,
                  check=nothing_asked, discovery={"endpoints": ["127.0.0.1:9345"]}),
    K3sCase("blank after it", lambda world: world.give(TOKEN + " "), None, 0),
    K3sCase("blank and newline after a password", lambda world: world.give(f"node:{SERVER_SECRET} \n"), None, 0),
    MalformedCase("no credentials", lambda world: world.machine.set_credential("token", f"K10{'a' * 64}::"), "token-malformed", 65, check=nothing_asked),
    K3sCase("without K10", plain, "settings-incomplete", 78, cluster={"type": "k3s"}, check=nothing_asked),
    K3sCase("without K10, and no hash wanted", plain, None, 0, cluster={"type": "k3s"}, discovery={"unsafeSkipCAVerification": True}),
    MalformedCase("user and password for the CSR API", lambda world: world.give(f"node:{SERVER_SECRET}"), "settings-invalid", 78,
                  cluster={"type": "kubernetes"}, check=nothing_asked),
    K3sCase("hash in upper case", lambda world: world.machine.set_credential("token", re.sub("^K10[0-9a-f]+", lambda found: "K10" + found[0][3:].upper(), world.cluster.k10(TOKEN))),
            None, 0),
    K3sCase("newline after it", lambda world: world.give(TOKEN + "\n"), None, 0),
    K3sCase("secret of another token", lambda world: world.give("abcdef.ffffffffffffffff"), "token-rejected", 77, "not authorized"),
    K3sCase("another password", lambda world: world.give("node:wrong"), "token-rejected", 77, "the supervisor rejected the token", "not authorized"),
    K3sCase("401 without a Status, as old supervisors send it", sign(faults.answer("Unauthorized", 401)), "token-rejected", 77,
            "the supervisor rejected the token (401)", "token with ID abcdef"),
    K3sCase("token of another group", lambda world: setattr(world.cluster.tokens[TOKEN_ID], "groups", ("k3s:monitoring",)), "supervisor-forbidden", 77, "forbidden"),
    K3sCase("unverified and hostile", lambda world: without_hash(TOKEN)(world) or tls_of_another(world), *UNTRUSTED,
            discovery={"unsafeSkipCAVerification": True}),
]


@pytest.mark.parametrize("case", TOKENS)
def test_tokens(played, case):
    played(case)


def issued(edit):
    """edit(cluster, public key, leaf) -> PEM"""
    def prepare(world):
        world.cluster.issue = lambda csr, node: edit(world.cluster, csr.public_key(), pki.cert_pem(world.cluster.signer.client(csr.public_key(), USER)))
    return prepare


def leaf(**changes):
    def make(cluster, public_key, _):
        options = {"public_key": public_key, "cn": USER, **changes}
        return pki.cert_pem(cluster.signer.client(**options)) + cluster.signer.pem
    return issued(make)


def dropped(world, run):
    assert not (world.machine.state / "pending.key").exists()


def kept(world, run):
    assert (world.machine.state / "pending.key").exists()


def old(world):
    world.cluster.signs = False


def old_agent(world):
    """The Kubernetes API does not know the password, and so does not tell its version."""
    old(world)
    world.give(f"node:{SERVER_SECRET}")


def proxy(action):
    return lambda world: world.server.on("client-kube-proxy", action)


def old_behind(world):
    """Servers of two versions behind one address."""
    world.server.on("client-kubelet", lambda request: old(world))


def not_requested(world, run):
    """Nothing was sent that changes state on the supervisor."""
    assert world.server.seen("client-kubelet") == [] and world.cluster.node_passwords == {}


def serving(edit):
    """edit(cluster, leaf, key) -> PEM"""
    def prepare(world):
        issue = world.cluster.issue_serving
        world.cluster.issue_serving = lambda csr, node, ips: edit(world.cluster, issue(csr, node, ips), csr.public_key())
    return prepare


def server_leaf(ca, key, *names, **changes):
    return pki.cert_pem(ca.client(key, NODE, (), eku=(pki.SERVER_AUTH,), sans=[x509.DNSName(name) for name in names], **changes))


SERVING = [
    ("nothing", lambda cluster, pem, key: b""),
    ("of another CA", lambda cluster, pem, key: server_leaf(pki.CA(), key, NODE, "localhost"), "not issued by a CA of the cluster"),
    ("for another key", lambda cluster, pem, key: server_leaf(cluster.ca, pki.new_key().public_key(), NODE, "localhost"), "another key"),
    ("for another machine, too", lambda cluster, pem, key: server_leaf(cluster.ca, key, NODE, "localhost", "node-2"), "node-2"),
    ("without localhost", lambda cluster, pem, key: server_leaf(cluster.ca, key, NODE), "expected 'node-1', localhost"),
    ("for clients", lambda cluster, pem, key: pki.cert_pem(cluster.signer.client(key, USER)), "not for server authentication"),
    ("expired", lambda cluster, pem, key: server_leaf(cluster.ca, key, NODE, "localhost", start=-pki.YEAR, end=-pki.DAY), "the serving certificate expired"),
]
CERTIFICATES = [
    K3sCase("for another key", issued(lambda cluster, *_: pki.cert_pem(cluster.signer.client(pki.new_key().public_key(), USER))), *UNUSABLE, "another key", check=dropped),
    K3sCase("for another node", leaf(cn=pki.node_user("node-2")), *UNUSABLE, "node-2", check=dropped),
    K3sCase("for another group", leaf(orgs=["system:masters"]), *UNUSABLE, check=dropped),
    K3sCase("for a group more", leaf(orgs=["system:nodes", "system:masters"]), *UNUSABLE, check=dropped),
    K3sCase("issued by a server that is a day ahead", keep, "clock-wrong", 69, "behind the API server's", check=nothing_sent, faketime="-1d"),
    K3sCase("expired", leaf(start=-2 * pki.DAY, end=-pki.DAY), *UNUSABLE, "expired", check=dropped),
    K3sCase("for servers", leaf(eku=(pki.SERVER_AUTH,)), *UNUSABLE, check=dropped),
    K3sCase("CA", leaf(ca=True), *UNUSABLE, check=dropped),
    K3sCase("not issued by what follows it", issued(lambda cluster, key, leaf: leaf + cluster.ca.pem), *UNUSABLE, check=dropped),
    K3sCase("leaf alone", issued(lambda cluster, key, leaf: leaf), None, 0),
    K3sCase("private key in the answer", issued(lambda cluster, key, leaf: leaf + cluster.signer.pem + csrs.FOREIGN_KEY), "supervisor-too-old", 69, "private key", check=dropped),
    K3sCase("old server", old, "supervisor-too-old", 69, "stored nothing", check=not_requested),
    K3sCase("old server and an agent's password", old_agent, "supervisor-too-old", 69, "stored nothing", check=not_requested),
    K3sCase("old server beside a new one", old_behind, "supervisor-too-old", 69, f"secret kube-system/{NODE}.node-password.k3s", check=dropped),
    K3sCase("no kube-proxy", proxy(faults.error(404, "NotFound", "404 page not found")), *MALFORMED, "404", check=not_requested),
    *(K3sCase(f"serving certificate: {name}", serving(edit), *UNUSABLE, *words, check=dropped) for name, edit, *words in SERVING),
    K3sCase("nothing", sign(faults.answer("")), *UNUSABLE, check=dropped),
    K3sCase("web page", sign(faults.PORTAL), *UNUSABLE, check=dropped),
    K3sCase("flood", sign(faults.flood), *MALFORMED, check=kept),
    K3sCase("redirect", sign(faults.redirect("https://127.0.0.1:1/")), "answer-foreign", 65, "302", check=kept),
    K3sCase("stall", sign(faults.stall), "endpoint-unreachable", 69, check=kept),
    K3sCase("no such path", sign(faults.error(404, "NotFound", "404 page not found")), *MALFORMED, "404", check=kept),
    K3sCase("node name refused", sign(faults.error(400, "BadRequest", "header node name does not match auth node name")), "csr-rejected", 77,
            "header node name does not match", check=kept),
    K3sCase("not ready", in_phase(supervisor.CORE), "server-error", 69, "runtime core not ready", check=kept),
    K3sCase("internal error", sign(faults.INTERNAL), "server-error", 69, "etcdserver", check=kept),
    K3sCase("no words", sign(faults.answer("", 418)), "answer-foreign", 65, "418", check=kept),
]


@pytest.mark.parametrize("case", CERTIFICATES)
def test_certificates(played, case):
    played(case)


@pytest.mark.parametrize("case", plays(K3sPlay, BAD_CACERTS, "liar before a dead endpoint"))
def test_waits_for_the_real_server(played, case):
    played(case)


# Beside another discovery method.

def with_file(world, **settings):
    """A discovery file of another cluster, in the place of endpoints."""
    path = world.machine.path / "cluster-info.yaml"
    path.write_text(apiserver.kubeconfig(world.server.url, world.cluster.ca.pem))
    world.machine.write_settings(HEADER + to_yaml({"node": {"name": NODE}, "discovery": {"file": str(path)}, **settings}))


@pytest.fixture
def k3s(tmp_path):
    world = K3sWorld(tmp_path)
    yield world
    world.close()
    world.check()


def test_hash_and_file_exclude_each_other(k3s):
    """A file of another cluster would override the hash in the token."""
    with_file(k3s)
    k3s.machine.join().failed("settings-invalid", 78, "credential 'node-bootstrap.token'", "cluster-info.yaml")
    nothing_asked(k3s, None)
    k3s.machine.endpoints = [k3s.server.endpoint]
    k3s.machine.put_handoff(k3s.cluster.ca, k3s.server.url)
    k3s.machine.install().failed("settings-invalid", 78)
    assert not k3s.machine.target(k3s.machine.KUBECONFIG).exists()


@pytest.mark.parametrize("place", ["file", "url"])
def test_supervisor_and_file_exclude_each_other(k3s, place):
    """Token and node password would go to the web server that only has the document."""
    k3s.machine.set_credential("token", TOKEN)
    with_file(k3s, cluster={"type": "k3s"})
    if place == "url":
        k3s.machine.write_settings(HEADER + to_yaml({"cluster": {"type": "k3s"}, "discovery": {"file": k3s.server.url + "/cluster-info"}}))
    k3s.machine.join().failed("settings-invalid", 78, "cluster.type", "discovery.endpoints")
    nothing_asked(k3s, None)


def test_certificate_that_is_no_ca_among_bytes_that_are_vouched_for(k3s):
    """The hash covers the bytes: a certificate in them that is no CA is left out without a failure."""
    leaf = pki.cert_pem(k3s.cluster.signer.client(pki.new_key().public_key(), "somebody"))
    k3s.cluster.cacerts = k3s.cluster.ca.pem + leaf
    k3s.give()
    k3s.configure(k3s.server)
    k3s.machine.unit().joined()
    assert k3s.machine.read(k3s.machine.CA_FILE) == k3s.cluster.ca.pem.decode()


@pytest.mark.parametrize("comment", ["# Société\n".encode("latin1"), b"# \x01\n"], ids=["Latin-1", "control character"])
def test_text_that_cannot_be_handed_over(k3s, comment):
    """Reported before the supervisor has bound the node password."""
    k3s.cluster.cacerts = comment + k3s.cluster.ca.pem
    k3s.give()
    k3s.configure(k3s.server, timeout="8s")
    k3s.machine.inspect().joined()
    k3s.machine.join().failed("answer-malformed", 65, "UTF-8")
    nothing_sent(k3s, None)
