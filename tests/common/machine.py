# SPDX-License-Identifier: Apache-2.0
"""A machine that joins: the real programs, run in temporary directories as the unit would run them."""

import base64
import functools
import glob
import itertools
import json
import os
import pathlib
import re
import shlex
import signal
import socket
import subprocess
import threading
import time

import pytest

from . import SOURCE, apiserver, pki
from .failures import FAILURES, flat, meet
from .metadata_child import MetadataChild
from .passed import Passed, with_passed
from .wait import PATIENCE, until

NODE = "node-1"
TOKEN = "abcdef.0123456789abcdef"
TOKEN_ID, SECRET = TOKEN.split(".")
TOKEN_SOURCE = "credential 'node-bootstrap.token'"
BUILD = pathlib.Path(os.environ.get("NB_BUILDDIR") or SOURCE / "build").resolve()   # programs have another working directory
RECORDED = 99           # exit status of the program that inspect() has in the place of join

# Taken once: pytest changes the environment while cases are played side by side.
KEPT = {key: value for key, value in os.environ.items() if key.startswith(("ASAN_", "LSAN_", "UBSAN_", "LLVM_PROFILE"))}

_numbers = itertools.count(1)


@functools.cache        # the search takes longer than starting a program
def find_program(name):
    for path in sorted(BUILD.glob(f"**/{name}")):
        if path.is_file() and os.access(path, os.X_OK):
            return str(path)
    raise AssertionError(f"{name} is not built in {BUILD}: meson compile, or set NB_BUILDDIR")


def find_faketime():
    found = glob.glob("/usr/lib/*/faketime/libfaketime.so.1") + glob.glob("/usr/lib*/faketime/libfaketime.so.1")
    if not found:
        pytest.skip("libfaketime is not installed")
    return found[0]


