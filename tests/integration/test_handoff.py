# SPDX-License-Identifier: Apache-2.0
"""The installer treats the network side as hostile: everything that a compromised `join` could leave behind.

Whatever is left, nothing may be written below the root that the settings do not cover, no link is followed, nothing
outside of the state directory is read or removed, and the installer ends.
"""

import json
import os
import shutil
import threading

import pytest

from common import csrs, pki
from common.machine import NODE, SECRET, Machine, node_kubeconfig
from .installed import SERVER, snapshot
from .join_methods import DOCUMENT, K3S, URL, discover_by

pytestmark = pytest.mark.each_release
MALFORMED = ("handoff-malformed", 65)
UNTRUSTED = ("handoff-untrusted", 76)
UNUSABLE = ("certificate-unusable", 76)


class Row:
    """A bad handoff: change(machine, ca, note) makes it out of a good one, returning the new joined.json or None for none."""

    def __init__(self, name, change, *expected, words=()):
        self.name, self.change, self.expected, self.words = name, change, expected, words


def member(**values):
    return lambda machine, ca, note: {**note, **values}


def without(name):
    return lambda machine, ca, note: {key: value for key, value in note.items() if key != name}


def raw(make):
    return lambda machine, ca, note: make(json.dumps(note))


def certificate(make):
    """A certificate for the pending key, as make(ca, public key) signs it."""
    def change(machine, ca, note):
        key = pki.load_key((machine.state / "pending.key").read_bytes())
        made = make(ca, key.public_key())
        return {**note, "certificate": (made if isinstance(made, bytes) else pki.cert_pem(made)).decode()}
    return change


def client(cn=pki.node_user(NODE), orgs=(pki.NODES,), **options):
    return certificate(lambda ca, key: ca.client(key, cn, orgs, **options))


def key(make):
    def change(machine, ca, note):
        (machine.state / "pending.key").unlink()
        make(machine.state / "pending.key")
        return note
    return change


def key_contents(data):
    return key(lambda path: path.write_bytes(data))


def link_to_foreign_key(path):
    outside = path.parent.parent / "outside.key"
    outside.write_bytes(pki.key_pem(pki.new_key()))
    path.symlink_to(outside)


def link_to_own_key(path):
    """Even a link to the right contents is refused: what it names can change."""
    outside = path.parent.parent / "outside.key"
    outside.write_bytes(KEY)
    path.symlink_to(outside)


def hard_link(path):
    outside = path.parent.parent / "outside.key"
    outside.write_bytes(pki.key_pem(pki.new_key()))
    os.link(outside, path)


def note_file(make):
    def change(machine, ca, note):
        path = machine.state / "joined.json"
        path.unlink()
        make(path, json.dumps(note))
    return change


def sparse(path, text=""):
    with open(path, "wb") as file:
        file.truncate(1 << 33)


def through_link(path, text):
    outside = path.parent.parent / "outside.json"
    outside.write_text(text)
    path.symlink_to(outside)


KEY = pki.key_pem(pki.new_key())
OTHER_CA = pki.CA()

NOTES = [
    Row("not JSON", raw(lambda text: "joined"), *MALFORMED),
    Row("empty", raw(lambda text: ""), *MALFORMED),
    Row("cut short", raw(lambda text: text[:-20]), *MALFORMED),
    Row("text after it", raw(lambda text: text + "{}"), *MALFORMED),
    Row("a list", raw(lambda text: "[" + text + "]"), *MALFORMED),
    Row("duplicate key", raw(lambda text: text[:-1] + ', "server": "https://192.0.2.66:6443"}'), *MALFORMED),
    Row("NUL in a string", raw(lambda text: text.replace("192.0.2.10", "192.0.2.10\\u0000", 1)), *MALFORMED),
    Row("not UTF-8", raw(lambda text: text.encode().replace(b"192.0.2.10", b"\xff\xfe", 1)), *MALFORMED),
    Row("nested ten thousand deep", raw(lambda text: '{"version":' + "[" * 10000 + "]" * 10000 + "}"), *MALFORMED),
    Row("another version", member(version=2), *MALFORMED, words=["version"]),
    Row("version as a string", member(version="1"), *MALFORMED, words=["version"]),
    Row("server as a list", member(server=[SERVER]), *MALFORMED, words=["server"]),
    Row("user entries", member(users=[{"name": "x", "user": {"exec": {"command": "/bin/sh"}}}]), *MALFORMED, words=["users"]),
    Row("exec plugin", member(exec={"command": "/bin/sh"}), *MALFORMED, words=["exec"]),
    Row("path of a kubeconfig", member(kubeconfig="/etc/kubernetes/admin.conf"), *MALFORMED, words=["kubeconfig"]),
    Row("node name", member(node="node-2"), *MALFORMED, words=["node"]),
    Row("a megabyte", member(tokenSource="x" * (1 << 20)), *MALFORMED),
    *(Row(f"without {name}", without(name), *MALFORMED, words=[name])
      for name in ("version", "certificate", "ca", "server", "tlsServerName", "proxyURL", "csr", "endpoint", "tokenID", "tokenSource")),
]

