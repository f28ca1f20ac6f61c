# SPDX-License-Identifier: Apache-2.0
"""node-bootstrap-admin beside a control plane: its commands, and its controller as a plain process."""

import contextlib
import http.client
import itertools
import os
import socket
import subprocess
import threading
import time
from pathlib import Path

import yaml

from common import SOURCE
from common.wait import PATIENCE, until
from .controlplane import kubeconfig

PROGRAM = "usr/bin/node-bootstrap-admin"
KUBERNETES = SOURCE / "packaging/kubernetes"
ACCOUNT = "node-bootstrap-controller"
USER = f"system:serviceaccount:kube-system:{ACCOUNT}"
CONTROLLER_UNIT = "node-bootstrap-controller.service"
CLAIMS = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
numbers = itertools.count()


class Admin:
    """The program out of the package, with the administrator's kubeconfig of a cluster."""

    def __init__(self, tree, cluster, loader=()):
        self.program, self.cluster = (*loader, Path(tree) / PROGRAM), cluster
        self.kubeconfig = cluster.work / "admin.conf"

    def command(self, *arguments, **options):
        """Runs a command; the two streams are apart, and the exit status is the caller's to check."""
        environment = {"PATH": os.environ["PATH"], "KUBECONFIG": str(self.kubeconfig)}
        return subprocess.run([*self.program, *arguments], check=False, text=True, capture_output=True, timeout=PATIENCE, env=environment,
                              **{"stdin": subprocess.DEVNULL, **options} if "input" not in options else options)

    def run(self, *arguments, **options):
        done = self.command(*arguments, **options)
        assert done.returncode == 0, f"{' '.join(map(str, arguments))}: exit status {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    @contextlib.contextmanager
    def controller(self, *options, account=None):
        """Runs while the block does. `account` is the kubeconfig to use instead of the administrator's."""
        made = Controller(self, options, account or self.kubeconfig)
        try:
            yield made.start()
            if made.process.poll() is None:
                made.stop()     # gives up its Lease, for the next one
        finally:
            made.kill()


class Controller:
    """A process that systemd would run; it is asked for READY=1 as systemd would."""

    def __init__(self, admin, options, account):
        self.number = next(numbers)
        self.log_path = admin.cluster.work / f"controller-{self.number}.log"
        self.command = [*admin.program, "controller", f"--kubeconfig={account}", *options]
        self.process = None

    def start(self):
        """Returns when it is ready."""
        self.launch()
        self.await_ready()
        return self

    def launch(self):
        self.notifications = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notifications.bind(f"\0node-bootstrap-e2e-{os.getpid()}-{self.number}-{time.monotonic_ns()}")
        self.is_ready = threading.Event()
        # Read all the time, as systemd does: a full socket would block the controller.
        threading.Thread(target=read_notifications, args=(self.notifications, self.is_ready), daemon=True).start()
        environment = {"PATH": os.environ["PATH"], "NOTIFY_SOCKET": "@" + self.notifications.getsockname()[1:].decode()}
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def await_ready(self):
        until(self._is_ready, "the controller is ready", pause=0)

    def _is_ready(self):
        assert self.process.poll() is None, f"the controller ended with {self.process.returncode}:\n{self.log()}"
        return self.is_ready.wait(0.05)

    def log(self):
        return self.log_path.read_text(errors="replace")

    def stop(self):
        """An orderly end; returns the exit status."""
        self.process.terminate()
        return self.process.wait(PATIENCE)

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        # Ends the thread that reads; close() alone does not.
        with contextlib.suppress(OSError):
            self.notifications.shutdown(socket.SHUT_RDWR)
        self.notifications.close()

    def restart(self):
        """Killed, and started again as systemd would."""
        self.kill()
        return self.start()


def read_notifications(notifications, is_ready):
    with contextlib.suppress(OSError):
        while text := notifications.recv(65536):
            if b"READY=1" in text.split(b"\n"):
                is_ready.set()


def served(path, port):
    """(status, text) of what a controller serves with --listen."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    with contextlib.closing(connection):
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def may(cluster, user=USER, groups=(), **attributes):
    """Whether the controller's ServiceAccount, or another user, may do this, as the API server says."""
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
              "spec": {"user": user, "groups": groups, "resourceAttributes": attributes}}
    return cluster.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)["status"]["allowed"]


def await_permissions(cluster, role, user=USER, groups=()):
    """The API server applies changed roles a moment later. Each rule is applied as a whole."""
    for rule in role.get("rules", ()):
        resource, _, subresource = rule["resources"][0].partition("/")
        attributes = {"namespace": role["metadata"].get("namespace", ""), "group": rule["apiGroups"][0], "resource": resource,
                      "subresource": subresource, "verb": rule["verbs"][0], "name": rule.get("resourceNames", [""])[0]}
        until(lambda wanted=attributes: may(cluster, user, groups, **wanted), f"permitted: {attributes}")


def service_account(cluster, server=None, is_serving=False):
    """Applies rbac.yaml, and what approve-serving needs; returns the path of a kubeconfig for its ServiceAccount, once it has the permissions."""
    for name in ("rbac.yaml", *["approve-serving/rbac.yaml"] * is_serving):
        cluster.kubectl("apply", "--filename", KUBERNETES / name)
        for document in yaml.safe_load_all((KUBERNETES / name).read_text()):
            await_permissions(cluster, document)
    path = f"/api/v1/namespaces/kube-system/serviceaccounts/{ACCOUNT}/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 7200}}
    token = cluster.request("POST", path, request)["status"]["token"]
    made = cluster.work / "controller.kubeconfig"
    made.touch(0o600)
    made.write_text(kubeconfig(server or f"https://127.0.0.1:{cluster.port}", cluster.ca.pem, token=token))
    return made
