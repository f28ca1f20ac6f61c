# SPDX-License-Identifier: Apache-2.0
"""node-bootstrap status: what it makes of a journal."""

import json
import subprocess
import xml.etree.ElementTree as ElementTree

import pytest

from machine import FAILURES

SECOND = 1_000_000
BEGIN = 1_767_323_045 * SECOND      # 2026-01-02T03:04:05Z
UNIT = "node-bootstrap.service"
REMOTE = "/lib/systemd/systemd-journal-remote"


class Journal:
    """A journal's files, made of entries in journalctl's export format."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()
        self.text = ""
        self.count = 0

    def entry(self, at, code=None, run="1", unit=UNIT, **fields):
        self.count += 1
        when = BEGIN + round(at * SECOND)
        named = {
            "__REALTIME_TIMESTAMP": when, "__MONOTONIC_TIMESTAMP": when - BEGIN + SECOND, "_BOOT_ID": "b" * 32, "_MACHINE_ID": "c" * 32,
            "_SYSTEMD_UNIT": unit, "_SYSTEMD_INVOCATION_ID": run * 32, "PRIORITY": 6, "MESSAGE": f"entry {self.count}",
            **({"MESSAGE_ID": FAILURES[code]["message-id"]} if code else {}),
            **{key if key.isupper() and key in ("PRIORITY", "MESSAGE") else f"NODE_BOOTSTRAP_{key}": value for key, value in fields.items()},
        }
        self.text += "".join(f"{key}={value}\n" for key, value in named.items()) + "\n"
        return self

    def done(self, at, stage, seconds, **more):
        return self.entry(at, "stage-done", STAGE=stage, DURATION_USEC=round(seconds * SECOND), **more)

    def failure(self, at, code, stage=None, priority=3, **more):
        return self.entry(at, code, ERROR=code, PRIORITY=priority, MESSAGE=f"it is {code}", **({"STAGE": stage} if stage else {}), **more)

    def status(self, machine, *options):
        subprocess.run([REMOTE, "--output", self.folder / "test.journal", "-"], input=self.text, text=True, check=True, capture_output=True)
        return machine.status(f"--journal={self.folder}", *options)

    def last_join(self, machine):
        run = self.status(machine, "--json")
        assert run.stderr == "", run.stderr
        return json.loads(run.stdout)["lastJoin"]


@pytest.fixture
def journal(tmp_path):
    return Journal(tmp_path / "journal")


def joined(journal, run="1", at=0):
    journal.done(at + 0.02, "discover", 0.02, run=run).done(at + 0.03, "request", 0.01, run=run)
    journal.failure(at + 0.04, "csr-pending", "await", priority=4, run=run)
    journal.done(at + 2.03, "await", 2.0, run=run).done(at + 2.04, "hand-over", 0.01, run=run)
    journal.entry(at + 2.04, "joined", run=run)
    return journal.entry(at + 2.06, "installed", STAGE="install", run=run)


def stages(found):
    return [(s["stage"], s["offsetUsec"], s["durationUsec"], s["outcome"], s["error"]) for s in found["stages"]]


def test_a_join(machine, journal):
    found = joined(journal).last_join(machine)
    assert stages(found) == [
        ("discover", 0, 20000, "done", None), ("request", 20000, 10000, "done", None), ("await", 30000, 2000000, "done", "csr-pending"),
        ("hand-over", 2030000, 10000, "done", None), ("install", 2040000, 20000, "done", None),
    ]
    assert (found["begin"], found["durationUsec"]) == ("2026-01-02T03:04:05.000000Z", 2060000)
    assert (found["outcome"], found["error"], found["message"]) == ("done", None, None)


def test_a_join_as_text(machine, journal):
    text = joined(journal).status(machine).stdout
    assert "The last join, 2026-01-02T03:04:05Z: 2.060 s, done\n" in text
    assert "  await          2.000 s  ####" in text and "waited: csr-pending\n" in text
    assert "explain" not in text


def test_a_join_as_a_picture(machine, journal):
    run = joined(journal).status(machine, "--plot")
    root = ElementTree.fromstring(run.stdout)
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[0] == "node-bootstrap, 2026-01-02T03:04:05Z: 2.060 s, done"
    assert {"discover", "request", "await", "hand-over", "install"} <= set(texts)
    bars = [element for element in root.iter("{http://www.w3.org/2000/svg}rect") if element.get("class")]
    assert len(bars) == 5 and all(int(bar.get("width")) >= 1 for bar in bars)


def test_a_failure(machine, journal):
    journal.done(0.02, "discover", 0.02).failure(30, "token-rejected", "request")
    found = journal.last_join(machine)
    assert stages(found)[-1] == ("request", 20000, 29980000, "failed", "token-rejected")
    assert (found["outcome"], found["error"], found["message"]) == ("failed", "token-rejected", "it is token-rejected")
    text = journal.status(machine).stdout
    assert "failed: token-rejected\n" in text and "token-rejected: it is token-rejected\n" in text
    assert "`node-bootstrap explain token-rejected` tells what to do.\n" in text


def test_a_failure_before_any_stage(machine, journal):
    found = journal.failure(0, "token-missing").last_join(machine)
    assert stages(found) == [("prepare", 0, 0, "failed", "token-missing")]


def test_a_join_under_way(machine, journal):
    """The last that such a journal tells is that it waits."""
    journal.done(0.02, "discover", 0.02).failure(5, "csr-pending", "await", priority=4)
    found = journal.last_join(machine)
    assert stages(found)[-1] == ("await", 20000, 4980000, "under-way", "csr-pending")
    assert (found["outcome"], found["error"]) == ("under-way", "csr-pending")


def test_a_join_that_was_stopped(machine, journal):
    journal.done(0.02, "discover", 0.02).entry(3, "stopped", STAGE="await")
    found = journal.last_join(machine)
    assert (found["outcome"], found["error"]) == ("failed", "stopped") and found["stages"][-1]["stage"] == "await"


def test_a_boot_of_a_joined_machine_is_no_join(machine, journal):
    joined(journal)
    journal.entry(60, "already-joined", run="2").entry(120, "already-joined", run="3")
    assert journal.last_join(machine)["begin"] == "2026-01-02T03:04:05.000000Z"


def test_the_last_of_several_joins(machine, journal):
    joined(joined(journal), run="2", at=3600)
    journal.entry(7200, "already-joined", run="3")
    found = journal.last_join(machine)
    assert found["begin"] == "2026-01-02T04:04:05.000000Z" and len(found["stages"]) == 5


def test_other_units_are_passed_over(machine, journal):
    joined(journal).failure(10, "token-missing", run="2", unit="other.service")
    assert journal.last_join(machine)["outcome"] == "done"


def test_control_characters_in_the_journal(machine, journal):
    journal.failure(0, "token-rejected", "request\x1b[2J").failure(1, "token-rejected", "await")
    assert "\x1b" not in journal.status(machine).stdout + journal.status(machine, "--json").stdout + journal.status(machine, "--plot").stdout


def test_an_empty_journal(machine, journal):
    journal.entry(0, unit="other.service")
    assert "The journal has no entry of a join." in journal.status(machine).stdout
    assert journal.last_join(machine) is None
    journal.status(machine, "--plot").failed("installed-unreadable", 74, "the journal has no entry of a join")


def test_no_such_journal(machine, tmp_path):
    run = machine.status(f"--journal={tmp_path}/nowhere")
    assert "The journal cannot be read: No such file or directory" in run.stdout


@pytest.mark.parametrize("words, expected", [
    (["--json", "--plot"], "'--json' and '--plot' exclude each other"), (["now"], "'now' after 'status' is one too many"),
    (["--journal"], "'--journal' lacks its DIR"),
], ids=["two forms", "a word", "no folder"])
def test_wrong_words(machine, words, expected):
    machine.status(*words).failed("usage", 64, expected)
