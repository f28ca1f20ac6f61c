# SPDX-License-Identifier: Apache-2.0
"""The image of packaging/mkosi, built by the mkosi of Debian 13 with the commands in docs/images.md."""

import configparser
import os
import shutil
import subprocess

from common import SOURCE
from . import image

RELEASE = "trixie"
OUTPUT = "build-image/mkosi.output/image"  # of the commands
MIRROR = "/var/tmp/mirror"


def debs():
    """The cached folder with Debian's packages for the image: mkosi begins with the essential ones. Ours is not Debian's."""
    configuration = configparser.ConfigParser(interpolation=None)
    configuration.read(SOURCE / "packaging/mkosi/mkosi.conf", encoding="ascii")
    packages = set(configuration["Content"]["Packages"].split()) - {"kube-node-bootstrap"}
    return image.debs(image.empty(RELEASE), "?essential", "base-files", *packages, *image.LIBRARIES, suite=RELEASE)


def make_mirror(where, packages):
    """A mirror of Debian that has only these packages."""
    shutil.copytree(packages, where / "pool")
    index = where / f"dists/{RELEASE}/main/binary-amd64/Packages"
    index.parent.mkdir(parents=True)
    fields = [f"--option=APT::FTPArchive::Release::{name}={value}" for name, value in
              (("Suite", RELEASE), ("Components", "main"), ("Architectures", "amd64"))]
    for command, path in ((["packages", "pool"], index), ([*fields, "release", f"dists/{RELEASE}"], where / f"dists/{RELEASE}/Release")):
        done = subprocess.run(["apt-ftparchive", *command], cwd=where, check=True, stdout=subprocess.PIPE)
        path.write_bytes(done.stdout)


def build(work, root, packages, commands, files):
    """Runs these commands in a root with mkosi, without a network; returns the tree that is the image.

    `packages` is the folder of debs(). `files` are added to the source tree; one is kube-node-bootstrap.deb, which is not built again."""
    work.mkdir()
    make_mirror(work / "mirror", packages)
    shutil.copytree(SOURCE / "packaging", work / "tree/packaging", symlinks=True)
    for name, data in files.items():
        (work / "tree" / name).write_bytes(data)
    for line, replacement in (("packaging/build-deb ", "install -D kube-node-bootstrap.deb -t "), ("mkosi ", f"mkosi --local-mirror=file://{MIRROR} ")):
        assert f"\n{line}" in commands, line
        commands = commands.replace(f"\n{line}", f"\n{replacement}")
    done = subprocess.run(
        ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--as-pid2", f"--directory={root}", "--read-only", "--capability=all", "--drop-capability=CAP_SYS_TIME",
         "--private-network", "--resolv-conf=off", "--timezone=off", "--link-journal=no", "--console=pipe", f"--bind={work}:/var/tmp",
         "--tmpfs=/var/cache", "--chdir=/var/tmp/tree", "sh", "-exuc", commands],
        env={**os.environ, "SYSTEMD_NSPAWN_API_VFS_WRITABLE": "1"}, check=False, text=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    return work / "tree" / OUTPUT
