# SPDX-License-Identifier: Apache-2.0
"""token.discard: the token is removed once the machine has joined, and never before."""

import shutil

import pytest

from common.failures import FAILURES
from .harness.node import KUBECONFIG, TOKEN, UNIT
from .harness.vmware import GUESTINFO, on_vmware

SEALED = "/etc/credstore.encrypted/node-bootstrap.token"
DISCARD = {"token": {"discard": True}}


def removed(node):
    """The texts of the entries token-discarded."""
    entries = node.journal("MESSAGE_ID=" + FAILURES["token-discarded"]["message-id"])
    assert all(entry["_SYSTEMD_UNIT"] == UNIT for entry in entries)
    return [entry["MESSAGE"].split("removed: ")[1] for entry in entries]


@pytest.fixture
def quiet(new_node, cluster):
    """A machine without kubelet, with settings that ask for it, and a token."""
    node = new_node().give(cluster.token()).configure(**DISCARD)
    node.run_offline("systemctl", "--quiet", "disable", "kubelet.service")
    return node


def test_gone_after_the_join(quiet):
    quiet.write(SEALED, "an older one, which nothing decrypts")
    quiet.boot("--unit=basic.target")
    quiet.join()
    assert quiet.is_active(UNIT)
    assert not quiet.exists(TOKEN) and not quiet.exists(SEALED)
    assert removed(quiet) == [f"{TOKEN}, {SEALED}"]
    files = quiet.joined_files()
    quiet.join("restart")
    assert quiet.said("already-joined")
    assert len(removed(quiet)) == 1, "nothing is there, and nothing is said"
    assert quiet.joined_files() == files


def test_gone_out_of_run(quiet):
    token = quiet.read(TOKEN).decode()
    quiet.path(TOKEN).unlink()
    quiet.boot("--unit=basic.target")
    quiet.run("sh", "-c", "umask 077; mkdir /run/credstore; cat >/run/credstore/node-bootstrap.token", stdin=token)
    quiet.join()
    assert removed(quiet) == ["/run/credstore/node-bootstrap.token"]
    assert quiet.run("ls", "/run/credstore").stdout == ""


def test_gone_from_a_machine_that_had_joined(quiet):
    """Settings that come later, or a token that came back."""
    quiet.configure()
    quiet.boot("--unit=basic.target")
    quiet.join()
    assert quiet.exists(TOKEN), "nobody asked for it"
    assert removed(quiet) == []
    quiet.configure(**DISCARD)
    quiet.join("restart")
    assert not quiet.exists(TOKEN)
    assert removed(quiet) == [TOKEN]


def test_not_after_a_join_that_failed(quiet):
    quiet.configure(pins=["sha256:" + 64 * "0"], **DISCARD)
    quiet.boot("--unit=basic.target")
    assert quiet.join(check=False).returncode != 0
    assert quiet.exists(TOKEN)


def test_not_where_joining_anew_failed(quiet):
    """A token that an earlier start could not remove is kept if a new join needs it: the previous certificate does not match."""
    token = quiet.read(TOKEN)
    quiet.path("/root/copy").hardlink_to(quiet.path(TOKEN))
    quiet.boot("--unit=basic.target")
    quiet.join()
    quiet.path("/root/copy").unlink()
    quiet.configure(pins=["sha256:" + 64 * "0"], **DISCARD)
    quiet.join("restart")
    assert quiet.said("previous-kept")
    assert quiet.read(TOKEN) == token


def test_what_cannot_be_removed_is_said(quiet):
    """A second name of the file: the token would stay, whichever name is unlinked."""
    quiet.path("/root/copy").hardlink_to(quiet.path(TOKEN))
    quiet.boot("--unit=basic.target")
    quiet.join()
    assert quiet.is_active(UNIT)
    entry = quiet.journal("MESSAGE_ID=" + FAILURES["token-not-discarded"]["message-id"])[0]
    assert entry["MESSAGE"] == f"'{TOKEN}' is not a regular file with one hard link; not removed"
    assert entry["PRIORITY"] == "4"
    quiet.path("/root/copy").unlink()
    quiet.join("restart")
    assert not quiet.exists(TOKEN)


@pytest.fixture
def fragile(quiet, library):
    """One whose programs can be told when to die."""
    shutil.copy(library, quiet.path("/usr/lib/die_at.so"))
    quiet.drop_in(UNIT, "[Service]\nEnvironment=LD_PRELOAD=/usr/lib/die_at.so\nRestart=no\n")
    quiet.boot("--unit=basic.target")
    return quiet


@pytest.mark.nightly
def test_crash_at_every_step(fragile):
    """The token stays until the kubeconfig is there, and the next start removes it."""
    token, outcomes = fragile.read(TOKEN), set()
    for step in range(1, 200):
        fragile.write("/etc/e2e-die-at", f"install {step}\n")
        succeeded = fragile.join("restart", check=False).returncode == 0
        fragile.path("/etc/e2e-die-at").unlink()
        if succeeded:
            break
        outcomes.add((fragile.exists(KUBECONFIG), fragile.exists(TOKEN)))
        if fragile.exists(KUBECONFIG):
            fragile.join("restart")
            assert not fragile.exists(TOKEN), f"step {step}"
        else:
            assert fragile.read(TOKEN) == token, f"step {step}"
        fragile.unjoin()
        fragile.write(TOKEN, token, 0o600)
        fragile.configure(node={"name": f"{fragile.name}-{step}"}, **DISCARD)
    assert outcomes == {(False, True), (True, True), (True, False)}
    assert fragile.exists(KUBECONFIG)
    assert not fragile.exists(TOKEN)


def test_vmware(new_node, cluster):
    """guestinfo on the host is unchanged; the copies on this machine are removed."""
    token = cluster.token()
    node = new_node().configure(**DISCARD)
    on_vmware(node, node_bootstrap__token=str(token))
    node.enable(UNIT).boot()
    node.await_kubelet()
    assert removed(node) == ["/run/node-bootstrap-platform/token"]
    assert node.read(f"{GUESTINFO}/guestinfo.node-bootstrap.token").decode() == str(token)
    node.reboot()
    node.await_kubelet()
    assert node.said("already-joined")