FIELDS = [
    Row("another CA instead of the pinned one", member(ca=OTHER_CA.pem.decode()), *UNTRUSTED, words=[OTHER_CA.pin[7:19]]),
    Row("no CA", member(ca=""), *MALFORMED, words=["ca"]),
    Row("CA that is no certificate", member(ca="-----BEGIN CERTIFICATE-----\nZm9v\n-----END CERTIFICATE-----\n"), *MALFORMED),
    Row("leaf instead of the CA", lambda machine, ca, note: {**note, "ca": ca.serving().chain.decode()}, *UNTRUSTED),
    Row("CA of the same name with another key", member(ca=pki.CA(cn="kubernetes").pem.decode()), *UNTRUSTED),
    Row("plain http", member(server="http://192.0.2.10:6443"), *UNTRUSTED, words=["server"]),
    Row("server with a user", member(server="https://root:x@192.0.2.10:6443"), *UNTRUSTED, words=["server"]),
    Row("server with a line break", member(server=SERVER + "\nusers:\n- name: x"), *UNTRUSTED, words=["server"]),
    Row("server with quotes", member(server=SERVER + '/"'), *UNTRUSTED, words=["server"]),
    Row("server with a query", member(server=SERVER + "/?x"), *UNTRUSTED, words=["server"]),
    Row("server with dots in the path", member(server=SERVER + "/../x"), *UNTRUSTED, words=["server"]),
    Row("no server", member(server=""), *UNTRUSTED, words=["server"]),
    Row("server name with a line break", member(tlsServerName="a\nexec: b"), *UNTRUSTED, words=["tlsServerName"]),
    Row("server name with a blank", member(tlsServerName="a b"), *UNTRUSTED, words=["tlsServerName"]),
    Row("proxy with a password", member(proxyURL="http://u:p@192.0.2.1:3128"), *UNTRUSTED, words=["proxyURL"]),
    Row("proxy that is a file", member(proxyURL="file:///etc/shadow"), *UNTRUSTED, words=["proxyURL"]),
    Row("proxy with a line break", member(proxyURL="http://192.0.2.1:3128\nx: y"), *UNTRUSTED, words=["proxyURL"]),
    Row("name of the request with an escape sequence", member(csr="node-csr-\x1b[2J"), *MALFORMED, words=["csr"]),
    Row("without the name of the request, as from a supervisor", member(csr=""), *MALFORMED, words=["csr"]),
    Row("endpoint with a line break", member(endpoint="192.0.2.10:6443\nx"), *MALFORMED, words=["endpoint"]),
    Row("endpoint that is not configured", member(endpoint="192.0.2.66:6443"), *UNTRUSTED, words=["192.0.2.66:6443"]),
    Row("token id that is none", member(tokenID="ABCDEF"), *MALFORMED, words=["tokenID"]),
    Row("a whole token as its id", member(tokenID="zyxwvu.fedcba9876543210"), *MALFORMED, words=["tokenID"]),
    Row("token source with a line break", member(tokenSource="credential\nx"), *MALFORMED, words=["tokenSource"]),
]

