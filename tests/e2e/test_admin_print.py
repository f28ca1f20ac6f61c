# SPDX-License-Identifier: Apache-2.0
"""`node-bootstrap-admin token create --print`: the program that a form is for accepts it. Also in test_cloud_init.py, test_ignition.py
and test_restart.py."""

import contextlib
import re
import struct
import subprocess

import pytest
import yaml
from harness.node import UNIT, settings
from harness.vmware import on_vmware
from harness.wait import PATIENCE, until

ENCRYPTED = "/etc/credstore.encrypted/node-bootstrap.token"


def preflight(cluster, folder, form, text):
    """The first phase of kubeadm join checks the arguments, verifies cluster-info and the CA, and reads from the cluster with the token.
    Returns whether it is allowed to."""
    (folder / "printed").write_text(text)
    words = text.split()[2:] if form == "kubeadm" else ["--config=printed"]
    done = subprocess.run(
        [cluster.assets / "kubeadm", "join", "phase", "preflight", *words, "--ignore-preflight-errors=all"],
        cwd=folder, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE,
    )
    forbidden = re.search(r'User "system:bootstrap:\w+" cannot get resource "configmaps"', done.stdout)
    assert done.returncode == 0 or forbidden, done.stdout
    return done.returncode == 0


@pytest.mark.parametrize("form", ["kubeadm", "join-configuration"])
def test_kubeadm(printed, administer, cluster, tmp_path, form):
    """It may only verify the cluster with a token for one node, and a warning says so. test_restart.py joins with the line."""
    cluster.upload_config()
    assert preflight(cluster, tmp_path, form, printed(form)[0])
    words = ("token", "create", f"--print={form}", f"--kubeconfig={cluster.work / 'kubeadm.conf'}")
    assert administer(cluster).command(*words).stderr == ""
    done = administer(cluster).command(*words, "--node=kubeadm-1")
    assert "`kubeadm join` also reads" in done.stderr and "kubeadm-1" in done.stdout
    assert not preflight(cluster, tmp_path, form, done.stdout)


def by_systemd_nspawn(node, text):
    node.enable(UNIT)
    (node.directory / "printed").write_text(text)
    script = node.directory / "script"
    script.write_text('#!/bin/sh\nshift\nexec sh ./printed "$@"\n')
    script.chmod(0o755)
    node.boot(script=script)


def by_user_data(node, text):
    on_vmware(node, userdata=text).enable(UNIT).boot()


def by_systemd_creds(node, text):
    node.boot("--unit=basic.target")
    node.write("/root/printed", text, 0o600)
    node.run("sh", "/root/printed")


@pytest.mark.parametrize("form, boot", [
    pytest.param("nspawn", by_systemd_nspawn, id="nspawn"),
    pytest.param("user-data", by_user_data, id="user-data"),
    pytest.param("systemd-creds", by_systemd_creds, id="systemd-creds", marks=pytest.mark.each_release),
])
def test_join(printed, new_node, cluster, form, boot):
    """The token is for one node, so its request waits for an approval."""
    node = new_node()
    text, token = printed(form, "--node", f"{node.name}-x")
    boot(node, text)
    csr = cluster.await_csr(f"{node.name}-x")
    assert csr["spec"]["username"] == f"system:bootstrap:{token[:6]}"
    cluster.decide(csr, "Approved")
    until(lambda: node.is_active(UNIT), "the machine has joined")
    cluster.await_node(f"{node.name}-x")
    assert token.split(".")[1] not in node.journal_text("--all", "--output=export")
    if form == "systemd-creds":
        assert node.run("systemd-creds", "decrypt", ENCRYPTED, "-").stdout == f"{token}\n"
        assert node.run("node-bootstrap", "reset", "--force", "--setup").returncode == 0 and not node.exists(ENCRYPTED)
        assert not node.exists(f"/etc/systemd/system/{UNIT}.d/50-setup.conf")


@contextlib.contextmanager
def halted_qemu(path):
    """A virtual machine whose processor stands still; its bus is read through QEMU's protocol for tests."""
    command = ["sh", path, "-machine", "q35,accel=tcg", "-S", "-qtest", "stdio", "-nodefaults", "-display", "none"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def say(line):
        process.stdin.write(line + "\n")
        process.stdin.flush()
        answer = next(line for line in process.stdout if line.startswith(("OK", "FAIL")))
        assert answer.startswith("OK"), answer
        return answer.removeprefix("OK").strip()
    try:
        yield say
    finally:
        process.kill()
        process.communicate()


def fw_cfg(say):
    """name -> contents, for those that an option adds. Selector and data are ports; the directory is item 0x19 (QEMU docs/specs/fw_cfg)."""
    def read(selector, size):
        say(f"outw 0x510 {selector:#x}")
        return bytes(int(say("inb 0x511"), 16) for _ in range(size))

    size = struct.calcsize(">IHH56s")
    (count,) = struct.unpack(">I", read(0x19, 4))
    entries = [struct.unpack_from(">IHH56s", read(0x19, 4 + count * size), 4 + i * size) for i in range(count)]
    return {name.rstrip(b"\0").decode(): read(selector, length) for length, selector, _, name in entries if name.startswith(b"opt/")}


def test_qemu(printed, cluster, tmp_path):
    """What the firmware of the machine offers; test_vm.py boots with such items."""
    text, token = printed("qemu", "--node", "vm-1")
    (tmp_path / "printed").write_text(text)
    with halted_qemu(tmp_path / "printed") as say:
        found = fw_cfg(say)
    prefix = "opt/io.systemd.credentials/node-bootstrap."
    assert found.pop(f"{prefix}token").decode() == f"{token}\n"
    assert yaml.safe_load(found.pop(f"{prefix}config")) == yaml.safe_load(settings(cluster, node={"name": "vm-1"})) and not found


def test_the_credential_is_the_token(printed):
    text, token = printed("credential")
    assert text == f"{token}\n"
