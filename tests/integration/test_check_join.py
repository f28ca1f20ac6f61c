# SPDX-License-Identifier: Apache-2.0
"""node-bootstrap check makes the requests of a join, except the CSR."""

import json
import re
import socket

import pytest

from common import apiserver, csrs, faults, pki, supervisor
from common.failures import FAILURES, flat
from common.machine import HEADER, NODE, SECRET, TOKEN, TOKEN_ID, to_yaml
from . import join_methods
from .check import kubelet_below, step_of, texts
from .check_join import check, put_client, report, states
from .k3s import K3sWorld

USER = "system:bootstrap:" + TOKEN_ID
ALL = ["service", "settings", "credentials", "state", "files", "kubelet", "metadata", "join", "discovery", "api-server", "identity", "node-name", "request"]


def fails(world, name, code, *words, **options):
    """The earlier steps pass, this one fails, and later network steps are not tried."""
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
    assert all(found_states[other] == "untried" for other in ALL[at + 1:]), found_states
    said = check(world, **options)
    assert said.exit == 1 and said.stdout.count("✗") == 1
    assert f"  ✗ {code}: " in said.stdout and flat(step["failure"]["remedy"]) in flat(said.stdout)
    assert all(f"  – {label}: skipped\n" in said.stdout for label in (["request"] if at < ALL.index("request") else []))
    return found


def test_nothing_prevents_a_join(world):
    found = report(world)
    assert found["good"] and [step["step"] for step in found["steps"]] == ALL
    assert {state for name, state in states(found).items() if name not in ("service", "files", "kubelet", "metadata", "settings")} <= {"good", "note"}
    server = world.server.endpoint
    said = texts(found, "discovery")
    assert f"{server} accepts connections" in said and f"{server}: cluster-info is verified" in said and f"signature: valid for the token {TOKEN_ID}" in said
    assert "CA: matches discovery.caCertHashes" in said and f" that of {server}" in said
    assert f"there is no Node '{NODE}'" in texts(found, "node-name")
    assert "none is pending" in texts(found, "request")
    assert SECRET not in json.dumps(found)
    said = check(world)
    assert said.exit == 0 and "✗" not in said.stdout and "–" not in said.stdout
    assert [line for line in said.stdout.splitlines() if line and line[0] != " "] == [
        "Service", "Settings", "Credentials and tokens", "This machine", "Metadata", "Join", "Cluster", "Request", "No check failed"]


def test_local(world):
    found = json.loads(check(world, "--json", "--local").stdout)
    assert [step["step"] for step in found["steps"]] == ["service", "settings", "credentials", "state", "metadata", "join"] and world.server.connections == []


def test_unresolved_name(world):
    world.configure(endpoints=["nowhere.invalid:6443"])
    fails(world, "discovery", "endpoint-unresolved", "nowhere.invalid")


def test_connection_refused(world):
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        world.configure(endpoints=[f"127.0.0.1:{reserved.getsockname()[1]}"])
        fails(world, "discovery", "endpoint-refused", "Connection refused")


def test_one_of_two_endpoints_is_enough(world):
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        world.configure(endpoints=[world.server.endpoint, f"127.0.0.1:{reserved.getsockname()[1]}"])
        found = report(world)
    assert found["good"] and states(found)["discovery"] == "doubt" and states(found)["api-server"] == "good"
    assert "endpoint-refused: " in texts(found, "discovery")


def test_no_tls(world):
    world.server.on_connect = faults.plain_http
    fails(world, "discovery", "endpoint-reset", world.server.endpoint)


def without_a_date(request):
    return apiserver.Reply(200, b"{}", {"Date": None})


def test_clock_behind(world):
    found = fails(world, "api-server", "clock-wrong", "behind", faketime="-3y")
    assert step_of(found, "discovery")["state"] == "doubt" and f" behind that of {world.server.endpoint}" in texts(found, "discovery")


def test_clock_before_build_time(world):
    def answer(request):
        reply = world.server.healthy(request)
        reply.headers["Date"] = None
        return reply
    world.server.on("cluster-info", answer)
    fails(world, "api-server", "clock-wrong", "before this program was built", faketime="-3y")


