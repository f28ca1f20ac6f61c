# SPDX-License-Identifier: Apache-2.0
"""Which machine this is: one that was renamed keeps its node, a copy joins again, and a join waits for a host name that is set late."""

import itertools
import json
import os
import shutil
import signal
import subprocess

import pytest

from common import faults, pki
from common.machine import HEADER, NODE, Machine, find_program, to_yaml
from .crash import points, put_back, save, traced
from .installed import snapshot

ID, OTHER_ID, UUID, OTHER_UUID = "a" * 32, "b" * 32, "4c4c4544-0046-3010-8056-b9c04f4b4c32", "4c4c4544-0046-3010-8056-b9c04f4b4c33"
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="a host name of its own needs root")
UNDER_ANOTHER_HOST_NAME = 'printf %s "$1" >/proc/sys/kernel/hostname; shift; exec "$@"'


def set_name(run, name):
    subprocess.run(["nsenter", f"--uts=/proc/{run.pid}/ns/uts", "hostname", name], check=True)


def put_facts(machine, machine_id=ID, uuid=UUID):
    machine.put("etc/machine-id", machine_id + "\n", 0o444)
    machine.put("sys/class/dmi/id/product_uuid", uuid + "\n", 0o400)


def named(host):
    return [shutil.which("unshare"), "--uts", "sh", "-c", UNDER_ANOTHER_HOST_NAME, "-", host]


def start_named(machine, host, program, *words):
    return machine.start(*named(host), find_program(program), *words)


def boot(machine, host):
    """The command of the unit."""
    return start_named(machine, host, "install", *machine.install_words(f"--program={machine.program('node-bootstrap')}")).wait()


def without_name(world, **settings):
    world.machine.write_settings(HEADER + to_yaml({
        "discovery": {"endpoints": [world.server.endpoint], "caCertHashes": [world.cluster.ca.pin]}, "timeout": "80s", **settings}))


def with_name(world, name):
    without_name(world, node={"name": name})


@pytest.fixture
def joined(world):
    """A machine that has joined under its host name."""
    without_name(world)
    put_facts(world.machine)
    boot(world.machine, NODE).joined()
    world.server.connections.clear()
    return world


def record(machine):
    return json.loads(machine.read(Machine.RECORD))


def node(machine):
    return machine.installed_identity()[0][0].subject.rfc4514_string().split("system:node:")[1].split(",")[0]


@ROOT_ONLY
def test_record(joined):
    found = record(joined.machine)
    assert (found["version"], found["node"], found["hostName"], len(found["machineID"]), len(found["hardwareID"])) == (1, NODE, NODE, 64, 64)
    assert ID not in json.dumps(found) and UUID not in json.dumps(found)


# Each fact: the same, another one, or not known now.
FACTS = list(itertools.product([NODE, "node-2", "localhost"], [ID, OTHER_ID, "uninitialized"], [UUID, OTHER_UUID, "0" * 32]))


@ROOT_ONLY
def test_two_changed_facts_are_a_copy(joined):
    """One is not, and then there is no connection and no change on disk. Each changed fact is reported."""
    machine = joined.machine
    for host, machine_id, uuid in FACTS:
        changed = (host == "node-2") + (machine_id == OTHER_ID) + (uuid == OTHER_UUID)
        put_facts(machine, machine_id, uuid)
        files = snapshot(machine.root)
        if host == "localhost" and changed == 1:        # the service waits for its name
            assert start_named(machine, host, "install", "--gate", f"--root={machine.root}").wait().exit == 0
            continue
        run = start_named(machine, host, "install", *machine.install_words("--program=/bin/false")).wait()
        assert (run.exit == 0) == (changed < 2), (host, machine_id, uuid, run.stderr)
        assert (" is a copy of the one that joined" in run.stderr) == (changed >= 2), run.stderr
        assert (" differs from that of the join" in run.stderr) == (changed == 1), run.stderr
        assert snapshot(machine.root) == files and joined.server.connections == []


TOKEN_FILE = "etc/credstore/node-bootstrap.token"


