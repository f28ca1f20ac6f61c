# SPDX-License-Identifier: Apache-2.0
"""node-bootstrap check and setup report what keeps kubelet from starting; systemd is a part of the tests."""

import contextlib
import http.server
import json
import os
import re
import socket
import subprocess
import threading
import time

import pytest

from common import sockets
from common.disk import hung_file_system
from common.failures import FAILURES
from common.machine import NODE, TOKEN, find_program, to_yaml
from .attackers import FAST
from .check import kubelet_below, step_of, texts
from .check_join import put_client
from .journal import last
from .manager import Manager

CODE = "kubelet-unprepared"
GATED = {"After": ["basic.target", "node-bootstrap.service"], "Requires": ["node-bootstrap-gate.service"]}
# Around the program: systemd runs; nothing of the machine is touched.
INSIDE = """mount -t tmpfs tmpfs /run; mkdir /run/systemd; mount --bind "$0/systemd" /run/systemd
mount --bind "$0/swaps" /proc/swaps; if [ -e "$0/last" ]; then cp -r "$0/last" /run/node-bootstrap; fi; exec "$@" """
NO_SWAP = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"


class Place:
    """A machine on which kubelet would start."""

    def __init__(self, world):
        self.world, self.path = world, world.machine.path
        self.binary, self.config, self.socket = (self.path / name for name in ("kubelet", "kubelet.yaml", "runtime.sock"))
        self.binary.write_text("")
        self.binary.chmod(0o755)
        self.write_config(containerRuntimeEndpoint=f"unix://{self.socket}")
        self.listener = socket.socket(socket.AF_UNIX)
        sockets.bind(self.listener, self.socket)
        self.inside, self.swaps = INSIDE, NO_SWAP
        command = [str(self.binary), "$KUBELET_CONFIG_ARGS", "$KUBELET_EXTRA_ARGS"]
        self.unit = {"LoadState": "loaded", "ActiveState": "inactive", "UnitFileState": "enabled", "WantedBy": ["multi-user.target"], **GATED,
                     "ExecStart": [(command[0], command, False, *[0] * 7)],
                     "Environment": [f"KUBELET_KUBECONFIG_ARGS=--kubeconfig={self.path}/kubernetes/kubelet.conf --v=1", f"KUBELET_CONFIG_ARGS=--config={self.config}"],
                     "EnvironmentFiles": [(f"{self.path}/kubelet.env", True)]}
        self.service = {"LoadState": "loaded", "ActiveState": "active", "UnitFileState": "disabled"}
        self.manager = Manager(self.path / "systemd", {"kubelet.service": self.unit, "node-bootstrap.service": self.service})
        self.settings = {}

    def tell(self, *words):
        (self.path / "last").mkdir()
        (self.path / "last/last.json").write_text(last(*words))

    def write_config(self, **values):
        self.config.write_text(to_yaml({"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", **values}))

    def argv(self, *argv):
        (self.path / "swaps").write_text(self.swaps)
        return ["/usr/bin/unshare", "--user", "--map-root-user", "--mount", "sh", "-ec", self.inside, str(self.path), *argv]

    def check(self, **options):
        machine = self.world.machine
        self.world.configure(kubelet={**kubelet_below(self.path), **self.settings})
        argv = self.argv(machine.program("node-bootstrap"), "check", "--json", f"--config-directory={machine.etc}")
        run = machine.start(*argv, **options).wait()
        found = json.loads(run.stdout)
        assert run.stderr == "" and run.exit == (0 if found["good"] else 1)
        assert step_of(found, "request")["state"] == "good", "the cluster was not asked"
        return found

    def good(self, *words):
        found = self.check()
        assert found["good"], json.dumps(step_of(found, "kubelet"))
        for word in words:
            assert word in texts(found, "kubelet")

    def bad(self, *words):
        found = self.check()
        failure = step_of(found, "kubelet")["failure"]
        assert not found["good"] and failure["code"] == CODE and failure["remedy"] == FAILURES[CODE]["remedy"]
        for word in words:
            assert word in failure["detail"], failure["detail"]
        return found


@pytest.fixture
def place(world):
    place = Place(world)
    yield place
    place.listener.close()
    place.manager.close()


def test_kubelet_can_start(place):
    place.good("kubelet.service is enabled", f"runs '{place.binary}'", f"kubelet's configuration: '{place.config}'", f"container runtime: '{place.socket}'",
               "starts after node-bootstrap.service")


