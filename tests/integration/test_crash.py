# SPDX-License-Identifier: Apache-2.0
"""Crashes and full disks at every file system call: strace kills the program at the n-th call, or makes it fail.

After each of them a reader must find the old state or the new one, and the next start must finish the join. With -s a table of the points at which each command was killed is printed.
"""

import json
import re

import pytest

from common import csrs, pki
from common.machine import HEADER, NODE, TOKEN, TOKEN_ID, TOKEN_SOURCE, Machine, to_yaml
from .crash import TABLE, moments, points, put_back, save, traced, traced_join
from .installed import FLAGS, SERVER, other_cluster, snapshot

pytestmark = pytest.mark.usefixtures("crash_table")

RECORD = {"version": 1, "node": NODE, "kubeconfig": "/" + Machine.KUBECONFIG, "server": SERVER, "endpoint": "192.0.2.10:6443", "caCertHashes": [], "csr": "", "joinMethod": "token",
          "kubeletArguments": "--v=2", "tokenID": TOKEN_ID, "tokenSource": TOKEN_SOURCE, "joinedAt": "2026-01-02T03:04:05Z", "certificate": "/x"}


def install(machine, strace, inject=None, program=""):
    return traced(machine, strace, "install", f"--program={program}", f"--root={machine.root}", f"--config-directory={machine.etc}", inject=inject)


def consistent(machine, old):
    """What kubelet would find: the old kubeconfig with the old certificate, none, or the new one with all that it names."""
    path = machine.target(Machine.KUBECONFIG)
    if not path.exists():
        return "none"
    text = path.read_text()
    if text == old:
        return "old"
    certificates, combined = machine.installed_identity()
    key = pki.load_key(combined[combined.index("-----BEGIN EC"):].encode())
    assert pki.spki(key.public_key()) == pki.spki(certificates[0].public_key())
    assert machine.target(Machine.CA_FILE).read_bytes().startswith(b"-----BEGIN CERTIFICATE-----")
    for name, mode in machine.target_names().items():
        assert not name.endswith((".pem", ".conf")) or mode in (0o600, 0o777), f"{name} has mode {mode:o}"
    return "new"


@pytest.mark.parametrize("rejoin", [False, True], ids=["fresh", "anew"])
def test_installer_is_killed(machine, cluster, strace, rejoin):
    if rejoin:
        machine.put_joined_before(cluster.ca.node(start=-pki.DAY, end=-pki.HOUR), SERVER, ca=cluster.ca)
        machine.put(Machine.RECORD, json.dumps({**RECORD, "fileHashes": [], "ca": cluster.ca.pem.decode()}), 0o644)
        machine.put(FLAGS, 'KUBELET_KUBEADM_ARGS="--v=2"\n', 0o644)
    old = machine.read(Machine.KUBECONFIG) if rejoin else None
    machine.put_handoff(cluster.ca, "https://192.0.2.11:6443")
    files = save(machine)
    install(machine, strace).joined()
    found = set()
    for name, number in moments(machine):
        put_back(machine, files)
        run = install(machine, strace, f"{name}:signal=KILL:when={number}")
        where = f"killed at {name} {number}"
        outcome = consistent(machine, old)
        found.add(outcome)
        TABLE["install again" if rejoin else "install", name][outcome] += 1
        if run.exit == 0:
            continue        # the call was not reached this time
        run = machine.install()
        assert run.exit == 0, f"{where}: {run.stderr}"
        assert consistent(machine, old) == "new", where
        assert machine.read(FLAGS) == f'KUBELET_KUBEADM_ARGS="--hostname-override={NODE}"\n', where
        assert machine.inspect().note["verdict"] == "usable", where
        assert list(machine.state.iterdir()) == [], where
        left = [name for name in machine.target_names() if ".tmp" in name or "updated" in name]
        assert left == [], f"{where}: {left}"
    assert found >= {"none", "new"} | ({"old"} if rejoin else set())


def test_folders_of_an_installer_that_is_killed(machine, cluster, strace):
    """A folder has its mode from the start: nothing corrects the mode of one that exists."""
    def modes():
        return {str(path): path.stat().st_mode for path in machine.root.rglob("*") if path.is_dir()}

    machine.put_handoff(cluster.ca, SERVER)
    files = save(machine)
    install(machine, strace).joined()
    expected = modes()
    for name, number in moments(machine, "mkdirat", "fchmod"):
        put_back(machine, files)
        install(machine, strace, f"{name}:signal=KILL:when={number}")
        machine.install().joined()
        assert modes() == expected, f"killed at {name} {number}"


