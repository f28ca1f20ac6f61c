# SPDX-License-Identifier: Apache-2.0
"""node-bootstrap explain, and what bash completes."""

import re
import subprocess

import pytest

from common.failures import FAILURES, GENERATOR, flat
from common.machine import find_program
from .command_line import complete, explain, plain

WIDTH = 80


def test_lines_are_short():
    """Except for commands, which are not wrapped, so that they can be copied: on a terminal of any width."""
    said = explain(*FAILURES).stdout.splitlines()
    assert not [line for line in said if len(line) > WIDTH and not line.startswith("      ") and line.split(": ")[0] not in FAILURES and "MESSAGE_ID" not in line]
    commands = {line for row in FAILURES.values() for key in ("remedy", "remedy-k3s") for line in row.get(key, "").split("\n") if line.startswith("    ")}
    assert len(commands) > 50 and {"  " + plain(line) for line in commands} <= set(said)
    assert all(line.count("`") % 2 == 0 for line in said), "what is quoted is not broken either"


def test_several_codes():
    done = explain("token-missing", "token-unknown")
    assert done.stdout == explain("token-missing").stdout + "\n" + explain("token-unknown").stdout


def test_code_by_its_message_id():
    ids = [row["message-id"] for row in FAILURES.values()]
    assert explain(*ids).stdout == explain(*FAILURES).stdout == explain(*(i.upper() for i in ids)).stdout


def test_code_of_another_program():
    done = explain("admin-untrusted", "token-unknown")
    assert done.returncode == int(FAILURES["usage"]["exit"]) and "node-bootstrap-admin(8)" in flat(done.stderr) and done.stdout == ""


@pytest.mark.parametrize("form", ["{}:", "NODE_BOOTSTRAP_CODE={}", "MESSAGE_ID={id}", "{}: https://h/?a=b", "TOKEN_UNKNOWN", "Token-Unknown"])
def test_code_as_in_a_log_line_or_a_match(form):
    said = form.format("token-unknown", id=FAILURES["token-unknown"]["message-id"])
    assert explain(said).stdout == explain("token-unknown").stdout != ""


def test_lists_all_codes():
    lines = explain().stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(FAILURES)
    assert [line.split(maxsplit=1)[1] for line in lines] == [row["subject"] for row in FAILURES.values()]


@pytest.mark.parametrize("word", ["frobnicate", "0123456789abcdef0123456789abcdef", ""], ids=["code", "MESSAGE_ID", "empty"])
def test_unknown_code(word):
    done = explain(word)
    assert done.returncode == int(FAILURES["usage"]["exit"]) and done.stdout == ""
    assert "; `node-bootstrap explain` lists all codes" in done.stderr


@pytest.mark.parametrize("word, near", [("token-unknwon", "token-unknown"), ("tls-untrust", "tls-untrusted"), ("csr_denid", "csr-denied"), ("frobnicate", None), ("x" * 5000, None)],
                         ids=["letters swapped", "cut", "another dash", "unlike all", "very long"])
def test_near_code_is_suggested(word, near):
    said = explain(word).stderr
    assert (f" (did you mean '{near}'?); " in said) if near else "did you mean" not in said


def test_commands_of_remedies_have_no_placeholder():
    """A command with a placeholder would be pasted as it is."""
    for code, row in FAILURES.items():
        for command in GENERATOR.commands(re.sub(r"@NODE_BOOTSTRAP_[A-Z0-9_]+@", "", row["remedy"] + "\n" + row.get("remedy-k3s", ""))):
            assert not re.search(r"\b(?!DER\b)[A-Z][A-Z_]+\b", command), f"{code}: {command}"


# --- bash ---


def verbs():
    done = subprocess.run([find_program("node-bootstrap"), "--help"], capture_output=True, text=True, check=True)
    return re.findall(r"^  ([a-z][a-z-]+) ", done.stdout, re.M)


def test_completes_verbs():
    assert complete("node-bootstrap", "") == verbs()
    assert complete("node-bootstrap", "exp") == ["explain"]
    assert complete("node-bootstrap", "--config-directory=/nowhere", "exp") == ["explain"]


def test_completes_options():
    assert complete("node-bootstrap", "setup", "--tok") == ["--token-file=", "--token="]
    assert "--config-directory=" in complete("node-bootstrap", "status", "--")


def test_completes_values():
    assert complete("node-bootstrap", "setup", "--wait=") == ["none", "certificate", "kubelet", "node"]
    assert complete("node-bootstrap", "setup", "--wait=no") == ["none", "node"]


def test_completes_failure_codes():
    assert complete("node-bootstrap", "explain", "token-u") == ["token-unknown"]


def test_completes_files_for_options_that_take_one(tmp_path):
    (tmp_path / "token").touch()
    assert complete("node-bootstrap", "setup", f"--token-file={tmp_path}/to") == [f"{tmp_path}/token"]
    assert complete("node-bootstrap", "check", "--us") == ["--user-data="]
    assert complete("node-bootstrap", "check", f"--user-data={tmp_path}/to") == [f"{tmp_path}/token"]
    assert complete("node-bootstrap", "setup", f"--node-name={tmp_path}/to") == []
