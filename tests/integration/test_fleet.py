# SPDX-License-Identifier: Apache-2.0
"""packaging/fleet: what it says of each state of a cluster, and its command line. tests/e2e/test_fleet.py runs it beside a control plane."""

import base64
import fcntl
import importlib.machinery
import importlib.util
import os
import subprocess
import sys

import pytest
from cryptography.x509.oid import NameOID

from common import SOURCE, pki
from common.failures import FAILURES
from common.machine import KEPT
from .tables import tables

SCRIPT = SOURCE / "packaging/fleet"
TOKEN = "abcdef"
NOW = "2026-11-27T08:00:00Z"
LATER = "2999-01-01T00:00:00Z"


@pytest.fixture(scope="module")
def script():
    sys.dont_write_bytecode = True
    loader = importlib.machinery.SourceFileLoader("fleet", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("fleet", loader))
    loader.exec_module(module)
    return module


def request_for(*names):
    """A PEM request, whose subject has these common names."""
    return base64.b64encode(pki.sign_csr(pki.new_key(), None, more=[(NameOID.COMMON_NAME, name) for name in names])).decode()


def csr(uid, *kinds, certificate=None, token=TOKEN, node="a"):
    status = {"conditions": [{"type": kind, "reason": "Why", "message": f"because\x1b[31m of {uid}"} for kind in kinds]}
    return {"kind": "CertificateSigningRequest", "metadata": {"name": f"csr-{uid}", "uid": uid, "creationTimestamp": NOW},
            "spec": {"username": f"system:bootstrap:{token}", "request": request_for(f"system:node:{node}")},
            "status": {**status, **({"certificate": certificate} if certificate else {})}}


def node(ready=None):
    conditions = [{"type": "Ready", "status": ready, "message": "the network is missing"}] if ready else []
    return {"a": {"kind": "Node", "metadata": {"name": "a", "creationTimestamp": NOW}, "status": {"conditions": conditions}}}


def look(script, *, nodes=None, csrs=(), events=None, tokens=None, signed=True):
    cluster = script.Cluster.__new__(script.Cluster)
    cluster.nodes, cluster.csrs, cluster.tokens = nodes or {}, list(csrs), {TOKEN: LATER} if tokens is None else tokens
    cluster.events = {uid: {"reason": reason, "message": "the details"} for uid, reason in (events or {}).items()}
    cluster.signed = {f"jws-kubeconfig-{TOKEN}": "x"} if signed else {}
    return cluster


CASES = [
    ("nothing", {}, "waiting", "-", "not seen yet; the token expires at 2999"),
    ("a token that never expires", {"tokens": {TOKEN: ""}}, "waiting", "-", "not seen yet; the token never expires"),
    ("no signature", {"signed": False}, "waiting", "token-unknown", "not signed"),
    ("an expired token", {"tokens": {TOKEN: "2026-01-01T00:00:00Z"}}, "failed", "token-unknown", "expired or was revoked"),
    ("no token", {"tokens": {}}, "failed", "token-unknown", "expired or was revoked"),
    ("a request", {"csrs": [csr("1")]}, "waiting", "csr-pending", "nobody has decided on csr-1"),
    ("a request of another token", {"csrs": [csr("1", token="fedcba")]}, "waiting", "-", "not seen yet"),
    ("a request that may be approved", {"csrs": [csr("1")], "events": {"1": "NodeReady"}}, "waiting", "csr-pending", "NodeReady: the details"),
    ("a refused request", {"csrs": [csr("1")], "events": {"1": "TokenForAnotherNode"}}, "failed", "csr-pending", "TokenForAnotherNode: the details"),
    ("a denied request", {"csrs": [csr("1", "Denied")]}, "failed", "csr-denied", "Why: because"),
    ("a failed request", {"csrs": [csr("1", "Approved", "Failed")]}, "failed", "csr-failed", "Why: because"),
    ("an approved request", {"csrs": [csr("1", "Approved")]}, "waiting", "csr-not-issued", "csr-1 is approved"),
    ("a certificate", {"csrs": [csr("1", "Approved", certificate="x")], "tokens": {}}, "waiting", "-", "has its certificate"),
    ("a certificate, and another request", {"csrs": [csr("1", "Approved", certificate="x"), csr("2")], "events": {"2": "TokenUsed"}}, "waiting", "-", "TokenUsed: another"),
    ("a Node", {"nodes": node("True"), "tokens": {}}, "joined", "-", "Ready"),
    ("a Node, and a request whose token is not revoked yet", {"nodes": node("True"), "csrs": [csr("1", "Approved", certificate="x")]}, "joined", "-", "Ready"),
    ("a Node, and another request", {"nodes": node("True"), "csrs": [csr("1", "Approved", certificate="x"), csr("2")], "events": {"2": "TokenUsed"}}, "joined", "-", "thief"),
    ("a Node that is not Ready", {"nodes": node("False"), "tokens": {}}, "joined", "-", "not Ready: the network is missing"),
    ("a Node that kubelet has not reported", {"nodes": node(), "tokens": {}}, "joined", "-", "not Ready: kubelet has not reported"),
    ("a Node that did not use the token", {"nodes": node("True")}, "failed", "node-name-taken", "still valid"),
]


