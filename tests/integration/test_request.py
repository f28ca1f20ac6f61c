# SPDX-License-Identifier: Apache-2.0
"""The request: what is submitted, when, with which key, and what the API server may answer."""

import base64

import pytest
from cryptography import x509

from common import apiserver, csrs, endpoint, faults, pki
from common.machine import NODE, TOKEN_ID, TOKEN_SOURCE, Case

USER = pki.node_user(NODE)


def pending_key(machine):
    return pki.load_key((machine.state / "pending.key").read_bytes())


def test_wire(world):
    """The fast path: four requests on two connections, the token on the second only."""
    world.machine.join().joined()
    server = world.server
    assert server.kinds == ["cluster-info", "create", "watch"] and len(server.connections) == 2
    assert [request.connection.number for request in server.requests] == [1, 2, 2, 2]
    info, node, create, watch = server.requests
    assert node.path == "/api/v1/nodes/" + NODE and node.method == "GET"
    assert info.user == "system:anonymous" and node.user == create.user == watch.user == "system:bootstrap:" + TOKEN_ID
    assert create.headers["content-type"] == "application/json"
    assert "expect" not in create.headers and "cookie" not in create.headers
    made = world.cluster.csrs.get(world.csrs()[0])
    assert watch.name == made["metadata"]["name"]
    assert 60 <= int(watch.query["timeoutSeconds"]) <= 600 and watch.query["allowWatchBookmarks"] == "true"
    assert int(watch.query["resourceVersion"]) == 1001      # what the POST returned, not later


def test_object(world):
    world.machine.join().joined()
    sent = world.server.seen("create")[0].json()
    key = pending_key(world.machine).public_key()
    assert sent == {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
                    "metadata": {"name": pki.csr_name(key, USER)},
                    "spec": {"signerName": csrs.CLIENT, "usages": list(pki.USAGES), "request": sent["spec"]["request"]}}
    request = x509.load_pem_x509_csr(base64.b64decode(sent["spec"]["request"]))
    assert [(attribute.oid._name, attribute.value) for attribute in request.subject] == [("organizationName", "system:nodes"), ("commonName", USER)]
    assert pki.spki(request.public_key()) == pki.spki(key) and request.is_signature_valid
    assert len(request.extensions) == 0 and request.public_key().curve.name == "secp256r1"
    assert request.signature_hash_algorithm.name == "sha256"


def test_expiration(world):
    world.machine.configure(world.server, csr={"expirationSeconds": 3600})
    world.machine.join().joined()
    assert world.server.seen("create")[0].json()["spec"]["expirationSeconds"] == 3600


def test_key_is_durable_before_it_is_used(world):
    """When the POST arrives, the key is on disk, with mode 0600."""
    found = []

    def look(request):
        path = world.machine.state / "pending.key"
        found.append((path.stat().st_mode & 0o777, path.read_bytes()))
    world.server.on("create", look)
    world.machine.join().joined()
    (mode, pem), = found
    assert mode == 0o600 and pem.startswith(b"-----BEGIN EC PRIVATE KEY-----") and pem.strip().endswith(b"-----END EC PRIVATE KEY-----")


def test_no_key_before_discovery_is_done(world):
    world.cluster.tokens[TOKEN_ID].signs = False
    world.machine.configure(world.server, timeout="8s")
    world.machine.join().failed("signature-missing", 69)
    assert list(world.machine.state.iterdir()) == []


def test_handoff(world):
    """What is left for the installer, and nothing else."""
    world.machine.join().joined()
    state = world.machine.state
    assert sorted(path.name for path in state.iterdir()) == ["joined.json", "pending.key"]
    assert (state / "joined.json").stat().st_mode & 0o777 == 0o600
    note = world.machine.handoff()
    assert {name for name in note if not name.endswith("Usec")} == {"version", "certificate", "ca", "server", "tlsServerName", "proxyURL", "csr", "endpoint", "tokenID", "tokenSource"}
    assert (note["version"], note["server"], note["endpoint"], note["tokenID"]) == (1, world.server.url, world.server.endpoint, TOKEN_ID)
    assert note["ca"].encode() == world.cluster.ca.pem and note["csr"] == world.csrs()[0]
    assert note["tokenSource"] == TOKEN_SOURCE and note["tlsServerName"] == note["proxyURL"] == ""


# A CSR that exists already.

def put(key=None, change=lambda obj: None, **options):
    """An earlier pending key, and a CSR with its name."""
    def prepare(world):
        own = pki.new_key()
        world.machine.put_state("pending.key", pki.key_pem(own))
        name = pki.csr_name(own.public_key(), USER)
        world.cluster.csrs.put(name, key or own, **{"cn": USER, **options})
        world.cluster.csrs.change(name, change)
        world.name = name
    return prepare


