# SPDX-License-Identifier: Apache-2.0
"""What node-bootstrap-admin controller serves with --listen: health, readiness and metrics, also while its API server is away."""

import re
import socket
import subprocess
import time

import pytest
import yaml

from common import SOURCE, documentation
from common.wait import until
from .admin_cluster import AT_ONCE, CSRS, METRICS_PREFIX, Cluster, Served, controllers, decisions
from .admin import POLICY
from .objects import PATIENCE


@pytest.fixture
def cluster(api):
    return Cluster(api)


@pytest.fixture
def start(api):
    with controllers(api) as begin:
        yield lambda *options, **where: Served(begin, *options, **where)


def test_decisions_are_counted_by_their_reason(api, cluster, start):
    """A stolen token is not a typo; and a series that begins with 1 has no increase. What somebody else approves is counted."""
    served = start()
    until(lambda: served.metric("leader") == 1, "it is the leader", PATIENCE)
    assert served.metric(decisions("pending", "TokenUsed")) == 0
    assert served.metric('pending_requests{kind="client"}') == 0 and served.metric("oldest_pending_request_timestamp_seconds") is None
    cluster.token("aaaaaa", "n1")
    cluster.request("typo", "n2")
    stolen = cluster.request("stolen", "n3")
    cluster.await_event("stolen", "TokenForAnotherNode")
    api.objects.put(f"{CSRS}/stolen", {**stolen, "status": {"conditions": [{"type": "Approved", "status": "True", "reason": "AutoApproved"}]}})
    cluster.request("one", "n1")
    cluster.await_approval("one")
    cluster.request("two", "n1")
    cluster.await_event("two", "TokenUsed")
    until(lambda: served.metric(decisions("pending", "TokenUsed")) == 1, "the decision is counted", PATIENCE)
    assert served.metric(decisions("pending", "TokenForAnotherNode")) == 2
    assert served.metric(decisions("approved", "NodeBootstrapApproved")) == 1
    assert served.metric('pending_requests{kind="client"}') == 2 and served.metric("oldest_pending_request_timestamp_seconds") > 0
    assert served.metric('decision_duration_seconds_bucket{kind="client",le="+Inf"}') == 1
    assert served.metric("approved_by_others_total") == 1
    cluster.request("three", "n1", approved=True)
    cluster.await_event("three", "ApprovedByOthers")
    until(lambda: served.metric('misused_tokens_total{kind="client",reason="TokenUsed"}') == 1, "the misuse is counted", PATIENCE)
    assert served.metric('misused_tokens_total{kind="client",reason="TokenForAnotherNode"}') == 1
    assert served.metric("approved_by_others_total") == 2
    assert served.metric('tokens{kind="bound"}') == 1 and served.metric('tokens{kind="unbound"}') == 0 and served.metric("claims") == 1
    assert served.metric("queue_length") > 0 and served.metric("suppressed_events_total") == served.metric("signatures_left_out") == 0
    assert served.metric("credential_expiration_timestamp_seconds") > time.time() and 0 <= served.metric('watch_age_seconds{objects="Nodes"}') < 60
    assert served.metric('api_requests_total{code="200"}') > 0 and served.metric('api_requests_total{code="404"}') > 0
    text = served.get("/metrics")[1]
    assert "0123456789abcdef" not in text
    section = documentation.page("node-bootstrap-admin.8").split(".Sh METRICS\n")[1].split("\n.Sh ")[0]
    assert set(re.findall("^# TYPE (\\w+)", text, re.M)) == set(re.findall(r"^\.It Li (\w+)$", section, re.M)) - {
        METRICS_PREFIX + "snapshot_age_seconds"}, "in the manual page; that one is of serving certificates"
    assert served.controller.stop(AT_ONCE) == 0, "the thread takes no signal"


def count_gets(cluster, prefix):
    return len([request for request in cluster.api.requests if request.verb == "get" and request.place.name.startswith(prefix)])


