# SPDX-License-Identifier: Apache-2.0
"""Each way in which systemd delivers a credential, with a join on the real control plane.

By SMBIOS and fw_cfg: test_vm.py. As a credential of a container out of a file: test_secrecy.py.
"""

import json

import pytest

from common import documentation
from common.wait import until
from .harness.node import CURRENT, KUBECONFIG, TOKEN, UNIT, settings

pytestmark = pytest.mark.each_release

FOLDERS = ("/etc/credstore", "/run/credstore", "/usr/lib/credstore", "/etc/credstore.encrypted", "/run/credstore.encrypted")
NAME = "node-bootstrap.token"
SEALED = f"/etc/credstore.encrypted/{NAME}"
CREDENTIALS_STEP = 243
SOCKET = "/run/broker.sock"
# It knows whom it serves by the name that systemd gives to its own end of the connection, after some random bytes, and gives
# no token twice.
BROKER = """#!/bin/sh
echo "/unit/${SOCAT_PEERADDR##*/unit/}" >>/root/asked
case $SOCAT_PEERADDR in
*/unit/node-bootstrap.service/node-bootstrap.token) sed -n "$(wc -l </root/asked)p" /root/minted ;;
esac
"""


@pytest.fixture(scope="module")
def booted(new_shared_node):
    node = new_shared_node("credentials").enable("kubelet.service", off=True)
    node.boot("--unit=basic.target")
    return node


@pytest.fixture
def node(booted):
    """As if it had just been set up, with settings and without a token."""
    booted.forget().configure()
    yield booted
    booted.run("systemctl", "stop", UNIT)
    for folder in FOLDERS:
        booted.run("sh", "-c", f"rm -f {folder}/*")


def put(node, name, text):
    """As root of the machine does it: /run is not seen from outside."""
    node.run("sh", "-c", f"mkdir -p -m 0700 {name.rpartition('/')[0]} && umask 077 && cat >{name}", stdin=str(text))


def encrypt(node, token, *where, name=NAME):
    """With the machine's own key; warnings about that key are dropped."""
    command = f"systemd-creds encrypt --with-key=host --name={name} {' '.join(where)} 2>/dev/null"
    return node.run("sh", "-c", command, stdin=str(token)).stdout


def drop_in(node, line):
    node.drop_in(UNIT, f"[Service]\n{line}\n")


def joined_by(node, *tokens):
    """The unit has started with one of these tokens, and kubelet's files exist."""
    done = node.join(check=False)
    assert done.returncode == 0, node.journal_text("-u", "node-bootstrap", "--lines=40")
    last = node.entries("installed")[-1]
    used = last["NODE_BOOTSTRAP_TOKEN_ID"]
    assert used in [token.id for token in tokens] and last["NODE_BOOTSTRAP_TOKEN_SOURCE"] == f"credential '{NAME}'"
    assert [csr["spec"]["username"] for csr in node.cluster.csrs(node.name)] == [f"system:bootstrap:{used}"]
    assert node.exists(CURRENT) and node.kubeconfig()


# Folders that systemd searches.

@pytest.mark.parametrize("folder", ["/run/credstore", "/usr/lib/credstore"])
def test_store(node, cluster, folder):
    token = cluster.token()
    put(node, f"{folder}/{NAME}", token)
    joined_by(node, token)


def test_first_store_counts(node, cluster):
    token = cluster.token()
    put(node, f"/etc/credstore/{NAME}", token)
    put(node, f"/run/credstore/{NAME}", cluster.fresh_token())
    joined_by(node, token)


def test_settings(node, cluster):
    """Stronger than the files in /etc/node-bootstrap."""
    token = cluster.token()
    put(node, f"/run/credstore/{NAME}", token)
    node.configure(endpoints=["192.0.2.254:6443"])
    put(node, "/run/credstore/node-bootstrap.config", settings(cluster))
    joined_by(node, token)


def test_settings_that_setup_finds(node, cluster):
    """In each store, and behind a link, as systemd."""
    def refuses():
        done = node.run("node-bootstrap", "setup", "192.0.2.254:6443", "--dry-run", check=False)
        return done.returncode == 64 and "is overridden by credential 'node-bootstrap.config'" in done.stdout

    put(node, "/usr/lib/credstore/node-bootstrap.config", settings(cluster))
    assert refuses()
    put(node, "/etc/credstore/.keep", "")
    node.run("sh", "-c", "mv /usr/lib/credstore/node-bootstrap.config /root/ && ln -s /root/node-bootstrap.config /etc/credstore/")
    assert refuses()


