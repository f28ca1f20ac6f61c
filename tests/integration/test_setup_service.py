# SPDX-License-Identifier: Apache-2.0
"""What setup and reset ask systemd for; systemd is a part of the tests, or does not run."""

import socket
import subprocess

import pytest

import pki
from machine import FAILURES, TOKEN, Machine, find_program
from manager import Manager

UNIT, KUBELET = "node-bootstrap.service", "kubelet.service"
SETUP = ["setup", "10.0.0.1:6443", "--token", TOKEN, "--discovery-token-ca-cert-hash", "sha256:" + "ab" * 32]
INSIDE = f"""
mount -t tmpfs tmpfs /etc
mount -t tmpfs tmpfs /run
mkdir -p /etc/systemd/system /etc/kubernetes /run/systemd
printf '[Service]\\nExecStart=/bin/true\\n[Install]\\nWantedBy=multi-user.target\\n' >/etc/systemd/system/{UNIT}
if [ -e "$0/systemd" ]; then mount --bind "$0/systemd" /run/systemd; fi
if [ -e "$0/joined" ]; then
    mount -t tmpfs tmpfs /var/lib
    cp -a "$0/joined/root/etc/." /etc
    cp -a "$0/joined/root/var/lib/." /var/lib
fi
"$@"
readlink /etc/systemd/system/multi-user.target.wants/{UNIT} || true
"""
AT_REST = {"SubState": "dead", "UnitFileState": "disabled", "Job": (0, "/")}


@pytest.fixture
def manager(tmp_path):
    manager = Manager(tmp_path / "systemd")
    yield manager
    manager.close()


def run(path, *words, inside=INSIDE):
    return subprocess.run(["/usr/bin/unshare", "--user", "--map-root-user", "--mount", "sh", "-ec", inside, path, find_program("node-bootstrap"), *words],
                          capture_output=True, text=True, check=False, env={"PATH": "/usr/sbin:/usr/bin"})


def test_service_is_enabled_without_systemd(tmp_path):
    """As in a chroot in which an image is built."""
    done = run(tmp_path, *SETUP, "--no-start")
    assert done.returncode == 0, done.stderr
    assert f"enabled  {UNIT}\n" in done.stdout and done.stdout.endswith(f"/etc/systemd/system/{UNIT}\n")


@pytest.mark.parametrize("was_enabled", [True, False])
def test_service_of_a_joined_machine(manager, tmp_path, was_enabled):
    """systemd makes the links, and a service that is active is not started."""
    (tmp_path / "joined").mkdir()
    joined = Machine(tmp_path / "joined")
    ca = pki.CA()
    joined.put_joined_before(ca.node(socket.gethostname()), "https://10.0.0.1:6443", ca=ca)
    words = [word if not word.startswith("sha256:") else ca.pin for word in SETUP]
    manager.units[UNIT] = {**AT_REST, "ActiveState": "active", "UnitFileState": "enabled" if was_enabled else "disabled"}
    done = run(tmp_path, *words)
    assert done.returncode == 0 and "this machine has joined; systemd does not answer" in done.stdout, done.stderr
    assert (f"enabled  {UNIT}\n" in done.stdout) is not was_enabled
    assert manager.calls == [("EnableUnitFiles", UNIT), ("Reload", "")]


def test_service_that_fails_at_once(manager, tmp_path):
    manager.units[UNIT] = {**AT_REST, "ActiveState": "failed", "SubState": "failed", "ExecMainStatus": 77}
    done = run(tmp_path, *SETUP)
    assert done.returncode == 77 and f"setup-unfinished: {UNIT} is failed (failed, exit status 77)" in done.stderr
    assert manager.calls == [("EnableUnitFiles", UNIT), ("Reload", ""), ("StartUnit", f"{UNIT} replace")]


def test_status_of_the_previous_run_is_not_shown(manager, tmp_path):
    """systemd keeps it until the service starts again, which may have to wait for another unit."""
    old = {**AT_REST, "ActiveState": "inactive", "StatusText": "Joined long ago"}
    manager.units[UNIT] = [old, {**old, "Job": (1, "/job")}, {**AT_REST, "ActiveState": "active", "StatusText": "Joined now"}]
    done = run(tmp_path, *SETUP)
    assert done.returncode == 0 and "* Joined now\n" in done.stdout and "long ago" not in done.stdout


def test_folders_cannot_be_created(manager, tmp_path):
    """Nothing is written, and nothing is started."""
    done = run(tmp_path, *SETUP, inside=INSIDE.replace("/etc/kubernetes", ""))
    assert done.returncode == int(FAILURES["directory-missing"]["exit"]) and "wrote" not in done.stdout and manager.calls == []
    assert "directory-missing: systemd-tmpfiles does not create '/etc/kubernetes': " in done.stderr


def test_systemd_refuses(manager, tmp_path):
    """Its message is shown."""
    done = run(tmp_path, *SETUP)
    assert done.returncode == int(FAILURES["setup-command-failed"]["exit"]) and manager.calls == []
    assert f"setup-command-failed: systemd: GetAll failed: Unit {UNIT} is unknown to the test." in done.stderr


def test_unit_that_is_active_again_after_it_was_stopped(manager, tmp_path):
    manager.units[KUBELET] = {**AT_REST, "ActiveState": "active"}
    done = run(tmp_path, "reset", "--force")
    assert done.returncode == int(FAILURES["setup-command-failed"]["exit"]) and f"{KUBELET} is active again" in done.stderr
    assert manager.calls == [("StopUnit", f"{KUBELET} replace")]