def test_gate_that_is_masked(place):
    """kubelet requires it nevertheless."""
    place.manager.units["node-bootstrap-gate.service"]["LoadState"] = "masked"
    found = place.check()
    assert step_of(found, "state")["failure"]["code"] == "unit-masked" and "`systemctl unmask node-bootstrap-gate.service`" in texts(found, "kubelet")


@pytest.mark.parametrize("unit,words", [
    ({"LoadState": "not-found"}, ["kubelet.service does not exist"]),
    ({"LoadState": "masked"}, ["is masked", "systemctl unmask kubelet.service"]),
    ({"LoadState": "bad-setting"}, ["cannot load kubelet.service"]),
    ({"UnitFileState": "disabled", "WantedBy": ["node-bootstrap-gate.service"]}, ["is disabled", "systemctl enable --now kubelet.service"]),
], ids=lambda value: next(iter(value.values())) if isinstance(value, dict) else "")
def test_unit_that_does_not_start(place, unit, words):
    place.unit.update(unit)
    place.bad(*words)


def test_disabled_unit_that_runs(place):
    place.unit.update(ActiveState="active", UnitFileState="disabled", WantedBy=["node-bootstrap-gate.service"])
    found = place.check()
    assert step_of(found, "kubelet")["failure"] is None and "is enabled" not in texts(found, "kubelet")
    assert [row["state"] for row in step_of(found, "kubelet")["rows"] if "`systemctl enable kubelet.service`" in row["text"]] == ["doubt"]


def test_disabled_unit_wanted_by_another(place):
    place.unit["UnitFileState"] = "disabled"
    place.good("kubelet.service is enabled")


def test_missing_binary(place):
    place.binary.unlink()
    place.bad(str(place.binary), "No such file or directory")


def test_binary_is_not_executable(place):
    place.binary.chmod(0o644)
    place.bad(str(place.binary), "is not executable")


def test_missing_configuration(place):
    place.config.unlink()
    place.settings = {"criSocket": f"unix://{place.socket}"}
    place.bad(str(place.config), "is missing")


def test_configuration_from_the_cluster(place):
    place.unit["Environment"][1] = "KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
    place.settings = {"criSocket": f"unix://{place.socket}"}
    place.bad("'/var/lib/kubelet/config.yaml' is missing", "`node-bootstrap setup - --kubelet-config-from=cluster`")
    place.settings["configFrom"] = "cluster"
    place.good("'/var/lib/kubelet/config.yaml' is missing, and node-bootstrap.service will read it from the cluster")
    (place.path / "kubernetes").mkdir()
    (place.path / "kubernetes/kubelet.conf").write_text("kind: Config\n")
    place.settings["configFrom"] = "none"
    assert "`node-bootstrap setup - --kubelet-config-from=cluster --force --no-start`" in step_of(place.check(), "kubelet")["failure"]["detail"]
    place.settings["configFrom"] = "cluster"
    failure = step_of(place.check(), "kubelet")["failure"]
    assert "'/var/lib/kubelet/config.yaml' is missing: `systemctl restart node-bootstrap.service`" in failure["detail"]
    place.tell("kept", "kubelet-config-forbidden")
    failure = step_of(place.check(), "kubelet")["failure"]
    assert (failure["code"], failure["detail"]) == ("kubelet-config-forbidden", "it is kubelet-config-forbidden")
    assert failure["remedy"] == FAILURES["kubelet-config-forbidden"]["remedy"]


def test_each_place_for_the_socket_of_the_runtime(place):
    """Settings override the unit, and arguments override the configuration; containerd's socket is kubelet's default."""
    place.write_config()
    place.bad("'/run/containerd/containerd.sock': No such file or directory", "kubelet.criSocket")
    (place.path / "kubelet.env").write_text(f"KUBELET_EXTRA_ARGS=\"--v=2 --container-runtime-endpoint=unix://{place.path}/other.sock\"\n")
    place.write_config(containerRuntimeEndpoint=f"unix://{place.socket}")
    place.bad(f"'{place.path}/other.sock'")
    place.settings = {"criSocket": str(place.socket)}
    place.good(f"container runtime: '{place.socket}'")


def test_runtime_socket_is_a_file(place):
    place.settings = {"criSocket": str(place.config)}
    place.bad(f"'{place.config}' is not a socket")


