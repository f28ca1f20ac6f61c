# SPDX-License-Identifier: Apache-2.0
"""The system extension: it brings what the machine does not have, and leaves nothing behind."""

import base64
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest

from common import SOURCE
from common.documentation import commands
from common.failures import FAILURES
from common.wait import until
from .harness import sbom
from .harness.first_boot import IGNITION, apply_ignition
from .harness.image import SUITE, command_in
from .harness.node import PROGRAM, TOKEN, UNIT, example

NAME = "node-bootstrap"
VERSION = re.search(r"^  version: '(.*)',$", (SOURCE / "meson.build").read_text(), re.M)[1]
LIBRARIES = f"/usr/lib/{NAME}/lib"
TIMER, CATALOG = f"{NAME}-metrics.timer", "/var/lib/systemd/catalog"
PROGRAMS = (PROGRAM, f"/usr/lib/{NAME}/install", f"/usr/lib/{NAME}/platform")
ABSENT = ("libcurl", "libgnutls", "libyaml", "libjson-c")


def build(folder, umask=0o022):
    """Without the unit tests, which other steps pass; on Debian 12, whose libraries also run on newer systems."""
    command = f"umask {umask:03o} && DEB_BUILD_OPTIONS=nocheck packaging/build-sysext FOLDER"
    subprocess.run(command_in(SUITE, folder, "sh", "-euc", command), cwd=SOURCE, check=True, stdout=subprocess.DEVNULL)
    return folder


@pytest.fixture(scope="module")
def folder(world, request):
    """What packaging/build-sysext leaves."""
    option = request.config.option.sysext
    return Path(option) if option else build(world.work / "sysext")


@pytest.fixture(scope="module")
def image(folder):
    [path] = folder.glob("*.raw")
    return path


@pytest.fixture(scope="module")
def unpacked(world, image):
    subprocess.run(["unsquashfs", "-quiet", "-no-progress", "-dest", world.work / "unpacked", image], check=True)
    return world.work / "unpacked"


@pytest.fixture(scope="module")
def program(world):
    """Ignition, also for a machine of a release without it."""
    subprocess.run(["dpkg-deb", "--extract", world.ignition, world.work / "ignition-files"], check=True)
    return world.work / "ignition-files" / IGNITION


def loops(node):
    """The loop devices whose files are this machine's."""
    device = node.path("/etc/hostname").stat().st_dev
    said = subprocess.run(["losetup", "--all", "--noheadings", "--output=NAME,BACK-MAJ:MIN"], check=True, text=True, stdout=subprocess.PIPE).stdout
    return [name for name, numbers in map(str.split, said.splitlines()) if numbers == f"{os.major(device)}:{os.minor(device)}"]


@pytest.fixture
def pristine(world, new_node):
    """A machine without the package and the libraries that the extension has to bring. It is not in the way of an overlay over /usr."""
    node = new_node(package=False)
    for path in node.path("/usr/lib").rglob("*.so*"):
        if path.name.startswith(ABSENT):
            path.unlink()
    node.path("/usr/bin/kubelet").unlink()
    node.path("/usr/bin/kubelet").symlink_to("/opt/kubelet")
    node.binds = [f"{world.assets}/kubelet:/opt/kubelet"]
    # The network is there already.
    node.write("/etc/systemd/system-preset/10-image.preset", "disable systemd-networkd*\n")
    # Not bound from outside: systemd removes a loop device that it no longer needs, and its node with it.
    nodes = "".join(f"b /dev/loop{number} - - - - 7:{number}\n" for number in range(64))
    node.write("/etc/tmpfiles.d/loop.conf", f"c /dev/loop-control - - - - 10:237\n{nodes}")
    yield node
    had = loops(node)
    node.kill()
    try:
        assert had
        until(lambda: not loops(node), "the loop devices are free")
    finally:
        for name in loops(node):
            subprocess.run(["losetup", "--detach", name], check=True)


def added(*documents):
    """One Ignition config out of several, as a person adds the entries of one to another."""
    whole = json.loads(documents[0])
    for document in map(json.loads, documents[1:]):
        for section in ("storage", "systemd"):
            for kind, entries in document[section].items():
                whole[section][kind] = whole[section].get(kind, []) + entries
    return json.dumps(whole)


def config_of(cluster, token, image):
    """packaging/examples, with the values of this cluster, and with the extension itself instead of its address."""
    data = image.read_bytes()
    return added(
        example("node-bootstrap.ign", {
            r"abcdef\.0123456789abcdef": token, r"10\.0\.0\.10%3A6443": quote(cluster.front.endpoint, safe=""),
            r"sha256%3A[0-9a-f]{64}": quote(cluster.ca.pin, safe=""),
        }),
        example("sysext.ign", {
            r"https://[^\"]*": "data:;base64," + base64.b64encode(data).decode(),
            r"sha256-[0-9a-f]{64}": f"sha256-{hashlib.sha256(data).hexdigest()}",
        }))