CERTIFICATES = [
    Row("for another node", client(pki.node_user("node-2")), *UNUSABLE, words=["node-2"]),
    Row("for administrators", client(orgs=("system:masters",)), *UNUSABLE, words=["system:masters"]),
    Row("for nodes and administrators", client(orgs=(pki.NODES, "system:masters")), *UNUSABLE),
    Row("for a user", client("kubernetes-admin"), *UNUSABLE),
    Row("that is a CA", client(ca=True), *UNUSABLE),
    Row("for servers", client(eku=(pki.SERVER_AUTH,)), *UNUSABLE),
    Row("expired", client(start=-pki.DAY, end=-pki.HOUR), *UNUSABLE),
    Row("for another key", certificate(lambda ca, key: csrs.pki.cert_pem(ca.client(pki.new_key().public_key(), pki.node_user(NODE)))), *UNUSABLE, words=["key"]),
    Row("none", member(certificate=""), *MALFORMED, words=["certificate"]),
    Row("garbage", member(certificate="garbage"), *MALFORMED),
    Row("followed by a private key", certificate(lambda ca, key: pki.cert_pem(ca.client(key, pki.node_user(NODE))) + csrs.FOREIGN_KEY), *MALFORMED),
    Row("followed by a certificate of another chain", certificate(lambda ca, key: pki.cert_pem(ca.client(key, pki.node_user(NODE))) + OTHER_CA.pem), *UNUSABLE),
    Row("a hundred of them", certificate(lambda ca, key: pki.cert_pem(ca.client(key, pki.node_user(NODE))) * 100), *MALFORMED),
]

FILES = [
    Row("another key", key_contents(KEY), *UNUSABLE, words=["key"]),
    Row("no key", key(lambda path: None), *MALFORMED, words=["pending.key"]),
    Row("empty key", key_contents(b""), *MALFORMED, words=["pending.key"]),
    Row("key that is none", key_contents(b"garbage"), *MALFORMED, words=["pending.key"]),
    Row("huge key", key(sparse), *MALFORMED, words=["pending.key"]),
    Row("key of another type", key_contents(pki.key_pem(pki.new_key("rsa"))), *MALFORMED, words=["pending.key"]),
    Row("key is a link", key(link_to_foreign_key), *MALFORMED, words=["pending.key"]),
    Row("key is a link to the right key", key(link_to_own_key), *MALFORMED, words=["pending.key"]),
    Row("key is a link to a device", key(lambda path: path.symlink_to("/dev/zero")), *MALFORMED, words=["pending.key"]),
    Row("key is a FIFO", key(os.mkfifo), *MALFORMED, words=["pending.key"]),
    Row("key is a folder", key(os.mkdir), *MALFORMED, words=["pending.key"]),
    Row("key is a hard link to another", key(hard_link), *MALFORMED, words=["2 hard links"]),
    Row("note is a link", note_file(through_link), *MALFORMED, words=["joined.json"]),
    Row("note is a link to a device", note_file(lambda path, text: path.symlink_to("/dev/zero")), *MALFORMED, words=["joined.json"]),
    Row("note is a FIFO", note_file(lambda path, text: os.mkfifo(path)), *MALFORMED, words=["joined.json"]),
    Row("note is a folder, which the sweeper removes", note_file(lambda path, text: path.mkdir()), "handoff-missing", 65, words=["joined.json"]),
    Row("huge note", note_file(sparse), *MALFORMED, words=["joined.json"]),
]


@pytest.mark.parametrize("row", NOTES + FIELDS + CERTIFICATES + FILES, ids=lambda row: row.name)
def test_bad_handoff(machine, cluster, row):
    own = pki.load_key(KEY) if row.name == "key is a link to the right key" else None
    note = row.change(machine, cluster.ca, machine.put_handoff(cluster.ca, SERVER, key=own))
    if note is not None:
        machine.put_state("joined.json", note if isinstance(note, (str, bytes)) else json.dumps(note))
    outside = {path.name: path.read_bytes() for path in machine.path.iterdir() if path.is_file()}
    machine.install_left().failed(*row.expected, *row.words)
    assert machine.target_names() == {}
    assert outside == {path.name: path.read_bytes() for path in machine.path.iterdir() if path.is_file()}


