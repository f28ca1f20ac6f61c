# SPDX-License-Identifier: Apache-2.0
"""node-bootstrap status: the last join, from the journal."""

import json

import pytest

from common import apiserver, faults
from common.failures import FAILURES
from common.machine import NODE, SECRET, TOKEN_ID, World
from .journal import BEGIN, SECOND, Journal, LoggingMachine

pytestmark = pytest.mark.each_release
NAME = "cp.example.org"


@pytest.fixture
def journal(tmp_path):
    return Journal(tmp_path / "journal")


def last_join(journal, machine):
    run = journal.status(machine, "--json")
    assert run.stderr == "", run.stderr
    return json.loads(run.stdout)["lastJoin"]


def joined(journal, run="1", at=0):
    journal.done(at + 0.02, "discover", 0.02, run=run).done(at + 0.03, "request", 0.01, run=run)
    journal.failure(at + 0.04, "csr-pending", "await", priority=4, run=run)
    journal.done(at + 2.03, "await", 2.0, run=run).done(at + 2.04, "hand-over", 0.01, run=run)
    journal.entry(at + 2.04, "joined", run=run)
    return journal.entry(at + 2.06, "installed", STAGE="install", run=run)


def stages(found):
    return [(s["stage"], s["offsetUsec"], s["durationUsec"], s["outcome"], s["error"]) for s in found["stages"]]


def test_a_join(machine, journal):
    found = last_join(joined(journal), machine)
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


def test_a_failure(machine, journal):
    journal.done(0.02, "discover", 0.02).failure(30, "token-rejected", "request")
    found = last_join(journal, machine)
    assert stages(found)[-1] == ("request", 20000, 29980000, "failed", "token-rejected")
    assert (found["outcome"], found["error"], found["message"]) == ("failed", "token-rejected", "it is token-rejected")
    text = journal.status(machine).stdout
    assert "failed: token-rejected\n" in text and "token-rejected: it is token-rejected\n" in text
    assert "  For a bootstrap token, `kubeadm token list`" in text and text.endswith("For details, run `node-bootstrap explain token-rejected`.\n")


def test_the_remedy_has_the_values_of_its_failure(machine, journal):
    """Also of a failure that is retried; not those of an earlier failure."""
    journal.failure(1, "token-unknown", "discover", priority=4, TOKEN_ID="aaaaaa").failure(2, "token-unknown", "discover", TOKEN_ID="bbbbbb")
    text = journal.status(machine).stdout
    assert "the ID bbbbbb" in text and "aaaaaa" not in text
    journal.failure(3600, "token-unknown", "discover", priority=4, run="2", TOKEN_ID="cccccc")
    assert "the ID cccccc with" in journal.status(machine).stdout
    journal.entry(7200, "stopped", run="3", STAGE="await")
    assert "`systemctl start node-bootstrap.service` continues the join.\n" in journal.status(machine).stdout


def test_a_failure_before_any_stage(machine, journal):
    found = last_join(journal.failure(0, "token-missing"), machine)
    assert stages(found) == [("prepare", 0, 0, "failed", "token-missing")]


def test_a_join_under_way(machine, journal):
    """systemd does not say that it has ended: until now."""
    journal.done(0.02, "discover", 0.02).failure(5, "csr-pending", "await", priority=4)
    found = last_join(journal, machine)
    stage, begin, took, *end = stages(found)[-1]
    assert (stage, begin, end) == ("await", 20000, ["under-way", "csr-pending"]) and took > 5 * SECOND
    assert (found["outcome"], found["error"], found["message"]) == ("under-way", "csr-pending", "it is csr-pending")


def test_a_join_that_was_stopped(machine, journal):
    journal.done(0.02, "discover", 0.02).entry(3, "stopped", STAGE="await")
    found = last_join(journal, machine)
    assert (found["outcome"], found["error"]) == ("failed", "stopped") and found["stages"][-1]["stage"] == "await"


def boot(journal, at, run, code="already-joined"):
    return journal.entry(at, code, run=run, STAGE="inspect")


@pytest.mark.parametrize("code", ["already-joined", "joined-anyway", "previous-kept", "not-yet-valid"])
def test_a_boot_of_a_joined_machine_is_no_join(machine, journal, code):
    """Nor if its settings are invalid, or its clock is wrong."""
    joined(journal)
    if code in ("joined-anyway", "previous-kept"):
        journal.failure(60, "settings-invalid", "inspect", priority=4, run="2")
    boot(boot(journal, 60, "2", code), 120, "3")
    found = last_join(journal, machine)
    assert (found["begin"], found["durationUsec"]) == ("2026-01-02T03:04:05.000000Z", 2060000)


