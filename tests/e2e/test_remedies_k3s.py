# SPDX-License-Identifier: Apache-2.0
"""The commands of failures.def for k3s, run as they stand on a machine, which a scripted supervisor joins (test_remedies.py has the others).

Those for a server are not run: see is_for_k3s_server().
"""

import contextlib

import pytest

from common import apiserver, pki, supervisor
from common.failures import FAILURES
from .harness import network
from .harness.node import PKI, TOKEN, UNIT
from .harness.remedies import RESTART, Remedy, changes
from .harness.situations_joined import expire

ADDRESS = "198.51.100.94"
KEY = "remedy-k3s"
BOOTSTRAP_TOKEN = "k3sk3s.0123456789abcdef"
# Commands that are run in other situations, and have the same effect in each.
RUN_ELSEWHERE = (RESTART, "node-bootstrap setup --token-file=-")
# Run in the situation of the same code in test_remedies.py: the scripted supervisor deletes no Node.
AT_THE_CLUSTER = ("kubectl delete node @NODE_BOOTSTRAP_NODE@",)


class Place:
    """A machine and the supervisor that it joins."""

    def __init__(self, node):
        self.node = node
        token_id, secret = BOOTSTRAP_TOKEN.split(".")
        self.cluster = supervisor.K3s(tokens={token_id: apiserver.Token(secret)})


class K3sRemedy(Remedy):
    key = KEY

    def begin(self, token=BOOTSTRAP_TOKEN, **discovery):
        self.node.give(self.cluster.k10(token))
        self.configure(**discovery)
        self.start()

    def configure(self, **discovery):
        self.node.configure(discovery={"endpoints": [ADDRESS], **discovery}, timeout="3m")

    def join(self):
        self.node.give(self.cluster.k10(BOOTSTRAP_TOKEN))
        self.configure()
        self.node.join()
        self.node.await_kubelet()
        self.cluster.members.add(self.node.name)

    def set_up(self, more="", name=None):
        """A token, which a server would print, is pasted."""
        said = self.here("node-bootstrap setup --token-file=-", more, stdin=self.cluster.k10(BOOTSTRAP_TOKEN))
        assert "kubelet is running" in said, said
        assert pki.subject(self.node.certificate())[1] == [pki.node_user(name or self.node.name)]


@pytest.fixture(scope="module")
def place(new_shared_node):
    node = new_shared_node("k3s-remedied").enable(UNIT)
    node.boot("--unit=basic.target")
    place = Place(node)
    network.reach(ADDRESS)
    with supervisor.Supervisor(place.cluster, (ADDRESS, 6443), identity=place.cluster.ca.serving([ADDRESS])):
        yield place
    network.lose(ADDRESS)
    assert place.cluster.violations == []


def no_endpoint(r):
    r.node.give(r.cluster.k10(BOOTSTRAP_TOKEN))
    r.node.configure(discovery={})
    r.start()
    r.configure()
    r.set_up()


def wrong_pin(r):
    r.begin(caCertHashes=["sha256:" + 64 * "0"])
    r.configure()
    r.here("systemctl restart")
    r.joins()


def unknown_token(r):
    r.begin("zzzzzz.0123456789abcdef")
    r.set_up()


def token_that_others_know(r):
    path = "/srv/token"
    r.node.write(path, r.cluster.k10(BOOTSTRAP_TOKEN), 0o644)
    setup = "node-bootstrap", "setup", ADDRESS, f"--token-file={path}"
    r.says(*setup)
    r.here("chmod 600", f" {path}")
    assert "kubelet is running" in r.node.run(*setup).stdout


def certificate_has_expired(r):
    r.join()
    for has_token in (True, False):
        before = r.node.certificate().serial_number
        expire(r.node)
        r.says("node-bootstrap", "check")
        if has_token:
            r.here("systemctl restart")
        else:
            r.node.path(TOKEN).unlink()
            r.set_up()
        r.node.await_kubelet()
        assert r.node.certificate().serial_number != before


def host_name_changed(r):
    old, new = r.node.name, f"{r.node.name}-new"
    r.stack.callback(r.node.run, "hostnamectl", "set-hostname", old)
    r.join()
    before = r.node.certificate().serial_number
    r.node.run("hostnamectl", "set-hostname", new)
    r.start()
    assert "recorded this machine's host name" in r.here("node-bootstrap setup")
    assert r.node.certificate().serial_number == before
    r.here("node-bootstrap setup --token-file=- --force --node-name", f" {new}", stdin=r.cluster.k10(BOOTSTRAP_TOKEN))
    r.here("systemctl restart node-bootstrap.service")
    r.here("systemctl restart kubelet.service")
    r.node.await_kubelet()
    assert pki.subject(r.node.certificate())[1] == [pki.node_user(new)]


def certificate_of_another_ca(r):
    r.join()
    stranger = pki.CA("k3s-client-ca@1600000000")
    r.cluster.others.append(stranger)
    r.node.write(r.node.dated(), stranger.node(r.node.name).combined, 0o600)
    r.says("node-bootstrap", "check")
    r.here("node-bootstrap reset")
    assert not r.node.kubelet_pid() and not r.node.exists(f"{PKI}/node-bootstrap.json")
    r.set_up()


SITUATIONS = {
    "ca-pin-mismatch": wrong_pin,
    "join-needed": certificate_has_expired,
    "node-access-revoked": certificate_of_another_ca,
    "node-renamed": host_name_changed,
    "settings-incomplete": no_endpoint,
    "token-exposed": token_that_others_know,
    "token-rejected": unknown_token,
}


@pytest.mark.parametrize("code", SITUATIONS)
def test_remedy(place, code):
    with contextlib.ExitStack() as stack:
        stack.callback(place.node.forget)
        remedy = K3sRemedy(code, place, stack, None)
        SITUATIONS[code](remedy)
        assert [command for command in remedy.left if command not in (*RUN_ELSEWHERE, *AT_THE_CLUSTER)] == [], "each command that changes something is run"
        assert remedy.is_brought_about


def test_every_command_that_changes_something_is_run():
    missing = [(code, command) for code in FAILURES for command in changes(code, KEY) if code not in SITUATIONS]
    assert [(code, command) for code, command in missing if command not in RUN_ELSEWHERE] == []
    assert {command for code in SITUATIONS for command in changes(code, KEY)}.issuperset((*RUN_ELSEWHERE, *AT_THE_CLUSTER))
