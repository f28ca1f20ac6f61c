# SPDX-License-Identifier: Apache-2.0
"""node-bootstrap-admin controller against a scripted API that fails, and as a program: start, end and notifications."""

import json
import os
import re
import signal
import socket
import subprocess

import pytest

from common import SOURCE, csrs, faults
from common.csrs import CLIENT, timestamp
from common.endpoint import Reply
from common.machine import preloaded
from common.wait import until
from . import admin
from .admin_cluster import APPROVAL, AT_ONCE, CSRS, INTERNAL, LEASES, Cluster, controllers, cut_watches, holder_of, key_of
from .objects import PATIENCE


@pytest.fixture
def cluster(api):
    return Cluster(api)


@pytest.fixture
def start(api):
    with controllers(api) as begin:
        yield begin


# When the API fails.


def test_a_watch_that_is_cut_continues_without_a_new_list(api, cluster, start):
    start().wait_line("is the leader")
    for i in range(3):
        cut_watches(api)
        cluster.settle(f"n{i}")
    assert len(api.seen("list certificatesigningrequests")) == 1


def test_a_request_that_was_deleted_before_a_new_list_is_noticed(api, cluster, start):
    """The record of an approved request leads to its token, which nobody can use any more."""
    start("--grace=1s").wait_line("is the leader")
    cluster.token("aaaaaa", "n1")
    cluster.request("one", "n1")
    cluster.await_approval("one")
    cluster.settle()

    def meanwhile(request):
        if api.objects.look(f"{CSRS}/one"):
            api.objects.remove(f"{CSRS}/one")
            api.objects.compact()
    api.on("watch certificatesigningrequests", meanwhile)
    cut_watches(api)
    cluster.await_revocation("aaaaaa")
    assert len(api.seen("list certificatesigningrequests")) == 2


def test_expired_watches_are_listed_again(api, cluster, start):
    api.objects.put("/api/v1/nodes/one")
    start().wait_line("is the leader")
    lists = {"certificatesigningrequests": 2, "secrets": 3}     # tokens and records are lists of their own
    for resource in (*lists, "nodes"):
        api.on(f"watch {resource}", faults.error(410, "Expired", "too old resource version"), times=1)
    cut_watches(api)
    until(lambda: all(len(api.seen(f"list {resource}")) == n for resource, n in lists.items()), "all is listed again", PATIENCE)
    until(lambda: [request.query.get("resourceVersion") or "" for request in api.seen("watch nodes")].count("") == 2,   # all Nodes, without a list
          "the Nodes are watched from the start again", PATIENCE)
    cluster.settle()


def put_pages(api, times, signer=CLIENT):
    """More requests than fit into one page, which are not of nodes; the version of the list expires."""
    for number in range(201):
        api.objects.put(f"{CSRS}/r{number:03}", spec={"request": "eA==", "signerName": signer, "username": "x", "usages": []})
    versions = []

    def expire(request):
        if "continue" in request.query and len(versions) < times:
            versions.append(api.objects.put(f"{CSRS}/r000", spec=api.objects.look(f"{CSRS}/r000")["spec"]))
            api.objects.compact()
    api.on("list certificatesigningrequests", expire)


def test_a_list_whose_version_expires_begins_again(api, cluster, start):
    put_pages(api, 2)
    controller = start()
    cluster.settle("zzz")
    assert len([request for request in api.seen("list certificatesigningrequests") if "continue" not in request.query]) == 3
    assert not [line for line in controller.lines if "listing CSRs" in line]


def test_a_command_lists_the_rest_of_a_list_whose_version_expires(api, cluster):
    cluster.token("aaaaaa", "zzz")
    cluster.request("zzz", "zzz")
    put_pages(api, 1, "example.org/x")
    done = api.run("requests", "list", "--output=json")
    assert (done.returncode, done.stderr) == (0, "") and list(csrs.pending(done.stdout)) == ["zzz"]
    assert len(api.seen("list certificatesigningrequests")) == 3


def put_long_names(api):
    """As whoever has a token can create them: a page ends at such a name, and the continue token contains it. They are large as one document."""
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": "n", "uid": "u"} for _ in range(60)]
    for number in range(401):
        api.objects.put(f"{CSRS}/{'r' * 400}{number:03}", metadata={"ownerReferences": owners},
                        spec={"request": "eA==", "signerName": CLIENT, "username": "system:bootstrap:bbbbbb", "usages": ["client auth"]})