def assert_has_its_own_libraries(node):
    """Also where LD_LIBRARY_PATH has others."""
    node.run("cp", "--recursive", LIBRARIES, "/root/lib")
    for name in PROGRAMS:
        said = node.run("env", "LD_LIBRARY_PATH=/root/lib", "ldd", name).stdout
        assert "not found" not in said
        found = dict(re.findall(r"(\S+) => (\S+)", said))
        own = {library for library, path in found.items() if path.startswith(LIBRARIES)}
        assert {library for library in found if library.startswith(ABSENT)} <= own
        assert not {"libc.so.6", "libsystemd.so.0", "libresolv.so.2"} & own


def assert_has_the_catalog(node):
    row = FAILURES["token-unknown"]
    assert row["subject"] in node.run("journalctl", "--list-catalog", row["message-id"]).stdout


@pytest.mark.each_release
def test_joins_and_leaves(pristine, cluster, program, image):
    """From Ignition to a node, over reboots, and away again; then with the commands in docs/install.md."""
    node, token = pristine, str(cluster.token())
    node.write("/root/config.ign", config_of(cluster, token, image), 0o600)
    apply_ignition(node, "/root/config.ign", program)
    for path in node.root.rglob("*.so*"):
        assert not path.name.startswith(ABSENT), path
    assert not node.exists(PROGRAM) and node.read(TOKEN).decode() == f"{token}\n"
    node.write("/etc/machine-id", "uninitialized\n")
    node.boot()
    cluster.await_node(node.name)
    assert node.is_active(UNIT) and len(cluster.csrs(node.name)) == 1
    assert node.run("systemctl", "is-enabled", UNIT).stdout.strip() == "enabled"
    assert_has_its_own_libraries(node)
    assert_has_the_catalog(node)
    until(lambda: "State: joined" in node.run("node-bootstrap", "status", check=False).stdout, "kubelet may end once, before its runtime is there")
    assert "✗" not in node.run("node-bootstrap", "check").stdout

    # A boot that goes elsewhere, for example to rescue.target.
    node.kill()
    node.boot("--unit=basic.target")
    assert node.is_active("systemd-sysext.service") and not node.kubelet_was_started()

    # No catalog can be written.
    node.kill()
    shutil.rmtree(node.path(CATALOG))
    node.path(CATALOG).touch()
    node.boot()
    until(lambda: node.run("node-bootstrap", "status", "--monitor", check=False).returncode == 0, "kubelet may end once, before its runtime is there")
    node.path(CATALOG).unlink()
    assert node.is_active(UNIT) and len(cluster.csrs(node.name)) == 1

    node.run("systemctl", "enable", "--now", TIMER)
    pid, files = node.kubelet_pid(), node.joined_files()
    node.run("sh", "-ec", commands("sysext-remove"))
    assert not node.is_active(TIMER) and not node.run("find", "/etc/systemd/system", "-name", TIMER).stdout
    assert node.run("find", "/usr", "-name", f"*{NAME}*").stdout == ""
    assert node.run("findmnt", "/usr", check=False).returncode == 1
    assert node.joined_files() == files and node.kubelet_pid() == pid
    node.run("systemctl", "restart", "kubelet.service")
    node.await_kubelet()

    node.write(f"/root/{image.name}", image.read_bytes())
    pid = node.kubelet_pid()
    node.run("sh", "-ec", "cd /root\n" + commands("sysext"))
    assert node.joined_files() == files and node.kubelet_pid() == pid
    assert_has_the_catalog(node)
    node.enable(UNIT).join()
    assert "State: joined" in node.run("node-bootstrap", "status").stdout and len(cluster.csrs(node.name)) == 1

    # Another version, while this one runs.
    pid = node.kubelet_pid()
    node.run("sh", "-ec", "cd /root\n" + commands("sysext"))
    assert node.kubelet_pid() == pid and node.is_active(UNIT)
    assert "State: joined" in node.run("node-bootstrap", "status").stdout


