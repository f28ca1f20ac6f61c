# SPDX-License-Identifier: Apache-2.0
"""Debian's Ignition."""

import subprocess

PROGRAM = "usr/lib/dracut/modules.d/30ignition/ignition"


def apply(program, node, config):
    """Runs Ignition as in the initial RAM disk. Its behaviour depends on argv[0]."""
    command = ["ignition-apply", "--offline", f"--root={node.root}", node.path(config)]
    done = subprocess.run(command, executable=program, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    assert done.returncode == 0, done.stdout