def test_long_names_do_not_end_a_list(api, cluster, start):
    put_long_names(api)
    cluster.token("aaaaaa", "n1")
    cluster.request("one", "n1")
    cluster.request("zzz", "n1", key=key_of("one"))
    start()
    for name in ("one", "zzz"):
        cluster.await_approval(name)
    limits = [int(request.query["limit"]) for request in api.seen("list certificatesigningrequests")]
    assert limits == [200, 0]
    # No request has a part of a token.
    assert not [request for request in api.requests if "continue" in request.query]


def test_commands_list_long_names(api, cluster):
    put_long_names(api)
    cluster.token("aaaaaa", "n1")
    for name in ("one", "zzz"):
        cluster.request(name, "n1", key=key_of("one"))
    done = api.run("requests", "list", "--output=name")
    assert done.returncode == 0 and {"one", "zzz"} <= set(done.stdout.split()), done.stderr
    done = api.run("requests", "approve", "one", "zzz")
    assert done.returncode == 0 and cluster.conditions("one") == cluster.conditions("zzz") == ["Approved"], done.stderr


def test_a_list_with_long_names_is_limited(api):
    put_long_names(api)
    api.on("list certificatesigningrequests", lambda request: Reply(200, b" " * (64 * 1024 ** 2 + 1)) if request.query["limit"] == "0" else None)
    done = api.run("requests", "list")
    assert done.returncode == 65 and "delete the objects with such names" in done.stderr
    assert len(api.seen("list certificatesigningrequests")) == 2


@pytest.mark.parametrize("items", ['null', '[', '[1]', '[],"metadata":{"continue":"eA"}'])
def test_a_list_that_is_not_complete_is_refused(api, items):
    """Also one whose continue token comes after the items, where it would be overlooked."""
    api.on("list certificatesigningrequests", lambda _: Reply(200, f'{{"metadata":{{}},"items":{items}}}'.encode()))
    done = api.run("requests", "list")
    assert done.returncode == 65 and "admin-answer-malformed" in done.stderr


def test_a_list_that_is_indented(api, cluster):
    """As an API server answers a browser."""
    cluster.request("one", "n1")
    found = api.objects.look(f"{CSRS}/one")
    api.on("list certificatesigningrequests", lambda _: Reply(200, json.dumps({"metadata": {}, "items": [found]}, indent=2).encode() + b"\n"))
    done = api.run("requests", "list", "--output=name")
    assert done.returncode == 0 and done.stdout.split() == ["one"], done.stderr


def nest(depth):
    return {"f:a": nest(depth - 1)} if depth else {}


# Each is more than what may be parsed of one object, and whoever has a token can create it.
LARGE = {
    "annotations": {"annotations": {f"a{i}": "" for i in range(20001)},
                    "managedFields": [{"fieldsV1": {"f:metadata": {"f:annotations": {f"f:a{i}": {} for i in range(20001)}}}}]},
    "depth": {"managedFields": [{"fieldsV1": nest(40)}]},
    "owners": {"ownerReferences": [{"apiVersion": "v1", "kind": "\"]", "name": "n", "uid": "u"} for _ in range(20001)]},
}


@pytest.mark.parametrize("is_watched", [False, True], ids=["listed", "watched"])
@pytest.mark.parametrize("case", LARGE)
def test_a_large_request_uses_up_its_token(cluster, start, case, is_watched):
    cluster.token("aaaaaa", "n1")
    if is_watched:
        start().wait_line("is the leader")
    csr = cluster.request("by-hand", "n1", approved=True, metadata=LARGE[case])
    if not is_watched:
        cluster.request("two", "n1")
        start()
    cluster.api.objects.wait(lambda: cluster.holder("aaaaaa") == holder_of(csr))
    if is_watched:
        cluster.request("two", "n1")
    cluster.await_event("two", "TokenUsed")
    assert cluster.conditions("two") == []