def test_a_failure_that_is_repaired(machine, journal):
    """The next start finds that the machine has joined: the failure is not how its last join ended."""
    journal.failure(0, "token-missing", run="1")
    boot(journal, 30, "2")
    assert last_join(journal, machine) is None
    joined(journal, run="3", at=60)
    journal.failure(3600, "directory-missing", "inspect", run="4").entry(7200, "stopped", run="5", STAGE="await")
    boot(journal, 10800, "6")
    found = last_join(journal, machine)
    assert (found["begin"], found["outcome"]) == ("2026-01-02T03:05:05.000000Z", "done")
    journal.failure(14400, "directory-missing", "inspect", run="7")
    assert last_join(journal, machine)["error"] == "directory-missing"


def test_a_join_that_a_later_start_finishes(machine, journal):
    """That start installs what the failed one left, and then finds that the machine has joined."""
    joined(journal).failure(60, "directory-missing", "install", run="2").entry(120, "installed", run="3", STAGE="inspect")
    found = last_join(boot(journal, 120, "3"), machine)
    assert (found["begin"], found["outcome"]) == ("2026-01-02T03:06:05.000000Z", "done")


def test_joining_again_is_a_join_even_if_the_certificate_is_kept(machine, journal):
    joined(journal)
    journal.entry(60, "joining-again", run="2", STAGE="inspect").failure(90, "server-error", "discover", priority=4, run="2")
    journal.entry(91, "previous-kept", run="2", STAGE="install")
    assert last_join(journal, machine)["begin"] == "2026-01-02T03:05:05.000000Z"


def test_the_last_of_several_joins(machine, journal):
    joined(joined(journal), run="2", at=3600)
    boot(journal, 7200, "3")
    found = last_join(journal, machine)
    assert found["begin"] == "2026-01-02T04:04:05.000000Z" and len(found["stages"]) == 5


def test_lines_of_systemd_are_no_run(machine, journal):
    """The process that is to execute the program is in the unit already."""
    joined(journal).add(BEGIN + 3600 * SECOND, run="2", SYSLOG_IDENTIFIER="(install)", PRIORITY=3, MESSAGE="Failed at step CREDENTIALS")
    assert last_join(journal, machine)["outcome"] == "done"


def test_other_units_are_ignored(machine, journal):
    joined(journal).failure(10, "token-missing", run="2", unit="other.service")
    assert last_join(journal, machine)["outcome"] == "done"


def test_control_characters_in_the_journal(machine, journal):
    journal.failure(0, "token-rejected", "request\x1b[2J").failure(1, "token-rejected", "await")
    assert "\x1b" not in journal.status(machine).stdout + journal.status(machine, "--json").stdout


def test_a_stage_that_does_not_say_that_it_is_done(machine, journal):
    """It ended with its last connection."""
    journal.connected(0.011, "discover", 0.011).done(0.012, "discover", 0.012)
    journal.connected(0.022, "node", 0.009).done(0.032, "request", 0.01)
    found = last_join(journal, machine)
    assert stages(found)[:3] == [("discover", 0, 12000, "done", None), ("node", 12000, 10000, "done", None), ("request", 22000, 10000, "done", None)]


def test_a_failure_after_a_connection(machine, journal):
    """The join began with the connection, whose entry is the first."""
    journal.connected(0.011, "discover", 0.011).failure(0.02, "token-unknown", "discover")
    assert stages(last_join(journal, machine)) == [("discover", 0, 20000, "failed", "token-unknown")]


def test_a_wait_in_a_stage_without_an_entry_at_its_end(machine, journal):
    journal.done(0.01, "discover", 0.01).failure(0.02, "server-error", "node", priority=4)
    journal.connected(1, "node", 0.9).done(1.1, "request", 0.1)
    assert stages(last_join(journal, machine))[1:3] == [("node", 10000, 990000, "done", "server-error"), ("request", 1000000, 100000, "done", None)]


class Local(faults.Proxy):
    """Resolves every name to this machine."""

    @staticmethod
    def resolve(_):
        return "127.0.0.1"


class LoggingWorld(World):
    machine_type = LoggingMachine

    def join(self, journal, server=None, **environment):
        """Joins, and returns `lastJoin` as read from the journal of that join, and its connections: for each stage their fields."""
        self.configure(server or self.server)
        run = self.machine.join(environment=environment)
        assert (run.exit, run.stderr) == (0, "")
        connections = {}
        for when, fields in self.machine.journal.read():
            journal.add(when, **fields)
            if fields.get("MESSAGE_ID") == FAILURES["connected"]["message-id"]:
                own = {key.removeprefix("NODE_BOOTSTRAP_"): value for key, value in fields.items()}
                connections.setdefault(own["STAGE"], []).append({**own, "when": when})
        return last_join(journal, self.machine), connections

    def by_name(self):
        (self.machine.path / "hosts").write_text(f"127.0.0.1 localhost {NAME}\n")
        server = self.endpoint(identity=self.cluster.ca.serving([NAME]))
        server.host = NAME
        return server


@pytest.fixture
def logging_world(tmp_path):
    world = LoggingWorld(tmp_path)
    yield world
    world.close()
    world.check()


