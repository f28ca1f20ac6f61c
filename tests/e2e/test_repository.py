# SPDX-License-Identifier: Apache-2.0
"""packaging/build-apt, the life of the package on a machine that has nothing of it (no library, no kubelet), and its autopkgtest.

The commands are those of docs/install.md. The previous version is the same package with another version number: it has the files
of this version, and shows what dpkg and the maintainer scripts do.
"""

import functools
import hashlib
import http.server
import os
import re
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from common import SOURCE, documentation
from .harness import image, keyring, network
from .harness.machine import Machine
from .harness.node import UNIT

NAME = "kube-node-bootstrap"
PORT, PREVIOUS = 8080, "0.1~previous"
URL = f"http://{network.GATEWAY}:{PORT}"
# What apt, dpkg and systemd write of their own accord.
IGNORED = ("/var/lib/apt", "/var/lib/dpkg", "/var/lib/systemd", "/etc/ld.so.cache")
REMAINS = {"/etc/credstore"}  # the administrator's


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def keys(world):
    """Ours and a stranger's; by name, their fingerprints."""
    with keyring.opened(world.work / "gnupg"):
        yield {name: keyring.make_key(name) for name in ("packager", "stranger")}


@pytest.fixture
def served(world, keys, request):
    """A new folder, which is served: the machine's only source of packages. Debian's part of it is a repository like ours, and has the
    package that is named as our program."""
    folder = world.work / f"served-{request.node.name}"
    build_apt(folder / "debian", keys["packager"], *world.dependencies)
    server = http.server.ThreadingHTTPServer((network.GATEWAY, PORT), functools.partial(QuietHandler, directory=folder))
    threading.Thread(target=server.serve_forever).start()
    yield folder
    server.shutdown()
    server.server_close()


@pytest.fixture
def machine(world, served):
    made = Machine(world.work, [world.pristine], "pristine")
    for path in made.path("/etc/apt/sources.list.d").glob("*"):
        path.unlink()
    made.path("/etc/apt/sources.list").unlink(missing_ok=True)
    made.write("/etc/apt/keyrings/debian.asc", (served / "debian/node-bootstrap.asc").read_bytes())
    made.write("/etc/apt/sources.list.d/debian.sources", f"Types: deb\nURIs: {URL}/debian/\nSuites: ./\nSigned-By: /etc/apt/keyrings/debian.asc\n")
    made.write("/etc/apt/apt.conf.d/90test", 'APT::Get::Assume-Yes "true";\nDpkg::Use-Pty "false";\n')
    made.boot()
    yield made
    made.close()


def run(*command, **options):
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, **options).stdout


def build_apt(folder, key, *packages):
    run(SOURCE / "packaging/build-apt", folder, "bookworm", key, *packages)


def publish(world, served, key, *packages):
    """Makes the repository with the command of the document, or adds to it."""
    folder = world.work / f"{served.name}-built"
    folder.mkdir(exist_ok=True)
    for package in packages:
        shutil.copy(package, folder)
    command = documentation.commands("apt-repository").replace("KEY", key).replace("packaging/", f"{SOURCE}/packaging/")
    run("sh", "-euc", command, cwd=folder)
    shutil.copytree(folder / "repository", served / "repository", dirs_exist_ok=True)
    return served / "repository"


def install(machine, repository, check=True):
    """With the commands of the document."""
    machine.write("/root/node-bootstrap.asc", (repository / "node-bootstrap.asc").read_bytes())
    commands = documentation.commands("apt-install").replace("https://packages.example.org/bookworm/", f"{URL}/repository/")
    assert URL in commands
    return machine.run("sh", "-euc", f"cd /root\n{commands}", check=check).stdout


def version_of(machine, name=NAME):
    return machine.run("dpkg-query", "--show", "--showformat=${db:Status-Abbrev} ${Version}", name, check=False).stdout.strip()


def previous_version(world):
    tree, made = world.work / "previous", world.work / f"{NAME}_previous.deb"
    if not made.exists():
        run("dpkg-deb", "--raw-extract", world.deb, tree)
        control = tree / "DEBIAN/control"
        control.write_text(re.sub("^Version: .*", f"Version: {PREVIOUS}", control.read_text(), flags=re.M))
        run("dpkg-deb", "--root-owner-group", "--build", tree, made)
    return made


