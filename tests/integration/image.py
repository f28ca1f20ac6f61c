# SPDX-License-Identifier: Apache-2.0
"""An image that `node-bootstrap setup --root` prepares."""

import os
import subprocess

import yaml

from common.failures import FAILURES, meet
from common.machine import TOKEN, find_program

OTHER = "ghijkl.fedcba9876543210"
PIN, PIN_2 = "sha256:" + "ab" * 32, "sha256:" + "cd" * 32
DOCUMENT = "etc/node-bootstrap/config.yaml.d/50-setup.yaml"
CREDENTIALS = "etc/credstore"
GOOD = f"10.0.0.1:6443 --token {TOKEN} --discovery-token-ca-cert-hash {PIN}"
BASIS = {"endpoints": ["10.0.0.1:6443"], "caCertHashes": [PIN]}


class Image:
    def __init__(self, path):
        self.root = path / "root"
        self.root.mkdir()
        self.token = path / "token"
        self.token.touch(0o600)
        self.token.write_text(f"{TOKEN}\n")

    def setup(self, words, stdin=None):
        return self.run(*words.replace("@TOKEN@", str(self.token)).split(), input=stdin)

    def run(self, *arguments, **options):
        argv = [find_program("node-bootstrap"), "setup", f"--root={self.root}", *arguments]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, env={"PATH": "/usr/sbin:/usr/bin"}, **options)
        for secret in (TOKEN, OTHER):
            assert secret.split(".")[1] not in meet(done.stdout) + meet(done.stderr), "a secret was printed"
        return done

    def good(self, words, stdin=None):
        done = self.setup(words, stdin)
        assert done.returncode == 0, done.stderr
        return done

    def refused(self, code, words, *expected, stdin=None):
        before = self.files()
        done = self.setup(words, stdin)
        assert done.returncode == int(FAILURES[code]["exit"]) and f"node-bootstrap: {code}: " in done.stderr, done.stderr
        for word in expected:
            assert word in done.stderr + done.stdout, f"{word!r} is not in:\n{done.stderr}{done.stdout}"
        assert self.files() == before, "files were changed"
        if code == "usage":
            [line] = [line for line in done.stderr.splitlines() if line.startswith("node-bootstrap: usage: ")]
            assert line.endswith("; see `node-bootstrap setup --help`") and FAILURES["usage"]["remedy"] not in done.stderr
        return done

    def files(self):
        return {str(path.relative_to(self.root)): (path.stat().st_mode & 0o7777, path.read_bytes() if path.is_file() else None)
                for path in self.root.rglob("*")}

    def document(self):
        return yaml.safe_load((self.root / DOCUMENT).read_text())

    def discovery(self):
        return self.document()["discovery"]

    def credentials(self):
        folder = self.root / CREDENTIALS
        return {name.removeprefix("node-bootstrap."): (folder / name).read_text() for name in sorted(os.listdir(folder))} if folder.exists() else {}