@pytest.mark.parametrize(("state", "code", "why", "given"), [(*case[2:], case[1]) for case in CASES], ids=[case[0] for case in CASES])
def test_what_is_known(script, state, code, why, given):
    found = look(script, **given).judge("a", TOKEN, True)
    assert found[:2] == (state, code) and why in found[2], found
    assert code == "-" or code in FAILURES


def test_node_that_had_no_token(script):
    assert look(script, nodes=node("True")).judge("a", None, True)[:2] == ("failed", "node-name-taken")


def test_request_of_an_enrolled_node(script):
    """All nodes use one token: the name in the request decides. A Node has joined, whenever that was."""
    given = {"csrs": [csr("1", node="b"), csr("2", "Denied")]}
    assert look(script, **given).judge("a", TOKEN, False)[:2] == ("failed", "csr-denied")
    assert look(script, **given).judge("b", TOKEN, False)[:2] == ("waiting", "csr-pending")
    assert look(script, **given).judge("c", TOKEN, False)[:2] == ("waiting", "-")
    assert look(script, nodes=node("True")).judge("a", TOKEN, False)[0] == "joined"


@pytest.mark.parametrize("text", [b"", b"-----BEGIN X-----\nAAAA\n-----END X-----",
                                  b"-----BEGIN X-----\nBgNVBAMM\n-----END X-----"], ids=["empty", "no name", "cut off"])
def test_request_without_a_name(script, text):
    assert script.node_of({"spec": {"request": base64.b64encode(text).decode()}}) is None


def test_table_controls_no_terminal(script, capsys):
    rows = {"b": look(script, csrs=[csr("1", "Denied")]).judge("a", TOKEN, True), "a": ("joined", "-", "Ready")}
    script.print_table(rows, [])
    text = capsys.readouterr().out
    assert text.splitlines()[1:] == ["a     joined  -           Ready", "b     failed  csr-denied  Why: because?[31m of 1", "joined 1, waiting 0, failed 1 of 2"]


def test_reasons_are_those_of_the_controller(script):
    """Those that it never approves."""
    assert script.REFUSED == set(tables()["refused"])


def run(tmp_path, *words, kubectl="exit 1", admin="exit 70"):
    for name, text in (("kubectl", kubectl), ("node-bootstrap-admin", admin)):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    return subprocess.run([sys.executable, "-B", SCRIPT, *words], check=False, text=True, capture_output=True, cwd=tmp_path,
                          env={"PATH": f"{tmp_path}:/usr/bin:/bin", **KEPT})


@pytest.mark.parametrize("words, expected", [
    (["f", "../a"], "'../a' is not the name of a node"), (["f", "A"], "'A' is not the name"), (["f"], "expected the names of nodes"),
    (["f", "a\x1b"], "'a?' is not the name"), (["none/f", "a"], "fleet: 'none/f': No such file or directory"), (["f", "a"], "fleet: kubectl: exit status 1"),
    (["link", "a"], "Not a directory"),
])
def test_wrong_use(tmp_path, words, expected):
    (tmp_path / "link").symlink_to("/tmp")
    done = run(tmp_path, *words)
    assert done.returncode in (1, 2) and expected in done.stderr and "Traceback" not in done.stderr, done.stderr


# Nothing is in the cluster, and cluster-info is not signed.
EMPTY = """case "$*" in *custom-columns*) ;; *jsonpath*) echo '{}' ;; *) echo '{"items": []}' ;; esac"""


