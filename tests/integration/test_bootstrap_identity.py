# SPDX-License-Identifier: Apache-2.0
"""Bootstrap identities: two tokens, and bootstrap kubeconfigs with a token or a client certificate."""

import json

import pytest

from cryptography.hazmat.primitives import serialization

from common import apiserver, faults, pki
from common.machine import SECRET, TOKEN, TOKEN_ID, Machine
from .join_methods import Case, bootstrap_kubeconfig, data

pytestmark = pytest.mark.each_release
OTHER = "fedcba.fedcba9876543210"
OTHER_ID, OTHER_SECRET = OTHER.split(".")
ACCOUNT = "system:serviceaccount:openshift-machine-config-operator:node-bootstrapper"
GROUPS = ("system:serviceaccounts", "system:serviceaccounts:openshift-machine-config-operator")
BEARER = "eyJhbGciOiJSUzI1NiIsImtpZCI6IkFCQyJ9.eyJzdWIiOiJub2RlLWJvb3RzdHJhcHBlciJ9." + "c2lnbmF0dXJl" * 20
CHECKED = ["cluster-info", "create", "watch"]


# Two tokens.

def two_tokens(world):
    """One token only signs; the other one only authenticates."""
    world.machine.secrets.append(OTHER_SECRET)
    world.cluster.tokens = {TOKEN_ID: apiserver.Token(SECRET, may=()), OTHER_ID: apiserver.Token(OTHER_SECRET, signs=False)}
    world.machine.set_credential("tls-bootstrap-token", OTHER)
    return by_endpoints(world)


def by_endpoints(world):
    return {"discovery": {"endpoints": [world.server.endpoint], "caCertHashes": [world.cluster.ca.pin]}}


def asked_as(user):
    def check(world, run):
        assert world.request()["username"] == user
        assert {request.user for request in world.server.requests} == {"system:anonymous", user}
        assert all("authorization" not in request.headers and request.connection.peer is None for request in world.server.seen("cluster-info"))
    return check


def of_the_other(change):
    def prepare(world):
        prepared = two_tokens(world)
        change(world)
        return prepared
    return prepare


def other_is_gone(world):
    world.cluster.tokens[OTHER_ID].valid = False


def other_is_powerless(world):
    world.cluster.tokens[OTHER_ID].may = ()


def first_is_gone(world):
    """The other one signs as well, but is not used for discovery."""
    del world.cluster.tokens[TOKEN_ID]
    world.cluster.tokens[OTHER_ID].signs = True


def other_is_malformed(world):
    world.machine.set_credential("tls-bootstrap-token", OTHER_SECRET)


def first_is_not_there(world):
    (world.machine.credentials / "node-bootstrap.token").unlink()


def other_is_exposed(world):
    world.machine.set_credential("tls-bootstrap-token", OTHER, 0o444)


TOKENS = [
    Case("discovery with one and the request with the other", two_tokens, None, 0, requests=CHECKED, check=asked_as("system:bootstrap:" + OTHER_ID)),
    Case("the other is gone", of_the_other(other_is_gone), "token-rejected", 77, OTHER_ID),
    Case("the other may not ask", of_the_other(other_is_powerless), "csr-forbidden", 77),
    Case("the first is gone", of_the_other(first_is_gone), "token-unknown", 69, TOKEN_ID),
    Case("the other is malformed", of_the_other(other_is_malformed), "token-malformed", 65, "node-bootstrap.tls-bootstrap-token", requests=[]),
    Case("the other is exposed", of_the_other(other_is_exposed), "token-exposed", 78, "node-bootstrap.tls-bootstrap-token", requests=[]),
    Case("discovery has no token", of_the_other(first_is_not_there), "token-missing", 66, "node-bootstrap.token", requests=[]),
]


# Bootstrap kubeconfigs.

def pem_of_pkcs8(key):
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def keep(world, text):
    """Nothing of a private key may be printed or left anywhere: each line of it is a secret."""
    world.machine.secrets += [line for line in text.decode().splitlines() if len(line) > 32 and "-" not in line]
    return text


