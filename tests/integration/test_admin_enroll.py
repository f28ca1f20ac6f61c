# SPDX-License-Identifier: Apache-2.0
"""`node-bootstrap-admin enroll` against a scripted API: the records of nodes."""

import base64
import json
import os
import subprocess
import time

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from common import documentation, faults, pki
from common.csrs import timestamp
from . import admin
from .admin_cluster import ENROLLED, SECRETS, Cluster

KEY, OTHER = pki.new_key(), pki.new_key()
RECORD = f"{SECRETS}/node-bootstrap-node-worker-1"


@pytest.fixture(autouse=True)
def nobody_else_approves(api):
    api.allows = lambda attributes: attributes.get("subresource") != "nodeclient"


def public_pem(key):
    return pki.public_pem(key).decode()


def enroll(api, *words, key=KEY, node="worker-1"):
    return api.run("enroll", "add", node, "--public-key=-", *words, stdin=key if isinstance(key, str) else public_pem(key))


def data(api, path=RECORD):
    return {key: base64.b64decode(value).decode() for key, value in api.objects.look(path)["data"].items()}


def test_what_is_written(api):
    done = enroll(api, "--addresses=10.0.0.5,FD00::5", "--dns-names=db.example.org")
    assert (done.returncode, done.stdout) == (0, "enrolled node worker-1\n"), done.stderr
    record = api.objects.look(RECORD)
    assert record["type"] == "node-bootstrap/enrolled-node"
    assert data(api) == {"node": "worker-1", "publicKey": public_pem(KEY), "addresses": "10.0.0.5,FD00::5", "dnsNames": "db.example.org"}
    # What an option does not name stays; an empty list removes.
    assert enroll(api, "--addresses=").returncode == 0
    assert data(api) == {"node": "worker-1", "publicKey": public_pem(KEY), "dnsNames": "db.example.org"}
    assert api.objects.look(RECORD)["metadata"]["uid"] == record["metadata"]["uid"]


def test_a_name_that_is_too_long_for_a_secret(api):
    name = ".".join(["a" * 61] * 4)
    done = enroll(api, node=name)
    assert done.returncode == 0 and f"the node name has {len(name)} characters: kubelet registers a Node only with at most 63" in done.stderr
    [secret] = api.objects.all(SECRETS)
    assert len(secret["metadata"]["name"]) == len("node-bootstrap-node-") + 64
    assert name in api.run("enroll", "list").stdout and public_pem(KEY) in api.run("enroll", "show", name).stdout


def test_a_different_key_needs_force(api):
    enroll(api)
    done = enroll(api, key=OTHER)
    assert done.returncode == 73 and "enrolled with another public key" in done.stderr and data(api)["publicKey"] == public_pem(KEY)
    assert enroll(api, "--force", key=OTHER).returncode == 0 and data(api)["publicKey"] == public_pem(OTHER)


@pytest.mark.parametrize("encode", [lambda text: text, lambda text: text.rstrip("\n"), lambda text: text.replace("KEY-----\nM", "KEY-----\n\nM")],
                         ids=["equal", "without a newline", "with an empty line"])
def test_a_key_of_another_node_is_refused(api, encode):
    """Even with --force: two machines with one key could ask for each other's certificates."""
    enroll(api)
    done = enroll(api, "--force", key=encode(public_pem(KEY)), node="worker-2")
    assert done.returncode == 73 and "node worker-1 is enrolled with this key" in done.stderr
    assert len(api.objects.all(SECRETS)) == 1
    assert api.run("enroll", "remove", "worker-1").returncode == 0
    assert enroll(api, node="worker-2").returncode == 0, "the key of a removed node may be used again"


def test_a_record_that_others_do_not_ask_for_is_refused(api):
    """kube-controller-manager would approve the requests without a proof."""
    api.allows = lambda attributes: True
    done = enroll(api)
    assert done.returncode != 0 and "admin-automatic-approval" in done.stderr and not api.objects.all(SECRETS)
    assert enroll(api, "--force").returncode == 0


