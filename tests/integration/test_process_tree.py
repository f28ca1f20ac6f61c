# SPDX-License-Identifier: Apache-2.0
"""install and its child: identity, privileges, and how each ends the other. tests/e2e covers the sandbox."""

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


def children_of(run):
    return pathlib.Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()


def child_of(run):
    """Once it has executed its program."""
    def find():
        children = children_of(run)
        return children and status(children[0])["Name"] == "program" and int(children[0])

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
    assert not [fd for fd in pathlib.Path(f"/proc/{run.pid}/fd").iterdir() if "memfd:" in os.readlink(fd)], "secrets stay with the parent"
    [sweeper] = [status(pid) for pid in children_of(run) if int(pid) != child]
    assert sweeper["Uid"].split() == ["0", str(NOBODY), "0", str(NOBODY)], "a process of NOBODY cannot signal it"
    assert (sweeper["CapEff"], sweeper["CapPrm"], sweeper["NoNewPrivs"]) == ("0" * 16, "0" * 16, "1")
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


@pytest.mark.parametrize("exit_status", [1, 69, 75, 99, 199, 200, 243, 255])
def test_exit_status_of_the_child(machine, folder, exit_status):
    """From 200 on, it would say that systemd has not started the program (systemd.exec(5))."""
    assert start(machine, program(folder, f"exit {exit_status}\n")).wait().exit == (exit_status if exit_status < 200 else 70)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGSYS], ids=lambda number: number.name)
def test_child_that_a_signal_kills(machine, folder, number):
    """install ends in the same way, so that systemd starts the service again."""
    assert start(machine, program(folder, f"kill -{number.name[3:]} $$\n")).wait().exit == -number


def test_child_whose_parent_cannot_confine_itself(machine, folder, strace):
    """It executes nothing, also without the sweeper, which would end it. The second process that install forks is the sweeper."""
    run = machine.new_run([strace, "-o", "/dev/null", "-e", "inject=clone:error=EAGAIN:when=2", find_program("install"),
                           *machine.install_words(f"--program={program(folder, f'touch {folder}/executed')}")], {**machine.environment, **WITHOUT_LEAK_DETECTION})
    machine.runs.append(run)
    run.wait().failed("internal", 70, "cannot run the network side: fork")
    assert not (folder / "executed").exists()


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


def test_no_child_on_a_machine_that_has_joined(machine, cluster, strace):
    machine.put_joined_before(cluster.ca.node(NODE), SERVER, ca=cluster.ca)
    trace = machine.path / "trace"
    run = machine.new_run([strace, "-f", "-o", str(trace), "-e", "trace=process,socket", find_program("install"),
                           *machine.install_words(f"--program={find_program('node-bootstrap')}")], {**machine.environment, **WITHOUT_LEAK_DETECTION})
    machine.runs.append(run)
    assert "has already joined" in run.wait().joined().stderr
    lines = trace.read_text().splitlines()
    assert len({line.split()[0] for line in lines}) == 1, "one process"
    assert sum("execve(" in line for line in lines) == 1
    assert not any("AF_INET" in line for line in lines)
