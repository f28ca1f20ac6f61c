# SPDX-License-Identifier: Apache-2.0
"""A real control plane: etcd, kube-apiserver and kube-controller-manager, with what kubeadm adds for bootstrap tokens.

Everything listens on loopback. Machines reach the API server only through `front`, at `address`, which cluster-info names.
"""

import base64
import contextlib
import http.client
import itertools
import json
import os
import secrets
import signal
import ssl
import subprocess
import threading
import time
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

import yaml
from cryptography import x509

from common import csrs, pki, versions
from common.wait import PATIENCE, until
from . import image, isolation
from .proxy import Front

DEFAULT_GROUP = "system:bootstrappers:kubeadm:default-node-token"
MANUAL_GROUP = "system:bootstrappers:e2e:manual"  # may ask for a certificate, and nobody approves it by itself
POWERLESS_GROUP = "system:bootstrappers:e2e:powerless"
CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
CLUSTER_INFO_BINDING = "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-public/rolebindings/kubeadm:bootstrap-signer-clusterinfo"
CLUSTER_INFO = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
SECRETS = "/api/v1/namespaces/kube-system/secrets"
POLICY = "/api/v1/namespaces/kube-system/configmaps/node-bootstrap-policy"
SERVING = {"servingPrefixes": "10.0.0.0/8", "servingRefused": "192.0.2.1", "serviceNetworks": "10.96.0.0/16", "podNetworks": "10.244.0.0/16"}
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
# Those that have to do with nodes and their certificates. Some of the others list their objects all the time.
UNATTENDED = ("clusterrole-aggregation", "csrcleaner", "csrsigning", "garbagecollector", "namespace", "nodelifecycle", "root-ca-cert-publisher",
              "serviceaccount", "serviceaccount-token")
# With what node-bootstrap-admin's controller does, too.
ENABLED = (*UNATTENDED, "bootstrapsigner", "csrapproving", "tokencleaner")
HOSTS = ["kubernetes", "localhost", "cp.example.org", "127.0.0.1", "::1", "10.96.0.1", "192.0.2.1", *(f"198.51.100.{n}" for n in range(1, 100))]
addresses = itertools.count(1)
ports = itertools.count(20000)    # below those that the kernel gives to connections


@dataclass
class Token:
    id: str
    secret: str

    def __str__(self):
        return f"{self.id}.{self.secret}"


class ApiError(Exception):
    def __init__(self, status, text):
        super().__init__(f"{status}: {text}")
        self.status = status


