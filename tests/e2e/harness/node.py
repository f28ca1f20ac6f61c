# SPDX-License-Identifier: Apache-2.0
"""A machine with node-bootstrap and kubelet on it, and what tests ask of it."""

import contextlib
import hashlib
import os
import re
import shutil
import stat
from pathlib import Path

import yaml
from cryptography import x509

from common import SOURCE
from common.failures import FAILURES, GENERATOR, flat
from common.wait import PATIENCE, until
from .machine import Machine

UNIT, GATE = "node-bootstrap.service", "node-bootstrap-gate.service"
KUBECONFIG = "/etc/kubernetes/kubelet.conf"
PKI = "/var/lib/kubelet/pki"
CURRENT = f"{PKI}/kubelet-client-current.pem"
CA_FILE = "/etc/kubernetes/pki/ca.crt"
STATE = "/var/lib/private/node-bootstrap"
UNIT_GROUP = f"/sys/fs/cgroup/systemd/system.slice/{UNIT}/cgroup.procs"
TOKEN = "/etc/credstore/node-bootstrap.token"
CONFIG = "/etc/node-bootstrap/config.yaml"
PROGRAM = "/usr/bin/node-bootstrap"
PROCESS_EXITED = "98e322203f7a4ed290d09fe03c09fe15"


def settings(cluster, endpoints=None, pins=None, **sections):
    """The settings document for a cluster; `sections` override or add whole sections."""
    document = {
        "apiVersion": "node-bootstrap/v1", "kind": "NodeBootstrap",
        "discovery": {
            "endpoints": endpoints or [cluster.front.endpoint],
            "caCertHashes": [cluster.ca.pin] if pins is None else pins,
        },
        **sections,
    }
    return yaml.safe_dump(document, sort_keys=False)


def example(name, replacements):
    """One of packaging/examples, with the values of this cluster."""
    text = (SOURCE / "packaging/examples" / name).read_text()
    for pattern, replacement in replacements.items():
        text, n = re.subn(pattern, replacement, text)
        assert n, f"no {pattern!r} in {name}"
    return text