def test_a_null_character_keeps_nobody_from_leading_and_hides_no_request(api, cluster, start):
    api.objects.put(f"{LEASES}/node-bootstrap-controller", spec={"holderIdentity": ""}, metadata={"annotations": {"a": "\\u0000 \0"}})
    controller = start()
    controller.wait_line("is the leader")
    cluster.token("aaaaaa", "n1")
    csr = cluster.request("one", "n1", approved=False)
    api.objects.put(f"{CSRS}/one", csr, metadata={"annotations": {"a": "\0"}})
    cluster.await_approval("one")
    assert controller.stop(AT_ONCE) == 0
    assert len(api.seen("patch leases")) == 2 and not [line for line in controller.lines if "answer-malformed" in line]


def test_a_watch_that_is_refused_is_tried_again_without_haste(api, cluster, start):
    api.on("watch certificatesigningrequests", INTERNAL, times=2)
    controller = start()
    controller.wait_line("server-error")
    cluster.settle()
    assert len([line for line in controller.lines if "server-error: " in line]) == 1
    assert len(api.seen("watch certificatesigningrequests")) == 3


@pytest.mark.parametrize("kind", [APPROVAL, "get secrets", "create leases", "get nodes", "list secrets", "list leases"])
def test_a_request_that_fails_is_tried_again(api, cluster, start, kind):
    cluster.token("aaaaaa", "n1")
    cluster.request("one", "n1")
    api.on(kind, INTERNAL, times=1)
    start()
    cluster.await_approval("one")


def test_one_request_that_always_fails_does_not_delay_others(api, cluster, start):
    cluster.token("aaaaaa", "n1")
    cluster.request("one", "n1")
    api.on("get secrets", lambda request: faults.error(403, "Forbidden", "no")(request) if
           request.place.name.endswith("aaaaaa") else None)
    start()
    for i in range(3):
        cluster.settle(f"other{i}")
    assert cluster.conditions("one") == []


def test_a_request_that_changes_during_the_decision_is_decided_again(api, cluster, start):
    start().wait_line("is the leader")

    def touch(request):
        csr = api.objects.look(f"{CSRS}/one")
        api.objects.put(f"{CSRS}/one", csr, metadata={"labels": {"changed": "yes"}})
    api.on(APPROVAL, touch, times=1)
    cluster.token("aaaaaa", "n1")
    cluster.request("one", "n1")
    cluster.await_approval("one")


def test_large_requests_do_not_end_the_watch(api, cluster, start):
    start().wait_line("is the leader")
    csr = cluster.request("large", "n1", "zzzzzz")
    for i in range(4):
        api.objects.put(f"{CSRS}/large", csr, metadata={"annotations": {"filler": f"{i}" * (1 << 20)}})
    cluster.settle()
    assert len(api.seen("list certificatesigningrequests")) == 1


def test_nothing_is_decided_while_an_object_cannot_be_read(api, cluster, start):
    """The API server has such an object only if etcd's limit was raised. It may be an approval."""
    controller = start()
    controller.wait_line("is the leader")
    cluster.token("aaaaaa", "n1")
    csr = cluster.request("large", "n1", "zzzzzz")
    api.objects.put(f"{CSRS}/large", csr, metadata={"annotations": {"filler": "x" * (11 << 20)}})
    controller.wait_line("nothing is decided until")
    cluster.request("one", "n1")
    until(lambda: len(api.seen("list certificatesigningrequests")) >= 4, "it lists the requests again", 60)
    assert cluster.conditions("one") == []
    api.objects.remove(f"{CSRS}/large")
    cluster.await_approval("one", 60)


def test_a_lost_watch_continues_without_a_warning(api, cluster, start):
    controller = start()
    cluster.settle("first")
    connected = len(api.seen("watch certificatesigningrequests"))
    cut_watches(api)
    cluster.settle("second")
    assert len(api.seen("watch certificatesigningrequests")) > connected
    assert controller.stop(AT_ONCE) == 0
    assert not [line for line in controller.lines if "watching" in line], "the connection was lost, but the API server answered again"


def test_large_requests_do_not_prevent_the_list(api, cluster, start):
    csr = cluster.request("large", "n1", "zzzzzz")
    for i in range(16):     # more than a page may have
        api.objects.put(f"{CSRS}/large{i}", csr, metadata={"annotations": {"filler": "x" * (1 << 20)}})
    start()
    cluster.settle()


