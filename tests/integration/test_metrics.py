# SPDX-License-Identifier: Apache-2.0
"""node-bootstrap status --prometheus: what it prints in each state, which alerts this raises, and the queries of the dashboard."""

import json
import os
import re
import stat
import subprocess
import urllib.request

import pytest

from common import pki, prometheus
from common.disk import hung_file_system
from common.failures import count_remedies
from common.machine import Machine, exports, fake_clock
from .admin_cluster import Cluster, controllers, free_port
from .attackers import FAST
from .joined import RECORD, Place
from .journal import BEGIN, SECOND

P = "node_bootstrap_"
DAY = 24 * 3600
MARK = "var/lib/kubelet/node-bootstrap.automatic-refresh"


@pytest.fixture
def make(tmp_path):
    places = []

    def new(**options):
        path = tmp_path / f"place-{len(places)}"
        path.mkdir()
        places.append(Place(path, **options))
        return places[-1]

    yield new
    for place in places:
        place.manager.close()


def read(place, status=0, **options):
    done = place.run("status", "--prometheus", **options)
    assert done.returncode == status, done
    found = {series.removeprefix(P): value for series, value in prometheus.read(done.stdout).items()}
    assert all(series.startswith(P) for series in prometheus.read(done.stdout))
    return found


def assert_agrees(place, found):
    """With --json, whatever the state is."""
    told = json.loads(place.run("status", "--json").stdout)
    assert found.get("joined") == told["joined"]
    for series, key in (("not_before", "notBefore"), ("expiration", "notAfter"), ("renewal", "renewalFrom")):
        assert iso(found.get(f"certificate_{series}_timestamp_seconds")) == told.get("certificate", {}).get(key)
    assert iso(found.get("joined_timestamp_seconds")) == told.get("joinedAt")
    join = told["lastJoin"] or {"outcome": None, "code": None, "stages": []}
    is_done, codes = join["outcome"] == "done", {series: code for series in found if (code := re.search('code="([^"]+)', series))}
    never_ran = {code[1] for series, code in codes.items() if series.startswith("service_failure")}
    assert {code[1] for code in codes.values()} == ({join["code"]} - {None} | never_ran) and never_ran <= {told["code"]}
    assert found.get("join_duration_seconds", 0) == (join["durationUsec"] / SECOND if is_done else 0)
    spans = {}
    for stage in join["stages"] if is_done else []:
        spans[stage["stage"]] = spans.get(stage["stage"], 0) + stage["durationUsec"] / SECOND
    assert {re.search('stage="(.*)"', series)[1]: value for series, value in found.items() if "stage=" in series} == pytest.approx(spans)
    return told


def iso(when):
    return None if when is None else subprocess.run(["date", "--utc", f"--date=@{when:.0f}", "+%Y-%m-%dT%H:%M:%SZ"], capture_output=True, text=True, check=True).stdout.strip()


def unjoin(place, active, **more):
    for path in (Machine.CURRENT, Machine.KUBECONFIG, Machine.RECORD):
        place.machine.target(path).unlink()
    place.kubelet("inactive", "dead")
    place.service.update(ActiveState=active, **more)


def joined(place):
    """Its record has how long the stages took."""
    record = json.loads(place.machine.read(Machine.RECORD))
    place.machine.put(Machine.RECORD, json.dumps({**record, "discoverUsec": 20000, "requestUsec": 20000, "awaitUsec": 2000000, "installUsec": 20000}))


def waiting(place):
    unjoin(place, "activating")
    place.tell("joining", "csr-pending-unbound", at=5)


def failed(place):
    unjoin(place, "failed")
    place.tell("failed", "token-rejected")


def never_run(place):
    unjoin(place, "failed", Result="exit-code", ExecMainCode=1, ExecMainStatus=226)


def overdue(place):
    """By a supervisor, which has refused the renewal."""
    record = json.loads(place.machine.read(Machine.RECORD))
    place.machine.put(Machine.RECORD, json.dumps({**record, "joinMethod": "cacerts", "renewalFailure": "node-deleted"}))


