# SPDX-License-Identifier: Apache-2.0
"""One machine: a container booted with systemd-nspawn from an overlay of the session's root."""

import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import uuid
from pathlib import Path

from common.wait import PATIENCE, until
from . import image, isolation, network

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ENVIRONMENT = {"PATH": PATH, "LC_ALL": "C.UTF-8", "SYSTEMD_COLORS": "0", "SYSTEMD_PAGER": ""}
REBOOT = 133
numbers = itertools.count()


class Machine:
    """Created but not booted; files can be added. `close()` removes it completely."""

    def __init__(self, work, layers, name, binds=()):
        number = next(numbers)
        self.number = 10 + number % 200
        self.name = name
        self.address = f"192.0.2.{self.number}"
        self.directory = Path(work) / f"{number}-{name}"
        self.root = image.overlay(self.directory, *layers)
        self.upper = self.directory / "upper"
        self.binds = binds
        self.nspawn = None
        self.leader = None
        self.netns = network.attach(f"m{number}", self.number)
        self.groups, self.in_groups = isolation.own_group(f"m{number}")
        self.write("/etc/machine-id", uuid.uuid4().hex + "\n")
        self.write("/etc/hostname", name + "\n")
        self.write("/etc/hosts", f"127.0.0.1 localhost\n{self.address} {name}\n")
        self.write("/etc/resolv.conf", "# There is no name server: nobody waits for one.\n")

    def close(self):
        self.kill()
        isolation.umount(str(self.root))
        shutil.rmtree(self.directory)
        network.detach(self.netns.name, self.number)
        for group in self.groups:
            isolation.remove_group(group)

    # life

    def boot(self, *init, credentials=None, options=(), wait="basic.target", script=None):
        """Boots. `init` are arguments for systemd, `options` for nspawn; `credentials` are the machine's, as SMBIOS would pass them.
        `script ROOT OPTION...` replaces systemd-nspawn, in the machine's folder."""
        command = [
            *([script, self.root] if script else ["systemd-nspawn"]), "--quiet", "--boot", "--register=no", "--keep-unit", f"--directory={self.root}",
            f"--machine={self.name}", f"--hostname={self.name}", "--capability=all",
            # The clock is the host's; see clock.py.
            "--drop-capability=CAP_SYS_TIME", "--bind-ro=/dev/kmsg",
            "--resolv-conf=off", "--timezone=off", "--link-journal=no", "--console=pipe",
            # As in packaging/examples/nspawn.sh.
            "--system-call-filter=landlock_create_ruleset landlock_add_rule landlock_restrict_self",
            f"--network-namespace-path={self.netns}", *(f"--bind-ro={path}" for path in self.binds), *options,
        ]
        for key, value in (credentials or {}).items():
            path = self.directory / f"credential.{key}"
            path.write_text(value)
            command.append(f"--load-credential={key}:{path}")
        environment = dict(os.environ)
        if not Path("/sys/fs/cgroup/cgroup.controllers").exists():
            environment["SYSTEMD_NSPAWN_UNIFIED_HIERARCHY"] = "0"
        self.boot_arguments = (init, {"credentials": credentials, "options": options, "wait": wait, "script": script})
        with open(self.directory / "console", "ab") as console:
            self.nspawn = subprocess.Popen(
                [*self.in_groups, *command, "--", *init], env=environment, cwd=self.directory,
                stdin=subprocess.DEVNULL, stdout=console, stderr=console,
            )
        self.leader = until(self._find_leader, f"{self.name}: init runs", pause=0.01)
        if wait:
            until(lambda: self._is_up(wait), f"{self.name}: {wait} is reached", pause=0.1)

    def _find_leader(self):
        """The child of nspawn that is the first process of a PID name space."""
        if self.nspawn.poll() is not None:
            raise AssertionError(f"systemd-nspawn ended with {self.nspawn.returncode}:\n{self.console()}")
        for pid in descendants(self.nspawn.pid):
            if pid_inside(pid) == 1 and os.readlink(f"/proc/{pid}/ns/cgroup") != os.readlink("/proc/self/ns/cgroup"):
                return pid
        return None

    def _is_up(self, unit):
        if self.nspawn.poll() is not None:
            raise AssertionError(f"the machine went down at boot:\n{self.console()}")
        return self.run("systemctl", "is-active", unit, check=False).returncode == 0

    def reboot(self):
        """An orderly reboot."""
        self.run("systemctl", "--no-block", "reboot")
        code = self.nspawn.wait(PATIENCE)
        assert code == REBOOT, f"systemd-nspawn ended with {code} instead of {REBOOT}"
        init, others = self.boot_arguments
        self.boot(*init, **others)

    def kill(self):
        """Every process of the machine is killed at once, as if its power went."""
        if self.nspawn is None:
            return
        leaders = [self.leader] if self.leader else descendants(self.nspawn.pid)
        for pid in leaders:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            self.nspawn.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.nspawn.kill()
            self.nspawn.wait()
        self.nspawn = self.leader = None

    def pids(self):
        """All processes of the machine, as numbers seen from here."""
        return [self.leader, *descendants(self.leader)]

    # doing things inside

    def run(self, *command, check=True, timeout=PATIENCE, stdin=None):
        """Runs a command inside, as root; returns its output, both streams together. An exported journal holds binary fields."""
        done = subprocess.run(
            ["nsenter", "--all", f"--target={self.leader}", "--wdns=/", "--", *command], text=True, errors="surrogateescape",
            input=stdin, timeout=timeout, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, env=ENVIRONMENT,
        )
        if check and done.returncode != 0:
            raise AssertionError(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout}")
        return done

    def set_host_name(self, name):
        """Any name, which hostname(1) does not allow."""
        write = 'printf %s "$1" >/proc/sys/kernel/hostname'
        subprocess.run(["nsenter", "--uts", f"--target={self.leader}", "sh", "-c", write, "-", name], check=True)

    def run_offline(self, *command):
        """Runs a command in the machine's files, while it is down."""
        return image.chroot(self.root, *command)

    def start(self, *command):
        """Starts a command inside and does not wait for it."""
        return subprocess.Popen(
            ["nsenter", "--all", f"--target={self.leader}", "--wdns=/", "--", *command], text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=ENVIRONMENT,
        )

    def show(self, unit, *properties):
        """Properties of a unit: one value, or a tuple of them."""
        text = self.run("systemctl", "show", *(f"--property={p}" for p in properties), unit).stdout
        found = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
        values = tuple(found.get(p, "") for p in properties)
        return values[0] if len(values) == 1 else values

    def is_active(self, unit):
        return self.show(unit, "ActiveState") == "active"

    def jobs(self):
        """systemd's jobs, and where each process waits: for a command that does not return."""
        commands = (["systemctl", "list-jobs"], ["systemctl", "list-units", "--state=activating,deactivating,failed"],
                    ["ps", "-eo", "pid,ppid,stat,wchan:20,etime,cgroup:60,args", "--cols=250"])
        return "\n".join(self.run(*command, check=False, timeout=20).stdout for command in commands) if self.leader else "it is down"

    # files, seen from outside: also while the machine is down

    def path(self, name):
        return self.root / name.lstrip("/")

    def write(self, name, data, mode=0o644):
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.touch(mode)
        path.chmod(mode)
        path.write_bytes(data.encode() if isinstance(data, str) else data)

    def read(self, name):
        return self.path(name).read_bytes()

    def exists(self, name):
        return os.path.lexists(self.path(name))

    def drop_in(self, unit, text, name="50-test.conf"):
        self.write(f"/etc/systemd/system/{unit}.d/{name}", text)
        if self.leader:
            self.run("systemctl", "daemon-reload")

    # what it says

    def sync_journal(self):
        """Returns when journald has written everything that was sent to it before."""
        if self.leader:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.run("journalctl", "--sync", check=False)

    def journal(self, *matches):
        """The journal's entries as dictionaries, read from outside."""
        self.sync_journal()
        text = subprocess.run(
            ["journalctl", f"--directory={self.root}/var/log/journal", "--output=json", "--all", "--quiet", "--no-pager", *matches],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
        ).stdout
        return [json.loads(line) for line in text.splitlines()]

    def journal_text(self, *arguments):
        self.sync_journal()
        return subprocess.run(
            ["journalctl", f"--directory={self.root}/var/log/journal", "--no-pager", "--quiet", *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        ).stdout.decode(errors="replace")

    def console(self):
        return (self.directory / "console").read_text(errors="replace")


def descendants(pid):
    """All processes below one, nearest first."""
    found, queue = [], [pid]
    while queue:
        parent = queue.pop(0)
        try:
            for task in os.listdir(f"/proc/{parent}/task"):
                children = Path(f"/proc/{parent}/task/{task}/children").read_text().split()
                found += map(int, children)
                queue += map(int, children)
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def pid_inside(pid):
    """The number of a process in its own PID name space."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("NSpid:"):
                numbers_ = line.split()[1:]
                return int(numbers_[-1]) if len(numbers_) > 1 else None
    except (FileNotFoundError, ProcessLookupError):
        pass
    return None