def approved(prepare, after=0.2):
    """The object that was there gets its certificate while the machine waits."""
    def both(world):
        prepare(world)
        world.server.on("create", lambda request: csrs.threading.Thread(
            target=csrs.approve(after=after), args=(world.cluster, world.name), daemon=True).start(), times=1)
    return both


def issued_already(prepare):
    def both(world):
        prepare(world)
        csrs.approve(after=0)(world.cluster, world.name)
    return both


def denied_before(prepare):
    def both(world):
        prepare(world)
        csrs.deny(after=0)(world.cluster, world.name)
    return both


def same_object(world, run):
    assert world.csrs() == [world.name]


def key_is_new(world, run):
    assert world.csrs() != [world.name] and not (world.machine.state / "pending.key").exists()


def another_object(world, run):
    """The machine has left the object that was there, and has joined with a new key."""
    assert len(world.csrs()) == 2 and world.csrs()[0] == world.name
    assert world.machine.handoff()["csr"] == world.csrs()[1]


def foreign(name, prepare, what):
    return Case(name, prepare, None, 0, f"already exists, with {what}", csrs=2, check=another_object)


THERE = [
    Case("same key, pending, then approved", approved(put()), None, 0, check=same_object),
    Case("same key, issued already", issued_already(put()), None, 0, check=same_object),
    Case("same key, a day old", approved(put(age=pki.DAY - 60)), None, 0, check=same_object),
    foreign("key of another", put(key=pki.new_key()), "another key"),
    foreign("subject of another node", put(cn=pki.node_user("node-2")), "another subject"),
    foreign("another organization", put(orgs=("system:masters",)), "another subject"),
    foreign("another signer", put(signer="kubernetes.io/kube-apiserver-client"), "another signerName"),
    foreign("other usages", put(usages=("digital signature", "client auth")), "other usages"),
    foreign("more usages", put(usages=(*pki.USAGES, "server auth")), "other usages"),
    foreign("another duration", put(expirationSeconds=600), "another expirationSeconds"),
    foreign("another requestor", put(user="system:serviceaccount:default:x"), "another requestor (submitted by 'system:serviceaccount:default:x')"),
    foreign("a requestor whose name begins alike", put(user="system:bootstrap:abcdef0"), "another requestor"),
    foreign("issued already, to another requestor", issued_already(put(user="system:bootstrap:fedcba")), "another requestor"),
    foreign("no request in it", put(change=lambda obj: obj["spec"].update(request="")), "an invalid request"),
    foreign("request that is none", put(change=lambda obj: obj["spec"].update(request="Zm9v")), "an invalid request"),
]


# What the API server may say to the POST.

def create(action, **rule):
    return lambda world: world.server.on("create", action, **rule)


def token_may(*verbs):
    def prepare(world):
        world.cluster.tokens[TOKEN_ID].may = verbs
    return prepare


def token_gone(world):
    """Deleted between discovery and request."""
    def vanish(request):
        world.cluster.tokens[TOKEN_ID].valid = False
        return apiserver.unauthorized()
    world.server.on("create", vanish)


def lost_answer(world):
    """The object is made, and the answer never arrives."""
    def make_and_hang_up(request):
        request.connection.server.healthy(request)
        raise endpoint.Hangup
    world.server.on("create", make_and_hang_up, times=1)


def webhook(request):
    return apiserver.status(403, "Forbidden", 'admission webhook "policy.example.org" denied the request: no nodes today')


def key_is_kept(world, run):
    assert (world.machine.state / "pending.key").exists() and world.csrs() == []


def other_object(edit):
    return create(faults.edited(edit), times=1)


