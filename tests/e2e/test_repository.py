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
from .harness import image, network
from .harness.machine import Machine
from .harness.node import UNIT

PORT, PREVIOUS = 8080, "1:0.1~previous"
NAMESAKE = "Package: node-bootstrap\nVersion: 5.3.5+dfsg-4\nArchitecture: all\nMaintainer: T <t@example.org>\nDescription: a JavaScript framework\n"
URL = f"http://{network.GATEWAY}:{PORT}"
# What apt, dpkg and systemd write of their own accord.
IGNORED = ("/var/lib/apt", "/var/lib/dpkg", "/var/lib/systemd", "/etc/ld.so.cache")
REMAINS = {"/etc/credstore"}  # the administrator's


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def keyring(world):
    """Keys of this test only: ours and a stranger's; by name, their fingerprints."""
    home = world.work / "gnupg"
    home.mkdir(0o700)
    os.environ["GNUPGHOME"] = str(home)
    found = {}
    for name in ("packager", "stranger"):
        run("gpg", "--batch", "--quiet", "--no-auto-check-trustdb", "--passphrase", "", "--quick-generate-key", name, "default", "sign", "never")
        listing = run("gpg", "--list-secret-keys", "--with-colons", name)
        found[name] = next(line.split(":")[9] for line in listing.splitlines() if line.startswith("fpr"))
    yield found
    run("gpgconf", "--kill", "all")
    del os.environ["GNUPGHOME"]


@pytest.fixture
def served(world, keyring, request):
    """A new folder, which is served: the machine's only source of packages. Debian's part of it is a repository like ours, and has a package
    of the same name as Debian has one."""
    folder = world.work / f"served-{request.node.name}"
    build_apt(folder / "debian", keyring["packager"], *world.dependencies, namesake(world))
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
    run(SOURCE / "packaging/build-apt", folder, key, *packages)


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


def version_of(machine, name="node-bootstrap"):
    return machine.run("dpkg-query", "--show", "--showformat=${db:Status-Abbrev} ${Version}", name, check=False).stdout.strip()


def namesake(world):
    tree, made = world.work / "namesake", world.work / "node-bootstrap_5.3.5_all.deb"
    if not made.exists():
        (tree / "DEBIAN").mkdir(parents=True)
        (tree / "DEBIAN/control").write_text(NAMESAKE)
        run("dpkg-deb", "--root-owner-group", "--build", tree, made)
    return made


