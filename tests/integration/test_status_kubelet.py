# SPDX-License-Identifier: Apache-2.0
"""What status and setup say of the service and of kubelet on a machine that has joined; systemd is a part of the tests."""

import json
import re
import time

import pytest

from common.failures import FAILURES, count_remedies
from common.machine import HEADER, TOKEN, Machine, to_yaml
from .check import BASIS, step_of
from .joined import KUBELET, RECORD, UNIT, Place, ago
from .journal import BEGIN


@pytest.fixture
def place(tmp_path):
    place = Place(tmp_path)
    yield place
    place.manager.close()


AGAIN, GATE = {"NRestarts": 3}, "node-bootstrap-gate.service"
KUBELETS = [
    ("runs", {"age": 5}, True, "joined", "joined, and kubelet is running"),
    ("will end", {"age": 5}, False, "kubelet-unprepared", "joined, but kubelet, which was started N s ago, cannot run: container runtime: "),
    ("runs without the socket", {}, False, "joined", "joined, and kubelet is running"),
    ("was started again", {"age": 12, **AGAIN}, True, "kubelet-crashing", "joined, but kubelet ended 3 times and was started again N s ago"),
    ("was started again by a clock that is ahead", {"age": -3600, **AGAIN}, True, "kubelet-crashing", "joined, but kubelet ended 3 times and was started again N"),
    ("was started again without the socket", {"age": 12, **AGAIN}, False, "kubelet-unprepared", "joined, but kubelet, which was started N s ago, cannot run: "),
    ("was started again long ago", {**AGAIN}, False, "joined", "joined, and kubelet is running"),
    ("has ended", {"active": "activating", "sub": "auto-restart", "ExecMainStatus": 255, **AGAIN}, True, "kubelet-crashing",
     "joined, but kubelet keeps exiting (exit status 255): cannot load"),
    ("is being started again", {"active": "activating", "sub": "start", **AGAIN}, True, "kubelet-crashing", "joined, but kubelet keeps exiting (exit status 0)"),
    ("was stopped after a restart", {"active": "deactivating", "sub": "stop-sigterm", **AGAIN}, True, "kubelet-stopped", "joined, but kubelet is not running: "),
    ("cannot start", {"active": "inactive", "sub": "dead"}, False, "kubelet-unprepared", "joined, but kubelet cannot start: container runtime: "),
]


@pytest.mark.parametrize("row", KUBELETS, ids=[row[0] for row in KUBELETS])
def test_kubelet(place, row):
    """An error of an earlier kubelet is not that of the one that runs."""
    _, kubelet, has_socket, kind, words = row
    place.journal.add(BEGIN, unit=KUBELET, MESSAGE="E0102 03:04:05.000000      80 server.go:1] cannot load").write()
    if has_socket:
        place.put_socket()
    unit, age = place.kubelet(**kubelet), kubelet.get("age", 60)
    place.manager.units[KUBELET] = lambda: {**unit, "ActiveEnterTimestampMonotonic": ago(age)}
    found, status = place.state()
    assert (found["state"], status) == (kind, 0 if kind == "joined" else 4)
    assert re.sub(r"\d+ s ago", "N s ago", found["message"]).startswith(words)
    assert kubelet.get("active") or "exit status" not in found["message"] and "cannot load" not in found["message"]


@pytest.mark.parametrize("ended, is_crashing", [(30, False), (10, True)], ids=["before the join", "after it"])
@pytest.mark.parametrize("kubelet, kind", [({"age": 5}, "joined"), ({"active": "activating", "sub": "auto-restart", "ExecMainStatus": 255}, "kubelet-stopped"),
                                           ({"active": "activating", "sub": "start-pre"}, "kubelet-stopped"), ({"active": "failed", "sub": "failed"}, "kubelet-stopped")],
                         ids=["was started again", "waits for its restart", "is being started again", "is not started again"])
def test_kubelet_that_ended(place, kubelet, kind, ended, is_crashing):
    """Before the join, it lacked its files."""
    place.put_socket()
    place.journal.write()
    place.service["ActiveEnterTimestampMonotonic"] = ago(20)
    is_last = kubelet.get("sub") in ("auto-restart", "failed")
    place.kubelet(**kubelet, ActiveExitTimestampMonotonic=ago(ended), InactiveEnterTimestampMonotonic=ago(ended if is_last else 5.1), **AGAIN)
    assert place.state()[0]["state"] == ("kubelet-crashing" if is_crashing else kind)