def test_show_and_list(api):
    enroll(api, "--addresses=10.0.0.5")
    enroll(api, key=OTHER, node="worker-2")
    Cluster(api).record("broken", node="other")
    Cluster(api).record("foreign", "Opaque", node="foreign")
    lines = api.run("enroll", "list").stdout.splitlines()
    assert [line.split()[:2] for line in lines[:1]] == [["node-bootstrap-node-broken", "unusable:"]] and len(lines) == 3
    assert lines[1].split()[0] == "worker-1" and lines[1].endswith(" 10.0.0.5") and "sha256:" in lines[1]
    shown = api.run("enroll", "show", "worker-2").stdout
    assert shown.startswith("worker-2 ") and shown.endswith(public_pem(OTHER))
    foreign = api.run("enroll", "show", "foreign").stdout
    assert "unusable: " in foreign and "type: expected" in foreign
    done = api.run("enroll", "show", "worker-3")
    assert done.returncode == 66 and "node worker-3 is not enrolled" in done.stderr


def test_a_removal_is_by_the_clock_of_the_api_server(api):
    """The record first becomes unusable, and then gets the time of that answer: nothing that was requested before can be newer."""
    api.clock_offset = 7200
    enroll(api, "--addresses=10.0.0.5")
    seen = []
    api.on("update secrets", lambda request: seen.append(request.json()["data"]))
    earliest = timestamp(7200)
    done = api.run("enroll", "remove", "worker-1")
    assert (done.returncode, done.stdout) == (0, "removed node worker-1\n"), done.stderr
    assert [base64.b64decode(content["removed"]).decode() for content in seen][0] == "removing" and len(seen) == 2
    made = data(api)
    assert set(made) == {"node", "removed"} and earliest <= made["removed"] <= timestamp(7200)
    assert "worker-1" in api.run("enroll", "list").stdout and api.run("enroll", "remove", "worker-1").returncode == 66
    assert enroll(api).returncode == 0 and set(data(api)) == {"node", "publicKey"}


def test_addresses_alone_do_not_undo_a_removal(api):
    """They need no proof, but a request from before the removal needed one."""
    cluster = Cluster(api)
    cluster.token("aaaaaa", None)
    cluster.request("before", "worker-1")
    enroll(api)
    assert api.run("enroll", "remove", "worker-1").returncode == 0
    removed = data(api)["removed"]
    assert api.run("enroll", "add", "worker-1", "--addresses=10.0.0.5").returncode == 0
    assert data(api) == {"node": "worker-1", "removed": removed, "addresses": "10.0.0.5"}
    done = api.run("requests", "approve", "before")
    assert done.returncode == 65 and "was made before the enrolled node worker-1 was removed" in done.stderr and not cluster.conditions("before")
    cluster.request("after", "worker-1", created=2)
    assert api.run("requests", "approve", "after").returncode == 0
    assert "no key 10.0.0.5" in api.run("enroll", "list").stdout
    assert api.run("enroll", "remove", "worker-1").returncode == 0 and set(data(api)) == {"node", "removed"}
    assert enroll(api).returncode == 0 and set(data(api)) == {"node", "publicKey"}, "a key is proof enough"


@pytest.mark.parametrize("damage", [{"addresses": "10.0.0.5/24"}, {"address": "10.0.0.5"}, {"removed": "removing"}], ids=lambda damage: next(iter(damage)))
def test_a_damaged_record_does_not_lose_its_key(api, damage):
    """--force cannot keep what it cannot read, so it needs the key again."""
    Cluster(api).enroll("worker-1", KEY, **damage)
    for options in ["--addresses=10.0.0.5"], ["--addresses=10.0.0.5", "--force"]:
        done = api.run("enroll", "add", "worker-1", *options)
        assert done.returncode == 65 and "--force with --public-key" in done.stderr and data(api)["publicKey"] == public_pem(KEY)
    assert enroll(api, "--force", "--addresses=10.0.0.5").returncode == 0
    assert data(api) == {"node": "worker-1", "publicKey": public_pem(KEY), "addresses": "10.0.0.5"}


def test_a_record_without_anything_is_not_written(api):
    """A node that is enrolled may have its own name in a serving certificate."""
    for _ in range(2):
        done = api.run("enroll", "add", "worker-1", "--addresses=")
        assert done.returncode == 64 and "`enroll remove` removes the node" in done.stderr
        api.run("enroll", "add", "worker-1", "--dns-names=db.example.org")
        assert api.run("enroll", "add", "worker-1", "--dns-names=").returncode == 64 and data(api)["dnsNames"] == "db.example.org"
        api.run("enroll", "remove", "worker-1")