@ROOT_ONLY
def test_copy_gets_its_name_late(joined):
    """The service waits for the name that decides, for as long as DHCP needs, and keeps the token. The gate does not wait."""
    machine = joined.machine
    put_facts(machine, OTHER_ID)
    without_name(joined, token={"discard": True})
    machine.put(TOKEN_FILE, "its own")
    run = start_named(machine, "localhost", "install", *machine.install_words(f"--program={machine.program('node-bootstrap')}"))
    run.wait_for_status("Waiting for the host name")
    assert machine.target(TOKEN_FILE).exists() and joined.server.connections == []
    set_name(run, "node-2")
    run.wait().joined()
    assert " is a copy of the one that joined" in run.stderr and node(machine) == "node-2" and not machine.target(TOKEN_FILE).exists()


@ROOT_ONLY
def test_token_of_a_machine_that_may_be_a_copy(joined):
    """Its machine ID may also be another one."""
    machine = joined.machine
    without_name(joined, token={"discard": True})
    machine.put(TOKEN_FILE, "maybe its own")
    put_facts(machine, "uninitialized", OTHER_UUID)
    boot(machine, NODE).joined()
    assert machine.target(TOKEN_FILE).exists()
    put_facts(machine, ID, OTHER_UUID)
    boot(machine, NODE).joined()
    assert not machine.target(TOKEN_FILE).exists()


@ROOT_ONLY
def test_copy_joins_again(joined):
    machine = joined.machine
    put_facts(machine, OTHER_ID)
    run = boot(machine, "node-2").joined()
    assert f"certificate is for node '{NODE}', and this machine is a copy" in run.stderr and "host name and machine ID differ" in run.stderr
    assert (node(machine), record(machine)["node"], record(machine)["hostName"]) == ("node-2",) * 3
    assert "node 'node-2' has already joined" in boot(machine, "node-2").joined().stderr


@ROOT_ONLY
def test_certificate_of_a_copy_is_no_fallback(joined):
    """Even if its settings are damaged, or contain another node name."""
    machine = joined.machine
    put_facts(machine, OTHER_ID)
    joined.server.on_connect = faults.reset
    without_name(joined, timeout="1s")
    assert boot(machine, "node-2").exit == 69
    without_name(joined, node={"name": "node-3"}, timeout="1s")
    assert boot(machine, "node-2").exit == 69
    machine.write_settings("{[")
    boot(machine, "node-2").failed("settings-malformed", 78)


@ROOT_ONLY
def test_node_name_of_the_certificate(joined):
    """The remedy: from then on, this machine is that node, even without the setting."""
    machine = joined.machine
    put_facts(machine, OTHER_ID)
    with_name(joined, NODE)
    assert "is that node from now on" in boot(machine, "node-2").joined().stderr
    without_name(joined)
    boot(machine, "node-2").joined()
    assert joined.server.connections == [] and (node(machine), record(machine)["hostName"]) == (NODE, "node-2")


@ROOT_ONLY
def test_another_node_name_in_the_settings(joined):
    """Joins again; while that fails, the old certificate stays in use."""
    machine = joined.machine
    without_name(joined, node={"name": "node-3"}, timeout="1s")
    joined.server.on_connect = faults.reset
    run = boot(machine, NODE).joined()
    assert "joining again failed" in run.stderr and node(machine) == NODE
    with_name(joined, "node-3")
    joined.server.on_connect = None
    boot(machine, NODE).joined()
    assert node(machine) == "node-3"


@ROOT_ONLY
def test_expired_and_renamed(joined):
    """The name is fixed at the join, also for the next one."""
    machine = joined.machine
    expired = joined.cluster.ca.node(NODE, start=-pki.DAY, end=-pki.HOUR)
    machine.put(record(machine)["certificate"].lstrip("/"), expired.combined)
    boot(machine, "node-2").joined()
    assert node(machine) == NODE and record(machine)["hostName"] == "node-2"


