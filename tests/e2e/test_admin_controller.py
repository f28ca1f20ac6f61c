# SPDX-License-Identifier: Apache-2.0
"""The controller beside a real control plane: what a stolen token is worth, and what it does when it or the API server is restarted."""

import base64
import contextlib
import itertools
import re
import socket
import subprocess
import threading

import pytest

from common import SOURCE, pki
from common.wait import until
from .harness import admin
from .harness.controlplane import CSRS, SECRETS, free_ports

GROUP = "system:bootstrappers:node-bootstrap"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
EVENTS = "/api/v1/namespaces/default/events"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
numbers = itertools.count()


@pytest.fixture(params=["beside kube-controller-manager's approver", "alone"])
def plane(request):
    return request.getfixturevalue("cluster" if request.param.startswith("beside") else "unattended_cluster")


def prepare(plane):
    """Returns the ServiceAccount with the permissions that the package has for it."""
    with contextlib.suppress(AssertionError):       # it exists
        plane.kubectl("create", "clusterrolebinding", "node-bootstrap:kubelet-bootstrap", "--clusterrole=system:node-bootstrapper",
                      f"--group={GROUP}")
    return admin.service_account(plane)


@pytest.fixture
def start(plane, administer):
    account, started = prepare(plane), []
    with contextlib.ExitStack() as stack:
        def begin():
            started.append(stack.enter_context(administer(plane).controller("--parts=approve-client", account=account)))
        yield begin
        for controller in started:
            assert controller.stop() == 0   # gives the Lease away, so that the next one need not wait


def fresh_name():
    return f"controlled-{next(numbers)}"


def token_for(plane, node):
    token = plane.token(group=GROUP, signing=False)
    plane.request("PATCH", f"{SECRETS}/bootstrap-token-{token.id}", {"metadata": {"annotations": {"node-bootstrap/node": node}}})
    return token


def submit(plane, token, node, ca=None):
    """A CSR as a node with this token sends it; returns its name."""
    return plane.submit(pki.sign_csr(pki.new_key(), pki.node_user(node)), token=token, ca=ca)


def conditions(plane, csr):
    return [entry["type"] for entry in plane.request("GET", f"{CSRS}/{csr}").get("status", {}).get("conditions", [])]


def is_issued(plane, csr):
    return plane.request("GET", f"{CSRS}/{csr}").get("status", {}).get("certificate")


def await_event(plane, csr, reason):
    def find():
        events = plane.request("GET", EVENTS + "?fieldSelector=involvedObject.name%3D" + csr)["items"]
        return [event for event in events if event["reason"] == reason]
    return until(find, f"an Event {reason} for {csr}")


def join(plane, name, is_ready):
    """The Node that kubelet registers."""
    if not plane.node(name):
        plane.request("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    plane.request("PATCH", f"/api/v1/nodes/{name}/status",
                  {"status": {"conditions": [{"type": "Ready", "status": "True" if is_ready else "False"}]}})


def test_a_token_for_one_node_is_for_this_node_and_once(plane, start):
    start()
    name = fresh_name()
    token = token_for(plane, name)
    stolen = submit(plane, token, "another-name")
    await_event(plane, stolen, "TokenForAnotherNode")
    first = submit(plane, token, name)
    until(lambda: is_issued(plane, first), "the certificate is issued")
    second = submit(plane, token, name)
    await_event(plane, second, "TokenUsed")
    assert plane.find(f"{SECRETS}/bootstrap-token-{token.id}"), "the machine still fetches its certificate"
    join(plane, name, is_ready=True)
    until(lambda: not plane.find(f"{SECRETS}/bootstrap-token-{token.id}"), "the token is revoked")
    later = token_for(plane, name)
    third = submit(plane, later, name)
    await_event(plane, third, "NodeReady")
    assert [conditions(plane, csr) for csr in (stolen, first, second, third)] == [[], ["Approved"], [], []]
    join(plane, name, is_ready=False)       # the machine is reinstalled
    until(lambda: is_issued(plane, third), "a Node that is not Ready may join again")