class Node(Machine):
    def __init__(self, work, layers, name, binds, cluster):
        super().__init__(work, layers, name, binds)
        self.cluster = cluster

    # the operator's hand

    def give(self, token):
        self.write(TOKEN, f"{token}\n", 0o600)
        self.path("/etc/credstore").chmod(0o700)
        return self

    def configure(self, endpoints=None, pins=None, cluster=None, **sections):
        self.write(CONFIG, settings(cluster or self.cluster, endpoints, pins, **sections))
        return self

    def prepare(self, token=None, **configuration):
        """Token and settings, as a provisioning tool would leave them."""
        return self.give(token or self.cluster.token()).configure(**configuration)

    def unjoin(self):
        """Resets the machine to its state before the join, with its settings."""
        self.run("systemctl", "stop", "kubelet.service", UNIT)
        for folder in (PKI, STATE, "/etc/kubernetes"):
            for path in self.path(folder).glob("*"):
                if path.is_file() or path.is_symlink():
                    path.unlink()
        for name in ("kubeadm-flags.env", "instance-config.yaml", "node-bootstrap.env", "node-bootstrap.automatic-refresh"):
            self.path(f"/var/lib/kubelet/{name}").unlink(missing_ok=True)

    def forget(self):
        """Resets the machine to its state before settings and join; it stays up."""
        self.run("systemctl", "stop", "kubelet.service", UNIT)
        for path in self.path("/etc/credstore").glob("*"):
            path.unlink()
        for name in (PKI, "/etc/kubernetes", "/etc/node-bootstrap", "/var/lib/kubelet/kubeconfig", "/var/lib/kubelet/node-bootstrap.env",
                     "/var/lib/kubelet/kubeadm-flags.env", "/var/lib/kubelet/instance-config.yaml", f"/etc/systemd/system/{UNIT}.d"):
            path = self.path(name)
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        for name in (PKI, "/etc/kubernetes", "/etc/node-bootstrap"):
            self.path(name).mkdir(0o700 if name == PKI else 0o755)
        self.run("systemctl", "daemon-reload")
        self.cluster.delete_node(self.name)
        return self

    def enable(self, *units, off=False):
        """systemctl enable, also while the machine is down."""
        verb = "disable" if off else "enable"
        if self.leader:
            self.run("systemctl", "--quiet", verb, *units)
        else:
            self.run_offline("systemctl", "--quiet", verb, *units)
        return self

    def reset_limit(self):
        """A test starts the service more often than systemd permits; before the first start, systemd may not know the unit."""
        self.run("systemctl", "--quiet", "reset-failed", UNIT, check=False)

    def join(self, verb="start", check=True, timeout=PATIENCE):
        """systemctl start node-bootstrap.service, as a person types it."""
        self.reset_limit()
        return self.run("systemctl", verb, UNIT, check=check, timeout=timeout)

    def begin(self, verb="start"):
        self.reset_limit()
        return self.run("systemctl", verb, "--no-block", UNIT)

    def join_pid(self):
        """Of the network side: the child of the runner, which is the child of install."""
        pid = self.show(UNIT, "MainPID")
        for _ in "runner", "join":
            pid = self.run("cat", f"/proc/{pid}/task/{pid}/children").stdout.split()[0]
        return pid

    def await_end(self, timeout=PATIENCE):
        """Waits for the unit's job; returns (ActiveState, exit status of the command that failed, or 0)."""
        def ended():
            state, job = self.show(UNIT, "ActiveState", "Job")
            return state in ("active", "failed", "inactive") and job in ("", "0")

        until(ended, f"{self.name}: the job of {UNIT} ends", timeout)
        state, invocation = self.show(UNIT, "ActiveState", "InvocationID")
        if state != "failed":
            return state, 0
        exits = until(lambda: self.journal(f"INVOCATION_ID={invocation}", "MESSAGE_ID=" + PROCESS_EXITED), "systemd logs it")
        return state, int(exits[-1]["EXIT_STATUS"])

    def await_status(self, pattern):
        return until(lambda: re.search(pattern, self.show(UNIT, "StatusText")), f"STATUS= says {pattern!r}")

    def await_kubelet(self):
        until(self.kubelet_pid, f"{self.name}: kubelet is running")

    def read_of_kubelet(self, name):
        """A file of kubelet's folder in /proc, once systemd's child has become kubelet."""
        def find():
            folder = f"/proc/{self.kubelet_pid()}"
            words, found = (self.run("cat", f"{folder}/{one}", check=False) for one in ("cmdline", name))
            is_there = words.returncode == found.returncode == 0 and words.stdout.split("\0")[0].endswith("/kubelet")
            return found.stdout if is_there else None

        return until(find, f"{self.name}: kubelet is executed")

    def kubelet_pid(self):
        state, pid = self.show("kubelet.service", "ActiveState", "MainPID")
        return int(pid) if state == "active" else 0

    def kubelet_was_started(self):
        return self.show("kubelet.service", "ExecMainStartTimestampMonotonic") not in ("", "0")

    def replace_join(self, script):
        """A shell script replaces the network side, which is at $0.real."""
        if not self.exists(PROGRAM + ".real"):
            self.path(PROGRAM).rename(self.path(PROGRAM + ".real"))
        self.write(PROGRAM, "#!/bin/sh\n" + script, 0o755)

    def restore_join(self):
        self.path(PROGRAM + ".real").replace(self.path(PROGRAM))

    # what is there afterwards

    def tree(self, *roots):
        """Every file below: type, mode, owner, time and contents."""
        found = {}
        for root in roots or ("/etc/kubernetes", "/var/lib/kubelet", STATE):
            for folder, folders, files in os.walk(self.path(root)):
                for name in ["", *files, *folders]:
                    path = Path(folder, name)
                    with contextlib.suppress(FileNotFoundError):    # a temporary file of kubelet
                        found["/" + str(path.relative_to(self.root))] = describe(path)
        return found

    def assert_holds(self, token, **sections):
        """The files that a provisioning tool wrote: the token, for root alone, and the settings."""
        assert self.read(TOKEN).decode() == f"{token}\n"
        assert yaml.safe_load(self.read(CONFIG)) == yaml.safe_load(settings(self.cluster, **sections))
        assert [oct(self.path(name).stat().st_mode)[-4:] for name in (TOKEN, CONFIG)] == ["0600", "0644"]

    def joined_files(self):
        """The files of a join, without those that kubelet writes."""
        return {k: v for k, v in self.tree().items() if re.search(r"kubelet-client|kubelet\.conf|ca\.crt|node-bootstrap", k)}

    def dated(self):
        """The file that kubelet-client-current.pem points to."""
        return os.readlink(self.path(CURRENT))

    def certificate(self):
        return x509.load_pem_x509_certificate(self.read(self.dated()))

    def kubeconfig(self):
        return yaml.safe_load(self.read(KUBECONFIG))

    def state_files(self):
        path = self.path(STATE)
        return sorted(os.listdir(path)) if path.is_dir() else []

    def entries(self, code=None):
        """The unit's journal entries, all or those with one MESSAGE_ID out of failures.def."""
        matches = [f"_SYSTEMD_UNIT={UNIT}"]
        if code:
            matches.append("MESSAGE_ID=" + FAILURES[code]["message-id"])
        return self.journal(*matches)

    def said(self, code):
        return bool(self.entries(code))

    def assert_failed(self, code, before, attempt=None):
        """The unit has failed with this code, reported it as documented, and changed nothing."""
        row = FAILURES[code]
        state, status = self.await_end()
        self.sync_journal()
        log = self.run("journalctl", "--catalog", "--no-pager", "--boot", f"--unit={UNIT}").stdout
        assert (state, status) == ("failed", int(row["exit"])), log
        last = [e for e in self.entries() if "NODE_BOOTSTRAP_CODE" in e][-1]
        assert last["NODE_BOOTSTRAP_CODE"] == code, log
        assert last["MESSAGE_ID"] == row["message-id"]
        assert last["PRIORITY"] == "3"
        for key in ("subject", "what", "unchanged", "remedy"):
            told = re.sub(r"@([A-Z0-9_]+)@", lambda field: last[field[1]], GENERATOR.without_fields(row[key]))
            assert flat(told) in flat(re.sub("^(░░|--)", "", log, flags=re.M)), f"{key} of {code} is not in:\n{log}"
        assert not self.kubelet_was_started(), "kubelet was started"
        assert without_state(self.tree()) == without_state(before), "files were written"
        return last


def without_state(tree):
    """The pending key is what a failed join may leave."""
    return {path: found for path, found in tree.items() if not path.startswith(STATE)}


def describe(path):
    found = os.lstat(path)
    kind = stat.S_IFMT(found.st_mode)
    if kind == stat.S_IFLNK:
        content = os.readlink(path)
    elif kind == stat.S_IFREG:
        with open(path, "rb") as file:
            content = hashlib.sha256(file.read(1 << 20)).hexdigest()
    else:
        content = ""
    return (stat.filemode(found.st_mode), found.st_uid, found.st_gid, content, found.st_mtime_ns)