@pytest.mark.parametrize("row", FIELDS[:2] + FIELDS[5:7] + CERTIFICATES[:3] + FILES[:3], ids=lambda row: row.name)
def test_bad_handoff_beside_an_old_join(machine, cluster, row):
    """What was there stays exactly as it was."""
    machine.put_joined_before(cluster.ca.node(start=-pki.DAY, end=-pki.HOUR), SERVER, ca=cluster.ca)
    before = snapshot(machine.root)
    note = row.change(machine, cluster.ca, machine.put_handoff(cluster.ca, SERVER))
    machine.put_state("joined.json", note if isinstance(note, (str, bytes)) else json.dumps(note))
    machine.install().failed(*row.expected)
    assert snapshot(machine.root) == before


def test_files_that_change_under_the_reader(machine, cluster):
    """A valid handoff and one for another node are swapped continuously: install sees one of them completely, or none."""
    good, bad = machine.path / "good", machine.path / "bad"
    for folder, node in ((good, NODE), (bad, "node-2")):
        machine.put_handoff(cluster.ca, SERVER, node=node)
        shutil.copytree(machine.state, folder)
    done = threading.Event()

    def swap():
        while not done.is_set():
            for folder in (good, bad):
                for name in ("pending.key", "joined.json"):
                    shutil.copy2(folder / name, machine.state / ".swap")
                    os.rename(machine.state / ".swap", machine.state / name)
    thread = threading.Thread(target=swap)
    thread.start()
    try:
        runs = [machine.install() for _ in range(40)]
    finally:
        done.set()
        thread.join()
    assert {run.code for run in runs} <= {None, "certificate-unusable", "handoff-malformed", "handoff-missing"}
    if machine.target(Machine.KUBECONFIG).exists():
        certificates, text = machine.installed_identity()
        assert pki.subject(certificates[0])[1] == [pki.node_user(NODE)]
        key = pki.load_key(text[text.index("-----BEGIN EC"):].encode())
        assert pki.spki(key.public_key()) == pki.spki(certificates[0].public_key())


# What identifies the cluster, for each join method.

class Method:
    """A handoff of a join with this method; its failure, or None if it is valid."""

    def __init__(self, name, method, expected, has_ca=True, pins=None, ca=None, **changes):
        self.name, self.method, self.expected, self.has_ca, self.pins, self.ca, self.changes = name, method, expected, has_ca, pins, ca, changes


ELSEWHERE = {"endpoint": "192.0.2.66:6443"}
OTHER_PORT = {"endpoint": "192.0.2.10:6444"}
METHODS = [
    Method("document", DOCUMENT, None),
    Method("document, and the API server is elsewhere", DOCUMENT, None, server="https://192.0.2.66:6443"),
    Method("document, another CA", DOCUMENT, UNTRUSTED, ca=OTHER_CA),
    Method("document, pinned to its CA", DOCUMENT, None, pins="own"),
    Method("document, pinned to another", DOCUMENT, UNTRUSTED, pins="other"),
    Method("document, from elsewhere", DOCUMENT, UNTRUSTED, **ELSEWHERE),
    Method("document, from another port", DOCUMENT, UNTRUSTED, **OTHER_PORT),
    Method("document, the CAs of the system in the place of its own", DOCUMENT, (("handoff-untrusted", 76), ("handoff-malformed", 65)), ca=""),
    Method("document without CA", DOCUMENT, None, has_ca=False, ca=""),
    Method("document without CA, another server", DOCUMENT, UNTRUSTED, has_ca=False, ca="", server="https://192.0.2.66:6443"),
    Method("document without CA, another server name", DOCUMENT, UNTRUSTED, has_ca=False, ca="", tlsServerName="example.org"),
    Method("document without CA, a proxy", DOCUMENT, UNTRUSTED, has_ca=False, ca="", proxyURL="http://192.0.2.66:3128"),
    Method("document without CA, a CA of its own", DOCUMENT, UNTRUSTED, has_ca=False, ca=OTHER_CA),
    Method("document without CA, but pinned", DOCUMENT, (("handoff-untrusted", 76), ("handoff-malformed", 65)), has_ca=False, ca="", pins="own"),
    Method("URL", URL, None),
    Method("URL, the CAs of the system", URL, None, ca=""),
    Method("URL, pinned", URL, None, pins="own"),
    Method("URL, pinned to another", URL, UNTRUSTED, pins="other"),
    Method("URL, from elsewhere", URL, UNTRUSTED, **ELSEWHERE),
    Method("URL, from another port", URL, UNTRUSTED, **OTHER_PORT),
    Method("token of k3s", K3S, None),
    Method("token of k3s, another CA", K3S, UNTRUSTED, ca=OTHER_CA),
    Method("token of k3s, from elsewhere", K3S, UNTRUSTED, **ELSEWHERE),
    Method("token of k3s, from another port", K3S, UNTRUSTED, **OTHER_PORT),
    Method("token of k3s, the CAs of the system", K3S, (("handoff-untrusted", 76), ("handoff-malformed", 65)), ca=""),
    Method("token of k3s without hash", K3S, UNTRUSTED, has_ca=False),
]


