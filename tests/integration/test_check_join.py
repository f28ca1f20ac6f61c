# SPDX-License-Identifier: Apache-2.0
"""node-bootstrap check asks what a join would ask, up to the request, which it does not make."""

import json
import os
import shutil
import socket
import time

import pytest

import apiserver
import csrs
import faults
import pki
import ways
from k3s import K3sWorld
from machine import FAILURES, NODE, SECRET, TOKEN_ID, find_program
from test_node import node_object
from test_pending import MACHINE_CONFIG, USER

ALL = ["settings", "credentials", "metadata", "join", "name-resolution", "connection", "tls", "clock", "discovery", "signature", "ca", "api-server",
       "identity", "right", "node-name", "request", "files", "kubelet"]


def everything(path):
    return {str(p): (p.lstat().st_mode, p.lstat().st_mtime_ns) for p in sorted(path.rglob("*"))}


def check(world, *arguments, **options):
    machine = world.machine
    before = everything(machine.path)
    requests, made = world.csrs(), world.server.kinds.count("create")
    run = machine.start("node-bootstrap", "check", f"--config-directory={machine.etc}", *arguments, **options).wait()
    assert everything(machine.path) == before, "files were changed"
    assert world.csrs() == requests, "a certificate was requested"
    assert world.server.kinds.count("create") == made
    assert run.stderr == ""
    return run


def report(world, **options):
    run = check(world, "--json", **options)
    found = json.loads(run.stdout)
    assert set(found) == {"version", "good", "failure", "steps"} and found["version"] == 1
    assert found["good"] == (run.exit == 0) == (found["failure"] is None) and run.exit in (0, 1)
    for step in found["steps"]:
        assert set(step) == {"step", "section", "state", "durationMs", "rows", "failure"}
        assert step["state"] in ("good", "note", "doubt", "bad", "untried") and (step["state"] == "bad") == (step["failure"] is not None)
    return found


def states(found):
    return {step["step"]: step["state"] for step in found["steps"]}


def step_of(found, name):
    [step] = [step for step in found["steps"] if step["step"] == name]
    return step


def texts(found, name):
    return "\n".join(row["text"] for row in step_of(found, name)["rows"])


def fails(world, name, code, *words, **options):
    """The steps before are good, this one is not, and those after it on the network were not tried."""
    found = report(world, **options)
    step = step_of(found, name)
    assert found["failure"] == code and step["failure"]["code"] == code, json.dumps(found, indent=1)
    assert step["failure"]["messageID"] == FAILURES[code]["message-id"] and step["failure"]["subject"] == FAILURES[code]["subject"]
    assert FAILURES[code]["remedy"].split("@")[0] in step["failure"]["remedy"]
    for word in words:
        assert word in step["failure"]["detail"]
    at = ALL.index(name)
    found_states = states(found)
    assert all(found_states[other] != "bad" and found_states[other] != "untried" for other in ALL[:at] if other in found_states), found_states
    assert all(found_states[other] == "untried" for other in ALL[at + 1:ALL.index("files")]), found_states
    said = check(world, **options)
    assert said.exit == 1 and said.stdout.count("✗") == 1
    assert f"  ✗ {code}: " in said.stdout and f"\n    {step['failure']['remedy']}\n" in said.stdout
    assert all(f"  – {label}: not tried\n" in said.stdout for label in (["request"] if at < ALL.index("request") else []))
    return found


def test_all_is_good(world):
    found = report(world)
    assert found["good"] and [step["step"] for step in found["steps"]] == ALL
    assert {state for name, state in states(found).items() if name not in ("files", "kubelet", "metadata", "settings")} <= {"good", "note"}
    server = world.server.endpoint
    assert "127.0.0.1 is an address" in texts(found, "name-resolution")
    certificate = texts(found, "tls")
    assert f"{server} shows a certificate of CN=" in certificate and "by CN=kubernetes" in certificate and "for 127.0.0.1" in certificate.replace("localhost, ", "").replace("kubernetes, ", "")
    assert f"{server} has cluster-info" in texts(found, "discovery") and TOKEN_ID in texts(found, "signature")
    assert f"there is no Node '{NODE}'" in texts(found, "node-name")
    assert "none is under way" in texts(found, "request")
    assert SECRET not in json.dumps(found)
    said = check(world)
    assert said.exit == 0 and "✗" not in said.stdout and "–" not in said.stdout
    assert [line for line in said.stdout.splitlines() if line and line[0] != " "] == [
        "Settings", "Credentials and tokens", "Metadata", "Join", "Network", "Cluster", "Request", "This machine"]


def test_only_what_is_here(world):
    found = json.loads(check(world, "--json", "--local").stdout)
    assert [step["step"] for step in found["steps"]] == ALL[:4] and world.server.connections == []


