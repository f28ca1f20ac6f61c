# SPDX-License-Identifier: Apache-2.0
"""The command line: messages name what is wrong, but not what could be a secret; each command has --help."""

import os
import re
import subprocess

import pytest

from common.failures import FAILURES
from common.machine import KEPT, TOKEN, find_program
from common.wait import until

COMMANDS = ["explain", "join", "proof-key", "prover", "refresh", "reset", "setup", "status"]

# name, words, what the failure says
WRONG = [
    ("nothing at all", [], "a command is required"),
    ("options alone", ["--config-directory=/nowhere"], "a command is required"),
    ("unknown command", ["frobnicate"], "unknown command: argument 1 (10 characters)"),
    ("misspelt command", ["sttaus"], "unknown command: argument 1 (6 characters); did you mean 'status'?"),
    ("misspelt option", ["setup", "--tokenfile=/token"], "unknown option: argument 2 (18 characters) begins with '--token'; put a blank or '=' before the value"),
    ("option with letters exchanged", ["setup", "--endpiont=10.0.0.1"], "unknown option: argument 2 (19 characters); did you mean '--endpoint'?"),
    ("unknown option before the command", ["--commandose", "join"], "unknown option: argument 1 (12 characters)"),
    ("unknown option after the command", ["join", "--foo"], "unknown option: argument 2 (5 characters)"),
    ("unknown option with a value", ["join", "--foo=bar"], "unknown option: argument 2 (9 characters)"),
    ("unknown letter", ["status", "-x"], "unknown option: argument 2 (2 characters)"),
    ("abbreviated option", ["join", "--config=/nowhere"], "unknown option: argument 2 (17 characters)"),
    ("second command", ["join", "status"], "unexpected: argument 2 (6 characters)"),
    ("word after the end of options", ["join", "--", "--help"], "unexpected: argument 3 (6 characters)"),
    ("option without its value", ["join", "--config-directory"], "'--config-directory' requires DIR"),
    ("option with an empty value", ["join", "--config-directory="], "'--config-directory' is empty"),
    ("value for an option that takes none", ["join", "--help=yes"], "'--help' accepts only true or false"),
    ("control sequence", ["\x1b[2J"], "unknown command: argument 1 (4 characters)"),
]


