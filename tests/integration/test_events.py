# SPDX-License-Identifier: Apache-2.0
"""Events (rows that are not failures): each journal entry has the fields that the catalogue shows.

When and why each of them comes about is tested beside what it belongs to; there, its words are on a terminal.
"""

import re
import tempfile
from pathlib import Path

import pytest

from common import csrs, documentation, faults, metadata, pki
from common.failures import FAILURES
from common.machine import NODE, SECRET, TOKEN, Machine, Run, World
from common.wait import until
from . import installed, join_configuration, join_methods
from .cloud import CloudWorld
from .journal import INSIDE, Socket
from .k3s import K3sWorld, Rejoin

pytestmark = pytest.mark.each_release
PRIORITIES = {"debug": "7", "info": "6", "notice": "5", "warning": "4"}


def join(world):
    world.machine.unit().joined()


def join_twice(world):
    join(world)
    join(world)


def join_with_a_stranger_in_the_bundle(world):
    world.cluster.bundle = [pki.CA("extra").pem, world.cluster.ca.pem]
    join(world)


def join_with_an_expired_certificate(world):
    world.machine.put_joined_before(world.cluster.ca.node(NODE, start=-2 * pki.DAY, end=-pki.DAY), world.server.url, ca=world.cluster.ca)
    join(world)


def joined_and_the_clock_is_behind(world):
    world.machine.put_joined_before(world.cluster.ca.node(NODE, start=pki.DAY), world.server.url, ca=world.cluster.ca)
    join(world)


def joined_and_a_setting_is_misspelt(world):
    world.machine.put_joined_before(world.cluster.ca.node(NODE), world.server.url, ca=world.cluster.ca)
    world.machine.write_settings("apiVersion: node-bootstrap/v1\nkind: NodeBootstrap\ndiscovry: {}\n")
    world.machine.unit()


def other_cluster_is_not_there(world):
    installed.other_cluster(world)
    world.server.on_connect = faults.reset
    world.machine.configure(world.server, timeout="5s")
    join(world)


def request_is_deleted(world):
    def delete(cluster, name):
        csrs.delete(after=0.3)(cluster, name)
        cluster.controller = csrs.approve()
    world.cluster.controller = delete
    join(world)


def request_is_another(world):
    key = pki.new_key()
    name = pki.csr_name(key.public_key(), pki.node_user(NODE))
    world.machine.put_state("pending.key", pki.key_pem(key))
    world.cluster.csrs.put(name, key, cn=pki.node_user(NODE), user="system:bootstrap:fedcba")
    join(world)


def key_is_damaged(world):
    world.machine.put_state("pending.key", b"not a key")
    join(world)


def previous_certificate_is_refused(world):
    Rejoin(world).join().joined()


def refresh(world, change=lambda world: None):
    join(world)
    change(world)
    world.machine.unit("--refresh").joined()


def refresh_renewed(world):
    refresh(world, lambda world: setattr(world.cluster, "bundle", [world.cluster.ca.pem, pki.CA("new").pem]))


def refresh_not_shown(world):
    refresh(world, lambda world: world.server.on("cluster-info", faults.forbidden))


def certificate_is_renewed(world):
    world.cluster.life = pki.DAY
    join(world)
    world.cluster.members.add(NODE)
    record = world.machine.target(Machine.RECORD)
    record.write_text(re.sub('"joinedAt": ".*?"', '"joinedAt": "2026-01-02T03:04:05Z"', record.read_text()))
    world.cluster.life = 2 * pki.DAY
    world.machine.unit("--refresh").joined()


def refresh_of_nothing(world):
    world.machine.unit("--refresh").joined()


def kubeadm_document(world):
    path = world.machine.etc / "config.yaml"
    world.configure(document=join_configuration.document(world, "v1beta4", skipPhases=["preflight"]))
    world.machine.secret_files.append(path)
    path.chmod(0o600)
    join(world)


def newer_is_of_another_ca(world):
    world.cluster.bundle = [pki.CA().pem]
    world.configure(discovery={"file": world.give("cluster.conf", world.document())})
    join(world)


def name_in_capitals(world):
    world.configure(node=NODE.upper())
    join(world)


def flags_are_foreign(world):
    world.machine.put("var/lib/kubelet/kubeadm-flags.env", 'KUBELET_KUBEADM_ARGS="--v=2 --hostname-override=other"\n', 0o644)
    join(world)


def two_runtimes(world):
    for name in ("crio/crio.sock", "cri-dockerd.sock"):
        installed.listen(world.machine, f"run/{name}")
    join(world)


def proof_key_is_not_named(world):
    path = Path("/etc/credstore/node-bootstrap.attestation-key")
    path.write_bytes(pki.key_pem(pki.new_key()))
    try:
        join(world)
    finally:
        path.unlink()


def metadata_with_a_document(world):
    world.enter_cloud(metadata.Hetzner)
    join(world)


def metadata_with_nothing(world):
    world.configure(timeout="10s")
    world.enter_cloud(metadata.Hetzner, user_data="#!/bin/sh\n")
    assert world.machine.unit().exit == 78


def setup_with_a_token(world):
    world.machine.secrets.remove(SECRET)        # it is in the image then, and nowhere else
    image = world.machine.path / "image"
    image.mkdir()
    words = f"--endpoint={world.server.endpoint} --token={TOKEN} --ca-cert-hash={world.cluster.ca.pin}".split()
    assert world.machine.start("node-bootstrap", "setup", f"--root={image}", *words).wait().exit == 0


def stop(world):
    world.server.on("create", faults.UNAVAILABLE)
    run = world.machine.start_join()
    run.wait_for_status("503")
    run.signal(15)
    assert run.wait().exit == 143


