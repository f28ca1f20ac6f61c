# SPDX-License-Identifier: Apache-2.0
"""Settings: each error names file, line, key and what was expected; the document of higher precedence wins."""

import os
import re
import socket

import pytest

from common import pki
from common.machine import HEADER, NODE

PIN = "sha256:" + "ab" * 32
DISCOVERY = f"discovery:\n  endpoints: [\"127.0.0.1:1\"]\n  caCertHashes: [\"{PIN}\"]\n"      # lines 3 to 5

# name, text after the header, line, key as it must be named, word of the expectation
INVALID = [
    ("unknown key", "nodes:\n  name: x\n", 3, "unknown key (5 characters)", "did you mean node?"),
    ("unknown key in a group", "discovery:\n  endpoint: x\n", 4, "discovery", "did you mean discovery.endpoints?"),
    ("key in wrong case", "discovery:\n  Endpoints: [x]\n", 4, "discovery", "did you mean discovery.endpoints?"),
    ("key of a later version", "discovery:\n  insecure: true\n", 4, "discovery", "unknown key (8 characters)"),
    ("group that is a text", "discovery: yes\n", 3, "discovery", "mapping"),
    ("group that is a list", "node: [name]\n", 3, "node", "mapping"),
    ("list that is a text", "discovery:\n  endpoints: 127.0.0.1:6443\n", 4, "discovery.endpoints", "list"),
    ("list that is a mapping", "discovery:\n  caCertHashes: {a: b}\n", 4, "discovery.caCertHashes", "list"),
    ("list in a list", "discovery:\n  endpoints:\n  - [a]\n", 5, "discovery.endpoints[0]", ""),
    ("text that is a list", "node:\n  name: [a]\n", 4, "node.name", "found a list"),
    ("switch in quotes", "discovery:\n  unsafeSkipCAVerification: \"true\"\n", 4, "discovery.unsafeSkipCAVerification", "true or false"),
    ("switch that is yes", "discovery:\n  trustWholeBundle: yes\n", 4, "discovery.trustWholeBundle", "true or false"),
    ("endpoint with a scheme", "discovery:\n  endpoints:\n  - https://10.0.0.1:6443\n", 5, "discovery.endpoints[0]", "HOST:PORT"),
    ("endpoint with a path", "discovery:\n  endpoints: [\"10.0.0.1:6443/api\"]\n", 4, "discovery.endpoints[0]", ""),
    ("endpoint with a user", "discovery:\n  endpoints: [\"root@10.0.0.1:6443\"]\n", 4, "discovery.endpoints[0]", ""),
    ("endpoint with port 0", "discovery:\n  endpoints: [\"10.0.0.1:0\"]\n", 4, "discovery.endpoints[0]", ""),
    ("endpoint with port 65536", "discovery:\n  endpoints: [\"10.0.0.1:65536\"]\n", 4, "discovery.endpoints[0]", ""),
    ("second endpoint is bad", "discovery:\n  endpoints:\n  - 10.0.0.1:6443\n  - 10.0.0.2:x\n", 6, "discovery.endpoints[1]", ""),
    ("empty endpoint", "discovery:\n  endpoints: [\"\"]\n", 4, "discovery.endpoints[0]", ""),
    ("malformed IPv6 address", "discovery:\n  endpoints: [\"[fe80::1::2]:6443\"]\n", 4, "discovery.endpoints[0]", ""),
    ("too many endpoints", "discovery:\n  endpoints: [" + ", ".join(f"h{i}" for i in range(17)) + "]\n", 4, "discovery.endpoints[16]", "at most 16"),
    ("too many pins", "discovery:\n  caCertHashes: [" + ", ".join(f"sha256:{i:064x}" for i in range(33)) + "]\n", 4, "discovery.caCertHashes[32]", "at most 32"),
    ("pin without type", "discovery:\n  caCertHashes: [\"" + "ab" * 32 + "\"]\n", 4, "discovery.caCertHashes[0]", "sha256:"),
    ("pin of another type", "discovery:\n  caCertHashes: [\"sha1:" + "ab" * 20 + "\"]\n", 4, "discovery.caCertHashes[0]", "sha256:"),
    ("pin that is too short", "discovery:\n  caCertHashes: [\"sha256:abcd\"]\n", 4, "discovery.caCertHashes[0]", "64"),
    ("pin with a letter beyond f", "discovery:\n  caCertHashes: [\"sha256:" + "g" * 64 + "\"]\n", 4, "discovery.caCertHashes[0]", ""),
    ("node name with an underscore", "node:\n  name: node_1\n", 4, "node.name", ""),
    ("node name with a line break", "node:\n  name: \"a\\nb\"\n", 4, "node.name", ""),
    ("node name that is too long", "node:\n  name: " + ".".join(["a" * 63] * 4) + "\n", 4, "node.name", "253"),
    ("relative path", "kubelet:\n  kubeconfig: kubelet.conf\n", 4, "kubelet.kubeconfig", "absolute"),
    ("path with dots", "kubelet:\n  caFile: /etc/../etc/ca.crt\n", 4, "kubelet.caFile", ""),
    ("path that is a folder", "kubelet:\n  caFile: /etc/kubernetes/\n", 4, "kubelet.caFile", ""),
    ("empty path", "kubelet:\n  certificateDirectory: \"\"\n", 4, "kubelet.certificateDirectory", ""),
    ("path with a line break", "kubelet:\n  kubeconfig: \"/etc/a\\nb\"\n", 4, "kubelet.kubeconfig", ""),
    ("expiration below the minimum", "csr:\n  expirationSeconds: 599\n", 4, "csr.expirationSeconds", "600"),
    ("negative expiration", "csr:\n  expirationSeconds: -600\n", 4, "csr.expirationSeconds", ""),
    ("expiration beyond 32 bit", "csr:\n  expirationSeconds: 4294967896\n", 4, "csr.expirationSeconds", ""),
    ("expiration in quotes", "csr:\n  expirationSeconds: \"600\"\n", 4, "csr.expirationSeconds", ""),
    ("expiration in hours", "csr:\n  expirationSeconds: 24h\n", 4, "csr.expirationSeconds", ""),
    ("unknown metadata provider", "metadata:\n  provider: myspace\n", 4, "metadata.provider", ""),
    ("timeout without unit", "timeout: 30\n", 3, "timeout", ""),
    ("timeout in another unit", "timeout: 5 parsecs\n", 3, "timeout", ""),
    ("negative timeout", "timeout: -5s\n", 3, "timeout", ""),
    ("timeout of zero", "timeout: 0s\n", 3, "timeout", ""),
    ("timeout that is too long", "timeout: 99999999999999999999d\n", 3, "timeout", ""),
    ("timeout that is a list", "timeout: [5m]\n", 3, "timeout", ""),
]