def test_installer_is_killed_while_it_discards(machine, cluster, strace):
    """The token stays until the machine has joined. Killed later, the next start removes it."""
    machine.write_settings(HEADER + to_yaml({"token": {"discard": True}}), "config.yaml.d/10.yaml")
    token = machine.put("etc/credstore/node-bootstrap.token", TOKEN)
    machine.put_handoff(cluster.ca, SERVER)
    files = save(machine)
    install(machine, strace).joined()
    assert not token.exists()
    found = set()
    for name, number in moments(machine):
        put_back(machine, files)
        install(machine, strace, f"{name}:signal=KILL:when={number}")
        found.add((consistent(machine, None), token.exists()))
        machine.install().joined()
        assert not token.exists(), f"killed at {name} {number}"
    assert found == {("none", True), ("new", True), ("new", False)}


@pytest.mark.parametrize("error, codes", [("ENOSPC", ["disk-full"]), ("EIO", ["target-unwritable", "internal"]),
                                          ("EROFS", ["target-unwritable", "internal", "directory-missing"])])
def test_installer_meets_an_error(machine, cluster, strace, error, codes):
    """A full or failing disk is reported with the path; key and handoff stay, and a later start finishes."""
    machine.put_handoff(cluster.ca, SERVER)
    files = save(machine)
    install(machine, strace).joined()
    strikes = [(name, number) for name, number in points(machine) if name not in ("openat", "write", "unlink", "unlinkat", "mkdir", "mkdirat")]
    for name, number in strikes:
        put_back(machine, files)
        run = install(machine, strace, f"{name}:error={error}:when={number}")
        if run.exit != 0:
            assert run.code in codes, f"{name} {number}: {run.stderr}"
            assert consistent(machine, None) == "none" or "node-bootstrap" in run.stderr
            assert (machine.state / "pending.key").exists() or machine.target(Machine.KUBECONFIG).exists()
        machine.install().joined()
        assert consistent(machine, None) == "new", f"{error} at {name} {number}"


def test_folders_that_the_unit_cannot_create(machine, cluster, strace):
    """A missing folder is not the same as one that cannot be written."""
    machine.put_handoff(cluster.ca, SERVER)
    for code, folder, word in (("directory-missing", "var/lib/kubelet", "'/var/lib/kubelet' does not exist"),
                               ("target-unwritable", Machine.PKI, "Read-only file system"),
                               ("directory-missing", "etc/kubernetes", "'/etc/kubernetes' does not exist")):
        for _ in range(2):      # the next start reports the same
            install(machine, strace, "mkdirat:error=EROFS").failed(code, 73, word)
        machine.target(folder).mkdir(parents=True)
    machine.install().joined()


def contents(machine):
    """All files below the root that kubelet reads."""
    return {name: entry[3] for name, entry in snapshot(machine.root).items()}


def test_previous_is_kept_at_every_error(world, strace):
    """A previous join that is still valid is restored completely, and no key of the new one stays."""
    machine = world.machine
    other_cluster(world)
    machine.put_handoff(world.cluster.ca, SERVER)
    files, before, old = save(machine), contents(machine), machine.read(Machine.KUBECONFIG)
    program = machine.path / "forget"       # as join does, which fails then
    program.write_text(f"#!/bin/sh\nrm -f {machine.state}/joined.json\n")
    program.chmod(0o755)
    install(machine, strace).joined()
    strikes = [(name, number) for name, number in points(machine) if name in ("renameat", "renameat2", "symlinkat", "fsync", "fchmod")]
    kept = 0
    for name, number in strikes:
        put_back(machine, files)
        run = install(machine, strace, f"{name}:error=EIO:when={number}", program)
        if consistent(machine, old) == "old":
            run.joined()
            after = contents(machine)
            assert all(after[path] == text for path, text in before.items()), f"{name} {number}"
            assert [path for path in after if path.endswith(".pem") and path not in before] == [], f"{name} {number}"
            kept += 1
        elif consistent(machine, old) == "none":        # the very last rename: what was there is gone by then
            run.failed("target-unwritable", 73, "/" + Machine.KUBECONFIG)
            assert f"the existing '/{Machine.KUBECONFIG}' was renamed to 'kubelet.conf.old'" in run.stderr
            machine.install().joined()
    assert kept > 10


