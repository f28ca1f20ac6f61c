# SPDX-License-Identifier: Apache-2.0
"""The root file system of the machines: a Debian from mmdebstrap, and over it what one session installs.

The Debian tree is cached under a name that says what is in it, and is never written to: everything else is an overlay.

Each of these makes another tree, unless it is cached, and prints its path:

    python3 -m e2e.harness.image SUITE                  with what the steps of tests/run need
    python3 -m e2e.harness.image SUITE ARCHITECTURE     with what building packages for another architecture needs
    python3 -m e2e.harness.image SUITE minimal          with git beside the packages that each Debian has
    python3 -m e2e.harness.image kubernetes             with what tests/control-plane needs to build Kubernetes
"""

import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from common import SOURCE, versions
from . import isolation

SUITE = "bookworm"  # of the machines in which all tests run
HOST = platform.freedesktop_os_release().get("VERSION_CODENAME", "sid")  # of this machine
PACKAGES = """
    ca-certificates conntrack containerd dbus ethtool iproute2 iptables kmod libcurl3-gnutls libcurl4 libfaketime libgnutls30 libjson-c5
    libmicrohttpd12 libseccomp2 libyaml-0-2 mount procps runc socat strace systemd systemd-sysv udev
""".split()
LIBRARIES = "libcurl3-gnutls libgnutls30 libjson-c5 libseccomp2 libyaml-0-2".split()  # what the package depends on, apart from systemd
AUTOPKGTEST = ["autopkgtest", "python3-cryptography"]  # and what packaging/debian/tests/control names
NAMESAKE = "node-bootstrap"  # Debian's package of this name: a front-end framework for Node.js
KERNEL = "linux-image-cloud-amd64"
PACKAGING = SOURCE / "packaging"
FILES = Path(__file__).parent / "files"
MASKED = """apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service fstrim.timer getty.target
    modprobe@.service systemd-update-utmp.service systemd-update-utmp-runlevel.service""".split()
# systemd runs each of them at each boot and reload; that was an eighth of the processor time of a machine. /etc/fstab has its own.
GENERATORS = """bless-boot cryptsetup debug getty gpt-auto hibernate-resume import integritysetup rc-local run ssh system-update sysv tpm2
    veritysetup""".split()