def test_requests_of_unbound_tokens_count_as_pending(cluster, start):
    """Somebody else approves them; if nobody does, a machine waits, and an alert says so. They are not decided here."""
    served = start()
    until(lambda: served.metric("leader") == 1, "it is the leader", PATIENCE)
    cluster.token("bbbbbb", None)
    cluster.settle()
    others = [cluster.request(f"unbound{i}", f"n{i}", "bbbbbb", created=-1000) for i in range(3)]
    until(lambda: served.metric('pending_requests{kind="client"}') == 3, "they are counted", PATIENCE)
    assert time.time() - 1100 < served.metric("oldest_pending_request_timestamp_seconds") < time.time() - 900
    cluster.api.objects.remove(f"{CSRS}/unbound0")
    for i in 1, 2:
        cluster.api.objects.put(f"{CSRS}/unbound{i}", {**others[i], "status": {"conditions": [{"type": "Approved", "status": "True", "reason": "AutoApproved"}]}})
    until(lambda: served.metric('pending_requests{kind="client"}') == 0, "they are not counted any more", PATIENCE)
    cluster.settle("another")
    assert count_gets(cluster, "unbound") == 0


def test_a_request_that_is_seen_before_its_unbound_token_counts_as_well(cluster, start):
    served = start()
    until(lambda: served.metric("leader") == 1, "it is the leader", PATIENCE)
    cluster.request("early", "n1", "bbbbbb", groups=["system:bootstrappers", "system:bootstrappers:x"])
    cluster.settle()
    cluster.token("bbbbbb", None, created=-10)
    until(lambda: served.metric('pending_requests{kind="client"}') == 1, "it is counted", PATIENCE)
    cluster.settle("another")
    read = count_gets(cluster, "early")         # once, or again after a while in which it has no token
    cluster.settle("third")
    assert count_gets(cluster, "early") == read > 0
    cluster.api.objects.remove(f"{CSRS}/early")
    until(lambda: served.metric('pending_requests{kind="client"}') == 0, "it is not counted any more", PATIENCE)


def test_only_get_is_answered(start):
    served = start(host="[::1]")
    assert served.get("/healthz") == (200, "ok\n")
    assert served.get("/metrics/")[0] == served.get("/")[0] == 404
    assert served.get("/metrics", "POST", b"x" * 100000)[0] == served.get("/metrics", "HEAD")[0] == served.get("/metrics", "DELETE")[0] == 405


def test_an_outage_makes_it_unready_but_not_unhealthy(api, start):
    """Otherwise kubelet would restart all replicas when the API server is away."""
    served = start()
    until(lambda: served.get("/readyz") == (200, "ok\n"), "it is ready", PATIENCE)
    api.stop()
    until(lambda: served.get("/readyz")[0] == 503, "it is not ready", 30)
    assert served.get("/readyz")[1].startswith("it waits for: ") and served.get("/healthz")[0] == 200
    until(lambda: served.metric('api_requests_total{code="0"}'), "a request has failed", PATIENCE)


def test_without_its_lease_it_is_unready(api, start):
    served = start()
    until(lambda: served.get("/readyz") == (200, "ok\n"), "it is ready", PATIENCE)
    api.denied.add("patch leases")
    until(lambda: served.get("/readyz") == (503, "it waits for: the Lease\n"), "it is not ready", 30)
    api.denied.clear()
    until(lambda: served.get("/readyz") == (200, "ok\n"), "it is ready again", 30)


def test_without_a_policy_it_is_unready(api, start):
    """And says so once."""
    served = start()
    until(lambda: served.get("/readyz") == (200, "ok\n"), "it is ready", PATIENCE)
    api.objects.remove(POLICY)
    until(lambda: served.get("/readyz") == (503, "it waits for: a usable policy\n"), "it is not ready", PATIENCE)
    api.objects.put(POLICY, data={"requireproof": "true"})
    api.objects.put(POLICY, data={})
    until(lambda: served.get("/readyz") == (200, "ok\n"), "it is ready again", PATIENCE)
    assert sum("there is no usable ConfigMap" in line for line in served.controller.lines) == 1


