# SPDX-License-Identifier: Apache-2.0
"""A machine with usable credentials starts kubelet at every boot, whatever else is wrong; `status` works as well."""

import json
import os

import pytest

from common import pki
from common.machine import NODE, Machine, find_program
from .installed import SERVER, before, plain_file, snapshot, status


def extend(text, name="config.yaml"):
    """Adds to the settings that are there."""
    def spoil(machine):
        path = machine.etc / name
        old = path.read_text() if path.exists() else "apiVersion: node-bootstrap/v1\nkind: NodeBootstrap\n"
        machine.write_settings(old + text, name)
    return spoil


def settings(text, name="config.yaml"):
    return lambda machine: machine.write_settings(text, name)


def folder_as(name):
    def spoil(machine):
        path = machine.etc / name
        path.unlink(missing_ok=True)
        (path / "x").mkdir(parents=True)
    return spoil


def dangling(machine):
    (machine.etc / "config.yaml").unlink()
    (machine.etc / "config.yaml").symlink_to("/nowhere")


def many_files(machine):
    for number in range(65):
        machine.write_settings("# nothing\n", f"config.yaml.d/{number}.yaml")


def credential(name, data, mode=0o400):
    return lambda machine: machine.set_credential(name, data, mode)


def credential_folder(machine):
    (machine.credentials / "node-bootstrap.config").mkdir()


def foreign_credentials(machine):
    """As if the network side had written them."""
    machine.set_credential("config", "apiVersion: node-bootstrap/v1\nkind: NodeBootstrap\n")
    os.chown(machine.credentials, 65534, 65534)


def without(variable):
    return lambda machine: {variable: None}


def elsewhere(variable, path):
    return lambda machine: {variable: path}


def planted(folder, name):
    def spoil(machine):
        path = getattr(machine, folder) / name
        path.unlink(missing_ok=True)
        (path / "full").mkdir(parents=True)
    return spoil


def record(make):
    def spoil(machine):
        machine.target(machine.RECORD).unlink(missing_ok=True)
        make(machine)
    return spoil


DEEP = "a:\n" + "".join(" " * level + "a:\n" for level in range(1, 400))
# name, what is spoilt, the code that is reported ("": none is needed)
TROUBLE = [
    ("misspelt key", extend("discovry:\n  endpoints: []\n"), "settings-invalid"),
    ("misspelt key in a section", extend("csr:\n  keytype: x\n"), "settings-invalid"),
    ("misspelt key in a drop-in", extend("nodes:\n  name: x\n", "config.yaml.d/10.yaml"), "settings-invalid"),
    ("value out of range", extend("csr:\n  expirationSeconds: 1\n"), "settings-invalid"),
    ("wrong type", extend("csr:\n  expirationSeconds: [1]\n"), "settings-invalid"),
    ("node name that is none", lambda machine: machine.write_settings((machine.etc / "config.yaml").read_text().replace(NODE, "_")), "settings-invalid"),
    ("another apiVersion", settings("apiVersion: node-bootstrap/v9\nkind: NodeBootstrap\n"), "settings-invalid"),
    ("no YAML", settings("{["), "settings-malformed"),
    ("binary", settings(os.urandom(4096)), "settings-malformed"),
    ("cut short", lambda machine: machine.write_settings((machine.etc / "config.yaml").read_text() + 'x: "'), "settings-malformed"),
    ("nested too deeply", settings(DEEP), "settings-malformed"),
    ("drop-in that is no YAML", settings("a: [", "config.yaml.d/10.yaml"), "settings-malformed"),
    ("too large", settings("#" * (1 << 19)), "settings-unreadable"),
    ("folder as config.yaml", folder_as("config.yaml"), "settings-unreadable"),
    ("folder as drop-in", folder_as("config.yaml.d/10.yaml"), "settings-unreadable"),
    ("link that leads nowhere", dangling, "settings-unreadable"),
    ("too many drop-ins", many_files, "settings-unreadable"),
    ("damaged settings credential", credential("config", "{["), "settings-malformed"),
    ("folder as settings credential", credential_folder, "settings-unreadable"),
    ("credentials of somebody else", foreign_credentials, "settings-unreadable"),
    ("damaged token", credential("token", "x"), ""),
    ("exposed token", credential("token", "x", 0o444), ""),
    ("damaged bootstrap kubeconfig", credential("kubeconfig", "{["), ""),
    ("damaged cluster-info", credential("cluster-info", "{["), ""),
    ("token in a file that others read", extend('bootstrap:\n  token: "abcdef.0123456789abcdee"\n'), "token-exposed"),
    ("state directory not set", without("STATE_DIRECTORY"), "usage"),
    ("state directory missing", elsewhere("STATE_DIRECTORY", "/nowhere/state"), "usage"),
    ("state directory is a file", elsewhere("STATE_DIRECTORY", "/etc/passwd"), "usage"),
    ("folder as joined.json", planted("state", "joined.json"), ""),
    ("record cut short", record(lambda machine: machine.put(machine.RECORD, "{", 0o644)), ""),
    ("record is a folder", record(lambda machine: machine.target(machine.RECORD).mkdir(parents=True)), ""),
    ("record is a link to nowhere", record(lambda machine: machine.target(machine.RECORD).symlink_to("/nowhere")), ""),
]
MACHINES = ["joined by us", "joined by us, in other places", "joined by kubelet", "certificate embedded", "plain file"]
PLACES = {"kubeconfig": "/srv/kubelet.conf", "certificateDirectory": "/srv/pki", "caFile": "/srv/ca.crt"}