def test_swap(place):
    place.swaps = NO_SWAP + "/dev/vda2 partition 1048572 0 -2\n"
    place.bad("swap is on", "swapoff --all")
    place.write_config(containerRuntimeEndpoint=f"unix://{place.socket}", failSwapOn=False)
    place.good("swap is on, and kubelet accepts it")
    place.unit["Environment"].append("KUBELET_EXTRA_ARGS=--fail-swap-on=true")
    place.bad("swap is on")


def test_swap_is_read_from_a_file_without_a_size(place):
    """Files in /proc have none. This one also has a slash after its first line."""
    place.inside = INSIDE.replace('"$0/swaps"', "/proc/$$/mounts")
    place.bad("swap is on", "swapoff --all")


def test_arguments_that_are_too_long(place):
    """Each of the files could be read alone."""
    for name in ("kubelet.env", "more.env"):
        (place.path / name).write_text("X=" + "x" * 200_000)
    place.unit["EnvironmentFiles"].append((f"{place.path}/more.env", True))
    place.good("longer than 256 KiB; only the first ones are checked")


def test_all_failures_are_printed(place):
    place.binary.unlink()
    place.config.unlink()
    place.listener.close()
    place.socket.unlink()
    found = place.bad(str(place.binary))
    bad = [row["text"] for row in step_of(found, "kubelet")["rows"] if row["state"] == "bad"]
    assert len(bad) == 3 and str(place.config) in "".join(bad) and "containerd.sock" in "".join(bad)


def test_unsupported_configuration_syntax(place):
    place.config.write_text("a: &b c\nd: *b\n")
    place.settings = {"criSocket": str(place.socket)}
    place.good("cannot be read here")


def test_node_name(place):
    """The API server rejects a kubelet whose name is not that of its certificate."""
    environment = place.path / "kubelet.env"
    for arguments, words in [(f"--hostname-override={NODE.upper()}", None), ("--hostname-override=${HOST}", None),
                             ("--hostname-override=other", f"kubelet's --hostname-override is 'other', but a join requests a certificate for '{NODE}': set node.name to 'other'"),
                             ("$KUBELET_KUBEADM_ARGS", "kubelet.service uses the host name "), ("--v=2", "kubelet.service uses the host name ")]:
        environment.write_text(f"KUBELET_EXTRA_ARGS='{arguments}'\n")
        step = step_of(place.check(), "kubelet")
        found = [row["text"] for row in step["rows"] if row["state"] == "doubt"]
        assert step["failure"] is None and (len(found) == 1 and words in found[0] if words else not found), found


@contextlib.contextmanager
def started(*argv):
    """A process with this command line."""
    process = subprocess.Popen(["sh", "-c", "echo; read line", *argv], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with process:
        process.stdout.readline()
        yield process
        process.stdin.close()


COMMANDS = [
    ("in ExecStart, after our file", ["$KUBELET_KUBEADM_ARGS", "--hostname-override=other"], [], True),
    ("in ExecStart, before our file", ["--hostname-override=other", "$KUBELET_KUBEADM_ARGS"], [], False),
    ("in Environment=, after our file", ["$KUBELET_KUBEADM_ARGS", "$KUBELET_EXTRA_ARGS"], ["KUBELET_EXTRA_ARGS=--v=2 --hostname-override=other"], True),
    ("in Environment=, before our file", ["$KUBELET_EXTRA_ARGS", "$KUBELET_KUBEADM_ARGS"], ["KUBELET_EXTRA_ARGS=--hostname-override=other"], False),
    ("in Environment= that a file replaces", ["$KUBELET_KUBEADM_ARGS"], ["KUBELET_KUBEADM_ARGS=--hostname-override=other"], False),
    ("in a part of a word", ["$KUBELET_KUBEADM_ARGS", "--hostname-override=${NAME}"], ["NAME=other"], True),
    ("in a variable that ExecStart does not have", ["$KUBELET_KUBEADM_ARGS"], ["KUBELET_EXTRA_ARGS=--hostname-override=other"], False),
]


@pytest.mark.parametrize("arguments, environment, is_wrong", [row[1:] for row in COMMANDS], ids=[row[0] for row in COMMANDS])
def test_which_node_name_is_in_force(place, arguments, environment, is_wrong):
    """The file that a join writes has the right name; in the order of ExecStart, the last one counts."""
    (place.path / "kubelet.env").write_text(f'KUBELET_KUBEADM_ARGS="--hostname-override={NODE}"\n')
    place.unit["ExecStart"] = [(str(place.binary), [str(place.binary), *arguments], False, *[0] * 7)]
    place.unit["Environment"].extend(environment)
    assert ("--hostname-override is 'other'" in texts(place.check(), "kubelet")) is is_wrong


@pytest.mark.parametrize("name, is_wrong", [(NODE, False), ("other", True), (None, False)])
def test_node_name_of_a_kubelet_that_runs(place, name, is_wrong):
    """Its unit was changed since."""
    place.unit["Environment"].append(f"KUBELET_EXTRA_ARGS=--hostname-override={'other' if name == NODE else NODE}")
    arguments = [f"--hostname-override={name}"] if name else []
    with started("kubelet", *arguments) as kubelet:
        place.unit.update(ActiveState="active", MainPID=kubelet.pid)
        assert ("--hostname-override is 'other'" in texts(place.check(), "kubelet")) is is_wrong


def set_up(place, *options, token=("--token", TOKEN, "--discovery-token-ca-cert-hash", "sha256:" + "ab" * 32)):
    argv = place.argv(find_program("node-bootstrap"), "setup", "--no-start", "10.0.0.1:6443", *token, *options)
    argv[argv.index("-ec") + 1] = "mount -t tmpfs tmpfs /etc; " + INSIDE
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env={"PATH": "/usr/sbin:/usr/bin"})
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_setup_prints_why_kubelet_cannot_start(place):
    """Before it enables the service. Its exit status is that of the join, which does not need kubelet."""
    place.binary.unlink()
    said = set_up(place)
    assert f"kubelet cannot start: '{place.binary}', which kubelet.service runs: No such file or directory\n" in said
    assert "kubelet.service is enabled" not in said and said.index("kubelet cannot start") < said.index("enabled  node-bootstrap.service\n")
    assert place.manager.calls == [("EnableUnitFiles", "node-bootstrap.service"), ("Reload", "")]