REFUSED = ("token-rejected", 77)
MALFORMED = ("answer-malformed", 65)
ANSWERS = [
    Case("401 twice, then good", create(faults.unauthorized, times=2), None, 0, csrs=1),
    Case("401", create(faults.unauthorized), *REFUSED, "401", TOKEN_ID, check=key_is_kept),
    Case("token deleted in between", token_gone, *REFUSED, check=key_is_kept),
    Case("403 while RBAC is set up, then good", create(faults.forbidden, times=2), None, 0, csrs=1),
    Case("403", token_may("get", "list", "watch"), "csr-forbidden", 77, "system:bootstrap:" + TOKEN_ID, check=key_is_kept),
    Case("403, of a token without rights", token_may(), "csr-forbidden", 77, "system:bootstrap:" + TOKEN_ID, check=key_is_kept),
    Case("403 as to anybody, though a token was shown", create(faults.forbidden_to("system:anonymous")), *REFUSED, "system:anonymous",
         "ignored the credential", check=key_is_kept),
    Case("403 to a name that ends the quote", create(faults.forbidden_to('x\\" system:anonymous\x1b[2J')), "csr-forbidden", 77, check=key_is_kept),
    Case("403 of a webhook", create(webhook), "csr-forbidden", 77, "no nodes today", check=key_is_kept),
    Case("422", create(faults.error(422, "Invalid", 'spec.usages: Unsupported value: "x"')), "csr-rejected", 77, "spec.usages", check=key_is_kept),
    Case("400", create(faults.error(400, "BadRequest", "the object provided is unrecognized")), "csr-rejected", 77, "unrecognized"),
    Case("404, an API server without the group", create(faults.error(404, "NotFound", "the server could not find the requested resource")),
         *MALFORMED, "404"),
    Case("429 twice, then good", create(faults.TOO_MANY, times=2), None, 0, "server-error", csrs=1),
    Case("429", create(faults.TOO_MANY), "server-error", 69, "429"),
    Case("500", create(faults.INTERNAL), "server-error", 69, "500"),
    Case("503", create(faults.UNAVAILABLE), "server-error", 69, "503"),
    Case("redirect", create(faults.redirect("https://127.0.0.1:1/")), "answer-foreign", 65, "302"),
    Case("web page", create(faults.PORTAL), *MALFORMED),
    Case("not JSON", create(faults.answer("pong", 201)), *MALFORMED),
    Case("body without end", create(faults.flood), *MALFORMED),
    # The object was made all the same, and is found at the next attempt.
    Case("object of another name", other_object(lambda obj: obj["metadata"].update(name="other")), None, 0, "answer-malformed", csrs=1),
    Case("object without uid", other_object(lambda obj: obj["metadata"].pop("uid") and None), None, 0, "metadata.uid", csrs=1),
    Case("object without resourceVersion", other_object(lambda obj: obj["metadata"].pop("resourceVersion") and None), None, 0,
         "metadata.resourceVersion", csrs=1),
    Case("another kind", other_object(lambda obj: obj.update(kind="Secret")), None, 0, "kind", csrs=1),
    Case("answer lost after the object was made", lost_answer, None, 0, csrs=1),
    Case("answer cut", create(faults.cut, times=1), None, 0, csrs=1),
    Case("connection lost before the object was made", create(faults.hang_up_instead, times=1), None, 0, csrs=1),
]


@pytest.mark.parametrize("case", THERE)
def test_object_that_is_there(played, case):
    played(case)


@pytest.mark.parametrize("case", ANSWERS)
def test_answer(played, case):
    played(case)


def test_copied_after_each_deletion(world):
    """Somebody deletes each request and submits it again as another user: bounded in requests, until the deadline."""
    def copy(cluster, name):
        cluster.csrs.replace(name, lambda obj: obj["spec"].update(username="mallory"))

    world.cluster.controller = copy
    world.machine.configure(world.server, timeout="10s")
    run = world.machine.join().failed("csr-pending", 75, "was deleted or replaced each time")
    assert run.stderr.count("another requestor (submitted by 'mallory')") > 1 and len(world.server.seen("create")) <= 12


def test_denied_before(world):
    """A denied request of the same name from an earlier start: recognised, and not used again by the next start."""
    denied_before(put())(world)
    world.machine.join().failed("csr-denied", 77, "KubectlDeny")
    assert not (world.machine.state / "pending.key").exists()
    world.machine.join().joined()
    assert len(world.csrs()) == 2


def test_other_node_name_is_another_request(world):
    """The name of the CSR covers the subject: a machine that is renamed while it waits submits another CSR with the same key."""
    world.cluster.controller = csrs.never
    for node in ("node-1", "node-2"):
        world.machine.configure(world.server, node=node, timeout="8s")
        world.machine.join().failed("csr-pending", 75, "is waiting for approval")
    key = pending_key(world.machine).public_key()
    assert world.csrs() == [pki.csr_name(key, pki.node_user(node)) for node in ("node-1", "node-2")]


@pytest.mark.parametrize("contents", [b"", b"-----BEGIN EC PRIVATE KEY-----\nMHcC\n", pki.key_pem(pki.new_key("rsa")), b"A" * 100000],
                         ids=["empty", "cut short", "RSA", "huge"])
def test_pending_key_that_is_damaged(world, contents):
    """As left by a crash: a new one is created, with a message."""
    world.machine.put_state("pending.key", contents)
    run = world.machine.join().joined()
    assert "creating a new key" in run.stderr
    assert (world.machine.state / "pending.key").read_bytes() != contents and len(world.csrs()) == 1


def test_old_handoff_does_not_count(world):
    """A joined.json from a start that did not get further is replaced."""
    world.machine.put_handoff(pki.CA(), "https://192.0.2.1:6443")
    world.machine.join().joined()
    assert world.machine.handoff()["server"] == world.server.url


def test_state_that_cannot_be_written(world):
    world.machine.inspect().joined()        # which would remove it
    world.machine.state.joinpath("pending.key").mkdir()
    world.machine.join().failed("state-unwritable", 73, "pending.key")
    assert world.csrs() == []
