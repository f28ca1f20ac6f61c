# SPDX-License-Identifier: Apache-2.0
"""What the demo shows once its package is built: a machine that joins, and one that cannot until the remedy that it prints was run."""

import os
import re
import textwrap

from common import apiserver
from common.wait import until
from .harness import controlplane, image, network
from .harness.machine import ENVIRONMENT
from .harness.node import CA_FILE, CONFIG, CURRENT, KUBECONFIG, PKI, UNIT, Node

CODE = "token-unknown"
# What changes nothing, and what is for a token of one node.
READS = re.compile(r"node-bootstrap (check|status)|systemctl (show|status)|journalctl|node-bootstrap-admin ")
STAND_IN_KUBELET = r"""#!/bin/sh
if [ "$1" = answer ]; then
        read -r request
        printf 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok'
        exit
fi
echo "a stand-in for kubelet, started with: $*"
exec socat TCP-LISTEN:10248,bind=127.0.0.1,reuseaddr,fork EXEC:"$0 answer"
"""


class StandIn:
    """The scripted API server, as it is when nothing is scripted, and a kubelet that only says that it is healthy."""

    prompt, kubelet, minor = "stand-in", None, 20
    wait = "certificate"    # a stand-in for kubelet makes no Node
    words = "Cluster and kubelet were stand-ins; after tests/control-plane they are real."

    def __init__(self):
        self.cluster = apiserver.Cluster()
        self.server = apiserver.ApiServer(self.cluster, (network.GATEWAY, 6443), identity=self.cluster.ca.serving([network.GATEWAY]))
        self.server.start()
        self.endpoint, self.pin = self.server.endpoint, self.cluster.ca.pin

    def type(self, screen, command):
        """Answers as kubeadm does."""
        screen.say(f"{self.prompt}# {command}")
        if command == "kubeadm token list":
            said = "\n".join(["TOKEN", *(f"{key}.{token.secret}" for key, token in self.cluster.tokens.items() if token.valid)])
        elif command.startswith("kubeadm token create"):
            new = controlplane.ControlPlane.fresh_token()
            self.cluster.tokens[new.id] = apiserver.Token(new.secret)
            said = str(new)
            if "--print-join-command" in command:
                said = f"kubeadm join {self.endpoint} --token {new} --discovery-token-ca-cert-hash {self.pin}"
        else:
            raise AssertionError(f"the stand-in for the control plane has no `{command}`")
        screen.say(said)
        return said

    def expired_token(self):
        return controlplane.ControlPlane.fresh_token()      # of which it knows nothing, as if it had removed it

    def await_signature(self, text):
        pass

    def prepare(self, node):
        node.write("/usr/bin/kubelet", STAND_IN_KUBELET, 0o755)

    def show(self, screen, nodes):
        requests = [request for request in self.server.requests if request.method == "POST"]
        screen.say(f"The stand-in got {len(self.server.requests)} requests; those that asked for a certificate:")
        screen.say("\n".join(f"  {request.method} {request.path}" for request in requests))
        assert len(requests) == len(nodes)

    def stop(self):
        self.server.stop()


class Real:
    """A control plane out of a directory with Kubernetes' programs, and its kubelet on the machines."""

    prompt, wait = "control-plane", "node"

    def __init__(self, plane, version):
        self.plane, self.kubelet, self.minor = plane, plane.assets / "kubelet", plane.minor
        self.words = f"Cluster and kubelet were real: Kubernetes {version}."
        self.endpoint, self.pin = self.plane.front.endpoint, self.plane.ca.pin

    def type(self, screen, command):
        environment = {"PATH": f"{self.plane.assets}:{os.environ['PATH']}", "KUBECONFIG": str(self.plane.work / "kubeadm.conf")}
        status, said = screen.type(self.prompt, command, ["sh", "-c", command], cwd=self.plane.work, env=environment)
        assert status == 0, f"`{command}` failed"
        return said

    def expired_token(self):
        """Returns when the cluster has removed it, and the signature with it."""
        token = self.plane.token()
        self.plane.expire_token(token, 0)
        until(lambda: f"jws-kubeconfig-{token.id}" not in self.plane.cluster_info(), "the token has expired")
        return token

    def await_signature(self, text):
        token = re.search(r"[a-z0-9]{6}\.[a-z0-9]{16}", text)[0]
        until(lambda: f"jws-kubeconfig-{token[:6]}" in self.plane.cluster_info(), "cluster-info is signed")

    def prepare(self, node):
        pass

    def show(self, screen, nodes):
        for node in nodes:
            self.plane.await_node(node.name)
        self.type(screen, "kubectl get nodes")
        screen.say("(A node becomes Ready when the cluster has a network plugin, which this one has not.)")

    def stop(self):
        self.plane.stop()


def find_remedy(said):
    """The commands in what `check` printed below the failure, in their order."""
    found = re.search(rf"✗ {CODE}: .*?\n((?: {{4,}}.*\n)+)", said)
    assert found, f"`node-bootstrap check` does not report {CODE}"
    return re.findall(r"^ {8}(\S.*)$", found[1], re.M)


