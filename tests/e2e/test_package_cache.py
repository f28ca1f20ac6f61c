# SPDX-License-Identifier: Apache-2.0
"""harness/package.py: the packages of a tree are built once."""

import subprocess
import time
from pathlib import Path

import pytest

from .harness import image, isolation, package


def test_cached_packages(tmp_path, monkeypatch):
    """The same tree is not built again; what was used least recently goes."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    built = []

    def build(command, cwd):
        assert command[:3] == ["env", "DEB_BUILD_OPTIONS=nocheck", "packaging/build-deb"] and cwd == package.SOURCE
        folder = Path(command[3])
        folder.mkdir()
        (folder / "kube-node-bootstrap_1_amd64.deb").touch()
        built.append(package.key(image.HOST))
        if built[-1] == "broken":
            raise OSError

    for key in ("a", "b", "a", "broken", "c", "a", "d"):
        monkeypatch.setattr(package, "key", lambda suite: key)    # pylint: disable=cell-var-from-loop
        if key == "broken":
            pytest.raises(OSError, package.package, build)
        else:
            assert package.package(build).parent.name == f"package-{key}"
        time.sleep(0.01)
    assert built == ["a", "b", "broken", "c", "d"]
    assert sorted(path.name for path in isolation.cache().glob("*package-*")) == ["package-a", "package-c", "package-d"]


@pytest.mark.parametrize("is_checkout", [True, False], ids=["checkout", "tarball"])
def test_key_of_a_tree(tmp_path, is_checkout):
    """It changes with what a build reads."""
    (tmp_path / "src").mkdir()
    (tmp_path / ".gitignore").write_text("/build*/\n*.deb\n__pycache__/\n")
    (tmp_path / "src/a.c").write_text("a")
    if is_checkout:
        subprocess.run(["git", "-C", tmp_path, "init", "--quiet"], check=True)
        subprocess.run(["git", "-C", tmp_path, "add", "."], check=True)
    keys = [package.key(tmp_path)]

    def changed():
        keys.append(package.key(tmp_path))
        return keys[-1] not in keys[:-1]

    (tmp_path / "build").mkdir()
    (tmp_path / "build/a.o").touch()
    (tmp_path / "kube-node-bootstrap_1_amd64.deb").touch()
    assert not changed()
    (tmp_path / "src/a.c").write_text("b")
    assert changed()
    (tmp_path / "src/a.c").chmod(0o755)
    assert changed()
    (tmp_path / "src/new.c").touch()
    assert changed()
    (tmp_path / "src/link.c").symlink_to("new.c")
    assert changed()
    (tmp_path / "src/a.c").unlink()
    assert changed()