@pytest.mark.parametrize("kubelet", [{"active": "inactive", "sub": "dead"}, {"active": "failed", "sub": "failed", **AGAIN}], ids=["stopped", "failed before"])
@pytest.mark.parametrize("gate, service", [("activating", {}), ("inactive", {"ActiveState": "inactive", "Job": (1, "/job/1")})], ids=["the gate", "the service"])
def test_kubelet_that_is_queued(place, kubelet, gate, service):
    """What it lacks, such as a container runtime, may still be on its way."""
    starting = {"ActiveState": "activating", "Job": (3, "/job/3"), "InactiveExitTimestamp": 1767323045000000}
    place.kubelet(**kubelet, Job=(2, "/job/2"))
    place.service.update(service)
    place.manager.units.update({GATE: {"LoadState": "loaded", "ActiveState": gate, "Job": (4, "/job/4")}, "slow.service": starting})
    place.manager.units[GATE].update(starting if gate == "activating" else {})
    place.manager.jobs.update({"/job/1": [(3, "slow.service", "start", "running", "/job/3", "/slow")],
                               "/job/2": [(4, GATE, "start", "running" if gate == "activating" else "waiting", "/job/4", "/gate")]})
    place.journal.write()
    found, status = place.state()
    blocker = GATE if gate == "activating" else "slow.service"
    assert (found["state"], found["code"], found["joined"], status) == ("queued", None, True, 4)
    assert found["message"] == f"joined, and {KUBELET} is queued behind {blocker}, which has been starting since 2026-01-02T03:04:05Z"
    assert place.run("status", "--monitor", "--no-kubelet").returncode == 0
    assert step_of(json.loads(place.run("check", "--local", "--json").stdout), "state").get("failure") is None


# What the newest start has reported
ATTEMPTS = [
    ("failed", ["kept", "kubelet-config-forbidden"], {}, True),
    ("is of an earlier run", ["kept", "kubelet-config-forbidden"], {"invocation": "a" * 32}, False),
    ("succeeded in the end", ["kept"], {}, False),
    ("is under way", ["joining", "kubelet-config-forbidden"], {}, False),
    ("never was", None, {}, False),
]


@pytest.mark.parametrize("kubelet", [{"active": "inactive", "sub": "dead"}, {"age": 5}, {"active": "activating", "sub": "auto-restart", **AGAIN}],
                         ids=["kubelet is stopped", "kubelet was started", "kubelet keeps exiting"])
@pytest.mark.parametrize("row", ATTEMPTS, ids=[f"the attempt {row[0]}" for row in ATTEMPTS])
def test_configuration_that_could_not_be_read(place, row, kubelet):
    """Another restart would fail in the same way: the failure has the remedy."""
    place.put_socket()
    place.machine.put("etc/node-bootstrap/config.yaml", HEADER + to_yaml({"kubelet": {"configFrom": "cluster"}}), 0o644)
    unit = place.kubelet(**kubelet)
    unit["ExecStart"][0][1].append("--config=/var/lib/kubelet/config.yaml")
    if row[1]:
        place.tell(*row[1], **row[2])
    place.journal.write()
    found, status = place.state()
    text = place.run("status").stdout
    assert status == 4 and ("it is kubelet-config-forbidden" in found["message"]) is row[3]
    if row[3]:
        assert found["code"] == "kubelet-config-forbidden" and "systemctl restart" not in found["message"]
        assert count_remedies(text, "kubelet-config-forbidden") and text.endswith("explain kubelet-config-forbidden`.\n")
    else:
        assert found["code"] == ("kubelet-down" if found["state"] == "kubelet-crashing" else "kubelet-unprepared")
        assert "`systemctl restart node-bootstrap.service` reads it from the cluster" in found["message"]


