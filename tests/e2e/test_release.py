# SPDX-License-Identifier: Apache-2.0
"""packaging/release, with keys that this test makes."""

import hashlib
import re
import shutil
import subprocess
from types import SimpleNamespace

import pytest

from common import SOURCE
from common.documentation import commands
from .harness import keyring

VERSION = re.search(r"^  version: '(.*)',$", (SOURCE / "meson.build").read_text(), re.M)[1]
TARBALL = f"kube-node-bootstrap-{VERSION}.tar.gz"


@pytest.fixture(scope="module")
def keys(world):
    with keyring.opened(world.work / "gnupg-release"):
        yield SimpleNamespace(good=keyring.make_key("publisher"), old=keyring.make_key("old", "--cert-digest-algo=SHA1"))


def release(folder, *arguments):
    return subprocess.run([SOURCE / "packaging/release", folder, *arguments], check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def commit():
    """What is changed and not committed yet is tested as well."""
    command = ["git", "-C", SOURCE, "-c", "user.name=test", "-c", "user.email=test@example.org", "stash", "create"]
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout.strip() or "HEAD"


def test_a_key_that_apt_of_debian_13_refuses(world, keys):
    """Its self-signature has the digest SHA-1: machines would refuse the repository. Nothing is built before this is known."""
    done = release(world.work / "refused", keys.old)
    assert done.returncode == 1 and "apt of Debian 13 refuses" in done.stdout and not (world.work / "refused").exists(), done.stdout


def test_a_key_has_to_be_named_by_its_fingerprint(world, keys):
    for words in (["publisher"], [keys.good[-16:]], []):
        done = release(world.work / "refused", *words)
        assert done.returncode == 64 and "fingerprint" in done.stdout and not (world.work / "refused").exists()


def test_two_tarballs_of_one_commit_are_equal(world):
    paths, tree = [world.work / f"tarball-{name}" for name in "ab"], commit()
    for path in paths:
        subprocess.run([SOURCE / "packaging/build-tarball", path, tree], check=True, stdout=subprocess.DEVNULL)
    first, second = ((path / TARBALL).read_bytes() for path in paths)
    assert first == second


@pytest.mark.nightly
def test_release(world, keys, monkeypatch):
    """What is in it, and that the commands in docs/support.md find what somebody has changed."""
    monkeypatch.setenv("DEB_BUILD_OPTIONS", "nocheck")
    folder = world.work / "release"
    done = release(folder, keys.good, commit())
    assert done.returncode == 0, done.stdout
    arch, deb = "amd64", f"{VERSION}-1"
    packages = [f"kube-node-bootstrap{part}_{deb}_{arch}.deb" for part in ("", "-admin", "-dbgsym", "-admin-dbgsym")]
    with_sbom = [*(f"{release}/{name}" for release in ("bookworm", "trixie") for name in packages[:2]),
                 f"node-bootstrap-{VERSION}-x86-64.raw", f"kube-node-bootstrap-admin-{VERSION}.tar"]
    source = [f"bookworm/kube-node-bootstrap_{name}" for name in (f"{deb}.dsc", f"{deb}.debian.tar.xz", f"{VERSION}.orig.tar.gz")]
    wanted = {
        TARBALL, f"{TARBALL}.asc", f"kube-node-bootstrap-{deb}.src.rpm", "node-bootstrap.asc", "SHA256SUMS", "SHA256SUMS.asc", *source,
        *(f"{release}/{name}" for release in ("bookworm", "trixie") for name in packages), *with_sbom, *(f"{name}.cdx.json" for name in with_sbom)}
    assert {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()} == wanted
    listed = dict(reversed(line.split("  ")) for line in (folder / "SHA256SUMS").read_text().splitlines())
    assert listed.keys() == wanted - {"SHA256SUMS", "SHA256SUMS.asc"}
    assert listed[TARBALL] == listed[source[2]] == hashlib.sha256((folder / TARBALL).read_bytes()).hexdigest()

    def verify():
        return subprocess.run(["sh", "-euc", commands("verify-release")], cwd=folder, check=False, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)

    assert verify().returncode == 0 and "Good signature" in verify().stdout
    for name in (with_sbom[0], "SHA256SUMS"):
        shutil.copy(folder / name, world.work / "kept")
        with open(folder / name, "ab") as file:
            file.write(b"\n")
        assert verify().returncode != 0, name
        shutil.copy(world.work / "kept", folder / name)
    assert verify().returncode == 0
