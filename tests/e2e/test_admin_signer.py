# SPDX-License-Identifier: Apache-2.0
"""The controller's signer and cleaner in place of kube-controller-manager's, and beside them."""

import contextlib
import json
import time

import pytest

from common.wait import until
from .harness import controlplane

ATTENDED = (*controlplane.UNATTENDED, "bootstrapsigner", "tokencleaner")
PARTS = "--parts=signer,cleaner"


@pytest.fixture
def cluster(unattended_cluster):
    yield unattended_cluster
    for secret in unattended_cluster.request("GET", controlplane.SECRETS)["items"]:
        unattended_cluster.request("DELETE", f"{controlplane.SECRETS}/{secret['metadata']['name']}")


@contextlib.contextmanager
def native(cluster):
    """kube-controller-manager signs and cleans up."""
    def restart(enabled):
        cluster.enabled = enabled
        cluster.end("kube-controller-manager")
        cluster.spawn_controllers()
    restart(ATTENDED)
    try:
        yield
    finally:
        restart(controlplane.UNATTENDED)


def version(cluster):
    return cluster.request("GET", controlplane.CLUSTER_INFO)["metadata"]["resourceVersion"]


def writes_since(cluster, since):
    """The states of cluster-info after this version; the watch ends when it has been silent for a second."""
    query = f"watch=true&resourceVersion={since}&fieldSelector=metadata.name%3Dcluster-info&timeoutSeconds=1"
    lines = cluster.request("GET", f"{controlplane.CLUSTER_INFO.rpartition('/')[0]}?{query}", raw=True).splitlines()
    return [json.loads(line)["object"]["data"] for line in lines]


def signatures(data):
    return {key: value for key, value in data.items() if key.startswith("jws-kubeconfig-")}


def secret_exists(cluster, token):
    return cluster.find(f"{controlplane.SECRETS}/bootstrap-token-{token.id}")


def test_signatures_equal_those_of_kubernetes(cluster, administer):
    """bootstrapsigner computes all signatures again, and finds nothing to write but the one of the last token."""
    with administer(cluster).controller(PARTS):
        tokens = [cluster.token() for _ in range(3)]
        odd = cluster.token(token=controlplane.Token("odd000", "a secret of another form"))
        ours = signatures(cluster.cluster_info())
        assert {f"jws-kubeconfig-{token.id}" for token in [*tokens, odd]} <= set(ours)
    since = version(cluster)
    with native(cluster):
        last = cluster.token()
    [after] = until(lambda: writes_since(cluster, since), "the watch tells it before it ends")
    theirs = signatures(after)
    key = f"jws-kubeconfig-{last.id}"
    assert {k: v for k, v in theirs.items() if k != key} == ours
    cluster.remove_signatures()
    with administer(cluster).controller(PARTS):
        until(lambda: signatures(cluster.cluster_info()) == theirs, "cluster-info is signed again")


def test_expired_tokens_go(cluster, administer):
    """With their signatures, and not before their time."""
    with administer(cluster).controller(PARTS) as controller:
        lasting, broken = cluster.token(), cluster.token()
        brief = cluster.token()
        cluster.patch_token(broken, {"expiration": "tomorrow"})
        until(lambda: not secret_exists(cluster, broken), "the token with an unreadable expiration is gone", pause=0.02)
        expires = cluster.expire_token(brief, 3)
        until(lambda: not secret_exists(cluster, brief), "the expired token is gone", pause=0.02)
        assert expires - 1 <= time.time(), controller.log()
        until(lambda: not {f"jws-kubeconfig-{token.id}" for token in (broken, brief)} & set(cluster.cluster_info()),
              "their signatures are gone")
        assert secret_exists(cluster, lasting) and f"jws-kubeconfig-{lasting.id}" in cluster.cluster_info()


def test_side_by_side_they_do_not_fight(cluster, administer):
    """Every change is written once, and by one of them."""
    with native(cluster), administer(cluster).controller(PARTS) as controller:
        cluster.token()
        since = version(cluster)
        tokens = [cluster.token() for _ in range(8)]
        for token in tokens[:4]:
            cluster.delete_token(token)
        brief = cluster.token()
        cluster.expire_token(brief, 1)
        until(lambda: not secret_exists(cluster, brief) and f"jws-kubeconfig-{brief.id}" not in cluster.cluster_info(),
              "the expired token is gone with its signature")
        with cluster.naming("192.0.2.77:6443"):
            pass
        changes = 8 + 4 + 2 + 2 * 2     # naming() writes cluster-info itself, twice
        until(lambda: not writes_since(cluster, version(cluster)), "nobody writes any more")
        states = writes_since(cluster, since)
        assert len(states) <= changes, [sorted(signatures(state)) for state in states]
        assert controller.log().count("signatures of cluster-info") <= 2, controller.log()