@pytest.mark.parametrize("text, code", [("nodes: 1\n", "settings-invalid"), ("[", "settings-malformed")])
def test_configuration_that_refused_settings_may_want(place, text, code):
    """The start that could not read them has the reason, and not the remedy for a machine that wants no configuration of the cluster."""
    place.put_socket()
    place.machine.put("etc/node-bootstrap/config.yaml", HEADER + text, 0o644)
    unit = place.kubelet(active="inactive", sub="dead")
    unit["ExecStart"][0][1].append("--config=/var/lib/kubelet/config.yaml")
    place.journal.write()
    found, _ = place.state()
    assert found["code"] == "kubelet-unprepared" and "write it; or" in found["message"]
    place.tell("kept", "endpoint-unreachable")      # of an earlier start, with other settings
    found, _ = place.state()
    assert found["code"] == "kubelet-unprepared" and "write it; or" in found["message"]
    place.tell("kept", code)
    found, _ = place.state()
    assert found["code"] == code and f"it is {code}" in found["message"] and "write it" not in found["message"]


@pytest.mark.parametrize("active, age, words", [("active", 60, "kubelet is running, but cannot start again: "), ("active", 0, "kubelet cannot start: "),
                                                ("inactive", 60, "kubelet cannot start: ")])
def test_lost_kubeconfig(place, active, age, words):
    """A kubelet that was started a moment ago will end."""
    place.machine.target(Machine.KUBECONFIG).unlink()
    place.kubelet(active, age=age)
    found, status = place.state()
    assert (found["state"], status) == ("without-kubeconfig", 4) and found["message"].startswith(words), found


@pytest.mark.parametrize("kubelet", [{}, {"active": "activating", "sub": "auto-restart", **AGAIN}], ids=["runs", "keeps exiting"])
@pytest.mark.parametrize("text", [None, "", "damaged"], ids=["missing", "empty", "damaged"])
def test_lost_ca_file(place, text, kubelet):
    """Without a CA, kubelet uses those of the system; without the file, it complains of another one."""
    place.put_socket()
    place.machine.target(Machine.CA_FILE).unlink()
    if text is not None:
        place.machine.put(Machine.CA_FILE, text, 0o644)
    place.kubelet(**kubelet)
    place.journal.add(BEGIN, unit=KUBELET, MESSAGE="E0102 03:04:05.000000      80 run.go:1] unable to load bootstrap kubeconfig").write()
    found, status = place.state()
    assert (found["code"], found["joined"], status) == ("kubeconfig-lost", True, 4) and f"'/{Machine.CA_FILE}'" in found["message"], found
    assert count_remedies(place.run("status").stdout, "kubeconfig-lost")
    checked = place.run("check", "--local", "--json")
    failure = step_of(json.loads(checked.stdout), "state")["failure"]
    assert (checked.returncode, failure["code"], failure["detail"]) == (1, "kubeconfig-lost", found["message"])
    place.service.update(ActiveState="failed", SubState="failed", Result="resources")
    assert place.state()[0]["code"] == "service-setup", "until it can start, it writes nothing"


def test_ca_file_that_no_join_wrote(place):
    """Nothing writes it again."""
    place.put_socket()
    place.machine.put(Machine.RECORD, json.dumps({**RECORD, "ca": ""}))
    place.machine.target(Machine.CA_FILE).unlink()
    assert place.state()[0]["state"] == "joined"


# What is lost; state, exit status, and the beginning of the sentence.
LOST = [([Machine.CURRENT], "unusable", "", "directory-missing"), ([Machine.CURRENT, Machine.KUBECONFIG, Machine.RECORD], "failed", "the last join failed (", "ca-pin-mismatch")]


@pytest.mark.parametrize("lost, kind, words, code", LOST, ids=[row[1] for row in LOST])
def test_failed_service(place, lost, kind, words, code):
    """Its failure has the remedy: the next start fails in the same way."""
    for path in lost:
        place.machine.target(path).unlink()
    place.service.update(ActiveState="failed", SubState="failed", StatusText=f"Not joined ({code}): it is {code}")
    place.tell("failed", code)
    found, status = place.state()
    assert (found["state"], found["code"], status) == (kind, code, 1) and found["message"].startswith(words)
    assert found["message"].count(f"the last join failed ({code}): it is {code}") == 1 and "Not joined" not in found["message"]
    assert place.run("status").stdout.endswith(f"explain {code}`.\n")