def run(*words):
    return subprocess.run([find_program("node-bootstrap"), *words], env={}, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("words", ["node-bootstrap --help", "node-bootstrap --version", "node-bootstrap explain", "node-bootstrap setup --help",
                                   "node-bootstrap setup --dry-run --no-start -", "node-bootstrap setup --dry-run --no-start --json -", "node-bootstrap-admin --help", "node-bootstrap-admin --version",
                                   "node-bootstrap-admin token create --dry-run"])
def test_output_that_is_lost(tmp_path, words):
    """Nobody must take a truncated file for the whole output."""
    name, *words = words.split()
    line = f"kubeadm join 10.0.0.1:6443 --token {TOKEN} --discovery-token-ca-cert-hash sha256:{'0' * 64}"
    with open("/dev/full", "wb") as full:
        done = subprocess.run([find_program(name), *words, *([f"--root={tmp_path}"] if "setup" in words and "-" in words else [])], env={},
                              input=line, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 73 and "cannot write to standard output: " in done.stderr


def test_output_of_check_that_is_lost():
    """A failed check keeps its exit status, and the process that prints, which logs nothing, still reports the loss."""
    with open("/dev/full", "wb") as full:
        done = subprocess.run([find_program("node-bootstrap"), "check", "--user-data=/dev/null"], env={}, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1 and "cannot write to standard output: " in done.stderr


@pytest.mark.parametrize("row", WRONG, ids=[row[0] for row in WRONG])
def test_wrong_words_are_named(row):
    _, words, expected = row
    done = run(*words)
    assert done.returncode == int(FAILURES["usage"]["exit"]) and done.stdout == ""
    advice = "node-bootstrap.service runs this command: use `node-bootstrap setup -`" if words[:1] == ["join"] else "see `node-bootstrap "
    assert f"node-bootstrap: usage: {expected}; {advice}" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("words", [[TOKEN], ["join", TOKEN], ["join", f"--token={TOKEN}"], [f"--token={TOKEN}", "join"], ["join", "--token", TOKEN]],
                         ids=["in place of the command", "after the command", "in an unknown option", "in an unknown option before the command", "after one"])
def test_a_secret_in_the_wrong_place_is_not_quoted(words):
    done = run(*words)
    assert done.returncode == 64 and "usage" in done.stderr
    assert TOKEN.split(".")[1] not in done.stderr


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("form", ["{0} --help", "help {0}", "--help {0}", "{0} -h", "--config-directory=/nowhere {0} --help", "--config-directory /nowhere {0} --help"])
def test_help(command, form):
    done = run(*form.format(command).split())
    assert done.returncode == 0 and done.stderr == ""
    expected = "Usage: node-bootstrap [OPTION...] COMMAND" if form.startswith("--help") else f"Usage: node-bootstrap {command} [OPTION...]"
    assert done.stdout.splitlines()[0].startswith(expected)
    assert "--config-directory=DIR" in done.stdout and "--version" in done.stdout


def test_help_lists_the_commands():
    """Not those that only units run; and it fits a terminal."""
    listed = [line.split()[0] for line in run("help").stdout.splitlines() if re.match("  [a-z]", line)]
    assert set(COMMANDS) - {"join", "prover", "refresh"} == set(listed) - {"check", "help"}
    assert run("help").stdout == run("--help").stdout
    for command in COMMANDS:
        assert run(command, "--help").stdout == run("help", command).stdout
        assert max(map(len, run(command, "--help").stdout.splitlines())) <= 80


JOIN = "node-bootstrap.service runs this command: use `node-bootstrap setup -`, or, if this machine has settings, `systemctl start node-bootstrap.service`\n"
REFRESH = "node-bootstrap-refresh.service runs this command: use `systemctl start node-bootstrap-refresh.service`\n"


@pytest.mark.parametrize("words, instead", [(["join"], JOIN), (["join", "10.0.0.1:6443", "--token", TOKEN], JOIN), (["join", "--metadata"], JOIN), (["refresh"], REFRESH)], ids=str)
@pytest.mark.parametrize("has_state", [False, True], ids=["", "with a state directory"])
def test_a_command_that_a_unit_runs(tmp_path, words, instead, has_state):
    """Who knows kubeadm types `join` first. Only install can pass settings to the network side, which merges none: it makes no connection."""
    environment = KEPT | ({"STATE_DIRECTORY": str(tmp_path)} if has_state else {})
    key = tmp_path / "pending.key"
    key.write_text("of a request that waits")
    done = subprocess.run([find_program("node-bootstrap"), *words], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 64 and done.stderr.endswith(instead)
    assert key.exists()


@pytest.mark.parametrize("words", [["--version"], ["join", "--version"], ["--version", "join"]], ids=" ".join)
def test_version(words):
    done = run(*words)
    assert done.returncode == 0 and done.stdout.startswith("node-bootstrap ") and done.stdout.count("\n") == 1


@pytest.mark.parametrize("form", ["--config-directory={0} status", "status --config-directory={0}", "status --config-directory {0}", "--config-directory {0} status"])
def test_settings_folder_before_and_after_the_command(tmp_path, form):
    (tmp_path / "config.yaml").write_text("nonsense: 1\n")
    done = run(*form.format(tmp_path).split())
    assert done.returncode == 1 and f"settings-invalid: {tmp_path}" in done.stderr


PROGRAMS = [["node-bootstrap"], ["node-bootstrap", "join"], ["node-bootstrap", "status"], ["install"], ["platform"]]
STRANGER = 54321        # no user of this machine


def owners_when_it_waits(child, name):
    """The owners of the process and of its memory once it sleeps with the full pipe. The loader and a sanitizer sleep earlier, too."""
    def look():
        with open(f"/proc/{child.pid}/stat", encoding="ascii") as stat:
            waits = re.fullmatch(r"\d+ \((.*)\) (\w) .*\n", stat.read()).groups() == (name, "S")
        owners = [os.stat(f"/proc/{child.pid}{file}").st_uid for file in ("", "/environ")]
        return owners if waits and owners[0] != owners[1] else None

    return until(look, f"{name} waits", pause=0.001)


@pytest.mark.parametrize("words", PROGRAMS, ids=" ".join)
def test_cannot_be_dumped_or_traced(words):
    """For a process that must not be dumped, the kernel gives /proc/PID/environ to root."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with pytest.raises(BlockingIOError):
        while True:
            os.write(writer, bytes(4096))
    os.set_blocking(writer, True)
    uid = os.geteuid() or STRANGER
    drop = [] if os.geteuid() else ["setpriv", f"--reuid={uid}", "--inh-caps=+dac_override", "--ambient-caps=+dac_override"]
    with subprocess.Popen([*drop, find_program(words[0]), *words[1:], "--help"], env=KEPT | {"PATH": "/usr/bin:/bin"}, stdout=writer) as child:
        owners = owners_when_it_waits(child, words[0])
        child.kill()
    os.close(reader)
    os.close(writer)
    assert owners[0] == uid and owners[1] != uid


@pytest.mark.parametrize("command", ["join", "refresh", "check"])
def test_no_exit_without_a_word(strace, tmp_path, command):
    """Signals cannot be received: there is no descriptor left."""
    done = subprocess.run([strace, "-f", "-qq", "-o", "/dev/null", "-e", "trace=signalfd4", "-e", "inject=signalfd4:error=EMFILE", find_program("node-bootstrap"), command],
                          capture_output=True, text=True, check=False, env={"PATH": "/usr/sbin:/usr/bin", "ASAN_OPTIONS": "detect_leaks=0", "STATE_DIRECTORY": str(tmp_path)})
    assert done.returncode == int(FAILURES["internal"]["exit"]) and "cannot wait for signals" in done.stderr
