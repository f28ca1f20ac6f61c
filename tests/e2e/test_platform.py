# SPDX-License-Identifier: Apache-2.0
"""node-bootstrap-platform.service: what the join's sandbox does not show, and what token.discard takes away afterwards.

A volume that can be read needs a kernel with iso9660 or vfat: see test_vm.py.
"""

import json
import subprocess

import pytest

from common.failures import FAILURES
from common.wait import until
from .harness.node import UNIT
from .harness.vmware import GUESTINFO, PLATFORM, on_vmware

FOLDER = "/run/node-bootstrap-platform"


def said(node, code, unit=PLATFORM):
    return node.journal(f"_SYSTEMD_UNIT={unit}", "MESSAGE_ID=" + FAILURES[code]["message-id"])


def left(node):
    """The files of the service by name, platform.json parsed."""
    found = {}
    for name in node.run("ls", FOLDER).stdout.split():
        found[name] = node.run("cat", f"{FOLDER}/{name}").stdout
    return {name: json.loads(text) if name == "platform.json" else text for name, text in found.items()}


def kernel_line(node, text):
    node.write("/etc/e2e-kernel-line", text)
    node.drop_in(PLATFORM, "[Service]\nBindReadOnlyPaths=/etc/e2e-kernel-line:/proc/cmdline\n", "42-kernel-line.conf")


def test_not_started_where_nothing_concerns_it(node):
    node.enable(UNIT).boot()
    node.await_kubelet()
    assert node.show(PLATFORM, "ActiveState", "ConditionResult", "ExecMainStartTimestampMonotonic") == ("inactive", "no", "0")
    assert node.run("test", "-e", FOLDER, check=False).returncode == 1


def test_kernel_command_line(node):
    """The condition starts the unit, and its sandbox can read /proc/cmdline."""
    kernel_line(node, "quiet ignition.platform.id=qemu ds=nocloud;s=http://192.0.2.1/\n")
    node.enable(UNIT).boot("ds=nocloud")
    node.await_kubelet()
    assert node.show(PLATFORM, "ActiveState", "ConditionResult") == ("active", "yes")
    assert left(node) == {"platform.json": {"platformId": "qemu", "dataSource": "nocloud", "volume": "", "hasGuestinfo": False}}
    assert node.run("stat", "--format=%a %U", FOLDER, f"{FOLDER}/platform.json").stdout.split("\n")[:2] == ["711 root", "600 root"]


@pytest.fixture
def loop(world):
    """A loop device with an ext4 volume in it."""
    path = world.work / "volume.ext4"
    path.write_bytes(b"")
    with open(path, "r+b") as file:
        file.truncate(8 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-L", "cidata", path], check=True)
    device = subprocess.run(["losetup", "--find", "--show", path], check=True, capture_output=True, text=True).stdout.strip()
    yield device
    subprocess.run(["losetup", "--detach", device], check=True)


def test_volume_of_another_file_system(node, loop):
    """The service does not mount a file system that the kernel supports; a machine with a credential still joins."""
    node.boot("--unit=basic.target")
    node.run("mknod", loop, "b", "7", loop.removeprefix("/dev/loop"))
    node.run("sh", "-c", f"mkdir -p /dev/disk/by-label && ln -s {loop} /dev/disk/by-label/cidata")
    node.run("mount", "-o", "ro", loop, "/mnt")
    node.run("umount", "/mnt")
    node.join()
    until(lambda: node.show(PLATFORM, "ActiveState", "ExecMainStatus") == ("failed", "74"), "it has failed as documented")
    entry = said(node, "platform-unreadable")[0]
    assert "'/dev/disk/by-label/cidata' cannot be mounted as iso9660: " in entry["MESSAGE"]
    assert "nor as vfat: " in entry["MESSAGE"]
    assert left(node)["platform.json"]["volume"] == ""


def test_guestinfo(node):
    token = str(node.cluster.fresh_token())
    on_vmware(node, userdata="#cloud-config\n", node_bootstrap__token=token)
    node.enable(UNIT).boot()
    node.await_kubelet()
    note = {"platformId": "", "dataSource": "", "volume": "", "hasGuestinfo": True}
    assert left(node) == {"platform.json": note, "token": token, "user-data": "#cloud-config\n"}
    assert token not in node.journal_text("--all", "--output=export")


def test_read_anew_with_each_start(node):
    """It runs once per start: kubelet's start job, which wants it too, does not run it again."""
    on_vmware(node, userdata="first")
    node.enable(UNIT).boot()
    node.await_kubelet()
    assert len(node.journal(f"_SYSTEMD_UNIT={PLATFORM}")) == 1
    node.write(f"{GUESTINFO}/guestinfo.userdata", "second", 0o600)
    node.join("restart")
    assert left(node)["user-data"] == "second"
    node.run("systemctl", "stop", UNIT)
    until(lambda: not node.is_active(PLATFORM), "it is stopped as well")
    assert left(node)["user-data"] == "second", "what it left stays"
    node.write(f"{GUESTINFO}/guestinfo.userdata", "third", 0o600)
    node.join()
    assert left(node)["user-data"] == "third"
    assert len(node.journal(f"_SYSTEMD_UNIT={PLATFORM}")) == 3


def test_nothing_stays_of_what_is_gone(node):
    """If no condition holds any more, the files of an earlier start are still replaced."""
    on_vmware(node, userdata="first")
    node.enable(UNIT).boot()
    node.await_kubelet()
    assert left(node)["user-data"] == "first"
    node.path(f"{GUESTINFO}/guestinfo.userdata").unlink()
    node.path(f"/etc/systemd/system/{PLATFORM}.d/41-started.conf").unlink()
    node.run("systemctl", "daemon-reload")
    node.join("restart")
    assert set(left(node)) == {"platform.json"}


def test_guestinfo_without_values(node):
    on_vmware(node, userdata="---", node_bootstrap__token=" ")
    node.boot("--unit=basic.target")
    node.run("systemctl", "start", PLATFORM)
    assert left(node) == {"platform.json": {"platformId": "", "dataSource": "", "volume": "", "hasGuestinfo": True}}
    node.path(f"{GUESTINFO}/guestinfo.userdata").unlink()
    node.write(f"{GUESTINFO}/guestinfo.node-bootstrap.token", "new", 0o600)
    node.run("systemctl", "start", PLATFORM)
    assert left(node)["token"] == "new"
    node.path(f"{GUESTINFO}/guestinfo.node-bootstrap.token").unlink()
    node.run("systemctl", "start", PLATFORM)
    assert set(left(node)) == {"platform.json"}, "nothing of an earlier run is left"


@pytest.mark.parametrize("tool, found", [
    ('echo "Failed sending message to VMware." >&2; exit 1', "(exit status 1): Failed sending message to VMware."),
    ("exec sleep 60", "did not finish within 10 s"),
    ("exec cat /dev/zero", "it is larger than 1 MiB"),
], ids=["is refused", "hangs", "does not end"])
def test_guestinfo_that_cannot_be_read(node, tool, found):
    on_vmware(node)
    node.write("/usr/bin/vmware-rpctool", f"#!/bin/sh\n{tool}\n", 0o755)
    node.enable(UNIT).boot()
    node.await_kubelet()
    assert found in said(node, "platform-unreadable")[0]["MESSAGE"]


def test_vmware_without_its_tools(node):
    on_vmware(node)
    node.path("/usr/bin/vmware-rpctool").unlink()
    node.boot("--unit=basic.target")
    node.run("systemctl", "start", PLATFORM)
    assert left(node)["platform.json"]["hasGuestinfo"] is False