def test_sentences_of_a_machine_that_has_not_joined(place):
    """One prefix, and times in one form."""
    for path in (Machine.CURRENT, Machine.KUBECONFIG, Machine.RECORD):
        place.machine.target(path).unlink()
    place.service.update(ActiveState="inactive", SubState="dead")
    assert place.state()[0]["message"] == f"not joined: kubeconfig '/{Machine.KUBECONFIG}' does not exist"
    place.service.update(ActiveState="activating", StatusText="Waiting since 2026-01-02 03:04:05 UTC: it is csr-pending; see 'node-bootstrap explain csr-pending'")
    place.service.update(InactiveExitTimestamp=1767323045000000)
    place.tell("joining", "csr-pending", at=1)
    found, _ = place.state()
    assert (found["message"], found["code"]) == ("joining since 2026-01-02T03:04:05Z, waiting since 2026-01-02T03:04:06Z (csr-pending): it is csr-pending", "csr-pending")
    place.service.update(ActiveState="inactive", Job=(1, "/job"))
    assert place.state()[0]["message"] == f"{UNIT} is queued behind another unit"
    # systemd says what the job waits for: a job that waits itself waits for another one.
    place.manager.jobs.update({"/job": [(2, "first.service", "start", "waiting", "/job2", "/unit2")],
                               "/job2": [(3, "second.service", "start", "running", "/job3", "/unit3")], "/job3": [(4, "x.service", "start", "running", "/job4", "/unit4")]})
    place.manager.units["second.service"] = {"LoadState": "loaded", "ActiveState": "activating", "InactiveExitTimestamp": 1767323045000000}
    assert place.state()[0]["message"] == f"{UNIT} is queued behind second.service, which has been starting since 2026-01-02T03:04:05Z"


@pytest.mark.parametrize("active, file, named", [("inactive", "enabled", f"`systemctl start {UNIT}`"), ("inactive", "disabled", f"`systemctl enable --now {UNIT}`"),
                                                 ("active", "enabled", None), ("", "", None)])
def test_how_to_start_the_join(place, active, file, named):
    """The service was stopped, or never started."""
    for path in (Machine.CURRENT, Machine.KUBECONFIG, Machine.RECORD):
        place.machine.target(path).unlink()
    place.service.update(ActiveState=active, SubState="dead", UnitFileState=file)
    assert place.state()[0]["state"] == "not-joined"
    said = place.run("status").stdout
    assert [words for words in (f"`systemctl start {UNIT}`", f"`systemctl enable --now {UNIT}`") if words in said] == [named] * bool(named)


@pytest.mark.parametrize("file", ["enabled", "disabled"])
def test_service_that_the_next_boot_does_not_start(place, file):
    place.put_socket()
    place.service["UnitFileState"] = file
    found = json.loads(place.run("check", "--local", "--json").stdout)
    rows = [row["state"] for row in step_of(found, "state")["rows"] if f"`systemctl enable {UNIT}`" in row["text"]]
    assert rows == ["doubt"] * (file == "disabled")


@pytest.mark.parametrize("argument, is_wrong", [("node-9", False), ("node-8", True)], ids=["of the join", "of the administrator"])
@pytest.mark.parametrize("name", [{}, {"node": {"name": "node-7"}}], ids=["its host name", "a name"])
def test_arguments_of_a_copy(place, name, argument, is_wrong):
    """The next join replaces what the first one wrote; node.name must not be that of the other machine."""
    place.machine.put(Machine.RECORD, json.dumps({**RECORD, "ca": "", "node": "node-9", "hostName": "node-9", "machineID": 64 * "0"}))
    place.machine.put("etc/node-bootstrap/config.yaml", HEADER + to_yaml({**BASIS, "discovery": {**BASIS["discovery"], "endpoints": ["127.0.0.1:1"]}, **name}), 0o644)
    place.kubelet()["ExecStart"][0][1].append(f"--hostname-override={argument}")
    assert place.state()[0]["state"] == "copied"
    rows = step_of(json.loads(place.run("check", "--json").stdout), "kubelet")["rows"]
    assert any("--hostname-override" in row["text"] for row in rows) is is_wrong, rows