def test_a_status_that_is_no_answer_to_a_read(api, cluster, start):
    controller = start()
    controller.wait_line("is the leader")
    api.on("get certificatesigningrequests", faults.error(409, "Conflict", "no"), times=1)
    cluster.settle()
    assert controller.process.poll() is None


def test_a_version_that_cannot_be_watched_is_not_watched_again(api, cluster, start):
    start().wait_line("is the leader")
    cluster.settle()
    refuse = faults.error(400, "BadRequest", "invalid resource version")
    api.on("watch certificatesigningrequests", lambda request: refuse(request) if len(api.seen("list certificatesigningrequests")) == 1 else None)
    cut_watches(api)
    cluster.settle("again")
    assert len(api.seen("list certificatesigningrequests")) == 2


# The program.


def test_it_ends_at_once_and_gives_the_lease_away(api, cluster, start):
    controller = start()
    controller.wait_line("is the leader")
    assert controller.stop(AT_ONCE) == 0
    assert api.objects.look(f"{LEASES}/node-bootstrap-controller")["spec"]["holderIdentity"] == ""


def test_a_token_file_that_was_replaced_is_read_again(api, cluster, tmp_path):
    bearer = tmp_path / "token"
    bearer.write_text("first-token-of-the-account")
    api.cluster.bearers["first-token-of-the-account"] = admin.ADMIN
    path = api.kubeconfig("account.conf", user={"tokenFile": str(bearer)})
    with admin.Running("controller", "--parts=approve-client", "--kubeconfig", path) as controller:
        controller.wait_line("is the leader")
        bearer.write_text("second-token-of-the-account")
        api.cluster.bearers["second-token-of-the-account"] = admin.ADMIN
        del api.cluster.bearers["first-token-of-the-account"]
        cut_watches(api)
        cluster.settle()


def test_a_token_file_that_is_missing_is_waited_for(api, cluster, tmp_path):
    """Another program writes it. The state says so, and the unit is up."""
    bearer = tmp_path / "bearer"
    path = api.kubeconfig("account.conf", user={"tokenFile": str(bearer)})
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0node-bootstrap-test-{os.getpid()}-file")
        manager.settimeout(10)
        with admin.Running("controller", "--parts=approve-client", "--kubeconfig", path,
                           env={"NOTIFY_SOCKET": f"@node-bootstrap-test-{os.getpid()}-file"}) as controller:
            lines = []
            while "READY=1" not in lines:
                lines.extend(manager.recv(65536).decode().splitlines())
            assert any(line.startswith("STATUS=Waiting: ") and "tokenFile" in line for line in lines), lines
            controller.wait_line("admin-kubeconfig-unusable")
            bearer.write_text(admin.TOKEN_OF_ADMIN)
            controller.wait_line("is the leader")
            cluster.settle()
    assert admin.run_admin("controller", "--kubeconfig", tmp_path / "missing").returncode == 78, "but not for the kubeconfig itself"


KUBECTL = """#!/bin/sh
echo "$*" >>{folder}/calls
case $* in
*"get serviceaccount"*) ;;
"create --raw=/api/v1/namespaces/kube-system/serviceaccounts/node-bootstrap-controller/token --filename=-")
        read -r request && echo "$request" >{folder}/request && exec cat {folder}/answer ;;
*certificate-authority-data*) printf %s {ca} ;;
*server*) printf %s {server} ;;
*) exit 1 ;;
esac
"""


def renew_at_once(type_script):
    done = type_script("--token=7200")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return 7200


def renew_in_two_steps(type_script):
    """As the timer does. What root reads was written by a process without privileges."""
    made = type_script("--request")
    assert made.returncode == 0 and made.stderr == ""
    for text in "", "\n", "a b\n", "a/../b\n":
        assert type_script("--install", input=text).returncode == 65
    done = type_script("--install", input=made.stdout)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return 86400


