# SPDX-License-Identifier: Apache-2.0
"""A man in the middle, for each join method and the requests after it: nothing secret reaches the attacker.

The servers keep all that they decrypt. Whoever is in the middle ends TLS with a certificate of their own, and answers with what the
real cluster says, or with what they can make without the token.
"""

import base64
import re

import pytest

from common import apiserver, documentation, pki
from common.machine import HEADER, NODE, SECRET, TOKEN, TOKEN_ID, to_yaml
from . import join_methods
from .documented_methods import BEARER, METHODS, OTHER, K3sWorld, at
from .installed import contents
from .k3s import SERVER_SECRET

pytestmark = pytest.mark.each_release
BEARER_CERTIFICATE = "system:serviceaccount:fleet:bootstrap"


# Who is in the middle, and what they make of the real answers.

def replay(world, evil):
    """Holds no token: cluster-info and /cacerts as the real cluster has them."""


def unsigned(world, evil):
    """Holds no token: a CA of their own, with the signature of the real cluster-info."""
    real = world.cluster.cluster_info(world.server.url)["data"]
    world.cluster.edit_info = lambda info: {**info, "data": {**real, "kubeconfig": apiserver.kubeconfig(world.server.url, evil.pem)}}
    world.cluster.cacerts = evil.pem


def another_token(world, evil):
    """Holds a token of the cluster, and signs for its id and for ours."""
    def sign(info):
        text = apiserver.kubeconfig(world.server.url, evil.pem)
        signatures = {key: pki.jws(text, key, "fedcba9876543210") for key in (TOKEN_ID, "ghijkl", "zyxwvu")}
        return {**info, "data": {"kubeconfig": text, **{f"jws-kubeconfig-{key}": value for key, value in signatures.items()}}}
    world.cluster.edit_info = sign
    world.cluster.cacerts = evil.pem + world.cluster.ca.pem


PEOPLE = [replay, unsigned, another_token]


def step_in(server, evil, after):
    """Connections up to this number reach the real server, as a router that has been taken over lets them."""
    real, own = server.identity, evil.serving()

    def on_connect(connection):
        server.identity = real if connection.number <= after else own
    server.on_connect = on_connect


# What must not be seen.

def forms(secret):
    """Plain, in hexadecimal, and inside of base64."""
    secret = secret if isinstance(secret, bytes) else secret.encode()
    found = {secret, secret.hex().encode()}
    for shift, skipped in enumerate((0, 2, 3)):
        found.add(base64.b64encode(bytes(shift) + secret).rstrip(b"=")[skipped:-1])
    return found


def secrets_of(world):
    """All secrets of this machine."""
    found = {SECRET, TOKEN, BEARER, OTHER.split(".")[1], *world.machine.secrets, *world.cluster.secrets()}
    password = world.machine.root / "etc/rancher/node/password"
    if password.exists():
        found.add(password.read_text().strip())
    for folder in (world.machine.path, world.machine.state):
        for path in folder.rglob("*"):
            if path.is_file() and not path.is_symlink() and b"PRIVATE KEY" in path.read_bytes():
                found |= set(private_values(path.read_bytes()))
    return found