def test_a_program_that_was_killed(place):
    """It cannot report that, but systemd knows it. What it last waited for is not the reason."""
    for path in (Machine.CURRENT, Machine.KUBECONFIG, Machine.RECORD):
        place.machine.target(path).unlink()
    place.service.update(ActiveState="failed", SubState="failed", Result="signal", ExecMainCode=2, ExecMainStatus=9, StatusText="Waiting since 2026-01-02 03:04:05 UTC: x")
    place.tell("joining", "csr-pending")
    found, status = place.state()
    assert (found["state"], found["code"], found["message"], status) == ("failed", None, f"the last join failed: {UNIT} was ended (signal)", 1)
    assert (found["lastJoin"]["outcome"], found["lastJoin"]["code"]) == ("failed", None)


def test_a_join_again_that_failed(place):
    """The machine works with its certificate, which it has to replace."""
    path = place.machine.target(Machine.CURRENT)
    pem = place.machine.root.joinpath(str(path.readlink()).lstrip("/")).read_bytes()
    path.unlink()
    place.machine.put(Machine.CURRENT, pem)
    place.put_socket()
    place.tell("kept", "token-rejected")
    found, status = place.state()
    assert (found["state"], found["code"], status) == ("joined", None, 0)
    assert "joins again at its next start: " in found["message"] and found["message"].endswith("; the last attempt failed (token-rejected): it is token-rejected")


def test_what_an_older_run_has_told(place):
    for path in (Machine.CURRENT, Machine.KUBECONFIG, Machine.RECORD):
        place.machine.target(path).unlink()
    place.tell("failed", "token-missing", invocation="0a" * 16)
    place.service.update(ActiveState="failed", InvocationID=[0x0b] * 16, StatusText="Not joined")
    assert (place.state()[0]["message"], place.state()[0]["lastJoin"]) == ("Not joined", None)
    place.service.update(InvocationID=[0x0a] * 16)
    assert place.state()[0]["message"] == "the last join failed (token-missing): it is token-missing"


def test_hostile_words(place):
    """The text is that of the network side, which may be compromised."""
    for path in (Machine.CURRENT, Machine.KUBECONFIG, Machine.RECORD):
        place.machine.target(path).unlink()
    place.service.update(ActiveState="activating", StatusText="Joining")
    place.tell("joining", "csr-pending", csr="x;reboot", detail="a `curl x | sh`")
    text = place.run("status").stdout
    assert "x;reboot" not in text and "<CSR>" in text
    place.tell("joining", "csr-pending", detail="a\x1b[2J")
    assert place.state()[0]["code"] is None and "\x1b" not in place.run("status").stdout, "such a file is not install's"


def failed(done, code, words):
    assert done.returncode == int(FAILURES[code]["exit"]) and f"{code}: " in done.stderr and words in done.stderr, done
    assert "kubelet is running" not in done.stdout


def test_setup_shows_the_state(place):
    """Not the status of the service, which is as old as its start."""
    place.put_socket()
    place.service["StatusText"] = "Joined; ignored settings-invalid: /etc/node-bootstrap/config.yaml:4"
    done = place.setup()
    assert done.returncode == 0 and done.stdout.endswith("\nthis machine has joined already\nkubelet is running\n"), done


@pytest.mark.parametrize("more, is_due", [("", False), ("no: 1\n", True)], ids=["in force", "refused"])
def test_setup_replaces_a_document_with_the_same_values(place, more, is_due):
    """Those of a refused document were not in force."""
    place.put_socket()
    place.machine.put("etc/node-bootstrap/config.yaml.d/50-setup.yaml", f"{HEADER}discovery:\n  endpoints: [10.0.0.1:6443]\n  caCertHashes: ['{place.ca.pin}']\n{more}", 0o644)
    place.machine.put("etc/credstore/node-bootstrap.token", TOKEN)
    done = place.setup("--force")
    assert done.returncode == 0 and ("changes take effect when node-bootstrap.service starts next" in done.stdout) is is_due, done


def test_setup_does_not_call_a_kubelet_running_that_will_end(place):
    asked, running, ended = [], place.kubelet(age=0), place.kubelet("activating", "auto-restart", age=0, ExecMainStatus=255)

    def look():
        asked.append(time.monotonic())
        return running if asked[-1] < asked[0] + 10 else ended

    place.manager.units[KUBELET] = look
    done = place.setup()
    failed(done, "kubelet-down", "keeps exiting (exit status 255)")
    assert "* joined, but kubelet, which was started " in done.stdout and "; waiting for kubelet\n" in done.stdout


