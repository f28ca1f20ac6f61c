# SPDX-License-Identifier: Apache-2.0
"""`node-bootstrap-admin token` beside a real control plane and the real kubeadm: each reads what the other writes."""

import itertools
import json
import re
import subprocess

import pytest

from common import pki
from common.wait import until
from .harness import controlplane

GROUP = "system:bootstrappers:node-bootstrap"
BINDING = f"{controlplane.BINDINGS}/node-bootstrap:kubelet-bootstrap"
SHAPES = [
    [],
    ["--ttl=90m"],
    ["--ttl=0"],
]
# kubeadm alone creates tokens like these.
KUBEADM_SHAPES = [
    ["--ttl=1h30m", "--usages=authentication", "--description=rack 4"],
    ["--usages=signing,authentication", "--groups=system:bootstrappers:a,system:bootstrappers:b-2"],
]
numbers = itertools.count(1)


@pytest.fixture(scope="module")
def admin(cluster, administer):
    yield administer(cluster)
    for binding in (BINDING, BINDING.replace("kubelet", "enrolled")):
        if cluster.find(binding):
            cluster.request("DELETE", binding)


def kubeadm(cluster, *words):
    done = subprocess.run([cluster.assets / "kubeadm", "token", *words, "--kubeconfig=admin.conf"], cwd=cluster.work, text=True,
                          capture_output=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def listed(cluster, admin, token):
    """The fields of a token, as kubeadm and as this program list it."""
    decoder, text, found = json.JSONDecoder(), kubeadm(cluster, "list", "-o", "json").strip(), {}
    while text:
        item, end = decoder.raw_decode(text)
        text = text[end:].strip()
        found[item["token"]] = item
    theirs = found[token]
    [line] = [line for line in admin.run("token", "list").splitlines() if line.startswith(token[:7])]
    assert line.split()[0] == f"{token[:6]}.{'*' * 16}" and token[7:] not in line
    ours = [field.strip() for field in re.split(r"\s{2,}", line)][1:]
    return [theirs.get("expires", "<never>"), ",".join(sorted(theirs["usages"])), theirs.get("description", "<none>"),
            ",".join(theirs.get("groups") or ["<none>"])], ours[:4], ours[4]


@pytest.mark.parametrize("words", KUBEADM_SHAPES, ids=" ".join)
def test_lists_what_only_kubeadm_creates(cluster, admin, words):
    theirs, ours, _ = listed(cluster, admin, kubeadm(cluster, "create", *words).strip())
    assert ours == theirs


def secret(cluster, token):
    return cluster.find(f"{controlplane.SECRETS}/bootstrap-token-{token[:6]}")


def submit(cluster, token, node):
    """Submits a node's request with a token; returns its path."""
    path = f"{controlplane.CSRS}/{cluster.submit(pki.sign_csr(pki.new_key(), pki.node_user(node)), token=token)}"
    assert cluster.request("GET", path)["spec"]["username"] == f"system:bootstrap:{token[:6]}"
    return path


def is_approved(cluster, path):
    return "Approved" in [entry["type"] for entry in cluster.request("GET", path).get("status", {}).get("conditions", [])]


@pytest.mark.parametrize("words", SHAPES, ids=" ".join)
def test_each_lists_what_the_other_creates(cluster, admin, words):
    for token in (admin.run("token", "create", *words).strip(), kubeadm(cluster, "create", *words).strip()):
        theirs, ours, node = listed(cluster, admin, token)
        assert ours == theirs and node == "<none>"


@pytest.mark.parametrize("words", SHAPES, ids=" ".join)
def test_same_secret(cluster, admin, words):
    """But for the ID, the secret and the time."""
    pair = [secret(cluster, token) for token in (admin.run("token", "create", *words).strip(), kubeadm(cluster, "create", *words).strip())]
    for item in pair:
        for key in ("token-id", "token-secret", "expiration"):
            item["data"][key] = bool(item["data"].get(key))
    assert pair[0]["data"] == pair[1]["data"] and pair[0]["type"] == pair[1]["type"]


def test_each_deletes_what_the_other_creates(cluster, admin):
    theirs, ours = kubeadm(cluster, "create").strip(), admin.run("token", "create").strip()
    assert admin.run("token", "revoke", theirs) == f'bootstrap token "{theirs[:6]}" deleted\n'
    assert kubeadm(cluster, "delete", ours) == f'bootstrap token "{ours[:6]}" deleted\n'
    assert not secret(cluster, theirs) and not secret(cluster, ours)


def test_generated_token(cluster, admin):
    """kubeadm accepts what is generated here; neither overwrites it."""
    token = admin.run("token", "create").strip()
    admin.run("token", "revoke", token)
    assert kubeadm(cluster, "create", token).strip() == token
    before = secret(cluster, token)
    assert admin.command("token", "create", token).returncode == 73
    assert secret(cluster, token) == before


def test_join_command(cluster, admin):
    """kubeadm 1.20 separates the words by more blanks than later versions, and names the server of its kubeconfig."""
    ours, theirs = (text.split() for text in (admin.run("token", "create", "--print=kubeadm"), kubeadm(cluster, "create", "--print-join-command")))
    assert ours[2] == cluster.front.endpoint
    ours[2] = theirs[2]
    place = ours.index("--token") + 1
    assert secret(cluster, ours.pop(place))
    theirs.pop(theirs.index("--token") + 1)
    assert sorted(ours) == sorted(theirs)


@pytest.mark.parametrize("option, group, node", [("--node=token-a", GROUP, "token-a"), ("--enrolled", f"{GROUP}-enrolled", "<none>")])
def test_token_that_kubernetes_does_not_approve(cluster, admin, option, group, node):
    """kube-controller-manager approves any request with kubeadm's group, and none with a bound or enrolled token."""
    restricted = admin.run("token", "create", option, "--print=credential").strip()
    theirs, ours, listed_node = listed(cluster, admin, restricted)
    assert theirs[3] == group and listed_node == node and ours == theirs
    other = admin.run("token", "create").strip()
    pending, approved = submit(cluster, restricted, "token-a"), submit(cluster, other, "token-b")
    until(lambda: is_approved(cluster, approved), "the request with kubeadm's group is approved")
    assert not is_approved(cluster, pending)    # submitted first, decided by the same queue
    for path in (pending, approved):
        cluster.request("DELETE", path)


@pytest.mark.parametrize("group", ["system:bootstrappers", GROUP])
def test_automatic_approval_is_found(cluster, admin, group):
    """system:bootstrappers is the group in Kubernetes' own documentation."""
    binding = cluster.bind(group, "system:certificates.k8s.io:certificatesigningrequests:nodeclient")
    create = ("token", "create", "--node=token-c", "--print=credential")
    until(lambda: admin.command(*create, "--dry-run").returncode == 65, "the binding has an effect")
    assert "approves every request" in admin.command(*create).stderr
    cluster.request("DELETE", binding)
    until(lambda: admin.command(*create, "--dry-run").returncode == 0, "the binding has no effect any more")
    token = admin.run(*create).strip()
    assert admin.run("token", "revoke", "--node=token-c") == f'bootstrap token "{token[:6]}" deleted\n'
    assert not secret(cluster, token)
