# SPDX-License-Identifier: Apache-2.0
"""`node-bootstrap-admin token` beside a real control plane and the real kubeadm: each reads what the other writes."""

import base64
import itertools
import json
import subprocess

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from harness import controlplane, pki
from harness.wait import until

GROUP = "system:bootstrappers:node-bootstrap"
BINDING = f"{controlplane.BINDINGS}/node-bootstrap:kubelet-bootstrap"
SHAPES = [
    [],
    ["--ttl=90m", "--description=rack 4"],
    ["--ttl=0"],
    ["--ttl=1h30m", "--usages=authentication"],
    ["--usages=signing,authentication", "--groups=system:bootstrappers:a,system:bootstrappers:b-2"],
]
numbers = itertools.count(1)


@pytest.fixture(scope="module")
def admin(cluster, administer):
    yield administer(cluster)
    if cluster.find(BINDING):
        cluster.request("DELETE", BINDING)


def kubeadm(cluster, *words):
    done = subprocess.run([cluster.assets / "kubeadm", "token", *words, "--kubeconfig=admin.conf"], cwd=cluster.work, text=True,
                          capture_output=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def objects(text):
    """Of a sequence of JSON objects, by token ID."""
    decoder, found = json.JSONDecoder(), {}
    while text.strip():
        item, end = decoder.raw_decode(text.lstrip())
        text = text.lstrip()[end:]
        found[item["token"][:6]] = item
    return found


def listed(cluster, admin, token):
    """The token as kubeadm and as this program list it, without the secret and the version of the output."""
    pair = [objects(kubeadm(cluster, "list", "-o", "json"))[token[:6]], objects(admin.run("token", "list", "-o", "json"))[token[:6]]]
    assert pair[0].pop("token") == token and pair[1].pop("token") == f"{token[:6]}.{'*' * 16}"
    for item in pair:
        item.pop("apiVersion")
    return pair


def secret(cluster, token):
    return cluster.find(f"{controlplane.SECRETS}/bootstrap-token-{token[:6]}")


def submit(cluster, token, node):
    """Submits a node's request with a token; returns its path."""
    key = pki.new_key()
    request = x509.CertificateSigningRequestBuilder().subject_name(pki.name(f"system:node:{node}", "system:nodes")).sign(key, hashes.SHA256())
    name = f"token-{next(numbers)}"
    body = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
            "spec": {"request": base64.b64encode(request.public_bytes(Encoding.PEM)).decode(),
                     "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
                     "usages": ["digital signature", "key encipherment", "client auth"]}}
    done = subprocess.run(["curl", "--silent", "--show-error", "--cacert", cluster.work / "ca.crt", "--header", f"Authorization: Bearer {token}",
                           "--json", json.dumps(body), f"https://127.0.0.1:{cluster.port}{controlplane.CSRS}"],
                          text=True, capture_output=True, check=True)
    answer = json.loads(done.stdout)
    assert answer["kind"] == "CertificateSigningRequest", answer
    assert answer["spec"]["username"] == f"system:bootstrap:{token[:6]}"
    return f"{controlplane.CSRS}/{name}"


def is_approved(cluster, path):
    return "Approved" in [entry["type"] for entry in cluster.request("GET", path).get("status", {}).get("conditions", [])]


@pytest.mark.parametrize("words", SHAPES, ids=" ".join)
def test_each_lists_what_the_other_creates(cluster, admin, words):
    for token in (admin.run("token", "create", *words).strip(), kubeadm(cluster, "create", *words).strip()):
        theirs, ours = listed(cluster, admin, token)
        assert ours == theirs


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
    token = admin.run("token", "generate").strip()
    assert kubeadm(cluster, "create", token).strip() == token
    before = secret(cluster, token)
    assert admin.command("token", "create", token, "--description=other").returncode == 73
    assert secret(cluster, token) == before


def test_join_command(cluster, admin):
    """kubeadm 1.20 separates the words by more blanks than later versions."""
    ours, theirs = (text.split() for text in (admin.run("token", "create", "--print-join-command"),
                                              kubeadm(cluster, "create", "--print-join-command")))
    place = ours.index("--token") + 1
    assert secret(cluster, ours[place])
    assert ours[:place] + ours[place + 1:] == theirs[:place] + theirs[place + 1:]


def test_configuration_of_kubeadm(cluster, admin):
    """A file for kubeadm creates the same token here."""
    config = cluster.work / "tokens.yaml"
    wanted = {"description": "from a file", "ttl": "2h0m0s", "usages": ["signing", "authentication"], "groups": ["system:bootstrappers:file"]}
    version = yaml.safe_load((cluster.work / "kubeadm.yaml").read_text().split("---")[0])["apiVersion"]
    items = []
    for create in (lambda: admin.run("token", "create", "--config", config), lambda: kubeadm(cluster, "create", f"--config={config}")):
        token = str(cluster.fresh_token())
        config.write_text(yaml.safe_dump({"apiVersion": version, "kind": "InitConfiguration", "bootstrapTokens": [{"token": token, **wanted}]}))
        assert create().split()[-1] == token
        items.append(listed(cluster, admin, token))
    for theirs, ours in items:
        assert ours == theirs
        assert ours.pop("expires") and theirs.pop("expires")
    assert items[0] == items[1]


def test_token_for_one_node_is_not_approved_by_kubernetes(cluster, admin):
    """kube-controller-manager approves any request with kubeadm's group, and none with a token for one node."""
    bound = admin.run("token", "create", "--node=token-a", "--print=credential").strip()
    assert f"jws-kubeconfig-{bound[:6]}" in cluster.cluster_info()      # it waited for the signature
    theirs, ours = listed(cluster, admin, bound)
    assert theirs["groups"] == [GROUP] and ours.pop("node") == "token-a" and ours == theirs
    other = admin.run("token", "create").strip()
    pending, approved = submit(cluster, bound, "token-a"), submit(cluster, other, "token-b")
    until(lambda: is_approved(cluster, approved), "the request with kubeadm's group is approved")
    assert not is_approved(cluster, pending)    # submitted first, decided by the same queue
    for path in (pending, approved):
        cluster.request("DELETE", path)