@pytest.mark.parametrize("status", [66, 70])
def test_program_that_fails(tmp_path, status):
    """No file looks complete. The next run revokes a token that may exist, and continues; a revocation that fails is not ignored."""
    done = run(tmp_path, "f", "a", "b", kubectl=EMPTY, admin=f"exit {status}")
    assert done.returncode == 1 and done.stderr.endswith("run the same command again to continue\n")
    assert [path.name for path in (tmp_path / "f").iterdir()] == ["a.user-data.new"]
    done = run(tmp_path, "f", "a", "b", kubectl=EMPTY, admin='echo "$*" >>log; echo details >&2; exit 69')
    assert done.returncode == 1 and "details\n" in done.stderr and (tmp_path / "log").read_text() == "token revoke --node=a\n"
    works = f'echo "$*" >>log; [ "$2" != revoke ] || exit 66; echo "token: \\"{TOKEN}.0123456789abcdef\\""'
    done = run(tmp_path, "f", "a", "b", "--timeout=0", kubectl=EMPTY, admin=works)
    assert done.returncode == 1 and "joined 0, waiting 0, failed 2 of 2\n" in done.stdout, done.stderr
    assert sorted(path.name for path in (tmp_path / "f").iterdir()) == ["a.user-data", "b.user-data"]
    create = "token create --node={} --print=cloud-config\n"
    assert (tmp_path / "log").read_text() == "token revoke --node=a\n" * 2 + create.format("a") + create.format("b")


def test_folder_is_for_one_run_and_one_user(tmp_path):
    (tmp_path / "f").mkdir(mode=0o700)
    folder = os.open(tmp_path / "f", os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    assert "another run works in f" in run(tmp_path, "f", "a", kubectl=EMPTY).stderr
    os.close(folder)
    (tmp_path / "f").chmod(0o750)
    assert "others can read f" in run(tmp_path, "f", "a", kubectl=EMPTY).stderr


def test_folder_of_another_user(tmp_path):
    (tmp_path / "f").mkdir(mode=0o700)
    os.chown(tmp_path / "f", 1234, 1234)
    done = run(tmp_path, "f", "a", kubectl=EMPTY)
    assert "f belongs to another user" in done.stderr and "chmod" not in done.stderr


def test_file_without_a_token(tmp_path):
    """It is not a token that has expired."""
    (tmp_path / "f").mkdir(mode=0o700)
    (tmp_path / "f/a.user-data").write_text("#cloud-config\n")
    done = run(tmp_path, "f", "--timeout=0", kubectl=EMPTY)
    assert done.returncode == 1 and "f/a.user-data has no token; remove the file" in done.stderr, done


def test_options_anywhere_and_one_warning(tmp_path):
    """kubectl gets a time limit: without one, --timeout would not end a run whose server is silent."""
    limited = f'case "$*" in --request-timeout=30s*) ;; *) exit 1 ;; esac; {EMPTY}'
    done = run(tmp_path, "f", "--ttl=1h", "a", "b", "--timeout=0", kubectl=limited, admin=f'echo careful >&2; echo "token: \\"{TOKEN}.0123456789abcdef\\""')
    assert done.returncode == 1 and "failed 2 of 2" in done.stdout and done.stderr.count("careful") == 1, done.stderr


def test_program_that_is_missing(tmp_path):
    """Before the first look at the cluster, and during a run."""
    for name in ("kubectl", "node-bootstrap-admin"):
        if name == "node-bootstrap-admin":
            (tmp_path / "kubectl").write_text(f"#!/bin/sh\n{EMPTY}\n")
            (tmp_path / "kubectl").chmod(0o755)
        done = subprocess.run([sys.executable, "-B", SCRIPT, "f", "a"], check=False, text=True, capture_output=True, cwd=tmp_path,
                              env={"PATH": str(tmp_path), **KEPT})
        assert (done.returncode, done.stderr) == (1, f"fleet: {name} is not in $PATH; install it, and run the same command again\n")


def test_single_look_does_not_try_again(tmp_path):
    """kubectl works while the tokens are created, and fails afterwards."""
    once = f'[ -e looked ] && {{ echo refused >&2; exit 1; }}; : >looked; {EMPTY}'
    done = run(tmp_path, "f", "a", "--timeout=0", kubectl=once, admin=f'echo "token: \\"{TOKEN}.0123456789abcdef\\""')
    assert done.returncode == 1 and done.stderr.endswith(" kubectl: refused\n"), done.stderr
