# SPDX-License-Identifier: Apache-2.0
"""A join typed into a terminal shows its stage, or what it waits for, in one line that is rewritten. Nothing else gets that line."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import threading

import pytest

from common import csrs
from common.machine import find_program
from common.wait import PATIENCE, until

COLUMNS = 100
WAITS = re.compile(r"Waiting since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC: the CSR 'node-csr-")


class Terminal:
    """Runs a program with its standard error on a terminal, and records what appears there."""

    def __init__(self, argv, environment, *, is_ours=True):
        self._parent, child = pty.openpty()
        fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))

        def take():
            if is_ours:
                fcntl.ioctl(child, termios.TIOCSCTTY, 0)
        self.program = subprocess.Popen(argv, env=environment, stdin=child, stdout=subprocess.DEVNULL, stderr=child, start_new_session=True, preexec_fn=take)
        os.close(child)
        self.raw = b""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        while True:
            try:
                self.raw += os.read(self._parent, 65536)
            except OSError:             # the other side was closed
                return

    @property
    def text(self):
        return self.raw.decode(errors="replace")

    @property
    def drawn(self):
        """Each line that was rewritten in place, in order."""
        return [found[1] for found in re.finditer(r"\r\x1b\[K([^\r\n\x1b]+)(?=\r\x1b|$)", self.text)]

    def screen(self):
        """The lines that remain at the end."""
        lines = [""]
        for part in re.split(r"(\r\n|\r\x1b\[K)", self.text):
            if part == "\r\n":
                lines.append("")
            elif part == "\r\x1b[K":
                lines[-1] = ""
            else:
                lines[-1] += part
        return lines

    def type(self, data):
        os.write(self._parent, data)

    def wait(self):
        status = self.program.wait(PATIENCE)
        self._thread.join(PATIENCE)
        os.close(self._parent)
        return status


@pytest.fixture
def waiting(world):
    """Starts a join on a terminal; it waits until approve() is called."""
    world.cluster.controller = csrs.never
    started = []

    def start(is_ours=True, **environment):
        argv = [find_program("node-bootstrap"), "join", f"--config-directory={world.machine.etc}"]
        terminal = Terminal(argv, {**world.machine.environment, "TERM": "linux", **environment}, is_ours=is_ours)
        started.append(terminal)
        terminal.csr = world.cluster.csrs.wait_for(1)[0]
        terminal.approve = lambda: csrs.approve()(world.cluster, terminal.csr)
        return terminal
    yield start
    for terminal in started:
        if terminal.program.poll() is None:
            terminal.program.kill()
            terminal.wait()


def test_the_line_on_a_terminal(waiting):
    terminal = waiting()
    until(lambda: any(WAITS.match(line) for line in terminal.drawn), "the terminal shows that it waits")
    terminal.approve()
    assert terminal.wait() == 0
    drawn = terminal.drawn
    assert any(line.startswith("Looking for the cluster at ") for line in drawn) and "Requesting a certificate" in drawn, "each stage is named"
    assert all(len(line) < COLUMNS for line in drawn) and any(line.endswith("…") for line in drawn if WAITS.match(line)), "cut to the terminal"
    # What stays is the log, as in a file.
    screen = terminal.screen()
    assert screen.pop() == "" and all(line.startswith(("node-bootstrap: ", "  ")) for line in screen), screen
    assert "node-bootstrap: csr-pending: " in "\n".join(screen) and "has its certificate" in screen[-1]
    assert not any(WAITS.match(line) for line in screen)


def test_the_line_is_removed_at_the_end(waiting):
    """Also on Ctrl-C, which ends a join cleanly."""
    terminal = waiting()
    until(lambda: any(WAITS.match(line) for line in terminal.drawn), "the terminal shows that it waits")
    terminal.type(b"\x03")
    assert terminal.wait() == 143
    screen = terminal.screen()
    assert screen.pop() == "" and screen[-1] == "node-bootstrap: stopped before this machine had joined"
    assert all(line.startswith(("node-bootstrap: ", "  ")) for line in screen), screen


@pytest.mark.parametrize("how", [{"TERM": "dumb"}, {"NO_COLOR": "1"}, {"is_ours": False}], ids=["TERM=dumb", "NO_COLOR", "a unit whose stderr is a terminal"])
def test_no_line_where_it_is_unwanted(waiting, how):
    terminal = waiting(**how)
    until(lambda: "csr-pending: " in terminal.text, "csr-pending is reported")
    terminal.approve()
    assert terminal.wait() == 0
    assert "\x1b" not in terminal.text and "\r" not in terminal.text.replace("\r\n", "")
    assert "Waiting" not in terminal.text and "csr-pending: " in terminal.text


def test_no_line_in_a_pipe(world):
    world.cluster.controller = csrs.never
    run = world.machine.start_join(environment={"TERM": "linux"})
    [name] = world.cluster.csrs.wait_for(1)
    run.wait_for_status(f"the CSR '{name}' is waiting for approval")
    run.wait_for_line("csr-pending: ")
    csrs.approve()(world.cluster, name)
    run.wait().joined()
    assert all(line.startswith(("node-bootstrap: ", "  ")) and line.isprintable() for line in run.lines), run.lines
    assert run.statuses[0].startswith("Looking for the cluster at ") and "Requesting a certificate" in run.statuses