def test_a_new_enrollment_is_not_removed_with_the_old_one(api):
    """A removal that failed is made again, while somebody enrolls the node anew."""
    enroll(api)
    api.on("update secrets", faults.INTERNAL, times=1, skip=1)
    assert api.run("enroll", "remove", "worker-1").returncode == 69
    api.on("update secrets", lambda _: Cluster(api).enroll("worker-1", OTHER) and None, times=1, skip=1)
    assert api.run("enroll", "remove", "worker-1").returncode == 75
    assert data(api)["publicKey"] == public_pem(OTHER)


def test_a_removal_that_fails_in_the_middle(api):
    """Until it is made again, the record allows nothing."""
    enroll(api)
    api.on("update secrets", faults.INTERNAL, times=1, skip=1)
    assert api.run("enroll", "remove", "worker-1").returncode == 69
    assert data(api)["removed"] == "removing"
    done = enroll(api)
    assert done.returncode == 65 and "found 'removing'; --force with --public-key" in done.stderr
    assert api.run("enroll", "remove", "worker-1").returncode == 0 and data(api)["removed"] != "removing"


def test_a_change_by_somebody_else_is_not_overwritten(api):
    enroll(api)
    api.on("update secrets", lambda _request: Cluster(api).enroll("worker-1", OTHER) and None, times=1)
    done = enroll(api)
    assert done.returncode == 75 and "admin-conflict" in done.stderr and data(api)["publicKey"] == public_pem(OTHER)


@pytest.mark.parametrize("kind", ["list secrets", "get secrets", "create secrets"])
def test_missing_permission_is_named(api, kind):
    api.denied.add(kind)
    done = enroll(api)
    assert done.returncode == 77 and kind.split()[0] in done.stderr and not api.objects.all(SECRETS)


PRIVATE = pki.key_pem(KEY)
PRIVATE = PRIVATE.decode() if isinstance(PRIVATE, bytes) else PRIVATE


@pytest.mark.parametrize("text, said", [
    (PRIVATE, "it is a private key"), ("", "expected a public key"), ("ssh-ed25519 AAAA x", "expected a public key"),
    (public_pem(KEY) + public_pem(OTHER), "it is not one public key"), (public_pem(ec.generate_private_key(ec.SECP192R1())), "too weak"),
], ids=["private", "empty", "ssh", "two", "P-192"])
def test_key_that_cannot_be_enrolled(api, text, said):
    done = enroll(api, key=text)
    assert done.returncode == 65 and said in done.stderr and not api.requests
    assert PRIVATE.splitlines()[1] not in done.stderr


@pytest.mark.parametrize("arguments, exit_status", [
    (["add"], 64), (["add", "--public-key=-"], 64), (["add", "Worker_1", "--public-key=-"], 64), (["add", "worker-1"], 64),
    (["add", "worker-1", "--public-key=/nonexistent"], 65), (["add", "--from=/nonexistent"], 65), (["add", "worker-1", "--from=-"], 64),
    (["add", "--addresses=10.0.0.5", "--from=-"], 64), (["add", "worker-1", "--from-request=csr-1"], 64), (["add", "--from-request=x", "--from=-"], 64),
    (["add", "worker-1", "--fingerprint=sha256:0"], 64), (["add", "worker-1", f"--fingerprint=sha256:{64 * '0'}", "--public-key=-"], 64), (["list", "worker-1"], 64), (["show"], 64), (["remove"], 64), (["remove", "Worker_1"], 64), ([], 64),
])
def test_usage(api, arguments, exit_status):
    done = api.run("enroll", *arguments)
    assert done.returncode == exit_status and not api.requests, done.stderr


@pytest.mark.parametrize("option", ["--addresses=10.0.0.5/24", "--addresses=host", "--dns-names=Db.example.org", "--dns-names=*.example.org"])
def test_malformed_names(api, option):
    done = enroll(api, option)
    assert done.returncode == 64 and option.partition("=")[0] in done.stderr and not api.objects.all(SECRETS)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "::ffff:127.0.0.1", "169.254.1.1", "fe80::5", "0.0.0.0"])
