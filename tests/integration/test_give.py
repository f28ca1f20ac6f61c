# SPDX-License-Identifier: Apache-2.0
"""What install passes to `join`: files that only root can read, and when."""

import os

import pytest

import pki
from machine import FAILURES, HEADER, NODE, Machine, to_yaml
from test_install import SERVER

K10 = "K10::abcdef.0123456789abcdef"
PASSWORD = "etc/rancher/node/password"


def copies(machine):
    """By the end of their name."""
    found = {path.name: path.read_text() for path in machine.run.iterdir() if path.name.startswith("given-")}
    assert all((machine.run / name).lstat().st_mode & 0o777 == 0o600 for name in found)
    return found


def copy_of(machine, path):
    [text] = [text for name, text in copies(machine).items() if name.endswith("-" + path.replace("-", "\\x2d").replace("/", "-"))]
    return text


def give(machine, name, text, mode=0o600):
    """A file beside the settings, which `machine.etc` stands for."""
    path = machine.etc / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def settings(machine, **sections):
    give(machine, "config.yaml", HEADER + to_yaml({"node": {"name": NODE}, **sections}))


def cluster_document(ca=None, user=""):
    authority = f"    certificate-authority: {ca}\n" if ca else ""
    return f"apiVersion: v1\nkind: Config\nclusters:\n- name: k\n  cluster:\n    server: {SERVER}\n{authority}{user}"


USER = "users:\n- name: u\n  user: {tokenFile: token}\ncontexts:\n- name: c\n  context: {cluster: k, user: u}\ncurrent-context: c\n"


def test_settings_and_all_that_they_name(machine):
    give(machine, "cluster.conf", cluster_document(ca="ca.crt"))
    give(machine, "bootstrap.conf", cluster_document(user=USER))
    named = {"ca.crt": pki.CA().pem.decode(), "token": "secret", "url.crt": "a bundle"}
    for name, text in named.items():
        give(machine, name, text)
    give(machine, "neighbour", "named by nobody")
    settings(machine, discovery={"file": str(machine.etc / "cluster.conf"), "urlCAFile": str(machine.etc / "url.crt")},
             bootstrap={"kubeconfig": str(machine.etc / "bootstrap.conf")})
    more = give(machine, "config.yaml.d/10.yaml", HEADER)
    machine.inspect().joined()
    assert copy_of(machine, "etc/config.yaml") == (machine.etc / "config.yaml").read_text()
    assert copy_of(machine, "config.yaml.d/10.yaml") == more.read_text()
    for name, text in named.items():
        assert copy_of(machine, "etc/" + name) == text
    assert len(copies(machine)) == 7


def test_nothing_for_a_machine_that_has_joined(machine, cluster):
    machine.put_joined_before(cluster.ca.node(NODE), SERVER, ca=cluster.ca)
    assert machine.inspect().joined().note["verdict"] == "usable" and copies(machine) == {}


def test_client_certificate_to_ask_with(machine, server, cluster):
    """node.verifyAccess: `join` shows the certificate to the API server."""
    identity = cluster.ca.node(NODE)
    machine.put_joined_before(identity, SERVER, ca=cluster.ca)
    machine.configure(server)
    machine.write_settings(HEADER + to_yaml({"node": {"verifyAccess": True}}), "config.yaml.d/10.yaml")
    machine.inspect().joined()
    assert copy_of(machine, Machine.CURRENT) == identity.combined.decode() and copy_of(machine, Machine.CA_FILE) == cluster.ca.pem.decode()
    forget(machine)


def forget(machine):
    """As `join` does."""
    for name in copies(machine):
        (machine.run / name).unlink()


K3S_CLIENTS = [
    ("no kubeconfig", lambda machine, ca: machine.put(Machine.CURRENT, ca.node(NODE).combined), True),
    ("expired", lambda machine, ca: machine.put_joined_before(ca.node(NODE, start=-pki.DAY, end=-pki.HOUR), SERVER, ca=ca), False),
    ("another node's", lambda machine, ca: machine.put_joined_before(ca.node("node-2"), SERVER, ca=ca), False),
]


@pytest.mark.parametrize("make, is_given", [row[1:] for row in K3S_CLIENTS], ids=[row[0] for row in K3S_CLIENTS])
def test_client_certificate_for_a_supervisor(machine, cluster, make, is_given):
    """k3s accepts it without the token; only a valid one is handed over."""
    make(machine, cluster.ca)
    settings(machine, discovery={"endpoints": ["192.0.2.10:6443"]}, cluster={"type": "k3s"})
    machine.set_credential("token", K10)
    machine.inspect().joined()
    assert any(name.endswith("current.pem") for name in copies(machine)) == is_given
    forget(machine)


def test_copies_are_gone_after_the_join(world):
    (world.machine.etc / "config.yaml").chmod(0o600)
    world.machine.inspect().joined()
    assert len(copies(world.machine)) == 1
    world.machine.join().joined()
    assert copies(world.machine) == {} and list(world.machine.run.iterdir()) == []