def test_untrusted_ca_with_a_small_clock_skew(world):
    world.server.identity = pki.CA("other").serving(start=-pki.DAY)
    fails(world, "api-server", "tls-untrusted", "issued by 'CN=other'", faketime="+5m")


def test_harmless_clock_skew(world):
    found = report(world, faketime="+2h")
    assert found["good"] and states(found)["discovery"] == "doubt" and "clock: 2 h 0 min ahead of that of" in texts(found, "discovery")


@pytest.mark.parametrize("is_first", [True, False])
def test_unverified_endpoint_with_another_clock(world, is_first):
    """It is not verified, and the join uses the other one."""
    stranger = world.stranger()
    server = world.endpoint(stranger)
    server.identity = stranger.ca.serving(start=-4010 * pki.DAY, end=-3990 * pki.DAY)
    server.clock_offset = -4000 * 86400
    servers = (server, world.server) if is_first else (world.server, server)
    world.configure(*servers, pins=[world.cluster.ca.pin])
    found = report(world)
    assert found["good"] and states(found)["discovery"] == "doubt" and states(found)["api-server"] == "good"
    assert f"clock: 4000 d 0 h ahead of that of {server.endpoint}" in texts(found, "discovery")


def test_missing_cluster_info(world):
    world.server.on("cluster-info", lambda request: apiserver.status(404, "NotFound", 'configmaps "cluster-info" not found'))
    fails(world, "discovery", "cluster-info-missing")


def test_forbidden_cluster_info(world):
    world.server.on("cluster-info", faults.forbidden)
    fails(world, "discovery", "cluster-info-forbidden")


def test_unknown_token(world):
    world.cluster.tokens["ghijkl"] = world.cluster.tokens.pop(TOKEN_ID)
    fails(world, "discovery", "token-unknown", TOKEN_ID)


def test_wrong_token_secret(world):
    world.cluster.tokens[TOKEN_ID].secret = "fedcba9876543210"
    fails(world, "discovery", "signature-invalid", TOKEN_ID)


def test_unsigned_cluster_info(world):
    world.cluster.tokens[TOKEN_ID].signs = False
    fails(world, "discovery", "signature-missing", "bootstrapsigner")


def test_a_wrong_pin(world):
    other = pki.CA().pin
    world.configure(pins=[other])
    fails(world, "discovery", "ca-pin-mismatch", world.cluster.ca.pin)


def test_server_certificate_of_another_ca(world):
    world.server.identity = pki.CA("other").serving()
    world.cluster.hostile = True
    fails(world, "api-server", "tls-untrusted", "other")


def test_server_certificate_for_other_names(world):
    world.server.identity = world.cluster.ca.serving(names=("10.96.0.1", "kubernetes"))
    fails(world, "api-server", "tls-name-mismatch", "10.96.0.1")


def test_server_in_cluster_info_refuses_connections(world):
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        server = "127.0.0.1:%d" % reserved.getsockname()[1]
        world.cluster.server = f"https://{server}"
        fails(world, "api-server", "endpoint-refused", server)


def test_token_not_for_authentication(world):
    world.server.on("review", faults.unauthorized)
    fails(world, "identity", "token-rejected")


def test_proxy_drops_the_credential(world):
    """A load balancer that terminates TLS drops the client certificate: the API server treats the client as anonymous."""
    world.server.on("review", faults.forbidden_to("system:anonymous"))
    fails(world, "identity", "token-rejected")


def test_token_may_not_create_requests(world):
    world.cluster.tokens[TOKEN_ID].may = ()
    fails(world, "identity", "csr-forbidden")


def test_access_review_forbidden(world):
    world.server.on("review", faults.forbidden)
    world.server.on("node", faults.forbidden)
    found = report(world)
    assert found["good"] and states(found)["identity"] == states(found)["node-name"] == "doubt"
    assert "cannot determine whether" in texts(found, "identity") and "cannot determine whether" in texts(found, "node-name")


def test_node_name_is_taken(world):
    world.cluster.nodes[NODE] = apiserver.node_object()
    fails(world, "node-name", "node-name-taken", NODE)


