# SPDX-License-Identifier: Apache-2.0
"""The packages of this tree, built once: they are cached under a hash of the files that a build reads."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from common import SOURCE
from . import image, isolation

KEPT = 3        # versions of the tree


def names(top=SOURCE):
    """Of the files: in a checkout those that git does not ignore, otherwise those that packaging/build-deb copies."""
    if (top / ".git").exists():     # not one of a repository around a tree that was unpacked in it
        command = ["git", "-C", top, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        if done.returncode == 0:    # git refuses the checkout of another user
            return sorted(set(os.fsdecode(done.stdout).split("\0")) - {""})
    found = []
    for folder, folders, files in os.walk(top):
        if Path(folder) == top:
            folders[:] = [name for name in folders if name not in (".git", "debian") and not name.startswith("build")]
            files = [name for name in files if not name.endswith(".deb")]
        folders[:] = [name for name in folders if name != "__pycache__"]
        links = [name for name in folders if Path(folder, name).is_symlink()]
        found += [os.path.relpath(os.path.join(folder, name), top) for name in [*files, *links]]
    return sorted(found)


def key(top=SOURCE, suite=image.HOST):
    """Of the tree, and of the Debian whose compiler and libraries build it."""
    hashed = hashlib.sha256(suite.encode())
    for name in names(top):
        path = top / name
        if path.is_symlink():
            kind, data = "link", os.fsencode(os.readlink(path))
        elif path.is_file():
            kind, data = "program" if os.access(path, os.X_OK) else "file", path.read_bytes()
        else:
            continue    # deleted, but still in git's index
        hashed.update(f"{kind} {len(data)} {name}\0".encode(errors="surrogateescape") + data)
    return hashed.hexdigest()[:12]


def cached(suite=image.HOST):
    """The folder in the cache, whether it exists or not."""
    return isolation.cache() / f"package-{key(suite=suite)}"


def run_build(command, **options):
    subprocess.run(command, check=True, stdout=sys.stderr, **options)


def package(run=run_build, suite=image.HOST):
    """The path of kube-node-bootstrap's .deb, with kube-node-bootstrap-admin's beside it; `run` is called if they are to be built."""
    def make(folder):
        run(image.command_in(suite, folder, "env", "DEB_BUILD_OPTIONS=nocheck", "packaging/build-deb", "FOLDER"), cwd=SOURCE)
        prune(folder)

    folder = image.cached(cached(suite).name, make, "package")
    os.utime(folder)
    [deb] = folder.glob("kube-node-bootstrap_*.deb")
    return deb


def prune(new):
    """Leaves room for the new one: removes the versions that were used least recently, and what interrupted builds left."""
    kept = sorted(isolation.cache().glob("package-*"), key=lambda path: path.stat().st_mtime)[1 - KEPT:]
    for folder in isolation.cache().glob("*package-*"):
        if folder not in (new, *kept):
            shutil.rmtree(folder)