def test_node_password(machine):
    """Made once, as k3s makes it, and handed over."""
    settings(machine, discovery={"endpoints": ["192.0.2.10:6443"]}, cluster={"type": "k3s"})
    machine.set_credential("token", K10)
    machine.inspect().joined()
    password = machine.read(PASSWORD)
    assert len(bytes.fromhex(password)) == 16 and machine.target(PASSWORD).stat().st_mode & 0o777 == 0o600
    machine.inspect().joined()
    assert machine.read(PASSWORD) == password == copy_of(machine, PASSWORD)


def test_no_node_password_for_others(machine):
    machine.inspect().joined()
    assert not machine.target(PASSWORD).exists()


def test_node_password_that_cannot_be_made(machine):
    machine.put("etc/rancher", "not a folder")
    settings(machine, discovery={"endpoints": ["192.0.2.10:6443"]}, cluster={"type": "k3s"})
    machine.set_credential("token", K10)
    machine.inspect().failed("target-unwritable", 73, "/" + PASSWORD)


@pytest.mark.parametrize("put, found", [
    (lambda machine: machine.put(PASSWORD, ""), "is empty"),
    (lambda machine: machine.put(PASSWORD, "\n"), "is empty"),
    (lambda machine: machine.put(PASSWORD, "x" * 65), "holds more characters"),
    (lambda machine: machine.put(PASSWORD, "x" * 5000), "is too large"),
    (lambda machine: machine.put(PASSWORD, "two words"), "holds a blank"),
    (lambda machine: machine.put(PASSWORD, "x").unlink() or machine.target(PASSWORD).symlink_to("/nowhere"), "is a link that leads nowhere"),
    (lambda machine: machine.put(PASSWORD + "/file", "x"), "cannot be read"),
], ids=["empty", "a newline", "65 characters", "a large file", "two words", "a dangling link", "a folder"])
def test_node_password_that_is_none(machine, put, found):
    put(machine)
    settings(machine, discovery={"endpoints": ["192.0.2.10:6443"]}, cluster={"type": "k3s"})
    machine.set_credential("token", K10)
    machine.inspect().failed("node-password-missing", int(FAILURES["node-password-missing"]["exit"]), f"'/{PASSWORD}' {found}", "expected 1 to 64 printable characters")


def test_copy_that_cannot_be_made_on_a_machine_that_has_joined(machine, cluster):
    """The certificate is usable, so no server is contacted."""
    machine.put_joined_before(cluster.ca.node(NODE), SERVER, ca=cluster.ca)
    long = give(machine, "x" * 200, pki.CA().pem.decode())
    give(machine, "config.yaml", HEADER + to_yaml({"node": {"name": NODE, "verifyAccess": True}, "discovery": {"file": "https://192.0.2.10/x", "urlCAFile": str(long)}}))
    run = machine.inspect().joined()
    assert "longer than 200 bytes" in run.stderr and run.note["verdict"] == "usable" and "verifyAccess" not in run.note


def test_no_new_node_password_on_a_machine_that_has_joined(machine, cluster):
    machine.put_joined_before(cluster.ca.node(NODE), SERVER, ca=cluster.ca)
    give(machine, "config.yaml", HEADER + to_yaml({"node": {"name": NODE, "verifyAccess": True}, "discovery": {"endpoints": ["192.0.2.10:6443"]}, "cluster": {"type": "k3s"}}))
    machine.set_credential("token", K10)
    machine.inspect().joined()
    assert copies(machine) and not machine.target(PASSWORD).exists()
    forget(machine)


def test_copy_in_the_making_goes_with_the_others(world):
    world.machine.inspect().joined()
    (world.machine.run / ".given.tmp").touch()
    world.machine.join().joined()
    assert list(world.machine.run.iterdir()) == []


def test_path_that_has_no_place(machine):
    long = give(machine, "x" * 200, pki.CA().pem.decode())
    settings(machine, discovery={"file": "https://192.0.2.10/x", "urlCAFile": str(long)})
    machine.inspect().failed("copy-unwritable", 73, "longer than 200 bytes", str(long))
    long.chmod(0o644)       # then `join` reads it where it is
    machine.inspect().joined()


@pytest.mark.parametrize("plant", [lambda path: path.symlink_to("../outside"), lambda path: os.link(path.parent.parent / "outside", path)], ids=["link", "hard link"])
def test_planted_names(machine, plant):
    """The folder is the dynamic user's; what it left there under our names is replaced, never written into."""
    outside = machine.path / "outside"
    outside.write_text("stays")
    machine.inspect().joined()
    [name] = copies(machine)
    (machine.run / name).unlink()
    for planted in (name, ".given.tmp"):
        plant(machine.run / planted)
    machine.inspect().joined()
    assert outside.read_text() == "stays" and copies(machine) == {name: (machine.etc / "config.yaml").read_text()}
