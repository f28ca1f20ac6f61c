# SPDX-License-Identifier: Apache-2.0
"""install and its child: identity, privileges, and how each ends the other. tests/e2e covers the sandbox."""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import tempfile
import time

import pytest

from common.machine import NODE, find_program
from common.wait import until
from .attackers import FAST
from .crash import WITHOUT_LEAK_DETECTION
from .installed import SERVER
from .processes import processes

pytestmark = pytest.mark.each_release
NOBODY = 65534
CAP_DAC_OVERRIDE = 1 << 1


@pytest.fixture
def folder():
    """One that every user can read: pytest's are private to the tester."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="node-bootstrap-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def program(folder, script):
    path = folder / "program"
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(0o755)
    return path


def start(machine, path, **options):
    return machine.start("install", *machine.install_words(f"--program={path}"), **options)


def status(pid):
    return dict(re.findall(r"^(\w+):\t(.*)$", pathlib.Path(f"/proc/{pid}/status").read_text(), re.M))


def children_of(pid):
    return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def runner_of(run):
    [runner] = children_of(run.pid)
    return runner


def has_secrets(pid):
    """Whether it has a memory file open. The child may run before its parent has closed it."""
    for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            if "memfd:" in os.readlink(fd):
                return True
    return False


def child_of(run):
    """Once it has executed its program."""
    def find():
        children = [child for runner in children_of(run.pid) for child in children_of(runner)]
        return children and status(children[0])["Name"] == "program" and children[0]

    return until(find, lambda: f"a child; {run.lines}", pause=0.01)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the user of a child")
def test_user_and_rights(machine, folder):
    os.chown(machine.state, NOBODY, NOBODY)
    run = start(machine, program(folder, "while :; do sleep 0.05; done\n"))
    child = child_of(run)
    found = status(child)
    assert found["Uid"].split() == found["Gid"].split() == [str(NOBODY)] * 4
    assert {found[key] for key in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {"0" * 16}
    assert found["NoNewPrivs"] == "1"
    parent = status(run.pid)
    assert int(parent["CapEff"], 16) == int(parent["CapPrm"], 16) == CAP_DAC_OVERRIDE
    assert (parent["NoNewPrivs"], parent["Seccomp"]) == ("1", "2")
    until(lambda: not has_secrets(run.pid), "secrets stay with the parent", pause=0.01)
    runner = status(runner_of(run))
    assert runner["Uid"].split() == ["0", str(NOBODY), "0", str(NOBODY)], "a process of NOBODY cannot signal it"
    assert (runner["CapEff"], runner["CapPrm"], runner["NoNewPrivs"]) == ("0" * 16, "0" * 16, "1")
    os.kill(child, signal.SIGKILL)
    assert run.wait().exit == -signal.SIGKILL


@pytest.mark.skipif(os.geteuid() != 0, reason="a state directory of root's is made by root")
def test_never_as_root(machine, folder):
    """Only below --root, as in other tests."""
    run = machine.start("install", f"--config-directory={machine.etc}", f"--program={program(folder, 'touch /tmp/x')}")
    assert run.wait().exit != 0 and run.code in ("internal", "not-alone")


def test_environment(machine, folder):
    """The environment is passed on except for the notification socket, and no descriptors except those for status texts and settings."""
    run = start(machine, program(folder, f"env >{folder}/env; ls /proc/self/fd >{folder}/fds; exit 1\n"))
    run.wait()
    said = dict(line.split("=", 1) for line in (folder / "env").read_text().splitlines())
    assert said["STATE_DIRECTORY"] == str(machine.state) and "NOTIFY_SOCKET" not in said
    assert set((folder / "fds").read_text().split()) <= {"0", "1", "2", "3", "4", "5"}, "ls opens one more"


def test_reader_of_metadata_cannot_write(machine, folder):
    """It could plant a key for the join, or replace the one of an earlier start. Other children can write, as before."""
    (machine.state / "pending.key").write_text("before")
    (machine.credentials / "node-bootstrap.token").unlink()
    machine.write_settings("apiVersion: node-bootstrap/v1\nkind: NodeBootstrap\nmetadata: {provider: aws}\n")
    run = start(machine, program(folder, 'cd "$STATE_DIRECTORY" && echo "$2 ran" >&2\n'
                                         'for name in pending.key joined.json other; do echo x >"$name" && echo "wrote $name" >&2; done\n'
                                         'rm pending.key; mkdir folder; mv pending.key moved; ln pending.key linked; ln -s x link\n'
                                         ': >/dev/null && echo null >&2\nexit 69\n')).wait()
    assert "--metadata ran" in run.stderr and "null" in run.stderr and "wrote" not in run.stderr, run.stderr
    assert [(path.name, path.read_text()) for path in machine.state.iterdir()] == [("pending.key", "before")]


@pytest.mark.parametrize("exit_status", [1, 69, 75, 99, 199, 200, 243, 255])
def test_exit_status_of_the_child(machine, folder, exit_status):
    """From 200 on, it would say that systemd has not started the program (systemd.exec(5))."""
    assert start(machine, program(folder, f"exit {exit_status}\n")).wait().exit == (exit_status if exit_status < 200 else 70)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGSYS], ids=lambda number: number.name)
def test_child_that_a_signal_kills(machine, folder, number):
    """install ends in the same way, so that systemd starts the service again."""
    assert start(machine, program(folder, f"kill -{number.name[3:]} $$\n")).wait().exit == -number


def test_program_that_an_upgrade_has_replaced(machine, folder):
    """What install passes begins with its build. systemd starts the service again after a signal."""
    real = find_program("node-bootstrap")
    run = start(machine, program(folder, f'head -c 64 /dev/zero >"$STATE_DIRECTORY/passed"\nexec {real} "$@" 4<"$STATE_DIRECTORY/passed"\n')).wait()
    assert run.codes == ["program-replaced"] and run.exit == -signal.SIGHUP, run.stderr


@pytest.mark.parametrize("call, words", [("clone", "cannot run the network side: fork"), ("seccomp", "cannot restrict system calls")])
def test_no_child_of_an_install_that_is_not_confined(machine, folder, strace, call, words):
    run = machine.new_run([strace, "-o", "/dev/null", "-e", f"inject={call}:error=EAGAIN:when=1+", find_program("install"),
                           *machine.install_words(f"--program={program(folder, f'touch {folder}/executed')}")], {**machine.environment, **WITHOUT_LEAK_DETECTION})
    machine.runs.append(run)
    run.wait().failed("internal", 70, words)
    assert not (folder / "executed").exists() and processes(run) == []


def test_runner_that_is_killed(machine, folder):
    """The child ends with it, and the join fails, aloud."""
    run = start(machine, program(folder, "while :; do sleep 0.05; done\n"))
    child_of(run)
    os.kill(runner_of(run), signal.SIGKILL)
    run.wait().failed("internal", 70, "cannot run the network side: wait")
    until(lambda: processes(run) == [], "its processes end")


def test_stop(world):
    """SIGINT, as systemctl stop sends it to both: 143."""
    world.server.hold = True
    world.configure(world.endpoint(), endpoints=["192.0.2.1:6443"])
    run = world.machine.start_unit()
    run.wait_for_status("Waiting since")
    run.signal(signal.SIGINT)
    assert run.wait().exit == 143 and "stopped before this machine had joined" in run.stderr


def test_child_that_somebody_else_stops(machine, folder):
    """Exit status 143 is a success of the unit; without a stop it must not be one."""
    start(machine, program(folder, "exit 143\n")).wait().failed("handoff-missing", 65)


def test_child_that_fails_in_spite_of_a_stop(machine, folder):
    """SIGINT was sent to install alone: a later failure of the child must not become exit status 143."""
    run = start(machine, program(folder, f"trap '' INT; echo ready >&2; while [ ! -e {folder}/go ]; do sleep 0.01; done; exit 69\n"))
    run.wait_for_line("ready")
    run.signal(signal.SIGINT)
    (folder / "go").touch()
    assert run.wait().exit == 69


@pytest.mark.parametrize("how", ["kill -STOP $$", "trap '' TERM INT; while :; do sleep 0.05; done"], ids=["stopped", "busy"])
def test_child_that_ignores_its_deadline(machine, folder, how):
    machine.configure(endpoints=["192.0.2.1:6443"], timeout="1s", pins=["sha256:" + "0" * 64])
    run = start(machine, program(folder, f"{how}\n"), faketime=FAST)
    run.wait().failed("join-overdue", 69)
    until(lambda: processes(run) == [], "its processes end")


def test_deadline_after_a_suspend(machine, folder):
    """install and its child wake up late, and the child has 10 seconds to notice."""
    machine.configure(endpoints=["192.0.2.1:6443"], timeout="1s", pins=["sha256:" + "0" * 64])
    run = start(machine, program(folder, f"while [ ! -e {folder}/go ]; do sleep 0.01; done; exit 75\n"), faketime="+0 x2")
    child_of(run)
    run.signal(signal.SIGSTOP)
    time.sleep(12 / 2)
    run.signal(signal.SIGCONT)
    (folder / "go").touch()
    assert run.wait().exit == 75


def test_fallback_after_the_deadline(world, folder):
    """Joining another cluster has failed: kubelet starts with the existing certificate."""
    world.machine.unit().joined()
    world.configure(pins=["sha256:" + "0" * 64], timeout="1s")
    run = start(world.machine, program(folder, "kill -STOP $$\n"), faketime=FAST).wait().joined()
    assert "joining again failed; keeping the existing certificate" in run.stderr and "join-overdue" in run.codes


@pytest.mark.parametrize("inherited", [signal.SIG_DFL, signal.SIG_IGN], ids=["default", "ignored"])
def test_stop_before_the_child_blocks_signals(machine, folder, inherited):
    before = signal.signal(signal.SIGINT, inherited)
    try:
        run = start(machine, program(folder, "while :; do sleep 0.05; done\n"))
    finally:
        signal.signal(signal.SIGINT, before)
    child_of(run)
    run.signal(signal.SIGINT)
    assert run.wait().exit == 143


def python(folder, script):
    return program(folder, f"exec python3 -c '{script}'\n")


STATUS = "import socket, time; s = socket.socket(fileno=3)\n"


def test_status_texts(machine, folder):
    """One line per datagram; anything else that a hostile child writes is not passed to systemd."""
    run = start(machine, python(folder, STATUS + "for text in (b\"one\", b\"two\\nMAINPID=1\", b\"x\" * 5000): s.send(text); time.sleep(0.5)\n"))
    run.wait()
    assert run.statuses[:2] == ["one", "two"] and set(run.statuses[2]) == {"x"}


def test_empty_status_text(machine, folder):
    """It does not close the channel."""
    run = start(machine, python(folder, STATUS + "s.send(b\"\"); time.sleep(0.5); s.send(b\"after\"); time.sleep(3600)\n"))
    run.wait_for_status("after", 10)
    run.signal(signal.SIGINT)
    run.wait()


@pytest.mark.parametrize("end", ["", "s.shutdown(socket.SHUT_RDWR); time.sleep(0.5)"], ids=["exit", "shutdown"])
def test_flood_of_status_texts(machine, folder, end):
    """A status costs systemd time: at most four a second are passed on, and the last one always."""
    run = start(machine, python(folder, STATUS + "end = time.monotonic() + 2; n = 0\n"
                                        "while time.monotonic() < end: s.send(b\"%d\" % n); n += 1\n"
                                        f"s.send(b\"last\"); {end}\n"))
    run.wait()
    texts = run.statuses[:run.statuses.index("last") + 1]
    assert 3 <= len(texts) <= 4 * run.seconds + 2, len(texts)


def test_held_status_text(machine, folder):
    """The one that is held back is passed on when its time comes, not when the child ends."""
    run = start(machine, python(folder, STATUS + "s.send(b\"first\"); time.sleep(0.1); s.send(b\"second\"); time.sleep(3600)\n"))
    run.wait_for_status("second", 10)
    run.signal(signal.SIGINT)
    assert run.wait(10).exit == 143, "and it delays no stop"


@pytest.mark.parametrize("n, place", [(1, "here"), (2, "elsewhere")])
def test_no_child_on_a_machine_that_has_joined(machine, cluster, strace, n, place):
    """Settings on another file system, which may hang, are tried in a second process: whoever opens a file there cannot be ended."""
    machine.put_joined_before(cluster.ca.node(NODE), SERVER, ca=cluster.ca)
    trace = machine.path / "trace"
    if place == "elsewhere":
        machine.etc.rename(machine.path / "moved")
        machine.etc.symlink_to("moved")
    run = machine.new_run([strace, "-f", "-o", str(trace), "-e", "trace=process,socket", find_program("install"),
                           *machine.install_words(f"--program={find_program('node-bootstrap')}")], {**machine.environment, **WITHOUT_LEAK_DETECTION})
    machine.runs.append(run)
    assert "has already joined" in run.wait().joined().stderr
    lines = trace.read_text().splitlines()
    assert len({line.split()[0] for line in lines}) == n
    assert sum("execve(" in line for line in lines) == 1
    assert not any("AF_INET" in line for line in lines)
