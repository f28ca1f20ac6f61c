# SPDX-License-Identifier: Apache-2.0
"""packaging/build-deb when dpkg-buildpackage, which is scripted here, fails."""

import os
import subprocess

from common import SOURCE

FAILED = "  3/129 node-bootstrap:lint / layers                              FAIL             0.25s   exit status 1"
PASSED = "  4/129 node-bootstrap:lint / sizes                               OK               0.25s"


def build(tmp_path, output):
    tools, folder = tmp_path / "bin", tmp_path / "packages"
    tools.mkdir()
    (tmp_path / "output").write_text(output)
    for name, text in (("dpkg-buildpackage", f"cat {tmp_path}/output\nexit 2\n"), ("dh", "")):
        (tools / name).write_text(f"#!/bin/sh\n{text}")
        (tools / name).chmod(0o755)
    done = subprocess.run([SOURCE / "packaging/build-deb", folder], env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}, check=False,
                          capture_output=True, text=True)
    assert done.returncode == 1 and done.stdout == ""
    assert f"its output is in {folder}/build-deb.log\n" in done.stderr and (folder / "build-deb.log").read_text() == output
    return done.stderr


def test_names_of_failed_tests(tmp_path):
    """Among the output of those that passed; meson repeats them in its summary."""
    said = build(tmp_path, f"{FAILED}\n{PASSED}\n" + "a test passes\n" * 200 + f"Summary of Failures:\n{FAILED}\n" + "the end\n" * 200)
    assert said.count("lint / layers") == 1 and "lint / sizes" not in said and "a test passes" not in said


def test_end_of_another_failure(tmp_path):
    assert "gcc: error\n" in build(tmp_path, f"{PASSED}\n" * 200 + "gcc: error\n")