def test_setup_reports_what_kubelet_lacks_at_the_end(place):
    place.kubelet(age=0)
    failed(place.setup("--wait-timeout=6s"), "kubelet-unprepared", "cannot run: container runtime: ")


def test_setup_waits_until_kubelet_has_what_it_lacks(place):
    begin, unit = time.monotonic(), place.kubelet(age=0)

    def look():
        if time.monotonic() > begin + 5:
            place.put_socket()
        return unit

    place.manager.units[KUBELET] = look
    done = place.setup()
    assert done.returncode == 0 and done.stdout.endswith("kubelet is running\n") and place.has_socket, done


def test_setup_of_a_kubelet_that_was_repaired(place):
    """It ended before, but not since setup waits; a restart by hand keeps the number of restarts by systemd."""
    place.put_socket()
    place.kubelet(age=1, NRestarts=3)
    done = place.setup()
    assert done.returncode == 0 and done.stdout.endswith("kubelet is running\n"), done


def test_setup_of_a_kubelet_that_ends_again(place):
    place.put_socket()
    unit = place.kubelet(age=0, NRestarts=3)
    place.manager.units[KUBELET] = lambda: {**unit, "ActiveEnterTimestampMonotonic": ago(0.5), "ActiveExitTimestampMonotonic": ago(0.6)}
    failed(place.setup(), "kubelet-down", "kubelet ended 3 times and was started again ")


def test_setup_of_a_kubelet_that_ended_before_the_join(place):
    """It waits for its restart by systemd, which counts that as one more; setup restarts it at once."""
    place.put_socket()
    ended, calls, looks = ago(5), place.manager.calls, []
    before = {"ExecMainStatus": 255, "ActiveExitTimestampMonotonic": ended, "StateChangeTimestampMonotonic": ended}
    waits = place.kubelet("activating", "auto-restart", NRestarts=2, InactiveEnterTimestampMonotonic=ended, **before)
    stops = place.kubelet("deactivating", "stop-sigterm", NRestarts=3, Job=(1, "/job"), **before)
    runs = place.kubelet(NRestarts=3, **before)

    def start(_):
        place.service.update(ActiveState="active", SubState="exited", ActiveEnterTimestampMonotonic=ago(0))

    def look():
        if not any(method == "RestartUnit" for method, _ in calls):
            return waits
        looks.append(ago(0))
        return stops if len(looks) < 4 else {**runs, "ActiveEnterTimestampMonotonic": looks[3]}

    place.service.update(ActiveState="inactive", SubState="dead")
    place.manager.on_start = start
    place.manager.units[KUBELET] = look
    done = place.setup()
    assert done.returncode == 0 and done.stdout.endswith("kubelet is running\n"), done
    assert [call for call in calls if call[0] == "RestartUnit"] == [("RestartUnit", f"{KUBELET} replace")]


@pytest.mark.parametrize("unit, words", [({"LoadState": "masked", "UnitFileState": "masked"}, "is masked: `systemctl unmask kubelet.service`"),
                                         ({"UnitFileState": "disabled"}, "is disabled: `systemctl enable --now kubelet.service`")], ids=["masked", "disabled"])
def test_setup_of_a_kubelet_that_is_not_started(place, unit, words):
    place.kubelet("inactive", "dead", **unit)
    failed(place.setup(), "kubelet-unprepared", f"joined, but kubelet cannot start: {KUBELET} {words}")


def test_setup_without_kubelet(place):
    """It may be installed later."""
    place.manager.units[KUBELET] = {"LoadState": "not-found", "ActiveState": "inactive", "SubState": "dead", "Job": (0, "/")}
    done = place.setup()
    assert done.returncode == 0 and "joined, but kubelet cannot start: kubelet.service does not exist" in done.stdout, done


@pytest.mark.parametrize("wanted_by", [[], ["multi-user.target"]])
def test_setup_of_a_kubelet_that_the_next_boot_does_not_start(place, wanted_by):
    place.put_socket()
    place.kubelet(UnitFileState="disabled", WantedBy=[GATE, *wanted_by])
    done = place.setup()
    assert done.returncode == 0 and "kubelet is running\n" in done.stdout
    assert done.stdout.endswith(f"{KUBELET} is disabled, so it does not start at the next boot: `systemctl enable {KUBELET}`\n") is not wanted_by
