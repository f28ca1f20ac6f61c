# SPDX-License-Identifier: Apache-2.0
"""The command line: what is not understood is named, what could be a secret is not, and help is at each verb."""

import subprocess

import pytest

from machine import FAILURES, TOKEN, find_program

VERBS = ["explain", "join", "refresh", "reset", "setup", "status"]

# name, words, what the failure says
WRONG = [
    ("nothing at all", [], "there is no verb, expected one such as setup, check or status"),
    ("options alone", ["--config-directory=/nowhere"], "there is no verb, expected one such as setup, check or status"),
    ("unknown verb", ["jion"], "the verb 'jion' is not known, expected one of join, setup, check, refresh, reset, status, explain"),
    ("unknown option before the verb", ["--verbose", "join"], "the option '--verbose' is not known"),
    ("unknown option after the verb", ["join", "--foo"], "the option '--foo' is not known"),
    ("unknown option with a value", ["join", "--foo=bar"], "the option '--foo' is not known"),
    ("unknown letter", ["status", "-x"], "the option '-x' is not known"),
    ("abbreviated option", ["join", "--config=/nowhere"], "the option '--config' is not known"),
    ("second verb", ["join", "status"], "'status' after 'join' is one too many"),
    ("word after the end of options", ["join", "--", "--help"], "'--help' after 'join' is one too many"),
    ("option without its value", ["join", "--config-directory"], "'--config-directory' lacks its DIR"),
    ("option with an empty value", ["join", "--config-directory="], "'--config-directory' is empty"),
    ("value for an option that takes none", ["join", "--help=yes"], "'--help' takes no value but true and false"),
    ("control sequence", ["\x1b[2J"], "the verb '?[2J' is not known, expected one of join, setup, check, refresh, reset, status, explain"),
]


def run(*words):
    return subprocess.run([find_program("node-bootstrap"), *words], env={}, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("row", WRONG, ids=[row[0] for row in WRONG])
def test_names_what_it_does_not_understand(row):
    _, words, expected = row
    done = run(*words)
    assert done.returncode == int(FAILURES["usage"]["exit"]) and done.stdout == ""
    assert f"node-bootstrap: usage: {expected}; `node-bootstrap " in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("words", [[TOKEN], ["join", TOKEN], ["join", f"--token={TOKEN}"], [f"--token={TOKEN}", "join"], ["join", "--token", TOKEN]],
                         ids=["in place of the verb", "after the verb", "in an unknown option", "in an unknown option before the verb", "after one"])
def test_does_not_quote_a_secret_in_the_wrong_place(words):
    done = run(*words)
    assert done.returncode == 64 and "usage" in done.stderr
    assert TOKEN.split(".")[1] not in done.stderr


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("form", ["{0} --help", "--help {0}", "{0} -h", "--config-directory=/nowhere {0} --help", "--config-directory /nowhere {0} --help"])
def test_help(verb, form):
    done = run(*form.format(verb).split())
    assert done.returncode == 0 and done.stderr == ""
    expected = "node-bootstrap [OPTION...] VERB" if form.startswith("--help") else f"node-bootstrap {verb} [OPTION...]"
    assert done.stdout.splitlines()[0].startswith(expected)
    assert "--config-directory=DIR" in done.stdout and "--version" in done.stdout


def test_help_lists_the_verbs():
    listed = [line.split()[0] for line in run("--help").stdout.splitlines() if line.startswith("  ") and "-" not in line.split()[0]]
    assert set(VERBS) <= set(listed)
    for verb in listed:
        assert run(verb, "--help").returncode == 0


@pytest.mark.parametrize("words", [["--version"], ["join", "--version"], ["--version", "join"]], ids=" ".join)
def test_version(words):
    done = run(*words)
    assert done.returncode == 0 and done.stdout.startswith("node-bootstrap ") and done.stdout.count("\n") == 1


@pytest.mark.parametrize("form", ["--config-directory={0} status", "status --config-directory={0}", "status --config-directory {0}", "--config-directory {0} status"])
def test_settings_folder_before_and_after_the_verb(tmp_path, form):
    (tmp_path / "config.yaml").write_text("nonsense: 1\n")
    done = run(*form.format(tmp_path).split())
    assert done.returncode == 78 and str(tmp_path) in done.stderr