def test_a_name_that_does_not_resolve(world):
    world.configure(endpoints=["nowhere.invalid:6443"])
    fails(world, "name-resolution", "endpoint-unresolved", "nowhere.invalid")


def test_nobody_listens(world):
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        world.configure(endpoints=[f"127.0.0.1:{reserved.getsockname()[1]}"])
        fails(world, "connection", "endpoint-refused", "Connection refused")


def test_one_of_two_endpoints_is_enough(world):
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        world.configure(endpoints=[world.server.endpoint, f"127.0.0.1:{reserved.getsockname()[1]}"])
        found = report(world)
    assert found["good"] and states(found)["connection"] == "doubt" and states(found)["api-server"] == "good"
    assert "endpoint-refused: " in texts(found, "connection")


def test_no_tls(world):
    world.server.on_connect = faults.plain_http
    fails(world, "tls", "endpoint-reset", world.server.endpoint)


def without_a_date(request):
    return apiserver.Reply(200, b"{}", {"Date": None})


def test_the_clock(world):
    fails(world, "clock", "clock-wrong", f"behind that of {world.server.endpoint}", faketime="-3y")


def test_a_clock_of_before_this_program(world):
    world.server.on("other", without_a_date)
    fails(world, "clock", "clock-wrong", "before this program was built", faketime="-3y")


def test_nobody_says_what_time_it_is(world):
    world.server.on("other", without_a_date)
    assert "no answer said" in texts(report(world), "clock")


def test_a_program_of_tomorrow(world, tmp_path):
    """Where it was copied, the clock was ahead."""
    world.server.on("other", without_a_date)
    copy = tmp_path / "node-bootstrap"
    shutil.copy(find_program("node-bootstrap"), copy)
    os.utime(copy, (time.time() + pki.DAY,) * 2)
    run = world.machine.start(str(copy), "check", f"--config-directory={world.machine.etc}").wait()
    assert run.exit == 0, run.stdout


def test_another_ca_and_a_clock_that_is_off(world):
    world.server.identity = pki.CA("other").serving(start=-pki.DAY)
    fails(world, "api-server", "tls-untrusted", "issued by 'CN=other'", faketime="+5m")


def test_a_clock_that_is_off_and_does_no_harm(world):
    found = report(world, faketime="+2h")
    assert found["good"] and states(found)["clock"] == "doubt" and "2 h 0 min ahead of that of" in texts(found, "clock")


@pytest.mark.parametrize("is_first", [True, False])
def test_a_stranger_among_endpoints_has_another_time(world, is_first):
    """Nobody has proven it, and the join goes through the other one."""
    stranger = world.stranger()
    server = world.endpoint(stranger)
    server.identity = stranger.ca.serving(start=-4010 * pki.DAY, end=-3990 * pki.DAY)
    server.clock_offset = -4000 * 86400
    servers = (server, world.server) if is_first else (world.server, server)
    world.configure(*servers, pins=[world.cluster.ca.pin])
    found = report(world)
    assert found["good"] and states(found)["clock"] == "doubt" and states(found)["api-server"] == "good"
    assert f"clock-wrong: this machine's clock is 4000 d 0 h ahead of that of {server.endpoint}" in texts(found, "clock")
    world.configure(server, pins=[world.cluster.ca.pin])
    fails(world, "clock", "clock-wrong", server.endpoint)


def test_cluster_info_is_not_there(world):
    world.server.on("cluster-info", lambda request: apiserver.status(404, "NotFound", 'configmaps "cluster-info" not found'))
    fails(world, "discovery", "cluster-info-missing")


def test_cluster_info_is_not_for_everybody(world):
    world.server.on("cluster-info", faults.forbidden)
    fails(world, "discovery", "cluster-info-refused")


def test_an_unknown_token(world):
    world.cluster.tokens["ghijkl"] = world.cluster.tokens.pop(TOKEN_ID)
    fails(world, "signature", "token-unknown", TOKEN_ID)


def test_a_wrong_secret(world):
    world.cluster.tokens[TOKEN_ID].secret = "fedcba9876543210"
    fails(world, "signature", "signature-invalid", TOKEN_ID)


def test_no_signature_at_all(world):
    world.cluster.tokens[TOKEN_ID].signs = False
    fails(world, "signature", "signature-missing", "bootstrapsigner")


def test_a_wrong_pin(world):
    other = pki.CA().pin
    world.configure(pins=[other])
    fails(world, "ca", "ca-pin-mismatch", world.cluster.ca.pin)


def test_a_server_of_another_ca(world):
    world.server.identity = pki.CA("other").serving()
    world.cluster.hostile = True
    found = fails(world, "api-server", "tls-untrusted", "other")
    assert "by CN=other" in texts(found, "tls")