def test_an_address_that_is_never_approved_is_refused(api, address):
    done = api.run("enroll", "add", "worker-1", f"--addresses=10.0.0.5,{address}")
    assert done.returncode == 64 and f"'--addresses' has {address}, which is not an address of one machine" in done.stderr and not api.requests


def test_a_list_in_two_options_is_refused(api):
    """The second one would replace the first."""
    done = enroll(api, "--addresses=10.0.0.5", "--addresses=10.0.0.6")
    assert done.returncode == 64 and "'--addresses' is used twice; separate its entries by commas" in done.stderr and not api.requests


def test_a_node_may_be_enrolled_without_a_key(api):
    """A key that was enrolled stays."""
    assert api.run("enroll", "add", "worker-1", "--addresses=10.0.0.5").returncode == 0
    assert "worker-1" in api.run("enroll", "list").stdout and "no key 10.0.0.5" in api.run("enroll", "list").stdout
    key = pki.public_pem(pki.new_key()).decode()
    assert api.run("enroll", "add", "worker-1", "--public-key=-", stdin=key).returncode == 0
    assert api.run("enroll", "add", "worker-1", "--dns-names=db.example.org").returncode == 0
    shown = api.run("enroll", "show", "worker-1").stdout
    assert key in shown and "10.0.0.5 db.example.org" in shown
    assert api.run("enroll", "add", "worker-1").returncode == 64


def test_many_nodes(api, tmp_path):
    """Each line is as the words of a command line. The records are listed once."""
    keys = {f"worker-{number}": pki.new_key() for number in range(4)}
    for node, key in keys.items():
        (tmp_path / f"{node}.pem").write_text(public_pem(key))
    lines = "".join(f"{node} --public-key={tmp_path}/{node}.pem  --addresses=10.0.0.5\n" for node in keys)
    done = api.run("enroll", "add", "--from=-", stdin=f"# of rack 4\n\n{lines}other --dns-names=db.example.org")
    assert (done.returncode, done.stdout.splitlines()) == (0, [f"enrolled node {node}" for node in [*keys, "other"]]), done.stderr
    assert data(api, f"{SECRETS}/node-bootstrap-node-worker-3") == {"node": "worker-3", "publicKey": public_pem(keys["worker-3"]), "addresses": "10.0.0.5"}
    assert len(api.seen("list secrets")) == 1
    done = api.run("enroll", "remove", "worker-0", "worker-1")
    assert (done.returncode, done.stdout) == (0, "removed node worker-0\nremoved node worker-1\n")


@pytest.mark.parametrize("line, text", [
    ("worker-2", "expected '--public-key'"), ("Worker_2 --addresses=10.0.0.5", "the name of a node"), ("worker-2 --unknown", "unknown"), ("worker-2 --force", "expected '--public-key'"),
    ("worker-2 --public-key=-", "has to be a file"), ("worker-2 worker-3 --addresses=10.0.0.5", "unexpected"),
    ("worker-2 --addresses=" + "10.0.0.5," * 2000, "too long"), ("worker-2" + " --force" * 16 + " --addresses=10.0.0.5", "too many words"),
    ("worker-2 --dns-names a.lan b.lan", "unexpected"), ("worker-2 --from-request=csr-1", "'--from-request' requires '--fingerprint'"),
    (f"worker-2 --public-key=key.pem --fingerprint=sha256:{64 * '0'}", "cannot be used together"),
], ids=["nothing", "name", "option", "force", "stdin", "two", "long", "words", "blank in a list", "request", "two keys"])
def test_a_wrong_line_enrolls_nothing(api, line, text):
    done = api.run("enroll", "add", "--from=-", stdin=f"worker-1 --addresses=10.0.0.5\n{line}\n")
    assert done.returncode == 64 and text in done.stderr and "line 2" in done.stderr and done.stdout == "" and not api.requests, done


def test_a_line_has_no_help(api):
    done = api.run("enroll", "add", "--from=-", stdin="worker-1 --help\n")
    assert done.returncode == 64 and "has no '--help'" in done.stderr and not api.requests


