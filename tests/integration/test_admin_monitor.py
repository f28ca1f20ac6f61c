# SPDX-License-Identifier: Apache-2.0
"""What node-bootstrap-admin controller serves with --listen: health, readiness and metrics, also while its API server is away."""

import contextlib
import http.client
import re
import socket
import subprocess

import pytest
import yaml

from common import SOURCE, documentation
from common.wait import until
from .admin_cluster import AT_ONCE, CSRS, Cluster, controllers, free_port
from .objects import PATIENCE

PREFIX = "node_bootstrap_controller_"


@pytest.fixture
def cluster(api):
    return Cluster(api)


class Served:
    """A controller and what it serves."""

    def __init__(self, start, *options, host=""):
        self.host, self.port = host.strip("[]") or "127.0.0.1", free_port(host.strip("[]") or "127.0.0.1")
        self.controller = start(*options, f"--listen={host}:{self.port}")
        until(self.is_listening, "the controller listens", PATIENCE)

    def is_listening(self):
        with contextlib.suppress(OSError):
            return self.get("/healthz")

    def get(self, path, method="GET", body=None):
        connection = http.client.HTTPConnection(self.host, self.port, timeout=20)
        connection.request(method, path, body)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text

    def metric(self, name):
        """The value of one line, such as `leader` or `decisions_total{...}`; None if there is none."""
        found = [line.rpartition(" ")[2] for line in self.get("/metrics")[1].splitlines() if line.rpartition(" ")[0] == PREFIX + name]
        return int(found[0]) if found else None


@pytest.fixture
def start(api):
    with controllers(api) as begin:
        yield lambda *options, **where: Served(begin, *options, **where)


def decisions(decision, reason):
    return f'decisions_total{{kind="client",decision="{decision}",reason="{reason}"}}'


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
    assert served.metric('api_requests_total{code="200"}') > 0 and served.metric('api_requests_total{code="404"}') > 0
    text = served.get("/metrics")[1]
    assert "0123456789abcdef" not in text
    section = documentation.page("node-bootstrap-admin.8").split(".Sh METRICS\n")[1].split("\n.Sh ")[0]
    assert set(re.findall("^# TYPE (\\w+)", text, re.M)) == set(re.findall(r"^\.It Li (\w+)$", section, re.M)), "in the manual page"
    assert served.controller.stop(AT_ONCE) == 0, "the thread takes no signal"


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
    assert served.get("/readyz")[1].startswith("not watched: ") and served.get("/healthz")[0] == 200
    until(lambda: served.metric('api_requests_total{code="0"}'), "a request has failed", PATIENCE)


@pytest.mark.parametrize("reason, alert, labels", [
    ("TokenUsed", "NodeBootstrapTokenUsedTwice", {"severity": "critical", "kind": "client"}),
    ("TokenForAnotherNode", "NodeBootstrapRequestRefused", {"severity": "warning", "kind": "client", "reason": "TokenForAnotherNode"}),
])
def test_alerts_tell_theft_from_a_typo(tmp_path, reason, alert, labels):
    """Each fires with the first such request, and the other one does not."""
    path = SOURCE / "packaging/prometheus/alerts.yaml"
    rules = {rule["alert"]: rule for group in yaml.safe_load(path.read_text())["groups"] for rule in group["rules"]}
    texts = {key: text.replace("{{ $labels.reason }}", reason) for key, text in rules[alert]["annotations"].items()}
    both = ("NodeBootstrapTokenUsedTwice", "NodeBootstrapRequestRefused")
    case = {"interval": "1m", "input_series": [{"series": PREFIX + decisions("pending", reason), "values": "0x5 1x20"}], "alert_rule_test": [
        {"eval_time": "5m", "alertname": alert},
        *({"eval_time": "8m", "alertname": name, "exp_alerts": [{"exp_labels": labels, "exp_annotations": texts}] * (name == alert)} for name in both)]}
    (tmp_path / "test.yaml").write_text(yaml.safe_dump({"rule_files": [str(path)], "tests": [case]}))
    done = subprocess.run(["promtool", "test", "rules", tmp_path / "test.yaml"], check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout


def test_a_port_that_is_taken_is_a_failure(api):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = api.run("controller", f"--listen=:{taken.getsockname()[1]}")
    assert done.returncode == 71 and "admin-listen-failed" in done.stderr and "Address already in use" in done.stderr
