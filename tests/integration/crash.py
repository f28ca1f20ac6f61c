# SPDX-License-Identifier: Apache-2.0
"""Kills a command at the n-th of its file system calls, or lets that call fail, with strace."""

import collections
import re
import shutil

from common.machine import find_program

STEPS = "openat,mkdirat,mkdir,fchmod,write,fsync,renameat,renameat2,rename,linkat,link,symlinkat,symlink,unlinkat,unlink"
LIBRARY = re.compile(r'openat\(AT_FDCWD, "(?:(?:/usr)?/lib\S*/lib[^/"]+\.so[.\d]*|/etc/ld\.so\.cache)",')
TABLE = collections.defaultdict(collections.Counter)      # (command, call) -> how often which outcome; the fixture crash_table prints it
# Traced calls that change no file; a call that failed changes none either.
HARMLESS = re.compile(r"fsync\(|write\([12],|openat\((?!.*(?:O_CREAT|O_TRUNC|O_TMPFILE))|.* = -1 ")
# The leak detector of a sanitized build does not work under strace.
WITHOUT_LEAK_DETECTION = {"ASAN_OPTIONS": "detect_leaks=0"}


def strace_words(machine, inject=None):
    """--seccomp-bpf lets strace stop only at the traced calls, but strace then does not inject signals."""
    quick = [] if inject and ":signal=" in inject else ["--seccomp-bpf"]
    return ["-f", *quick, "-o", str(machine.path / "trace"), "-e", f"trace={STEPS}", *(["-e", f"inject={inject}"] if inject else [])]


def traced(machine, strace, program, *arguments, inject=None):
    words = [*strace_words(machine, inject), machine.program(program), *arguments]
    return machine.start(strace, *words, environment=WITHOUT_LEAK_DETECTION).wait()


def traced_join(machine, strace, inject=None):
    """`join` alone, with what install passes to it."""
    machine.inspect().joined()
    return machine.start(*machine.child_words("join", under=[strace, *strace_words(machine, inject)]), environment=WITHOUT_LEAK_DETECTION).wait()


def steps(machine):
    """(call, number) and the line of the trace, except for opened shared libraries. strace numbers the calls of each process."""
    numbers = collections.Counter()
    for line in (machine.path / "trace").read_text().splitlines():
        step = re.match(r"(?:(\d+) +)?(\w+)\(", line)
        if step:
            numbers[step.groups()] += 1
            if not LIBRARY.search(line):
                yield (step[2], numbers[step.groups()]), line[step.start(2):]


def points(machine):
    """Every (call, number) to inject an error into."""
    return list(dict.fromkeys(point for point, _ in steps(machine)))


def moments(machine, *calls):
    """Every (call, number) at which to kill a single process: the first call, and the first one after each change of a file. A kill at
    any other call leaves the same files. With `calls`, only changes by these calls count."""
    found, has_changed = [], True
    for point, line in steps(machine):
        if has_changed:
            found.append(point)
        has_changed = not HARMLESS.match(line) and (not calls or point[0] in calls)
    return found


def put_back(machine, files):
    """Puts root and state back to what `files` holds."""
    for folder in (machine.root, machine.state):
        shutil.rmtree(folder)
        shutil.copytree(files / folder.name, folder, symlinks=True)


def save(machine):
    files = machine.path / "saved"
    for folder in (machine.root, machine.state):
        shutil.copytree(folder, files / folder.name, symlinks=True)
    return files


# For `setup`: another token than the machine has.
SECOND = "bcdefg.0123456789abcdef"
PIN = "sha256:" + "ab" * 32


def setup_argv(root, endpoint, token):
    return [find_program("node-bootstrap"), "setup", f"--root={root}", endpoint, f"--token={token}", f"--discovery-token-ca-cert-hash={PIN}", "--force"]