@pytest.mark.parametrize("row", METHODS, ids=lambda row: row.name)
def test_discovery_methods(machine, cluster, row):
    """The root side uses the same settings, and trusts only what they name."""
    pins = {"own": [cluster.ca.pin], "other": [OTHER_CA.pin]}.get(row.pins)
    discover_by(machine, row.method, cluster.ca if row.has_ca else None, **({"caCertHashes": pins} if pins else {}))
    ca = cluster.ca.pem if row.ca is None else row.ca and row.ca.pem
    machine.put_handoff(cluster.ca, row.changes.pop("server", SERVER), **{"ca": ca.decode() if ca else "", **row.changes})
    run = machine.install()
    if row.expected:
        assert (run.code, run.exit) in (row.expected if isinstance(row.expected[0], tuple) else [row.expected]), run.stderr
        assert machine.target_names() == {}
        return
    run.joined()
    kubeconfig, record = machine.read(Machine.KUBECONFIG), json.loads(machine.read(Machine.RECORD))
    assert ("certificate-authority" in kubeconfig) == machine.target(Machine.CA_FILE).exists() == bool(ca)
    assert record["joinMethod"] == {DOCUMENT: "file", URL: "url", K3S: "cacerts"}[row.method]
    assert record.get("ca", "") == (cluster.ca.pem.decode() if ca else "")


def test_neither_pins_nor_leave_to_do_without(machine, cluster, server):
    """`join` would not have started; a handoff from elsewhere is not installed."""
    machine.configure(server, pins=[])
    machine.put_handoff(cluster.ca, SERVER)
    run = machine.install()
    assert run.code in ("handoff-untrusted", "settings-incomplete") and run.exit != 0 and machine.target_names() == {}


def test_token_of_k3s_that_is_gone(machine, cluster):
    """Without its hash the CA is unknown; `join` must ask again."""
    discover_by(machine, K3S, cluster.ca)
    machine.put_handoff(cluster.ca, SERVER)
    (machine.credentials / "node-bootstrap.token").unlink()
    assert machine.inspect(is_metadata_read=False).joined().note["verdict"] == "absent" and not machine.target(Machine.KUBECONFIG).exists()


def test_document_that_is_gone(machine, cluster):
    discover_by(machine, DOCUMENT, cluster.ca)
    machine.put_handoff(cluster.ca, SERVER)
    (machine.path / "cluster.conf").unlink()
    assert machine.inspect().joined().note["verdict"] == "absent" and machine.target_names() == {}
    machine.install().failed("discovery-file-unreadable", 66, "cluster.conf")


def test_document_changed_meanwhile(machine, cluster):
    """The earlier request does not match the current settings."""
    discover_by(machine, DOCUMENT, cluster.ca)
    machine.put_handoff(cluster.ca, SERVER)
    discover_by(machine, DOCUMENT, OTHER_CA)
    assert machine.inspect().joined().note["verdict"] == "absent" and machine.target_names() == {}


