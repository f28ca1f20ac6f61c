# SPDX-License-Identifier: Apache-2.0
"""The machine's console: nothing by default, a join's lines with one drop-in, and the reason of a failure with another."""

import re
import time
from collections import Counter

import pytest

from common import SOURCE
from common.failures import FAILURES, count_remedies, flat
from common.wait import until
from .harness.node import PROGRAM, UNIT

EXAMPLES = SOURCE / "packaging/examples"
SUMMARY = "node-bootstrap-summary.service"
WRONG_PIN = "sha256:" + 64 * "0"
FAILED = "ca-pin-mismatch"


@pytest.fixture(scope="module")
def machine(new_shared_node):
    """With a console, which is a terminal, and its service not enabled."""
    node = new_shared_node("console")
    node.write(f"/etc/systemd/system/{SUMMARY}", (EXAMPLES / SUMMARY).read_text())
    node.boot(options=["--console=read-only"], wait="multi-user.target")
    return node


def read_console(node):
    """The length of the console's file once all that was written before is in it: nspawn copies the terminal a moment later."""
    mark = f"mark {time.monotonic_ns()}\n"
    node.run("sh", "-c", f"printf '%s\n' '{mark.strip()}' >/dev/console")
    until(lambda: mark in node.console().replace("\r", ""), "the mark is on the console")
    return len(node.console())


class Run:
    """One start of the service, and its result."""

    def __init__(self, node, *drop_ins, more=""):
        node.run("sh", "-c", f"rm -rf /etc/systemd/system/{UNIT}.d")
        for name in drop_ins:
            node.write(f"/etc/systemd/system/{UNIT}.d/{name}", (EXAMPLES / name).read_text())
        node.drop_in(UNIT, more)
        self.node, self.before = node, read_console(node)
        node.join(check=False)
        self.state, self.status = node.await_end()
        self.invocation = node.show(UNIT, "InvocationID")

    def console(self):
        return self.node.console()[self.before:].replace("\r", "")

    def summary(self):
        """Without the time and the name of the program, which are before each line."""
        return re.sub(r"^\[[\d. ]+\] [\w-]+\[\d+\]: ", "", self.console(), flags=re.M)

    def ours(self):
        """The lines without systemd's own messages about its units."""
        return re.findall(r"^(?:\[[\d. ]+\] )?(node-bootstrap.*\n(?:  .*\n)*)", self.console(), re.M)

    def assert_ours(self, expected):
        """The terminal is copied to the file a moment after it is written to."""
        until(lambda: [flat(text) for text in self.ours()] == [flat(text) for text in expected], self.ours)

    def entries(self):
        """The log of the service's commands, without debug messages."""
        return [e for e in self.node.journal(f"_SYSTEMD_INVOCATION_ID={self.invocation}") if e.get("SYSLOG_IDENTIFIER", "").startswith("node-bootstrap") and int(e["PRIORITY"]) < 7]

    def assert_entries(self):
        """Each entry once, with its fields, and none as a line of a stream."""
        entries = self.entries()
        assert entries and not [e["MESSAGE"] for e in entries if e["_TRANSPORT"] != "journal" or "MESSAGE_ID" not in e]
        assert [m for m, n in Counter((e["MESSAGE"]) for e in entries).items() if n > 1] == []
        return entries


def test_a_console_is_quiet_without_more(machine):
    run = Run(machine.prepare(pins=[WRONG_PIN]))
    assert (run.state, run.status) == ("failed", int(FAILURES[FAILED]["exit"]))
    assert [e["NODE_BOOTSTRAP_CODE"] for e in run.assert_entries() if "NODE_BOOTSTRAP_CODE" in e] == [FAILED]
    read_console(machine)
    assert run.ours() == []