class Client:
    """A client certificate that the cluster accepts."""

    def __init__(self, world, *, kind="ec", to_pem=pki.key_pem, signer=None, **options):
        key = pki.new_key(kind)
        signer = signer or world.cluster.signer
        self.certificate = pki.cert_pem(signer.client(key.public_key(), ACCOUNT, GROUPS, **options)) + b"".join(map(pki.cert_pem, signer.chain()))
        self.key = keep(world, to_pem(key))


def bearer(world):
    world.machine.secrets.append(BEARER)
    return {"token": BEARER}


def bearer_file(world):
    world.give("token", BEARER + "\n")
    bearer(world)
    return {"tokenFile": "token"}


def bearer_file_elsewhere(world):
    bearer(world)
    return {"tokenFile": world.give("token", BEARER)}


def file_wins(world):
    """As in clientcmd."""
    return {**bearer_file(world), "token": "another"}


def certificate_data(**options):
    def user(world):
        client = Client(world, **options)
        return {"client-certificate-data": data(client.certificate), "client-key-data": data(client.key)}
    return user


def certificate_files(world):
    client = Client(world)
    world.give("client.crt", client.certificate)
    world.give("client.key", client.key)
    return {"client-certificate": "client.crt", "client-key": "client.key"}


def certificate_files_elsewhere(world):
    client = Client(world)
    return {"client-certificate": world.give("client.crt", client.certificate, 0o644), "client-key": world.give("client.key", client.key)}


def certificate_in_one_file(world):
    """As kubelet's own file: certificate, then key."""
    client = Client(world)
    both = world.give("client.pem", client.certificate + client.key)
    return {"client-certificate": both, "client-key": both}


def below_an_intermediate(world):
    return certificate_data(signer=pki.CA("bootstrap-signer", parent=world.cluster.signer))(world)


def prepare(world, user, as_credential=False, mode=0o600, name="kubeconfig", **cluster):
    """The kubeconfig as a credential or as bootstrap.kubeconfig; there is no token."""
    world.cluster.bearers = {BEARER: ACCOUNT}
    world.cluster.requesters = {ACCOUNT: GROUPS}
    (world.machine.credentials / "node-bootstrap.token").unlink()
    text = bootstrap_kubeconfig(world.server.url, world.cluster.ca.pem, user(world) if callable(user) else user, **cluster)
    if as_credential:
        world.machine.set_credential("kubeconfig", text)
        return {}
    return {"bootstrap": {"kubeconfig": world.give(name, text, mode)}}


def long_path(world):
    """The text that names the path in the handoff ends in the middle of a character if it is cut after 125 bytes."""
    return prepare(world, bearer, name="x" * (len(str(world.given).encode()) % 2 + 1) + "\u00e4" * 60)


def path(user, **options):
    return lambda world: prepare(world, user, **options)


def credential(user, **options):
    return lambda world: prepare(world, user, as_credential=True, **options)


def authenticated(world, run):
    """The request is authenticated by a header or by a certificate, never by both."""
    asked_as(ACCOUNT)(world, run)
    for request in world.server.requests:
        if request.kind != "cluster-info":
            assert ("authorization" in request.headers) != (request.connection.user == ACCOUNT)
    record = json.loads(world.machine.read(Machine.RECORD))
    assert "abcdef" not in json.dumps(record)
    assert world.installed_cas() == [world.cluster.ca.pin]


def by_certificate(world, run):
    authenticated(world, run)
    assert {request.connection.user for request in world.server.requests if request.kind != "cluster-info"} == {ACCOUNT}


