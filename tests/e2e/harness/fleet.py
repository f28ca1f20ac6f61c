# SPDX-License-Identifier: Apache-2.0
"""Machines that are only folders: install and join of the package run in them as plain processes, and a stand-in for kubelet registers
the Node. So a fleet of them fits into the memory of one machine."""

import http.client
import json
import os
import ssl
import subprocess
import threading

import yaml

from common.wait import PATIENCE

INSTALL, PROGRAM = "usr/lib/node-bootstrap/install", "usr/bin/node-bootstrap"
CURRENT = "var/lib/kubelet/pki/kubelet-client-current.pem"


class FolderMachine:
    def __init__(self, folder, tree, cluster, name):
        self.folder, self.tree, self.cluster, self.name = folder / name, tree, cluster, name
        self.process = None
        for part in ("etc", "credentials", "state", "root"):
            (self.folder / part).mkdir(parents=True, mode=0o700)

    def write(self, name, text):
        path = self.folder / name
        path.touch(0o600)
        path.write_text(text)

    def take(self, user_data, **changes):
        """What cloud-init would write; `changes` are sections of the settings that are wrong on this machine."""
        written = {entry["path"]: entry["content"] for entry in yaml.safe_load(user_data)["write_files"]}
        self.write("credentials/node-bootstrap.token", written["/etc/credstore/node-bootstrap.token"].strip())
        self.write("etc/config.yaml", yaml.safe_dump({**yaml.safe_load(written["/etc/node-bootstrap/config.yaml"]), **changes}))

    def start(self, registers=True):
        """Joins; with `registers`, the Node appears when kubelet would start."""
        environment = {"PATH": os.environ["PATH"], "STATE_DIRECTORY": str(self.folder / "state"), "CREDENTIALS_DIRECTORY": str(self.folder / "credentials")}
        command = [self.tree / INSTALL, f"--program={self.tree / PROGRAM}", f"--root={self.folder / 'root'}", f"--config-directory={self.folder / 'etc'}"]
        with open(self.folder / "log", "wb") as log:
            self.process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        if registers:
            threading.Thread(target=self.register_when_joined, daemon=True).start()

    def register_when_joined(self):
        """With the certificate of the join, as kubelet does: NodeRestriction refuses any other name."""
        if self.process.wait() != 0:
            return
        client = ssl.create_default_context(cadata=self.cluster.ca.pem.decode())
        # The link is absolute within the root.
        client.load_cert_chain(self.folder / "root" / os.readlink(self.folder / "root" / CURRENT).lstrip("/"))
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": self.name},
                "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Test", "message": "by the test"}]}}
        connection = http.client.HTTPSConnection("127.0.0.1", self.cluster.port, context=client, timeout=PATIENCE)
        connection.request("POST", "/api/v1/nodes", json.dumps(node), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        assert answer.status == 201, answer.read()

    def log(self):
        return (self.folder / "log").read_text()

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(PATIENCE)