@pytest.mark.parametrize("is_name, proxy, has_resolved", [
    (True, None, True), (False, None, False), (False, NAME, True), (True, "127.0.0.1", False),
], ids=["name", "address", "address, by a proxy with a name", "name, by a proxy with an address"])
def test_the_journal_of_a_real_join(logging_world, journal, is_name, proxy, has_resolved):
    named = logging_world.by_name()
    server = named if is_name else logging_world.server
    environment = {"HTTPS_PROXY": logging_world.closing(Local()).url.replace("127.0.0.1", "me:secret@" + proxy)} if proxy else {}
    found, made = logging_world.join(journal, server, **environment)
    assert [stage["stage"] for stage in found["stages"]][:5] == ["discover", "node", "request", "await", "hand-over"]
    assert {stage: len(connections) for stage, connections in made.items()} == {"discover": 1, "node": 1}
    for [connection] in made.values():
        assert connection["ENDPOINT"] == server.endpoint and ("RESOLVE_USEC" in connection) == has_resolved
        steps = [int(connection.get(f"{step}_USEC", 1)) for step in ("RESOLVE", "TCP", "TLS")]
        assert min(steps) > 0 and sum(steps) <= int(connection["AGE_USEC"]) + 1, connection
    assert found["stages"][0]["durationUsec"] >= int(made["discover"][0]["TLS_USEC"])


def test_the_journal_of_a_real_restart_with_invalid_settings(logging_world, journal):
    machine, ca = logging_world.machine, logging_world.cluster.ca
    machine.put_joined_before(ca.node(NODE), logging_world.server.url, ca=ca)
    machine.write_settings("kind: Misspelt\n")
    assert machine.unit().exit == 0
    machine.configure(logging_world.server)
    for when, fields in joined(journal) and machine.journal.read():
        journal.add(when, run="2", **fields)
    assert FAILURES["joined-anyway"]["message-id"] in journal.text
    assert last_join(journal, machine)["durationUsec"] == 2060000


def test_the_second_copy_is_a_connection_of_its_own(logging_world, journal):
    """cluster-info names another server than the endpoint it came from."""
    logging_world.cluster.server = logging_world.by_name().url
    _, made = logging_world.join(journal)
    assert [[c["ENDPOINT"].split(":")[0] for c in made[stage]] for stage in ("discover", "node")] == [["127.0.0.1", "127.0.0.1"], [NAME]]


def test_a_reused_connection_is_logged_once(logging_world, journal):
    """cluster-info is not signed at first; when it is, the answer comes over the connection that is there."""
    logging_world.cluster.tokens.pop(TOKEN_ID)
    logging_world.server.on("cluster-info", lambda _: logging_world.cluster.tokens.setdefault(TOKEN_ID, apiserver.Token(SECRET)) and None, skip=1)
    found, made = logging_world.join(journal)
    assert found["stages"][0]["error"] == "signature-missing" and len(made["discover"]) == 1
    assert found["stages"][0]["durationUsec"] > 100_000, "it begins before the pause, of 100 ms at least"


@pytest.mark.parametrize("word", ["a\ufffeb", "a\uffffb", "a\u0085b", "\u202eabc", "ü" * 40],
                         ids=["no character", "another one", "a C1 control", "text turned around", "cut within a character"])
def test_odd_words(machine, journal, word):
    """Foreign text in a journal neither breaks the layout nor controls the terminal."""
    journal.entry(0, "stage-done", STAGE=word, DURATION_USEC=1000)
    journal.entry(1, "token-rejected", STAGE=word, ERROR=word, PRIORITY=3, MESSAGE=word * 50)
    assert last_join(journal, machine)["outcome"] == "failed"
    assert not any(sign in journal.status(machine).stdout for sign in ("\u202e", "\u0085", "\ufffd"))


def test_many_stages(machine, journal):
    """A request that was repeated many times: the failure that ended it is shown."""
    for i in range(40):
        journal.done(i, "request", 0.5)
    found = last_join(journal.failure(100, "token-rejected", "request"), machine)
    assert (found["stages"][-1]["outcome"], found["stages"][-1]["error"]) == ("failed", "token-rejected")
    assert found["durationUsec"] >= 99 * SECOND


def test_a_clock_that_is_behind_at_a_later_boot(machine, journal):
    joined(journal, at=100000)
    journal.text = journal.text.replace("_BOOT_ID=" + "b" * 32, "_BOOT_ID=" + "a" * 32)
    boot(boot(journal, 0, "2"), 1, "2")
    assert last_join(journal, machine)["outcome"] == "done"


def test_an_empty_journal(machine, journal):
    journal.entry(0, unit="other.service")
    assert "The journal has no entry of a join." in journal.status(machine).stdout
    assert last_join(journal, machine) is None


def test_no_journal(machine, journal):
    run = journal.status(machine)
    assert "The journal has no entry of a join." in run.stdout and run.stderr == ""


@pytest.mark.parametrize("words, expected", [(["now"], "unexpected argument 'now'"), (["--plot"], "unknown option '--plot'")], ids=["a word", "an option"])
def test_wrong_words(machine, words, expected):
    machine.status(*words).failed("usage", 64, expected)