ALONE = [
    Case("token, by path", path(bearer), None, 0, requests=CHECKED, check=authenticated),
    Case("token, as a credential", credential(bearer), None, 0, requests=CHECKED, check=authenticated),
    Case("token file beside it", path(bearer_file), None, 0, check=authenticated),
    Case("token file elsewhere", path(bearer_file_elsewhere), None, 0, check=authenticated),
    Case("token file elsewhere, from a credential", credential(bearer_file_elsewhere), None, 0, check=authenticated),
    Case("token and token file", path(file_wins), None, 0, check=authenticated),
    Case("certificate as data", path(certificate_data()), None, 0, requests=CHECKED, check=by_certificate),
    Case("certificate as data, as a credential", credential(certificate_data()), None, 0, check=by_certificate),
    Case("certificate by files beside it", path(certificate_files), None, 0, check=by_certificate),
    Case("certificate by files elsewhere", path(certificate_files_elsewhere), None, 0, check=by_certificate),
    Case("certificate by files, from a credential", credential(certificate_files_elsewhere), None, 0, check=by_certificate),
    Case("certificate and key in one file", path(certificate_in_one_file), None, 0, check=by_certificate),
    Case("RSA key", path(certificate_data(kind="rsa")), None, 0, check=by_certificate),
    Case("key in PKCS #8", path(certificate_data(to_pem=pem_of_pkcs8)), None, 0, check=by_certificate),
    Case("below an intermediate CA", path(below_an_intermediate), None, 0, check=by_certificate),
    Case("not yet known at first", lambda world: world.server.on("create", faults.unauthorized, times=1) or path(bearer)(world), None, 0,
         check=authenticated),
]


# With another discovery method.

def beside_endpoints(world):
    """Discovery by token and endpoints; the kubeconfig has an unused address."""
    made = prepare(world, bearer, server="https://192.0.2.1:6443")
    world.machine.set_credential("token", TOKEN)
    world.cluster.tokens[TOKEN_ID].may = ()
    return {**made, **by_endpoints(world)}


def beside_a_document(world):
    made = prepare(world, certificate_data(), server="https://192.0.2.1:6443")
    return {**made, "discovery": {"file": world.give("cluster.conf", world.document())}}


def stronger_than_a_path(world):
    """The API server does not know the token in the file."""
    other = bootstrap_kubeconfig(world.server.url, world.cluster.ca.pem, {"token": "nobody-knows-this"})
    return {**prepare(world, bearer, as_credential=True), "bootstrap": {"kubeconfig": world.give("other", other)}}


def stronger_than_a_token(world):
    made = prepare(world, bearer)
    world.machine.secrets.append(OTHER_SECRET)
    world.machine.set_credential("tls-bootstrap-token", OTHER)
    return made


def endpoints_without_token(world):
    return {**prepare(world, bearer), **by_endpoints(world)}


def openshift(world):
    """Its paths: the kubeconfig beside a KubeletConfiguration that has kubeadm's name for a kubeconfig."""
    world.machine.put(Machine.KUBECONFIG, "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n", 0o644)
    return {**prepare(world, bearer), "kubelet": {"kubeconfig": "/var/lib/kubelet/kubeconfig"}}


def openshift_joined(world, run):
    assert world.request()["username"] == ACCOUNT and world.request()["groups"] == [*GROUPS, "system:authenticated"]
    assert world.machine.read(Machine.KUBECONFIG).startswith("kind: KubeletConfiguration")
    assert world.server.url in world.machine.read("var/lib/kubelet/kubeconfig")


def with_server_name_and_proxy(world):
    world.server.identity = world.cluster.ca.serving(["api-int.example.org"])
    world.proxy = world.closing(faults.Proxy())
    return prepare(world, certificate_data(), **{"tls-server-name": "api-int.example.org", "proxy-url": world.proxy.url})


def name_and_proxy_arrived(world, run):
    by_certificate(world, run)
    cluster, _ = world.kubeconfig()
    assert (cluster["tls-server-name"], cluster["proxy-url"]) == ("api-int.example.org", world.proxy.url)


BESIDE = [
    Case("endpoints and a token for discovery", beside_endpoints, None, 0, requests=CHECKED, check=asked_as(ACCOUNT)),
    Case("a discovery file", beside_a_document, None, 0, requests=CHECKED, check=by_certificate),
    Case("a credential is stronger than a path", stronger_than_a_path, None, 0, check=authenticated),
    Case("a path that is cut in a message", long_path, None, 0, check=authenticated),
    Case("a kubeconfig is stronger than a token", stronger_than_a_token, None, 0, check=authenticated),
    Case("endpoints, and no token", endpoints_without_token, "token-missing", 66, "remove discovery.endpoints", requests=[]),
    Case("paths of OpenShift", openshift, None, 0, check=openshift_joined),
    Case("tls-server-name and proxy-url", with_server_name_and_proxy, None, 0, check=name_and_proxy_arrived),
]


