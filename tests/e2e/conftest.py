# SPDX-License-Identifier: Apache-2.0
"""End to end: real machines, a real control plane, a real kubelet.

    /usr/bin/python3 -m pytest tests/e2e

Root is needed, and what `packaging/dependencies test` installs. kube-apiserver, kube-controller-manager, kubelet and kubeadm are those that
tests/control-plane builds, or those in $KUBEBUILDER_ASSETS. Everything runs in name spaces of its own (see harness/isolation.py).
"""

import itertools
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from common import pki, versions
from common.wait import until
from .harness import admin, controlplane, first_boot, image, isolation, mkosi, network
from .harness import package as packages_of_tree
from .harness.node import Node

FIRST_BOOT = ["cloud-init", "ignition", "openssh-server"]  # packages that some machines have, see harness/image.py
FIRST_BOOT_OF_ANOTHER_RELEASE = ["cloud-init"]  # whose version matters
ANSIBLE = ["ansible-core", "python3-apt"]
counter = itertools.count(1)


class World:
    """What the session has set up before its first test."""

    missing = assets = minor = work = base = kernel = layer = bare_layer = package = admin_package = deb = admin_deb = debs = None
    release = pristine = dependencies = ignition = workshop = mkosi_debs = ansible_debs = gdb_debs = debug_package = None


def pytest_addoption(parser):
    parser.addoption("--without-kubernetes", action="store_true", help="skip the end-to-end tests when their parts are missing")
    parser.addoption("--package", help="kube-node-bootstrap's .deb, with kube-node-bootstrap-admin's and the debug symbols beside it (default: those of this tree, cached)")
    parser.addoption("--sysext", help="the folder that packaging/build-sysext has made (default: the test makes it)")
    parser.addoption("--fleet", type=int, default=8, help="how many machines test_fleet.py starts")
    parser.addoption("--release", default=image.SUITE, help="Debian of the machines; not the default: only the tests marked each_release")


def pytest_configure(config):
    config.addinivalue_line("markers", "each_release: depends on the version of systemd, libcurl or containerd")
    config.addinivalue_line("markers", "only_release(name): needs this release of Debian")
    config.addinivalue_line("markers", "kubernetes_has(name): needs a Kubernetes that has what this row of versions.TABLE tells")
    config.addinivalue_line("markers", "nightly: takes minutes, and is rarely the first to fail")
    if config.option.collectonly or config.option.help or hasattr(config, "workerinput"):
        return
    World.assets = controlplane.find_assets()
    World.missing = controlplane.check_assets(World.assets) if os.geteuid() == 0 else "not root, and containers are booted"
    if World.missing and not config.option.without_kubernetes:
        raise pytest.UsageError(
            f"the end-to-end tests cannot run: {World.missing}. They need root, `packaging/dependencies test` and `tests/control-plane`. "
            "--without-kubernetes skips them."
        )
    if not World.missing:
        World.work = isolation.cache() / "mnt"
        isolation.enter(World.work, lambda: before(config.option.package, config.option.release, config.option.markexpr != "not nightly"))


def before(package, release, with_nightly):
    """Everything that needs the tester's own network, or is cached for all sessions."""
    World.base = image.debian(release)
    World.release, World.is_other_release = release, release != image.SUITE
    packages = FIRST_BOOT_OF_ANOTHER_RELEASE if World.is_other_release else FIRST_BOOT
    World.debs = sorted(image.debs(World.base, *packages, suite=release).iterdir())
    World.pristine = image.debian(release, ["systemd-sysv"])
    World.dependencies = sorted(image.debs(World.pristine, *image.LIBRARIES, *image.AUTOPKGTEST, image.NAMESAKE, suite=release).iterdir())
    [World.ignition] = image.debs(image.debian(), *FIRST_BOOT).glob("ignition_*.deb")
    for other in {release, image.SUITE, *([mkosi.RELEASE] if with_nightly else [])} - {image.HOST}:
        image.workshop(other)
    if with_nightly:
        before_nightly(release)
    try:
        read_packages(Path(package) if package else packages_of_tree.package(suite=release))
    except subprocess.CalledProcessError:
        raise pytest.UsageError("packaging/build-deb failed") from None