def preloaded(*libraries):
    """The environment of a program that loads these first: its sanitizer then no longer is the first one."""
    return {"LD_PRELOAD": " ".join(map(str, libraries)), "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}


def fake_clock(speed, *libraries):
    return {**preloaded(find_faketime(), *filter(None, libraries)), "FAKETIME": speed}


def exports(environment):
    """The same, as a line of a shell script."""
    return "export " + " ".join(f"{name}={shlex.quote(value)}" for name, value in environment.items())


class Run:
    """A program that runs: its standard error and its STATUS= lines, as they come."""

    def __init__(self, argv, environment, *, faketime=None):
        address = f"\0nb-integration-{os.getpid()}-{next(_numbers)}"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(address)
        environment = {**environment, "NOTIFY_SOCKET": "@" + address[1:]}
        if faketime:
            environment.update(fake_clock(faketime, environment.get("LD_PRELOAD")))
        self.lines, self.statuses = [], []
        self._changed = threading.Condition()
        self._closing = threading.Lock()
        self.started = time.monotonic()
        self._child = subprocess.Popen(argv, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                       cwd="/", start_new_session=True)
        self.pid = self._child.pid
        self._output = []
        self._threads = [threading.Thread(target=target, daemon=True) for target in (self._read_errors, self._read_output)]
        self._status_thread = threading.Thread(target=self._read_statuses, daemon=True)
        for thread in (*self._threads, self._status_thread):
            thread.start()

    def _add(self, where, what):
        with self._changed:
            where.append(what)
            self._changed.notify_all()

    def _read_errors(self):
        for line in self._child.stderr:
            self._add(self.lines, line.decode(errors="replace").rstrip("\n"))

    def _read_output(self):
        self._output.append(self._child.stdout.read())

    def _read_statuses(self):
        while True:
            data = self._socket.recv(65536)
            if not data:
                return
            for line in data.decode(errors="replace").splitlines():
                if line.startswith("STATUS="):
                    self._add(self.statuses, line[len("STATUS="):])

    def _wait_for(self, where, words, timeout):
        with self._changed:
            found = self._changed.wait_for(lambda: any(words in line for line in where), timeout)
        assert found, f"{words!r} did not come; lines {self.lines}, statuses {self.statuses}"

    def wait_for_line(self, words, timeout=PATIENCE):
        self._wait_for(self.lines, words, timeout)

    def wait_for_status(self, words, timeout=PATIENCE):
        self._wait_for(self.statuses, words, timeout)

    def wait_until(self, condition, timeout=PATIENCE):
        """Waits until condition() is true; lines and statuses arrive independently of each other."""
        with self._changed:
            assert self._changed.wait_for(condition, timeout), f"codes {self.codes}; statuses {self.statuses[-3:]}"

    def wait_for_attempts(self, n, timeout=PATIENCE):
        """Waits until it has reported n times that it is waiting."""
        with self._changed:
            found = self._changed.wait_for(lambda: self.attempts >= n or not self.is_running(), timeout)
        assert found and self.attempts >= n, f"{self.attempts} attempts; lines {self.lines}, statuses {self.statuses[-3:]}"

    @property
    def attempts(self):
        return sum(status.startswith("Waiting since") for status in self.statuses)

    def is_running(self):
        return self._child.poll() is None

    def signal(self, number):
        self._child.send_signal(number)

    def wait(self, timeout=PATIENCE):
        try:
            self.exit = self._child.wait(timeout)
        except subprocess.TimeoutExpired:
            self.end()
            raise AssertionError(f"still running after {timeout} s; lines {self.lines}, statuses {self.statuses}") from None
        for thread in self._threads:
            thread.join(PATIENCE)
        self._close()
        meet(self.stderr)
        meet(self.stdout)
        self.seconds = time.monotonic() - self.started
        return self

    def _close(self):
        """Closes the descriptors: a test may start hundreds of programs, and an ordinary user has 1024."""
        with self._closing:                             # who kills it in a request's thread waits for it, too
            if self._socket is None:
                return
            self._socket.shutdown(socket.SHUT_RD)       # what was sent before is read before
            self._status_thread.join(PATIENCE)
            for stream in (self._socket, self._child.stdout, self._child.stderr):
                stream.close()
            self._socket = None

    def kill(self):
        self.signal(signal.SIGKILL)
        return self.wait()

    def end(self):
        if self.is_running():
            self._child.kill()
            self._child.wait()

    # What came out.

    @property
    def stderr(self):
        return "\n".join(self.lines)

    @property
    def stdout(self):
        return b"".join(self._output).decode()

    @property
    def codes(self):
        """The codes of failures in the order in which they were reported."""
        found = re.findall(r"^[\w-]+: ([a-z][a-z-]+): ", self.stderr, re.M)
        return [code for code in found if code in FAILURES]

    @property
    def code(self):
        return (self.codes or [None])[-1]

    def joined(self):
        assert self.exit == 0, self.stderr
        return self

    def failed(self, code, exit_status, *words):
        assert (self.code, self.exit) == (code, exit_status), f"got {self.code}, exit {self.exit}:\n{self.stderr}"
        for word in words:
            assert word in self.stderr, f"{word!r} is not in:\n{self.stderr}"
        assert_remedy(code, self.lines)
        return self


def assert_remedy(code, lines):
    """The remedy follows the last line of a failure, with a value for each field: journalctl shows the same."""
    at = max(number for number, line in enumerate(lines) if f": {code}: " in line)
    if code == "usage" and at == len(lines) - 1:
        assert "--help" in lines[at] or ".service runs this command: use " in lines[at], "wrong words are told of in one line, of which the end says where help is"
        return
    told = flat("\n".join(itertools.takewhile(lambda line: line.startswith("  "), lines[at + 1:])))
    remedy, k3s = (flat(FAILURES[code].get(key, "")) for key in ("remedy", "remedy-k3s"))
    if k3s and told.startswith(k3s.split("@")[0]):
        remedy = k3s
    values = re.fullmatch(re.sub(r"\\?@NODE_BOOTSTRAP_[A-Z0-9_]+\\?@", "(.+)", re.escape(remedy)), told)
    assert values, f"not the remedy of {code}: {told}"
    for name, value in zip(re.findall(r"@NODE_BOOTSTRAP_([A-Z0-9_]+)@", remedy), values.groups()):
        assert value not in (name, f"<{name}>"), f"the entry of {code} has no field {name}:\n{lines[at]}\n{told}"


def to_yaml(value, indent=""):
    """Enough YAML for settings: mappings in block form, everything else as JSON."""
    lines = []
    for key, entry in value.items():
        if isinstance(entry, dict):
            lines += [f"{indent}{key}:", to_yaml(entry, indent + "  ").rstrip("\n")] if entry else [f"{indent}{key}: {{}}"]
        else:
            lines.append(f"{indent}{key}: {json.dumps(entry)}")
    return "\n".join(lines) + "\n"


HEADER = "apiVersion: node-bootstrap/v1\nkind: NodeBootstrap\n"


class Machine(MetadataChild):
    """The folders that systemd gives to the unit, the settings, and a root for the files of kubelet."""

    KUBECONFIG = "etc/kubernetes/kubelet.conf"
    PKI = "var/lib/kubelet/pki"
    CURRENT = "var/lib/kubelet/pki/kubelet-client-current.pem"
    RECORD = "var/lib/kubelet/pki/node-bootstrap.json"
    CA_FILE = "etc/kubernetes/pki/ca.crt"
    ENV = "var/lib/kubelet/node-bootstrap.env"
    passed_type = Passed

    def __init__(self, path):
        self.path = path
        self.etc, self.credentials, self.state, self.root = (path / name for name in ("etc", "credentials", "state", "root"))
        for folder in (self.etc, self.credentials, self.state, self.root):
            folder.mkdir(mode=0o755 if folder == self.etc else 0o700)
        self.runs = []
        self.settings = {}
        self.arguments = self.passed = None     # of join, as the last inspect() found them
        self.secrets = [SECRET]         # must stand nowhere but in the credential,
        self.secret_files = []          # and in these, which a test made
        self.set_credential("token", TOKEN)

    # What the machine is given.

    def set_credential(self, name, data, mode=0o400):
        path = self.credentials / f"node-bootstrap.{name}"
        path.unlink(missing_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        path.chmod(mode)

    def configure(self, *servers, pins=None, endpoints=None, node=NODE, timeout="80s", discovery=None, cluster=None, kubelet=None, csr=None):
        """Writes config.yaml for these servers, pinned to the first one's CA by default."""
        self.endpoints = endpoints or [server.endpoint for server in servers]
        settings = {"discovery": {"endpoints": self.endpoints,
                                  "caCertHashes": [servers[0].cluster.ca.pin] if pins is None else pins, **(discovery or {})}}
        if settings["discovery"]["caCertHashes"] == []:
            del settings["discovery"]["caCertHashes"]
        settings["node"] = {"name": node}
        settings.update({key: value for key, value in (("cluster", cluster), ("kubelet", kubelet), ("csr", csr), ("timeout", timeout)) if value is not None})
        self.write_settings(HEADER + to_yaml(settings))

    def write_settings(self, text, name="config.yaml"):
        path = self.etc / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        path.chmod(0o644)

    # What runs.

    @property
    def environment(self):
        return {"PATH": "/usr/sbin:/usr/bin", "CREDENTIALS_DIRECTORY": str(self.credentials), "STATE_DIRECTORY": str(self.state), **KEPT}

    @staticmethod
    def program(name):
        return name if name.startswith("/") else find_program(name)

    new_run = Run

    def start(self, program, *arguments, faketime=None, environment=None):
        run = self.new_run([self.program(program), *arguments], {**self.environment, **(environment or {})}, faketime=faketime)
        self.runs.append(run)
        return run

    def current(self):
        """The current run. It may have contacted a server before `start` has recorded it."""
        until(lambda: self.runs and self.runs[-1].is_running(), "a program runs", pause=0.001)
        return self.runs[-1]

    def start_join(self, *, under=(), faketime=None, **options):
        """As the last inspect() would have started it, once; without one, as install starts it now. If install refuses that, returns its run."""
        if self.passed is None:
            run = self.inspect(under=under, faketime=faketime)
            if self.passed is None:
                assert run.exit != 0, f"install has not started join: {run.stderr}"
                return run
        return self.start(*self.child_words(*self.arguments, under=under), faketime=faketime, **options)

    def child_words(self, *arguments, under=()):
        """With what the last inspect() would have passed on, once."""
        passed = self.path / "passed"
        passed.write_bytes(bytes(self.passed))
        self.passed = None
        return [*with_passed(passed), *under, self.program("node-bootstrap"), *arguments, f"--config-directory={self.etc}"]

    def start_child(self, *arguments, **options):
        return self.start(*self.child_words(*arguments), **options)

    def join(self, patience=PATIENCE, **options):
        return self.start_join(**options).wait(patience)

    def install_words(self, *arguments):
        return [f"--root={self.root}", f"--config-directory={self.etc}", *arguments]

    def install(self, *arguments, **options):
        """Runs install on the contents of the state directory, without a child."""
        return self.start("install", *self.install_words("--program=", *arguments), **options).wait()

    def install_left(self, **options):
        """Runs install on the contents of the state directory, as its child left them."""
        left, program = self.path / "left", self.path / "programs" / "leave"
        self.state.rename(left)
        self.state.mkdir(mode=0o700)
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\nmv {left}/* {self.state}\n")
        program.chmod(0o755)
        return self.start("install", *self.install_words(f"--program={program}"), **options).wait()

    def gate(self):
        """Runs the command of node-bootstrap-gate.service, which says whether kubelet may start."""
        return self.start("install", "--gate", f"--root={self.root}").wait()

    def inspect(self, *arguments, is_metadata_read=True, under=(), **options):
        """What install does before it runs `join`; run.note is what it has found. Without is_metadata_read, also before metadata is read. `under`: words
        that run the command that follows them."""
        recorder, recorded, passed = (self.path / name for name in ("recorder", "recorded", "passed"))
        # A child that reads metadata cannot write to files.
        read = f'exec {self.program("node-bootstrap")} "$@"' if is_metadata_read else f"echo passed: $(base64 -w0 <&4) >&2; exit {RECORDED}"
        recorder.write_text(f"#!/bin/sh\ncase $2 in --metadata) {read};; esac\ncat <&4 >{passed}\nprintf '%s\\n' \"$@\" >{recorded}\nexit {RECORDED}\n")
        recorder.chmod(0o755)
        recorded.unlink(missing_ok=True)
        run = self.start(*under, self.program("install"), *self.install_words(f"--program={recorder}", *arguments), **options).wait()
        run.note = self.arguments = self.passed = None
        if told := re.search(r"^passed: (\S+)$", run.stderr, re.M):
            passed.write_bytes(base64.b64decode(told[1]))
            run.lines = [line for line in run.lines if not line.startswith("passed: ")]
            recorded.write_text("join\n--metadata\n")
        if recorded.exists():
            assert run.exit in (RECORDED, 0), "0: the existing certificate is kept"
            run.exit = 0
            self.passed = Passed(passed.read_bytes())
            passed.unlink()
            self.arguments = recorded.read_text().splitlines()
            if self.arguments[0] == "join":
                verdict, valid_until = self.passed.verdict
                run.note = {"verdict": verdict, "notAfter": valid_until, "fallback": verdict in ("other-node", "other-cluster", "not-rotatable")}
        elif run.exit == 0 and (told := re.search("node '(.*?)' has already joined(; its certificate is valid until (.*))?", run.stderr)):
            run.note = {"verdict": "usable" if told[2] else "not-yet-valid", "node": told[1], "notAfter": told[3], "fallback": False}
        elif run.exit == 0 and (told := re.search("node '(.*?)' has joined, so kubelet can start", run.stderr)):
            run.note = {"verdict": "usable", "node": told[1], "fallback": False}
        return run

    def status(self, *arguments, **options):
        return self.start("node-bootstrap", "status", f"--config-directory={self.etc}", *arguments, **options).wait()

    def start_unit(self, *arguments, **options):
        return self.start("install", *self.install_words(f"--program={self.program('node-bootstrap')}", *arguments), **options)

    def unit(self, *arguments, **options):
        """The command of node-bootstrap.service."""
        return self.start_unit(*arguments, **options).wait()

    # What is there afterwards.

    def target(self, path):
        return self.root / path

    def read(self, path):
        return self.target(path).read_text()

    def target_names(self):
        """Every file and link below the root, with its mode; what kubelet would see."""
        return {str(path.relative_to(self.root)): path.lstat().st_mode & 0o777
                for path in sorted(self.root.rglob("*")) if path.is_symlink() or not path.is_dir()}

    def handoff(self):
        return json.loads((self.state / "joined.json").read_text())

    def installed_identity(self):
        """The dated file that the current link names: (certificates, text)."""
        target = os.readlink(self.target(self.CURRENT))
        text = self.root.joinpath(target.lstrip("/")).read_bytes()
        return pki.load_certs(text), text.decode()

    # What a machine that is in some state has.

    def put(self, path, data, mode=0o600):
        target = self.target(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data if isinstance(data, bytes) else data.encode())
        target.chmod(mode)
        return target

    def put_handoff(self, ca, server, /, *, node=NODE, key=None, certificate=None, **changes):
        """What a join leaves: pending.key and joined.json. Changes go into the note; None takes a member out."""
        key = key or pki.new_key()
        certificate = certificate or pki.cert_pem(ca.client(key.public_key(), pki.node_user(node)))
        note = {"version": 1, "certificate": certificate.decode(), "ca": ca.pem.decode(), "server": server, "tlsServerName": "",
                "proxyURL": "", "csr": pki.csr_name(key.public_key(), pki.node_user(node)), "endpoint": self.endpoints[0],
                "tokenID": TOKEN_ID, "tokenSource": TOKEN_SOURCE, **changes}
        note = {name: value for name, value in note.items() if value is not None}
        self.put_state("pending.key", pki.key_pem(key))
        self.put_state("joined.json", json.dumps(note))
        return note

    def put_state(self, name, data):
        path = self.state / name
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        path.chmod(0o600)

    def put_joined_before(self, identity, server, *, ca=None, embedded=False, kubeconfig=None, paths=None):
        """A machine that kubelet or kubeadm joined: dated file, link, kubeconfig, and ca.crt if `ca` is set. An earlier start of the
        service has found the join."""
        dated = f"{self.PKI}/kubelet-client-2026-01-02-03-04-05.pem"
        self.put(dated, identity.combined)
        link = self.target(self.CURRENT)
        link.unlink(missing_ok=True)
        link.symlink_to("/" + dated)
        if ca is not None:
            self.put(self.CA_FILE, ca.pem, 0o644)
        self.put(self.ENV, f"KUBELET_NODE_NAME={pki.common_name(identity.certs[0]).removeprefix('system:node:')}\n", 0o644)
        self.put(kubeconfig or self.KUBECONFIG, node_kubeconfig(server, identity if embedded else None, paths or ["/" + self.CURRENT] * 2))

    # At the end of each test.

    def check_secret(self):
        """The token's secret is only in the credential, and private keys are only where they belong."""
        for run in self.runs:
            for text in (run.stderr, run.stdout, *run.statuses):
                assert not any(secret in text for secret in [*self.secrets, "PRIVATE KEY"]), "a secret was printed"
        for folder in (self.state, self.root, self.etc):
            for path in folder.rglob("*"):
                if path.is_file() and not path.is_symlink() and path not in self.secret_files and path.stat().st_size < 1 << 22:
                    assert not any(secret.encode() in path.read_bytes() for secret in self.secrets), f"the token is in {path}"

    def end(self):
        for run in self.runs:
            run.end()


def node_kubeconfig(server, embedded=None, paths=("/var/lib/kubelet/pki/kubelet-client-current.pem",) * 2):
    """A kubeconfig as kubelet writes it, or with the identity embedded."""
    if embedded:
        certificate, key = (base64.b64encode(pem).decode() for pem in (embedded.chain, pki.key_pem(embedded.key)))
        user = f"    client-certificate-data: {certificate}\n    client-key-data: {key}\n"
    else:
        user = f"    client-certificate: {paths[0]}\n    client-key: {paths[1]}\n"
    return (f"apiVersion: v1\nclusters:\n- cluster:\n    certificate-authority: /etc/kubernetes/pki/ca.crt\n    server: {server}\n  name: default-cluster\n"
            "contexts:\n- context:\n    cluster: default-cluster\n    namespace: default\n    user: default-auth\n  name: default-context\n"
            f"current-context: default-context\nkind: Config\npreferences: {{}}\nusers:\n- name: default-auth\n  user:\n{user}")


class World:
    """A cluster, one endpoint of it, and a machine that is configured for it."""

    endpoint_type = apiserver.ApiServer
    machine_type = Machine
    pending = None      # the name of the CSR that last.json has

    def __init__(self, path):
        self.cluster = self.new_cluster()
        self.server = self.endpoint_type(self.cluster).start()
        self.machine = self.machine_type(path)
        self.configure()
        self._more, self._closing = [], []

    def new_cluster(self):
        return apiserver.Cluster(tokens={TOKEN_ID: apiserver.Token(SECRET)})

    def configure(self, *servers, **settings):
        self.machine.configure(*(servers or [self.server]), **settings)

    def endpoint(self, cluster=None, **options):
        """Another endpoint, of this cluster or of another one."""
        server = self.endpoint_type(cluster or self.cluster, **options).start()
        self._more.append(server)
        return server

    def stranger(self, **options):
        """An unrelated cluster; a machine must never trust it."""
        cluster = apiserver.Cluster(**options)
        cluster.hostile = True
        return cluster

    def closing(self, thing):
        self._closing.append(thing)
        return thing

    def csrs(self):
        return list(self.cluster.csrs.objects)

    def close(self):
        self.machine.end()
        for server in (self.server, *self._more):
            server.stop()
        for thing in self._closing:
            thing.close()

    def check(self):
        self.machine.check_secret()
        for server in (self.server, *self._more):
            assert server.cluster.violations == []


class Case:
    """A row of a table: a fault, and what is then reported.

    `prepare(world)` makes it bad and may return a dict of arguments for `Machine.configure`. Failures that are retried get a
    short `timeout:` in the settings; those that are final get none, and so must end by themselves.
    """

    world = World
    untouched = {}          # what is below the machine's root when the join is over

    def __init__(self, name, prepare, code, exit_status, *words, requests=None, csrs=None, check=None, faketime=None, **settings):
        self.name, self.prepare, self.code, self.exit, self.words = name, prepare, code, exit_status, words
        self.requests, self.csrs, self.check, self.faketime, self.settings = requests, csrs, check, faketime, settings

    def play(self, path, has_leisure=False):
        path.mkdir()
        world = self.world(path)
        try:
            changes = self.prepare(world)
            settings = {**(changes if isinstance(changes, dict) else {}), **self.settings}
            if self.code:
                settings.setdefault("timeout", "infinity" if FAILURES[self.code]["class"] == "fatal" else "5s")
                if has_leisure and settings["timeout"] != "infinity":
                    settings["timeout"] = "30s"
            servers = settings.pop("servers", None) or [world.server]
            world.configure(*servers, **settings)
            run = self.join(world)
            try:
                self.verify(world, run)
                had_time = True
            except AssertionError:
                had_time = has_leisure or not self.code or settings["timeout"] == "infinity"
                if had_time:
                    raise
        finally:
            world.close()
        world.check()
        if not had_time:        # on a busy machine, a short timeout may end the join before it meets the fault
            self.faketime = None if self.faketime and " x" in self.faketime else self.faketime     # a clock that runs faster
            self.play(path.with_name(f"{path.name}-with-leisure"), True)

    def join(self, world):
        return world.machine.join(faketime=self.faketime)

    def verify(self, world, run):
        if self.code:
            run.failed(self.code, self.exit, *self.words)
            assert not (world.machine.state / "joined.json").exists()
        else:
            run.joined()
            for word in self.words:
                assert word in run.stderr, f"{word!r} is not in:\n{run.stderr}"
        assert world.machine.target_names() == self.untouched
        if self.requests is not None:
            assert world.server.kinds == self.requests
        if self.csrs is not None:
            assert len(world.csrs()) == self.csrs
        if self.check:
            self.check(world, run)
