# SPDX-License-Identifier: Apache-2.0
"""`node-bootstrap-admin requests` against a scripted API: answers that a real one gives rarely, and hostile values."""

import base64
import hashlib
import re

import pytest
import yaml

from common import csrs, documentation, faults, pki
from common.endpoint import Reply
from .admin import POLICY
from .admin_cluster import Cluster, holder_of
from .admin_serving import submit

SECRETS = "/api/v1/namespaces/kube-system/secrets"
CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
TOKEN = "abc123"


def put_token(api, node="worker-1", description="rack 4"):
    data = {"token-id": TOKEN, "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true", "description": description}
    return api.objects.put(f"{SECRETS}/bootstrap-token-{TOKEN}", type="bootstrap.kubernetes.io/token",
                           metadata={"annotations": {"node-bootstrap/node": node} if node else {}},
                           data={key: base64.b64encode(value.encode()).decode() for key, value in data.items()})


def put_csr(api, name="csr-1", node="worker-1", username=f"system:bootstrap:{TOKEN}", request=None, groups=(), **options):
    return Cluster(api).request(name, node, user=username, groups=["system:bootstrappers", *groups], pem=request,
                                usages=["digital signature", "client auth"], **options)


def conditions(api, name="csr-1"):
    return api.objects.look(f"{CSRS}/{name}").get("status", {}).get("conditions", [])


