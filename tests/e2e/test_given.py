# SPDX-License-Identifier: Apache-2.0
"""What only root may read reaches the network side, which has no right to read it, and nobody else."""

import os
import struct
from pathlib import Path

from harness.node import CONFIG, STATE, UNIT
from harness.wait import until

RUN = "/run/node-bootstrap"
COPY = f"{RUN}/given-etc-node\\x2dbootstrap-config.yaml"
HOLD = """
set -eu
cat "$RUNTIME_DIRECTORY"/given-* >"$STATE_DIRECTORY/read"
for copy in "$RUNTIME_DIRECTORY"/given-*; do [ ! -w "$copy" ]; done
mv "$STATE_DIRECTORY/read" "$STATE_DIRECTORY/waits"
while [ -e "$STATE_DIRECTORY/waits" ]; do sleep 0.1; done
exit 66
"""


def test_settings_that_only_root_reads(node, cluster):
    node.path(CONFIG).chmod(0o600)
    node.enable(UNIT).boot()
    cluster.await_node(node.name)
    assert "given-" not in node.run("find", "/run/", "-name", "given-*", check=False).stdout


def test_one_reader(node):
    """Under PrivateUsers=yes: a file of root, which the dynamic user may read, nobody else, and not write."""
    node.path(CONFIG).chmod(0o600)
    node.replace_join(HOLD)
    node.boot()
    node.begin()
    until(lambda: node.exists(f"{STATE}/waits"), "the network side has read the copies", 20)
    assert node.read(f"{STATE}/waits") == node.read(CONFIG)
    user = os.lstat(node.path(STATE)).st_uid
    seen = Path(f"/proc/{node.leader}/root{COPY}")
    found = seen.lstat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o7707) == (0, 0, 0o600)
    entries = list(struct.iter_unpack("<HHI", os.getxattr(seen, "system.posix_acl_access")[4:]))
    assert [(tag, rights, who) for tag, rights, who in entries if tag == 2] == [(2, 4, user)]
    assert sorted((tag, rights) for tag, rights, _ in entries) == [(1, 6), (2, 4), (4, 0), (0x10, 4), (0x20, 0)]
    other = node.run("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "cat", COPY, check=False)
    assert other.returncode != 0 and "ermission denied" in other.stdout
    node.path(f"{STATE}/waits").unlink()
    assert node.await_end() == ("failed", 66)
    assert not node.run("ls", RUN, check=False).returncode == 0
