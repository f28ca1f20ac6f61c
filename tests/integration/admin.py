# SPDX-License-Identifier: Apache-2.0
"""A cluster with its API for tests of node-bootstrap-admin, its kubeconfigs, and the program itself.

`Api` stores objects of any kind (`api.objects`, see objects.py). Rules in front of the healthy answers use faults.py and are named by
verb and resource: `api.on("patch certificatesigningrequests/approval", faults.INTERNAL, times=1)`.
"""

import base64
import json
import os
import subprocess
import threading

from common import apiserver, machine, pki, wait
from common.apiserver import status
from common.endpoint import Reply, Stream
from . import objects
from .objects import PATIENCE

ADMIN = "kubernetes-admin"
MASTERS = "system:masters"
TOKEN_OF_ADMIN = "scripted-token-of-the-administrator"
VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
SANITIZER_STATUS = 99       # tests/run sets it
REVIEWS = ("selfsubjectaccessreviews", "subjectaccessreviews")


class Request(apiserver.Request):
    """`kind` is what tests select by: "list secrets", "patch certificatesigningrequests/approval", or a path such as "/version"."""

    def __post_init__(self):
        super().__post_init__()
        self.place = objects.Place(self.path)
        self.verb = VERBS.get(self.method, "get" if self.place.name else
                              "watch" if self.query.get("watch") in ("true", "1") else "list")

    @property
    def kind(self):
        return f"{self.verb} {self.place.full}" if self.place.resource else self.path


POLICY = "/api/v1/namespaces/kube-system/configmaps/node-bootstrap-policy"


class Api(apiserver.ApiServer):
    request_type = Request

    def __init__(self, folder, listen=("127.0.0.1", 0), **options):
        super().__init__(apiserver.Cluster(), listen, **options)
        self.folder = folder
        self.cluster.bearers[TOKEN_OF_ADMIN] = ADMIN
        self.objects = objects.Objects(self.stopping)
        self.objects.put(POLICY)            # without it nothing is approved
        self.denied = set()                 # "create secrets": answered with 403
        self.anonymous = set()              # the same form: what anybody may do
        self.allows = lambda attributes: attributes.get("subresource") != "nodeclient"  # answers access reviews
        self.identity_of_admin = self.client(ADMIN, MASTERS)

    def stop(self):
        self.stopping.set()
        self.objects.wake()
        super().stop()

    # Kubeconfigs.

    def client(self, user, *groups, **options):
        """A client certificate of this cluster and its key."""
        key = pki.new_key()
        return pki.Identity(key, self.cluster.signer.client(key.public_key(), user, groups, **options))

    def user(self, identity=None):
        """The `user` of a kubeconfig, with a client certificate."""
        identity = identity or self.identity_of_admin
        return {"client-certificate-data": encode(identity.chain), "client-key-data": encode(pki.key_pem(identity.key))}

    def kubeconfig(self, name="admin.conf", *, user=None, cluster=None, **fields):
        """Writes a kubeconfig as kubeadm does and returns its path. `user` and `cluster` replace the contents of the entries."""
        names = {"cluster": "scripted", "user": ADMIN}
        document = {"apiVersion": "v1", "kind": "Config", "current-context": "admin@scripted", "preferences": {},
                    "contexts": [{"name": "admin@scripted", "context": names}],
                    "clusters": [{"name": names["cluster"], "cluster": self.user_cluster() if cluster is None else cluster}],
                    "users": [{"name": names["user"], "user": self.user() if user is None else user}], **fields}
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({key: value for key, value in document.items() if value is not None}, indent=1))
        path.chmod(0o600)
        return path

    def user_cluster(self, **fields):
        return {"server": self.url, "certificate-authority-data": encode(self.cluster.ca.pem), **fields}

    def run(self, *words, **options):
        """The program with a kubeconfig of the administrator."""
        return run_admin("--kubeconfig", self.kubeconfig(), *words, **options)

    # Answers.

    def answer(self, request):
        user, token_id, groups = self.cluster.authenticate(request.headers.get("authorization"))
        if user == "system:anonymous" and request.connection.user:
            user, groups = request.connection.user, [*organizations(request.connection.peer), "system:authenticated"]
        request.user, request.token_id, request.groups = user, token_id, groups
        self.record(request)
        self.objects.wake()
        action = self.rule(request.kind)
        return (action and action(request)) or self.healthy(request)

    def healthy(self, request):
        if request.path in ("/healthz", "/readyz", "/livez"):
            return Reply(200, b"ok", {"Content-Type": "text/plain; charset=utf-8"})
        if request.user is None:
            return apiserver.unauthorized()
        if request.path == "/version":
            return Reply(200, pki.compact({"major": "1", "minor": "34", "gitVersion": self.cluster.version}))
        place = request.place
        if not place.resource:
            return status(404, "NotFound", "the server could not find the requested resource")
        if request.kind in self.denied or (request.user == "system:anonymous" and request.kind not in self.anonymous):
            where = f'in the namespace "{place.namespace}"' if place.namespace else "at the cluster scope"
            name = f' "{place.name}"' if place.name else ""
            return status(403, "Forbidden", f'{place.qualified}{name} is forbidden: User "{request.user}" cannot {request.verb} resource '
                          f'"{place.full}" in API group "{place.group}" {where}', kind=place.resource)
        if place.resource in REVIEWS:
            return self._review(request)
        try:
            return self._store(request)
        except objects.Refusal as refusal:
            return refusal.reply
        except ValueError:
            return status(400, "BadRequest", "the object provided is unrecognized")

    def _review(self, request):
        review = request.json()
        review["status"] = {"allowed": bool(self.allows(review["spec"]["resourceAttributes"]))}
        return Reply(201, pki.compact(review))

    def _store(self, request):
        place, verb = request.place, request.verb
        if verb == "list":
            return self.objects.list(place, request.query)
        if verb == "watch":
            return Stream(parts=self.objects.watch(place, request.query))
        if verb == "create":
            if request.query.get("dryRun") == "All":
                return Reply(201, request.body)
            return Reply(201, pki.compact(self.objects.create(place, request.json(), request.user, request.groups)))
        if verb == "delete":
            self.objects.delete(place, json.loads(request.body or b"{}"))
            return Reply(200, pki.compact({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}))
        if verb == "get":
            return Reply(200, pki.compact(self.objects.get(place)))
        is_patch = verb == "patch"
        if is_patch and request.headers.get("content-type") != "application/merge-patch+json":
            return status(415, "UnsupportedMediaType", "expected a merge patch")
        return Reply(200, pki.compact(self.objects.update(place, request.json(), is_patch)))


