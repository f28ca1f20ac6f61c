# SPDX-License-Identifier: Apache-2.0
"""Whether this machine has joined: the states that install finds, and what `join` and `install` do."""

import hashlib
import json
import os
import signal

import pytest

from common import apiserver, csrs, faults, pki
from common.disk import hung_file_system
from common.machine import NODE, TOKEN_ID, Machine, node_kubeconfig
from .attackers import FAST
from .installed import DATED, OTHER, SERVER, before, other_cluster, other_pin, own_pin, plain_file, record, snapshot
from .join_methods import DOCUMENT, HEADER, K3S, discover_by


class Row:
    """make(machine, ca) creates files; the expected state, and whether the certificate is still usable."""

    def __init__(self, name, make, verdict, fallback=False, words=(), pins=None):
        self.name, self.make, self.verdict, self.fallback, self.words, self.pins = name, make, verdict, fallback, words, pins


def dangling(machine, ca):
    before()(machine, ca)
    machine.target(DATED).unlink()


def rotated(machine, ca):
    """kubelet has renewed since: the link names a later file."""
    before()(machine, ca)
    later = Machine.PKI + "/kubelet-client-2026-05-06-07-08-09.pem"
    machine.put(later, ca.node(NODE).combined)
    machine.target(Machine.CURRENT).unlink()
    machine.target(Machine.CURRENT).symlink_to("/" + later)


def kubeconfig_alone(machine, ca):
    machine.put(Machine.KUBECONFIG, node_kubeconfig(SERVER))


def separate_files(machine, ca):
    """Certificate and key in separate files, as in kubelet's older layout and with other installers."""
    identity = ca.node(NODE)
    machine.put(Machine.ENV, f"KUBELET_NODE_NAME={NODE}\n", 0o644)
    machine.put(Machine.PKI + "/kubelet-client.crt", identity.chain)
    machine.put(Machine.PKI + "/kubelet-client.key", pki.key_pem(identity.key))
    machine.put(Machine.KUBECONFIG, node_kubeconfig(SERVER, paths=[f"/{Machine.PKI}/kubelet-client.{end}" for end in ("crt", "key")]))


def administrator(machine, ca):
    before()(machine, ca)
    key = pki.new_key()
    machine.put(DATED, pki.cert_pem(ca.client(key.public_key(), "admin", ("system:masters",))) + pki.key_pem(key))


