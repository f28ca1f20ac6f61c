# SPDX-License-Identifier: Apache-2.0
"""Discovery: the contents of cluster-info, that is signatures, pins, and the kubeconfig in it."""

import base64
import json

import pytest

from common import apiserver, faults, pki
from common.machine import SECRET, TOKEN_ID, Case
from .attackers import Play, plays

pytestmark = pytest.mark.each_release
OTHER = "zyxwvu"
KEY = "jws-kubeconfig-" + TOKEN_ID


def sign(world, make):
    """Replaces our signature by make(text)."""
    def edit(info):
        value = make(info["data"]["kubeconfig"])
        info["data"][KEY] = value
        return info
    world.cluster.edit_info = edit


def header(**fields):
    return lambda world: sign(world, lambda text: pki.jws(text, TOKEN_ID, SECRET, json.dumps(fields, separators=(",", ":"))))


def signature(make):
    return lambda world: sign(world, make)


def good(text):
    return pki.jws(text, TOKEN_ID, SECRET)


def protected(text):
    return good(text).split("..")[0]


def no_signature(world):
    world.cluster.tokens[TOKEN_ID].signs = False


def signatures_of_others(world):
    no_signature(world)
    world.cluster.tokens[OTHER] = apiserver.Token("fedcba9876543210")


def other_secret(world):
    world.cluster.tokens[TOKEN_ID].secret = "fedcba9876543210"


def tampered(world):
    def edit(info):
        info["data"]["kubeconfig"] += "\n"
        return info
    world.cluster.edit_info = edit


def signed_for_another_id(world):
    """The signature of another token, under our name."""
    sign(world, lambda text: pki.jws(text, OTHER, SECRET))


SIGNATURES = [
    Case("no signature at all", no_signature, "signature-missing", 69, "has no signature"),
    Case("signed for others but not for us", signatures_of_others, "token-unknown", 69, TOKEN_ID),
    Case("made with another secret", other_secret, "signature-invalid", 76, TOKEN_ID),
    Case("changed after signing", tampered, "signature-invalid", 76),
    Case("made with the whole token, as old documentation has it",
         signature(lambda text: pki.jws(text, TOKEN_ID, f"{TOKEN_ID}.{SECRET}")), "signature-invalid", 76),
    Case("signed for another id", signed_for_another_id, "signature-invalid", 76),
    Case("alg none", header(alg="none", kid=TOKEN_ID), "signature-invalid", 76),
    Case("alg none and empty mac", signature(lambda text: pki.b64url(b'{"alg":"none","kid":"%s"}' % TOKEN_ID.encode()) + ".."), "signature-invalid", 76),
    Case("another alg", header(alg="HS512", kid=TOKEN_ID), "signature-invalid", 76),
    Case("kid of another", header(alg="HS256", kid=OTHER), "signature-invalid", 76),
    Case("no kid", header(alg="HS256"), "signature-invalid", 76),
    Case("an additional header field", header(alg="HS256", kid=TOKEN_ID, crit=["b64"], b64=False), "signature-invalid", 76),
    Case("header is not JSON", signature(lambda text: pki.jws(text, TOKEN_ID, SECRET, "HS256")), "signature-invalid", 76),
    Case("empty mac", signature(lambda text: protected(text) + ".."), "signature-invalid", 76),
    Case("short mac", signature(lambda text: good(text)[:-2]), "signature-invalid", 76),
    Case("long mac", signature(lambda text: good(text) + "AA"), "signature-invalid", 76),
    Case("padded mac", signature(lambda text: good(text) + "="), "signature-invalid", 76),
    Case("mac with a bit beyond its end", signature(lambda text: good(text)[:-1] + chr(ord(good(text)[-1]) + 1)), "signature-invalid", 76),
    Case("payload between the dots", signature(lambda text: good(text).replace("..", "." + pki.b64url(text.encode()) + ".")), "signature-invalid", 76),
    Case("one part only", signature(lambda text: "deadbeef"), "signature-invalid", 76),
    Case("newline after it", signature(lambda text: good(text) + "\n"), "signature-invalid", 76),
    Case("empty", signature(lambda text: ""), "signature-invalid", 76),
    Case("hundred thousand characters", signature(lambda text: "A" * 100000), "signature-invalid", 76),
]


def kubeconfig(**options):
    """A correctly signed cluster-info with this kubeconfig."""
    def prepare(world):
        ca = options.get("ca_pem", world.cluster.ca.pem)
        rest = {key: value for key, value in options.items() if key not in ("ca_pem", "server")}
        world.cluster.kubeconfig = lambda url: apiserver.kubeconfig(options.get("server", url), ca, **rest)
    return prepare


def text(make):
    """The same with the text changed by make(text)."""
    def prepare(world):
        world.cluster.kubeconfig = lambda url: make(apiserver.kubeconfig(url, world.cluster.ca.pem))
    return prepare