@pytest.mark.parametrize("series, reason, alert, labels", [
    (decisions("pending", "TokenUsed"), "TokenUsed", "NodeBootstrapTokenUsedTwice", {"severity": "critical", "kind": "client"}),
    ('misused_tokens_total{kind="client",reason="TokenUsed"}', "TokenUsed", "NodeBootstrapTokenUsedTwice", {"severity": "critical", "kind": "client"}),
    (decisions("pending", "TokenForAnotherNode"), "TokenForAnotherNode", "NodeBootstrapRequestRefused",
     {"severity": "warning", "kind": "client", "reason": "TokenForAnotherNode"}),
], ids=["used twice", "used twice, approved", "typo"])
def test_alerts_tell_theft_from_a_typo(tmp_path, series, reason, alert, labels):
    """Each fires with the first such request, and the other one does not."""
    path = SOURCE / "packaging/prometheus/alerts.yaml"
    rules = {rule["alert"]: rule for group in yaml.safe_load(path.read_text())["groups"] for rule in group["rules"]}
    texts = {key: text.replace("{{ $labels.reason }}", reason) for key, text in rules[alert]["annotations"].items()}
    both = ("NodeBootstrapTokenUsedTwice", "NodeBootstrapRequestRefused")
    case = {"interval": "1m", "input_series": [{"series": METRICS_PREFIX + series, "values": "0x5 1x20"}], "alert_rule_test": [
        {"eval_time": "5m", "alertname": alert},
        *({"eval_time": "8m", "alertname": name, "exp_alerts": [{"exp_labels": labels, "exp_annotations": texts}] * (name == alert)} for name in both)]}
    (tmp_path / "test.yaml").write_text(yaml.safe_dump({"rule_files": [str(path)], "tests": [case]}))
    done = subprocess.run(["promtool", "test", "rules", tmp_path / "test.yaml"], check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout


def test_alerts_are_by_cluster(tmp_path):
    """What happens in one does not hide in the sum of all, and the alert says where."""
    series = {'leader{cluster="a",instance="1"}': "1x20", 'leader{cluster="b",instance="1"}': "0x20", 'leader{cluster="b",instance="2"}': "0x20",
              'oldest_pending_request_timestamp_seconds{cluster="a",instance="1"}': "0x20", 'approved_by_others_total{cluster="b",instance="1"}': "0x5 1x15",
              'decisions_total{cluster="b",instance="1",kind="client",decision="pending",reason="TokenUsed"}': "0x5 1x15"}
    path = SOURCE / "packaging/prometheus/alerts.yaml"
    rules = {rule["alert"]: rule for group in yaml.safe_load(path.read_text())["groups"] for rule in group["rules"]}
    expected = {"NodeBootstrapNoLeader": {"cluster": "b"}, "NodeBootstrapApprovedByOthers": {"cluster": "b"},
                "NodeBootstrapTokenUsedTwice": {"cluster": "b", "kind": "client"}}
    tests = [{"eval_time": "10m", "alertname": name, "exp_alerts": [
        {"exp_labels": {**labels, **rules[name]["labels"]}, "exp_annotations": rules[name]["annotations"]}]} for name, labels in expected.items()]
    case = {"interval": "1m", "input_series": [{"series": METRICS_PREFIX + name, "values": values} for name, values in series.items()], "alert_rule_test": tests}
    (tmp_path / "test.yaml").write_text(yaml.safe_dump({"rule_files": [str(path)], "tests": [case]}))
    done = subprocess.run(["promtool", "test", "rules", tmp_path / "test.yaml"], check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout


def test_a_port_that_is_taken_is_a_failure(api):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = api.run("controller", f"--listen=:{taken.getsockname()[1]}")
    assert done.returncode == 71 and "admin-listen-failed" in done.stderr and "Address already in use" in done.stderr
