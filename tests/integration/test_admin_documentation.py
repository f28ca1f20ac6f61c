# SPDX-License-Identifier: Apache-2.0
"""node-bootstrap-admin(8) matches the program: its commands, options and failures."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from common import SOURCE, documentation, failures
from common.machine import find_program
from .tables import tables

PAGE = documentation.plain((SOURCE / "man/node-bootstrap-admin.8.in").read_text(encoding="ascii"))
COMMON = {"help", "version", "kubeconfig", "context"}
COMMANDS = ["token create", "token list", "token revoke", "cluster-info publish", "cluster-info show", "cluster-info verify",
            "requests list", "requests approve", "requests deny", "enroll add", "enroll list", "enroll show", "enroll remove", "controller"]


def help_of(command=""):
    return subprocess.run([find_program("node-bootstrap-admin"), *command.split(), "--help"], check=True, text=True, stdout=subprocess.PIPE).stdout


def test_each_command_has_its_section():
    """And no other is documented."""
    assert re.findall(r"^  ([a-z-]+(?: [a-z-]+)?)  ", help_of(), re.M) == re.findall(r"^\.Ss (.*)", PAGE, re.M) == COMMANDS
    assert list(dict.fromkeys(command.split()[0] for command in COMMANDS)) == re.findall(r"^\.It Cm ([a-z-]+)$", PAGE, re.M)


@pytest.mark.parametrize("command", COMMANDS)
def test_options_are_listed(command):
    section = re.search(rf"^\.Ss {command}\n((?:.*\n)*?)(?=\.S[sh] )", PAGE, re.M)[1]
    listed = {option for line in re.findall(r"^\.It Fl .*", section, re.M) for option in re.findall(r"Fl -([a-z-]+)", line)}
    told = set(re.findall(r"^  (?:-.,|   ) --([a-z-]+)", help_of(command), re.M))
    assert listed == told - COMMON and {"help", "version"} <= told


@pytest.mark.parametrize("words, offered", [
    ([""], ["token", "cluster-info", "requests", "enroll", "controller"]), (["token", ""], ["create", "list", "revoke"]),
    (["cluster-info", "v"], ["verify"]), (["requests", "d"], ["deny"]), (["enroll", ""], ["add", "list", "show", "remove"]), (["controller", ""], []), (["token", "list", "--k"], ["--kubeconfig="]),
], ids=" ".join)
def test_completion(words, offered):
    script = """
        source "$1"; shift
        compopt() { :; }  # there is no completion under way
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        _node_bootstrap_admin
        printf '%s\\n' "${COMPREPLY[@]}"
    """
    program = Path(find_program("node-bootstrap-admin"))
    done = subprocess.run(["bash", "-euc", script, "bash", SOURCE / "packaging/completion/node-bootstrap-admin", program.name, *words],
                          env={"PATH": f"{program.parent}:/usr/bin:/bin"}, capture_output=True, text=True, check=True)
    assert done.stdout.split() == offered


@pytest.mark.parametrize("command", ["", *dict.fromkeys(command.split()[0] for command in COMMANDS), *COMMANDS])
def test_help_fits_into_a_terminal_and_describes_its_command(command):
    lines = help_of(command).splitlines()
    assert [line for line in lines if len(line) > 80] == []
    assert lines[0].startswith(f"Usage: node-bootstrap-admin {command or 'COMMAND'} ")
    if command and command not in COMMANDS:
        assert re.findall(r"^  ([a-z-]+ [a-z-]+)  ", "\n".join(lines), re.M) == [full for full in COMMANDS if full.startswith(f"{command} ")]
    else:
        assert re.match(r"[A-Z].*", lines[lines.index("") + 1])


def test_the_version_is_that_of_this_program():
    for command in "", "token create", "controller":
        done = subprocess.run([find_program("node-bootstrap-admin"), *command.split(), "--version"], check=True, text=True, stdout=subprocess.PIPE)
        assert re.fullmatch(r"node-bootstrap-admin [0-9.]+\S*\n", done.stdout)


@pytest.mark.parametrize("words, similar", [
    ("tokn", "token"), ("token craete", "token create"), ("request list", "requests"), ("controler", "controller"), ("x", None), ("token x", None),
])
def test_an_unknown_command_is_told_a_similar_one(words, similar):
    done = subprocess.run([find_program("node-bootstrap-admin"), *words.split()], check=False, text=True, capture_output=True)
    assert done.returncode == 64 and re.search(r"unknown command: argument \d \(\d+ characters\)", done.stderr), done.stderr
    assert re.findall("did you mean '(.*)'", done.stderr) == [similar] * bool(similar)


def test_the_drop_in_loads_the_key_that_enroll_seals():
    text = help_of("enroll add")
    name = re.search(r"^  LoadCredentialEncrypted=(.*)$", text, re.M)[1]
    assert f"--name={name} $key \\\n          /etc/credstore.encrypted/{name}\n" in text


def test_help_names_the_form_of_a_ttl():
    """It is not that of the other durations, and the example is accepted."""
    example = re.search(r"--ttl=DURATION .* such as (\w+);", help_of("token create"))[1]
    command = [find_program("node-bootstrap-admin"), "token", "create", f"--ttl={example}", "--dry-run"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def test_the_failures_are_in_the_page():
    build = Path(find_program("node-bootstrap-admin")).parents[2]
    page = documentation.plain((build / "man/node-bootstrap-admin.8").read_text(encoding="ascii"))
    codes = failures.read("src/admin/admin_failures.def")
    assert len(codes) > 5 and [code for code in codes if f"Sy {code} " not in page] == []


def test_the_admission_policy_names_the_groups_and_the_account_of_the_program():
    folder = SOURCE / "packaging/kubernetes"
    account = next(iter(yaml.safe_load_all((folder / "rbac.yaml").read_text(encoding="utf-8"))))["metadata"]
    policy = (folder / "admission-policy/policy.yaml").read_text(encoding="utf-8")
    assert set(tables()["groups"]) <= set(re.findall(r"'(system:bootstrappers:[a-z-]+)'", policy))
    assert f"'system:serviceaccount:{account['namespace']}:{account['name']}'" in policy