# name, whole text, line, word
MALFORMED = [
    ("duplicate key", HEADER + "timeout: 5m\ntimeout: 6m\n", 4, "found one twice"),
    ("duplicate group", HEADER + "node: {name: a}\nnode: {name: b}\n", 4, "found one twice"),
    ("duplicate key in a group", HEADER + "node:\n  name: a\n  name: b\n", 5, "found one twice"),
    ("alias", HEADER + "node: {name: &n a}\ntimeout: *n\n", None, ""),
    ("anchor", HEADER + "node:\n  name: &n a\n", 4, "anchor"),
    ("tag", HEADER + "timeout: !!str 5m\n", 3, "tag"),
    ("merge key", HEADER + "node:\n  <<: {name: a}\n", None, ""),
    ("second document", HEADER + DISCOVERY + "---\n" + HEADER, 7, "document"),
    ("list instead of a mapping", "- a\n- b\n", 1, "mapping"),
    ("text instead of a mapping", "just words\n", 1, "mapping"),
    ("syntax error", HEADER + "node: {name: [\n", None, ""),
    ("tabulator as indentation", HEADER + "node:\n\tname: a\n", 4, ""),
    ("unbalanced quote", HEADER + "node:\n  name: \"a\n", None, ""),
    ("NUL", (HEADER + "node:\n  name: a\0b\n").encode(), None, ""),
    ("not UTF-8", (HEADER + "node:\n  name: ").encode() + b"\xff\xfe\n", None, ""),
    ("a thousand brackets", HEADER + "node: " + "[" * 1000 + "]" * 1000 + "\n", 3, ""),
    ("a hundred thousand entries", HEADER + "discovery: {endpoints: [" + "a," * 100000 + "]}\n", 3, ""),
]

