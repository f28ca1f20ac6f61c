# SPDX-License-Identifier: Apache-2.0
"""What the demo shows, on a terminal or in a log, and the recording of it in the format of asciinema, version 2."""

import codecs
import contextlib
import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time

from common.documentation import without_controls
from common.wait import PATIENCE

COLUMNS, LINES = 100, 30
QUIET_SECONDS = 10
END = "\x04"            # Ctrl-D, for a command that does not ask: it reads until the end
PASTE_SECONDS = 0.5     # after the start of a command that does not say when it reads


class Screen:
    def __init__(self, record=None):
        self.begun = time.monotonic()
        self.is_terminal = sys.stdout.isatty()
        self.file = record and open(record, "w", encoding="utf-8")
        self.partial = ""       # of a line, where there is no terminal
        if self.file:
            header = {"version": 2, "width": COLUMNS, "height": LINES, "timestamp": int(time.time()), "idle_time_limit": 2.0,
                      "title": "node-bootstrap: tests/demo", "env": {"TERM": "linux"}}
            self.file.write(json.dumps(header) + "\n")

    def seconds(self):
        return time.monotonic() - self.begun

    def put(self, text):
        """What a program wrote to its terminal. Where there is none, each line appears as it was in the end."""
        if self.file:
            self.file.write(json.dumps([round(self.seconds(), 6), "o", text], ensure_ascii=False) + "\n")
            self.file.flush()
        if self.is_terminal:
            text = text.replace("\r\n", "\n")
        else:
            whole, end, self.partial = (self.partial + text).rpartition("\n")
            text = without_controls(whole + end)
        sys.stdout.write(text)
        sys.stdout.flush()

    def say(self, text=""):
        self.put(text.replace("\n", "\r\n") + "\r\n")

    # what takes a while

    @contextlib.contextmanager
    def stage(self, name):
        """One line; while it lasts, its seconds count on a terminal, and elsewhere a line now and then says that it does."""
        self.say(f"[{self.seconds():4.0f} s] {name}")
        over = threading.Event()
        ticking = threading.Thread(target=self._tick, args=(name, over))
        ticking.start()
        try:
            yield
        finally:
            over.set()
            ticking.join()

    def _tick(self, name, over):
        """Not recorded."""
        name = name.partition(";")[0]
        while not over.wait(1 if self.is_terminal else QUIET_SECONDS):
            if self.is_terminal:
                sys.stdout.write(f"\r[{self.seconds():4.0f} s] … ")
            else:
                sys.stdout.write(f"[{self.seconds():4.0f} s]   still {name}\n")
            sys.stdout.flush()
        if self.is_terminal:
            sys.stdout.write("\r\x1b[K")

    def run(self, command, **options):
        """A command that is ended, with all that it has started, if the demo is; its output is shown if it fails."""
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                 start_new_session=True, **options)
        try:
            said, _ = child.communicate()
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGTERM)
            child.wait()
            raise
        if child.returncode != 0:
            raise subprocess.CalledProcessError(child.returncode, command, said)

    # what a person types

    def type(self, prompt, command, arguments, pasted=None, asks=None, **options):
        """Types a command, and what it reads, into a terminal of its own; returns its exit status and what it printed.

        `arguments`: the program that runs it, with its arguments; `options` are Popen's. `asks`: what it prints before it reads.
        setsid takes the terminal, and no function between fork and exec: a signal there would be an exception in the copy of our process.
        """
        self.say(f"{prompt}# {command}")
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        child = subprocess.Popen(["setsid", "--ctty", *arguments], stdin=theirs, stdout=theirs, stderr=theirs, **options)
        os.close(theirs)
        begun, said = time.monotonic(), b""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        while True:
            if pasted and (asks.encode() in said if asks else time.monotonic() - begun > PASTE_SECONDS):
                os.write(ours, f"{pasted}\n{'' if asks else END}".encode())
                pasted = None
            if time.monotonic() - begun > PATIENCE:
                child.kill()
                raise AssertionError(f"`{command}` has not ended after {PATIENCE} s")
            if not select.select([ours], [], [], 0.1)[0]:
                continue
            try:
                data = os.read(ours, 65536)
            except OSError:     # the other end was closed
                break
            said += data
            self.put(decoder.decode(data))
        os.close(ours)
        return child.wait(), without_controls(said.decode(errors="replace"))