# What is refused.

def with_password(world):
    world.machine.secrets.append("hunter2hunter2")
    return {"username": "admin", "password": "hunter2hunter2"}


def certificate_alone(world):
    return {"client-certificate-data": data(Client(world).certificate)}


def key_alone(world):
    return {"client-key-data": data(Client(world).key)}


def both(world):
    return {**bearer(world), **certificate_data()(world)}


def other_key(world):
    return {"client-certificate-data": data(Client(world).certificate), "client-key-data": data(Client(world).key)}


def no_key(world):
    return {"client-certificate-data": data(Client(world).certificate), "client-key-data": data(b"not a key\n")}


def relative_in_a_credential(world):
    bearer_file(world)
    return {"tokenFile": "token"}


def missing_kubeconfig(world):
    prepare(world, bearer)
    return {"bootstrap": {"kubeconfig": str(world.given / "nowhere")}}


def unknown_bearer(world):
    world.machine.secrets.append("nobody-knows-this")
    return {"token": "nobody-knows-this"}


def powerless(world):
    made = prepare(world, bearer)
    world.cluster.requesters = {}
    return made


def not_taken(world):
    """An expired one, for instance: the API server looks at it after TLS."""
    world.server.on("create", faults.unauthorized)
    return prepare(world, certificate_data())


EXEC = {"exec": {"command": "/usr/bin/aws", "apiVersion": "client.authentication.k8s.io/v1"}}
BAD = ("bootstrap-kubeconfig-unacceptable", 65)
USER = "users[0].user"
REFUSED = [
    Case("exec", path(EXEC), *BAD, USER, "exec", requests=[]),
    Case("auth-provider", path({"auth-provider": {"name": "oidc"}}), *BAD, USER, "auth-provider", requests=[]),
    Case("user and password", path(with_password), *BAD, USER, "username", requests=[]),
    Case("impersonation", path({"token": "x", "as": "admin"}), *BAD, USER, "found as", requests=[]),
    Case("nothing", path({}), *BAD, USER, "neither", requests=[]),
    Case("token and certificate", path(both), *BAD, USER, "both", requests=[]),
    Case("certificate without key", path(certificate_alone), *BAD, "client-key", requests=[]),
    Case("key without certificate", path(key_alone), *BAD, "client-certificate", requests=[]),
    Case("key of another certificate", path(other_key), *BAD, "client-key", requests=[]),
    Case("key that is none", path(no_key), *BAD, "client-key", requests=[]),
    Case("verification switched off", path(bearer, **{"insecure-skip-tls-verify": True}), *BAD, "insecure-skip-tls-verify", requests=[]),
    Case("token with a line break", path({"token": "abc\nX-Evil: 1"}), *BAD, "token", requests=[]),
    Case("others may read it", path(bearer, mode=0o644), "token-exposed", 78, "0644", requests=[]),
    Case("others may execute it", path(bearer, mode=0o601), "token-exposed", 78, "0601", requests=[]),
    Case("not there", missing_kubeconfig, "bootstrap-kubeconfig-unreadable", 66, "nowhere", requests=[]),
    Case("token file not there", path({"tokenFile": "nowhere"}), "bootstrap-kubeconfig-unreadable", 66, "nowhere", requests=[]),
    Case("a relative path in a credential", credential(relative_in_a_credential), *BAD, "tokenFile", "absolute", requests=[]),
    Case("a token that nobody knows", path(unknown_bearer), "token-rejected", 77),
    Case("an account that may not ask", powerless, "csr-forbidden", 77, ACCOUNT),
    Case("a certificate that is not taken", not_taken, "token-rejected", 77),
]


@pytest.mark.parametrize("case", TOKENS)
def test_tokens(played, case):
    played(case)


@pytest.mark.parametrize("case", ALONE)
def test_kubeconfig_alone(played, case):
    played(case)


@pytest.mark.parametrize("case", BESIDE)
def test_kubeconfig_beside(played, case):
    played(case)


@pytest.mark.parametrize("case", REFUSED)
def test_refused(played, case):
    played(case)
