# SPDX-License-Identifier: Apache-2.0
"""Discovery by an https URL: a web server outside of the cluster, which never receives a secret."""

import json

import pytest

from common import apiserver, faults, pki
from common.machine import TOKEN_ID, Machine
from .attackers import UrlPlay, plays
from .join_methods import Case, World, bootstrap_kubeconfig, data

pytestmark = pytest.mark.each_release
SECRET_VALUE = "hunter2hunter2hunter2"
PATH = "/fleet/cluster-info.yaml"
CHECKED = ["cluster-info", "create", "watch"]
SYSTEM = object()


def url(*actions, ca=None, pins=(), text=None, prepare=lambda world: None, **rule):
    """discovery.file names a web server of another CA, which serves the document after these actions."""
    def make(world):
        world.web = world.endpoint(world.stranger())
        prepare(world)
        world.web.on("any", lambda request: faults.answer(text(world) if text else world.document(), Content_Type="text/yaml")(request))
        for action in actions:
            world.web.on("any", action, **rule)
        discovery = {"file": f"https://{world.web.endpoint}{PATH}", "caCertHashes": [world.cluster.ca.pin if pin == "ours" else pin for pin in pins]}
        if ca is not SYSTEM:
            discovery["urlCAFile"] = world.give("web.crt", ca.pem if ca else world.web.cluster.ca.pem)
        return {"discovery": {key: value for key, value in discovery.items() if value}}
    return make


def nothing_was_given(world):
    """Neither a header nor a client certificate of ours; the server's own violations are looked at besides."""
    for request in world.web.requests:
        assert (request.method, request.target, request.body) == ("GET", PATH, b"")
        assert "authorization" not in request.headers and request.connection.peer is None


def joined(world, run):
    nothing_was_given(world)
    cluster, _ = world.kubeconfig()
    assert cluster == {"server": world.server.url, "certificate-authority": "/" + Machine.CA_FILE}
    assert world.installed_cas() == [world.cluster.ca.pin]
    assert world.request()["username"] == "system:bootstrap:" + TOKEN_ID


def not_asked(world, run):
    """The cluster received no request: its address was not known."""
    nothing_was_given(world)
    assert world.server.connections == []


def asked_once(world, run):
    assert len(world.web.requests) == 1
    joined(world, run)


def by_path_at_the_root(world):
    prepared = url()(world)
    prepared["discovery"]["file"] = f"https://{world.web.endpoint}"
    return prepared


def root_was_asked(world, run):
    assert [request.target for request in world.web.requests] == ["/"]


def client_certificate(world):
    """The identity is a client certificate, which the web server asks for in vain."""
    prepared = url()(world)
    key = pki.new_key()
    user = "system:serviceaccount:fleet:bootstrap"
    certificate = pki.cert_pem(world.cluster.signer.client(key.public_key(), user, ["fleet"]))
    world.cluster.requesters[user] = ("fleet",)
    world.machine.set_credential("kubeconfig", bootstrap_kubeconfig(world.server.url, world.cluster.ca.pem, {
        "client-certificate-data": data(certificate), "client-key-data": data(pki.key_pem(key))}))
    return prepared


def certificate_went_to_the_cluster_alone(world, run):
    nothing_was_given(world)
    assert {request.connection.user for request in world.server.requests if request.kind != "cluster-info"} == {"system:serviceaccount:fleet:bootstrap"}
    assert all(request.connection.peer is None for request in world.server.seen("cluster-info"))


def newer_server(world):
    world.other = world.endpoint()
    world.cluster.server = world.other.url


def newer_was_taken(world, run):
    nothing_was_given(world)
    assert world.server.kinds == ["cluster-info"] and world.other.kinds == ["create", "watch"]
    assert world.kubeconfig()[0]["server"] == world.other.url