def test_two_nodes_with_one_key_in_a_list(api, tmp_path):
    (tmp_path / "key.pem").write_text(public_pem(KEY))
    done = api.run("enroll", "add", "--from=-", stdin="".join(f"worker-{number} --public-key={tmp_path}/key.pem\n" for number in (1, 2)))
    assert done.returncode == 73 and "node worker-1 is enrolled with this key" in done.stderr and "line 2, the lines before it are done" in done.stderr
    assert len(api.objects.all(SECRETS)) == 1


# The key in a request.


@pytest.fixture
def cluster(api):
    cluster = Cluster(api)
    cluster.token("eeeeee", None, group=ENROLLED)
    return cluster


def ask(cluster, name, node, key, named=None):
    pem = pki.sign_csr(pki.new_key(), pki.node_user(node), [pki.NODES])
    cluster.request(name, node, "eeeeee", pem=pem + pki.prove(key, pem, "eeeeee", named))


def fingerprint(key):
    return pki.fingerprint(key.public_key())


def test_the_key_of_a_request(api, cluster):
    ask(cluster, "one", "worker-1", KEY)
    [row] = json.loads(api.run("requests", "list", "--output=json").stdout)
    assert row["proofKey"] == fingerprint(KEY) and row["verdict"] == "NotEnrolled"
    assert f"the request names the key {fingerprint(KEY)} (not verified)" in api.run("requests", "list").stdout
    done = api.run("enroll", "add", "worker-1", "--from-request=one", f"--fingerprint={row['proofKey'].upper().replace('SHA', 'sha')}")
    assert (done.returncode, done.stdout) == (0, "enrolled node worker-1\n"), done.stderr
    assert data(api) == {"node": "worker-1", "publicKey": public_pem(KEY)}
    assert fingerprint(KEY) in api.run("enroll", "list").stdout
    assert api.run("requests", "approve", "one").returncode == 0


@pytest.mark.parametrize("node, words", [
    ("worker-1", ["--from-request=one", f"--fingerprint={pki.fingerprint(OTHER.public_key())}"]),
    ("worker-1", ["--from-request=two", f"--fingerprint={pki.fingerprint(KEY.public_key())}"]),
    ("worker-2", [f"--fingerprint={pki.fingerprint(KEY.public_key())}"]),
], ids=["another key", "another request", "another node"])
def test_what_a_request_says_is_not_believed(api, cluster, node, words):
    """Whoever has the token writes the request: the key has to have the fingerprint, and the request has to be for the node."""
    ask(cluster, "one", "worker-1", KEY)
    ask(cluster, "two", "worker-1", OTHER, named=pki.new_key())
    done = api.run("enroll", "add", node, *words)
    assert done.returncode == 66 and f"node {node}: no request names the key {words[-1].partition('=')[2]}" in done.stderr
    assert len(api.objects.all(SECRETS)) == 1


def test_a_named_key_that_cannot_be_enrolled(api, cluster):
    weak = ec.generate_private_key(ec.SECP192R1())
    ask(cluster, "one", "worker-1", KEY, named=weak)
    [row] = json.loads(api.run("requests", "list", "--output=json").stdout)
    assert row["proofKey"] == "" and "names the key" not in row["text"]
    assert api.run("enroll", "add", "worker-1", f"--fingerprint={fingerprint(weak)}").returncode == 66


def run_example(api, folder, kind, **programs):
    """An example of the page, with shell commands in place of other programs."""
    [example] = documentation.examples(kind)
    for name, text in {**programs, "node-bootstrap-admin": f'exec {admin.command()[0]} "$@"'}.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    env = admin.environment(KUBECONFIG=api.kubeconfig(), PATH=f"{folder}:{os.environ['PATH']}")
    return subprocess.run(["sh", "-ec", example.text], env=env, cwd=folder, text=True, capture_output=True, check=False, timeout=60)