def test_what_is_in_it(unpacked, image):
    """Files of root alone below /usr; what the machine has to have is in docs/install.md."""
    assert image.name == f"{NAME}-{VERSION}-x86-64.raw" and os.listdir(unpacked) == ["usr"]
    paths = [unpacked, *unpacked.rglob("*")]
    assert not [p for p in paths if p.lstat().st_uid or p.lstat().st_gid or not p.is_symlink() and p.lstat().st_mode & 0o7022]
    libraries = unpacked / LIBRARIES.lstrip("/")
    for name in ABSENT:
        assert list(libraries.glob(f"{name}*")), name
    programs = [unpacked / name.lstrip("/") for name in PROGRAMS]
    symbols, of_programs = (
        subprocess.run(["objdump", "--private-headers", *files], check=True, text=True, stdout=subprocess.PIPE).stdout
        for files in (libraries.iterdir(), programs))
    assert not re.findall("RPATH|RUNPATH", symbols)
    symbols += of_programs
    # Not a number: GLIBC_ABI_DT_RELR, which a newer glibc than that of the symbols has.
    assert not re.findall(r"\bGLIBC_[A-Z]\S*", symbols)
    newest = max(int(minor) for minor in re.findall(r"\bGLIBC_2\.(\d+)$", symbols, re.M))
    assert f"glibc 2.{newest}" in re.sub(r"\s+", " ", (SOURCE / "docs/install.md").read_text())


def test_bill_of_materials(world, image, unpacked):
    """Each library in it is of a Debian package that is listed, with its version, and the other way round."""
    names = sbom.assert_names_libraries(sbom.made_of(world.work, image), world.work, SUITE)
    libraries = [path.name for path in (unpacked / LIBRARIES.lstrip("/")).iterdir()]
    said = subprocess.run(command_in(SUITE, world.work, "dpkg-query", "--search", *(f"*/{name}" for name in libraries)), cwd=SOURCE, check=True,
                          text=True, stdout=subprocess.PIPE).stdout
    assert names == {line.split(":")[0] for line in said.splitlines()}


@pytest.mark.nightly
def test_two_builds_of_one_commit_are_equal(folder, image, world):
    other = build(world.work / "again", umask=0o077)
    assert (other / image.name).read_bytes() == image.read_bytes()
    assert (other / "SHA256SUMS").read_text() == (folder / "SHA256SUMS").read_text()


def test_a_missing_tool_is_reported_before_the_build(tmp_path):
    done = subprocess.run([SOURCE / "packaging/build-sysext", tmp_path / "out"], check=False, text=True, stderr=subprocess.PIPE, env={"PATH": str(tmp_path)})
    assert done.returncode != 0 and "packaging/dependencies build sysext' installs" in done.stderr, done.stderr
    assert not (tmp_path / "out").exists()


def test_a_tree_without_git_has_a_date(tmp_path):
    for name in ("packaging/from_debian.py", "meson.build"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(SOURCE / name, tmp_path / name)
    said = subprocess.run([sys.executable, "-B", "-c", "import from_debian; print(from_debian.commit_time())"], check=True, text=True, cwd=tmp_path / "packaging",
                          stdout=subprocess.PIPE, env={"PATH": os.environ["PATH"]}).stdout
    assert int(said) > 1700000000


# As bakery.sh calls them.
DRIVER = """
set -euo pipefail
RELOAD_SERVICES_ON_MERGE=false
source "$1"
mkdir work root
versions=$(list_available_versions)
(cd work && populate_sysext_root "$PWD/../root" x86-64 "$2")
echo $versions $RELOAD_SERVICES_ON_MERGE
"""


def bake(releases, folder):
    folder.mkdir()
    return subprocess.run(
        ["bash", "-c", DRIVER, "-", SOURCE / "packaging/node-bootstrap.sysext/create.sh", VERSION], cwd=folder, check=False, text=True,
        stdout=subprocess.PIPE, env={"PATH": os.environ["PATH"], "NODE_BOOTSTRAP_RELEASES": f"file://{releases}"})


def test_recipe_for_the_bakery(folder, image, unpacked, tmp_path):
    """The bakery adds its own metadata. Another image than that of the sums is refused, and one that is not in them."""
    releases = shutil.copytree(folder, tmp_path / "releases")
    with open(releases / "SHA256SUMS", "a", encoding="ascii") as file:
        file.write(f"{'0' * 64}  {NAME}-0.0.9-arm64.raw\n{'0' * 64}  {NAME}-0.0.10-x86-64.raw\n")
    done = bake(releases, tmp_path / "good")
    assert done.returncode == 0 and done.stdout == f"{VERSION} 0.0.10 0.0.9 true\n"
    compared = subprocess.run(["diff", "--recursive", "--no-dereference", unpacked, tmp_path / "good/root"], check=False, text=True, stdout=subprocess.PIPE)
    assert compared.stdout == f"Only in {unpacked}/usr/lib: extension-release.d\n"
    with open(releases / image.name, "ab") as file:
        file.write(b"\n")
    assert bake(releases, tmp_path / "changed").returncode != 0
    (releases / "SHA256SUMS").write_text(f"{'0' * 64}  {image.name}.sig\n")
    assert bake(releases, tmp_path / "unlisted").returncode != 0
    assert not os.listdir(tmp_path / "changed/root") and not os.listdir(tmp_path / "unlisted/root")