GOOD = [
    Case("a document", url(), None, 0, requests=CHECKED, check=asked_once),
    Case("a document whose CA is pinned besides", url(pins=["ours"]), None, 0, check=asked_once),
    Case("a URL without a path", by_path_at_the_root, None, 0, check=root_was_asked),
    Case("a client certificate for the cluster", client_certificate, None, 0, check=certificate_went_to_the_cluster_alone),
    Case("newer cluster-info", url(prepare=newer_server), None, 0, check=newer_was_taken),
    Case("404 at first", url(faults.answer("not yet", 404), times=2), None, 0, "discovery-url-refused", "404", check=joined),
    Case("500 at first, with Retry-After", url(faults.answer("", 500, Retry_After="1"), times=1), None, 0, "server-error", check=joined),
    Case("429 at first", url(faults.TOO_MANY, times=1), None, 0, "server-error", check=joined),
    Case("cut at first", url(faults.cut, times=1), None, 0, "endpoint-reset", check=joined),
    Case("a portal at first", url(faults.PORTAL, times=1), None, 0, "answer-malformed", check=joined),
]


# Who answers there.

def certificate_for_clients(world):
    ca = world.web.cluster.ca
    key = pki.new_key()
    sans = [pki.x509.IPAddress(pki.ipaddress.ip_address("127.0.0.1"))]
    world.web.identity = pki.Identity(key, ca.client(key.public_key(), "somebody", sans=sans))


def other_name(world):
    world.web.identity = world.web.cluster.ca.serving(["web.example.org"])


def expired(world):
    world.web.identity = world.web.cluster.ca.serving(end=-60, start=-3600)


def nobody(world):
    prepared = url()(world)
    prepared["discovery"]["file"] = f"https://{faults.dead_endpoint()}/x"
    return prepared


def old_tls(world):
    world.web.tls_options = faults.old_tls


def plain(world):
    world.web.on_connect = faults.plain_http


TLS = ("tls-untrusted", 76)
WHO = [
    Case("another CA", url(ca=pki.CA()), *TLS, check=not_asked),
    Case("one that the system's CAs do not know", url(ca=SYSTEM), *TLS, check=not_asked),
    Case("another name", url(prepare=other_name), "tls-name-mismatch", 76, check=not_asked),
    Case("a certificate for clients", url(prepare=certificate_for_clients), *TLS, check=not_asked),
    Case("an expired certificate", url(prepare=expired), "tls-expired", 76, check=not_asked),
    Case("a certificate that a clock of before this program takes for a future one", url(), "clock-wrong", 69, "before this program was built", check=not_asked,
         faketime="-30y"),
    Case("nobody", nobody, "endpoint-refused", 69, check=not_asked),
    Case("TLS 1.1", url(prepare=old_tls), "endpoint-reset", 69, check=not_asked),
    Case("a server without TLS", url(prepare=plain), "endpoint-reset", 69, check=not_asked),
]


# What it says.

def user(content):
    def text(world):
        world.machine.secrets.append(SECRET_VALUE)
        return world.document(tail=f"kind: Config\nusers:\n- name: admin\n  user: {content}\n")
    return url(text=text)


def ca_by_path(world):
    return apiserver.kubeconfig(world.server.url, None, extra_cluster="    certificate-authority: /etc/ssl/ca.crt\n")


def no_ca(world):
    return apiserver.kubeconfig(world.server.url, None)


def http(world):
    prepared = url()(world)
    prepared["discovery"]["file"] = prepared["discovery"]["file"].replace("https:", "http:")
    return prepared


def ca_file_is_missing(world):
    prepared = url()(world)
    prepared["discovery"]["urlCAFile"] = str(world.given / "nowhere.crt")
    return prepared


def ca_file_is_none(world):
    prepared = url()(world)
    prepared["discovery"]["urlCAFile"] = world.give("web.crt", "no certificate\n")
    return prepared


def both(world):
    prepared = url()(world)
    prepared["discovery"]["endpoints"] = [world.server.endpoint]
    return prepared