def test_the_documented_inventory_is_enrolled(api, cluster, tmp_path):
    """The machines that have not asked yet are named; the command can be run again, and replaces no key."""
    keys = {f"worker-{number}": pki.new_key() for number in range(4)}
    (tmp_path / "inventory").write_text("".join(f"{node} {fingerprint(key)}\n" for node, key in keys.items()))
    for number in (0, 2):
        ask(cluster, f"csr-{number}", f"worker-{number}", keys[f"worker-{number}"])
    done = run_example(api, tmp_path, "inventory")
    assert done.returncode == 66 and done.stdout == "enrolled node worker-0\nenrolled node worker-2\n" and "not enrolled: 2" in done.stderr
    assert f"node worker-1: no request names the key {fingerprint(keys['worker-1'])}" in done.stderr
    for number in (1, 3):
        ask(cluster, f"csr-{number}", f"worker-{number}", keys[f"worker-{number}"])
    done = run_example(api, tmp_path, "inventory")
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 4, done.stderr
    assert data(api, f"{SECRETS}/node-bootstrap-node-worker-3")["publicKey"] == public_pem(keys["worker-3"])


@pytest.mark.parametrize("force", ["command", "line"])
def test_only_the_line_of_a_node_replaces_its_key(api, cluster, force):
    """With --from, --force says that another approver is known, and nothing about the nodes."""
    api.allows = lambda attributes: True
    cluster.enroll("worker-1", KEY)
    ask(cluster, "one", "worker-1", OTHER)
    line = f"worker-1 --fingerprint={fingerprint(OTHER)}"
    done = api.run("enroll", "add", "--from=-", "--force", stdin=line + (" --force" if force == "line" else ""))
    assert (done.returncode == 0) == (force == "line"), done.stderr
    assert data(api)["publicKey"] == public_pem(OTHER if force == "line" else KEY)
    done = api.run("enroll", "add", "--from=-", stdin=line + " --force")
    assert "admin-automatic-approval" in done.stderr


@pytest.mark.parametrize("text", [public_pem(KEY) + "\n", json.dumps({"encryptionKey": {"ekPub": public_pem(OTHER)}, "signingKey": {"ekPub": public_pem(KEY)}})],
                         ids=["value", "json"])
def test_what_a_cloud_prints(api, text):
    """gcloud compute instances get-shielded-identity, with --format='value(signingKey.ekPub)' or --format=json."""
    assert enroll(api, key=text).returncode == 0 and data(api)["publicKey"] == public_pem(KEY)


@pytest.mark.parametrize("text, said", [("{", "expected"), ("{}", "signingKey.ekPub"), (json.dumps({"signingKey": {"ekPub": PRIVATE}}), "it is a private key")],
                         ids=["no json", "no key", "private"])
def test_what_no_cloud_prints(api, text, said):
    done = enroll(api, key=text)
    assert done.returncode == 65 and said in done.stderr and not api.requests and PRIVATE.splitlines()[1] not in done.stderr


def test_500_enrolments(api, cluster):
    keys = [pki.new_key() for _ in range(500)]
    for number, key in enumerate(keys):
        ask(cluster, f"csr-{number}", f"worker-{number}", key)
    begun = time.monotonic()
    done = api.run("enroll", "add", "--from=-", stdin="".join(f"worker-{number} --fingerprint={fingerprint(key)}\n" for number, key in enumerate(keys)))
    seconds = time.monotonic() - begun
    assert done.returncode == 0 and len(api.objects.all(SECRETS)) == 501, done.stderr
    assert len(api.requests) < 2 * 500 + 10
    print(f"500 enrolments by fingerprint: {seconds:.1f} s, {500 / seconds:.0f} per second, {len(api.requests)} requests")


def test_the_documented_machines_are_enrolled(api, tmp_path):
    """Of Cluster API: the example takes the names and addresses from the Machines, which no node writes."""
    machines = {"items": [{"status": {"nodeRef": {"name": f"worker-{number}"}, "addresses": [
        {"type": "InternalIP", "address": f"10.0.0.{number}"}, {"type": "Hostname", "address": "x"}, {"type": "InternalIP", "address": f"fd00::{number}"}]}}
        for number in (1, 2)] + [{"status": {}}]}
    (tmp_path / "machines.json").write_text(json.dumps(machines))
    done = run_example(api, tmp_path, "machines", kubectl=f"exec cat {tmp_path}/machines.json")
    assert done.returncode == 0, done.stderr
    listed = api.run("enroll", "list").stdout
    assert "worker-1                       no key 10.0.0.1,fd00::1\n" in listed and "no key 10.0.0.2,fd00::2\n" in listed