def make_joined(world, kind):
    machine = world.machine
    if kind.startswith("joined by us"):
        if kind.endswith("places"):
            machine.configure(world.server, kubelet=PLACES)
            machine.RECORD = "srv/pki/node-bootstrap.json"
        machine.unit().joined()
    elif kind == "plain file":
        plain_file(machine, world.cluster.ca)
    else:
        before(embedded=kind == "certificate embedded")(machine, world.cluster.ca)
    machine.set_credential("token", "gone12.0123456789abcdef")
    world.server.connections.clear()
    machine.runs.clear()


def boot(machine, changes, **options):
    """The command of the unit; the environment is `changes`d."""
    environment = {name: value for name, value in {**machine.environment, **changes}.items() if value is not None}
    run = machine.new_run([find_program("install"), *machine.install_words(f"--program={find_program('node-bootstrap')}")], environment, **options)
    machine.runs.append(run)
    run.wait().joined()


CASES = [(kind, *row) for row in TROUBLE for kind in MACHINES if kind in MACHINES[1:3] or row[0] in ("misspelt key", "no YAML", "state directory missing")]


@pytest.mark.parametrize("kind, spoil, code", [(kind, *row) for kind, _, *row in CASES], ids=[f"{name}, {kind}" for kind, name, *_ in CASES])
def test_kubelet_starts(world, kind, spoil, code):
    machine = world.machine
    make_joined(world, kind)
    changes = spoil(machine)
    files = snapshot(machine.root)
    boot(machine, changes if isinstance(changes, dict) else {})
    said = "\n".join(run.stderr for run in machine.runs)
    if code and kind != "plain file":
        assert f": {code}: " in said and f"node '{NODE}' has joined, so kubelet can start" in said, said
    assert not any("Not joined" in status for run in machine.runs for status in run.statuses)
    assert world.server.connections == [] or kind == "plain file"
    assert machine.gate().exit == 0
    assert snapshot(machine.root) == files


def file_as(path, data):
    """Or a directory, if there are no data."""
    def spoil(machine):
        target = machine.target(path)
        target.unlink(missing_ok=True)
        if data is None:
            target.mkdir(parents=True)
        else:
            machine.put(path, data)
    return spoil


ENVIRONMENT = "var/lib/kubelet/node-bootstrap.env"
BESIDE = [
    ("environment file is binary", file_as(ENVIRONMENT, b"\0\xff" * 4096)),
    ("environment file is too large", file_as(ENVIRONMENT, "A" * (1 << 23))),
    ("environment file is a directory", file_as(ENVIRONMENT, None)),
    ("CA file is garbage", file_as(Machine.CA_FILE, "garbage")),
    ("CA file is a directory", file_as(Machine.CA_FILE, None)),
]


@pytest.mark.parametrize("spoil", [row[1] for row in BESIDE], ids=[row[0] for row in BESIDE])
def test_gate_asks_the_certificate_alone(world, spoil):
    make_joined(world, "joined by us")
    spoil(world.machine)
    assert world.machine.gate().exit == 0


@pytest.mark.parametrize("text", ["discovry: {}\n", "x: ["], ids=["misspelt", "malformed"])
@pytest.mark.parametrize("kind", ["nothing", "expired", "for an administrator", "key of another"])
def test_without_usable_credentials_it_fails(world, kind, text):
    """What is ignored beside usable credentials is a failure without them."""
    machine = world.machine
    if kind == "expired":
        before(start=-pki.DAY, end=-pki.HOUR)(machine, world.cluster.ca)
    elif kind == "for an administrator":
        machine.put_joined_before(world.cluster.ca.node(NODE), SERVER, ca=world.cluster.ca)
        key = pki.new_key()
        certificate = world.cluster.ca.client(key.public_key(), "admin", ("system:masters",))
        machine.put(Machine.PKI + "/kubelet-client-2026-01-02-03-04-05.pem", pki.cert_pem(certificate) + pki.key_pem(key))
    elif kind == "key of another":
        before(pem=lambda identity: identity.chain + pki.key_pem(pki.new_key()))(machine, world.cluster.ca)
    extend(text)(machine)
    files = snapshot(machine.root)
    run = machine.unit().failed("settings-malformed" if "[" in text else "settings-invalid", 78)
    assert any("Not joined" in status for status in run.statuses)
    gate = machine.gate()
    assert gate.exit == 1 and "this machine has not joined: " in gate.stderr and "kubelet waits: this machine has not joined; see `node-bootstrap status`" in gate.stderr
    assert snapshot(machine.root) == files and world.server.connections == []


def test_clock_behind_and_settings_damaged(world):
    make_joined(world, "joined by kubelet")
    extend("discovry: {}\n")(world.machine)
    boot(world.machine, {}, faketime="-1d")
    assert "settings-invalid" in world.machine.runs[0].stderr and world.machine.gate().exit == 0


# Those that leave the path to this test's folder in the settings.
STATUS_TROUBLE = [row for row in TROUBLE if row[0] in ("misspelt key", "misspelt key in a section", "drop-in that is no YAML", "folder as drop-in",
                                                       "damaged settings credential", "record cut short", "record is a folder")]


@pytest.mark.parametrize("spoil, code", [row[1:] for row in STATUS_TROUBLE], ids=[row[0] for row in STATUS_TROUBLE])
@pytest.mark.parametrize("form", ["text", "json"])
def test_status(world, spoil, code, form):
    """It reports what is wrong, and everything that it knows."""
    machine = world.machine
    make_joined(world, "joined by us")
    machine.runs.clear()
    spoil(machine)
    run = status(machine, *(["--json"] if form == "json" else []))
    assert run.exit == 0, run.stdout
    assert (f": {code}: " if code else "node-bootstrap.json") in run.stderr
    if form == "json":
        assert NODE in json.dumps(json.loads(run.stdout))
    else:
        assert f"system:node:{NODE}" in run.stdout
