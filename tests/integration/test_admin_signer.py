# SPDX-License-Identifier: Apache-2.0
"""The controller's signer and cleaner against a scripted API: what they write, and what they leave alone."""

import base64
import datetime
import json
import threading
import time

import pytest

from common import apiserver, faults, machine, pki, wait
from common.wait import until
from . import admin
from .objects import PATIENCE

SECRETS = "/api/v1/namespaces/kube-system/secrets"
CLUSTER_INFO = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
WRITES = "patch configmaps"


def at(seconds):
    return (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def put_token(api, token_id="abc123", secret="0123456789abcdef", **more):
    """More data; None leaves a key out."""
    data = {"token-id": token_id, "token-secret": secret, "usage-bootstrap-signing": "true", **more}
    data = {key: base64.b64encode(value.encode()).decode() for key, value in data.items() if value is not None}
    return api.objects.put(f"{SECRETS}/bootstrap-token-{token_id}", type="bootstrap.kubernetes.io/token", data=data)


def put_info(api, **data):
    return api.objects.put(CLUSTER_INFO, data={"kubeconfig": "payload", **data})


def info(api):
    return api.objects.look(CLUSTER_INFO)["data"]


def signatures(api):
    return {key.removeprefix("jws-kubeconfig-"): value for key, value in info(api).items() if key.startswith("jws-")}


@pytest.fixture
def run(api):
    """run("signer") -> the running controller with this part alone"""
    running = []

    def start(*parts, env=None, user=None):
        kubeconfig = api.kubeconfig(user=user) if user else api.kubeconfig()
        running.append(admin.Running("controller", "--kubeconfig", kubeconfig, "--parts", ",".join(parts), env=env))
        return running[-1]
    yield start
    for process in running:
        process.stop()


def test_signatures_are_those_of_kubernetes(api, run):
    """The known answer of kubernetes cluster-bootstrap/token/jws/jws_test.go."""
    put_info(api)
    put_token(api, secret="tokenSecret")
    controller = run("signer")
    api.objects.wait(lambda: signatures(api))
    assert signatures(api) == {"abc123": "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFiYzEyMyJ9..QSxpUG7Q542CirTI2ECPSZjvBOJURUW5a7XqFpNI958"}
    assert info(api)["kubeconfig"] == "payload"
    assert "tokenSecret" not in "".join(controller.lines)


def test_tokens_count_as_for_kubernetes(api, run):
    put_info(api, **{"jws-kubeconfig-gone00": "x", "jws-kubeconfig-": "y", "other": "z"})
    put_token(api, "valid0", expiration=at(3600))
    put_token(api, "valid1", "another length")
    put_token(api, "expire", expiration=at(-1))
    put_token(api, "unread", expiration="tomorrow")
    put_token(api, "nosign", **{"usage-bootstrap-signing": None})
    put_token(api, "empty0", "")
    api.objects.put(f"{SECRETS}/bootstrap-token-misfit", api.objects.look(f"{SECRETS}/bootstrap-token-valid0"),
                    metadata={"name": "bootstrap-token-misfit"})
    run("signer")
    wanted = {"valid0": pki.jws("payload", "valid0", "0123456789abcdef"), "valid1": pki.jws("payload", "valid1", "another length")}
    api.objects.wait(lambda: signatures(api) == wanted)
    assert info(api)["other"] == "z" and "jws-kubeconfig-" not in info(api)
    assert len(api.seen(WRITES)) == 1
    body = api.seen(WRITES)[0].json()
    assert body["data"]["jws-kubeconfig-gone00"] is None and "kubeconfig" not in body["data"] and body["metadata"]["resourceVersion"]


def test_a_change_is_followed(api, run):
    put_info(api)
    put_token(api, "first0")
    run("signer")
    api.objects.wait(lambda: set(signatures(api)) == {"first0"})
    put_token(api, "second")
    api.objects.wait(lambda: set(signatures(api)) == {"first0", "second"})
    put_info(api, kubeconfig="another", **{f"jws-kubeconfig-{key}": value for key, value in signatures(api).items()})
    api.objects.wait(lambda: signatures(api) == {key: pki.jws("another", key, "0123456789abcdef") for key in ("first0", "second")})
    api.objects.remove(f"{SECRETS}/bootstrap-token-first0")
    api.objects.wait(lambda: set(signatures(api)) == {"second"})


def test_a_stop_reports_no_error(api, run):
    """The records of tokens are freed when the signer has ended."""
    put_info(api)
    for token_id in ("abc123", "def456"):
        put_token(api, token_id)
    process = run("signer")
    until(lambda: signatures(api).keys() == {"abc123", "def456"}, "both signatures", PATIENCE)
    assert process.stop() == 0 and not [line for line in process.lines if " error " in line or "memory" in line]


def test_what_is_right_is_not_written(api, run):
    """The controller looks again after its watch tells of the unrelated change."""
    put_info(api, **{"jws-kubeconfig-abc123": pki.jws("payload", "abc123", "0123456789abcdef")})
    put_token(api)
    run("signer")
    wait_seen(api, "get configmaps", 1)
    put_info(api, other="x", **{"jws-kubeconfig-abc123": pki.jws("payload", "abc123", "0123456789abcdef")})
    wait_seen(api, "get configmaps", 2)
    assert not api.seen(WRITES)


def wait_seen(api, kind, n, timeout=PATIENCE):
    until(lambda: len(api.seen(kind)) >= n, lambda: f"{kind}: {len(api.seen(kind))} of {n}", timeout)


def native_signer(api):
    """What bootstrapsigner does a moment after each change: it drops all signatures and computes them again."""
    def sign():
        old = info(api)
        new = {key: value for key, value in old.items() if not key.startswith("jws-")}
        for secret in api.objects.all(SECRETS):
            data = {key: base64.b64decode(value).decode() for key, value in secret["data"].items()}
            new[f"jws-kubeconfig-{data['token-id']}"] = pki.jws(new["kubeconfig"], data["token-id"], data["token-secret"])
        if new != old:
            api.objects.put(CLUSTER_INFO, data=new)

    def on_change(kind, obj):
        if obj["metadata"]["name"] == "cluster-info" or obj["metadata"]["name"].startswith("bootstrap-token-"):
            threading.Timer(0, sign).start()
    api.objects.on_change.append(on_change)


def test_kubernetes_own_signer_goes_first(api, run):
    """Beside it nothing is left to write."""
    put_info(api)
    native_signer(api)
    run("signer")
    tokens = [f"tok{n:03}" for n in range(4)]
    for token_id in tokens:
        put_token(api, token_id)
        wait_seen(api, "get configmaps", len(api.seen("get configmaps")) + 1)
    for change in ({"kubeconfig": "another"}, {"kubeconfig": "another", "other": "x"}):
        put_info(api, **change)
        wait_seen(api, "get configmaps", len(api.seen("get configmaps")) + 1)
    assert signatures(api) == {token_id: pki.jws("another", token_id, "0123456789abcdef") for token_id in tokens}
    assert not [request for request in api.seen(WRITES) if request.status != 409], "Kubernetes was faster each time"


def test_a_conflict_is_looked_at_again(api, run):
    put_info(api)
    put_token(api)
    api.on(WRITES, faults.error(409, "Conflict", "the object has been modified"), times=1)
    run("signer")
    api.objects.wait(lambda: signatures(api))
    assert len(api.seen(WRITES)) == 2


def test_many_signatures_are_written_in_pieces(api, run):
    """The body of a request is limited. Then another content is signed with all of them."""
    tokens = {f"{n:06}" for n in range(600)}
    for token_id in tokens:
        put_token(api, token_id)
    put_info(api)
    run("signer")
    api.objects.wait(lambda: set(signatures(api)) == tokens, 20)
    put_info(api, kubeconfig="another")
    api.objects.wait(lambda: set(signatures(api)) == tokens, 20)
    assert signatures(api)["000599"] == pki.jws("another", "000599", "0123456789abcdef")


def test_an_event_says_that_there_is_no_room_for_all_signatures(api, run):
    """Once, and not again with each change."""
    put_info(api)
    for n in range(5001):
        put_token(api, f"{n:06}")
    controller = run("signer")
    controller.wait_line("the oldest 1 tokens are left out", wait.PATIENCE)
    place = "/api/v1/namespaces/kube-public/events"
    event = api.objects.wait(lambda: api.objects.all(place))[0]
    told = event["involvedObject"]
    assert (told["kind"], told["namespace"], told["name"]) == ("ConfigMap", "kube-public", "cluster-info") and told["uid"]
    assert event["reason"] == "SignaturesLeftOut" and "room for 5000 signatures; the oldest 1 tokens" in event["message"]
    api.objects.wait(lambda: len(signatures(api)) >= 1000, 60)
    assert len(api.objects.all(place)) == 1


def test_without_cluster_info_nothing_is_signed(api, run):
    put_token(api)
    controller = run("signer")
    controller.wait_line("kube-public/cluster-info")
    put_info(api)
    api.objects.wait(lambda: signatures(api))
    assert sum("kube-public/cluster-info" in line for line in controller.lines) == 1


# The cleaner.

def names(api):
    return {secret["metadata"]["name"].removeprefix("bootstrap-token-") for secret in api.objects.all(SECRETS)}


def test_expired_tokens_go(api, run):
    put_token(api, "expire", expiration=at(-1))
    put_token(api, "unread", expiration="tomorrow")
    put_token(api, "odd000", "another length", expiration=at(-3600))
    put_token(api, "later0", expiration=at(3600))
    put_token(api, "never0")
    api.objects.put(f"{SECRETS}/other", type="Opaque", data={"expiration": base64.b64encode(at(-1).encode()).decode()})
    uid = api.objects.look(f"{SECRETS}/bootstrap-token-expire")["metadata"]["uid"]
    controller = run("cleaner")
    api.objects.wait(lambda: names(api) == {"later0", "never0", "other"})
    controller.wait_line("bootstrap-token-expire")
    bodies = [json.loads(request.body) for request in api.seen("delete secrets")]
    assert len(bodies) == 3 and uid in [body["preconditions"]["uid"] for body in bodies]


def test_a_token_goes_when_it_expires(api, run):
    gone = []
    api.objects.on_change.append(lambda kind, obj: gone.append(time.time()) if kind == "DELETED" and "abc123" in obj["metadata"]["name"] else None)
    run("cleaner")
    wait_seen(api, "watch secrets", 1)
    expires = int(time.time()) + 2
    put_token(api, expiration=datetime.datetime.fromtimestamp(expires, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"))
    api.objects.wait(lambda: gone)
    assert expires <= gone[0]


def test_a_new_expiration_counts(api, run):
    """It was changed between reading and deleting the Secret, and the name was used again."""
    put_token(api, expiration=at(-1))
    put_token(api, "other0", expiration=at(-1))

    def extend(_):
        put_token(api, expiration=at(3600))

    def replace(_):
        api.objects.remove(f"{SECRETS}/bootstrap-token-other0")
        put_token(api, "other0")
    api.on("delete secrets", lambda request: extend(request) if request.place.name.endswith("abc123") else replace(request), times=2)
    run("cleaner")
    put_token(api, "last00", expiration=at(1))
    api.objects.wait(lambda: "last00" not in names(api))
    assert names(api) == {"abc123", "other0"}


def test_a_secret_that_a_finalizer_keeps_is_deleted_once(api, run):
    put_token(api, expiration=at(-1))

    def keep(request):
        path = f"{SECRETS}/{request.place.name}"
        secret = api.objects.put(path, api.objects.look(path), metadata={"deletionTimestamp": at(0)})
        return apiserver.Reply(200, json.dumps(secret).encode())
    api.on("delete secrets", keep)
    controller = run("cleaner")
    controller.wait_line("bootstrap-token-abc123")
    for n in 0, 1:
        put_token(api, f"other{n}", expiration=at(-1))
        wait_seen(api, "delete secrets", 2 + n)
    assert [request.place.name for request in api.seen("delete secrets")] == [f"bootstrap-token-{name}" for name in ("abc123", "other0", "other1")]
    assert sum("bootstrap-token-abc123" in line for line in controller.lines) == 1


def test_nothing_goes_by_a_wrong_clock(api, run):
    """The clock is three years behind, and the expiration is before that."""
    api.cluster.ca = pki.CA(start=-5 * pki.YEAR)
    api.identity = api.cluster.ca.serving(start=-5 * pki.YEAR)
    put_token(api, expiration=at(-4 * pki.YEAR))
    controller = run("cleaner", user={"token": admin.TOKEN_OF_ADMIN}, env={**machine.fake_clock("-3y"), "FAKETIME_DONT_FAKE_MONOTONIC": "1"})
    controller.wait_line("no tokens are deleted until one of them is set")
    assert names(api) == {"abc123"} and not api.seen("delete secrets")


@pytest.mark.parametrize("hours", [3, -3])
def test_a_clock_that_is_wrong_removes_no_signature(api, run, hours):
    """Of this machine or of the API server: a token that seems expired by one of them may be in use."""
    put_info(api)
    put_token(api, expiration=at(9000 if hours > 0 else -1800))
    api.clock_offset = hours * 3600
    run("signer").wait_line("from that of the API server")
    api.objects.wait(lambda: signatures(api))
    put_token(api, "fence1")
    api.objects.wait(lambda: "fence1" in signatures(api))
    assert "abc123" in signatures(api)