def test_the_example_of_a_timer_is_correct():
    folder = SOURCE / "packaging/kubernetes"
    done = subprocess.run(["systemd-analyze", "verify", "--recursive-errors=no", folder / "controller-token.service", folder / "controller-token.timer"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "controller-token" not in done.stderr, done.stderr


@pytest.mark.parametrize("renew", [renew_at_once, renew_in_two_steps])
def test_the_token_of_the_unit_is_replaced_while_it_runs(api, cluster, tmp_path, renew):
    """By controller-kubeconfig, with a TokenRequest. Here the service's directory is another one."""
    run = tmp_path / "run"
    script = (SOURCE / "packaging/kubernetes/controller-kubeconfig").read_text()
    assert script.count("/run/node-bootstrap-controller\n") == 1
    (tmp_path / "script").write_text(script.replace("/run/node-bootstrap-controller\n", f"{run}\n"))
    cluster_of = api.user_cluster()
    (tmp_path / "kubectl").write_text(KUBECTL.format(folder=tmp_path, server=cluster_of["server"], ca=cluster_of["certificate-authority-data"]))
    (tmp_path / "kubectl").chmod(0o755)

    def type_script(*words, input=""):
        return subprocess.run(["sh", tmp_path / "script", *words], env={"PATH": f"{tmp_path}:{os.environ['PATH']}"}, capture_output=True, text=True,
                              check=False, timeout=30, input=input)
    made = type_script()
    assert made.returncode == 0 and f"tokenFile: {run}/token" in made.stdout, made
    (tmp_path / "kubeconfig").write_text(made.stdout)
    done = type_script("--token")
    assert done.returncode == 75 and "is missing" in done.stderr
    run.mkdir()
    os.chown(run, 65533, 65533)
    with admin.Running("controller", "--parts=approve-client", "--kubeconfig", tmp_path / "kubeconfig") as controller:
        controller.wait_line("admin-kubeconfig-unusable")
        for token in "first.token", "second.token":
            api.cluster.bearers[token] = admin.ADMIN
            (tmp_path / "answer").write_text(json.dumps({"kind": "TokenRequest", "status": {"token": token, "expirationTimestamp": "x"}}))
            seconds = renew(type_script)
            assert (run / "token").read_text() == token + "\n"
            assert json.loads((tmp_path / "request").read_text())["spec"] == {"expirationSeconds": seconds}
            mode = (run / "token").stat()
            assert (mode.st_mode & 0o777, mode.st_uid, mode.st_gid) == (0o600, 65533, 65533) and os.listdir(run) == ["token"]
            controller.wait_line("is the leader")
            cluster.settle(token)
            api.cluster.bearers.pop(token)
            cut_watches(api)
    assert "first.token" not in (tmp_path / "calls").read_text(), "no argument of a process"
    assert type_script("--forever").returncode == 64


SHIM = """#define _GNU_SOURCE
#include <dlfcn.h>
unsigned alarm(unsigned seconds) { return ((unsigned (*)(unsigned))dlsym(RTLD_NEXT, "alarm"))(seconds == 120 ? 8 : seconds); }
"""


def test_a_loop_that_is_stuck_ends_the_program(api, cluster, tmp_path):
    """Here by a credential plugin that hangs, with a shorter time. The other controller takes over, and is not ended."""
    (tmp_path / "shim.c").write_text(SHIM)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "shim.so", tmp_path / "shim.c"], check=True)
    script = f"""[ -e {tmp_path}/called ] && exec sleep 15; : >{tmp_path}/called
        echo '{admin.exec_credential(token=admin.TOKEN_OF_ADMIN, expirationTimestamp=timestamp(3))}'"""
    path = api.kubeconfig("exec.conf", user=admin.exec_user(script))
    env = preloaded(tmp_path / "shim.so")
    with admin.Running("controller", "--kubeconfig", path, env=env) as stuck:
        stuck.wait_line("is the leader")
        with admin.Running("controller", "--kubeconfig", api.kubeconfig(), env=env) as other:
            assert stuck.process.wait(60) == -signal.SIGALRM
            other.wait_line("is the leader", 60)
            cluster.settle()


def test_a_log_without_a_journal_has_time_and_level(start, api):
    controller = start()
    line = controller.wait_line("is the leader")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ info node-bootstrap-admin: this controller is the leader now .*", line), line
    api.denied.add("patch leases")
    assert re.match(r"[0-9T:-]+Z warning node-bootstrap-admin: admin-forbidden: ", controller.wait_line("admin-forbidden"))


