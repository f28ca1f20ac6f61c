# SPDX-License-Identifier: Apache-2.0
"""Name spaces and control groups of its own for the whole test session.

The session runs in its own PID, mount, network and IPC name spaces, so everything that it starts or mounts ends with it,
however it ends. Only control groups outlive their processes: the waiting parent removes them, and the next session
removes those of a parent that was killed. Files live in a tmpfs over `<cache>/mnt`, which nobody else sees.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
import secrets
import signal
import subprocess
from pathlib import Path

CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWPID, CLONE_NEWNET = 0x00020000, 0x08000000, 0x20000000, 0x40000000
MS_REC, MS_PRIVATE = 0x4000, 1 << 18
PR_SET_PDEATHSIG = 1
PREFIX = "node-bootstrap-e2e-"

libc = ctypes.CDLL(None, use_errno=True)


def call(name, *args):
    if getattr(libc, name)(*args) < 0:
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")


def mount(what, where, kind, flags=0, options=""):
    call("mount", *(s and os.fsencode(s) for s in (what, where, kind)), ctypes.c_ulong(flags), os.fsencode(options))


def umount(where):
    call("umount2", os.fsencode(where), 2)


def cache_path():
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "node-bootstrap"


def cache():
    """The folder that outlives sessions."""
    path = cache_path()
    path.mkdir(parents=True, exist_ok=True)
    return path


def enter(work, before=lambda: None):
    """Continues in a child with its own namespaces; the caller's process waits for it and exits with its status.

    `before` runs first, where the machine's network is still there.
    """
    if os.geteuid() != 0:
        raise PermissionError("the end-to-end tests boot containers: they need root")
    before()
    groups = make_groups()
    call("unshare", CLONE_NEWPID)
    init = os.fork()
    if init:
        wait_and_exit(init, groups)
    for group in groups:
        (group / "cgroup.procs").write_text("0")
    call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    child = os.fork()
    if child:
        reap_and_exit(child)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    call("unshare", CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWNET)
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    mount("proc", "/proc", "proc")
    mount("tmpfs", "/run", "tmpfs", 0, "mode=0755")
    if os.path.isdir("/etc/kubernetes"):  # kubeadm reads what is there
        mount("tmpfs", "/etc/kubernetes", "tmpfs", 0, "mode=0755")
    work.mkdir(parents=True, exist_ok=True)
    mount("tmpfs", str(work), "tmpfs", 0, "mode=0700")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def wait_and_exit(init, groups):
    pass_on_signals(init)
    _, status = os.waitpid(init, 0)
    for group in groups:
        remove_group(group)
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def reap_and_exit(child):
    """The first process of the PID namespace adopts orphans. A container cannot end before all its processes are reaped."""
    pass_on_signals(child)
    while True:
        pid, status = os.wait()
        if pid == child:
            os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def pass_on_signals(pid):
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to all
    signal.signal(signal.SIGTERM, lambda number, _frame: os.kill(pid, number))


def hierarchies():
    """The folders of our own control groups, in every mounted hierarchy."""
    ours = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        ours[names] = path
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, right = line.split(" - ")
        where, kind, options = left.split()[4], right.split()[0], right.split()[2].split(",")
        if kind == "cgroup2":
            yield Path(where + ours.get("", ""))
        elif kind == "cgroup":
            name = next((n for n in ours if n and set(n.split(",")) <= set(options)), None)
            if name:
                yield Path(where + ours[name])


def make_group(group):
    group.mkdir()
    for item in ("cpuset.cpus", "cpuset.mems"):
        if (group / item).exists():
            (group / item).write_text((group.parent / item).read_text())


def make_groups():
    """A session's control groups, each locked as long as a process of it lives. By its ID a session in another PID name space cannot find it."""
    bases = list(hierarchies())
    sweep(bases)
    groups = [base / f"{PREFIX}{secrets.token_hex(6)}" for base in bases]
    for group in groups:
        while not claim(group):
            pass
    return groups


def claim(group):
    """Whether it is made and locked: before it is locked, the sweep of another session may remove it."""
    try:
        make_group(group)
        lock(group)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENODEV):     # ENODEV: of an open file of a group that is no more
            raise
        return False
    return group.exists()


def lock(folder, more=0):
    """Returns the descriptor: the lock ends when no process has it any more."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | more)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def remove_group(group):
    for path, _, _ in os.walk(group, topdown=False):
        try:
            os.rmdir(path)
        except OSError:
            pass


def sweep(bases):
    """Removes the control groups of sessions that are no more."""
    for base in bases:
        for group in base.glob(PREFIX + "*"):
            with contextlib.suppress(BlockingIOError, FileNotFoundError):     # in use; another session has removed it
                descriptor = lock(group, fcntl.LOCK_NB)
                remove_group(group)
                os.close(descriptor)


def own_group(name):
    """Control groups for one container below the session's; returns them, and the beginning of the command whose process is to be in them.

    This is not done by a function between fork and exec: a signal that comes there would be an exception in the copy of our process.
    """
    groups = [base / name for base in hierarchies()]
    for group in groups:
        make_group(group)
    return groups, ["sh", "-c", 'for group in $0; do echo 0 >"$group/cgroup.procs" || exit; done; exec "$@"', " ".join(map(str, groups))]