def user(content):
    return kubeconfig(tail=f"current-context: \"\"\nkind: Config\nusers:\n- name: someone\n  user:\n    {content}\n")


def replaced(old, new):
    return text(lambda value: value.replace(old, new))


def bundle(make):
    def prepare(world):
        world.cluster.bundle = make(world.cluster)
    return prepare


BAD = ("cluster-info-unacceptable", 76)
KUBECONFIGS = [
    Case("bearer token in it", user("token: eyJhbGciOi"), *BAD, "users", requests=["cluster-info"]),
    Case("token file in it", user("tokenFile: /var/run/token"), *BAD),
    Case("client key in it", user("client-key-data: LS0tLS1CRUdJTg=="), *BAD),
    Case("client certificate path in it", user("client-certificate: /etc/ssl/node.pem"), *BAD),
    Case("password in it", user("password: hunter2hunter2"), *BAD),
    Case("exec plugin in it", user("exec: {command: /bin/sh, apiVersion: client.authentication.k8s.io/v1}"), *BAD),
    Case("auth provider in it", user("auth-provider: {name: oidc}"), *BAD),
    Case("several clusters", kubeconfig(names=("", "other")), *BAD, "cluster"),
    Case("no cluster", kubeconfig(names=()), *BAD, "cluster"),
    Case("no CA", kubeconfig(ca_pem=None), *BAD, "certificate-authority-data"),
    Case("CA as a path", kubeconfig(ca_pem=None, extra_cluster="    certificate-authority: /etc/ssl/ca.crt\n"), *BAD, "certificate-authority"),
    Case("CA as data and as a path", kubeconfig(extra_cluster="    certificate-authority: /etc/ssl/ca.crt\n"), *BAD, "certificate-authority"),
    Case("verification switched off", kubeconfig(extra_cluster="    insecure-skip-tls-verify: true\n"), *BAD, "insecure-skip-tls-verify"),
    Case("CA is empty", kubeconfig(ca_pem=b""), *BAD),
    Case("CA is not base64", replaced("certificate-authority-data: ", "certificate-authority-data: '*'#"), *BAD),
    Case("CA is no certificate", kubeconfig(ca_pem=b"not a certificate\n"), *BAD),
    Case("CA is cut short", bundle(lambda cluster: [cluster.ca.pem[:-60]]), *BAD),
    Case("a private key beside the CA", bundle(lambda cluster: [cluster.ca.pem, pki.key_pem(pki.new_key())]), *BAD),
    Case("a hundred CAs", bundle(lambda cluster: [cluster.ca.pem] * 100), *BAD),
    Case("no server", replaced("server: ", "servers: "), *BAD, "server"),
    Case("plain http server", replaced("server: https:", "server: http:"), *BAD, "server"),
    Case("server with a user", replaced("server: https://", "server: https://root:toor@"), *BAD, "server"),
    Case("server with a query", kubeconfig(server="https://127.0.0.1:6443/?x=y"), *BAD, "server"),
    Case("server with a line break", kubeconfig(server='"https://127.0.0.1:6443\\nX: y"'), *BAD, "server"),
    Case("server that is a list", kubeconfig(server="[https://127.0.0.1]"), *BAD, "server"),
    Case("proxy with a password", kubeconfig(extra_cluster="    proxy-url: http://u:p@127.0.0.1:1\n"), *BAD, "proxy-url"),
    Case("tls-server-name that is none", kubeconfig(extra_cluster='    tls-server-name: "a b"\n'), *BAD, "tls-server-name"),
    Case("of another kind", replaced("kind: Config", "kind: KubeletConfiguration"), *BAD, "kind"),
    Case("not YAML", text(lambda value: "{[" + value), *BAD),
    Case("two documents", text(lambda value: value + "---\n" + value), *BAD),
    Case("alias", replaced("name: \"\"", "name: &a \"\"\n- *a"), *BAD),
    Case("tag", replaced("server: ", "server: !!str "), *BAD),
    Case("duplicate key", replaced("kind: Config", "kind: Config\nkind: Config"), *BAD),
    Case("nested a thousand deep", text(lambda value: value + "extensions: " + "[" * 1000 + "]" * 1000 + "\n"), *BAD),
    Case("empty", text(lambda value: ""), *BAD),
]


def other_ca(world):
    world.cluster.bundle = [pki.CA().pem]


def pinned(make):
    return lambda world: {"pins": make(world.cluster)}


def leaf_that_is_pinned(world):
    """A pin of a certificate that is not a CA."""
    leaf = world.cluster.ca.serving()
    world.cluster.bundle.append(leaf.chain)
    return {"pins": [pki.pin(leaf.certs[0])]}


def same_name_other_key(world):
    world.cluster.bundle = [pki.CA(cn="kubernetes").pem]