def previous_version(world):
    tree, made = world.work / "previous", world.work / "node-bootstrap_previous.deb"
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
def test_the_package_and_its_key_are_refused_when_altered(machine, served, keyring, world):
    """A package, an index and a signature that somebody changed, and a signature by another key."""
    repository = publish(world, served, keyring["packager"], world.deb)
    key, index = (repository / "node-bootstrap.asc").read_bytes(), (repository / "InRelease").read_text()
    [package] = repository.glob("*.deb")
    content = bytearray(package.read_bytes())
    content[len(content) // 2] ^= 1
    package.write_bytes(content)
    refused(machine, repository, r"Hash Sum mismatch")
    shutil.copy(world.deb, package)
    (repository / "InRelease").write_text(index.replace("Label: node-bootstrap", "Label: node-bootstrep"))
    refused(machine, repository, r"BADSIG|bad signature|Message has been manipulated|OpenPGP signature verification failed")
    (repository / "Packages").write_text((repository / "Packages").read_text() + "\n")
    (repository / "InRelease").write_text(index)
    refused(machine, repository, r"unexpected size|Hash Sum mismatch")
    publish(world, served, keyring["stranger"])
    (repository / "node-bootstrap.asc").write_bytes(key)
    refused(machine, repository, r"NO_PUBKEY|Missing key")
    publish(world, served, keyring["packager"])
    install(machine, repository)
    assert version_of(machine).startswith("ii")


def test_a_key_has_to_be_named_by_its_fingerprint(tmp_path, keyring, world):
    """A name or the end of a fingerprint could be those of another key, too."""
    for key in ("packager", keyring["packager"][-16:], "0x" + keyring["packager"][2:]):
        done = subprocess.run([SOURCE / "packaging/build-apt", tmp_path / "made", key, world.deb], check=False, text=True, stderr=subprocess.PIPE)
        assert done.returncode == 64 and "fingerprint" in done.stderr and not (tmp_path / "made").exists()


def refused(machine, repository, why):
    machine.run("sh", "-c", "rm -rf /var/lib/apt/lists /var/cache/apt/archives")
    said = install(machine, repository, check=False)
    assert re.search(why, said) and not machine.exists("/usr/bin/node-bootstrap"), said


@pytest.mark.each_release
def test_install_upgrade_remove_purge(machine, served, keyring, world):
    """On a machine with nothing of it. What the package brought is gone after a purge, and so is what its units left."""
    repository = publish(world, served, keyring["packager"], previous_version(world))
    machine.run("apt-get", "update")
    machine.run("apt-get", "install", *image.LIBRARIES)
    before = files(machine)
    transcript = [install(machine, repository)]
    assert version_of(machine) == f"ii  {PREVIOUS}"
    publish(world, served, keyring["packager"], world.deb)
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
    transcript.append(machine.run("apt", "remove", "node-bootstrap").stdout)
    assert version_of(machine) == f"rc  {version}"
    assert "node-" not in machine.run("systemctl", "--failed", "--no-legend").stdout
    assert not [path for path in files(machine) if path.endswith(f"/{UNIT}")]
    transcript.append(machine.run("apt", "purge", "node-bootstrap").stdout)
    print("\n".join(transcript))
    added = {path for path in machine.path("/var/lib/dpkg/info").glob("node-bootstrap*")}
    assert version_of(machine).startswith(("un", "dpkg-query")) and not added
    assert b"node-bootstrap" not in machine.read("/var/lib/systemd/catalog/database")
    # The key and the source of the packages are the administrator's.
    after = {path: content for path, content in files(machine).items() if not path.startswith(("/etc/apt", "/root", "/var/log", "/var/cache"))}
    assert after.keys() - before.keys() <= REMAINS
    assert {path for path in after if path in before and after[path] != before[path]} == set()
    assert not machine.run("find", "/var/lib/systemd", "/run/systemd/system", "-name", "*node-bootstrap*").stdout
    assert "node-bootstrap" not in machine.run("cat", "/etc/passwd", "/etc/group").stdout


@pytest.mark.each_release
def test_autopkgtest(machine, served, keyring, world):
    """packaging/debian/tests, as Debian runs them: in a booted machine that only has what the test says it needs."""
    publish(world, served, keyring["packager"], world.deb)
    shutil.copytree(SOURCE, machine.path("/root/tree"), ignore=shutil.ignore_patterns(".git", "build*", "__pycache__"))
    shutil.copytree(SOURCE / "packaging/debian", machine.path("/root/tree/debian"))
    version = run("dpkg-deb", "--field", world.deb, "Version").strip()
    machine.write("/root/tree/debian/changelog", f"node-bootstrap ({version}) unstable; urgency=medium\n\n  * A test.\n\n -- T <t@example.org>  Thu, 01 Jan 2026 00:00:00 +0000\n")
    machine.write("/root/tree/debian/files", "")  # Without it, autopkgtest wants to build the tree.
    shutil.copy(world.deb, machine.path("/root"))
    machine.run("apt-get", "update")
    machine.run("apt-get", "install", *image.AUTOPKGTEST[:1])
    # This machine is the container, and is thrown away.
    done = machine.run("autopkgtest", "--ignore-restrictions=isolation-container,breaks-testbed", "--no-built-binaries", "/root/node-bootstrap.deb",
                       "/root/tree", "--", "null", check=False, timeout=300)
    print(done.stdout)
    assert done.returncode == 0 and re.search(r"^join +PASS$", done.stdout, re.M)