def before_nightly(release):
    ansible = ANSIBLE if World.is_other_release else [*ANSIBLE, "ansible-lint"]
    World.ansible_debs = sorted(image.debs(World.base, *ansible, suite=release).iterdir())
    World.gdb_debs = sorted(image.debs(World.base, "gdb", suite=release).iterdir())
    if release == image.SUITE:
        World.kernel = image.kernel()
    if release == mkosi.RELEASE:
        World.workshop, World.mkosi_debs = image.workshop(release), mkosi.debs()


def read_packages(path):
    World.package = path.read_bytes()
    [beside] = path.parent.glob("kube-node-bootstrap-admin_*.deb")
    World.admin_package = beside.read_bytes()
    [beside] = path.parent.glob("kube-node-bootstrap-dbgsym_*.deb")
    World.debug_package = beside.read_bytes()


def pytest_collection_modifyitems(config, items):
    release = config.option.release
    minor = versions.minor(World.assets / "kube-apiserver") if World.assets and not World.missing else None

    def is_for_release(item):
        only = item.get_closest_marker("only_release")
        return only.args[0] == release if only else release == image.SUITE or item.get_closest_marker("each_release")

    def is_for_version(item):
        wanted = item.get_closest_marker("kubernetes_has")
        return not wanted or minor is None or versions.of(minor, wanted.args[0])

    def is_selected(item):
        return is_for_release(item) and is_for_version(item)

    config.hook.pytest_deselected(items=[item for item in items if not is_selected(item)])
    items[:] = [item for item in items if is_selected(item)]
    if World.missing:
        for item in items:
            item.add_marker(pytest.mark.skip(reason=World.missing))


def pytest_terminal_summary(terminalreporter):
    if World.missing:
        terminalreporter.write_line(f"END-TO-END TESTS SKIPPED: {World.missing}", red=True)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """A failure includes the logs of the test's machines and control plane."""
    report = (yield).get_result()
    if report.failed and call.when in ("setup", "call"):
        for node in Nodes.alive:
            if call.excinfo.errisinstance(subprocess.TimeoutExpired):
                report.sections.append((f"jobs and processes of {node.name}", node.jobs()))
            text = node.journal_text("--output=short-precise", "--lines=80", "-u", "node-bootstrap*", "-u", "init.scope")
            report.sections.append((f"journal of {node.name}", text))
            report.sections.append((f"kubelet of {node.name}", node.journal_text("--lines=15", "-u", "kubelet")))


class Nodes:
    alive = []


@pytest.fixture(scope="session")
def world():
    network.start()
    World.deb = World.work / "kube-node-bootstrap.deb"
    World.deb.write_bytes(World.package)
    World.admin_deb = World.work / "kube-node-bootstrap-admin.deb"
    World.admin_deb.write_bytes(World.admin_package)
    World.minor = versions.minor(World.assets / "kubelet")
    World.layer = image.install(World.work / "session", World.base, World.deb, World.minor)
    World.bare_layer = image.install(World.work / "bare", World.base, minor=World.minor)
    return World


def make_cluster(world, name, **arguments):
    return controlplane.ControlPlane(world.assets, world.work / name, **arguments).start()


@pytest.fixture(scope="session")
def cluster(world):
    """The control plane that tests share: fresh tokens and node names keep them apart."""
    made = make_cluster(world, "cluster")
    yield made
    made.stop()


@pytest.fixture(scope="session")
def other_cluster(world):
    """A new one that issues certificates for one minute."""
    made = make_cluster(world, "other-cluster", controllers=[f"--cluster-signing-duration={versions.of(world.minor, 'one minute')}"], age=pki.HOUR)
    yield made
    made.stop()