def test_file_system_that_cannot_exchange(world, strace):
    """Replaced without a rollback; even so it is either complete or absent."""
    other_cluster(world)
    world.machine.put_handoff(world.cluster.ca, SERVER)
    install(world.machine, strace, "renameat2:error=EINVAL:when=1+").joined()
    assert consistent(world.machine, None) == "new"
    assert [name for name in world.machine.target_names() if ".tmp" in name or "updated" in name] == []


def test_join_is_killed(world, strace):
    """Wherever the crash is, the cluster sees one request."""
    machine = world.machine
    files = save(machine)
    world.cluster.controller = csrs.never
    world.cluster.controller = csrs.approve()
    found = set()
    traced_join(machine, strace).joined()
    join_points = points(machine)
    assert len(join_points) > 8
    for name, number in join_points:
        put_back(machine, files)
        before = set(world.csrs())
        run = traced_join(machine, strace, f"{name}:signal=KILL:when={number}")
        files_left = {path.name for path in machine.state.iterdir()}
        outcome = "new" if "joined.json" in files_left else "key" if "pending.key" in files_left else "old"
        TABLE["join", name][outcome] += 1
        found.add(outcome)
        if run.exit == 0:
            continue
        if outcome == "new":
            assert machine.inspect().joined().note["verdict"] == "usable", f"killed at {name} {number}"
        else:
            machine.join().joined()
            assert sorted(path.name for path in machine.state.iterdir()) == ["joined.json", "pending.key"], f"killed at {name} {number}"
        assert len(set(world.csrs()) - before) == 1, f"killed at {name} {number}"
    assert found == {"old", "key", "new"}


@pytest.mark.parametrize("error", ["ENOSPC", "EIO"])
def test_join_meets_an_error(world, strace, error):
    """No request leaves the machine before its key is durable."""
    machine = world.machine
    files = save(machine)
    traced_join(machine, strace).joined()
    for name, number in points(machine):
        if name not in ("fsync", "renameat", "renameat2", "linkat"):
            continue
        put_back(machine, files)
        before = set(world.csrs())
        run = traced_join(machine, strace, f"{name}:error={error}:when={number}")
        run.failed("disk-full" if error == "ENOSPC" else "state-unwritable", 73, "in the state directory")
        new = set(world.csrs()) - before
        key = machine.state / "pending.key"
        if new:
            assert new == {pki.csr_name(pki.load_key(key.read_bytes()).public_key(), pki.node_user("node-1"))}
        if (machine.state / "joined.json").exists():        # complete, but maybe not durable
            assert machine.inspect().joined().note["verdict"] == "usable"
        else:
            machine.join().joined()
        assert len(set(world.csrs()) - before) == 1


def test_nothing_is_synced_late(machine, cluster, strace):
    """Each file is synced before it is renamed, each folder after it, and the kubeconfig comes last."""
    machine.put_handoff(cluster.ca, SERVER)
    before = snapshot(machine.root)
    install(machine, strace).joined()
    assert before != snapshot(machine.root)
    steps = [match for line in (machine.path / "trace").read_text().splitlines()
             if (match := re.match(r"(?:\d+ +)?(fsync|rename\w*|link\w*|symlink\w*|unlink\w*)\((.*)\) += 0", line))]
    names = [(step[1], step[2]) for step in steps]
    renames = [i for i, (name, _) in enumerate(names) if name.startswith(("rename", "link", "symlink"))]
    assert renames
    for i in renames:
        assert "fsync" in (names[i - 1][0], names[i - 2][0]) or names[i - 1][0].startswith(("symlink", "unlink")), names[max(0, i - 2):i + 1]
        assert names[i + 1][0] == "fsync" or names[i][0].startswith("symlink") or "unlink" in names[i + 1][0], names[i:i + 2]
    last = names[renames[-1]][1]        # without privileges strace does not see the names
    assert "kubelet.conf" in last or "0x" in last, "the kubeconfig is the commit point"
