# SPDX-License-Identifier: Apache-2.0
"""No process that root starts by hand talks to the network as root or with a capability: seen from outside, by the peers and by strace."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading

import pytest

from common.endpoint import Hangup
from common.machine import NODE, TOKEN, find_program
from common.namespace import Namespace
from common.wait import PATIENCE
from .check import kubelet_below
from .cloud import CloudWorld
from .socket_owners import FIND, Watch, assert_unprivileged

pytestmark = [pytest.mark.each_release, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]

def test_unprivileged_process_queries_the_api_server(world):
    watch = Watch(world.server)
    world.configure(kubelet=kubelet_below(world.machine.path))
    run = world.machine.start("node-bootstrap", "check", f"--config-directory={world.machine.etc}").wait()
    assert run.exit == 0 and f"there is no Node '{NODE}'" in run.stdout and run.stderr == "", run.stdout
    assert {request.kind for request in world.server.requests} >= {"cluster-info", "review", "node"}
    assert len(watch.owners) >= 2, "not every connection was looked at"
    assert_unprivileged(watch.owners)


def test_unprivileged_process_queries_metadata(tmp_path):
    world = CloudWorld(tmp_path)
    try:
        world.enter_cloud(user_data=world.document(TOKEN))
        watch = Watch(world.cloud, f"{world.namespace.path}/net")
        world.configure()
        run = world.machine.start("node-bootstrap", "check", "--local", f"--config-directory={world.machine.etc}").wait()
        assert run.exit == 0 and "querying Amazon EC2" in run.stdout, run.stdout
        assert watch.owners, "no connection was looked at"
        assert_unprivileged(watch.owners)
    finally:
        world.close()


# In a network name space: hears a question, looks at who asked it, and answers nothing.
NAME_SERVER = FIND + '''
import json, socket, subprocess, sys
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 53))
server.settimeout(60)
with subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL) as program:
    port = f"{server.recvfrom(512)[1][1]:04X}"
    print(json.dumps(find("/proc/self/net", ("udp",), lambda local, remote: local == port)))
    program.terminate()
'''


def test_unprivileged_process_queries_the_name_server(world, tmp_path):
    namespace = Namespace()
    try:
        (tmp_path / "resolv.conf").write_text("nameserver 127.0.0.1\n")
        namespace.bind(str(tmp_path / "resolv.conf"), os.path.realpath("/etc/resolv.conf"))
        world.configure(endpoints=["a.example.com:6443"])
        argv = ["nsenter", f"--mount={namespace.path}/ns/mnt", f"--net={namespace.path}/ns/net", "--", sys.executable, "-c", NAME_SERVER,
                find_program("node-bootstrap"), "check", f"--config-directory={world.machine.etc}"]
        done = subprocess.run(argv, env=world.machine.environment, stdout=subprocess.PIPE, text=True, check=True, timeout=PATIENCE)
        owners = json.loads(done.stdout)
        assert owners
        assert_unprivileged(owners)
    finally:
        namespace.close()


def trace(tmp_path, calls, *argv, env):
    strace = shutil.which("strace") or pytest.skip("strace is not installed")
    output = tmp_path / "trace"
    done = subprocess.run([strace, "--follow-forks", f"--output={output}", f"--trace={calls}", *argv], capture_output=True, text=True,
                          check=False, env={**env, "ASAN_OPTIONS": "detect_leaks=0"})
    return done, output.read_text()


def test_other_commands_open_no_network_socket(world, tmp_path):
    """The trace of `join` has sockets, so the trace works."""
    world.configure()
    machine = world.machine
    machine.inspect().joined()
    join = machine.child_words("join")
    machine.unit().joined()
    program, settings = find_program("node-bootstrap"), f"--config-directory={machine.etc}"
    (tmp_path / "image").mkdir()
    (tmp_path / "user-data").write_text(f"#cloud-config\nnode_bootstrap: {{discovery: {{endpoints: [10.0.0.1:6443], token: {TOKEN}}}}}\n")
    line = ["10.0.0.1:6443", "--token", TOKEN, "--discovery-token-ca-cert-hash", "sha256:" + "ab" * 32]
    commands = {
        "join": join,
        "check --local": [program, "check", "--local", settings],
        "check --user-data": [program, "check", f"--user-data={tmp_path}/user-data"],
        "setup": [program, "setup", f"--root={tmp_path}/image", *line],
        "setup --dry-run": [program, "setup", "--dry-run", *line],
        "setup that starts the service": [program, "setup", *line],
        "status": [program, "status", settings],
        "explain": [program, "explain", "token-unknown"],
        "reset": [program, "reset", "--all"],
        "reset of the installer": [find_program("install"), f"--root={machine.root}", settings, "--reset"],
    }
    found = {}
    for name, argv in commands.items():
        _, text = trace(tmp_path, "socket,execve", *argv, env=machine.environment)
        assert "execve(" in text
        found[name] = "socket(AF_INET" in text
    assert [name for name, has_socket in found.items() if has_socket] == ["join"]


def test_check_uses_the_network_after_its_last_capability_is_gone(world, tmp_path):
    """By its system calls."""
    world.configure(kubelet=kubelet_below(world.machine.path))
    done, text = trace(tmp_path, "socket,capset,setresuid,setgroups,setsid", find_program("node-bootstrap"), "check",
                       f"--config-directory={world.machine.etc}", env=world.machine.environment)
    assert done.returncode == 0, done.stdout
    first = text.index("socket(AF_INET")
    assert "effective=0, permitted=0, inheritable=0" in text[text.rindex("capset(", 0, first):first]
    assert text.index("setsid(") < text.index("setgroups(0") < text.index("setresuid(") < first
    last = {line.split()[0]: line for line in text[:first].splitlines() if "capset(" in line}
    assert len(last) == 2, "check, and the process that forks its connections"
    assert all("effective=0, permitted=0, inheritable=0" in line for line in last.values())


@pytest.mark.parametrize("number,status", [(signal.SIGINT, 143), (signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_child_ends_with_the_command(world, number, status):
    asked, ended = threading.Event(), threading.Event()

    def wait(request):
        asked.set()
        request.connection.sock.settimeout(PATIENCE)
        try:
            assert request.connection.sock.recv(1) == b""
        except OSError:
            pass
        ended.set()
        raise Hangup

    world.configure()
    world.server.on("any", wait)
    run = world.machine.start("node-bootstrap", "check", f"--config-directory={world.machine.etc}")
    assert asked.wait(PATIENCE)
    run.signal(number)
    assert run.wait().exit == status and ended.wait(PATIENCE)