def test_a_certificate_for_other_names(world):
    world.server.identity = world.cluster.ca.serving(names=("10.96.0.1", "kubernetes"))
    fails(world, "api-server", "tls-name-mismatch", "10.96.0.1")


def test_the_server_of_cluster_info_is_not_reached(world):
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        server = "127.0.0.1:%d" % reserved.getsockname()[1]
        world.cluster.server = f"https://{server}"
        fails(world, "api-server", "endpoint-refused", server)


def test_the_token_is_not_for_authentication(world):
    world.server.on("review", faults.unauthorized)
    fails(world, "identity", "token-rejected")


def test_the_token_does_not_arrive(world):
    """A load balancer that ends TLS loses a client certificate: the API server answers as to anybody."""
    world.server.on("review", faults.forbidden_to("system:anonymous"))
    fails(world, "identity", "token-rejected")


def test_the_token_has_no_right(world):
    world.cluster.tokens[TOKEN_ID].may = ()
    fails(world, "right", "csr-forbidden")


def test_a_token_that_may_not_ask(world):
    world.server.on("review", faults.forbidden)
    world.server.on("node", faults.forbidden)
    found = report(world)
    assert found["good"] and states(found)["right"] == states(found)["node-name"] == "doubt"
    assert "not known" in texts(found, "right") and "not known" in texts(found, "node-name")


def test_the_node_name_is_taken(world):
    world.cluster.nodes[NODE] = node_object()
    fails(world, "node-name", "node-name-taken", NODE)


def again(world, code, name, *words):
    """What becomes of a request is no matter of the steps before; check says it in both its forms, with the catalogue's remedy."""
    found = fails(world, "request", code, *words)
    assert world.csrs() == [name] and name in step_of(found, "request")["failure"]["detail"]
    return found


def leave_request(world):
    """As a join leaves it that was ended while it waited, before it has asked why."""
    world.cluster.controller = csrs.never
    run = world.machine.start_join()
    [name] = world.cluster.csrs.wait_for(1)
    world.machine.current().wait_for_status(name)
    run.kill()
    world.server.requests.clear()
    return name


def unbind(world):
    world.cluster.tokens[TOKEN_ID].may = ("create", "get", "list", "watch")


def of_openshift(world):
    def rename(obj):
        obj["spec"]["username"] = MACHINE_CONFIG
    world.server.on("get", faults.edited(rename))


@pytest.mark.parametrize("prepare,code,words", [
    (unbind, "csr-pending-unbound", [USER, "system:bootstrappers:kubeadm:default-node-token", "certificatesigningrequests/nodeclient"]),
    (lambda world: None, "csr-pending-unapproved", [f"'{USER}' has the right to have it approved by itself"]),
    (of_openshift, "csr-pending-unapproved", [f"a Machine whose InternalDNS is '{NODE}'", "oc get machines -A"]),
], ids=["no role binding", "no approver", "no Machine"])
def test_why_nobody_approves(world, prepare, code, words):
    """In the words of the join that waits, and by the same question."""
    name = leave_request(world)
    prepare(world)
    again(world, code, name, f"the request waits for approval (`kubectl certificate approve {name}`): ", *words)
    asked = [request for request in world.server.seen("review") if "subresource" in request.json()["spec"]["resourceAttributes"]]
    assert len(asked) == (0 if prepare is of_openshift else 2), "once by each check"


@pytest.mark.parametrize("answer", [faults.forbidden, faults.error(404, "NotFound", "no such thing"), faults.INTERNAL, faults.PORTAL, faults.hang_up_instead],
                         ids=["403", "404", "500", "a web page", "no answer"])
def test_why_nobody_approves_is_not_known(world, answer):
    """Then it is pending, and nothing is guessed."""
    name = leave_request(world)
    world.server.on("review", lambda request: None if "subresource" not in request.json()["spec"]["resourceAttributes"] else answer(request))
    again(world, "csr-pending", name, "the API server does not say")


def test_beside_a_join_that_waits(world):
    world.cluster.controller = csrs.never
    run = world.machine.start_join()
    [name] = world.cluster.csrs.wait_for(1)
    world.machine.current().wait_for_status(name)
    before = world.csrs()
    found = again(world, "csr-pending-unapproved", name, f"`kubectl certificate approve {name}`", f"'{USER}' has the right")
    assert world.csrs() == before and "kube-controller-manager" in step_of(found, "request")["failure"]["remedy"]
    assert run.is_running()
    csrs.approve()(world.cluster, name)
    run.wait().joined()


