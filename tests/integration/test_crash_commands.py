# SPDX-License-Identifier: Apache-2.0
"""setup and reset, killed at each file system call: a second run completes them.

With -s a table of the points at which each command was struck is printed.
"""

import subprocess

import pytest

from common.machine import TOKEN, Machine, find_program
from .crash import SECOND, TABLE, WITHOUT_LEAK_DETECTION, moments, points, put_back, save, setup_argv, strace_words
from .installed import snapshot

pytestmark = pytest.mark.usefixtures("crash_table")


def traced(machine, strace, argv, inject=None):
    run = machine.new_run([strace, *strace_words(machine, inject), *argv], {**machine.environment, **WITHOUT_LEAK_DETECTION})
    machine.runs.append(run)
    return run.wait()


def each_point(machine, strace, command, argv, prepare):
    """Kills the command at each moment; yields each outcome for the caller to verify."""
    prepare()
    run = traced(machine, strace, argv)
    assert run.exit == 0, run.stderr
    for call, number in moments(machine):
        prepare()
        run = traced(machine, strace, argv, f"{call}:signal=KILL:when={number}")
        where = f"{command} killed at {call} {number}"
        outcome = []
        yield where, outcome
        TABLE[command, call][outcome[0]] += 1
        again = machine.new_run(argv, machine.environment)
        machine.runs.append(again)
        assert again.wait().exit == 0, f"{where}: {again.stderr}"


def test_reset(world, strace):
    """The kubeconfig is removed first; the record, which lists the rest, last."""
    machine = world.machine
    machine.unit().joined()
    machine.put_state("pending.key", "x")
    files, names = save(machine), machine.target_names()
    argv = [find_program("install"), "--reset", f"--root={machine.root}", f"--config-directory={machine.etc}"]
    outcomes = set()
    for where, outcome in each_point(machine, strace, "reset", argv, lambda: put_back(machine, files)):
        left = set(machine.target_names())
        if not left:
            outcome.append("new")
        elif left == set(names):
            outcome.append("old")
        else:
            assert Machine.KUBECONFIG not in left and Machine.RECORD in left, where
            outcome.append("no kubeconfig, record")
        outcomes.add(outcome[0])
    assert outcomes == {"old", "new", "no kubeconfig, record"}
    assert machine.target_names() == {} and list(machine.state.iterdir()) == []


def test_setup(machine, strace):
    """The token of one cluster is never beside the settings of another."""
    document, token = machine.target("etc/node-bootstrap/config.yaml.d/50-setup.yaml"), machine.target("etc/credstore/node-bootstrap.token")
    machine.secret_files.append(token)
    subprocess.run(setup_argv(machine.root, "10.0.0.1:6443", TOKEN), check=True, capture_output=True)
    files = save(machine)
    argv, outcomes = setup_argv(machine.root, "10.0.0.2:6443", SECOND), set()
    for where, outcome in each_point(machine, strace, "setup", argv, lambda: put_back(machine, files)):
        settings = "old" if "10.0.0.1:" in document.read_text() else "new"
        assert settings == "old" or "10.0.0.2:" in document.read_text(), where
        secret = {f"{TOKEN}": "old", SECOND: "new"}[token.read_text().strip()] if token.exists() else "no token"
        assert secret in (settings, "no token"), f"{where}: settings {settings}, token {secret}"
        outcome.append(settings if settings == secret else f"{settings} settings, no token")
        outcomes.add(outcome[0])
    assert outcomes == {"old", "new", "old settings, no token", "new settings, no token"}
    assert token.read_text().strip() == SECOND and "10.0.0.2:" in document.read_text()
    assert not [name for name in machine.target_names() if ".tmp" in name]


def test_what_was_there_before_a_failed_setup(machine, strace):
    """A full disk while the first setup writes: no half of a file, and the next one succeeds."""
    argv = setup_argv(machine.root, "10.0.0.2:6443", SECOND)
    machine.secret_files.append(machine.target("etc/credstore/node-bootstrap.token"))
    files = save(machine)
    traced(machine, strace, argv).joined()
    for call, number in [point for point in points(machine) if point[0] in ("fsync", "fchmod", "renameat")]:
        put_back(machine, files)
        traced(machine, strace, argv, f"{call}:error=ENOSPC:when={number}")
        assert not [name for name in snapshot(machine.root) if ".tmp" in str(name)], f"{call} {number}"
        assert machine.new_run(argv, machine.environment).wait().exit == 0
