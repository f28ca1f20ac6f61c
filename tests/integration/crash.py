# SPDX-License-Identifier: Apache-2.0
"""Kills a command at the n-th of its file system calls, or lets that call fail, with strace."""

import collections
import re
import shutil
import subprocess

from common.machine import find_program

STEPS = "openat,mkdirat,mkdir,fchmod,write,fsync,renameat,renameat2,rename,linkat,link,symlinkat,symlink,unlinkat,unlink"
LIBRARY = re.compile(r'openat\(AT_FDCWD, "(?:(?:/usr)?/lib\S*/lib[^/"]+\.so[.\d]*|/etc/ld\.so\.cache)",')
TABLE = collections.defaultdict(collections.Counter)      # (command, call) -> how often which outcome; the fixture crash_table prints it
# The leak detector of a sanitized build does not work under strace.
WITHOUT_LEAK_DETECTION = {"ASAN_OPTIONS": "detect_leaks=0"}


def traced(machine, strace, program, *arguments, inject=None):
    command = ["-f", "-o", str(machine.path / "trace"), "-e", f"trace={STEPS}"] + (["-e", f"inject={inject}"] if inject else [])
    return machine.start(strace, *command, machine.program(program), *arguments, environment=WITHOUT_LEAK_DETECTION).wait()


def points(machine):
    """Every (call, number) to inject a fault into, without the opens of shared libraries; strace counts for each process."""
    numbers, found = collections.Counter(), {}
    for line in (machine.path / "trace").read_text().splitlines():
        step = re.match(r"(?:(\d+) +)?(\w+)\(", line)
        if step:
            numbers[step.groups()] += 1
            if not LIBRARY.search(line):
                found[step[2], numbers[step.groups()]] = True
    return list(found)


def put_back(machine, files):
    """Puts root and state back to what `files` holds."""
    for folder in (machine.root, machine.state):
        subprocess.run(["rm", "-rf", "--", str(folder)], check=True)
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