def again(world, code, name, *words):
    """check reports the state of an earlier request in text and JSON, with the catalogue's remedy."""
    found = fails(world, "request", code, *words)
    assert world.csrs() == [name] and name in step_of(found, "request")["failure"]["detail"]
    return found


def leave_request(world):
    """As left by a join that was killed while it waited."""
    world.cluster.controller = csrs.never
    run = world.machine.start_join()
    [name] = world.cluster.csrs.wait_for(1)
    world.machine.current().wait_for_status(name)
    run.kill()
    world.server.requests.clear()
    world.pending = name
    return name


def unbind(world):
    world.cluster.tokens[TOKEN_ID].may = ("create", "get", "list", "watch")


def of_openshift(world):
    def rename(obj):
        obj["spec"]["username"] = csrs.MACHINE_CONFIG
    world.server.on("get", faults.edited(rename))


def of_one_node(world):
    def regroup(obj):
        obj["spec"]["groups"] = ["system:bootstrappers", "system:bootstrappers:node-bootstrap"]
    world.server.on("get", faults.edited(regroup))


@pytest.mark.parametrize("prepare,code,words", [
    (of_one_node, "csr-pending-controller", [f"node-bootstrap's controller decides on the requests of '{USER}'"]),
    (unbind, "csr-pending-unbound", [USER, "system:bootstrappers:kubeadm:default-node-token", "certificatesigningrequests/nodeclient"]),
    (lambda world: None, "csr-pending-unapproved", [f"'{USER}' is allowed automatic approval"]),
    (of_openshift, "csr-pending-unapproved", [f"a Machine whose InternalDNS is '{NODE}'", "oc get machines -A"]),
], ids=["a token for one node", "no role binding", "no approver", "no Machine"])
def test_reason_for_pending(world, prepare, code, words):
    """The same message and the same question as in the join."""
    name = leave_request(world)
    prepare(world)
    again(world, code, name, f"the CSR '{name}' is waiting for approval: ", *words)
    asked = [request for request in world.server.seen("review") if "subresource" in request.json()["spec"]["resourceAttributes"]]
    assert len(asked) == (0 if prepare in (of_one_node, of_openshift) else 2), "once by each check"


@pytest.mark.parametrize("answer", [faults.forbidden, faults.error(404, "NotFound", "no such thing"), faults.INTERNAL, faults.PORTAL, faults.hang_up_instead],
                         ids=["403", "404", "500", "a web page", "no answer"])
def test_reason_for_pending_is_unknown(world, answer):
    """Then it is pending, without a reason."""
    name = leave_request(world)
    world.server.on("review", lambda request: None if "subresource" not in request.json()["spec"]["resourceAttributes"] else answer(request))
    again(world, "csr-pending", name, "the API server does not say")


def test_beside_a_join_that_waits(world):
    world.cluster.controller = csrs.never
    run = world.machine.start_join()
    [name] = world.cluster.csrs.wait_for(1)
    world.machine.current().wait_for_status(name)
    before, world.pending = world.csrs(), name
    found = again(world, "csr-pending-unapproved", name, f"'{USER}' is allowed automatic approval")
    assert world.csrs() == before and "kube-controller-manager" in step_of(found, "request")["failure"]["remedy"]
    assert run.is_running()
    csrs.approve()(world.cluster, name)
    run.wait().joined()


@pytest.mark.parametrize("controller,code,words", [
    (csrs.deny(), "csr-denied", ["was denied, reason '"]),
    (csrs.fail(), "csr-failed", ["failed, reason '"]),
    (csrs.approved_only, "csr-not-issued", ["is approved, but no certificate was issued yet"]),
], ids=["denied", "failed", "not issued"])
def test_state_of_the_request(world, controller, code, words):
    name = leave_request(world)
    controller(world.cluster, name)
    again(world, code, name, *words)
    assert not [request for request in world.server.seen("review") if "subresource" in request.json()["spec"]["resourceAttributes"]]


def test_discovery_file(tmp_path):
    world = join_methods.World(tmp_path)
    try:
        world.configure(discovery={"file": world.give("cluster-info.yaml", world.document())})
        found = report(world)
        assert found["good"] and "signature" not in texts(found, "discovery") and "the kubeconfig is verified" in texts(found, "discovery")
        assert "CA: from the kubeconfig" in texts(found, "discovery")
    finally:
        world.close()
    world.check()


