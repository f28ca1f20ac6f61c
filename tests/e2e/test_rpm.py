# SPDX-License-Identifier: Apache-2.0
"""The rpms: the same files as the Debian packages, and the same care for a running kubelet.

Debian's rpm builds and installs them, on Debian: the files in rpm/ stand in for Fedora's macros and for the file triggers of its systemd.
"""

import re
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from common import SOURCE
from common.documentation import commands
from common.wait import until
from .harness import image, isolation
from .harness.node import CONFIG, GATE, TOKEN, UNIT

HERE = SOURCE / "tests/e2e/rpm"
TIMER, CONTROLLER = "node-bootstrap-metrics.timer", "node-bootstrap-controller.service"
NAMES = ("kube-node-bootstrap", "kube-node-bootstrap-admin")

pytestmark = pytest.mark.nightly


def output_of(*command, **arguments):
    done = subprocess.run(command, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **arguments)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def rpms(world):
    """Built out of this tree as docs/install.md says; `.new` is the next release of the same."""
    work = world.work / "rpm"
    work.mkdir()
    (work / ".rpmmacros").write_text((HERE / "macros").read_text() + "".join(
        f"%_{name} %{{getenv:HOME}}/{name}\n" for name in ("topdir", "builddir", "objects")))

    def run(command):
        output_of(*image.command_in(world.release, work, "env", "HOME=FOLDER", "sh", "-ec", command), cwd=SOURCE)

    # What is changed and not committed yet is tested as well.
    tree = output_of("git", "-C", SOURCE, "-c", "user.name=test", "-c", "user.email=test@example.org", "stash", "create").strip() or "HEAD"
    tarball = Path(output_of(SOURCE / "packaging/build-tarball", work, tree).strip()).name
    command = commands("rpm").strip().replace(" rpms", " FOLDER/rpms")
    for dist in ("%{nil}", ".new"):
        # The compiler and the libraries are there, but not as rpms.
        run(f"{command} FOLDER/{tarball} -ba --nodeps --nocheck --define 'dist {dist}'")
    run(f"rpmbuild -bb {(HERE / 'systemd').relative_to(SOURCE)}")

    def find(pattern):
        [path] = work.glob(pattern)
        return path

    version = re.search(r"version: '([^']+)'", (SOURCE / "meson.build").read_text())[1]
    return SimpleNamespace(
        source=find(f"rpms/{NAMES[0]}-{version}-1.src.rpm"), systemd=find("topdir/RPMS/*/systemd-*.rpm"),
        built=[find(f"rpms/{name}-{version}-1.x*.rpm") for name in NAMES],
        new=[find(f"rpms/{name}-{version}-1.new.x*.rpm") for name in NAMES],
    )


@pytest.fixture(scope="module")
def layer(world, rpms):
    """Both rpms, installed with --root, over a machine without the Debian package."""
    work = world.work / "rpm-layer"
    root = image.overlay(work, world.bare_layer, world.base)
    # As in Fedora's fedora-release: without it, presets enable every unit.
    (root / "usr/lib/systemd/system-preset/99-default-disable.preset").write_text("disable *\n")
    output_of("rpm", f"--root={root}", "--nodeps", "--install", rpms.systemd, *rpms.built)
    isolation.umount(str(root))
    return work / "upper"


def rpm(node, *arguments):
    """The tester's rpm, with its libraries, in the machine: scriptlets find the machine's programs and its systemd."""
    libraries = "/host/lib/x86_64-linux-gnu"
    return node.run(
        "env", "RPM_CONFIGDIR=/host/lib/rpm", f"{libraries}/ld-linux-x86-64.so.2", "--library-path", libraries, "/host/bin/rpm",
        *arguments).stdout


def boot(node, rpms):
    node.boot(options=["--bind-ro=/usr:/host", f"--bind-ro={rpms.built[0].parent}:/rpms"])
    return node


def test_rpmlint_is_content(rpms):
    """rpm/rpmlint.toml says why of each complaint that is left out."""
    said = output_of("rpmlint", "--strict", f"--config={HERE / 'rpmlint.toml'}", rpms.source, *rpms.built)
    assert "3 packages and 0 specfiles checked; 0 errors, 0 warnings" in said, said


