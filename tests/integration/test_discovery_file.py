# SPDX-License-Identifier: Apache-2.0
"""File discovery, through all three commands: a kubeconfig on the machine, and the newer cluster-info after it."""

import pytest

from common import apiserver, faults, pki
from common.machine import TOKEN_ID, Machine
from .join_methods import Case

pytestmark = pytest.mark.each_release

SECRET_VALUE = "hunter2hunter2hunter2"
CHECKED = ["cluster-info", "create", "watch"]


def file(make=None, *, mode=0o644, **options):
    """discovery.file: the document, as it is or changed by make(text)."""
    def prepare(world):
        text = world.document(**options)
        return {"discovery": {"file": world.give("cluster.conf", make(text) if make else text, mode)}}
    return prepare


def credential(world):
    world.machine.set_credential("cluster-info", world.document())


def stronger(world):
    """The path names another cluster, which must not be contacted."""
    credential(world)
    other = world.other = world.endpoint(world.stranger())
    return {"discovery": {"file": world.give("cluster.conf", apiserver.kubeconfig(other.url, other.cluster.ca.pem), 0o644)}}


def other_is_left_alone(world, run):
    assert world.other.connections == []


def readable_by_root_alone(world):
    world.give("ca.crt", world.cluster.ca.pem)
    extra = "    certificate-authority: ca.crt\n"
    return {"discovery": {"file": world.give("cluster.conf", apiserver.kubeconfig(world.server.url, None, extra_cluster=extra))}}


def same_cas(*names):
    """A check: the CA file holds exactly these, by attribute of the world."""
    def check(world, run):
        assert world.installed_cas() == [getattr(world, name).pin for name in names]
    return check


def of_the_file(world, run):
    """kubelet's kubeconfig is what the document says."""
    cluster, user = world.kubeconfig()
    assert cluster == {"server": world.server.url, "certificate-authority": "/" + Machine.CA_FILE}
    assert set(user) == {"client-certificate", "client-key"}
    assert world.installed_cas() == [world.cluster.ca.pin]
    assert world.request()["username"] == "system:bootstrap:" + TOKEN_ID


GOOD = [
    Case("a path", file(), None, 0, requests=CHECKED, check=of_the_file),
    Case("a file that only its owner reads, and the CA beside it", readable_by_root_alone, None, 0, check=of_the_file),
    Case("a credential", credential, None, 0, requests=CHECKED, check=of_the_file),
    Case("a credential is stronger than a path", stronger, None, 0, check=other_is_left_alone),
    Case("no kind, as clientcmd takes it", file(tail="users: []\n"), None, 0),
    Case("a user entry without anything in it", file(tail="kind: Config\nusers:\n- name: nobody\n  user: {}\n"), None, 0),
]


# The newer cluster-info.

def newer(action, **rule):
    def prepare(world):
        world.server.on("cluster-info", action, **rule)
        return file()(world)
    return prepare


def moved(world):
    """The document has the old address, where the cluster still answers; cluster-info has the new one."""
    world.other = world.endpoint()
    world.cluster.server = world.other.url
    return file()(world)


def asked_at_the_new_one(world, run):
    assert world.server.kinds == ["cluster-info"] and world.other.kinds == ["create", "watch"]
    assert world.kubeconfig()[0]["server"] == world.other.url


def chained(world):
    """The CA is rotated: the new one is also signed by the old one, and signs the API server's certificate."""
    world.old = world.cluster.ca
    world.new = pki.CA("kubernetes", parent=world.old)
    world.cluster.bundle = [world.new.pem, world.old.pem]
    prepared = file()(world)
    world.cluster.signer = world.cluster.ca = world.new
    world.server.identity = world.new.serving()
    return prepared


def stranger_in_bundle(world):
    world.ours, world.extra = world.cluster.ca, pki.CA("extra")
    world.cluster.bundle = [world.extra.pem, world.ours.pem]
    return file()(world)


def whole_bundle(world):
    prepared = stranger_in_bundle(world)
    prepared["discovery"]["trustWholeBundle"] = True
    return prepared


def rotated_without_a_link(world):
    """cluster-info has only another CA: anyone with the key of the old one could publish that."""
    world.cluster.bundle = [pki.CA().pem]
    return file()(world)


def said_nothing(world, run):
    assert all(LEFT_OUT not in one.stderr for one in world.machine.runs)
    of_the_file(world, run)


def user_in_newer(world):
    tail = f"kind: Config\nusers:\n- name: someone\n  user:\n    token: {SECRET_VALUE}\n"
    world.machine.secrets.append(SECRET_VALUE)
    world.cluster.kubeconfig = lambda url: apiserver.kubeconfig(url, world.cluster.ca.pem, tail=tail)
    return file(tail="kind: Config\n")(world)