def test_k3s(tmp_path):
    world = K3sWorld(tmp_path)
    try:
        world.configure()
        found = report(world)
        assert not {"node-name", "request"} & set(states(found)) and "accepted by the supervisor" in texts(found, "identity")
        assert "/cacerts is verified" in texts(found, "discovery") and "CA: matches the hash in the token" in texts(found, "discovery")
    finally:
        world.close()
    world.check()


@pytest.mark.parametrize("credentials, phase, expected", [
    (TOKEN, supervisor.HANDLERS, None),
    (TOKEN, supervisor.CORE, None),
    (TOKEN, supervisor.RUNNING, "good"),
    ("abcdef.ffffffffffffffff", supervisor.RUNNING, "token-rejected"),
    ("node:wrong", supervisor.RUNNING, "token-rejected"),
])
def test_identity_for_a_supervisor(tmp_path, credentials, phase, expected):
    world = K3sWorld(tmp_path)
    try:
        world.give(credentials)
        world.cluster.phase = phase
        world.configure()
        found = report(world)
        step = step_of(found, "identity")
        if expected is None:
            assert states(found)["identity"] == "doubt" and "may be starting" in texts(found, "identity")
        elif expected == "good":
            assert states(found)["identity"] == "good"
        else:
            assert step["failure"]["code"] == expected
        assert world.cluster.node_passwords == {}, "nothing is stored"
    finally:
        world.close()
    world.check()


def test_unwritable_folder(world):
    file = world.machine.path / "file"
    file.write_text("")
    world.configure(kubelet={"kubeconfig": f"{file}/kubelet.conf"})
    found = report(world)
    assert found["failure"] == "target-unwritable" and states(found)["request"] == "good"
    assert str(file) in step_of(found, "files")["failure"]["detail"]


def without_token(world, **validity):
    put_client(world, world.cluster.ca.node(NODE, **validity))
    (world.machine.credentials / "node-bootstrap.token").unlink()
    return report(world)


def test_token_removed_after_the_join(world):
    """Whichever program joined the machine; without a token, only the certificate is shown to the API server."""
    found = without_token(world)
    assert found["good"] and "no token required: kubelet's certificate is valid until " in texts(found, "join")
    assert states(found)["node-access"] == "good" and "discovery" not in states(found)
    assert [request.user for request in world.server.requests] == [pki.node_user(NODE)] * 2


def test_the_client_cannot_be_read(world):
    """What kubelet can use is enough: the kubeconfig's certificate, but not its CA file, is there."""
    put_client(world)
    (world.machine.path / "kubernetes/ca.crt").unlink()
    (world.machine.credentials / "node-bootstrap.token").unlink()
    said = check(world, "--local").stdout
    assert re.search("no token required: kubelet's certificate is valid until 20[2-9][0-9]-", said), said


@pytest.mark.parametrize("is_usable", [True, False])
def test_settings_removed_after_the_join(world, is_usable):
    """As `apt purge` does."""
    put_client(world, world.cluster.ca.node(NODE) if is_usable else world.cluster.ca.node(NODE, start=-2 * pki.DAY, end=-pki.DAY))
    world.machine.write_settings(HEADER + to_yaml({"kubelet": kubelet_below(world.machine.path), "node": {"name": NODE}}))
    found = report(world)
    if not is_usable:
        assert found["failure"] == "join-needed" and step_of(found, "join")["failure"]["code"] == "settings-incomplete"
        return
    assert found["good"] and states(found)["join"] == "doubt" and states(found)["node-access"] == "good"
    assert "endpoint" in texts(found, "join") and texts(found, "join").endswith(": only needed when this machine has to join again")


def test_missing_token_with_an_expired_certificate(world):
    assert step_of(without_token(world, start=-2 * pki.DAY, end=-pki.DAY), "join")["failure"]["code"] == "token-missing"


def test_missing_token_with_a_clock_that_is_wrong(world):
    assert "no token required" in texts(without_token(world, start=pki.DAY, end=2 * pki.DAY), "join")