@ROOT_ONLY
@pytest.mark.parametrize("is_own", [True, False], ids=["kubelet's own", "of another CA"])
def test_serving_certificate_of_a_copy(joined, is_own):
    """kubelet has signed it itself, for the name of the other machine: it makes a new key."""
    machine = joined.machine
    key = pki.new_key()
    ca = pki.CA(f"{NODE}-ca@1700000000" if is_own else "site")
    machine.put(f"{Machine.PKI}/kubelet.crt", pki.cert_pem(ca.client(key.public_key(), f"{NODE}@1700000000", ())) + ca.pem)
    machine.put(f"{Machine.PKI}/kubelet.key", pki.key_pem(key))
    boot(machine, "node-2").joined()
    assert machine.target(f"{Machine.PKI}/kubelet.key").exists()
    put_facts(machine, OTHER_ID)
    run = boot(machine, "node-2").joined()
    assert [machine.target(f"{Machine.PKI}/kubelet.{end}").exists() for end in ("crt", "key")] == [not is_own] * 2
    assert ("replace it and its key" in run.stderr) == (not is_own)


@ROOT_ONLY
def test_copy_whose_join_cannot_be_written(joined, strace):
    """Whichever call fails: kubelet's serving key is there as long as the record is that of the original."""
    machine = joined.machine
    key = pki.new_key()
    pem = pki.cert_pem(pki.CA(f"{NODE}-ca@1700000000").client(key.public_key(), f"{NODE}@1700000000", ()))
    machine.put(f"{Machine.PKI}/kubelet.crt", pem)
    machine.put(f"{Machine.PKI}/kubelet.key", pki.key_pem(key))
    put_facts(machine, OTHER_ID, OTHER_UUID)
    with_name(joined, "node-2")
    machine.put_handoff(joined.cluster.ca, joined.server.url, node="node-2")
    files = save(machine)
    words = machine.install_words("--program=")
    traced(machine, strace, "install", *words).joined()
    outcomes = set()
    for name, number in points(machine):
        if not name.startswith(("rename", "fsync", "symlink")):
            continue
        put_back(machine, files)
        run = traced(machine, strace, "install", *words, inject=f"{name}:error=EIO:when={number}")
        left = [machine.target(f"{Machine.PKI}/kubelet.{end}").exists() for end in ("crt", "key")]
        assert left == [record(machine)["node"] == NODE] * 2, f"{name} {number}: {run.stderr}"
        outcomes.add((run.exit == 0, *left))
        assert not [name for name in machine.target_names() if "kubelet.key." in name]
    assert outcomes >= {(True, False, False), (False, True, True)}


# The paths of kubelet's files are fixed at the join as well.

PLACES = {"kubeconfig": "/srv/kubelet.conf", "certificateDirectory": "/srv/pki", "caFile": "/srv/ca.crt"}


def test_other_paths_later_are_a_warning(world):
    machine = world.machine
    machine.unit().joined()
    world.server.connections.clear()
    machine.configure(world.server, kubelet=PLACES)
    run = machine.unit().joined()
    assert "the paths of kubelet's files in the settings differ" in run.stderr and world.server.connections == [] and not machine.target("srv").exists()


def test_paths_of_the_settings_are_recorded(world):
    """kubeadm has joined this machine in other places: found by the settings once, and then without them."""
    machine = world.machine
    machine.configure(world.server, kubelet=PLACES)
    machine.unit().joined()
    machine.target(Machine.ENV).unlink()
    (machine.target("srv/pki/node-bootstrap.json")).unlink()
    machine.unit().joined()
    assert "/srv/kubelet.conf" in machine.read(Machine.ENV)
    machine.write_settings("{[")
    assert "has joined, so kubelet can start" in machine.unit().joined().stderr


def joined_in_other_places(world, text):
    """`text` is all that is left of node-bootstrap.env; None: nothing."""
    machine, ca = world.machine, world.cluster.ca
    machine.put_joined_before(ca.node(NODE), world.server.url, ca=ca, kubeconfig="srv/kubelet.conf")
    machine.target(Machine.ENV).unlink()
    if text is not None:
        machine.put(Machine.ENV, text, 0o644)
    assert machine.gate().exit == 1


CUT = pytest.mark.parametrize("text", [None, "", "KUBELET_NODE_NAME=", "NODE_BOOTSTRAP_CA_FILE=/srv/ca.crt\n"])