@pytest.fixture(scope="session")
def unattended_cluster(world):
    """Nothing in it signs cluster-info, removes tokens or approves nodes, unless node-bootstrap-admin's controller does; what this one asks for
    with its ServiceAccount is in audit.log."""
    policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
              "rules": [{"level": "Metadata", "users": [admin.USER]}, {"level": "None"}]}
    (world.work / "audit.yaml").write_text(json.dumps(policy))
    made = make_cluster(world, "unattended", enabled=controlplane.UNATTENDED,
                        apiserver=[f"--audit-policy-file={world.work}/audit.yaml", "--audit-log-path=audit.log"])
    yield made
    made.stop()


@pytest.fixture(scope="session")
def admin_tree(world):
    """The files of the administrator's package."""
    tree = world.work / "admin"
    subprocess.run(["dpkg-deb", "--extract", world.admin_deb, tree], check=True)
    return tree


@pytest.fixture(scope="session")
def administer(world, admin_tree):
    """administer(cluster): node-bootstrap-admin with the administrator's kubeconfig of that cluster, and the libraries of the machines' release."""
    libraries = world.base / "usr/lib/x86_64-linux-gnu"
    loader = [libraries / "ld-linux-x86-64.so.2", "--library-path", libraries]
    return lambda cluster: admin.Admin(admin_tree, cluster, loader)


@pytest.fixture(scope="session")
def printed(administer, cluster):
    """printed(form, *options): what `token create --print` prints, and the token in it, with which cluster-info is signed."""
    def make(form, *options):
        # This kubeconfig has the address of the API server for machines.
        text = administer(cluster).run("token", "create", f"--print={form}", f"--kubeconfig={cluster.work / 'kubeadm.conf'}", *options)
        token = re.search(r"[a-z0-9]{6}\.[a-z0-9]{16}", text)[0]
        until(lambda: f"jws-kubeconfig-{token[:6]}" in cluster.cluster_info(), "cluster-info is signed")
        return text, token
    return make


@pytest.fixture(scope="session")
def with_cloud_init(world):
    """The layers of a machine whose image has cloud-init and sshd."""
    return first_boot.layers_with_cloud_init(world)


@pytest.fixture(scope="session")
def with_ignition(world):
    """The layers of a machine whose image has Ignition."""
    return first_boot.layers_with_ignition(world)


@pytest.fixture(scope="session")
def library(world):
    """Preloaded, it lets a program die at a chosen step (die_at.c)."""
    return image.library(world.release, world.work, "die_at")


def node_factory(world, made):
    def make(cluster, slug="node", package=True, layers=(), tree=None):
        binds = [] if tree else [f"{world.assets}/{name}:/usr/bin/{name}" for name in ("kubelet", "kubeadm")]
        layers = [tree] if tree else [*layers, world.layer if package else world.bare_layer, world.base]
        node = Node(world.work, layers, f"{slug}-{next(counter)}", binds, cluster)
        made.append(node)
        Nodes.alive.append(node)
        return node

    return make


def close_all(made):
    for node in made:
        Nodes.alive.remove(node)
        node.close()


@pytest.fixture
def new_node(world, cluster, request):
    """Makes machines for one test; they are not booted yet."""
    made = []
    make = node_factory(world, made)
    slug = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_").split("[")[0].lower())[:30].strip("-")
    yield lambda of=cluster, package=True, layers=(), tree=None: make(of, slug, package, layers, tree)
    close_all(made)


@pytest.fixture(scope="module")
def new_shared_node(world, cluster):
    """Makes machines that live as long as the tests of one file."""
    made = []
    make = node_factory(world, made)
    yield lambda slug="shared", of=cluster, layers=(): make(of, slug, layers=layers)
    close_all(made)


@pytest.fixture
def node(new_node):
    """One machine with a valid token and settings, not booted yet."""
    return new_node().prepare()


@pytest.fixture
def manual(new_node, cluster):
    """One machine whose request is not approved automatically, not booted yet."""
    return new_node().prepare(cluster.token(controlplane.MANUAL_GROUP))