def test_what_is_sent(api):
    """The patch names the request that was looked at; the claim comes first."""
    put_token(api)
    csr = put_csr(api)
    seen = csr["metadata"]
    assert api.run("requests", "approve", "csr-1").returncode == 0
    changes = [request for request in api.requests if request.method != "GET"]
    assert [request.kind for request in changes] == ["create leases", "patch certificatesigningrequests/approval"]
    sent = changes[1].json()
    assert sent["metadata"] == {"uid": seen["uid"], "resourceVersion": seen["resourceVersion"]}
    [condition] = sent["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("Approved", "True", "ApprovedByAdministrator")
    lease = api.objects.look(f"{LEASES}/node-bootstrap-token-{TOKEN}")
    assert lease["spec"]["holderIdentity"] == holder_of(csr)


def test_request_that_changes_while_it_is_approved(api):
    put_token(api)
    put_csr(api)

    def change(_request):
        api.objects.put(f"{CSRS}/csr-1", spec={**api.objects.look(f"{CSRS}/csr-1")["spec"], "username": "mallory"})
    api.on("patch certificatesigningrequests/approval", change, times=1)
    done = api.run("requests", "approve", "csr-1")
    assert done.returncode == 75 and "admin-conflict" in done.stderr and "CSR csr-1 changed" in done.stderr and "was not approved" in done.stderr
    assert done.stdout == "" and conditions(api) == []


def test_another_request_claims_the_token_meanwhile(api):
    token = put_token(api)
    put_csr(api)

    def claim(_request):
        api.objects.put(f"{LEASES}/node-bootstrap-token-{TOKEN}", spec={"holderIdentity": "another"},
                        metadata={"ownerReferences": [{"uid": token["metadata"]["uid"]}]})
    api.on("create leases", claim, times=1)
    done = api.run("requests", "approve", "csr-1")
    assert done.returncode == 65 and "admin-request-suspicious" in done.stderr and f"The bootstrap token {TOKEN} is for one use" in done.stderr and conditions(api) == []


def test_a_token_that_another_request_has_used(api):
    """It may be the same machine with a new key, which only an administrator can know. A claim is never released."""
    token = put_token(api)
    put_csr(api)
    Cluster(api).claim(TOKEN, "csr-0", "another", token)
    [item] = csrs.pending(api.run("requests", "list", "--output=json").stdout).values()
    assert item["suspicious"] and "another request has used it (csr-0)" in item["verdict"]
    done = api.run("requests", "approve", "csr-1")
    assert done.returncode == 65 and "csr-1: FORGED? The bootstrap token" in done.stderr and "; --force approves it" in done.stderr
    assert api.run("requests", "approve", "csr-1", "--force").returncode == 0 and [entry["type"] for entry in conditions(api)] == ["Approved"]
    assert api.objects.look(f"{LEASES}/node-bootstrap-token-{TOKEN}")["spec"]["holderIdentity"] == "another"


def test_a_request_that_cannot_be_read_may_have_used_the_token(api):
    put_token(api)
    put_csr(api)
    api.objects.put(f"{CSRS}/csr-2", spec={"extra": {f"key-{number}": [] for number in range(20001)}})
    done = api.run("requests", "approve", "csr-1")
    assert done.returncode == 65 and "admin-request-suspicious" in done.stderr and TOKEN in done.stderr and conditions(api) == []
    assert api.run("requests", "approve", "csr-1", "--force").returncode == 0 and [entry["type"] for entry in conditions(api)] == ["Approved"]


def publish(api):
    assert api.run("cluster-info", "publish", "--server=https://api.example.org:6443").returncode == 0


@pytest.mark.parametrize("policy, has_token, text, remedy", [
    (None, True, "there is no ConfigMap kube-system/node-bootstrap-policy", publish),
    ({"a": "b"}, True, "The policy cannot be used", lambda api: api.objects.put(POLICY, data={})),
    ({"requireProof": "true"}, True, "Node worker-1 is not enrolled", lambda api: api.objects.put(POLICY, data={})),
    ({}, False, "does not exist any more", put_token),
], ids=["no policy", "policy", "not enrolled", "no token"])
@pytest.mark.parametrize("is_forced", [False, True], ids=["corrected", "forced"])
def test_what_is_missing_does_not_make_a_request_look_forged(api, policy, has_token, text, remedy, is_forced):
    if has_token:
        put_token(api)
    put_csr(api, created=5)
    api.objects.put(POLICY, data=policy) if policy is not None else api.objects.remove(POLICY)
    [item] = csrs.pending(api.run("requests", "list", "--output=json").stdout).values()
    assert text in item["verdict"] and "FORGED" not in item["verdict"]
    done = api.run("requests", "approve", "csr-1")
    assert done.returncode == 65 and "admin-request-blocked" in done.stderr and text in done.stderr and "; --force approves it" in done.stderr
    assert "forged" not in done.stderr.lower() and "requests deny" not in done.stderr and "cluster-info publish" in done.stderr and conditions(api) == []
    if not is_forced:
        remedy(api)
    done = api.run("requests", "approve", "csr-1", *["--force"] * is_forced)
    assert done.returncode == 0 and [entry["type"] for entry in conditions(api)] == ["Approved"], done.stderr


def test_what_is_no_api_server(api):
    """The remedy is for an administrator with a kubeconfig, not for a machine that joins."""
    put_csr(api)
    api.on("list secrets", lambda _: Reply(200, b"\x1b[31m<html>captive</html>"))
    done = api.run("requests", "list", "--output=json")
    assert done.returncode == 65 and "admin-answer-malformed: listing the tokens" in done.stderr and "kubectl get --raw /version" in done.stderr
    assert "discovery.endpoints" not in done.stderr and "\x1b" not in done.stderr


@pytest.mark.parametrize("verb", ["list certificatesigningrequests", "list secrets", "get nodes", "list leases"])
def test_missing_permission_is_named(api, verb):
    put_token(api)
    put_csr(api)
    api.denied.add(verb)
    done = api.run("requests", "list", "--output=json")
    assert done.returncode == 77 and "kubernetes-admin" in done.stderr and verb.split()[0] in done.stderr and verb.split()[1] in done.stderr


@pytest.mark.parametrize("verb", ["create leases", "patch certificatesigningrequests/approval"])
def test_nothing_is_approved_without_permission(api, verb):
    put_token(api)
    put_csr(api)
    api.denied.add(verb)
    assert api.run("requests", "approve", "csr-1").returncode == 77 and conditions(api) == []


def test_hostile_values_do_not_reach_the_terminal(api):
    put_token(api, description="\x1b[2Kok\n")
    put_csr(api)
    put_csr(api, "csr-2", username="\x1b[31mroot\n    ok: all is well")
    put_csr(api, "csr-3", request=b"-----BEGIN CERTIFICATE REQUEST-----\n\x1b[2K\n-----END CERTIFICATE REQUEST-----\n")
    put_csr(api, "csr-\x1b[2K")
    put_csr(api, "    ok: it is fine")
    done = api.run("requests", "list", "--output=json")
    assert done.returncode == 0 and "\x1b" not in done.stdout + done.stderr
    made = csrs.pending(done.stdout)
    assert {name: item["suspicious"] for name, item in made.items()} == {
        "csr-1": False, "csr-2": True, "csr-3": True, "csr-\x1b[2K": False, "    ok: it is fine": False}
    done = api.run("requests", "list")
    assert done.returncode == 0 and "\x1b" not in done.stdout + done.stderr
    rows = done.stdout.split("\nNAME ")[1].splitlines()[1:]
    assert len(rows) == 5 and sorted(row.split()[0] for row in rows) == ["'", "'csr-", "csr-1", "csr-2", "csr-3"]
    assert "'system:bootstrap" not in done.stdout and "' [31mroot     ok: all is well'" in done.stdout
    # A name that a script could take for two is left out.
    put_csr(api, "csr-9\ncsr-1")
    done = api.run("requests", "list", "--output=name")
    assert sorted(done.stdout.split()) == ["csr-1", "csr-2", "csr-3"] and "unusual characters, which only --output=json shows: 3" in done.stderr


@pytest.mark.parametrize("decision", ["approve", "deny"])
def test_a_decision_on_a_hostile_name_is_one_line(api, decision):
    put_token(api)
    put_csr(api, "x\nsystem-ok approved\x1b[31m")
    for repeated in range(2):
        selection = ["x\nsystem-ok approved\x1b[31m"] if repeated else [f"--token={TOKEN}", "--expect=1"]
        done = api.run("requests", decision, *selection)
        assert done.returncode == 0 and "\x1b" not in done.stdout and len(done.stdout.splitlines()) == 1, done.stderr
        assert "'x system-ok approved [31m'" in done.stdout


def test_a_request_of_any_name_can_be_approved(api):
    """As Kubernetes accepts it; "approve" is a segment of a path."""
    put_token(api)
    put_csr(api, "a b?c#d")
    done = api.run("requests", "approve", "a b?c#d")
    assert done.returncode == 0, done.stderr
    assert [entry["type"] for entry in conditions(api, "a b?c%23d")] == ["Approved"]
    for name in ("..", "a/b", "a%2Fb"):
        assert api.run("requests", "approve", name).returncode == 64


def test_long_list(api):
    """Several pages, with what is not to be shown between."""
    put_token(api)
    for number in range(450):
        csr = put_csr(api, f"csr-{number}", request=b"x")
        if number % 3 == 0:
            api.objects.put(f"{CSRS}/csr-{number}", spec=csr["spec"], status={"conditions": [{"type": "Approved", "status": "True"}]})
    done = api.run("requests", "list", "--output=json", timeout=60)
    assert done.returncode == 0 and len(csrs.pending(done.stdout)) == 300


def fill(api, number, node="n{}", **options):
    """Requests from the newest to the oldest, a second or two apart, since the clock goes on."""
    pems = [pki.sign_csr(pki.new_key(), pki.node_user(node.format(index))) for index in range(min(number, 50))]
    for index in range(number):
        Cluster(api).request(f"many-{index}", "", pem=pems[index % 50], created=-2 * index, **options)


def test_many_requests(api):
    """The facts are listed once, and only the Nodes of the rows are read."""
    put_token(api, node=None)
    put_csr(api, "one")
    Cluster(api).policy(requireProof="true")
    fill(api, 10000, token_id="aaaaaa", user="system:bootstrap:aaaaaa")
    put_csr(api, "two", username="joiner")
    done = api.run("requests", "list")
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and len(lines) <= 60
    assert re.fullmatch("system:bootstrap:aaaaaa: 10000 pending, oldest [0-9a-z ]+: 10000 TokenMissing", lines[0])
    counts = [re.sub(" oldest [0-9a-z ]+:", "", line) for line in lines[1:3]]
    assert sorted(counts) == ["joiner: 1 pending, 1 NotAToken", f"system:bootstrap:{TOKEN}: 1 pending, 1 NotEnrolled"] and lines[3] == ""
    assert [line.split()[0] for line in lines[5:55]] == [f"many-{9999 - index}" for index in range(50)], "the oldest first"
    assert "the oldest 50 of 10002; --limit=0 shows all" in lines[-1]
    assert len(api.seen("get nodes")) == 50 and not api.seen("get secrets") and len(api.requests) < 120


def test_requests_are_selected(api):
    put_token(api)
    put_csr(api)
    put_csr(api, "csr-2", node="worker-2")
    put_csr(api, "csr-3", node="worker-3", username="joiner")
    Cluster(api).node("worker-1", "False")
    submit(api, "serving", "worker-1", node="worker-1")

    def names(*options):
        return set(api.run("requests", "list", "--output=name", *options).stdout.split())
    assert names() == {"csr-1", "csr-2", "csr-3", "serving"} and names("--kind=serving") == {"serving"}
    assert names(f"--token={TOKEN}") == {"csr-1", "csr-2"} and names(f"--token={TOKEN}", "--node=worker-2") == {"csr-2"}
    assert names("--reason=TokenForAnotherNode") == {"csr-2"} and names("--reason=NotAToken") == {"csr-3"} and names("--reason=ok") == {"csr-1"}
    assert "the oldest 2 of 4" in api.run("requests", "list", "--limit=2").stdout and "no such request" in api.run("requests", "list", "--node=a").stdout
    # A Node that is Ready decides, too.
    Cluster(api).node("worker-1")
    assert names("--reason=ok") == set() and names("--reason=NodeReady") == {"csr-1"}


@pytest.mark.parametrize("words", [
    ["list", "csr-1"], ["list", "--token=abc"], ["list", f"--token={TOKEN}.0123456789abcdef"], ["list", "--kind=node"], ["list", "--reason=ready"],
    ["list", "--limit=x"], ["list", "--output=yaml"], ["approve"], ["deny"], ["approve", "--force"], ["approve", f"--token={TOKEN}"],
    ["approve", "--expect=1"], ["approve", "csr-1", "--expect=1"], ["approve", "csr-1", "--kind=client", "--expect=1"],
    ["approve", "--kind=client", "--expect=1", "--force"], ["deny", "--kind=client", "--expect="],
], ids=" ".join)
def test_usage(api, words):
    done = api.run("requests", *words)
    assert done.returncode == 64 and not api.requests and "0123456789abcdef" not in done.stderr


@pytest.mark.parametrize("decision, state", [("approve", "Approved"), ("deny", "Denied")])
def test_a_selection_is_decided_on_if_it_is_as_many_as_expected(api, decision, state):
    put_token(api)
    key = pki.new_key()
    for name in ("csr-1", "csr-2"):
        Cluster(api).request(name, "worker-1", TOKEN, user=f"system:bootstrap:{TOKEN}", groups=["system:bootstrappers"], key=key)
    put_csr(api, "other", username="joiner")
    for number in (1, 3):
        done = api.run("requests", decision, f"--token={TOKEN}", f"--expect={number}")
        assert done.returncode == 75 and f"expected {number} requests, found 2" in done.stderr and done.stdout == ""
    done = api.run("requests", decision, f"--token={TOKEN}", "--expect=2")
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 2, done.stderr
    assert [[entry["type"] for entry in conditions(api, name)] for name in ("csr-1", "csr-2", "other")] == [[state], [state], []]


def test_a_selection_is_never_forced(api):
    """One request that is not allowed, and none is approved."""
    put_token(api)
    put_csr(api)
    put_csr(api, "csr-2", node="worker-2")
    done = api.run("requests", "approve", f"--token={TOKEN}", "--expect=2")
    assert done.returncode == 65 and "csr-2: FORGED?" in done.stderr and conditions(api) == conditions(api, "csr-2") == []


@pytest.mark.parametrize("words", [[f"--token={TOKEN}", "--expect=2"], ["thief", "machine"], ["machine", "thief"]], ids=["selected", "named", "reversed"])
def test_two_keys_of_one_token_are_not_decided_on_together(api, words):
    """Otherwise the one that submitted its request first would get the certificate, which may be a thief."""
    put_token(api)
    for name in ("thief", "machine"):
        put_csr(api, name)
    done = api.run("requests", "approve", *words)
    assert done.returncode == 65 and done.stdout == "" and "is for one use" in done.stderr and "thief" in done.stderr and "machine" in done.stderr
    assert not [request for request in api.requests if request.method != "GET"]


def test_a_token_that_was_used_ends_all_that_are_decided_on_together(api):
    """Somebody approved a request without a claim, so only the list of the requests shows it."""
    cluster = Cluster(api)
    for token_id, node in (("aaaaaa", "n1"), ("bbbbbb", "n2")):
        cluster.token(token_id, node, created=-100)
        cluster.request(f"csr-{node}", node, token_id)
    cluster.request("thief", "n2", "bbbbbb", approved=True)
    done = api.run("requests", "approve", "csr-n1", "csr-n2")
    assert done.returncode == 65 and "another request has used it (thief)" in done.stderr and done.stdout == ""
    assert conditions(api, "csr-n1") == []


def nest(depth):
    return {"f:a": nest(depth - 1)} if depth else {}


@pytest.mark.parametrize("metadata", [
    {"annotations": {"a": "x\0y"}}, {"managedFields": [{"fieldsV1": nest(40)}]},
    {"ownerReferences": [{"uid": str(number)} for number in range(21000)]}, {"ownerReferences": [{"uid": "x" * 1500000}] * 2},
], ids=["NUL", "deep", "many", "large"])
def test_object_that_cannot_be_read_hides_no_other(api, metadata):
    """Whoever may submit a request can make such an object; the API server accepts all of these."""
    put_token(api)
    for name in ("csr-1", "csr-3"):
        put_csr(api, name)
    api.objects.put(f"{CSRS}/csr-2", metadata=metadata, spec=api.objects.look(f"{CSRS}/csr-1")["spec"])
    done = api.run("requests", "list", "--output=json")
    assert done.returncode == 0 and {"csr-1", "csr-3"} <= set(csrs.pending(done.stdout)) <= {"csr-1", "csr-2", "csr-3"}
    assert ("ignoring this object" in done.stderr) == ("csr-2" not in done.stdout)


def test_large_objects_cost_few_requests(api):
    """A page that is above the limits costs the API server much, so it is not tried again for each of them."""
    put_token(api)
    put_csr(api)
    for number in range(6):
        api.objects.put(f"{CSRS}/large-{number}", metadata={"ownerReferences": [{"uid": "x" * 8000000}]}, spec=api.objects.look(f"{CSRS}/csr-1")["spec"])
    done = api.run("requests", "list", "--output=json")
    assert done.returncode == 0 and len(csrs.pending(done.stdout)) == 7
    assert sum(request.kind == "list certificatesigningrequests" for request in api.requests) <= 20


def test_unusable_record(api):
    """It is said where it matters, and the other nodes are shown."""
    put_token(api)
    put_csr(api)
    put_csr(api, "csr-2", node="worker-2")
    api.objects.put(f"{SECRETS}/node-bootstrap-node-worker-1", type="node-bootstrap/enrolled-node", data={"node": "d29ya2VyLTI="})
    made = csrs.pending(api.run("requests", "list", "--output=json").stdout)
    assert "The record of node worker-1 cannot be used" in made["csr-1"]["verdict"] and "is for node worker-1" in made["csr-2"]["verdict"]
    assert api.run("requests", "approve", "csr-1").returncode == 65 and conditions(api) == []


@pytest.mark.parametrize("answer, status", [
    (faults.PORTAL, 65), (faults.error(409, "Conflict", "not now"), 65), (faults.error(403, "Forbidden", "no"), 77), (faults.INTERNAL, 69),
], ids=["no JSON", "conflict", "forbidden", "failure"])
def test_a_record_that_is_not_read_is_never_overridden(api, answer, status):
    """It may require a proof. --force approves a request only in spite of what is known."""
    put_token(api)
    put_csr(api)
    api.on("get secrets", lambda request: answer(request) if request.place.name.startswith("node-bootstrap-node-") else None)
    for options in ([], ["--force"]):
        done = api.run("requests", "approve", "csr-1", *options)
        assert done.returncode == status and "RecordUnusable" not in done.stderr and "record of node" not in done.stderr, done.stderr
        assert conditions(api) == []


def test_no_node_gets_the_certificate_of_another(api):
    """A compromised node may create requests. Another user may be a way to join of this cluster's own, which --force allows."""
    put_csr(api, "bad", username="system:node:worker-2", groups=["system:nodes"])
    done = api.run("requests", "approve", "bad", "--force")
    assert done.returncode == 65 and "FORGED?" in done.stderr and "--force approves" not in done.stderr and conditions(api, "bad") == []
    put_csr(api, "other", username="joiner")
    done = api.run("requests", "approve", "other")
    assert done.returncode == 65 and "unknown requestor: 'joiner'" in done.stderr and "FORGED" not in done.stderr
    assert api.run("requests", "approve", "other", "--force").returncode == 0


@pytest.mark.parametrize("user", ["system:serviceaccount:kube-system:joiner", "joiner", "kubelet-bootstrap"], ids=["account", "certificate", "static"])
def test_a_requestor_that_the_policy_lists_is_to_be_checked(api, user):
    """The join methods without a bootstrap token, which only an administrator approves. A node is never such a user."""
    api.objects.put(POLICY, data={"requestors": "another,system:serviceaccount:kube-system:joiner,joiner,kubelet-bootstrap,system:node:worker-2"})
    put_csr(api, username=user)
    put_csr(api, "csr-2", username=user + "x")
    put_csr(api, "csr-3", username="system:node:worker-2", groups=["system:nodes"])
    made = csrs.pending(api.run("requests", "list", "--output=json").stdout)
    assert [item["verdict"].partition(":")[0] for item in made.values()] == ["check it", "unknown requestor", "FORGED? another node, 'system"]
    assert api.run("requests", "approve", "csr-1").returncode == 0 and api.run("requests", "approve", "csr-2").returncode == api.run("requests", "approve", "csr-3").returncode == 65


@pytest.mark.parametrize("missing, reason", [
    ("proof", "AttestationMissing"), ("record", "NotEnrolled"), ("usable record", "RecordUnusable"), ("free name", "NodeReady"), (None, "check"),
])
def test_a_listed_requestor_needs_what_the_policy_and_the_record_require(api, missing, reason):
    """It only needs no token: otherwise whoever may submit requests could take an enrolled node over."""
    cluster, key = Cluster(api), pki.new_key()
    cluster.policy(requireProof="true", requestors="joiner")
    if missing == "usable record":
        cluster.record("worker-1", node="worker-2")
    elif missing != "record":
        cluster.enroll("worker-1", key)
    if missing == "free name":
        cluster.node("worker-1")
    pem = pki.sign_csr(pki.new_key(), pki.node_user("worker-1"), [pki.NODES])
    put_csr(api, username="joiner", request=pem if missing == "proof" else pem + pki.prove(key, pem, ""))
    assert api.run("requests", "list", "--output=name", f"--reason={reason}").stdout.split() == ["csr-1"]
    done = api.run("requests", "approve", "csr-1")
    assert (done.returncode, len(conditions(api))) == ((65, 0) if missing else (0, 1)), done.stderr


def test_a_failure_belongs_to_its_row(api):
    """The others are shown, and the status says that one is not known."""
    put_token(api)
    put_csr(api)
    put_csr(api, "csr-2")
    api.on("get nodes", faults.error(400, "BadRequest", "not now"), times=1)
    done = api.run("requests", "list", "--output=json")
    made = csrs.pending(done.stdout)
    assert made["csr-1"]["suspicious"] and "not now" in made["csr-1"]["verdict"] and not made["csr-2"]["suspicious"]
    assert done.returncode == 65 and "not now" in done.stderr


def test_a_record_is_for_one_node(api):
    """The name of a long record has a hash, which another node may have as its name."""
    long = ".".join(["n" * 60] * 4)
    node = hashlib.sha256(long.encode()).hexdigest()
    put_token(api, node=node)
    put_csr(api, node=node)
    Cluster(api).record(node, node=long, publicKey=pki.public_pem(pki.new_key()).decode())
    [item] = csrs.pending(api.run("requests", "list", "--output=json").stdout).values()
    assert "it is the record of another node" in item["verdict"]


@pytest.mark.parametrize("policy, text", [({}, "is unbound"), ({"requireProof": "true"}, "is not enrolled"), ({"requireProof": "1"}, "The policy cannot be used")])
def test_unbound_token_with_a_policy(api, policy, text):
    """What the controller leaves to others is an administrator's decision, by the same policy."""
    put_token(api, node=None)
    put_csr(api, groups=["system:bootstrappers:kubeadm:default-node-token"])
    api.objects.put("/api/v1/namespaces/kube-system/configmaps/node-bootstrap-policy", data=policy)
    [item] = csrs.pending(api.run("requests", "list", "--output=json").stdout).values()
    assert item["suspicious"] == bool(policy) and text in item["verdict"]


def test_the_documented_policy_is_usable(api):
    [example] = documentation.examples("policy")
    document = yaml.safe_load(example.text)
    put_token(api)
    put_csr(api)
    api.objects.put("/api/v1/namespaces/kube-system/configmaps/" + document["metadata"]["name"], data=document["data"])
    [item] = csrs.pending(api.run("requests", "list", "--output=json").stdout).values()
    assert "Node worker-1 is not enrolled" in item["verdict"]


def test_server_away(api):
    put_csr(api)
    api.on("patch certificatesigningrequests/approval", faults.INTERNAL)
    put_token(api)
    done = api.run("requests", "approve", "csr-1")
    assert done.returncode == 69 and conditions(api) == []