# code, priority, world, what happens
EVENTS = [
    ("joined", "info", World, join),
    ("installed", "info", World, join),
    ("stage-done", "info", World, join),
    ("certificate-directory-volatile", "warning", World, join),     # the machines of this file are in memory
    ("already-joined", "info", World, join_twice),
    ("stopped", "notice", World, stop),
    ("certificate-left-out", "warning", World, join_with_a_stranger_in_the_bundle),
    ("joining-again", "notice", World, join_with_an_expired_certificate),
    ("set-aside", "notice", World, join_with_an_expired_certificate),
    ("joined-anyway", "warning", World, joined_and_a_setting_is_misspelt),
    ("previous-kept", "warning", World, other_cluster_is_not_there),
    ("not-yet-valid", "warning", World, joined_and_the_clock_is_behind),
    ("csr-submitted-again", "warning", World, request_is_deleted),
    ("csr-conflict", "warning", World, request_is_another),
    ("key-dropped", "warning", World, key_is_damaged),
    ("previous-rejected", "notice", K3sWorld, previous_certificate_is_refused),
    ("refreshed", "notice", World, refresh_renewed),
    ("refresh-unchanged", "info", World, refresh),
    ("renewed", "notice", K3sWorld, certificate_is_renewed),
    ("refresh-inapplicable", "info", World, refresh_of_nothing),
    ("refresh-not-shown", "warning", World, refresh_not_shown),
    ("keys-ignored", "notice", join_methods.World, kubeadm_document),
    ("newer-left-out", "warning", join_methods.World, newer_is_of_another_ca),
    ("node-name-lowered", "notice", World, name_in_capitals),
    ("kubelet-arguments-missing", "warning", World, flags_are_foreign),
    ("runtime-ambiguous", "warning", World, two_runtimes),
    ("attestation-key-unused", "warning", World, proof_key_is_not_named),
    ("metadata-read", "info", CloudWorld, metadata_with_a_document),
    ("metadata-nothing", "notice", CloudWorld, metadata_with_nothing),
    ("token-on-command-line", "warning", World, setup_with_a_token),
]


class Listener:
    """A world in memory, whose machine logs to a journal."""

    def __init__(self, kind):
        self.folder = tempfile.TemporaryDirectory(dir="/dev/shm")
        path = Path(self.folder.name)
        self.world = kind(path)
        (path / "run-folder/systemd/journal").mkdir(parents=True)
        (path / "hosts").write_text("127.0.0.1 localhost\n")
        self.journal = Socket(path / "run-folder/systemd/journal")
        inside = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-ec", INSIDE, str(path)]
        if isinstance(self.world, CloudWorld):
            self.world.machine.wrap = inside
        else:
            self.world.machine.new_run = lambda argv, environment, **options: Run([*inside, *argv], environment, **options)

    def entries(self, code):
        """Those with the MESSAGE_ID of a row of failures.def, as soon as there is one."""
        return until(lambda: [entry for _, entry in self.journal.entries if entry.get("MESSAGE_ID") == FAILURES[code]["message-id"]],
                     lambda: f"an entry of {code} in {self.journal.entries}", pause=0.01)

    def close(self):
        print(*(entry["MESSAGE"] for _, entry in self.journal.entries), sep="\n")
        self.world.close()
        self.journal.close()
        self.world.check()
        self.folder.cleanup()


@pytest.fixture
def listening():
    opened = []
    yield lambda kind: opened.append(Listener(kind)) or opened[-1]
    for listener in opened:
        listener.close()


@pytest.mark.parametrize("code, priority, kind, happen", EVENTS, ids=[row[0] for row in EVENTS])
def test_event(listening, code, priority, kind, happen):
    listener = listening(kind)
    happen(listener.world)
    entries = listener.entries(code)
    assert min(entry["PRIORITY"] for entry in entries) == PRIORITIES[priority]
    for entry in entries:
        assert entry["SYSLOG_IDENTIFIER"] in ("node-bootstrap", "node-bootstrap-install") and entry["MESSAGE"]
        assert "NODE_BOOTSTRAP_CODE" not in entry and FAILURES[code]["class"] == "event"
        shown = " ".join(FAILURES[code][part] for part in ("subject", "what", "unchanged", "remedy"))
        assert [field for field in re.findall(r"@([A-Z0-9_]+)@", shown) if field not in entry] == []


def test_stages_are_listed(listening):
    """node-bootstrap.journal(7) has those of a join."""
    listener = listening(World)
    join(listener.world)
    listener.entries("installed")
    stages = [entry["NODE_BOOTSTRAP_STAGE"] for _, entry in listener.journal.entries if "NODE_BOOTSTRAP_STAGE" in entry]
    listed = re.search(r"The stage of the join:\n((?:\.Li .*\n|or\n)+)", documentation.page("node-bootstrap.journal.7"))[1]
    assert {*stages, "connect"} - {"inspect", "install"} == set(re.findall("[a-z-]{4,}", listed)), "connect is silent if it succeeds"


def test_failure(listening):
    """With the fields that a machine reads."""
    listener = listening(World)
    world = listener.world
    world.cluster.controller = csrs.deny("Policy", "not one of our machines")
    world.machine.join()
    [entry] = listener.entries("csr-denied")
    expected = {"PRIORITY": "3", "NODE_BOOTSTRAP_CODE": "csr-denied", "NODE_BOOTSTRAP_CSR": world.csrs()[0], "NODE_BOOTSTRAP_NODE": NODE,
                "NODE_BOOTSTRAP_ENDPOINT": world.server.endpoint, "NODE_BOOTSTRAP_REASON": "Policy", "NODE_BOOTSTRAP_STAGE": "await"}
    assert {name: entry.get(name) for name in expected} == expected
    assert Machine.KUBECONFIG not in world.machine.target_names()