BROKEN, LOST = "unreadable", "without-kubeconfig"
ROWS = [
    Row("nothing", lambda machine, ca: None, "absent"),
    Row("certificate without kubeconfig", lambda machine, ca: machine.put(Machine.CURRENT, ca.node(NODE).combined), "absent"),
    Row("as kubelet left it", before(), "usable"),
    Row("renewed by kubelet", rotated, "usable"),
    Row("current is a plain file, which kubelet does not rotate", plain_file, "not-rotatable", True, words=["is a file; expected a link"]),
    Row("plain file, and expired", lambda machine, ca: plain_file(machine, ca, start=-pki.DAY, end=-pki.HOUR), "expired"),
    Row("certificate embedded, as kubeadm init does", before(embedded=True), "usable"),
    Row("certificate and key in separate files", separate_files, "usable"),
    Row("RSA key", before(key="rsa"), "usable"),
    Row("signed by another CA than the servers", before(OTHER), "usable"),
    Row("expires in a minute", before(end=pki.MINUTE), "usable"),
    Row("expired", before(start=-pki.DAY, end=-pki.MINUTE), "expired", words=["expired"]),
    Row("embedded and expired", before(embedded=True, start=-pki.DAY, end=-pki.MINUTE), "expired"),
    Row("not valid yet", before(start=pki.DAY), "not-yet-valid"),
    Row("for another node", before(node="node-2"), "other-node", True, words=["node-2", "node.name in"]),
    Row("for a node whose name begins alike", before(node=NODE + "0"), "other-node", True),
    Row("for an administrator", administrator, BROKEN, words=["expected a node"]),
    Row("link that leads nowhere", dangling, BROKEN),
    Row("kubeconfig alone", kubeconfig_alone, BROKEN),
    Row("empty certificate file, as after a power cut", before(pem=lambda identity: b""), BROKEN),
    Row("certificate without key", before(pem=lambda identity: identity.chain), BROKEN),
    Row("key without certificate", before(pem=lambda identity: pki.key_pem(identity.key)), BROKEN),
    Row("key of another", before(pem=lambda identity: identity.chain + pki.key_pem(pki.new_key())), BROKEN),
    Row("garbage", before(pem=lambda identity: b"garbage\n" * 100), BROKEN),
    Row("certificate cut short", before(pem=lambda identity: identity.combined[:300]), BROKEN),
    Row("empty kubeconfig", before(kubeconfig=""), LOST),
    Row("kubeconfig without user", before(kubeconfig="apiVersion: v1\nkind: Config\nclusters: []\n"), LOST),
    Row("kubeconfig with a token", before(kubeconfig=node_kubeconfig(SERVER).split("    client-certificate:")[0] + "    token: abc\n"), LOST),
    Row("context that is not there", before(kubeconfig=node_kubeconfig(SERVER).replace("current-context: default-context", "current-context: x")), LOST),
    Row("own record, same pins", record(before(), pins=[own_pin]), "usable"),
    Row("pins changed, and fit the CA file", record(before(), pins=[other_pin]), "usable"),
    Row("pins changed, and do not fit the CA file", record(before(), pins=[own_pin]), "other-cluster", True, pins=[OTHER.pin]),
    Row("pins changed, do not fit, and expired", record(before(start=-pki.DAY, end=-pki.HOUR), pins=[own_pin]), "expired", pins=[OTHER.pin]),
    Row("CA rotated in place, same pins", record(before(), pins=[own_pin], ca_file=lambda ca: OTHER.pem), "usable"),
    Row("one pin more for the rotation to come", record(before(), pins=[own_pin]), "usable", pins=["own", OTHER.pin]),
    Row("pins that fit nothing, but joined by someone else", before(), "usable", pins=[OTHER.pin]),
    Row("damaged record", lambda machine, ca: before()(machine, ca) or machine.put(Machine.RECORD, "{", 0o644) and None, "usable"),
]


# Another cluster, by what else than pins tells clusters apart.

def joined_by(machine, ca, method, anchor):
    before()(machine, ca)
    record(lambda machine, ca: None, pins=[lambda ca: anchor])(machine, ca)
    path = machine.target(Machine.RECORD)
    path.write_text(json.dumps({**json.loads(path.read_text()), "joinMethod": method}))


def k3s_hash(ca):
    return "sha256:" + hashlib.sha256(ca.pem).hexdigest()


ANCHORS = [
    ("the document of the last join", DOCUMENT, "own", lambda own: own.pin, "usable"),
    ("a document of another cluster", DOCUMENT, "other", lambda own: own.pin, "other-cluster"),
    ("another document, and it fits the CA file", DOCUMENT, "own", lambda own: OTHER.pin, "usable"),
    ("a document without CA", DOCUMENT, None, lambda own: own.pin, "usable"),
    ("the token of the last join", K3S, "own", k3s_hash, "usable"),
    ("a token of another cluster", K3S, "other", k3s_hash, "other-cluster"),
    ("another token, and it fits the CA file", K3S, "own", lambda own: k3s_hash(OTHER), "usable"),
    ("a token without hash", K3S, None, k3s_hash, "usable"),
]