def test_setup_with_the_configuration_of_the_cluster(place):
    place.unit["Environment"][1] = "KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
    missing = "kubelet cannot start: kubelet's configuration '/var/lib/kubelet/config.yaml' is missing"
    said = set_up(place)
    assert missing in said and "once this machine has joined, run `node-bootstrap setup - --kubelet-config-from=cluster --force --no-start`" in said
    assert missing not in set_up(place, "--kubelet-config-from=cluster")


def test_setup_says_what_contradicts_k3s(place):
    """kubelet can start. With a token of another cluster there is no contradiction."""
    full = ("--token", f"K10{'ab' * 32}::{TOKEN}")
    place.write_config(containerRuntimeEndpoint=f"unix://{place.socket}", rotateCertificates=True, clusterDNS=["10.43.0.10"])
    said = set_up(place, token=full)
    assert f"kubelet: '{place.config}': authentication.x509.clientCAFile is ''" in said and "kubelet cannot start" not in said
    assert f"kubelet: '{place.config}': rotateCertificates is true" in said and "clusterDNS" not in said
    assert "rotateCertificates" not in set_up(place)
    place.write_config(containerRuntimeEndpoint=f"unix://{place.socket}", clusterDNS=["10.43.0.10"],
                       authentication={"x509": {"clientCAFile": "/etc/kubernetes/pki/client-ca.crt"}})
    assert f"'{place.config}'" not in set_up(place, token=full)


def test_a_newline_begins_no_property(place):
    place.unit["Environment"].append("A=b\nLoadState=masked")
    place.unit = {"Environment": place.unit.pop("Environment"), **place.unit}
    place.manager.units["kubelet.service"] = place.unit
    place.good("kubelet.service is enabled")


def test_units_that_systemd_does_not_show(place):
    place.manager.units.clear()
    assert "kubelet: not checked: systemd does not answer" in texts(place.check(), "kubelet")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a file system")
def test_files_on_a_file_server_that_is_dead(place):
    """No step waits for them, since no signal but SIGKILL would end it."""
    place.inside = f'mount -t tmpfs tmpfs /var/lib; mkdir /var/lib/kubelet; ln -s "$0/hung/pki" /var/lib/kubelet/pki; {INSIDE}'
    with hung_file_system(place.path / "hung"):
        found = place.check(faketime=FAST)
    assert "kubelet's files cannot be read within 10 s: their file system does not answer" in texts(found, "state")
    assert not {"files", "kubelet", "node-access"} & {step["step"] for step in found["steps"]}