def sources(suite):
    """This machine's own Debian sources, as they are for another suite."""
    def adapt(entry):
        if suite == "sid":  # It has no updates.
            entry = re.sub(rf" {HOST}-\S+", "", entry)
        return re.sub(rf"\b{HOST}\b", suite, entry)

    found = []
    for path in sorted(Path("/etc/apt").glob("sources.list.d/*.sources")):
        found += [s for s in re.split(r"\n\s*\n", path.read_text()) if "debian-archive-keyring" in s]
    lines = []
    for path in [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt").glob("sources.list.d/*.list"))]:
        if path.exists():
            lines += [s for s in path.read_text().splitlines() if re.match(r"deb .*debian", s)]
    return ["\n".join(s + "\n" for s in map(adapt, entries) if re.search(rf"\b{suite}\b", s)) for entries in (found, lines)]


def debian(suite=SUITE, packages=PACKAGES):
    """The cached Debian tree, made if it is not there yet."""
    return cached(debian_path(suite, packages).name, lambda root: mmdebstrap(root, suite, "minbase", packages))


def debian_path(suite=SUITE, packages=PACKAGES):
    key = hashlib.sha256(" ".join([suite, *sorted(packages)]).encode()).hexdigest()[:12]
    return isolation.cache() / f"root-{suite}-{key}"


def workshop(suite):
    """The cached Debian tree in which all that packaging/dependencies installs is there."""
    files = [PACKAGING / "dependencies", PACKAGING / "debian/control"]
    key = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]
    hooks = (f"copy-in {PACKAGING} /", 'chroot "$1" /packaging/dependencies build test mkosi', 'rm -r "$1/packaging"')
    return cached(f"workshop-{suite}-{key}", lambda root: mmdebstrap(root, suite, "minbase", [], hooks))


def command_in(suite, folder, *words):
    """A command that is to be run in SOURCE, with the compilers and libraries of this suite. FOLDER in its words is `folder`, for results."""
    before, where = ([], folder) if suite == HOST else ([SOURCE / "tests/in-release", folder, suite], "/var/tmp")
    return [*before, *(str(word).replace("FOLDER", str(where)) for word in words)]


def library(suite, folder, name, *flags):
    """A library to preload on machines of this suite, out of tests/e2e/NAME.c."""
    command = command_in(suite, folder, "cc", "-shared", "-fPIC", "-O1", "-o", f"FOLDER/{name}.so", f"tests/e2e/{name}.c", "-ldl", *flags)
    subprocess.run(command, cwd=SOURCE, check=True)
    return folder / f"{name}.so"


def cross_workshop(suite, architecture):
    """The cached Debian tree that cross-builds for another architecture, and runs programs of it in qemu."""
    key = hashlib.sha256((PACKAGING / "debian/control").read_bytes()).hexdigest()[:12]
    packages = ["ca-certificates", f"crossbuild-essential-{architecture}", "git", "python3", "qemu-user"]
    build_dep = f'chroot "$1" apt-get -qq --yes --no-install-recommends build-dep --host-architecture {architecture} --build-profiles cross /packaging'
    hooks = (f"copy-in {PACKAGING} /", build_dep, 'rm -r "$1/packaging"')
    return cached(f"workshop-{suite}-{architecture}-{key}", lambda root: mmdebstrap(root, suite, "minbase", packages, hooks, architecture))


def kubernetes():
    """The cached Debian 12 tree with its source package kubernetes unpacked in /usr/src, and what builds that."""
    packages = "dpkg-dev golang-github-modern-go-reflect2-dev golang-go jq make rsync".split()
    hooks = ("sed -i 's/^Types: deb$/Types: deb deb-src/; s/^deb \\(.*\\)/&\\ndeb-src \\1/' $(find \"$1/etc/apt\" -name '*.sources' -o -name '*.list')",
             'chroot "$1" apt-get -qq update', 'cd / && chroot "$1" sh -c "cd /usr/src && apt-get -qq source kubernetes"')
    return cached("kubernetes", lambda root: mmdebstrap(root, SUITE, "minbase", packages, hooks))


def kernel(suite=SUITE):
    """The cached layer with Debian's kernel for virtual machines and its modules."""
    def make(layer):
        everything = layer.with_name(f"{layer.name}-all")
        shutil.rmtree(everything, ignore_errors=True)
        mmdebstrap(everything, suite, "extract", [KERNEL])
        for name, target in (("boot", "boot"), ("lib/modules", "usr/lib/modules")):
            shutil.copytree(everything / name, layer / target)
        shutil.rmtree(everything)

    return cached(f"kernel-{suite}", make)


def cached(name, make, lock_name="root"):
    path = isolation.cache() / name
    if path.exists():   # and complete: nobody waits for another one that is being made
        return path
    with open(isolation.cache() / f".lock-{lock_name}", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            temporary = path.with_name(f".{name}.tmp")
            shutil.rmtree(temporary, ignore_errors=True)
            make(temporary)
            os.rename(temporary, path)
    return path


def mmdebstrap(root, suite, variant, packages, hooks=(), foreign=None):
    lists = []
    for text, kind in zip(sources(suite), ("sources", "list")):
        if text.strip():
            lists.append(isolation.cache() / f".apt.{kind}")
            lists[-1].write_text(text)
    # As this machine takes a copy of an archive that is not renewed.
    valid = subprocess.run(["apt-config", "--format", '%f "%v";%n', "dump", "Acquire::Check-Valid-Until"], check=True, text=True, stdout=subprocess.PIPE).stdout
    native = subprocess.run(["dpkg", "--print-architecture"], check=True, text=True, stdout=subprocess.PIPE).stdout.strip()
    options = [f"--variant={variant}", *([f"--architectures={native},{foreign}"] if foreign else []), *(f"--aptopt={line}" for line in valid.splitlines()), *(f"--include={package}" for package in packages), *(f"--customize-hook={hook}" for hook in hooks)]
    # In name spaces that end with this process, however it ends: mounts and writers that remain would be in the way of the next try.
    alone = "setpriv --pdeathsig=KILL unshare --mount --pid --fork --kill-child".split()
    subprocess.run([*alone, "mmdebstrap", "--quiet", *options, suite, root, *lists], check=True, stdout=sys.stderr)
    for path in lists:
        path.unlink()


def debs(root, *packages, suite=SUITE):
    """The cached folder with Debian's packages of these names and what they depend on that is not in the tree."""
    key = hashlib.sha256(" ".join([root.name, *sorted(packages)]).encode()).hexdigest()[:12]
    folder = isolation.cache() / f"debs-{key}"
    with open(isolation.cache() / ".lock-debs", "w", encoding="ascii") as lock, tempfile.TemporaryDirectory() as work:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            work = Path(work)
            for name in ("lists/partial", "archives/partial", "sources.d"):
                (work / name).mkdir(parents=True)
            for text, kind in zip(sources(suite), ("sources", "list")):
                (work / f"sources.d/debian.{kind}").write_text(text)
            options = {
                "APT::Sandbox::User": "root", "Dir::Etc::sourcelist": "/dev/null", "Dir::Etc::sourceparts": work / "sources.d",
                "Dir::State::lists": work / "lists", "Dir::State::status": root / "var/lib/dpkg/status",
                "Dir::Cache::archives": work / "archives", "Dir::Cache::pkgcache": "", "Dir::Cache::srcpkgcache": "",
                "Acquire::Retries": 3, "Acquire::Languages": "none",
            }
            command = ["apt-get", "-qq", *(f"--option={key}={value}" for key, value in options.items())]
            subprocess.run([*command, "update"], check=True)
            subprocess.run([*command, "--yes", "--no-install-recommends", "--download-only", "install", *packages], check=True)
            temporary = folder.with_name(f".{folder.name}.tmp")
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir()
            for path in (work / "archives").glob("*.deb"):
                shutil.copy(path, temporary)
            os.rename(temporary, folder)
    return folder


def empty(suite):
    """The cached tree in which nothing is installed."""
    def make(root):
        (root / "var/lib/dpkg").mkdir(parents=True)
        (root / "var/lib/dpkg/status").touch()

    return cached(f"root-{suite}-empty", make)


def overlay(where, *lower):
    """A writable view of the lower trees (uppermost first) at `where`/root; what is written lands in `where`/upper."""
    for name in ("upper", "work", "root"):
        (where / name).mkdir(parents=True)
    options = f"lowerdir={':'.join(map(str, lower))},upperdir={where}/upper,workdir={where}/work"
    isolation.mount("overlay", str(where / "root"), "overlay", 0, options)
    return where / "root"


def kubelet_configuration(minor):
    """config.yaml for this version of kubelet."""
    rows = versions.of(minor, "kubelet configuration")
    return (FILES / "var/lib/kubelet/config.yaml").read_text() + "".join(f"{key}: {json.dumps(value)}\n" for key, value in rows.items())


def kubelet_arguments(minor):
    """/etc/default/kubelet for this version of kubelet."""
    return f'KUBELET_EXTRA_ARGS="{" ".join([*versions.of(minor, "kubelet flags"), *versions.KUBELET_FLAGS])}"\n'


def install(work, lower, package=None, minor=20, over=()):
    """The session's layer: a kubelet packaged like kubeadm's, and the package installed as users install it.

    `minor` is kubelet's version, which a stand-in does not have; `over` are layers over the tree. Returns the folder that is the layer.
    """
    root = overlay(work, *over, lower)
    shutil.copytree(FILES, root, dirs_exist_ok=True)
    (root / "etc/default/kubelet").write_text(kubelet_arguments(minor))
    (root / "var/lib/kubelet/config.yaml").write_text(kubelet_configuration(minor))
    (root / "usr/bin/kubelet").touch()
    (root / "usr/bin/kubeadm").touch()
    (root / "var/log/journal").mkdir(parents=True, exist_ok=True)
    for unit in MASKED:
        (root / "etc/systemd/system" / unit).symlink_to("/dev/null")
    (root / "etc/systemd/system-generators").mkdir(exist_ok=True)
    for name in GENERATORS:
        (root / "etc/systemd/system-generators" / f"systemd-{name}-generator").symlink_to("/dev/null")
    chroot(root, "systemctl", "enable", "--quiet", "kubelet.service", "e2e-docker.service")
    if package:
        shutil.copy(package, root / "kube-node-bootstrap.deb")
        chroot(root, "dpkg", "--install", "/kube-node-bootstrap.deb")
        (root / "kube-node-bootstrap.deb").unlink()
    isolation.umount(str(root))
    return work / "upper"


def extend(work, packages, *lower):
    """A layer over others: these package files, installed. Returns the folder that is the layer."""
    root = overlay(work, *lower)
    (root / "debs").mkdir()
    for path in packages:
        shutil.copy(path, root / "debs")
    chroot(root, "apt-get", "-qq", "--yes", "--no-install-recommends", "install", *(f"/debs/{path.name}" for path in packages))
    shutil.rmtree(root / "debs")
    isolation.umount(str(root))
    return work / "upper"


def layer(work, packages, root):
    """The cached layer over a cached tree: these package files, installed. Most of the time that it takes is Python's, which compiles its modules.

    `work` can be the upper layer of an overlay, as the cache cannot where it is on an overlay itself."""
    key = hashlib.sha256(" ".join([root.name, *(path.name for path in packages)]).encode()).hexdigest()[:12]

    def make(folder):
        subprocess.run(["cp", "--archive", extend(work, packages, root), folder], check=True)
        shutil.rmtree(work)

    return cached(f"layer-{key}", make, "layer")


def chroot(root, *command):
    done = subprocess.run(
        ["chroot", root, *command], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive"},
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout}")
    return done.stdout


if __name__ == "__main__":
    suite, kind = [*sys.argv[1:], ""][:2]
    if suite == "kubernetes":
        print(kubernetes())
    elif kind == "minimal":
        print(debian(suite, ["ca-certificates", "git"]))
    else:
        print(cross_workshop(suite, kind) if kind else workshop(suite))