# Encrypted for this machine.

def example(kind):
    [found] = [e for e in documentation.examples(kind) if e.where.startswith("node-bootstrap.service.8") and NAME in e.text and "ncrypt" in e.text]
    return found.text


def encrypt_as_documented(node, token):
    """node-bootstrap.service(8), EXAMPLES: with a drop-in only for an older systemd."""
    put(node, "/root/token", f"{token}\n")
    node.run("sh", "-ec", f"cd /root && {example('shell')}")
    assert token.secret not in node.run("cat", SEALED).stdout and not node.exists("/root/token")
    if int(node.run("systemctl", "--version").stdout.split()[1]) < 254:
        node.drop_in(UNIT, example("unit"), "encrypted.conf")


def lose_key(node):
    """The effect of a new TPM, a new machine ID or an image of another machine."""
    node.run("sh", "-c", "rm /var/lib/systemd/credential.secret && systemd-creds setup")


def status(node):
    return json.loads(node.run("node-bootstrap", "status", "--json", check=False).stdout)


def set_up(node, cluster):
    return node.run("node-bootstrap", "setup", "-", "--wait=certificate", stdin=cluster.join_command(), check=False)


def test_encrypted_store(node, cluster):
    token = cluster.token()
    put(node, "/run/credstore.encrypted/.keep", "")
    encrypt(node, token, "-", f"/run/credstore.encrypted/{NAME}")
    drop_in(node, f"LoadCredentialEncrypted={NAME}:/run/credstore.encrypted/{NAME}")
    joined_by(node, token)


def test_encrypted_as_documented(node, cluster):
    """The token can be decrypted until it is discarded. Then the service starts without it, even if the key has changed."""
    token = cluster.token()
    node.configure(token={"discard": True})
    encrypt_as_documented(node, token)
    joined_by(node, token)
    assert not node.exists(SEALED) and node.entries("token-discarded")[-1]["MESSAGE"].endswith(SEALED)
    lose_key(node)
    node.join("restart")
    assert node.said("already-joined")


def test_token_that_cannot_be_decrypted(node, cluster):
    """check names it. A fresh join command replaces it or, on a machine that has joined, removes it."""
    encrypt_as_documented(node, cluster.token())
    lose_key(node)
    for is_joined in (False, True):
        assert node.join("restart", check=False).returncode != 0 and node.await_end() == ("failed", CREDENTIALS_STEP)
        found = status(node)
        assert "(243/CREDENTIALS); systemd: \"" in found["message"], found
        assert found["code"] == "service-credential" or is_joined and found["code"].startswith("kubelet-")
        checked = node.run("node-bootstrap", "check", "--local", check=False)
        assert checked.returncode == 1 and f"it cannot load '{NAME}' from '{SEALED}'" in checked.stdout, checked.stdout
        done = set_up(node, cluster)
        if not is_joined and node.path(f"/etc/systemd/system/{UNIT}.d").exists():
            assert done.returncode == 64 and f"LoadCredentialEncrypted={NAME} accepts no plain text" in done.stdout, done.stdout
            node.path(f"/etc/systemd/system/{UNIT}.d/encrypted.conf").unlink()
            node.run("systemctl", "daemon-reload")
            done = set_up(node, cluster)
        assert done.returncode == 0 and f"removed  {SEALED}\n" in done.stdout and not node.exists(SEALED), done.stdout
        assert node.is_active(UNIT) and len(node.cluster.csrs(node.name)) == 1
        node.path(TOKEN).unlink(missing_ok=True)
        put(node, SEALED, "damaged")
        if int(node.run("systemctl", "--version").stdout.split()[1]) < 254:
            node.drop_in(UNIT, example("unit"), "encrypted.conf")


def test_encrypted_in_a_drop_in(node, cluster):
    token = cluster.token()
    drop_in(node, encrypt(node, token, "--pretty", "-", "-"))
    assert token.secret not in node.run("systemctl", "cat", UNIT).stdout
    joined_by(node, token)


def status_of(node):
    return json.loads(node.run("node-bootstrap", "status", "--json", check=False).stdout)