@CUT
def test_environment_file_is_cut(world, text):
    """What is left of it says nothing of the paths: the settings do, and the file is written again."""
    joined_in_other_places(world, text)
    world.configure(kubelet={"kubeconfig": "/srv/kubelet.conf"})
    world.machine.unit().joined()
    assert world.machine.gate().exit == 0 and world.server.connections == []


@CUT
def test_environment_file_is_cut_and_another_join_fails(world, tmp_path, text):
    joined_in_other_places(world, text)
    world.configure(kubelet={"kubeconfig": "/srv/kubelet.conf"}, node="other")
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nexit 69\n")
    program.chmod(0o755)
    run = world.machine.start("install", *world.machine.install_words(f"--program={program}")).wait()
    assert run.exit == 0 and "joining again failed" in run.stderr and world.machine.gate().exit == 0


def test_name_in_the_environment_file_is_damaged(joined):
    machine = joined.machine
    good = machine.read(Machine.ENV)
    machine.put(Machine.ENV, good.replace(NODE, "other"), 0o644)
    boot(machine, NODE).joined()
    assert machine.read(Machine.ENV) == good


def test_environment_file_cannot_be_written(world):
    """The gate would not find the certificate: the service says so, and does not claim to have joined."""
    joined_in_other_places(world, None)
    world.machine.target(Machine.ENV).mkdir()
    world.configure(kubelet={"kubeconfig": "/srv/kubelet.conf"})
    world.machine.unit().failed("target-unwritable", 73)


# A host name that is set late.

@ROOT_ONLY
@pytest.mark.parametrize("name", ["localhost", "localhost.localdomain", "(none)", "LOCALHOST", "localhost.lan", "Localhost.example.com"])
def test_late_host_name(world, name):
    """The join waits for it, without a request, and goes on."""
    machine = world.machine
    without_name(world)
    run = start_named(machine, name, "install", *machine.install_words(f"--program={machine.program('node-bootstrap')}"))
    run.wait_for_status("host-name-unset")
    run.wait_until(lambda: run.codes == ["host-name-unset"])
    assert world.server.connections == []
    set_name(run, "late-1")
    run.wait().joined()
    assert node(machine) == "late-1" and record(machine)["hostName"] == "late-1"


@ROOT_ONLY
def test_late_host_name_that_changes_once_more(world):
    """The first one names the node: the certificate is not for another one than install expects, which would spend the token."""
    machine = world.machine
    without_name(world)
    world.server.on_connect = faults.reset
    run = start_named(machine, "localhost", "install", *machine.install_words(f"--program={machine.program('node-bootstrap')}"))
    run.wait_for_status("host-name-unset")
    set_name(run, "late-1")
    run.wait_for_status("endpoint-reset")
    set_name(run, "late-2")
    world.server.on_connect = None
    run.wait().joined()
    assert node(machine) == record(machine)["node"] == "late-1" and "--hostname-override=late-1" in machine.read("var/lib/kubelet/kubeadm-flags.env")


@ROOT_ONLY
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_wait_for_the_host_name_is_stopped(world, number):
    without_name(world)
    run = world.machine.start_join(under=named("localhost"))
    run.wait_for_status("host-name-unset")
    run.signal(number)
    assert run.wait(5).exit == 143


@ROOT_ONLY
def test_no_host_name_until_the_deadline(world):
    without_name(world, timeout="1s")
    boot(world.machine, "localhost").failed("host-name-unset", 78, "gave up after")
    assert world.server.connections == []
    run = start_named(world.machine, "localhost", "node-bootstrap", "check", f"--config-directory={world.machine.etc}").wait()
    assert run.exit == 1 and "host-name-unset" in run.stdout + run.stderr and "could begin" not in run.stdout


@ROOT_ONLY
def test_host_name_that_changes_during_the_join(world):
    """The name in the request stays, and kubelet gets it."""
    machine = world.machine
    without_name(world)
    world.server.on_connect = faults.reset
    run = start_named(machine, "early-1", "install", *machine.install_words(f"--program={machine.program('node-bootstrap')}"))
    run.wait_for_attempts(1)
    set_name(run, "late-1")
    world.server.on_connect = None
    run.wait().joined()
    assert node(machine) == "early-1" and "--hostname-override=early-1" in machine.read("var/lib/kubelet/kubeadm-flags.env")