def crashing(place):
    place.kubelet("activating", "auto-restart", NRestarts=3)


def unanswered(place):
    place.manager.units.clear()


def damaged(place):
    """Whether this machine has joined does not depend on them."""
    unjoin(place, "failed")
    place.machine.put("etc/node-bootstrap/config.yaml", "{", 0o644)
    place.tell("failed", "settings-malformed")


OLD, NEW = {"start": -280 * DAY, "end": 20 * DAY}, {"start": -10 * DAY, "end": 355 * DAY}
# How, certificate, how many days the CA is valid; exit status; series that there are, and that there are not; after how many minutes which alerts fire.
STATES = {
    "joined": (joined, NEW, 3650, 0, {"joined": 1, "kubelet_running": 1, 'join_stage_duration_seconds{stage="request"}': 0.02,
               "join_duration_seconds": 2.06}, ["code", "refresh"], {59: []}),
    "kubelet-crashing": (crashing, NEW, 3650, 0, {"joined": 1, "kubelet_running": 0}, ["code", "duration"], {4: [], 6: ["KubeletDown"]}),
    "kubelet-unknown": (unanswered, NEW, 3650, 5, {"joined": 1}, ["running"], {4: [], 6: ["KubeletDown"]}),
    "not renewed": (joined, OLD, 3650, 0, {"joined": 1}, [], {14: [], 16: ["CertificateNotRenewed"]}),
    "a CA that ends": (joined, NEW, 29, 0, {"joined": 1}, [], {1: ["CaExpires"]}),
    "waiting": (waiting, NEW, 3650, 0, {"joined": 0, "kubelet_running": 0, 'join_waiting_since_timestamp_seconds{code="csr-pending-unbound"}': BEGIN // SECOND + 5},
                ["duration", "last_failure", "certificate", "joined_timestamp"], {5: [], 14: [], 16: ["NotJoined"]}),
    "failed": (failed, NEW, 3650, 0, {"joined": 0, 'join_last_failure{code="token-rejected"}': 1}, ["waiting", "duration"], {14: [], 16: ["NotJoined"]}),
    "a service that cannot start": (never_run, NEW, 3650, 0, {"joined": 0, 'service_failure{code="service-setup"}': 1}, ["last_failure"], {14: [], 16: ["NotJoined"]}),
    "damaged settings": (damaged, NEW, 3650, 0, {"joined": 0, "kubelet_running": 0, 'join_last_failure{code="settings-malformed"}': 1}, ["duration"], {14: [], 16: ["NotJoined"]}),
}


@pytest.mark.parametrize("name", STATES)
def test_states(make, tmp_path, name):
    prepare, validity, days, status, present, absent, alerts = STATES[name]
    place = make(ca=pki.CA(end=days * DAY, start=-1000 * DAY), **validity)
    prepare(place)
    place.journal.write()
    found = read(place, status)
    print(name, json.dumps(found, indent=1))
    assert {series: found.get(series) for series in present} == pytest.approx(present)
    assert not [series for series in found for word in absent if word in series]
    assert_agrees(place, found)
    whole = {P + series: value for series, value in found.items()}
    for minutes, names in alerts.items():
        prometheus.assert_fires(tmp_path, whole, minutes, *names)
    prometheus.assert_fires(tmp_path, whole, 17, *{*alerts[max(alerts)], "ReportOld"}, is_written=False)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a file system")
def test_files_on_a_file_server_that_is_dead(make, tmp_path):
    place = make()
    script = f'cd /var/lib/kubelet; mv pki old; ln -s "$0" pki; {exports(fake_clock(FAST))}; exec "$@"'
    with hung_file_system(tmp_path / "hung"):
        found = read(place, 5, before=("sh", "-ec", script, tmp_path / "hung/pki"))
    assert "report_timestamp_seconds" in found and not found.keys() & {"joined", "renamed", "kubelet_running"}
    prometheus.assert_fires(tmp_path, {P + series: value for series, value in found.items()}, 16, "NotJoined")


def test_nodes_that_are_not_monitored(tmp_path):
    """A control plane node, and a machine that is no Node, may do without."""
    rows = [{"series": series, "values": f"1+0x{prometheus.MINUTES}"} for series in (
        *(f'kube_node_info{{instance="state",node="{name}"}}' for name in ("worker-1", "worker-2", "control-1")),
        *(f'node_uname_info{{instance="{name}:9100",nodename="{name}"}}' for name in ("worker-1", "worker-2", "control-1", "database")),
        'kube_node_role{instance="state",node="control-1",role="control-plane"}', f'{prometheus.REPORT}{{instance="worker-1:9100"}}')]
    alert = 'ALERTS{alertname="NodeBootstrapNotMonitored",alertstate="firing"'
    expected = {f"count({alert}}}) or vector(0)": 0}
    prometheus.query(tmp_path, rows, expected, 59, [prometheus.NODE_ALERTS])
    expected = {f"count({alert}}})": 1, f'count({alert},instance="worker-2:9100"}})': 1}
    prometheus.query(tmp_path, rows, expected, 60, [prometheus.NODE_ALERTS])


def test_the_message_of_a_wait_has_its_begin(make):
    """Also long after it was logged, and in each output."""
    place = make()
    waiting(place)
    place.journal.write()
    told = json.loads(place.run("status", "--json").stdout)
    assert "waiting since 2026-01-02T03:04:10Z (csr-pending-unbound): " in told["message"]
    assert told["lastJoin"]["waitingSince"] == "2026-01-02T03:04:10Z"


def test_a_user_who_cannot_read_the_state(make):
    """Whether the machine has joined is left out: false would not be true."""
    place = make()
    place.machine.target(Machine.KUBECONFIG).chmod(0)
    done = place.run("status", "--json", before=["unshare", "--user"])      # without a capability
    assert done.returncode == 5 and "joined" not in json.loads(done.stdout), done.stdout + done.stderr


def test_the_refresh(make):
    """The mark has the time of a refresh that changed nothing. Without the mark, the record has that of the last one that changed something."""
    place = make()
    place.machine.put(Machine.RECORD, json.dumps({**RECORD, "ca": place.ca.pem.decode(), "refreshedAt": "2026-02-02T03:04:05Z"}))
    assert iso(read(place)["refresh_success_timestamp_seconds"]) == "2026-02-02T03:04:05Z"
    place.machine.put(MARK, "")
    os.utime(place.machine.target(MARK), (0, (BEGIN + 60 * DAY * SECOND) // SECOND))
    assert iso(read(place)["refresh_success_timestamp_seconds"]) == "2026-03-03T03:04:05Z"


def test_what_others_write_makes_no_labels(make):
    """A record that is not as install writes it is none."""
    place = make()
    place.machine.put(Machine.RECORD, json.dumps({**RECORD, "joinMethod": 'a"b\\c', "discoverUsec": 1}))
    found = read(place)
    assert re.fullmatch('{version="[0-9.]+"}', next(series for series in found if series.startswith("info")).removeprefix("info"))
    assert not [series for series in found if "stage=" in series]
    unjoin(place, "failed")
    place.tell("failed", "no-such-code")
    assert not [series for series in read(place) if "code" in series]


# --- The file ---

def plant(path, kind):
    if kind == "a file":
        path.write_text("old")
        path.chmod(0o600)
    elif kind == "a link":
        path.symlink_to(path.parent / "victim")
    elif kind == "a directory":
        path.mkdir()
    elif kind == "a FIFO":
        os.mkfifo(path)


@pytest.mark.parametrize("is_temporary", [False, True], ids=["of the file", "of the temporary file"])
@pytest.mark.parametrize("kind", ["nothing", "a file", "a link", "a directory", "a FIFO"])
def test_whoever_owns_the_folder(make, tmp_path, kind, is_temporary):
    """Something is there under the name; nothing is written through it, and the old file stays if there is a failure."""
    folder, place = tmp_path / "folder", make()
    folder.mkdir()
    (folder / "victim").write_text("victim")
    if is_temporary:
        (folder / "n.prom").write_text("old")
    plant(folder / (".n.prom.tmp" if is_temporary else "n.prom"), kind)
    done = place.run("status", f"--prometheus={folder}/n.prom")
    assert (folder / "victim").read_text() == "victim" and done.stdout == ""
    if kind == "a directory":
        assert done.returncode == 73 and f"metrics-unwritable: cannot write '{folder}/n.prom': Is a directory" in done.stderr
        assert count_remedies(done.stderr, "metrics-unwritable")
        assert not is_temporary or (folder / "n.prom").read_text() == "old"
        return
    found = os.lstat(folder / "n.prom")
    assert done.returncode == 0 and stat.filemode(found.st_mode) == "-rw-r--r--" and sorted(os.listdir(folder)) == ["n.prom", "victim"]
    assert f"{P}joined" in prometheus.read((folder / "n.prom").read_text())


@pytest.mark.parametrize("path, status, words", [
    ("/no/such/folder/n.prom", 73, "metrics-unwritable: cannot write '/no/such/folder/n.prom': No such file or directory"),
    ("n.prom", 64, "usage: '--prometheus': expected an absolute path"), ("/tmp/", 64, "usage: '--prometheus': expected an absolute path"),
])
def test_a_path_that_is_wrong(make, path, status, words):
    done = make().run("status", f"--prometheus={path}")
    assert done.returncode == status and words in done.stderr


@pytest.mark.parametrize("other", ["--json", "--monitor", "--monitor=1d"])
def test_one_kind_of_output(make, other):
    done = make().run("status", "--prometheus", other)
    assert (done.returncode, done.stdout) == (64, "") and "'--prometheus' cannot be combined with '--json' or '--monitor'" in done.stderr


def test_full_disk_behind_standard_output(make):
    """A script that renames what it has redirected must learn that the file is empty."""
    with open("/dev/full", "wb") as full:
        done = make().run("status", "--prometheus", stdout=full)
    assert done.returncode == 73 and "metrics-unwritable: cannot write 'standard output': No space left on device" in done.stderr


# --- The dashboard ---

def served_by_a_controller(api, cluster):
    """Its metrics, after it has decided on requests."""
    port = free_port()
    with controllers(api) as start:
        start(f"--listen=127.0.0.1:{port}")
        cluster.token("aaaaaa", "n1")
        cluster.request("typo", "n2")
        cluster.request("one", "n1")
        cluster.await_approval("one")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
            return prometheus.read(answer.read().decode())


def test_every_query_of_the_dashboard_finds_something(make, api, tmp_path):
    """In metrics that nodes and a controller have really reported; it asks for no others."""
    reports = {"controller": served_by_a_controller(api, Cluster(api))}
    for prepare in (joined, waiting, failed, never_run, overdue):
        place = make(start=-300 * DAY, end=40 * DAY)
        prepare(place)
        place.journal.write()
        reports[prepare.__name__] = prometheus.read(place.run("status", "--prometheus").stdout)
    dashboard = json.loads((prometheus.FOLDER / "dashboard.json").read_text())
    queries = [target["expr"].replace("$__rate_interval", "5m") for panel in dashboard["panels"] for target in panel["targets"]]
    assert len(queries) >= len(dashboard["panels"]) >= 8 and len({panel["title"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    known = {series.partition("{")[0] for found in reports.values() for series in found}
    rules = prometheus.NODE_ALERTS.read_text() + (prometheus.FOLDER / "alerts.yaml").read_text()
    assert set(re.findall(r"node_bootstrap_\w+", " ".join([*queries, rules]))) <= known
    rows = [row for instance, found in reports.items() for row in prometheus.recorded(found, instance)]
    prometheus.query(tmp_path, rows, {f"count({query}) > bool 0": 1 for query in queries}, 20)