def test_encrypted_settings(node, cluster):
    """Only the running service can read them: the commands use the paths of its last join."""
    paths = {"kubeconfig": "/var/lib/kubelet/kubeconfig", "certificateDirectory": "/var/lib/kubelet/certificates", "caFile": "/var/lib/kubelet/ca.crt"}
    name, path = "node-bootstrap.config", "/etc/credstore.encrypted/node-bootstrap.config"
    metrics, folder = "node-bootstrap-metrics.service", "/var/lib/prometheus/node-exporter"
    node.path(folder).mkdir(parents=True, exist_ok=True)
    put(node, f"/run/credstore/{NAME}", cluster.token())
    put(node, "/etc/credstore.encrypted/.keep", "")
    encrypt(node, settings(cluster, node={"name": f"{node.name}-x"}, kubelet=paths), "-", path, name=name)
    drop_in(node, f"LoadCredentialEncrypted={name}:{path}")
    node.path("/etc/node-bootstrap/config.yaml").unlink()
    assert node.join(check=False).returncode == 0, node.journal_text("-u", "node-bootstrap", "--lines=40")
    assert node.exists(paths["kubeconfig"]) and not node.exists(KUBECONFIG)
    for verb in ("start", "stop"):
        node.join(verb)
        until(lambda: status_of(node)["state"] != "queued", "kubelet's start is over")
        shown, checked = status_of(node), node.run("node-bootstrap", "check", "--local", check=False).stdout
        assert shown["state"] == "joined" or shown["state"].startswith("kubelet-"), (verb, shown)
        assert f"(credential '{name}')\n" in checked and "systemd can start node-bootstrap.service" in checked, checked
        node.run("systemctl", "start", metrics)
        assert b"\nnode_bootstrap_joined 1\n" in node.read(f"{folder}/node-bootstrap.prom"), verb
    said = node.run("node-bootstrap", "reset", "--stop-kubelet").stdout
    assert all(f"removed  {path}\n" in said for path in (paths["kubeconfig"], paths["caFile"])), said
    assert not list(node.path(paths["certificateDirectory"]).glob("*"))


# By an absolute path.

def test_path(node, cluster):
    token = cluster.token()
    put(node, "/root/token", token)
    drop_in(node, f"LoadCredential={NAME}:/root/token")
    joined_by(node, token)


def ours(node):
    """The log of all our programs."""
    return [entry for entry in node.entries() if entry["SYSLOG_IDENTIFIER"].startswith("node-bootstrap")]


def test_path_where_nothing_is(node, cluster):
    """systemd itself fails the start before our programs run; the next start finds the token."""
    token, before = cluster.token(), ours(node)
    drop_in(node, f"LoadCredential={NAME}:/root/late")
    assert node.join(check=False).returncode != 0
    assert node.await_end() == ("failed", CREDENTIALS_STEP)
    assert ours(node) == before and "(243/CREDENTIALS); systemd: " in status(node)["message"]
    assert f"it cannot load '{NAME}' from '/root/late'" in node.run("node-bootstrap", "check", "--local", check=False).stdout
    put(node, "/root/late", token)
    joined_by(node, token)


def test_socket(node, cluster):
    """A service of the machine mints tokens on demand. systemd asks it once for each start."""
    tokens = [cluster.token() for _ in range(6)]
    put(node, "/root/minted", "".join(f"{token}\n" for token in tokens))
    node.write("/usr/local/bin/broker", BROKER, 0o755)
    drop_in(node, f"LoadCredential={NAME}:{SOCKET}")
    node.run("systemd-run", "--unit=broker", "socat", f"UNIX-LISTEN:{SOCKET},fork,mode=0600", "EXEC:/usr/local/bin/broker")
    until(lambda: node.run("grep", "-q", f" 00010000 .* {SOCKET}$", "/proc/net/unix", check=False).returncode == 0, "the broker listens")
    try:
        joined_by(node, *tokens)
    finally:
        node.run("systemctl", "stop", "broker.service")
    asked = node.read("/root/asked").decode().split()
    assert asked == [f"/unit/{UNIT}/{NAME}"], "once for each start"


# The container's own.

def test_of_the_container(new_node, cluster):
    """From nspawn's command line; it takes precedence over the stores."""
    node, token = new_node(), cluster.token()
    node.give(cluster.fresh_token())
    given = {"options": [f"--set-credential={NAME}:{token}"], "credentials": {"node-bootstrap.config": settings(cluster)}}
    node.enable(UNIT).boot("--unit=basic.target", **given)
    joined_by(node, token)
    cluster.await_node(node.name)
