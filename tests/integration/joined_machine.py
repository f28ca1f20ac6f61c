# SPDX-License-Identifier: Apache-2.0
"""A machine that has joined, as far as setup looks at it."""

import json
import subprocess

from common import pki
from common.machine import NODE, Machine, fake_clock, find_program

PIN = "sha256:" + "ab" * 32     # of another cluster

RECORD = {"version": 1, "node": NODE, "server": "https://10.0.0.1:6443", "endpoint": "10.0.0.2:6443", "caCertHashes": [], "fileHashes": [], "ca": pki.CA().pem.decode(),
          "csr": "", "joinMethod": "token", "tokenID": "", "tokenSource": "a test", "joinedAt": "2026-01-02T03:04:05Z", "certificate": "/x", "kubeconfig": "/" + Machine.KUBECONFIG}
# Its own /etc and /var/lib, and systemd if the test has one.
JOINED = """
hostname node-1
mount -t tmpfs none /etc
mount -t tmpfs none /var/lib
cp -a "$0/etc/." /etc
cp -a "$0/var/lib/." /var/lib
if [ -e "$0/run" ]; then mount --bind "$0/run" /run; fi
exec "$@"
"""


class JoinedMachine:
    """Joined to `ca`; what the record names as server is 10.0.0.1:6443."""

    def __init__(self, path):
        self.machine, self.ca = Machine(path), pki.CA()
        self.pin = self.ca.pin
        self.machine.put_joined_before(self.ca.node(NODE), "https://10.0.0.1:6443", ca=self.ca)
        self.machine.put(Machine.RECORD, json.dumps(RECORD))

    def setup(self, words, faketime=None):
        has_systemd = self.machine.target("run/systemd").exists()
        argv = [find_program("node-bootstrap"), "setup", "--dry-run", *([] if has_systemd else ["--no-start"]), *words.split()]
        environment = {"PATH": "/usr/sbin:/usr/bin", **(fake_clock(faketime) if faketime else {})}
        return subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "--uts", "sh", "-ec", JOINED, self.machine.root, *argv],
                              capture_output=True, text=True, check=False, env=environment)
