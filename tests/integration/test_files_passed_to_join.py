# SPDX-License-Identifier: Apache-2.0
"""What install passes to `join`: what only root may read, and when."""

import pytest

from common import pki
from common.failures import FAILURES
from common.machine import HEADER, NODE, Machine, to_yaml
from .installed import SERVER

K10 = "K10::abcdef.0123456789abcdef"
PASSWORD = "etc/rancher/node/password"


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


@pytest.mark.parametrize("discovery, named", [
    ({"file": "cluster.conf"}, ["bootstrap.conf", "token", "cluster.conf", "ca.crt"]),
    ({"file": "https://192.0.2.10/x", "urlCAFile": "url.crt"}, ["bootstrap.conf", "token", "url.crt"]),
], ids=["file", "URL"])
def test_settings_and_all_that_they_name(machine, discovery, named):
    """And nothing of what they do not use. The settings themselves are settled: no document is passed."""
    give(machine, "cluster.conf", cluster_document(ca="ca.crt"))
    give(machine, "bootstrap.conf", cluster_document(user=USER))
    for name, text in {"ca.crt": pki.CA().pem.decode(), "token": "secret", "url.crt": "a bundle", "neighbour": "named by nobody"}.items():
        give(machine, name, text)
    settings(machine, discovery={key: value if "/" in value else str(machine.etc / value) for key, value in discovery.items()},
             bootstrap={"kubeconfig": str(machine.etc / "bootstrap.conf")})
    give(machine, "config.yaml.d/10.yaml", HEADER)
    machine.inspect().joined()
    expected = {str(machine.etc / name): (machine.etc / name).read_text() for name in named}
    assert {path: text for path, text in machine.passed.files.items() if path.startswith(str(machine.etc))} == expected
    assert (machine.passed.PLAN, "plan") in machine.passed.entries


def test_ca_file_for_a_url_from_metadata(machine):
    """Metadata may name the URL of the discovery file. The CA file that verifies it is this machine's."""
    (machine.credentials / "node-bootstrap.token").unlink(missing_ok=True)
    path = give(machine, "url.crt", "a bundle")
    settings(machine, discovery={"urlCAFile": str(path)}, metadata={"provider": "aws"})
    machine.install_found(HEADER + to_yaml({"discovery": {"file": "https://192.0.2.10/x"}}))
    assert machine.passed.files[str(path)] == "a bundle"


def test_nothing_for_a_machine_that_has_joined(machine, cluster):
    machine.put_joined_before(cluster.ca.node(NODE), SERVER, ca=cluster.ca)
    assert machine.inspect().joined().note["verdict"] == "usable" and machine.passed is None


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
    assert any(name.endswith("current.pem") for name in machine.passed.files) == is_given


def test_node_password(machine):
    """Made once, as k3s makes it, and handed over."""
    settings(machine, discovery={"endpoints": ["192.0.2.10:6443"]}, cluster={"type": "k3s"})
    machine.set_credential("token", K10)
    machine.inspect().joined()
    password = machine.read(PASSWORD)
    assert len(bytes.fromhex(password)) == 16 and machine.target(PASSWORD).stat().st_mode & 0o777 == 0o600
    machine.inspect().joined()
    assert machine.read(PASSWORD) == password == machine.passed.files["/" + PASSWORD]


def test_no_node_password_for_others(machine):
    machine.inspect().joined()
    assert not machine.target(PASSWORD).exists()


def test_node_password_that_cannot_be_made(machine):
    machine.put("etc/rancher", "not a folder")
    settings(machine, discovery={"endpoints": ["192.0.2.10:6443"]}, cluster={"type": "k3s"})
    machine.set_credential("token", K10)
    machine.inspect().failed("target-unwritable", 73, "/" + PASSWORD)


@pytest.mark.parametrize("put, found", [
    (lambda machine: machine.put(PASSWORD, ""), "has 0 characters"),
    (lambda machine: machine.put(PASSWORD, "\n"), "has 0 characters"),
    (lambda machine: machine.put(PASSWORD, "x" * 65), "has 65 characters, the first 65 of them printable; expected 1 to 64 printable characters"),
    (lambda machine: machine.put(PASSWORD, "x" * 5000), "cannot be read: File too large"),
    (lambda machine: machine.put(PASSWORD, "word\0"), "has 5 characters, the first 4 of them printable"),
    (lambda machine: machine.put(PASSWORD, "two words"), "has 9 characters, the first 3 of them printable"),
    (lambda machine: machine.put(PASSWORD, "x").unlink() or machine.target(PASSWORD).symlink_to("/nowhere"), "cannot be read: No such file"),
    (lambda machine: machine.put(PASSWORD + "/file", "x"), "cannot be read"),
], ids=["empty", "a newline", "65 characters", "a large file", "a NUL", "two words", "a dangling link", "a folder"])
def test_node_password_that_is_none(machine, put, found):
    put(machine)
    settings(machine, discovery={"endpoints": ["192.0.2.10:6443"]}, cluster={"type": "k3s"})
    machine.set_credential("token", K10)
    machine.inspect().failed("node-password-missing", int(FAILURES["node-password-missing"]["exit"]), f"'/{PASSWORD}' {found}")
