# SPDX-License-Identifier: Apache-2.0
"""The scripted API that the tests of node-bootstrap-admin rely on: what a Kubernetes API server answers."""

import http.client
import json
import ssl

import pytest

from common import faults
from . import admin

SECRETS = "/api/v1/namespaces/kube-system/secrets"
CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"


@pytest.fixture
def call(api):
    """call(method, path, object) -> (status, object)"""
    context = ssl.create_default_context(cadata=api.cluster.ca.pem.decode())
    connection = http.client.HTTPSConnection(api.host, api.port, context=context, timeout=10)

    def perform(method, path, obj=None, token=admin.TOKEN_OF_ADMIN, **headers):
        headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {}), **headers}
        connection.request(method, path, json.dumps(obj) if obj is not None else None, headers)
        answer = connection.getresponse()
        if "watch=true" in path:
            return answer.status, answer
        return answer.status, json.loads(answer.read())
    yield perform
    connection.close()


def named(name, **fields):
    return {"metadata": {"name": name}, **fields}


def test_objects_are_created_read_changed_and_deleted(call):
    status, made = call("POST", SECRETS, named("one", stringData={"a": "b"}, type="x"))
    assert (status, made["kind"], made["data"], made["metadata"]["namespace"]) == (201, "Secret", {"a": "Yg=="}, "kube-system")
    status, again = call("POST", SECRETS, named("one"))
    assert (status, again["reason"]) == (409, "AlreadyExists")
    merge = {"Content-Type": "application/merge-patch+json"}
    status, changed = call("PATCH", SECRETS + "/one", {"data": {"c": "ZA=="}}, **merge)
    assert (status, changed["data"], changed["metadata"]["uid"]) == (200, {"a": "Yg==", "c": "ZA=="}, made["metadata"]["uid"])
    for metadata in ({"resourceVersion": made["metadata"]["resourceVersion"]}, {"uid": "other"}):
        assert call("PATCH", SECRETS + "/one", {"metadata": metadata}, **merge)[1]["reason"] == "Conflict"
    assert call("DELETE", SECRETS + "/one", {"preconditions": {"uid": "other"}})[0] == 409
    assert call("DELETE", SECRETS + "/one", {"preconditions": {"uid": made["metadata"]["uid"]}})[0] == 200
    status, missing = call("GET", SECRETS + "/one")
    assert (status, missing["kind"], missing["message"]) == (404, "Status", 'secrets "one" not found')


def test_names_are_generated(call):
    status, made = call("POST", SECRETS, {"metadata": {"generateName": "x-"}})
    assert status == 201 and len(made["metadata"]["name"]) == 7
    assert call("POST", SECRETS, {"metadata": {}})[0] == 422


def test_the_owned_goes_with_its_owner(call):
    _, owner = call("POST", SECRETS, named("owner"))
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
    call("POST", leases, {"metadata": {"name": "owned", "ownerReferences": [{"uid": owner["metadata"]["uid"]}]}})
    assert call("GET", leases + "/owned")[0] == 200
    call("DELETE", SECRETS + "/owner")
    assert call("GET", leases + "/owned")[0] == 404


def test_an_approval_changes_the_status_alone(call):
    call("POST", CSRS, named("csr", spec={"request": "old"}))
    _, csr = call("PATCH", CSRS + "/csr/approval", {"spec": {"request": "new"}, "status": {"conditions": [{"type": "Approved"}]}},
                  **{"Content-Type": "application/merge-patch+json"})
    assert (csr["spec"]["request"], csr["spec"]["username"]) == ("old", admin.ADMIN)
    condition, = csr["status"]["conditions"]
    assert condition.pop("lastUpdateTime") and condition == {"type": "Approved"}


def test_lists_are_selected_and_come_page_by_page(api, call):
    for i in range(5):
        api.objects.put(f"{SECRETS}/s{i}", type="a" if i < 4 else "b")
    query = SECRETS + "?fieldSelector=type%3Da&limit=3"
    _, first = call("GET", query)
    _, second = call("GET", f"{query}&continue={first['metadata']['continue']}")
    assert [item["metadata"]["name"] for page in (first, second) for item in page["items"]] == ["s0", "s1", "s2", "s3"]
    assert "continue" not in second["metadata"] and first["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"]
    api.objects.put(f"{SECRETS}/s9")
    api.objects.compact()
    assert call("GET", f"{query}&continue={first['metadata']['continue']}")[0] == 410


def test_a_watch_continues_sends_bookmarks_and_expires(api, call):
    _, made = call("POST", SECRETS, named("one"))
    api.objects.put(f"{SECRETS}/two", type="t")
    api.objects.put(f"{SECRETS}/three", type="other")
    _, stream = call("GET", f"{SECRETS}?watch=true&allowWatchBookmarks=true&fieldSelector=type%3Dt"
                     f"&resourceVersion={made['metadata']['resourceVersion']}")
    events = [json.loads(stream.readline()) for _ in range(2)]
    assert [event["type"] for event in events] == ["ADDED", "BOOKMARK"]
    assert events[0]["object"]["metadata"]["name"] == "two"
    api.objects.remove(f"{SECRETS}/two")
    assert json.loads(stream.readline())["type"] == "DELETED"
    stream.close()


def test_an_old_version_is_gone(api, call):
    api.objects.put(f"{SECRETS}/one")
    api.objects.compact()
    _, stream = call("GET", f"{SECRETS}?watch=true&resourceVersion=1000")
    event = json.loads(stream.readline())
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


def test_users_and_permissions(api, call):
    assert call("GET", SECRETS, token="unknown")[0] == 401
    assert 'User "system:anonymous" cannot list resource "secrets"' in call("GET", SECRETS, token=None)[1]["message"]
    api.anonymous.add("list secrets")
    assert call("GET", SECRETS, token=None)[0] == 200
    api.denied.add("create secrets")
    assert call("POST", SECRETS, named("one"))[0] == 403
    api.on("list secrets", faults.INTERNAL, times=1)
    assert [call("GET", SECRETS)[0] for _ in range(2)] == [500, 200]