@contextlib.contextmanager
def health_port(status, family=socket.AF_INET):
    """As that of kubelet."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status if self.path == "/healthz" else 404)
            self.end_headers()

        def log_message(self, *_):
            pass

    server_class = type("Server", (http.server.ThreadingHTTPServer,), {"address_family": family})
    with server_class(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever).start()
        yield server.server_address[1]
        server.shutdown()


@pytest.fixture
def running(place):
    place.unit["ActiveState"] = place.service["ActiveState"] = "active"
    place.settings = {"criSocket": str(place.socket)}
    return place


def test_healthy_kubelet(running):
    with health_port(200) as port:
        running.write_config(healthzPort=port)
        found = running.check()
        assert found["good"] and texts(found, "health") == f"kubelet: healthy (http://127.0.0.1:{port}/healthz)"
    with health_port(200, socket.AF_INET6) as port:
        running.unit["Environment"].append(f"KUBELET_EXTRA_ARGS=--healthz-port={port} --healthz-bind-address=::1")
        found = running.check()
        assert found["good"] and texts(found, "health") == f"kubelet: healthy (http://[::1]:{port}/healthz)"


def test_kubelet_that_is_not_healthy(running):
    with health_port(500) as port:
        running.write_config(healthzPort=port)
        failure = step_of(running.check(), "health")["failure"]
        assert failure["code"] == "kubelet-down" and failure["detail"].endswith(f"http://127.0.0.1:{port}/healthz answers with status 500")
        running.unit["ActiveEnterTimestampMonotonic"] = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        found = running.check()
        assert found["good"] and re.search("; kubelet was started [0-9] s ago$", texts(found, "health"))
    running.unit["ActiveEnterTimestampMonotonic"] = 0
    failure = step_of(running.check(), "health")["failure"]
    assert failure["code"] == "kubelet-down" and f"127.0.0.1:{port}" in failure["detail"], "it refuses the connection"


def test_service_that_has_failed(place):
    """What it reports is a failure here, although a join could start."""
    code = "kubelet-config-missing"
    place.service.update(ActiveState="failed", SubState="failed", StatusText="Not joined")
    place.tell("failed", code)
    found = place.check()
    failure = step_of(found, "state")["failure"]
    assert found["failure"] == failure["code"] == code and f"({code}): it is {code}" in failure["detail"]
    assert failure["remedy"].startswith(FAILURES[code]["remedy"][:40])


@pytest.mark.parametrize("active, age, words", [
    (("active", "running"), 20, "does not exist yet; kubelet was started 2[0-9] s ago"),
    (("active", "running"), 31, None),
    (("activating", "auto-restart"), 31, r"does not exist yet; kubelet.service is activating \(auto-restart\)"),
    (("inactive", "dead"), 0, None),
    (("inactive", "dead", (1, "/job")), 0, r"does not exist yet; kubelet.service is inactive \(dead\)"),
], ids=["young", "old", "keeps exiting", "stopped", "queued"])
def test_node_that_does_not_exist_yet(running, active, age, words):
    """kubelet 1.20 creates its Node 12 s after its start; the remedy for a deleted Node restarts kubelet."""
    put_client(running.world)
    running.world.cluster.nodes.clear()
    running.write_config(healthzPort=0)
    running.unit.update(zip(("ActiveState", "SubState", "Job"), active))
    running.unit["ActiveEnterTimestampMonotonic"] = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000 - age * 1000000
    found = running.check()
    step = step_of(found, "node-access")
    assert step["state"] == ("doubt" if words else "bad")
    assert re.search(words, texts(found, "node-access")) if words else step["failure"]["code"] == "node-deleted"


def test_kubelet_that_does_not_answer(running):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        running.write_config(healthzPort=listener.getsockname()[1])
        assert step_of(running.check(), "health")["failure"]["code"] == "kubelet-down"


@pytest.mark.parametrize("values", [
    {"healthzPort": 0}, {"healthzPort": -1}, {"healthzPort": 65536}, {"healthzPort": "1_0248"}, {"healthzPort": "10248abc"}, {"healthzPort": "000000000000000010248"},
    {"healthzBindAddress": "localhost"},
], ids=str)
def test_kubelet_without_a_health_port(running, values):
    running.write_config(**values)
    assert_not_asked(running)


def assert_not_asked(running):
    assert not any(step["step"] == "health" for step in running.check()["steps"])


def test_unknown_health_port(running):
    """It may be off in a configuration that only kubelet can read, or in a file of --config-dir."""
    running.unit["Environment"].append("KUBELET_EXTRA_ARGS=--config-dir=/etc/kubelet.d")
    assert_not_asked(running)
    del running.unit["Environment"][-1]
    running.config.write_text("a: &b c\nhealthzPort: 0\n")
    assert_not_asked(running)
