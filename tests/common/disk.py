# SPDX-License-Identifier: Apache-2.0
"""What a power cut can leave of the files that a command writes: its trace is replayed, and everything that was not synced may be lost.

A file that was not synced is empty, and the names of a folder are those of its last sync or those of that moment, for each
folder on its own. With -s the number of states is printed.
"""

import contextlib
import ctypes
import itertools
import os
import re
import shutil

from .machine import find_program

CALLS = "openat,write,fsync,rename,renameat,renameat2,linkat,symlinkat,unlinkat,mkdirat"
HEX = re.compile(r"(?:\\x[0-9a-f]{2})+")


class File:
    def __init__(self, data=b""):
        self.now, self.synced = data, data


class Disk:
    """Folders as {path: {name: File, or the target of a link as str}}, as they are and as they were synced."""

    def __init__(self, root):
        self.root, self.now = str(root), {}
        for folder, folders, files in os.walk(root):
            entries = self.now[folder] = {}
            for name in [*folders, *files]:
                path = os.path.join(folder, name)
                if os.path.islink(path):
                    entries[name] = os.readlink(path)
                elif os.path.isfile(path):
                    with open(path, "rb") as file:
                        entries[name] = File(file.read())
        self.synced = {folder: dict(entries) for folder, entries in self.now.items()}

    def states(self):
        """Each as {path: data or link}, empty folders left aside."""
        changed = [folder for folder in self.now if self.now[folder] != self.synced.get(folder, {})]
        for choice in itertools.product((False, True), repeat=len(changed)):
            is_now = dict(zip(changed, choice))
            yield {os.path.relpath(os.path.join(folder, name), self.root): entry.synced if isinstance(entry, File) else entry
                   for folder in self.now
                   for name, entry in (self.now[folder] if is_now.get(folder, True) else self.synced.get(folder, {})).items()}

    def step(self, call, words):
        if call == "openat" and "O_CREAT" in words[2] and words[0] in self.now and words[1] not in self.now[words[0]]:
            self.now[words[0]][words[1]] = File()
        elif call in ("write", "fsync"):
            folder, name = os.path.split(words[0])
            if call == "fsync" and words[0] in self.now:
                self.synced[words[0]] = dict(self.now[words[0]])
            elif isinstance(file := self.now.get(folder, {}).get(name), File):
                if call == "write":
                    file.now += words[1].encode("latin-1")
                else:
                    file.synced = file.now
        elif call.startswith("rename") and words[0] in self.now:
            source, target = self.now[words[0]], self.now[words[2]]
            moved, there = source.pop(words[1]), target.get(words[3])
            target[words[3]] = moved
            if "EXCHANGE" in "".join(words[4:]):
                source[words[1]] = there
        elif call == "linkat" and words[0] in self.now:
            self.now[words[2]][words[3]] = self.now[words[0]][words[1]]
        elif call == "symlinkat" and words[1] in self.now:
            self.now[words[1]][words[2]] = words[0]
        elif call == "unlinkat" and words[0] in self.now:
            self.now[words[0]].pop(words[1], None)
        elif call == "mkdirat" and words[0] in self.now:
            self.now.setdefault(os.path.join(words[0], words[1]), {})


def decode(word):
    """A string, or the path of a descriptor."""
    return bytes.fromhex("".join(HEX.findall(word)).replace("\\x", "")).decode("latin-1") if "\\x" in word else word


def replay(machine, root, strace, argv):
    """All distinct states below `root` that a power cut can leave while the command runs."""
    disk, trace = Disk(root), machine.path / "trace"
    run = machine.new_run([strace, "-f", "--seccomp-bpf", "-y", "-xx", "-s", "1000000", "-e", f"trace={CALLS}", "-o", str(trace), *argv],
                          {**machine.environment, "ASAN_OPTIONS": "detect_leaks=0"})
    machine.runs.append(run)
    assert run.wait().exit == 0, run.stderr
    found, n_steps = {}, 0
    for line in trace.read_text().splitlines():
        step = re.match(r"(?:\d+ +)?(\w+)\((.*)\) += \d+", line)
        if not step:
            continue
        disk.step(step[1], [decode(word) for word in step[2].split(", ")])
        n_steps += 1
        for state in disk.states():
            found.setdefault(tuple(sorted((path, value if isinstance(value, bytes) else f"-> {value}") for path, value in state.items())), state)
    last = {os.path.relpath(os.path.join(folder, name), root) for folder, _, names in os.walk(root) for name in names}
    assert last in [set(state) for state in found.values()], "the replay does not end where the command ended"
    print(f"\n{' '.join(os.path.basename(word) for word in argv[:2])}: {n_steps} steps, {len(found)} states", end="")
    return list(found.values())


def put(root, state):
    shutil.rmtree(root)
    root.mkdir()
    for path, value in state.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(value, bytes):
            target.write_bytes(value)
            target.chmod(0o600)
        else:
            target.symlink_to(value)


def read(root):
    return next(Disk(root).states())


def install_argv(machine, *words):
    return [find_program("install"), "--program=", *words, f"--root={machine.root}", f"--config-directory={machine.etc}"]


@contextlib.contextmanager
def mounted(folder, kind, options, *descriptors):
    """A new folder with a file system of this kind, which is served as long as the descriptors are open. Needs root."""
    libc = ctypes.CDLL(None, use_errno=True)
    folder.mkdir()
    if libc.mount(b"none", bytes(folder), kind, 0, options) < 0:
        raise OSError(ctypes.get_errno(), f"mount {folder}")
    try:
        yield folder
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
        libc.umount2(bytes(folder), 2)  # MNT_DETACH


def hung_file_system(folder):
    """A file system that nobody serves: only SIGKILL ends a call that waits for it, as with NFS."""
    fd = os.open("/dev/fuse", os.O_RDWR)
    return mounted(folder, b"fuse", b"fd=%d,rootmode=40000,user_id=0,group_id=0" % fd, fd)


def dead_automount(folder):
    """An automount point whose file system is never mounted."""
    reader, writer = os.pipe()
    return mounted(folder, b"autofs", b"fd=%d,minproto=5,maxproto=5,direct" % writer, reader, writer)