@pytest.mark.parametrize("order", [1, -1], ids=["after", "before"])
def test_another_ca_beside_the_pinned_one(machine, cluster, order):
    """`join` leaves it out, so a bundle that contains it is not from `join`."""
    machine.put_handoff(cluster.ca, SERVER, ca="".join(pem.decode() for pem in [cluster.ca.pem, OTHER_CA.pem][::order]))
    machine.install().failed(*UNTRUSTED, OTHER_CA.pin)
    assert machine.target_names() == {}


def test_whole_bundle_only_by_the_settings(machine, cluster, server):
    """trustWholeBundle applies only in settings that root reads."""
    machine.configure(server, discovery={"trustWholeBundle": True})
    machine.put_handoff(cluster.ca, SERVER, ca=(cluster.ca.pem + OTHER_CA.pem).decode())
    machine.install().joined()
    assert machine.read("etc/kubernetes/pki/ca.crt").encode() == cluster.ca.pem + OTHER_CA.pem


def test_state_is_emptied_by_known_names(machine, cluster):
    """Only what the two sides know is removed, and never through a link."""
    outside = machine.path / "outside"
    outside.mkdir()
    (outside / "joined.json").write_text("stays")
    machine.put_handoff(cluster.ca, SERVER)
    machine.put_state("notes.txt", "someone's")
    (machine.state / ".joined.json.tmp").symlink_to(outside / "joined.json")
    (machine.state / "folder").symlink_to(outside)
    machine.install().joined()
    assert (outside / "joined.json").read_text() == "stays"
    left = sorted(path.name for path in machine.state.iterdir())
    assert "joined.json" not in left and "pending.key" not in left and "notes.txt" in left


def test_state_directory_itself_may_be_a_link(machine, cluster):
    """With DynamicUser= it is one, to private/."""
    machine.put_handoff(cluster.ca, SERVER)
    private = machine.path / "private"
    machine.state.rename(private)
    machine.state.symlink_to(private)
    machine.install().joined()
    assert list(private.iterdir()) == []


def test_planted_temporary_names(machine, cluster):
    """Links under the temporary names in the target folders lead nowhere."""
    outside = machine.path / "outside"
    outside.write_text("stays")
    for folder, names in {"etc/kubernetes": [".kubelet.conf.tmp"], "etc/kubernetes/pki": [".ca.crt.tmp"],
                          "var/lib/kubelet/pki": [".node-bootstrap.json.tmp", ".kubelet-client-current.pem.tmp"],
                          "var/lib/kubelet": [".node-bootstrap.env.tmp", ".kubeadm-flags.env.tmp"]}.items():
        machine.target(folder).mkdir(parents=True, exist_ok=True)
        for name in names:
            machine.target(folder).joinpath(name).symlink_to(outside)
    machine.put_handoff(cluster.ca, SERVER)
    machine.install().joined()
    assert outside.read_text() == "stays"


def test_settings_of_join_do_not_count(machine, cluster, server):
    """Node name and paths come from the settings that root reads, not from the environment of join."""
    machine.put_handoff(cluster.ca, SERVER)
    machine.install(environment={"NODE_NAME": "node-2", "KUBECONFIG": "/tmp/x", "SSL_CERT_FILE": "/tmp/y"}).joined()
    assert pki.subject(machine.installed_identity()[0][0])[1] == [pki.node_user(NODE)]


def test_installer_makes_no_connection_and_needs_no_token(machine, cluster, server):
    (machine.credentials / "node-bootstrap.token").unlink()
    machine.put_handoff(cluster.ca, server.url)
    machine.install().joined()
    assert server.connections == [] and SECRET not in machine.runs[-1].stderr


def test_old_kubeconfig_with_an_exec_plugin(machine, cluster):
    """Renamed as a whole; nothing from it gets into the new one."""
    machine.put("etc/kubernetes/kubelet.conf", node_kubeconfig(SERVER).replace("  user:\n", "  user:\n    exec: {command: /bin/evil}\n"))
    machine.put_handoff(cluster.ca, SERVER)
    machine.install().joined()
    assert "evil" not in machine.read("etc/kubernetes/kubelet.conf")