def private_values(pem):
    for block in re.findall(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----", pem, re.S):
        yield pki.load_key(block).private_numbers().private_value.to_bytes(32, "big")


def leaks(connections, secrets):
    found = []
    for connection in connections:
        data = connection.received + repr(connection.server_name).encode()
        if b"authorization" in data.lower() or b"PRIVATE KEY" in data:
            found.append(data)
        found += [data for secret in secrets for form in forms(secret) if form in data]
    return found


# The join methods.

def by_client_certificate(world, text):
    """A bootstrap kubeconfig with a key of its own."""
    key = pki.new_key()
    certificate = pki.cert_pem(world.cluster.signer.client(key.public_key(), BEARER_CERTIFICATE, ["fleet"]))
    world.cluster.requesters[BEARER_CERTIFICATE] = ("fleet",)
    (world.machine.credentials / "node-bootstrap.token").unlink()
    world.machine.set_credential("kubeconfig", join_methods.bootstrap_kubeconfig(world.server.url, world.cluster.ca.pem, {
        "client-certificate-data": join_methods.data(certificate), "client-key-data": join_methods.data(pki.key_pem(key))}))
    yield HEADER + to_yaml({"node": {"name": NODE}})


def by_password_of_k3s(world, text):
    world.give(f"node:{SERVER_SECRET}")
    yield at(world, text)


def by_user_data(world, text):
    (world.machine.credentials / "node-bootstrap.token").unlink()
    world.user_data = at(world, text)
    yield HEADER + to_yaml({"node": {"name": NODE}})


def write_settings(world, method, text, timeout="60s"):
    """The initial configuration of the machine."""
    steps = method(world, text)
    world.machine.write_settings(next(steps))
    (world.machine.etc / "config.yaml").chmod(0o600)
    world.machine.write_settings(HEADER + to_yaml({"timeout": timeout}) + ("" if re.search(r"^  name: ", text, re.M) else f"node: {{name: {NODE}}}\n"),
                                 "config.yaml.d/10-name.yaml")


def join(world):
    machine = world.machine
    if hasattr(world, "user_data"):
        machine.inspect(is_metadata_read=False).joined()
        machine.passed.put("/run/node-bootstrap-platform/platform.json", b'{"volume": "cidata"}')
        machine.passed.put("/run/node-bootstrap-platform/user-data", world.user_data.encode())
        return machine.unit_with_passed()
    machine.inspect().joined()
    return machine.join()


def find_methods():
    """name -> (world, method, text of the example)"""
    found = {example.argument or "token": (*METHODS[example.argument or "token"], example.text) for example in documentation.examples("yaml")}
    del found["node-anew"]      # joins twice by itself
    found["client-certificate"] = (join_methods.World, by_client_certificate, "")
    found["k3s-password"] = (K3sWorld, by_password_of_k3s, found["k3s"][2])
    found["user-data"] = (join_methods.World, by_user_data, documentation.examples("user-data")[0].text)
    return found


class Attack:
    """A join method with a man in the middle from the first connection on, or later."""

    def __init__(self, method, person, after):
        self.name = f"{method}, {person.__name__}" + (f" after {after}" if after else "")
        self.method, self.person, self.after = method, person, after

    def play(self, path):
        """A busy computer may take more than the short time until somebody is met."""
        if not self.meets(path, "3s"):
            assert self.meets(path.with_name(f"{path.name}-with-leisure"), "30s"), "nobody met who is in the middle"

    def meets(self, path, timeout):
        path.mkdir()
        world_type, method, text = find_methods()[self.method]
        world = world_type(path)
        try:
            write_settings(world, method, text, timeout)
            evil = pki.CA("kubernetes")
            servers = [world.server, *world._more]
            if self.after == 0:
                self.person(world, evil)
            for server in servers:
                step_in(server, evil, self.after)
            run = join(world)
            met = [connection for server in servers for connection in server.connections if connection.number > self.after]
            assert leaks(met, secrets_of(world)) == []
            assert run.exit != 0 and world.csrs() == [], run.stderr
        finally:
            world.close()
        world.machine.check_secret()
        assert [violation for server in (world.server, *world._more) for violation in server.cluster.violations] == []
        return bool(met)


ATTACKS = [Attack(method, person, after) for method in find_methods()
           for person, after in [*((person, 0) for person in PEOPLE), (replay, 1)]]


@pytest.mark.parametrize("case", ATTACKS)
def test_nothing_secret_is_sent(played, case):
    played(case)


@pytest.mark.parametrize("method", find_methods())
def test_what_the_cluster_gets_would_be_found(tmp_path, method):
    """The search works: it finds the secrets in the same join without an attacker."""
    world_type, steps, text = find_methods()[method]
    world = world_type(tmp_path)
    try:
        write_settings(world, steps, text)
        join(world).joined()
        if method != "client-certificate":
            assert leaks(world.server.connections, secrets_of(world))
    finally:
        world.close()
    world.machine.check_secret()


@pytest.fixture
def joined(world):
    world.configure(timeout="60s")
    world.machine.unit().joined()
    world.configure(timeout="5s")
    world.met = len(world.server.connections)
    return world


@pytest.mark.parametrize("person", PEOPLE)
def test_nothing_secret_is_sent_by_a_refresh(joined, person):
    evil, before = pki.CA("kubernetes"), contents(joined.machine)
    person(joined, evil)
    step_in(joined.server, evil, 0)
    joined.machine.unit("--refresh")
    met = joined.server.connections[joined.met:]
    assert met and leaks(met, secrets_of(joined)) == []
    assert contents(joined.machine) == before