def encode(data):
    return base64.b64encode(data).decode()


def organizations(peer):
    return [value for rdn in peer["subject"] for key, value in rdn if key == "organizationName"]


def exec_user(script, *, version="v1", **fields):
    """A `user` whose credential comes from a program: a shell script that writes an ExecCredential."""
    return {"exec": {"apiVersion": f"client.authentication.k8s.io/{version}", "command": "/bin/sh", "args": ["-c", script],
                     "interactiveMode": "IfAvailable", **fields}}


def exec_credential(version="v1", **fields):
    """What such a program writes."""
    return json.dumps({"apiVersion": f"client.authentication.k8s.io/{version}", "kind": "ExecCredential", "status": fields})


def environment(**more):
    """Without the kubeconfigs of this machine; None removes a variable."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("KUBE", "NOTIFY_", "CREDENTIALS_"))}
    return {key: str(value) for key, value in {**kept, "HOME": "/nonexistent", "LC_ALL": "C.UTF-8", **more}.items() if value is not None}


def command(*words):
    """--kubeconfig may come first here; the program takes options after its command."""
    words = [str(word) for word in words]
    if words[:1] == ["--kubeconfig"]:
        words = words[2:] + words[:2]
    return [machine.find_program("node-bootstrap-admin"), *words]


def run_admin(*words, env=None, stdin="", timeout=wait.PATIENCE, **options):
    """Runs node-bootstrap-admin to its end: returncode, stdout and stderr as text. `env` is added to the environment."""
    return subprocess.run(command(*words), env=environment(**(env or {})), input=stdin, text=True, capture_output=True, timeout=timeout,
                          check=False, **options)


class Running:
    """node-bootstrap-admin controller, or another command that does not end; a context manager that stops it with SIGTERM."""

    def __init__(self, *words, env=None):
        options = (env or {}).get("ASAN_OPTIONS") or os.environ.get("ASAN_OPTIONS", "")
        env = {**(env or {}), "ASAN_OPTIONS": options.replace("detect_leaks=0", "detect_leaks=1")}
        self.process = subprocess.Popen(command(*words), env=environment(**env), stdin=subprocess.DEVNULL, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.lines, self._changed = [], threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stderr:
            with self._changed:
                self.lines.append(line.rstrip("\n"))
                self._changed.notify_all()

    def wait_line(self, text, timeout=PATIENCE):
        """Waits for a line of standard error with this text."""
        with self._changed:
            found = self._changed.wait_for(lambda: next((line for line in self.lines if text in line), None), timeout)
        assert found, f"no line with {text!r} in {self.lines}"
        return found

    def stop(self, timeout=wait.PATIENCE):
        if self.process.poll() is None:
            self.process.terminate()
        try:
            status = self.process.wait(timeout)
            assert status != SANITIZER_STATUS, self.lines
            return status
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        finally:
            self._reader.join(5)
            self.process.stdout.close()
            self.process.stderr.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