LEFT_OUT = "cluster.conf' alone: "
NEWER = [
    Case("a clock of before this program", file(), "clock-wrong", 69, "before this program was built", faketime="-30y"),
    Case("another server", moved, None, 0, check=asked_at_the_new_one),
    Case("a rotated CA that chains to the file's", chained, None, 0, check=same_cas("new", "old")),
    Case("a CA that the file does not vouch for", stranger_in_bundle, None, 0, "that must not be trusted as a CA", check=same_cas("ours")),
    Case("the whole bundle where the settings say so", whole_bundle, None, 0, check=same_cas("extra", "ours")),
    Case("another CA alone", rotated_without_a_link, None, 0, LEFT_OUT, check=of_the_file),
    Case("401", newer(faults.unauthorized), None, 0, requests=CHECKED, check=said_nothing),
    Case("403", newer(faults.forbidden), None, 0, requests=CHECKED, check=said_nothing),
    Case("404", newer(faults.error(404, "NotFound", 'configmaps "cluster-info" not found')), None, 0, requests=CHECKED, check=said_nothing),
    Case("no JSON", newer(faults.PORTAL), None, 0, LEFT_OUT, check=of_the_file),
    Case("no kubeconfig in it", newer(faults.edited(lambda info: info["data"].pop("kubeconfig") and None)), None, 0, LEFT_OUT, check=of_the_file),
    Case("a redirect", newer(faults.redirect("https://192.0.2.1/")), None, 0, LEFT_OUT, check=of_the_file),
    Case("a flood", newer(faults.flood), None, 0, LEFT_OUT, check=of_the_file),
    Case("credentials in it", user_in_newer, None, 0, LEFT_OUT, "users", check=of_the_file),
    Case("500 first", newer(faults.INTERNAL, times=2), None, 0, "server-error", check=of_the_file),
    Case("429 first", newer(faults.TOO_MANY, times=1), None, 0, check=of_the_file),
    Case("cut first", newer(faults.cut, times=1), None, 0, "endpoint-reset", check=of_the_file),
]


# The connection to the server.

def unreachable(world):
    return file(server="https://" + faults.dead_endpoint())(world)


def other_ca(world):
    return file(ca=pki.CA().pem)(world)


def no_ca(world):
    """The CAs of the system do not know this one."""
    return {"discovery": {"file": world.give("cluster.conf", apiserver.kubeconfig(world.server.url, None), 0o644)}}


def client_certificate_as_server(world):
    ca = world.cluster.ca
    key = pki.new_key()
    sans = [pki.x509.IPAddress(pki.ipaddress.ip_address("127.0.0.1"))]
    world.server.identity = pki.Identity(key, ca.client(key.public_key(), pki.node_user("node-9"), sans=sans))
    return file()(world)


def renamed(world):
    world.server.identity = world.cluster.ca.serving(["api.example.org"])
    return file(extra_cluster="    tls-server-name: api.example.org\n")(world)


def name_arrived(world, run):
    cluster, _ = world.kubeconfig()
    assert cluster["tls-server-name"] == "api.example.org" and cluster["server"] == world.server.url


def by_proxy(world):
    world.proxy = world.closing(faults.Proxy())
    return file(extra_cluster=f"    proxy-url: {world.proxy.url}\n")(world)


def proxy_was_used(world, run):
    assert set(world.proxy.asked) == {world.server.endpoint} and len(world.proxy.asked) == 2
    assert world.kubeconfig()[0]["proxy-url"] == world.proxy.url


def below_a_prefix(world):
    world.server.prefix = "/k8s/clusters/c-1"
    return file()(world)


def prefix_arrived(world, run):
    assert all(request.target.startswith("/k8s/clusters/c-1/") for request in world.server.requests)
    assert world.kubeconfig()[0]["server"] == world.server.url and world.server.url.endswith("/k8s/clusters/c-1")


def never_sent(world, run):
    assert world.csrs() == [] and all("authorization" not in request.headers for request in world.server.requests)


CONNECTIONS = [
    Case("nobody listens", unreachable, "endpoint-refused", 69),
    Case("a server of another CA", other_ca, "tls-untrusted", 76, requests=[], check=never_sent),
    Case("a server of another CA, and a clock that is off", other_ca, "tls-untrusted", 76, requests=[], check=never_sent, faketime="+3m"),
    Case("a server that the system's CAs do not know", no_ca, "tls-untrusted", 76, requests=[], check=never_sent),
    Case("a certificate for clients", client_certificate_as_server, "tls-untrusted", 76, requests=[], check=never_sent),
    Case("tls-server-name", renamed, None, 0, requests=CHECKED, check=name_arrived),
    Case("proxy-url", by_proxy, None, 0, requests=CHECKED, check=proxy_was_used),
    Case("a path prefix", below_a_prefix, None, 0, requests=CHECKED, check=prefix_arrived),
]