HEADERS = [
    ("no apiVersion", "kind: NodeBootstrap\n" + DISCOVERY, "apiVersion"),
    ("no kind", "apiVersion: node-bootstrap/v1\n" + DISCOVERY, "kind"),
    ("another version", "apiVersion: node-bootstrap/v2\nkind: NodeBootstrap\n" + DISCOVERY, "node-bootstrap/v1"),
    ("another kind", "apiVersion: node-bootstrap/v1\nkind: KubeletConfiguration\n" + DISCOVERY, "NodeBootstrap"),
]

INCOMPLETE = [
    ("nothing at all", None, "discovery.endpoints"),
    ("only comments", "# to be done\n", "discovery.endpoints"),
    ("no endpoint", HEADER + f"discovery:\n  caCertHashes: [\"{PIN}\"]\n", "discovery.endpoints"),
    ("empty list of endpoints", HEADER + f"discovery:\n  endpoints: []\n  caCertHashes: [\"{PIN}\"]\n", "discovery.endpoints"),
    ("no pin, and unsafeSkipCAVerification not set", HEADER + "discovery:\n  endpoints: [\"127.0.0.1:1\"]\n", "discovery.caCertHashes"),
    ("no pin, and unsafeSkipCAVerification false", HEADER + "discovery:\n  endpoints: [\"127.0.0.1:1\"]\n  unsafeSkipCAVerification: false\n", "discovery.caCertHashes"),
]


def table(rows):
    return pytest.mark.parametrize("row", rows, ids=[row[0] for row in rows])


def both(machine, code, *words):
    """join and install read the settings in the same way, without contacting or writing anything."""
    for run in (machine.join(), machine.inspect()):
        run.failed(code, 78, *words)
    assert list(machine.state.iterdir()) == [] and machine.target_names() == {}
    return run


def names_line(machine, run, name, line):
    assert str(machine.etc / name) in run.stderr
    if line is not None:
        assert re.search(rf"{re.escape(name)}:{line}\b", run.stderr), f"line {line} is not named:\n{run.stderr}"


@table(INVALID)
def test_invalid(machine, row):
    _, text, line, key, expected = row
    machine.write_settings(HEADER + text)
    run = both(machine, "settings-invalid", expected)
    names_line(machine, run, "config.yaml", line)
    assert re.search(rf"(?<![\w.]){re.escape(key)}(?![\w\[])", run.stderr), f"{key} is not named:\n{run.stderr}"


@table(MALFORMED)
def test_malformed(machine, row):
    _, text, line, word = row
    machine.write_settings(text)
    run = machine.join()
    assert run.code in ("settings-malformed", "settings-invalid") and run.exit == 78, run.stderr
    assert word in run.stderr
    names_line(machine, run, "config.yaml", line)


@table(HEADERS)
def test_header(machine, row):
    machine.write_settings(row[1])
    both(machine, "settings-invalid", row[2])


@table(INCOMPLETE)
def test_incomplete(machine, row):
    if row[1] is None:
        (machine.etc / "config.yaml").unlink()
    else:
        machine.write_settings(row[1])
    machine.join().failed("settings-incomplete", 78, row[2])


def test_error_names_the_drop_in(machine):
    machine.write_settings(HEADER + "timeout: never\n", "config.yaml.d/50-site.yaml")
    run = both(machine, "settings-invalid", "timeout")
    names_line(machine, run, "config.yaml.d/50-site.yaml", 3)


def test_error_names_the_credential(machine):
    machine.set_credential("config", HEADER + "timeout: never\n")
    both(machine, "settings-invalid", "node-bootstrap.config", "timeout")


# Precedence: credential, config.yaml.d (later names win), config.yaml.

def asked_for(world):
    """The node name in the CSR."""
    world.machine.join().joined()
    return world.server.seen("create")[0].json()["metadata"]["name"], lambda node: pki.csr_name(
        pki.load_key((world.machine.state / "pending.key").read_bytes()).public_key(), pki.node_user(node))


def named(node):
    return HEADER + f"node:\n  name: {node}\n"