@pytest.mark.parametrize("method, configured, anchor, verdict", [row[1:] for row in ANCHORS], ids=[row[0] for row in ANCHORS])
def test_other_cluster(machine, cluster, method, configured, anchor, verdict):
    joined_by(machine, cluster.ca, {DOCUMENT: "file", K3S: "cacerts"}[method], anchor(cluster.ca))
    discover_by(machine, method, {"own": cluster.ca, "other": OTHER}.get(configured))
    run = machine.inspect().joined()
    assert run.note["verdict"] == verdict and (verdict == "usable" or run.note["fallback"])
    if verdict == "other-cluster":
        assert ("cluster.conf" if method == DOCUMENT else "hash in the token") in run.stderr


@pytest.mark.parametrize("lose", [lambda machine: (machine.path / "cluster.conf").unlink(), lambda machine: (machine.path / "cluster.conf").write_text("{["),
                                  lambda machine: machine.set_credential("token", "not a token")], ids=["no document", "broken document", "broken token"])
def test_what_is_gone_by_now_is_no_matter(machine, cluster, lose):
    """A healthy node does not need its bootstrap credentials."""
    joined_by(machine, cluster.ca, "file", cluster.ca.pin)
    discover_by(machine, DOCUMENT, cluster.ca)
    lose(machine)
    assert machine.inspect().joined().note["verdict"] == "usable"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a file system")
@pytest.mark.parametrize("setting", ["discovery: {file: %s/hung/f}", "bootstrap: {kubeconfig: %s/hung/f}", "discovery: {file: 'https://192.0.2.10/f', urlCAFile: %s/hung/f}"])
def test_file_server_that_is_dead_holds_no_joined_machine(machine, cluster, setting):
    joined_by(machine, cluster.ca, "file", cluster.ca.pin)
    machine.write_settings(HEADER + f"node: {{name: {NODE}}}\n" + setting % machine.path)
    with hung_file_system(machine.path / "hung"):
        run = machine.inspect().joined()
    assert run.note["verdict"] == "usable" and "hung/f' cannot be read" in run.stderr


def on_a_dead_server(world, hung, timeout="1h"):
    """Settings whose discovery file is a link to a hung file system."""
    link = world.machine.path / "cluster.conf"
    link.symlink_to(hung / "f")
    world.machine.write_settings(HEADER + f"discovery: {{file: {link}}}\nnode: {{name: {NODE}}}\ntimeout: {timeout}\n")
    return link


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a file system")
def test_file_server_that_is_dead_holds_a_join(world):
    """It says so, leaves the lock to others, and goes on when the file server answers."""
    machine, hung = world.machine, world.machine.path / "hung"
    (machine.root / "run/node-bootstrap").mkdir(parents=True)
    link = on_a_dead_server(world, hung)
    with hung_file_system(hung):
        run = machine.start_unit(faketime=FAST)
        run.wait_for_status("Waiting: ")
        last = json.loads(machine.read("run/node-bootstrap/last.json"))
        assert (last["state"], last["code"]) == ("joining", "discovery-file-unreadable")
        machine.start("install", *machine.install_words("--reset")).wait().joined()
        real = machine.path / "real.conf"
        real.write_text(apiserver.kubeconfig(world.server.url, world.cluster.ca.pem))
        real.rename(link)
        run.wait().joined()
    assert run.codes.count("discovery-file-unreadable") == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a file system")
def test_file_server_that_stays_dead(world):
    hung = world.machine.path / "hung"
    on_a_dead_server(world, hung, "15s")
    with hung_file_system(hung):
        world.machine.unit(faketime=FAST).failed("discovery-file-unreadable", 66, "cannot be read within 10 s: ", "gave up at the timeout")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a file system")
def test_stop_while_the_file_server_is_dead(world):
    hung = world.machine.path / "hung"
    on_a_dead_server(world, hung)
    with hung_file_system(hung):
        run = world.machine.start_unit(faketime=FAST)
        run.wait_for_status("Waiting: ")
        run.signal(signal.SIGINT)
        assert run.wait().exit == 143


def test_name_in_capitals(machine, server):
    """Converted to lower case as by kubelet, with a message."""
    machine.configure(server, node=NODE.upper())
    run = machine.inspect().joined()
    assert f"node.name in the settings has upper case letters; the node name is '{NODE}'" in run.stderr