def files(machine):
    """What is in the machine's files, by path: a link's target, a file's digest, or None for a directory."""
    found = {}
    for top in ("/etc", "/usr", "/var", "/root", "/srv", "/opt", "/home"):
        for folder, folders, names in os.walk(machine.path(top)):
            for path in (Path(folder, name) for name in folders + names):
                inside = "/" + str(path.relative_to(machine.root))
                if path.is_symlink():
                    found[inside] = os.readlink(path)
                else:
                    found[inside] = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
    return {path: content for path, content in found.items() if not path.startswith(IGNORED)}


@pytest.mark.each_release
def test_the_package_and_its_key_are_refused_when_altered(machine, served, keys, world):
    """A package, an index and a signature that somebody changed, and a signature by another key."""
    repository = publish(world, served, keys["packager"], world.deb)
    key, index = (repository / "node-bootstrap.asc").read_bytes(), (repository / "InRelease").read_text()
    [package] = repository.glob("*.deb")
    content = bytearray(package.read_bytes())
    content[len(content) // 2] ^= 1
    package.write_bytes(content)
    refused(machine, repository, r"Hash Sum mismatch")
    shutil.copy(world.deb, package)
    (repository / "InRelease").write_text(index.replace("Label: node-bootstrap", "Label: node-bootstrep"))
    refused(machine, repository, r"BADSIG|bad signature|Message has been manipulated|OpenPGP signature verification failed")
    (repository / "InRelease").write_text(index)
    indexes = {path: path.read_bytes() for path in (*repository.glob("Packages*"), *(repository / "by-hash/SHA256").iterdir())}
    for path, data in indexes.items():
        path.write_bytes(data[:-1] + b"\n\n")
    refused(machine, repository, r"unexpected size|Hash Sum mismatch")
    for path, data in indexes.items():
        path.write_bytes(data)
    publish(world, served, keys["stranger"])
    (repository / "node-bootstrap.asc").write_bytes(key)
    refused(machine, repository, r"NO_PUBKEY|Missing key")
    publish(world, served, keys["packager"])
    install(machine, repository)
    assert version_of(machine).startswith("ii")


def test_a_key_has_to_be_named_by_its_fingerprint(tmp_path, keys, world):
    """A name or the end of a fingerprint could be those of another key, too."""
    for key in ("packager", keys["packager"][-16:], "0x" + keys["packager"][2:]):
        done = subprocess.run([SOURCE / "packaging/build-apt", tmp_path / "made", "bookworm", key, world.deb], check=False, text=True, stderr=subprocess.PIPE)
        assert done.returncode == 64 and "fingerprint" in done.stderr and not (tmp_path / "made").exists()


def refused(machine, repository, why):
    machine.run("sh", "-c", "rm -rf /var/lib/apt/lists /var/cache/apt/archives")
    said = install(machine, repository, check=False)
    assert re.search(why, said) and not machine.exists("/usr/bin/node-bootstrap"), said


def test_fields_and_indexes(served, keys, world):
    """Of the signed file. What it lists is there under its digest, too."""
    repository = publish(world, served, keys["packager"], world.deb, world.admin_deb)
    text = (repository / "InRelease").read_text()
    fields = dict(re.findall(r"^(\S+): (\S.*)$", text, re.M))
    wanted = {"Suite": "bookworm", "Codename": "bookworm", "Architectures": "amd64", "Acquire-By-Hash": "yes", "Origin": NAME.removeprefix("kube-")}
    assert wanted.items() <= fields.items()
    listed = re.findall(r"^ ([0-9a-f]{64}) +[0-9]+ (Packages\S*)$", text, re.M)
    assert {name for _, name in listed} == {"Packages", "Packages.gz"}
    for digest, name in listed:
        for path in (repository / name, repository / "by-hash/SHA256" / digest):
            assert hashlib.sha256(path.read_bytes()).hexdigest() == digest
    assert not list(repository.glob(".new*"))


@pytest.mark.each_release
def test_a_machine_that_has_the_previous_signature(machine, served, keys, world):
    """It got InRelease just before a new version was published: the indexes that it asks for next are still there."""
    repository = publish(world, served, keys["packager"], previous_version(world))
    before = (repository / "InRelease").read_bytes()
    publish(world, served, keys["packager"], world.deb)
    (repository / "InRelease").write_bytes(before)
    install(machine, repository)
    assert version_of(machine) == f"ii  {PREVIOUS}"


@pytest.mark.each_release
def test_install_upgrade_remove_purge(machine, served, keys, world):
    """On a machine with nothing of it but Debian's package of the program's name, which stays as it is, also when apt upgrades. What our package
    brought is gone after a purge, and so is what its units left."""
    repository = publish(world, served, keys["packager"], previous_version(world))
    machine.run("apt-get", "update")
    machine.run("apt-get", "install", *image.LIBRARIES, image.NAMESAKE)
    before, beside = files(machine), version_of(machine, image.NAMESAKE)
    assert beside.startswith("ii") and not machine.exists("/usr/bin/node-bootstrap")
    transcript = [install(machine, repository)]
    assert version_of(machine) == f"ii  {PREVIOUS}"
    publish(world, served, keys["packager"], world.deb)
    for command in ("apt update", "apt upgrade"):
        transcript.append(machine.run("sh", "-c", command).stdout)
    version = run("dpkg-deb", "--field", world.deb, "Version").strip()
    assert version_of(machine) == f"ii  {version}"
    assert b"node-bootstrap" in machine.read("/var/lib/systemd/catalog/database")
    assert "node-" not in machine.run("systemctl", "--failed", "--no-legend").stdout
    assert "disabled" in machine.run("systemctl", "is-enabled", UNIT, check=False).stdout and not machine.is_active(UNIT)

    # Enabled, and failed since it has no settings.
    machine.run("systemctl", "enable", UNIT)
    machine.run("systemctl", "start", UNIT, check=False)
    assert machine.show(UNIT, "ActiveState") == "failed"
    transcript.append(machine.run("apt", "remove", NAME).stdout)
    assert version_of(machine) == f"rc  {version}"
    assert "node-" not in machine.run("systemctl", "--failed", "--no-legend").stdout
    assert not [path for path in files(machine) if path.endswith(f"/{UNIT}")]
    transcript.append(machine.run("apt", "purge", NAME).stdout)
    print("\n".join(transcript))
    added = {path for path in machine.path("/var/lib/dpkg/info").glob(f"{NAME}*")}
    assert version_of(machine).startswith(("un", "dpkg-query")) and not added
    assert b"node-bootstrap" not in machine.read("/var/lib/systemd/catalog/database")
    assert version_of(machine, image.NAMESAKE) == beside
    # The key and the source of the packages are the administrator's.
    after = {path: content for path, content in files(machine).items() if not path.startswith(("/etc/apt", "/root", "/var/log", "/var/cache"))}
    assert after.keys() - before.keys() <= REMAINS
    assert {path for path in after if path in before and after[path] != before[path]} == set()
    assert not machine.run("find", "/var/lib/systemd", "/run/systemd/system", "-name", "*node-bootstrap*").stdout
    assert "node-bootstrap" not in machine.run("cat", "/etc/passwd", "/etc/group").stdout


@pytest.mark.nightly
@pytest.mark.each_release
def test_autopkgtest(machine, served, keys, world):
    """packaging/debian/tests, as Debian runs them: in a booted machine that only has what the test says it needs."""
    publish(world, served, keys["packager"], world.deb)
    shutil.copytree(SOURCE, machine.path("/root/tree"), ignore=shutil.ignore_patterns(".git", "build*", "__pycache__"))
    shutil.copytree(SOURCE / "packaging/debian", machine.path("/root/tree/debian"))
    version = run("dpkg-deb", "--field", world.deb, "Version").strip()
    machine.write("/root/tree/debian/changelog", f"{NAME} ({version}) unstable; urgency=medium\n\n  * A test.\n\n -- T <t@example.org>  Thu, 01 Jan 2026 00:00:00 +0000\n")
    machine.write("/root/tree/debian/files", "")  # Without it, autopkgtest wants to build the tree.
    shutil.copy(world.deb, machine.path("/root"))
    machine.run("apt-get", "update")
    machine.run("apt-get", "install", *image.AUTOPKGTEST[:1])
    # This machine is the container, and is thrown away.
    done = machine.run("autopkgtest", "--ignore-restrictions=isolation-container,breaks-testbed", "--no-built-binaries", f"/root/{NAME}.deb",
                       "/root/tree", "--", "null", check=False, timeout=300)
    print(done.stdout)
    assert done.returncode == 0 and re.search(r"^join +PASS$", done.stdout, re.M)