class Demo:
    def __init__(self, screen, work, cluster, layers):
        self.screen, self.work, self.cluster, self.layers = screen, work, cluster, layers
        self.ready = screen.seconds()

    def new_node(self, name):
        binds = [f"{self.cluster.kubelet}:/usr/bin/kubelet"] if self.cluster.kubelet else []
        node = Node(self.work, self.layers, name, binds, None)
        self.cluster.prepare(node)
        return node

    def boot(self, node, *arguments):
        """Until its container runtime runs, as on a machine that is prepared for kubelet."""
        with self.screen.stage(f"booting {node.name}"):
            node.boot(*arguments)
            node.run("systemctl", "start", "containerd.service")

    def title(self, text):
        self.screen.say(f"\n==== {text}")

    def type(self, node, command, pasted=None, check=True, asks=None):
        inside = ["nsenter", "--all", f"--target={node.leader}", "--wdns=/root", "--", "sh", "-c", command]
        status, said = self.screen.type(node.name, command, inside, pasted, asks, env={**ENVIRONMENT, "TERM": "linux"})
        assert status == 0 or not check, f"`{command}` on {node.name}: exit status {status}"
        return said

    def join(self, node):
        self.title(f"{node.name} joins: a line from the control plane, pasted")
        self.boot(node, "--unit=basic.target")      # without kubelet, which would be restarted without end
        line = self.cluster.type(self.screen, "kubeadm token create --print-join-command")
        self.cluster.await_signature(line)
        self.type(node, f"node-bootstrap setup - --wait={self.cluster.wait}", pasted=line.strip().splitlines()[-1], asks="press Enter:\r\n")

    def fail(self, node):
        """Returns what `check` prints."""
        self.title(f"{node.name} cannot join: its image was made with a token that has expired")
        with self.screen.stage("waiting until the cluster has removed an expired token"):
            node.give(self.cluster.expired_token())
        node.write(CONFIG, "apiVersion: node-bootstrap/v1\nkind: NodeBootstrap\ndiscovery:\n"
                           f'  endpoints: ["{self.cluster.endpoint}"]\n  caCertHashes: ["{self.cluster.pin}"]\n')
        node.enable(UNIT)
        self.boot(node)
        node.await_status("Waiting")
        self.type(node, f"systemctl status --no-pager --lines=0 {UNIT}", check=False)
        self.type(node, "systemctl is-active kubelet.service", check=False)
        assert not node.kubelet_was_started(), "kubelet was started on a machine that has not joined"
        return self.type(node, "node-bootstrap check", check=False)

    def heal(self, node, commands):
        """Runs them as printed: each where it belongs, with the answer of the one before pasted into the one that reads it."""
        self.title("The remedy, as printed above")
        answer, ran = None, []
        for command in commands:
            if re.match("kube(adm|ctl) ", command):
                answer = self.cluster.type(self.screen, command)
            elif READS.match(command):
                continue
            else:
                reads = command.endswith("-")
                if reads:
                    assert answer, f"`{command}` reads its input, and no command before it has printed any"
                    self.cluster.await_signature(answer)
                self.type(node, command, pasted=answer.strip().splitlines()[-1] if reads else None, asks="press Enter:\r\n" if reads else None)
            ran.append(command)
        node.await_kubelet()    # the gate starts it once the service has ended
        self.type(node, "node-bootstrap status")
        assert node.is_active(UNIT), f"{node.name} has not joined after the remedy: {commands}"
        return ran

    def play(self, recording=None):
        first, second = nodes = [self.new_node(name) for name in ("worker-1", "worker-2")]
        self.join(first)
        checked = self.fail(second)
        ran = self.heal(second, find_remedy(checked))
        self.type(second, f"ls -l {KUBECONFIG} {CA_FILE} {PKI}")
        self.cluster.show(self.screen, nodes)
        durations = [last_join(node) for node in nodes]
        subject = second.certificate().subject.rfc4514_string()
        for node in nodes:
            node.close()
        self.cluster.stop()
        self.title("What happened")
        why = textwrap.fill(re.search(rf"✗ ({CODE}: .*)", checked)[1].strip(), 76, max_lines=2)
        self.screen.say(f"""worker-1 joined with one pasted line.
worker-2 could not join, and its kubelet was not started:
{textwrap.indent(why, "    ")}
It joined after these commands, which `node-bootstrap check` had printed:
{textwrap.indent(chr(10).join(ran), "    ")}
What kubelet got:
    {KUBECONFIG}
    {CA_FILE}
    {CURRENT}
        for {subject}
{self.cluster.words}
{durations[0]:>10}  worker-1's join, and
{durations[1]:>10}  worker-2's join after the remedy, as `node-bootstrap status` says:
            from the first connection until kubelet's files are written
{self.ready:>8.1f} s  this demo before the first boot
{self.screen.seconds():>8.1f} s  this demo until now
{f"Recorded: `asciinema play {recording}`" if recording else "To record all this: `tests/demo --record FILE`"}
Removed: machines, cluster. Kept: ~/.cache/node-bootstrap, packages from apt.""")


def last_join(node):
    return re.search(r"^The last join, \S+: (.*)$", node.run("node-bootstrap", "status").stdout, re.M)[1]


def begin(screen, work, base, package, assets, version):
    """Everything before the first boot."""
    network.start()
    with screen.stage("starting etcd, kube-apiserver and kube-controller-manager" if assets else "starting the small API server"):
        if assets:
            network.ip("route", "add", "default", "dev", network.BRIDGE)    # kubeadm warns if there is none
            cluster = Real(controlplane.ControlPlane(assets, work / "cluster").start(), version)
        else:
            cluster = StandIn()
    with screen.stage("installing the package on the machines"):
        return Demo(screen, work, cluster, [image.install(work / "session", base, package, cluster.minor), base])