@pytest.mark.parametrize("number", range(len(NAMES)), ids=NAMES)
def test_same_files_as_debian(world, rpms, number):
    deb = [world.deb, world.admin_deb][number]
    listed = subprocess.run(["dpkg-deb", "--fsys-tarfile", deb], check=True, capture_output=True).stdout
    listed = subprocess.run(["tar", "--list", "--verbose"], input=listed, check=True, capture_output=True).stdout.decode()
    debian = {}
    for line in listed.splitlines():
        mode, path = line.split()[0], line.split()[5][1:]
        if mode[0] != "d":
            # Debian 12 has units in /lib, and compresses documents.
            debian[re.sub(r"^/lib/", "/usr/lib/", re.sub(r"^(/usr/share/doc/.*)\.gz$", r"\1", path))] = mode
    doc, presets = f"/usr/share/doc/{NAMES[number]}", "/usr/lib/systemd/system-preset"
    # The license has a directory of its own, the changelog is in the rpm's header, and presets belong to the distribution.
    for path in (f"{doc}/copyright", f"{doc}/changelog.Debian", f"{presets}/90-{NAMES[number].removeprefix('kube-')}.preset"):
        del debian[path]
    debian[f"/usr/share/licenses/{NAMES[number]}/LICENSE"] = "-rw-r--r--"
    listed = output_of("rpm", "--query", "--package", "--queryformat=[%{FILEMODES:perms} %{FILEUSERNAME}:%{FILEGROUPNAME} %{FILENAMES}\n]", rpms.built[number])
    found = [line.split() for line in listed.splitlines()]
    assert {owner for _, owner, _ in found} == {"root:root"}
    # /usr/lib/.build-id: links for debuggers, which Debian does not have.
    assert {path: mode for mode, _, path in found if mode[0] != "d" and not path.startswith("/usr/lib/.build-id/")} == debian


def test_joins_and_is_upgraded_and_erased(new_node, cluster, rpms, layer):
    """What the scriptlets do never stops kubelet."""
    node = new_node(package=False, layers=[layer]).prepare()
    states = ["systemctl", "is-enabled", UNIT, GATE, TIMER]
    assert node.run_offline("sh", "-c", f"{' '.join(states)} || :").split() == ["disabled"] * 3
    boot(node.enable(UNIT, TIMER), rpms)
    node.await_kubelet()
    cluster.await_node(node.name)
    kubelet, files = node.kubelet_pid(), node.joined_files()
    assert node.is_active(UNIT) and files

    rpm(node, "--upgrade", "--nodeps", f"/rpms/{rpms.new[0].name}")
    assert rpm(node, "--query", "kube-node-bootstrap").endswith(".new.x86_64\n")
    assert (node.kubelet_pid(), node.is_active(UNIT), node.is_active(TIMER)) == (kubelet, True, True)
    assert node.run(*states).stdout.split() == ["enabled"] * 3
    assert node.show(UNIT, "NeedDaemonReload") == "no"

    # Without the trigger that reloads systemd at the end: a kubelet that crashes while the files are being removed starts again.
    rpm(node, "--erase", "--nodeps", "--notriggers", "kube-node-bootstrap")
    assert node.kubelet_pid() == kubelet and not node.is_active(TIMER)
    assert not node.exists(f"/etc/systemd/system/kubelet.service.requires/{GATE}") and GATE not in node.show("kubelet.service", "Requires")
    assert node.joined_files() == files and node.exists(CONFIG) and node.exists(TOKEN)
    node.run("systemctl", "restart", "kubelet.service")
    kubelet = node.kubelet_pid()

    rpm(node, "--install", "--nodeps", f"/rpms/{rpms.built[0].name}")
    assert node.kubelet_pid() == kubelet and GATE not in node.show("kubelet.service", "Requires")
    assert node.run(*states, check=False).stdout.split() == ["disabled"] * 3


def test_controller_is_restarted_and_stopped(new_node, rpms, layer):
    """Unlike the service of a node, nothing depends on it. Something else runs in its place."""
    node = new_node(package=False, layers=[layer])
    node.write("/etc/node-bootstrap/controller.kubeconfig", "")
    node.write(f"/etc/systemd/system/{CONTROLLER}.d/test.conf", "[Service]\nType=exec\nWatchdogSec=0\nExecStart=\nExecStart=sleep infinity\n")
    boot(node, rpms)
    node.run("systemctl", "start", CONTROLLER)
    pid = node.show(CONTROLLER, "MainPID")
    rpm(node, "--upgrade", "--nodeps", f"/rpms/{rpms.new[1].name}")
    until(lambda: node.is_active(CONTROLLER) and node.show(CONTROLLER, "MainPID") != pid, "the controller is restarted")
    rpm(node, "--erase", "--nodeps", "kube-node-bootstrap-admin")
    assert not node.is_active(CONTROLLER)