@pytest.mark.parametrize("controller,code,words", [
    (csrs.deny(), "csr-denied", ["was denied, reason '"]),
    (csrs.fail(), "csr-failed", ["failed, reason '"]),
    (csrs.approved_only, "csr-not-issued", ["is approved, but no certificate was issued yet"]),
], ids=["denied", "failed", "not issued"])
def test_what_became_of_the_request(world, controller, code, words):
    name = leave_request(world)
    controller(world.cluster, name)
    again(world, code, name, *words)
    assert not [request for request in world.server.seen("review") if "subresource" in request.json()["spec"]["resourceAttributes"]]


def test_a_document_in_the_place_of_token_and_pins(tmp_path):
    world = ways.World(tmp_path)
    try:
        world.configure(discovery={"file": world.give("cluster-info.yaml", world.document())})
        found = report(world)
        assert found["good"] and "signature" not in states(found) and "has the document" in texts(found, "discovery")
        assert "that of the document" in texts(found, "ca")
    finally:
        world.close()
    world.check()


def test_k3s(tmp_path):
    world = K3sWorld(tmp_path)
    try:
        world.configure()
        found = report(world)
        assert not {"signature", "identity", "right", "node-name", "request"} & set(states(found))
        assert "has /cacerts" in texts(found, "discovery") and "the hash in the token fits" in texts(found, "ca")
    finally:
        world.close()
    world.check()


def test_folders(world):
    file = world.machine.path / "file"
    file.write_text("")
    world.configure(kubelet={"kubeconfig": f"{file}/kubelet.conf"})
    found = report(world)
    assert found["failure"] == "target-unwritable" and states(found)["request"] == "good"
    assert str(file) in step_of(found, "files")["failure"]["detail"]


# Around the program: systemd runs, and this is what it says of the service; no /run of the machine is touched.
WITH_SYSTEMD = """mount -t tmpfs tmpfs /run; mkdir --parents /run/systemd/system; mount --bind "$0" /usr/bin/systemctl; exec "$@" """


def systemd_says(world, **properties):
    """What is put before the program."""
    path = world.machine.path / "systemctl"
    lines = "\n".join(f"{name}={value}" for name, value in properties.items())
    path.write_text(f"#!/bin/sh\n[ \"$1 $4\" = 'show node-bootstrap.service' ] || exit 1\ncat <<'END'\n{lines}\nEND\n")
    path.chmod(0o755)
    return ["/usr/bin/unshare", "--user", "--map-root-user", "--mount", "sh", "-ec", WITH_SYSTEMD, str(path)]


STRICT = {"LoadState": "loaded", "ProtectSystem": "strict"}


@pytest.mark.parametrize("changes,why", [
    ({}, None),
    ({"ReadWritePaths": "-/etc/kubernetes -/var/lib/kubelet"}, "ReadWritePaths= name nothing that this is below"),
    ({"ReadWritePaths": "-/etc/kubernetes {path}x"}, "ReadWritePaths= name nothing that this is below"),
    ({"ReadWritePaths": "-/etc/kubernetes -{path}/missing"}, "ReadWritePaths= names is not there when it starts"),
    ({"ReadOnlyPaths": "-{path}"}, "ReadWritePaths= name nothing that this is below"),
    ({"ReadWritePaths": ""}, "ReadWritePaths= name nothing that this is below"),
    ({"ReadWritePaths": "", "ProtectSystem": "full"}, None),
    ({"ReadWritePaths": "", "LoadState": "not-found"}, None),
    ({"ReadWritePaths": "-/etc/kubernetes \"{path} x\""}, None),
], ids=["all there", "elsewhere", "longer name", "not there yet", "a deeper one is read-only", "none", "not strict", "no unit", "not taken apart"])
def test_the_sandbox_of_the_service(world, changes, why):
    """The installer would say so only after the request."""
    path = world.machine.path / "kubernetes"
    path.mkdir()
    path.with_name("kubernetesx").mkdir()
    world.configure(kubelet={"kubeconfig": f"{path}/missing/kubelet.conf", "caFile": f"{path}/missing/ca.crt", "certificateDirectory": f"{path}/missing/pki"})
    said = {**STRICT, "ReadWritePaths": f"-/etc/kubernetes -+{world.machine.path}", "ReadOnlyPaths": "/run",
            **{name: value.format(path=path) for name, value in changes.items()}}
    before = systemd_says(world, **said)
    run = world.machine.start(before[0], *before[1:], world.machine.program("node-bootstrap"), "check", "--json", f"--config-directory={world.machine.etc}").wait()
    found = json.loads(run.stdout)
    if why is None:
        assert found["good"] and f"kubeconfig: '{path}/missing' can be made" in texts(found, "files"), json.dumps(step_of(found, "files"))
        return
    failure = step_of(found, "files")["failure"]
    assert found["failure"] == failure["code"] == "target-unwritable" and "ReadWritePaths=" in failure["remedy"]
    assert f"kubeconfig, '{path}/missing': '{path}' is read-only for node-bootstrap.service, since " in failure["detail"] and why in failure["detail"]