def test_of_concurrent_uses_of_a_token_one_wins(plane, start):
    start()
    start()                                 # a second controller
    for _ in range(5):
        name = fresh_name()
        token = token_for(plane, name)
        made = []
        threads = [threading.Thread(target=lambda: made.append(submit(plane, token, name))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        until(lambda: any(conditions(plane, csr) for csr in made), "one is approved")
        winner, = (csr for csr in made if conditions(plane, csr))
        for csr in set(made) - {winner}:
            await_event(plane, csr, "TokenUsed")
            assert conditions(plane, csr) == []


@contextlib.contextmanager
def dead_webhooks(plane):
    """Two webhooks that take the connections of the API server, never answer, and have failurePolicy: Ignore."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        rules = [{"apiGroups": [group], "apiVersions": ["v1"], "operations": [operation], "resources": [resource]} for group, operation, resource in (
            ("coordination.k8s.io", "CREATE", "leases"), ("certificates.k8s.io", "UPDATE", "certificatesigningrequests/approval"))]
        hooks = [{"name": f"{name}.example.org", "admissionReviewVersions": ["v1"], "sideEffects": "None", "timeoutSeconds": 6, "failurePolicy": "Ignore",
                  "clientConfig": {"url": f"https://127.0.0.1:{silent.getsockname()[1]}"}, "rules": rules} for name in ("one", "two")]
        plane.request("POST", WEBHOOKS, {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
                                         "metadata": {"name": "dead"}, "webhooks": hooks})
        try:
            yield
        finally:
            plane.request("DELETE", f"{WEBHOOKS}/dead")


def test_webhooks_that_do_not_answer_delay_a_join_and_nothing_else(unattended_cluster, administer):
    """They run one after the other, so each claim and each approval takes 12 s: longer than a leader holds its Lease without renewing it."""
    plane, account = unattended_cluster, prepare(unattended_cluster)
    with administer(plane).controller("--parts=approve-client", account=account) as controller:
        until(lambda: "is the leader" in controller.log(), "the controller is the leader")
        with dead_webhooks(plane):
            names = [fresh_name() for _ in range(3)]
            made = [submit(plane, token_for(plane, name), name) for name in names]
            thief = submit(plane, token_for(plane, names[0]), fresh_name())
            await_event(plane, thief, "TokenForAnotherNode")
            assert not any(conditions(plane, csr) for csr in made), "the refusal did not wait for the webhooks"
            until(lambda: all(conditions(plane, csr) == ["Approved"] for csr in made), "all are approved", 60)
        assert "no longer the leader" not in controller.log()


def test_the_ca_is_rotated(unattended_cluster, administer):
    """The kubeconfig of the controller has the new CA when the API server has its new certificate."""
    plane, other = unattended_cluster, pki.CA()
    account = prepare(plane)
    with administer(plane).controller("--parts=approve-client", account=account) as controller:
        with plane.serving_with(other):
            until(lambda: "admin-untrusted" in controller.log(), "the controller does not trust the new certificate")
            changed = account.with_name("changed.kubeconfig")
            changed.touch(0o600)
            changed.write_text(account.read_text().replace(*(base64.b64encode(ca.pem).decode() for ca in (plane.ca, other))))
            changed.replace(account)
            name = fresh_name()
            csr = submit(plane, token_for(plane, name), name, other)
            until(lambda: conditions(plane, csr) == ["Approved"], "a controller with the new CA approves")
        assert controller.process.poll() is None


ALERTS = SOURCE / "packaging/prometheus/alerts.yaml"


def promtool(*arguments, text=None):
    done = subprocess.run(["promtool", *arguments], check=False, text=True, input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout


def verify_metrics(read):
    """promtool's own opinion of the metrics and of the alerts, which name only what there is."""
    text = until(lambda: (said := read()) and re.search(r'reason="NodeBootstrapApproved"} [1-9]', said) and said, "approvals are counted")
    promtool("check", "metrics", text=text)
    promtool("check", "rules", str(ALERTS))
    names = set(re.findall(r"^(node_bootstrap_controller_\w+)", text, re.M)) | {"node_bootstrap_controller_oldest_pending_request_timestamp_seconds"}
    used = set(re.findall(r"node_bootstrap_controller_\w+", ALERTS.read_text()))
    assert used <= names, used - names
    for reason in re.findall(r'reason="(\w+)"', ALERTS.read_text()):
        assert f'reason="{reason}"' in text


def test_nothing_is_missed_or_approved_twice_when_both_sides_are_restarted(unattended_cluster, administer):
    plane = unattended_cluster
    prepare(plane)
    account = admin.service_account(plane, f"https://{plane.front.endpoint}")
    requests = {}
    for _ in range(60):
        name = fresh_name()
        token = token_for(plane, name)
        requests[name] = [submit(plane, token, name), submit(plane, token, name)]

    def approved():
        states = {item["metadata"]["name"]: [entry["type"] for entry in item.get("status", {}).get("conditions", [])]
                  for item in plane.request("GET", CSRS)["items"]}
        return {name: sum("Approved" in states[csr] for csr in made) for name, made in requests.items()}

    # The answers to all other approvals are held, so that the controller cannot be faster than this process, which kills it.
    for csr in sum(list(requests.values())[10:], []):
        plane.front.gate("PATCH", f"{CSRS}/{csr}/approval", after=True)
    [port] = free_ports(1)
    with administer(plane).controller("--parts=approve-client", f"--listen=:{port}", account=account) as controller:
        until(lambda: sum(approved().values()) >= 10, "some are approved")
        controller.kill()
        plane.front.plain()
        admin.service_account(plane)        # from now on not through the proxy
        assert sum(approved().values()) < 60, "killed in the middle"
        until(lambda: any(is_issued(plane, csr) for made in requests.values() for csr in made), "kube-controller-manager runs: one that starts would end")
        plane.end("kube-apiserver")
        controller.launch()                 # before the API server
        plane.spawn_apiserver()
        until(lambda: sum(approved().values()) >= 30, "more are approved", pause=0.01)
        plane.end("kube-apiserver")
        until(lambda: admin.served("/readyz", port)[0] == 503, "it says that it is not ready")
        assert admin.served("/healthz", port) == (200, "ok\n"), "an outage restarts no pod"
        plane.spawn_apiserver()
        until(lambda: admin.served("/readyz", port) == (200, "ok\n"), "it is ready again")
        name = fresh_name()                 # of a watch that continues
        requests[name] = [submit(plane, token_for(plane, name), name)]
        until(lambda: all(count >= 1 for count in approved().values()), "each node is approved")
        # The controller works in order, so it has handled all others before this one.
        name = fresh_name()
        last = submit(plane, token_for(plane, name), name)
        until(lambda: conditions(plane, last), "the last one is approved")
        verify_metrics(lambda: admin.served("/metrics", port)[1])
    assert set(approved().values()) == {1}