# Documents and settings that are refused.

def user(content):
    """A document with a credential, whose value is never printed."""
    def prepare(world):
        world.machine.secrets.append(SECRET_VALUE)
        return file(tail=f"kind: Config\nusers:\n- name: admin\n  user: {content}\n")(world)
    return prepare


def exclusive(world):
    return {"discovery": {"endpoints": [world.server.endpoint], "caCertHashes": [world.cluster.ca.pin],
                          "file": world.give("cluster.conf", world.document(), 0o644)}}


def exclusive_credential(world):
    credential(world)
    return {"discovery": {"endpoints": [world.server.endpoint], "caCertHashes": [world.cluster.ca.pin]}}


def pins(*pins_):
    def prepare(world):
        prepared = file()(world)
        prepared["discovery"]["caCertHashes"] = [world.cluster.ca.pin if pin == "ours" else pin for pin in pins_]
        return prepared
    return prepare


def pin_without_ca(world):
    return {"discovery": {"file": no_ca(world)["discovery"]["file"], "caCertHashes": [world.cluster.ca.pin]}}


def missing(world):
    return {"discovery": {"file": str(world.given / "nowhere.conf")}}


def no_token(world):
    (world.machine.credentials / "node-bootstrap.token").unlink()
    return file()(world)


UNACCEPTABLE = ("discovery-file-unacceptable", 65)
ENTRY = "users[0]"
REFUSED = [
    Case("token", user(f"{{token: {SECRET_VALUE}}}"), *UNACCEPTABLE, ENTRY, "token", requests=[]),
    Case("token file", user("{tokenFile: /var/run/token}"), *UNACCEPTABLE, ENTRY, "tokenFile"),
    Case("client key", user(f"{{client-key-data: {SECRET_VALUE}}}"), *UNACCEPTABLE, ENTRY, "client-key-data"),
    Case("password", user(f"{{username: admin, password: {SECRET_VALUE}}}"), *UNACCEPTABLE, ENTRY, "username"),
    Case("exec", user("{exec: {command: /bin/sh, apiVersion: client.authentication.k8s.io/v1}}"), *UNACCEPTABLE, ENTRY, "exec"),
    Case("auth-provider", user("{auth-provider: {name: oidc}}"), *UNACCEPTABLE, ENTRY, "auth-provider"),
    Case("several clusters", file(names=("a", "b")), *UNACCEPTABLE, "cluster", requests=[]),
    Case("no cluster", file(names=()), *UNACCEPTABLE, "cluster"),
    Case("verification switched off", file(extra_cluster="    insecure-skip-tls-verify: true\n"), *UNACCEPTABLE, "insecure-skip-tls-verify", requests=[]),
    Case("plain http", file(lambda text: text.replace("https:", "http:")), *UNACCEPTABLE, "server", requests=[]),
    Case("not YAML", file(lambda text: "{["), *UNACCEPTABLE),
    Case("not there", missing, "discovery-file-unreadable", 66, "nowhere.conf"),
    Case("endpoints as well", exclusive, "settings-invalid", 78, "discovery.endpoints in", "discovery.file in", "config.yaml", requests=[]),
    Case("endpoints beside a credential", exclusive_credential, "settings-invalid", 78, "discovery.endpoints in",
         "credential 'node-bootstrap.cluster-info'", requests=[]),
    Case("a hash of another CA", pins("sha256:" + "0" * 64), "ca-pin-mismatch", 76, requests=[]),
    Case("a hash, and no CA", pin_without_ca, "ca-pin-mismatch", 76, "contains no CA", requests=[]),
    Case("no token to go on with", no_token, "token-missing", 66, requests=[]),
]


@pytest.mark.parametrize("case", GOOD)
def test_document(played, case):
    played(case)


@pytest.mark.parametrize("case", NEWER)
def test_newer_cluster_info(played, case):
    played(case)


@pytest.mark.parametrize("case", CONNECTIONS)
def test_connection_to_the_server(played, case):
    played(case)


@pytest.mark.parametrize("case", REFUSED)
def test_refused(played, case):
    played(case)


@pytest.mark.parametrize("case", [Case("of several hashes, one that fits", pins("sha256:" + "0" * 64, "ours"), None, 0, check=of_the_file)])
def test_hashes(played, case):
    played(case)