def test_the_summary_of_a_failure(machine):
    """How it ended, code, what happened, and the remedy; on the console and in the journal."""
    run = Run(machine.prepare(pins=[WRONG_PIN]), "summary.conf")
    row = FAILURES[FAILED]
    [failure] = [e for e in run.assert_entries() if "NODE_BOOTSTRAP_CODE" in e]
    lines = [
        f"{UNIT}: Main process exited, code=exited, status={row['exit']}/PROTOCOL", f"the last join failed ({FAILED}): {failure['MESSAGE']}",
        f"For details, run `node-bootstrap explain {FAILED}`.",
    ]
    until(lambda: all(line in run.console() for line in lines), run.console)
    until(lambda: machine.show(SUMMARY, "ActiveState") == "inactive", "the summary has ended well")
    of_summary = [e["MESSAGE"] for e in machine.journal(f"_SYSTEMD_UNIT={SUMMARY}")]
    for line in lines:
        assert run.console().count(line) == 1, f"{line}\n{run.console()}"
        assert sum(entry.endswith(line) for entry in of_summary) == 1, of_summary
    assert count_remedies(run.summary(), FAILED) == count_remedies("\n".join(of_summary), FAILED) == 1


def test_the_summary_of_settings_that_cannot_be_read(machine):
    """They are what ended the join, and are not told twice."""
    machine.prepare()
    machine.write("/etc/node-bootstrap/config.yaml.d/50-wrong.yaml", "apiVersion: node-bootstrap/v1\nkind: NodeBootstrap\nnonsense: 1\n")
    run = Run(machine, "summary.conf")
    [failure] = [e for e in run.assert_entries() if "NODE_BOOTSTRAP_CODE" in e]
    row = FAILURES[failure["NODE_BOOTSTRAP_CODE"]]
    told = f"the last join failed ({row['code']}): {failure['MESSAGE']}\n"
    until(lambda: told in run.console() and machine.show(SUMMARY, "ActiveState") == "inactive", "the summary has ended well")
    machine.path("/etc/node-bootstrap/config.yaml.d/50-wrong.yaml").unlink()
    assert run.console().count(failure["MESSAGE"]) == count_remedies(run.summary(), row["code"]) == 1, "said once"


def test_the_summary_of_a_service_that_never_ran(machine):
    """systemd fails the service before its first command, and reports it."""
    run = Run(machine.prepare(), "summary.conf", more="[Service]\nLoadCredential=node-bootstrap.token:/nonexistent/token\n")
    until(lambda: "explain service-credential" in run.console() and machine.show(SUMMARY, "ActiveState") == "inactive", "the summary has ended well")
    assert (run.state, run.status) == ("failed", 243)
    until(lambda: [text for text in run.ours() if "Failed at step CREDENTIALS" in text], "the summary has systemd's reason")


def test_lines_on_the_console(machine):
    """The lines of a failure and of a join, of both sides, are those of the journal, with the remedy."""
    failed = Run(machine.prepare(pins=[WRONG_PIN]), "console.conf")
    row = FAILURES[FAILED]
    entries = failed.assert_entries()
    [failure] = [e for e in entries if "NODE_BOOTSTRAP_CODE" in e]
    expected = [f"{e['SYSLOG_IDENTIFIER']}: {e['MESSAGE']}\n" for e in entries if e is not failure]
    failed.assert_ours([*expected, f"node-bootstrap: {FAILED}: {failure['MESSAGE']}\n  {row['remedy']}\n"])

    joined = Run(machine.prepare(), "console.conf")
    assert joined.state == "active"
    entries = joined.assert_entries()
    assert {e["SYSLOG_IDENTIFIER"] for e in entries} == {"node-bootstrap", "node-bootstrap-install"}
    joined.assert_ours([f"{e['SYSLOG_IDENTIFIER']}: {e['MESSAGE']}\n" for e in entries])
    token = machine.read("/etc/credstore/node-bootstrap.token").decode().strip()
    assert token.split(".")[1] not in machine.console() and "PRIVATE KEY" not in machine.console()


def test_by_hand_the_lines_are_on_the_terminal(machine):
    """On the terminal of the user, and nowhere else."""
    before, n_entries = len(machine.console()), len(machine.journal("SYSLOG_IDENTIFIER=node-bootstrap"))
    said = machine.run("script", "-qec", f"{PROGRAM} join", "/dev/null", check=False).stdout
    assert "node-bootstrap: " in said
    assert "node-bootstrap: " not in machine.console()[before:], "systemd's messages about kubelet may be there"
    assert len(machine.journal("SYSLOG_IDENTIFIER=node-bootstrap")) == n_entries