PRECEDENCE = [
    ("file alone", {}, None, NODE),
    ("drop-in over file", {"10-a.yaml": named("node-a")}, None, "node-a"),
    ("later drop-in over earlier", {"20-b.yaml": named("node-b"), "10-a.yaml": named("node-a")}, None, "node-b"),
    ("later drop-in without the key", {"10-a.yaml": named("node-a"), "20-b.yaml": HEADER + "timeout: 60s\n"}, None, "node-a"),
    ("credential over drop-in", {"10-a.yaml": named("node-a")}, named("node-c"), "node-c"),
    ("file of another ending", {"10-a.yml": named("node-a"), "20-b.yaml.bak": named("node-b"), ".30-c.yaml.swp": named("node-c")}, None, NODE),
    ("empty drop-in", {"10-a.yaml": "# nothing\n"}, None, NODE),
    ("capital letters", {"10-a.yaml": named("Node-A")}, None, "node-a"),
]


@table(PRECEDENCE)
def test_precedence(world, row):
    _, files, credential, node = row
    for name, text in files.items():
        world.machine.write_settings(text, "config.yaml.d/" + name)
    if credential:
        world.machine.set_credential("config", credential)
    name, expected = asked_for(world)
    assert name == expected(node)


def test_empty_name_is_the_host_name(world):
    world.machine.configure(world.server, node="")
    name, expected = asked_for(world)
    assert name == expected(socket.gethostname().strip().lower())


def test_lists_are_replaced_not_joined(world):
    """A document of higher precedence replaces the whole list."""
    world.machine.write_settings(HEADER + f"discovery:\n  endpoints: [\"{world.server.endpoint}\"]\n  caCertHashes: [\"{PIN}\"]\n", "config.yaml.d/1.yaml")
    world.machine.join().failed("ca-pin-mismatch", 76)


@pytest.mark.parametrize("make", [lambda path: path.mkdir(), lambda path: path.symlink_to("/nonexistent")], ids=["folder", "link that leads nowhere"])
def test_file_that_cannot_be_read(machine, make):
    path = machine.etc / "config.yaml"
    path.unlink()
    make(path)
    run = machine.join().failed("settings-unreadable", 78, str(path))
    assert "settings-incomplete" not in run.codes


def test_file_that_is_too_large(machine):
    machine.write_settings(HEADER + "# filler\n" * 300000)
    both(machine, "settings-unreadable", "config.yaml", "KiB")


def test_settings_through_a_link(world):
    """Configuration management may create links: only root writes there."""
    path = world.machine.etc / "config.yaml"
    path.rename(world.machine.path / "real.yaml")
    path.symlink_to(world.machine.path / "real.yaml")
    world.machine.join().joined()


def test_fifo_does_not_hang(machine):
    path = machine.etc / "config.yaml"
    path.unlink()
    os.mkfifo(path)
    machine.join(patience=30).failed("settings-unreadable", 78, str(path))


# The command line and the environment.

@pytest.mark.parametrize("arguments", [[], ["frobnicate"], ["join", "--frobnicate"], ["join", "extra"], ["status", "extra"]],
                         ids=lambda arguments: " ".join(arguments) or "nothing")
def test_usage(machine, arguments):
    run = machine.start("node-bootstrap", *arguments).wait()
    assert run.exit == 64 and run.stderr


def test_missing_variable(machine):
    machine.inspect().joined()
    machine.start(*machine.child_words("join", under=["/usr/bin/env", "-u", "STATE_DIRECTORY"])).wait().failed("usage", 64, "STATE_DIRECTORY")


def test_no_credentials(machine):
    """systemd sets no $CREDENTIALS_DIRECTORY if there is no credential."""
    run = machine.start_join(under=["/usr/bin/env", "-u", "CREDENTIALS_DIRECTORY"]).wait()
    run.failed("token-missing", 66, "node-bootstrap.token")


@pytest.mark.parametrize("program", ["node-bootstrap", "install"])
def test_help_and_version(machine, program):
    run = machine.start(program, "--help").wait()
    assert run.exit == 0 and "--config-directory" in run.stdout
    run = machine.start(program, "--version").wait()
    assert run.exit == 0 and "0." in run.stdout
