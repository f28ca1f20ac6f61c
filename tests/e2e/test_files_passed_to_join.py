# SPDX-License-Identifier: Apache-2.0
"""Files that only root can read reach the network side, and no other process."""

from common.wait import until
from .harness.node import CONFIG, STATE, UNIT

HOLD = """
set -eu
if cat /etc/node-bootstrap/config.yaml; then exit 1; fi
if echo x >&4; then exit 1; fi
cat <&4 >"$STATE_DIRECTORY/read"
mv "$STATE_DIRECTORY/read" "$STATE_DIRECTORY/waits"
while [ -e "$STATE_DIRECTORY/waits" ]; do sleep 0.1; done
exit 66
"""


def test_settings_that_only_root_reads(node, cluster):
    node.path(CONFIG).chmod(0o600)
    node.path(CONFIG).parent.chmod(0o700)
    node.enable(UNIT).boot()
    cluster.await_node(node.name)


def test_one_reader(node):
    """Under PrivateUsers=yes: a memory file with the settings, which the dynamic user may read, nobody else, and not write."""
    node.configure(node={"name": "read-by-root-alone"}).path(CONFIG).chmod(0o600)
    node.replace_join(HOLD)
    node.boot()
    node.begin()
    until(lambda: node.exists(f"{STATE}/waits"), "the network side has read what it was passed")
    assert b"read-by-root-alone" in node.path(f"{STATE}/waits").read_bytes()
    node.path(f"{STATE}/waits").unlink()
    assert node.await_end() == ("failed", 66)
