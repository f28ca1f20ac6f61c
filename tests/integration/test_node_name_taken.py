# SPDX-License-Identifier: Apache-2.0
"""The stage node: whether another machine has this node name."""

import re

import pytest

from common import faults, pki
from common.apiserver import node_object
from common.machine import HEADER, NODE, Case, to_yaml
from common.wait import until


def there(*arguments, **changes):
    def prepare(world):
        world.cluster.nodes[NODE] = node_object(*arguments, **changes)
    return prepare


def answer(action, **rule):
    return lambda world: world.server.on("node", action, **rule)


def not_ready_after(n):
    """After a machine was reinstalled, its Node stays Ready for a while."""
    def prepare(world):
        there()(world)

        def look(request):
            if len(world.server.seen("node")) > n:
                world.cluster.nodes[NODE] = node_object(ready="Unknown")
        world.server.on("node", look)
    return prepare


def settings(world, **sections):
    world.machine.write_settings(HEADER + to_yaml(sections), "config.yaml.d/20.yaml")


def allowed(world):
    there()(world)
    settings(world, node={"allowExisting": True})


def asked(n):
    def check(world, run):
        assert len(world.server.seen("node")) == n
    return check


def no_request_was_made(world, run):
    assert world.csrs() == [] and not (world.machine.state / "pending.key").exists()


TAKEN = ("node-name-taken", 77)
CASES = [
    Case("no such Node", lambda world: None, None, 0, check=asked(1)),
    Case("Ready", there(), *TAKEN, f"a Node '{NODE}'; this machine can join once", "its kubelet reports: Ready since '2026-01-02T03:04:05Z', "
         "address '192.0.2.77', kubelet 'v1.36.3', OS 'Debian GNU/Linux 13 (trixie)', system UUID '0c5f0d6e-", check=no_request_was_made),
    Case("Ready for five minutes", there(), *TAKEN, "gave up after 5 min", faketime="+0 x30", timeout="infinity"),
    Case("Ready, and nothing more is known", there(status={"conditions": [{"type": "Ready", "status": "True"}]}), *TAKEN),
    Case("not Ready any more, after a while", not_ready_after(2), None, 0, "node-name-taken", check=asked(3)),
    Case("not Ready", there("node-1", "False"), None, 0, check=asked(1)),
    Case("not heard of", there("node-1", "Unknown"), None, 0),
    Case("no condition Ready", there("node-1", None), None, 0),
    Case("no status", there(status={}), None, 0),
    Case("Ready, and allowed", allowed, None, 0, check=asked(0)),
    Case("401", answer(faults.unauthorized), None, 0, csrs=1),
    Case("403", answer(faults.error(403, "Forbidden", "no")), None, 0, csrs=1),
    Case("500, then good", answer(faults.INTERNAL, times=2), None, 0, "server-error", csrs=1),
    Case("500", answer(faults.INTERNAL), "server-error", 69, f"the Node '{NODE}'", check=no_request_was_made),
    Case("web page", answer(faults.PORTAL), "answer-malformed", 65, check=no_request_was_made),
    Case("another Node", there("node-2"), "answer-malformed", 65, "node-2"),
    Case("another kind", there(kind="Pod"), "answer-malformed", 65, "kind"),
    Case("body without end", answer(faults.flood), "answer-malformed", 65),
    Case("answer cut", answer(faults.cut, times=1), None, 0, csrs=1),
]


@pytest.mark.parametrize("case", CASES)
def test_node(played, case):
    played(case)


def test_key_is_written_once(world):
    """An attempt that fails leaves the key to the next: on a slow disk, the server's answer comes too late whenever a key is written."""
    def look(request):
        until(path.exists, "the key is written")    # join writes it meanwhile
        keys.append(path.read_bytes())
        return faults.INTERNAL(request) if len(keys) < 3 else None
    keys, path = [], world.machine.state / "pending.key"
    world.server.on("node", look)
    world.machine.join().joined()
    assert len(keys) == 3 and len(set(keys)) == 1


def test_status_while_it_waits(world):
    """What it waits for, since when, and who has the name; it ends as soon as the Node is deleted."""
    there()(world)
    world.configure(timeout="infinity")
    world.machine.inspect().joined()
    run = world.machine.start_join()
    run.wait_for_status(r"the cluster already has a Node")
    [status] = {status for status in run.statuses if "already has a Node" in status}
    assert re.fullmatch(rf"Waiting since \S+ \S+ UTC: .*'{NODE}'; this machine can join once that Node is no longer Ready; its kubelet reports: .*192.0.2.77.*; "
                        "see 'node-bootstrap explain node-name-taken'", status)
    world.cluster.nodes.clear()
    run.wait().joined()


def test_certificate_of_this_very_node(world):
    """It joins again because kubelet cannot rotate the certificate: the Ready Node is this machine's own."""
    machine = world.machine
    there()(world)
    machine.put_joined_before(world.cluster.ca.node(NODE), world.server.url, ca=world.cluster.ca)
    _, text = machine.installed_identity()
    machine.target(machine.CURRENT).unlink()
    machine.put(machine.CURRENT, text)
    assert machine.inspect().joined().note["verdict"] == "not-rotatable"
    machine.join().joined()
    assert world.server.seen("node") == []


def test_expired_certificate_of_this_node(world):
    """This does not prove that the Node is this machine's: kubelet without a certificate is not Ready for long."""
    there()(world)
    world.configure(timeout="8s")
    world.machine.put_joined_before(world.cluster.ca.node(NODE, start=-pki.DAY, end=-pki.HOUR), world.server.url, ca=world.cluster.ca)
    assert world.machine.inspect().joined().note["verdict"] == "expired"
    world.machine.join().failed(*TAKEN)


# A name that no machine may have.

NO_NAMES = ["localhost", "localhost.localdomain", "localhost.example.org"]


@pytest.mark.parametrize("name", NO_NAMES)
def test_localhost_in_the_settings(world, name):
    world.machine.configure(world.server, node=name)
    world.machine.join().failed("node-name-localhost", 78, name, "config.yaml")
    assert world.server.connections == []


@pytest.mark.parametrize("name", ["localhosts", "node.localhost"])
def test_names_that_only_look_like_it(world, name):
    world.machine.configure(world.server, node=name)
    world.machine.join().joined()