PINS = [
    Case("other CA", other_ca, "ca-pin-mismatch", 76, "sha256:", requests=["cluster-info"]),
    Case("CA of the same name with another key", same_name_other_key, "ca-pin-mismatch", 76),
    Case("wrong pin", pinned(lambda cluster: ["sha256:" + "0" * 64]), "ca-pin-mismatch", 76, "0" * 64),
    Case("hash of the certificate instead of its key",
         pinned(lambda cluster: ["sha256:" + cluster.ca.cert.fingerprint(pki.hashes.SHA256()).hex()]), "ca-pin-mismatch", 76),
    Case("pinned certificate is no CA", leaf_that_is_pinned, "ca-unusable", 76, "CA:TRUE"),
    Case("wrong pin where verification may be skipped", pinned(lambda cluster: ["sha256:" + "0" * 64]), "ca-pin-mismatch", 76,
         discovery={"unsafeSkipCAVerification": True}),
]


@pytest.mark.parametrize("case", SIGNATURES)
def test_signature(played, case):
    played(case)


@pytest.mark.parametrize("case", KUBECONFIGS)
def test_kubeconfig(played, case):
    played(case)


@pytest.mark.parametrize("case", PINS)
def test_pin(played, case):
    played(case)


# What is good although it looks unusual.

def handoff_has(*names):
    """A check: joined.json holds exactly these CAs, by attribute of the world."""
    def check(world, run):
        found = [pki.pin(cert) for cert in pki.load_certs(world.machine.handoff()["ca"].encode())]
        assert found == [getattr(world, name).pin for name in names]
    return check


def extra_ca(world):
    world.ours, world.extra = world.cluster.ca, pki.CA("extra")
    world.cluster.bundle = [world.extra.pem, world.ours.pem]


def rotated(world):
    """Old and new CA, both pinned."""
    extra_ca(world)
    return {"pins": [world.extra.pin, world.ours.pin]}


def intermediate(world):
    """The pin is that of the root; the signing CA is an intermediate in the bundle."""
    root = pki.CA("root")
    world.ours = world.cluster.ca = world.cluster.signer = pki.CA("kubernetes", parent=root)
    world.root = root
    world.cluster.bundle = [world.ours.pem, root.pem]
    world.server.identity = world.cluster.ca.serving()
    return {"pins": [root.pin]}


def not_base64_padded(world):
    """certificate-authority-data over several lines, as some tools fold it."""
    folded = base64.encodebytes(world.cluster.ca.pem).decode().replace("\n", "\n      ").rstrip()
    world.cluster.kubeconfig = lambda url: apiserver.kubeconfig(url, None, extra_cluster=f"    certificate-authority-data: |\n      {folded}\n")


def first_unsigned(world):
    world.server.on("cluster-info", faults.edited(lambda info: info["data"].pop(KEY) and None), times=2)


def first_signed_for_others(world):
    world.server.on("cluster-info", faults.edited(lambda info: info["data"].update({"jws-kubeconfig-" + OTHER: info["data"].pop(KEY)})), times=2)


def first_signed_wrong(world):
    """The signature follows a change of cluster-info a moment later."""
    world.server.on("cluster-info", faults.edited(lambda info: info["data"].update({KEY: pki.jws("before", TOKEN_ID, SECRET)})), times=1)


ACCEPTED = [
    Case("a CA that no pin names is left out", extra_ca, None, 0, check=handoff_has("ours")),
    Case("the whole bundle where the settings say so", extra_ca, None, 0, discovery={"trustWholeBundle": True}, check=handoff_has("extra", "ours")),
    Case("both pinned CAs of a rotation", rotated, None, 0, check=handoff_has("extra", "ours")),
    Case("pinned root and the CA below it", intermediate, None, 0, check=handoff_has("ours", "root")),
    Case("second of several pins", pinned(lambda cluster: ["sha256:" + "0" * 64, cluster.ca.pin]), None, 0),
    Case("pin in upper case", pinned(lambda cluster: ["SHA256:" + cluster.ca.pin[7:].upper()]), None, 0),
    Case("no pin where the settings say so", lambda world: None, None, 0, pins=[], discovery={"unsafeSkipCAVerification": True}),
    Case("CA data over several lines", not_base64_padded, None, 0),
    Case("explaining text around the CA", bundle(lambda cluster: [b"# the CA\n" + cluster.ca.pem]), None, 0),
    Case("another content type", lambda world: world.server.on("cluster-info", faults.with_headers(Content_Type="text/plain")), None, 0),
    Case("contexts and an empty user list", replaced("users: null", "users: []"), None, 0),
    Case("signature that comes later", first_unsigned, None, 0, "signature-missing"),
    Case("token that becomes known later", first_signed_for_others, None, 0, "token-unknown"),
    Case("signature a moment behind the contents", first_signed_wrong, None, 0),
]


@pytest.mark.parametrize("case", ACCEPTED)
def test_accepted(played, case):
    played(case)


@pytest.mark.parametrize("case", plays(Play, SIGNATURES))
def test_waits_for_the_real_server(played, case):
    played(case)