REFUSED = ("discovery-url-refused", 69)
MALFORMED = ("answer-malformed", 65)
SAYS = [
    Case("a redirect", url(faults.redirect("https://elsewhere.example.org/x")), *REFUSED, "302", "https://elsewhere.example.org/x", check=not_asked),
    Case("a redirect that only the status makes one", url(faults.answer("", 308)), *REFUSED, "308", check=not_asked),
    Case("404", url(faults.answer("", 404)), *REFUSED, "404", PATH, check=not_asked),
    Case("401", url(faults.answer("", 401, WWW_Authenticate="Basic")), *REFUSED, "401", check=not_asked),
    Case("204", url(faults.answer("", 204)), *REFUSED, "204", check=not_asked),
    Case("503", url(faults.UNAVAILABLE), "server-error", 69, "503", check=not_asked),
    Case("a flood", url(faults.flood), *MALFORMED, check=not_asked),
    Case("endless headers", url(faults.endless_headers), *MALFORMED, check=not_asked),
    Case("more than may be", url(text=lambda world: world.document() + "# filler\n" * 200000), *MALFORMED, check=not_asked),
    Case("nothing", url(text=lambda world: ""), *MALFORMED, check=not_asked),
    Case("a token in it", user(f"{{token: {SECRET_VALUE}}}"), *MALFORMED, "users[0]", "token", check=not_asked),
    Case("a client key in it", user(f"{{client-key-data: {SECRET_VALUE}}}"), *MALFORMED, "client-key-data", check=not_asked),
    Case("a path on this machine", url(text=ca_by_path), *MALFORMED, "certificate-authority", check=not_asked),
    Case("a CA that is none", url(text=lambda world: world.document(ca=b"not a certificate\n")), *MALFORMED, check=not_asked),
    Case("several clusters", url(text=lambda world: world.document(names=("a", "b"))), *MALFORMED, check=not_asked),
    Case("verification switched off", url(text=lambda world: world.document(extra_cluster="    insecure-skip-tls-verify: true\n")), *MALFORMED,
         "insecure-skip-tls-verify", check=not_asked),
    Case("another CA than the hash names", url(pins=["sha256:" + "0" * 64]), "ca-pin-mismatch", 76, check=not_asked),
    Case("no CA where a hash is set", url(text=no_ca, pins=["ours"]), "ca-pin-mismatch", 76, "contains no CA", check=not_asked),
    Case("no CA, and a server that the system's CAs do not know", url(text=no_ca), *TLS),
]
SETTINGS = [
    Case("http", http, "settings-invalid", 78, "discovery.file", "https", check=not_asked),
    Case("endpoints as well", both, "settings-invalid", 78, "discovery.endpoints in", "discovery.file in", check=not_asked),
    Case("a CA file that is not there", ca_file_is_missing, "discovery-file-unreadable", 66, "discovery.urlCAFile", check=not_asked),
    Case("a CA file without a CA", ca_file_is_none, *TLS, check=not_asked),
]


@pytest.mark.parametrize("case", GOOD)
def test_document(played, case):
    played(case)


@pytest.mark.parametrize("case", WHO)
def test_who_answers(played, case):
    played(case)


@pytest.mark.parametrize("case", SAYS)
def test_what_it_says(played, case):
    played(case)


@pytest.mark.parametrize("case", SETTINGS)
def test_settings(played, case):
    played(case)


# The machine of the second row has a CA file that no server can prove; the others are about its clock, and about an address without a server.
@pytest.mark.parametrize("case", plays(UrlPlay, WHO, "another CA", "one that the system's CAs do not know", "nobody",
                                       "a certificate that a clock of before this program takes for a future one"))
def test_waits_for_the_real_server(played, case):
    played(case)


# The root side.

@pytest.mark.parametrize("pins, code", [((), None), (("ours",), "handoff-untrusted")], ids=["without a hash", "with a hash"])
def test_ca_that_join_hands_over(tmp_path, pins, code):
    """Only `join` saw the TLS of the URL: `install` trusts its result only if there is no hash."""
    world = World(tmp_path)
    try:
        world.configure(**url(pins=pins)(world))
        world.machine.inspect().joined()
        world.machine.join().joined()
        note, other = world.machine.handoff(), pki.CA()
        world.machine.put_state("joined.json", json.dumps({**note, "ca": other.pem.decode()}))
        run = world.machine.install()
        if code:
            run.failed(code, 76)
            assert world.machine.target_names() == {}
        else:
            run.joined()
            assert world.installed_cas() == [other.pin]
    finally:
        world.close()
    world.check()