def test_systemd_is_told_of_the_start_and_the_state(cluster, start):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0node-bootstrap-test-{os.getpid()}")
        manager.settimeout(10)
        controller = start(env={"NOTIFY_SOCKET": f"@node-bootstrap-test-{os.getpid()}"})
        seen = []

        def hear(text):
            while not any(line.startswith(text) for line in seen):
                seen.extend(manager.recv(65536).decode().splitlines())
        hear("READY=1")
        assert any(line.startswith("STATUS=") for line in seen), "who starts the unit may read the state at once"
        hear("STATUS=Leader; 0 pending, 0 tokens, 0 approved")
        cluster.settle("n1")
        hear("STATUS=Leader; 0 pending, 1 tokens, 1 approved")
        controller.stop()
        hear("STOPPING=1")


def test_systemd_is_told_of_a_dry_run(cluster, start):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0node-bootstrap-test-{os.getpid()}")
        manager.settimeout(10)
        start("--dry-run", env={"NOTIFY_SOCKET": f"@node-bootstrap-test-{os.getpid()}"})
        states = []
        while not states:
            states = [line for line in manager.recv(65536).decode().splitlines() if line.startswith("STATUS=")]
        assert states == ["STATUS=Dry run; 0 pending, 0 tokens, 0 approved"]


def test_it_is_ready_and_says_why_it_waits_when_the_api_server_is_away(api, tmp_path):
    path = api.kubeconfig()
    api.stop()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0node-bootstrap-test-{os.getpid()}-away")
        manager.settimeout(10)
        with admin.Running("controller", "--kubeconfig", path, env={"NOTIFY_SOCKET": f"@node-bootstrap-test-{os.getpid()}-away"}) as controller:
            lines = []
            while "READY=1" not in lines:
                lines.extend(manager.recv(65536).decode().splitlines())
            assert any(line.startswith("STATUS=Trying again: ") for line in lines)
            controller.wait_line("admin-unreachable")
            assert controller.stop(AT_ONCE) == 0


def test_a_lease_that_is_forbidden_is_one_line(api, start):
    api.denied.add("get leases")
    controller = start()
    until(lambda: len(api.seen("get leases")) >= 3, "it asks for the Lease three times", PATIENCE)
    assert sum("admin-forbidden" in line for line in controller.lines) == 1


def test_a_leader_that_has_lost_its_lease_stops(api, cluster, start):
    """As a standby, it reads the Lease that another controller has taken."""
    start().wait_line("is the leader")
    reads = len(api.seen("get leases"))
    api.objects.put(f"{LEASES}/node-bootstrap-controller", spec={"holderIdentity": "another"})
    api.objects.wait(lambda: len(api.seen("get leases")) > reads)
    cluster.token("aaaaaa", "n1")
    cluster.request("one", "n1")
    api.objects.wait(lambda: len(api.seen("get leases")) > reads + 1)
    assert cluster.conditions("one") == []


def test_a_standby_names_the_leader(api, start):
    start().wait_line("is the leader")
    holder = api.objects.look(f"{LEASES}/node-bootstrap-controller")["spec"]["holderIdentity"]
    standby = start()
    standby.wait_line(holder)
    observed = len(api.seen("get leases"))
    until(lambda: len(api.seen("get leases")) >= observed + 2, "it asks for the Lease twice", PATIENCE)
    assert sum(holder in line for line in standby.lines) == 1


@pytest.mark.parametrize("options, message", [
    (["--parts=approve-client,fly"], "unknown part"),
    (["--parts="], "unknown part"),
    (["--grace=soon"], "duration"),
    (["--listen=10270"], "127.0.0.1:10270"),
    (["--listen=127.0.0.1"], "127.0.0.1:10270"),
    (["--listen=localhost:10270"], "127.0.0.1:10270"),
    (["--listen=::1:10270"], "127.0.0.1:10270"),
])
def test_wrong_options_are_refused(api, options, message):
    done = api.run("controller", *options)
    assert done.returncode == 64 and message in done.stderr


def test_the_example_of_a_duration_is_accepted(api):
    example = re.search(r"a duration such as (\w+)", api.run("controller", "--grace=soon").stderr)[1]
    assert "unknown part" in api.run("controller", f"--grace={example}", "--parts=fly").stderr


def test_no_secret_of_a_token_is_logged(api, cluster, start):
    controller = start()
    cluster.settle()
    controller.stop()
    assert "0123456789abcdef" not in json.dumps(controller.lines)
    assert all("0123456789abcdef" not in (request.body or b"").decode(errors="replace") for request in api.requests)