class ControlPlane:
    def __init__(self, assets, work, apiserver=(), controllers=(), age=30 * pki.DAY, enabled=ENABLED):
        self.assets, self.work = Path(assets), Path(work)
        self.extra = {"kube-apiserver": apiserver, "kube-controller-manager": controllers}
        self.enabled = enabled
        self.processes, self.thread = {}, threading.local()
        self.work.mkdir(parents=True)
        self.ca = pki.CA(start=-age)
        self.etcd_port, self.peer_port, self.port = free_ports(3)
        self._write_pki(-age)
        self.address = new_address()
        self.front = self.new_front(self.address)
        self.minor = versions.minor(self.assets / "kube-apiserver")

    # starting and stopping

    def start(self):
        here = "http://127.0.0.1"
        self.spawn(
            "etcd", "etcd", "--data-dir=etcd", f"--listen-client-urls={here}:{self.etcd_port}", "--unsafe-no-fsync",
            f"--advertise-client-urls={here}:{self.etcd_port}", f"--listen-peer-urls={here}:{self.peer_port}",
            f"--initial-advertise-peer-urls={here}:{self.peer_port}", f"--initial-cluster=default={here}:{self.peer_port}",
            "--heartbeat-interval=1000", "--election-timeout=5000",
        )
        self.spawn_apiserver()
        self.spawn_controllers()
        self.front.listen()
        self._write_kubeadm_config()
        self.kubeadm("init", "phase", "bootstrap-token")
        self.bind(MANUAL_GROUP, "system:node-bootstrapper")
        self.policy()
        return self

    def spawn_controllers(self):
        self.spawn(
            "kube-controller-manager", self.assets / "kube-controller-manager", "--kubeconfig=kcm.conf",
            "--authentication-kubeconfig=kcm.conf", "--authentication-skip-lookup", "--authorization-kubeconfig=kcm.conf",
            f"--controllers={','.join(self.enabled)}", "--cluster-signing-cert-file=ca.crt",
            "--cluster-signing-key-file=ca.key", "--root-ca-file=ca.crt", "--service-account-private-key-file=sa.key",
            "--use-service-account-credentials", "--leader-elect=false", "--secure-port=0",
            *versions.of(self.minor, "controller manager flags"), *self.extra["kube-controller-manager"],
        )

    def spawn_apiserver(self):
        self.spawn(
            "kube-apiserver", self.assets / "kube-apiserver", f"--etcd-servers=http://127.0.0.1:{self.etcd_port}",
            f"--secure-port={self.port}", "--bind-address=127.0.0.1", "--advertise-address=192.0.2.1",
            "--tls-cert-file=apiserver.crt", "--tls-private-key-file=apiserver.key", "--client-ca-file=ca.crt",
            "--authorization-mode=Node,RBAC", "--enable-bootstrap-token-auth", "--allow-privileged",
            "--service-account-issuer=https://kubernetes.default", "--service-account-signing-key-file=sa.key",
            "--service-account-key-file=sa.pub", "--service-cluster-ip-range=10.96.0.0/16",
            "--enable-admission-plugins=NodeRestriction",
            # These work all the time: 40 % of what an idle API server uses.
            "--enable-priority-and-fairness=false", "--endpoint-reconciler-type=none", *self.extra["kube-apiserver"],
        )
        until(self._is_ready, "kube-apiserver is ready", pause=0.2)

    def change_client_ca(self):
        """Earlier client certificates become invalid; the servers keep theirs."""
        clients = pki.CA()
        self._file("clients.crt", clients.pem)
        self._file("clients.key", pki.key_pem(clients.key))
        self._write_client("admin", clients.user("kubernetes-admin", ["system:masters"]))
        self._write_client("kcm", clients.user("system:kube-controller-manager"))
        self.client = self._new_client()
        self.extra["kube-apiserver"] = ["--client-ca-file=clients.crt"]
        self.extra["kube-controller-manager"] = ["--cluster-signing-cert-file=clients.crt", "--cluster-signing-key-file=clients.key"]
        self.end("kube-controller-manager")
        self.end("kube-apiserver")
        self.spawn_apiserver()
        self.spawn_controllers()

    @contextlib.contextmanager
    def serving_with(self, authority):
        """The API server's certificate is from another CA, as after a rotation. kube-controller-manager does not run meanwhile."""
        self._write_client("rotated", authority.serving(HOSTS))
        before = self.extra["kube-apiserver"]
        self.end("kube-controller-manager")
        try:
            self.client = self._new_client(authority)
            self.extra["kube-apiserver"] = [*before, "--tls-cert-file=rotated.crt", "--tls-private-key-file=rotated.key"]
            self.end("kube-apiserver")
            self.spawn_apiserver()
            yield
        finally:
            self.client, self.extra["kube-apiserver"] = self._new_client(), before
            self.end("kube-apiserver")
            self.spawn_apiserver()
            self.spawn_controllers()

    def stop(self):
        self.front.close()
        for name in reversed(list(self.processes)):
            self.end(name)

    def end(self, name):
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    @contextlib.contextmanager
    def paused(self, name):
        """Returns when each of its threads has stopped: until the one that gets the signal runs, the others go on."""
        process = self.processes[name]
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        try:
            yield
        finally:
            process.send_signal(signal.SIGCONT)

    def spawn(self, name, *command):
        log = open(self.work / f"{name}.log", "ab")
        with log:
            self.processes[name] = subprocess.Popen(
                command, cwd=self.work, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def _is_ready(self):
        for name, process in self.processes.items():
            if process.poll() is not None:
                log = (self.work / f"{name}.log").read_text(errors="replace")
                raise AssertionError(f"{name} ended with {process.returncode}:\n{log[-2000:]}")
        try:
            return self.request("GET", "/readyz", raw=True) == b"ok"
        except (OSError, ApiError, http.client.HTTPException):
            return False

    def new_front(self, address=None):
        """A proxy to the API server, at an address of its own, which does not listen yet."""
        certificate = (self.work / "apiserver.crt", self.work / "apiserver.key")
        return Front(address or new_address(), 6443, ("127.0.0.1", self.port), certificate)

    # files

    def _write_pki(self, start):
        """`start`: machines verify the server, and tests set their clocks back."""
        self._file("ca.crt", self.ca.pem)
        self._file("ca.key", pki.key_pem(self.ca.key))
        accounts = pki.new_key("rsa")
        self._file("sa.key", pki.key_pem(accounts))
        self._file("sa.pub", pki.public_pem(accounts))
        self._write_client("apiserver", self.ca.serving(HOSTS, start=start))
        self._write_client("admin", self.ca.user("kubernetes-admin", ["system:masters"]))
        self._write_client("kcm", self.ca.user("system:kube-controller-manager"))
        self.client = self._new_client()

    def _write_client(self, name, identity):
        certificate, key = identity.pair
        self._file(f"{name}.crt", certificate)
        self._file(f"{name}.key", key)
        self._file(f"{name}.conf", kubeconfig(f"https://127.0.0.1:{self.port}", self.ca.pem, certificate=certificate, key=key))

    def _new_client(self, ca=None):
        client = ssl.create_default_context(cadata=(ca or self.ca).pem.decode())
        client.load_cert_chain(self.work / "admin.crt", self.work / "admin.key")
        return client

    def _file(self, name, data):
        path = self.work / name
        path.touch(0o600)
        path.write_bytes(data.encode() if isinstance(data, str) else data)

    def _write_kubeadm_config(self):
        version = versions.of(self.minor, "kubeadm API")
        pair = [(self.work / f"admin.{kind}").read_bytes() for kind in ("crt", "key")]
        self._file("kubeadm.conf", kubeconfig(f"https://{self.front.endpoint}", self.ca.pem, None, *pair))
        self._file("kubeadm.yaml", f"""
apiVersion: kubeadm.k8s.io/{version}
kind: InitConfiguration
localAPIEndpoint: {{advertiseAddress: 192.0.2.1}}
nodeRegistration: {{name: control-plane}}
bootstrapTokens:
- token: {self.fresh_token()}
  groups: ["{DEFAULT_GROUP}"]
---
apiVersion: kubeadm.k8s.io/{version}
kind: ClusterConfiguration
kubernetesVersion: v1.{self.minor}.0
controlPlaneEndpoint: {self.front.endpoint}
---
{image.kubelet_configuration(self.minor)}""")

    # using it

    def upload_config(self):
        """What `kubeadm join` reads from the cluster. kubeadm also annotates the Node of its own machine."""
        self._make_own_node()
        self.kubeadm("init", "phase", "upload-config", "all")
        self.kubeadm("init", "phase", "addon", "kube-proxy")

    def upload_kubelet_config(self, node):
        """kubeadm's own ConfigMap, with what kubelet needs in the container of this machine; returns its name."""
        machine = yaml.safe_load(node.read("/var/lib/kubelet/config.yaml"))
        keys = ("cgroupDriver", "cgroupsPerQOS", "enforceNodeAllocatable", "failSwapOn", "evictionHard",
                *versions.of(self.minor, "kubelet configuration"))
        changes = {key: machine[key] for key in keys}
        self._make_own_node()
        documents = list(yaml.safe_load_all((self.work / "kubeadm.yaml").read_text()))
        kubelet = {"apiVersion": documents[-1]["apiVersion"], "kind": documents[-1]["kind"], **changes}
        self._file("kubeadm-kubelet.yaml", yaml.safe_dump_all([*documents[:-1], kubelet]))
        said = self._tool(self.assets / "kubeadm", "init", "phase", "upload-config", "kubelet", "--config=kubeadm-kubelet.yaml",
                          "--kubeconfig=kubeadm.conf")
        assert "kubelet-config" in said, said
        return versions.of(self.minor, "ConfigMap of kubelet").format(minor=self.minor)

    def _make_own_node(self):
        """kubeadm annotates the Node of its own machine."""
        name = "control-plane"
        metadata = {"name": name, "labels": {"kubernetes.io/hostname": name}}
        if not self.node(name):
            self.request("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": metadata})

    def kubeadm(self, *arguments):
        """Its kubeconfig names the address for machines: that is what it puts into cluster-info."""
        return self._tool(self.assets / "kubeadm", *arguments, "--config=kubeadm.yaml", "--kubeconfig=kubeadm.conf")

    def join_command(self):
        """What `kubeadm token create --print-join-command` prints, once cluster-info is signed with that token."""
        said = self._tool(self.assets / "kubeadm", "token", "create", "--print-join-command", "--kubeconfig=kubeadm.conf")
        line = next(line for line in said.splitlines() if line.startswith("kubeadm join "))
        token = line.split("--token ")[1].split()[0]
        until(lambda: f"jws-kubeconfig-{token[:6]}" in self.cluster_info(), "cluster-info is signed")
        return line

    def kubectl(self, *arguments):
        return self._tool("kubectl", *arguments, "--kubeconfig=admin.conf")

    def _tool(self, *command):
        done = subprocess.run(
            command, cwd=self.work, check=False, text=True, timeout=PATIENCE,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        assert done.returncode == 0, f"{command}: exit status {done.returncode}\n{done.stdout}"
        return done.stdout

    def _connection(self, context):
        """This thread's, with this context, to this process. The API server closes one that is idle for 90 s."""
        now, key = time.monotonic(), (context, self.processes.get("kube-apiserver"))
        if getattr(self.thread, "key", None) != key or now - self.thread.since > 30:
            self.thread.connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=context, timeout=PATIENCE)
        self.thread.key, self.thread.since = key, now
        return self.thread.connection

    def request(self, method, path, body=None, raw=False, headers=(), context=None, patch="merge-patch+json"):
        """As the administrator, unless a context without the client certificate says otherwise."""
        connection = self._connection(context or self.client)
        kind = f"application/{patch if method == 'PATCH' else 'json'}"
        data = json.dumps(body).encode() if body else b""
        try:
            connection.putrequest(method, path)
            for header in (("Content-Type", kind), ("Content-Length", len(data)), *headers):
                connection.putheader(*header)
            connection.endheaders(data)
            answer = connection.getresponse()
            data = answer.read()
        except BaseException:
            connection.close()  # the next request opens it again
            raise
        if answer.status >= 400:
            raise ApiError(answer.status, data.decode(errors="replace"))
        return data if raw else json.loads(data)

    def find(self, path):
        """The object at a path, or None."""
        try:
            return self.request("GET", path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def node(self, name):
        return self.find(f"/api/v1/nodes/{name}")

    def await_node(self, name):
        return until(lambda: self.node(name), f"Node {name} appears", pause=0.1)

    def make_ready(self, name, status="True"):
        """A Node without kubelet, which the cluster marks not Ready after 40 seconds."""
        if not self.node(name):
            self.request("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
        ready = {"type": "Ready", "status": status, "reason": "Test", "message": "by the test"}
        self.request("PATCH", f"/api/v1/nodes/{name}/status", {"status": {"conditions": [ready]}})

    def delete_node(self, name):
        """With the requests for it, so that the next one is like the first."""
        if self.node(name):
            self.request("DELETE", f"/api/v1/nodes/{name}")
        for csr in self.csrs(name):
            self.request("DELETE", f"{CSRS}/{csr['metadata']['name']}")

    def csrs(self, node):
        """All CSRs for a node's client certificate, whoever submitted them."""
        found = []
        for item in self.request("GET", CSRS)["items"]:
            request = x509.load_pem_x509_csr(base64.b64decode(item["spec"]["request"]))
            if pki.common_name(request) == f"system:node:{node}":
                found.append(item)
        return found

    def await_csr(self, node):
        return until(lambda: self.csrs(node), f"a request for {node} appears")[0]

    def submit(self, pem, name=None, *, token=None, user=None, groups=(), ca=None, **csr):
        """Submits a CSR with a token, as a user whom the administrator impersonates, or as the administrator; returns its name.

        `ca` is that of the API server, unless it is the cluster's. The API server knows a new token, and what its group may do, a moment
        after they were created.
        """
        headers, context = [], None
        if token:
            headers, context = [("Authorization", f"Bearer {token}")], ssl.create_default_context(cadata=(ca or self.ca).pem.decode())
        elif user:
            headers = [("Impersonate-User", user), *(("Impersonate-Group", group) for group in (*groups, "system:authenticated"))]

        def post():
            try:
                return self.request("POST", CSRS, csrs.make(pem, name, **csr), headers=headers, context=context)
            except ApiError as error:
                if token and error.status in (401, 403):
                    return None
                raise

        return until(post, "the API server knows the token, and the role of its group")["metadata"]["name"]

    def decide(self, csr, condition, message="by the test"):
        csr = self.request("GET", f"{CSRS}/{csr['metadata']['name']}")
        csr["status"]["conditions"] = [{"type": condition, "status": "True", "reason": "Test", "message": message}]
        self.request("PUT", f"{CSRS}/{csr['metadata']['name']}/approval", csr)

    def set_status(self, csr, **status):
        """As a signer does."""
        csr = self.request("GET", f"{CSRS}/{csr['metadata']['name']}")
        csr["status"].update(status)
        self.request("PUT", f"{CSRS}/{csr['metadata']['name']}/status", csr)

    def policy(self, **data):
        """The ConfigMap that the controller and `approve` judge by."""
        policy = {"apiVersion": "v1", "kind": "ConfigMap", "data": data, "metadata": {"name": "node-bootstrap-policy"}}
        if self.find(POLICY):
            self.request("PUT", POLICY, policy)
        else:
            self.request("POST", POLICY.rpartition("/")[0], policy)

    def bind(self, group, role):
        name = "e2e-" + group.replace(":", "-")
        self.request("POST", BINDINGS, {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group}],
        })
        return f"{BINDINGS}/{name}"

    # tokens

    @staticmethod
    def fresh_token():
        digits = "abcdefghijklmnopqrstuvwxyz0123456789"
        return Token(*("".join(secrets.choice(digits) for _ in range(n)) for n in (6, 16)))

    def token(self, group=DEFAULT_GROUP, ttl=3600, token=None, signing=True):
        """A new bootstrap token; returns when cluster-info is signed with it."""
        token = token or self.fresh_token()
        expires = (datetime.now(timezone.utc) + timedelta(seconds=ttl)).strftime("%Y-%m-%dT%H:%M:%SZ")
        self.request("POST", SECRETS, {
            "apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
            "metadata": {"name": f"bootstrap-token-{token.id}"},
            "stringData": {
                "token-id": token.id, "token-secret": token.secret, "expiration": expires, "auth-extra-groups": group,
                "usage-bootstrap-signing": str(signing).lower(), "usage-bootstrap-authentication": "true",
            },
        })
        if signing:
            until(lambda: f"jws-kubeconfig-{token.id}" in self.cluster_info(), "cluster-info is signed")
        return token

    def patch_token(self, token, changes):
        self.request("PATCH", f"{SECRETS}/bootstrap-token-{token.id}", {"stringData": changes})

    def expire_token(self, token, seconds):
        """Now that cluster-info is signed with it, which a short `ttl` would not leave enough time for. Returns its last second."""
        last = int(time.time()) + seconds
        self.patch_token(token, {"expiration": datetime.fromtimestamp(last, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")})
        return last

    def cluster_info(self):
        return self.request("GET", CLUSTER_INFO)["data"]

    def await_anonymous(self, status):
        """Waits until an anonymous GET of cluster-info gets this status: the API server applies changed roles a moment later."""
        context = ssl.create_default_context(cadata=self.ca.pem.decode())

        def ask():
            connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=context, timeout=PATIENCE)
            with contextlib.closing(connection):
                connection.request("GET", CLUSTER_INFO)
                return connection.getresponse().status

        until(lambda: ask() == status, f"an anonymous client gets {status}")

    def remove_signatures(self):
        """Signs again only when the controller manager continues."""
        gone = {key: None for key in self.cluster_info() if key.startswith("jws-kubeconfig-")}
        self.request("PATCH", CLUSTER_INFO, {"data": gone})

    @contextlib.contextmanager
    def without(self, path):
        """Removes an object for a while. Whoever creates it again owns it; the controller signs cluster-info again."""
        found = self.request("GET", path)
        self.request("DELETE", path)
        try:
            yield
        finally:
            found["metadata"] = {"name": found["metadata"]["name"]}
            self.request("POST", path.rpartition("/")[0], found)

    @contextlib.contextmanager
    def naming(self, server):
        """cluster-info names another server for a while."""
        before = self.cluster_info()["kubeconfig"]
        self.sign_again(before.replace(self.front.endpoint, server))
        try:
            yield
        finally:
            self.sign_again(before)

    def sign_again(self, text):
        signatures = {key: value for key, value in self.cluster_info().items() if key != "kubeconfig"}
        self.request("PATCH", CLUSTER_INFO, {"data": {"kubeconfig": text}})
        until(lambda: all(self.cluster_info().get(key) != value for key, value in signatures.items()), "cluster-info is signed again")

    def delete_token(self, token):
        """Returns when cluster-info is not signed with it any more."""
        self.request("DELETE", f"{SECRETS}/bootstrap-token-{token.id}")
        until(lambda: f"jws-kubeconfig-{token.id}" not in self.cluster_info(), "the signature is taken away")


def encode(pem):
    return base64.b64encode(pem).decode()


def kubeconfig(server, ca, token=None, certificate=None, key=None):
    """A kubeconfig with everything in it; JSON, which is YAML."""
    user = {"token": str(token)} if token else {"client-certificate-data": encode(certificate), "client-key-data": encode(key)}
    return json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "k", "cluster": {"server": server, "certificate-authority-data": encode(ca)}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
    })


def new_address():
    return f"198.51.100.{next(addresses)}"


def free_ports(count):
    """Each is for one server, which may be restarted: no other program is in this network namespace."""
    return list(itertools.islice(ports, count))


def find_assets():
    """The directory with Kubernetes' programs: $KUBEBUILDER_ASSETS, or where tests/control-plane puts them."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    return Path(assets).resolve() if assets else isolation.cache_path() / "control-plane/bin"


def check_assets(folder):
    """What is missing to run a control plane, as a sentence; None when nothing is."""
    wanted = [Path(folder, name) for name in ("kube-apiserver", "kube-controller-manager", "kubelet", "kubeadm")]
    missing = [str(path) for path in wanted if not os.access(path, os.X_OK)]
    for name in ("etcd", "kubectl"):
        if not any(os.access(Path(place, name), os.X_OK) for place in os.environ["PATH"].split(":")):
            missing.append(name + " on PATH")
    return f"not there: {', '.join(missing)}" if missing else versions.complaint(Path(folder, "kubelet"))