def prepare(machine, server, cluster, row):
    """A first start brings the record up to date."""
    if row.pins:
        machine.configure(server, pins=[cluster.ca.pin if pin == "own" else pin for pin in row.pins])
    row.make(machine, cluster.ca)
    if machine.target(Machine.RECORD).exists():
        machine.inspect()
    return snapshot(machine.root)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_verdict(machine, server, cluster, row):
    files = prepare(machine, server, cluster, row)
    run = machine.inspect().joined()
    assert (run.note["verdict"], run.note["fallback"]) == (row.verdict, row.fallback or run.note["fallback"] and row.verdict in ("usable", "not-yet-valid"))
    assert run.note.get("node", NODE) == NODE
    for word in row.words:
        assert word in run.stderr
    # The gate does not know for which node the settings are.
    assert (machine.gate().exit == 0) is (row.verdict in ("usable", "not-yet-valid", "other-node") or row.fallback)
    assert snapshot(machine.root) == files


@pytest.mark.parametrize("row", [row for row in ROWS if row.verdict in ("usable", "not-yet-valid")], ids=lambda row: row.name)
def test_joined_already(machine, server, cluster, row):
    """No connection, no change on disk, exit 0."""
    files = prepare(machine, server, cluster, row)
    run = machine.unit().joined()
    assert server.connections == [] and snapshot(machine.root) == files and list(machine.state.iterdir()) == []
    words = "clock" if row.verdict == "not-yet-valid" else NODE
    assert any(words in part.stderr for part in machine.runs), [part.stderr for part in machine.runs]
    assert run.exit == 0


@pytest.mark.parametrize("row", [row for row in ROWS if row.verdict not in ("usable", "not-yet-valid", "other-cluster") and row.name != "empty kubeconfig"],
                         ids=lambda row: row.name)
def test_joins_anew(world, row):
    row.make(world.machine, world.cluster.ca)
    existed = world.machine.target(Machine.KUBECONFIG).exists()
    old = world.machine.read(Machine.KUBECONFIG) if existed else None
    world.machine.unit().joined()
    assert len(world.csrs()) == 1 and world.machine.inspect().note["verdict"] == "usable"
    assert not existed or world.machine.read(Machine.KUBECONFIG + ".old") == old
    said = "\n".join(run.stderr for run in world.machine.runs)
    assert ("joining again: " in said) == existed and (f"the existing '/{Machine.KUBECONFIG}' was renamed" in said) == existed
    assert world.server.url in world.machine.read(Machine.KUBECONFIG)


def test_moves_to_another_cluster(world):
    other_cluster(world)
    assert world.machine.inspect().note["verdict"] == "other-cluster"
    world.machine.unit().joined()
    assert world.machine.read(Machine.CA_FILE).encode() == world.cluster.ca.pem and len(world.csrs()) == 1


@pytest.mark.parametrize("spoil", [
    lambda world: setattr(world.server, "on_connect", faults.reset),
    lambda world: setattr(world.cluster.tokens[TOKEN_ID], "may", ()),
    lambda world: setattr(world.cluster, "controller", csrs.deny()),
], ids=["unreachable", "refused", "denied"])
def test_previous_is_kept(world, spoil):
    """Joining again fails, and the old certificate is still valid: a warning, exit 0, nothing changed."""
    other_cluster(world)
    spoil(world)
    world.machine.configure(world.server, timeout="2s")
    files = snapshot(world.machine.root)
    run = world.machine.unit().joined()
    assert any("joining again failed" in part.stderr for part in world.machine.runs) and run.exit == 0
    assert snapshot(world.machine.root) == files


