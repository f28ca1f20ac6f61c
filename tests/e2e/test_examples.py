# SPDX-License-Identifier: Apache-2.0
"""The command lines in packaging/examples: the credentials that a container manager passes are enough for a join."""

import struct
import subprocess
from pathlib import Path

from common import SOURCE
from common.wait import PATIENCE
from .harness.node import UNIT, example, settings
from .harness.vmware import on_vmware

EXAMPLES = SOURCE / "packaging/examples"
MIB = 1 << 20


def test_nspawn(new_node, cluster):
    node, token = new_node().enable(UNIT), str(cluster.token())
    (node.directory / "token").touch(0o600)
    (node.directory / "token").write_text(token)
    (node.directory / "config.yaml").write_text(settings(cluster))
    node.boot(script=EXAMPLES / "nspawn.sh")
    cluster.await_node(node.name)
    assert node.is_active(UNIT)
    assert token not in Path(f"/proc/{node.nspawn.pid}/cmdline").read_text()


def empty_disk():
    """A disk without content in version 2 of the format qcow2: its header, and empty tables in clusters of their own."""
    size, cluster_bits, l1_entries, refcount_clusters = MIB, 16, 1, 1
    header = struct.pack(">4sIQIIQIIQQIIQ", b"QFI\xfb", 2, 0, 0, cluster_bits, size, 0, l1_entries, 1 << cluster_bits, 2 << cluster_bits, refcount_clusters, 0, 0)
    return header.ljust(3 << cluster_bits, b"\0")


def test_qemu(tmp_path):
    """QEMU accepts it, and refuses a name that is too long. test_vm.py boots with it."""
    for name, data in (("token", b"abcdef.0123456789abcdef"), ("config.yaml", b""), ("disk", empty_disk())):
        (tmp_path / name).write_bytes(data)
    command = [EXAMPLES / "qemu.sh", "disk", "-S", "-serial", "none", "-monitor", "stdio"]

    def run(*more):
        done = subprocess.run([*command, *more], cwd=tmp_path, input="quit\n", text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE, check=False)
        return done.returncode, done.stdout

    status, said = run()
    assert status == 0 and "QEMU" in said, said
    status, said = run("-fw_cfg", "name=opt/io.systemd.credentials/node-bootstrap.tls-bootstrap-token,file=token")
    assert status == 1 and "name too long" in said, said


def test_seed_as_guestinfo(new_node, cluster):
    """The user data of the NoCloud seed, without cloud-init, where there is neither meta-data nor a token beside it."""
    token = str(cluster.token())
    node = on_vmware(new_node(), userdata=example("nocloud/user-data", {
        r"abcdef\.0123456789abcdef": token, r"10\.0\.0\.10:6443": cluster.front.endpoint, r"sha256:[0-9a-f]{64}": cluster.ca.pin,
    }))
    node.enable(UNIT).boot()
    cluster.await_node(node.name)
    assert node.is_active(UNIT) and len(cluster.csrs(node.name)) == 1
