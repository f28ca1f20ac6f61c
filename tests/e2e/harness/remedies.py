# SPDX-License-Identifier: Apache-2.0
"""The commands of failures.def, typed as they stand on a machine and on a control plane node."""

import re
import subprocess
import time

import yaml

from common.failures import FAILURES, GENERATOR, is_for_k3s_server
from common.wait import PATIENCE, until
from . import image
from .controlplane import BINDINGS, ENABLED, SECRETS
from .node import TOKEN, UNIT

PROGRAMS = ("cat chmod crictl df findmnt fuser getent grep hostnamectl install ip journalctl k3s kubeadm kubectl ls mkdir mv node-bootstrap "
            "node-bootstrap-admin oc openssl ps resolvectl rke2 rm sudo systemctl systemd-tmpfiles timedatectl").split()
RESTART = f"systemctl restart {UNIT}"
READS = re.compile(
    r"(cat|crictl ps|df|findmnt|fuser|getent|grep|ip route get|journalctl|ls|oc get|openssl|ps|resolvectl status|timedatectl$|(k3s|rke2) --version|"
    r"k3s token list|kubeadm certs check-expiration|kubeadm token list|kubectl (-n \S+ |--namespace \S+ )?(describe|get|logs)|"
    r"(sudo )?node-bootstrap (check|explain|status|--help)|node-bootstrap-admin (approve$|cluster-info (publish --dry-run|verify))|systemctl (cat|show|status))\b")


def commands(code, key="remedy"):
    """Those in the remedy of a code, without words such as options and file names."""
    return [command for command in GENERATOR.commands(FAILURES[code].get(key, "")) if command.split()[0] in PROGRAMS]


def changes(code, key="remedy"):
    """Those that change something, without those for a server of k3s, which no test has; docs/k3s.md lists them."""
    return [command for command in commands(code, key) if not READS.match(command) and not is_for_k3s_server(command)]


class Place:
    """A machine, and the control plane node that the commands are typed on: the files of the real one are in /etc/kubernetes.

    `program` are the words with which node-bootstrap-admin runs."""

    def __init__(self, node, cluster, program):
        self.node, self.cluster = node, cluster
        self.home = cluster.work / "control-plane"
        self.home.mkdir()
        self.lower = {name: image.overlay(self.home / name.strip("/").replace("/", "-"), name) for name in ("/etc", "/var/lib")}
        kubernetes = self.lower["/etc"] / "kubernetes"
        (kubernetes / "manifests").mkdir(parents=True)
        (kubernetes / "pki").symlink_to(cluster.work)
        (kubernetes / "admin.conf").symlink_to(cluster.work / "kubeadm.conf")
        (self.lower["/var/lib"] / "kubelet").mkdir()
        config = {**yaml.safe_load(node.read("/var/lib/kubelet/config.yaml")), "authorization": {"mode": "Webhook"}}
        (self.lower["/var/lib"] / "kubelet/config.yaml").write_text(yaml.safe_dump(config))
        tools = self.home / "bin"
        tools.mkdir()
        (tools / "kubeadm").symlink_to(cluster.assets / "kubeadm")
        (tools / "node-bootstrap-admin").write_text(f'#!/bin/sh\nexec {" ".join(map(str, program))} "$@"\n')
        (tools / "node-bootstrap-admin").chmod(0o755)
        self.path = tools
        self.write_manifests()

    def write_manifests(self):
        for name in ("kube-apiserver", "kube-controller-manager"):
            arguments = self.cluster.processes[name].args
            (self.lower["/etc"] / f"kubernetes/manifests/{name}.yaml").write_text("\n".join(map(str, arguments)) + "\n")

    def type(self, text, check=True, **environment):
        """A root shell on the control plane node."""
        binds = " && ".join(f"mount --bind {path} {name}" for name, path in self.lower.items())
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-ec", f'{binds} && exec sh -ec "$0"', text.replace("sleep 20", "sleep 0")], cwd=self.home, check=False,
            text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={"PATH": f"{self.path}:/usr/sbin:/usr/bin:/sbin:/bin", "KUBECONFIG": "/etc/kubernetes/admin.conf", **environment})
        assert done.returncode == 0 or not check, f"{text}: exit status {done.returncode}\n{done.stdout}"
        return done.stdout

    def restart_apiserver(self):
        self.cluster.end("kube-apiserver")
        self.cluster.spawn_apiserver()

    def restart_controllers(self, without=None):
        self.cluster.end("kube-controller-manager")
        self.cluster.enabled = [name for name in ENABLED if name != without]
        self.cluster.spawn_controllers()
        self.write_manifests()