@pytest.mark.parametrize("script", ["exit 1", "kill -KILL $$", "kill -ABRT $$", "kill -INT $$"])
def test_previous_is_kept_if_join_crashes(world, tmp_path, script):
    """Or if an attacker who has taken it over ends it."""
    other_cluster(world)
    files = snapshot(world.machine.root)
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    run = world.machine.start("install", *world.machine.install_words(f"--program={program}")).wait()
    assert run.exit == 0 and "joining again failed" in run.stderr, run.stderr
    assert snapshot(world.machine.root) == files


@pytest.mark.parametrize("path", ["etc/kubernetes/pki/.ca.crt.tmp", f"{Machine.PKI}/.kubelet-client-current.pem.tmp", f"{Machine.PKI}/.node-bootstrap.json.tmp",
                                  "var/lib/kubelet/node-bootstrap.env"])
def test_previous_is_kept_when_a_file_cannot_be_written(world, path):
    """The new certificate is valid but cannot be installed: the running node keeps running, at every start."""
    other_cluster(world)
    if path == Machine.ENV:
        world.machine.target(path).unlink()
    world.machine.put(f"{path}/in the way", "")
    files = {name: entry[3] for name, entry in snapshot(world.machine.root).items()}
    for _ in range(2):
        run = world.machine.unit().joined()
        assert set(run.codes) == {"target-unwritable"} and "joining again failed" in run.stderr
        assert {name: entry[3] for name, entry in snapshot(world.machine.root).items()} == files


def test_finishes_without_the_network(world):
    """A write error fails before `join`, so that `join` does not discard a valid result; a later start writes it."""
    machine = world.machine
    machine.put(Machine.PKI, "not a folder")
    machine.unit().failed("target-unwritable", 73)
    world.cluster.tokens.clear()
    machine.inspect().failed("target-unwritable", 73, "/" + Machine.PKI)
    assert (machine.state / "joined.json").exists()
    machine.target(Machine.PKI).unlink()
    machine.unit().joined()
    assert machine.inspect().note["verdict"] == "usable"


def test_note_from_an_endpoint_that_is_no_longer_meant(world):
    """Without pins only the endpoint tells clusters apart."""
    machine, unsafe = world.machine, {"pins": [], "discovery": {"unsafeSkipCAVerification": True}}
    machine.configure(world.server, **unsafe)
    machine.put(Machine.PKI, "not a folder")
    machine.unit().failed("target-unwritable", 73)
    machine.target(Machine.PKI).unlink()
    machine.configure(world.endpoint(world.stranger()), **unsafe)
    assert machine.inspect().joined().note["verdict"] == "absent"


def test_expired_and_join_fails(world):
    """There is no usable certificate, so the failure stands."""
    before(start=-pki.DAY, end=-pki.HOUR)(world.machine, world.cluster.ca)
    files = snapshot(world.machine.root)
    world.server.on_connect = faults.reset
    world.machine.configure(world.server, timeout="5s")
    world.machine.unit().failed("endpoint-reset", 69)
    assert snapshot(world.machine.root) == files


def test_clock_behind_on_a_joined_machine(world):
    """At boot the clock is a day behind: the node starts anyway."""
    before()(world.machine, world.cluster.ca)
    assert world.machine.inspect(faketime="-1d").note["verdict"] == "not-yet-valid"
    world.machine.unit(faketime="-1d").joined()
    assert world.server.connections == []


def test_kubeconfig_of_another_kind(world):
    """--inspect finds it before any request is made."""
    world.machine.put(Machine.KUBECONFIG, "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n", 0o644)
    world.machine.unit().failed("target-not-kubeconfig", 73, "/" + Machine.KUBECONFIG)
    assert world.csrs() == []


def test_handoff_beside_a_usable_certificate(machine, cluster):
    """It stays in use, whatever `join` leaves."""
    machine.put_joined_before(cluster.ca.node(NODE), SERVER, ca=cluster.ca)
    machine.put_handoff(cluster.ca, SERVER)
    before = snapshot(machine.root)
    machine.install().joined()
    assert snapshot(machine.root) == before and list(machine.state.iterdir()) == []