def type_on(node, text, check=True, stdin=None):
    """A root shell on the machine."""
    done = node.run("sh", "-ec", text, check=False, stdin=stdin)
    assert done.returncode == 0 or not check, f"{text}: exit status {done.returncode}\n{done.stdout}"
    return done.stdout


class Remedy:
    """The text of one code, and the machine that reports it."""

    key = "remedy"

    def __init__(self, code, place, stack, administrator):
        self.code, self.place, self.node, self.cluster, self.stack = code, place, place.node, place.cluster, stack
        self.admin = administrator
        self.left = changes(code, self.key)
        self.fields, self.is_brought_about, self.since = {}, False, time.time()

    # bringing the situation about

    def begin(self, token=None, timeout="3m", **configuration):
        self.node.prepare(token, timeout=timeout, **configuration)
        self.start()

    def start(self, verb="restart"):
        self.since = time.time()
        self.node.begin(verb)
        self.await_code()

    def entries(self, code, unit=UNIT):
        """Those of this situation: the machine has been in others before."""
        found = self.node.journal(f"_SYSTEMD_UNIT={unit}", "MESSAGE_ID=" + FAILURES[code]["message-id"])
        return [entry for entry in found if int(entry["__REALTIME_TIMESTAMP"]) > self.since * 1e6]

    def await_code(self, unit=UNIT):
        self.fields = until(lambda: self.entries(self.code, unit), f"the journal says {self.code}")[-1]
        self.is_brought_about = True

    def says(self, *command):
        """A command on the machine, which reports the code."""
        said = self.node.run(*command, check=False).stdout
        assert f"{self.code}: " in said, said
        self.fields, self.is_brought_about = {"NODE_BOOTSTRAP_NODE": self.node.name}, True

    def without(self, path):
        """Until the remedy creates it again, or the test ends."""
        found = self.cluster.request("GET", path)
        self.cluster.request("DELETE", path)
        found["metadata"] = {"name": found["metadata"]["name"]}
        self.stack.callback(lambda: self.cluster.find(path) or self.cluster.request("POST", path.rpartition("/")[0], found))

    # running the commands

    def take(self, start):
        """The command with these first words, if only one has them, or no others."""
        found = [one for one in commands(self.code, self.key) if one.startswith(start)]
        command = start if start in found else found[0]
        assert len(found) == 1 or command == start, f"{start}: {found}"
        if command in self.left:
            self.left.remove(command)
        return re.sub("@([A-Z_]+)@", lambda field: self.fields[field[1]], command)

    def there(self, start, more="", **options):
        return self.place.type(self.take(start) + more, **options)

    def here(self, start, more="", check=True, stdin=None):
        self.node.reset_limit()
        return type_on(self.node, self.take(start) + more, check, stdin)

    def joins(self, restart=False):
        if restart:
            if RESTART in self.left:
                self.left.remove(RESTART)
            self.node.begin("restart")
        assert self.node.await_end() == ("active", 0), self.node.journal_text("-u", UNIT, "--lines=30")

    def read_request(self, *words):
        said = self.there("kubectl describe csr")
        for word in (f"system:node:{self.node.name}", f"system:bootstrap:{self.node.read(TOKEN).decode()[:6]}", *words):
            assert word in said, said

    def approve(self):
        assert "approved" in self.there("kubectl certificate approve")

    def publish(self, *words):
        """Neither a token nor automatic approval results."""
        def opened():
            tokens = [secret["metadata"]["name"] for secret in self.cluster.request("GET", SECRETS)["items"] if secret["type"].startswith("bootstrap.")]
            return sorted(tokens), self.cluster.find(f"{BINDINGS}/kubeadm:node-autoapprove-bootstrap")

        said = self.there("node-bootstrap-admin cluster-info publish --dry-run")
        assert all(word in said for word in words), said
        before = opened()
        self.there("node-bootstrap-admin cluster-info publish")
        assert opened() == before
