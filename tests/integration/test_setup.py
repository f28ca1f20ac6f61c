# SPDX-License-Identifier: Apache-2.0
"""node-bootstrap setup without systemd: the command line of kubeadm, what is written into an image, what is refused."""

import base64
import os
import re
import resource
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
import yaml

from common import apiserver, pki
from common.failures import FAILURES, meet
from common.machine import HEADER, TOKEN, TOKEN_ID, find_program
from common.namespace import Namespace
from integration.image import BASIS, CREDENTIALS, DOCUMENT, GOOD, OTHER, PIN, PIN_2, Image


@pytest.fixture
def image(tmp_path):
    return Image(tmp_path)


# name, words, sections of the document, credentials
ACCEPTED = [
    ("pasted", f"kubeadm join {GOOD}", {"discovery": BASIS}, {"token": TOKEN}),
    ("pasted with a space at the end and sudo before it", f"sudo kubeadm join {GOOD} ", {"discovery": BASIS}, {"token": TOKEN}),
    ("options with =", f"10.0.0.1:6443 --token={TOKEN} --discovery-token-ca-cert-hash={PIN}", {"discovery": BASIS}, {"token": TOKEN}),
    ("options before the words", f"--token={TOKEN} --discovery-token-ca-cert-hash {PIN} kubeadm join 10.0.0.1:6443", {"discovery": BASIS}, {"token": TOKEN}),
    ("an endpoint without a port", f"10.0.0.1 --token {TOKEN} --ca-cert-hash {PIN}", {"discovery": BASIS}, {"token": TOKEN}),
    ("an IPv6 endpoint", f"[2001:db8::1]:6443 --token {TOKEN} --ca-cert-hash {PIN}", {"discovery": {**BASIS, "endpoints": ["[2001:db8::1]:6443"]}}, {"token": TOKEN}),
    ("several hashes", f"kubeadm join {GOOD} --discovery-token-ca-cert-hash {PIN_2}", {"discovery": {**BASIS, "caCertHashes": [PIN, PIN_2]}}, {"token": TOKEN}),
    ("several hashes in a list", f"kubeadm join {GOOD},{PIN_2}", {"discovery": {**BASIS, "caCertHashes": [PIN, PIN_2]}}, {"token": TOKEN}),
    ("the same hash twice", f"kubeadm join {GOOD} --ca-cert-hash {PIN.upper().replace('SHA', 'sha')}", {"discovery": BASIS}, {"token": TOKEN}),
    ("several endpoints", f"{GOOD} --endpoint 10.0.0.2:6443 --endpoint=10.0.0.3,10.0.0.1,master", {"discovery": {**BASIS, "endpoints": ["10.0.0.1:6443", "10.0.0.2:6443", "10.0.0.3:6443", "master:6443"]}},
     {"token": TOKEN}),
    ("without a pin", f"kubeadm join 10.0.0.1:6443 --token {TOKEN} --discovery-token-unsafe-skip-ca-verification",
     {"discovery": {"endpoints": ["10.0.0.1:6443"], "unsafeSkipCAVerification": True}}, {"token": TOKEN}),
    ("a switch that is off", f"kubeadm join {GOOD} --discovery-token-unsafe-skip-ca-verification=false --control-plane=false",
     {"discovery": {**BASIS, "unsafeSkipCAVerification": False}}, {"token": TOKEN}),
    ("a node name", f"{GOOD} --node-name Worker-1", {"discovery": BASIS, "node": {"name": "worker-1"}}, {"token": TOKEN}),
    ("a limit for the watch is no setting", f"{GOOD} --wait-timeout=90m", {"discovery": BASIS}, {"token": TOKEN}),
    ("no limit for the watch", f"{GOOD} --wait-timeout 0", {"discovery": BASIS}, {"token": TOKEN}),
    ("a discovery token for both", f"10.0.0.1:6443 --discovery-token {TOKEN} --ca-cert-hash {PIN}", {"discovery": BASIS}, {"token": TOKEN}),
    ("two tokens", f"10.0.0.1:6443 --discovery-token {TOKEN} --tls-bootstrap-token {OTHER} --ca-cert-hash {PIN}", {"discovery": BASIS},
     {"tls-bootstrap-token": OTHER, "token": TOKEN}),
    ("a token for the other half", f"10.0.0.1:6443 --discovery-token {TOKEN} --token {OTHER} --ca-cert-hash {PIN}", {"discovery": BASIS},
     {"tls-bootstrap-token": OTHER, "token": TOKEN}),
    ("kubelet's socket and configuration", f"kubeadm join {GOOD} --cri-socket unix:///run/containerd/containerd.sock --kubelet-config-from=cluster",
     {"discovery": BASIS, "kubelet": {"criSocket": "unix:///run/containerd/containerd.sock", "configFrom": "cluster"}}, {"token": TOKEN}),
    ("discovery by a URL", f"--discovery-file https://example.com/cluster-info.yaml --tls-bootstrap-token {TOKEN}",
     {"discovery": {"file": "https://example.com/cluster-info.yaml"}}, {"token": TOKEN}),
    ("a k3s token", f"10.0.0.1:9345 --token K10{64 * 'a'}::{TOKEN}", {"discovery": {"endpoints": ["10.0.0.1:9345"]}}, {"token": f"K10{64 * 'a'}::{TOKEN}"}),
    ("a token from a file", f"10.0.0.1:6443 --token-file @TOKEN@ --ca-cert-hash {PIN}", {"discovery": BASIS}, {"token": TOKEN}),
]


@pytest.mark.parametrize("row", ACCEPTED, ids=[row[0] for row in ACCEPTED])
def test_accepted(image, row):
    _, words, sections, credentials = row
    image.good(words)
    assert image.document() == {"apiVersion": "node-bootstrap/v1", "kind": "NodeBootstrap", **sections}
    assert image.credentials() == credentials


LONG = "node." * 12 + "last"    # 64 characters


@pytest.mark.parametrize("document", [f"node: {{name: {LONG}}}", f"node: {{name: {LONG}}}\nkubelet: {{extraArgs: ['node-labels=a.kubernetes.io/hostname=x']}}",
                                      f"node: {{name: {LONG}}}\nkubelet: {{extraArgs: ['node-labels=kubernetes.io/hostname={LONG}']}}",
                                      f"node: {{name: {LONG}}}\nkubelet: {{extraArgs: ['x-node-labels=kubernetes.io/hostname=a']}}",
                                      f"apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\nnodeRegistration: {{name: {LONG}}}"],
                         ids=["settings", "another label", "a label that is too long as well", "another option", "JoinConfiguration"])
def test_name_that_is_too_long_for_a_label(image, document):
    """The API server would reject the Node of kubelet indefinitely, after the token was spent."""
    path = image.token.with_name("config")
    path.write_text(document if "JoinConfiguration" in document else HEADER + document)
    image.refused("node-name-invalid", f"10.0.0.1:6443 --token-file=@TOKEN@ --ca-cert-hash {PIN} --config {path}", "has 64 characters", "set node.name to a shorter one, or this label with node-labels in kubelet.extraArgs, since kubelet's own files are not read for it")


KUBEADM = "apiVersion: kubeadm.k8s.io/%s\nkind: JoinConfiguration\nnodeRegistration: {name: " + LONG + ", kubeletExtraArgs: %s}\n"
LABELS = {
    "settings": f"{HEADER}node: {{name: {LONG}}}\nkubelet: {{extraArgs: ['node-labels=kubernetes.io/hostname=a']}}\n",
    "after another label": f"{HEADER}node: {{name: {LONG}}}\nkubelet: {{extraArgs: ['node-labels=x=y,kubernetes.io/hostname=a,b=c']}}\n",
    "v1beta2": KUBEADM % ("v1beta2", "{v: '2', node-labels: kubernetes.io/hostname=a}"),
    "v1beta3": KUBEADM % ("v1beta3", "{node-labels: 'x=y,kubernetes.io/hostname=a'}"),
    "v1beta4": KUBEADM % ("v1beta4", "[{name: v, value: '2'}, {name: node-labels, value: kubernetes.io/hostname=a}]"),
}


@pytest.mark.parametrize("document", LABELS.values(), ids=LABELS)
def test_long_name_with_a_label_of_its_own(image, document):
    path = image.token.with_name("config")
    path.write_text(document)
    image.good(f"10.0.0.1:6443 --token-file=@TOKEN@ --ca-cert-hash {PIN} --config {path}")
    image.good(f"{GOOD} --node-name={LONG[1:]} --force")


def test_address_that_ends_like_a_port(image):
    done = image.good(f"{GOOD} --endpoint fd00:20::2:8443")
    assert "discovery.endpoints: [fd00:20::2:8443]:6443: the address ends like a port; with brackets, it may be [fd00:20::2]:8443" in done.stderr


def test_modes_and_owners(image):
    image.good(GOOD)
    found = {path: mode for path, (mode, _) in image.files().items()}
    assert found == {"etc": 0o755, "etc/credstore": 0o700, "etc/credstore/node-bootstrap.token": 0o600, "etc/node-bootstrap": 0o755,
                     "etc/node-bootstrap/config.yaml.d": 0o755, DOCUMENT: 0o644}
    assert TOKEN_ID not in (image.root / DOCUMENT).read_text()


def test_one_warning_for_tokens_on_the_command_line(image):
    done = image.good(f"10.0.0.1 --discovery-token {TOKEN} --tls-bootstrap-token {OTHER} --ca-cert-hash {PIN}")
    assert done.stderr.count("token on the command line") == 1 and "--token-file" in done.stderr
    assert image.setup(f"10.0.0.1 --token-file=@TOKEN@ --ca-cert-hash {PIN} --force").stderr == ""


def test_token_from_standard_input_and_from_a_pipe(image):
    image.good(f"10.0.0.1 --token-file=- --ca-cert-hash {PIN}", stdin=f"{TOKEN}\n")
    assert image.credentials() == {"token": TOKEN}
    command = f"{find_program('node-bootstrap')} setup --root={image.root} --force --token-file=<(echo {OTHER})"
    assert subprocess.run(["bash", "-c", command], check=False, env={"PATH": "/usr/bin"}).returncode == 0
    assert image.credentials() == {"token": OTHER}, "and the settings stay, since none was given"
    assert image.discovery() == BASIS


# name, words, what is read, what is said
BAD_LINES = [
    ("nothing", "-", "\n", "the pasted line is empty"),
    ("two readers", "- --token-file=-", "kubeadm join 10.0.0.1", "'-' and '--token-file=-' cannot both read standard input"),
    ("a line twice", "- -", f"kubeadm join {GOOD}", "unexpected: argument 4 (1 characters); expected one HOST:PORT"),
    ("a line in a line", "-", f"kubeadm join {GOOD} -", "unexpected: word 8 of the pasted line (1 characters); expected one HOST:PORT"),
    ("a zero byte", "-", f"kubeadm join {GOOD}\0 --node-name a", "a zero byte"),
    ("too many words", "-", "x " * 1000, "more than 128 words"),
    ("too many words behind it", "-" + " --all" * 4000, f"kubeadm join {GOOD}", "more than 128 words"),
    ("a control plane node", "-", f"kubeadm join {GOOD} --control-plane", "workers"),
    ("an old control plane node", "-", f"kubeadm join {GOOD} --experimental-control-plane", "'--experimental-control-plane' is for a control plane node; node-bootstrap joins only workers"),
    ("an unknown option", "-", f"kubeadm join {GOOD} --frobnicate", "unknown option: word 8 of the pasted line (12 characters)"),
    ("a token that is broken in two", "-", f"kubeadm join 10.0.0.1:6443 --token {TOKEN[:7]}\n{TOKEN[7:]} --discovery-token-ca-cert-hash {PIN}",
     "word 6 of the pasted line (16 characters); expected one HOST:PORT; use --endpoint for more; '--token' before it is no whole token: 16 characters are missing after the dot"),
    ("a token without a blank before it", "-", f"kubeadm join 10.0.0.1:6443 --token{TOKEN}", "word 4 of the pasted line (30 characters) begins with '--token'; put a blank or '=' before the value"),
    ("an error of kubeadm", "-", "error: timed out waiting for the condition\n", "the API server: expected HOST:PORT"),
    ("a token without its value", "-", f"kubeadm join 10.0.0.1:6443 --token --discovery-token-ca-cert-hash {PIN}", "'--token' requires TOKEN"),
    ("a token where the address belongs", "-", f"kubeadm join {TOKEN}", "found 23 characters; a token belongs in the credential node-bootstrap.token"),
    ("another command of kubeadm", "-", "kubeadm init --v=5", "unexpected: word 2 of the pasted line (4 characters); expected `kubeadm join HOST:PORT ...`"),
]


@pytest.mark.parametrize("row", BAD_LINES, ids=[row[0] for row in BAD_LINES])
def test_bad_line_from_standard_input(image, row):
    _, words, text, expected = row
    image.refused("usage", words, expected, stdin=text)


# name, code, words, what is said
REFUSED = [
    ("a control plane node", "usage", f"kubeadm join {GOOD} --control-plane", ["--control-plane", "workers"]),
    ("a certificate key", "usage", f"kubeadm join {GOOD} --certificate-key 00ff", ["--certificate-key", "workers"]),
    ("an address of an API server", "usage", f"{GOOD} --apiserver-advertise-address 10.0.0.9", ["--apiserver-advertise-address"]),
    ("a port of an API server", "usage", f"{GOOD} --apiserver-bind-port=6444", ["--apiserver-bind-port"]),
    ("token and token file", "usage", f"{GOOD} --token-file @TOKEN@", ["'--token' and '--token-file' cannot be combined"]),
    ("token twice", "usage", f"{GOOD} --token {OTHER}", ["'--token' may be used only once"]),
    ("three tokens", "usage", f"{GOOD} --discovery-token {TOKEN} --tls-bootstrap-token {TOKEN}", ["'--token' cannot be combined"]),
    ("node name twice", "usage", f"{GOOD} --node-name a --node-name b", ["'--node-name' may be used only once"]),
    ("two endpoints as words", "usage", f"10.0.0.2:6443 {GOOD}", ["unexpected: argument 4 (13 characters)", "--endpoint"]),
    ("a token as endpoint", "usage", TOKEN, ["a token belongs in the credential"]),
    ("a misspelt command of kubeadm", "usage", f"kubeadm jion {GOOD}", ["unexpected: argument 4 (4 characters); expected `kubeadm join HOST:PORT ...`"]),
    ("a token in place of the command of kubeadm", "usage", f"sudo kubeadm {TOKEN}", ["unexpected: argument 5 (23 characters); expected `kubeadm join"]),
    ("a word that is no address", "usage", f"foo --token {TOKEN} --ca-cert-hash {PIN}", ["unexpected: argument 3 (3 characters); expected `kubeadm join"]),
    ("an endpoint that is a URL", "usage", f"https://10.0.0.1:6443 --token {TOKEN}", ["HOST:PORT", "; leave out the scheme, such as https://; see"]),
    ("an endpoint with another scheme", "usage", f"{GOOD} --endpoint HTTP://a", ["; leave out the scheme"]),
    ("an endpoint with a dot at the end", "usage", f"api.example.com.:6443 --token {TOKEN}", ["; leave out the dot at the end of the name; see"]),
    ("IPv6 without brackets", "usage", f"kubeadm join fd00:20::2:6443 --token {TOKEN}", ["an IPv6 address without brackets; with them, it may be [fd00:20::2]:6443; see"]),
    ("IPv6 without brackets, with the port of https", "usage", f"2001:DB8::1:443 --token {TOKEN}", ["it may be [2001:db8::1]:443"]),
    ("IPv6 without brackets and port", "usage", f"kubeadm join fd00:20::2 --token {TOKEN}", ["it may be [fd00:20::2]:6443"]),
    ("a name of 64 characters", "node-name-invalid", f"{GOOD} --node-name {'abc.' * 15}abcd", ["has 64 characters", "kubernetes.io/hostname", "set node.name to a shorter one"]),
    ("a hash without its type", "usage", f"10.0.0.1 --token {TOKEN} --ca-cert-hash {PIN[7:]}", ["sha256: and 64 hex digits", "it does not begin with 'sha256:'"]),
    ("a hash that is too short", "usage", f"10.0.0.1 --token {TOKEN} --ca-cert-hash {PIN[:-1]}", ["sha256: and 64 hex digits", "it has 63 hex digits"]),
    ("an empty value", "usage", f"{GOOD} --node-name=", ["'--node-name' is empty"]),
    ("standard input twice", "usage", "10.0.0.1 --token-file=- --discovery-file=-", ["'--token-file=-'", "'--discovery-file=-'", "standard input"]),
    ("a relative folder of settings", "usage", f"{GOOD} --config-directory=etc", ["--config-directory"]),
    ("an unknown option", "usage", f"{GOOD} --discovery-tokens x", ["argument 8 (18 characters) begins with '--discovery-token'"]),
    ("a malformed token", "usage", f"10.0.0.1 --token x.y --ca-cert-hash {PIN}", ["node-bootstrap.token", "3 bytes", "it has 1 characters before the dot and 1 after it, expected 6 and 16; run"]),
    ("a malformed time limit", "usage", f"{GOOD} --wait-timeout=soon", ["'--wait-timeout'", "infinity"]),
    ("a malformed node name", "usage", f"{GOOD} --node-name=a_b", ["'--node-name': expected a DNS-1123 subdomain"]),
    ("no endpoint", "usage", f"--token {TOKEN} --ca-cert-hash {PIN}", ["discovery.endpoints", "; paste the whole line"]),
    ("discovery by a URL without TLS", "usage", f"--discovery-file http://example.com/c.yaml --token {TOKEN}", ["--discovery-file", "https://"]),
    ("discovery by a URL and by an endpoint", "settings-invalid", f"{GOOD} --discovery-file https://example.com/c.yaml", ["discovery.endpoints", "discovery.file", "both"]),
    ("a k3s token without a hash", "usage", f"10.0.0.1 --token K10::{TOKEN}", ["hash", "`k3s token create`"]),
    ("a malformed k3s token", "usage", "10.0.0.1 --token K10x::y", ["node-bootstrap.token", "K10<64 hex digits>", "the part between K10 and '::' is not 64 hex digits"]),
    ("no pin", "usage", f"10.0.0.1 --token {TOKEN}", ["discovery.caCertHashes", "unsafeSkipCAVerification", "; paste the whole line"]),
    ("a token file that is not there", "settings-unreadable", f"10.0.0.1 --token-file=/nowhere/token --ca-cert-hash {PIN}", ["'/nowhere/token'"]),
    ("a token file that is a folder", "settings-unreadable", f"10.0.0.1 --token-file=/etc --ca-cert-hash {PIN}", ["cannot read '/etc': Is a directory"]),
]


@pytest.mark.parametrize("row", REFUSED, ids=[row[0] for row in REFUSED])
def test_refused(image, row):
    _, code, words, expected = row
    image.refused(code, words, *expected)


def test_file_that_others_can_read(image):
    """The message names it, also if it is standard input."""
    image.token.chmod(0o644)
    image.refused("token-exposed", f"10.0.0.1 --token-file=@TOKEN@ --ca-cert-hash {PIN}", f": '{image.token}' has mode 0644")
    with open(image.token) as file:
        done = image.run("-", stdin=file)
    assert f"token-exposed: standard input is a file: '{image.token}' has mode 0644; expected no access for others" in done.stderr
    image.token.parent.chmod(0o700)
    image.good(f"10.0.0.1 --token-file=@TOKEN@ --ca-cert-hash {PIN}")


def test_second_setup(image):
    image.good(GOOD)
    before = image.files()
    assert "nothing to write" in image.good(GOOD).stdout
    assert "nothing to write" in image.good("--token-file=@TOKEN@").stdout
    assert image.files() == before
    image.good(f"{GOOD} --kubelet-config-from=cluster")     # adds only a file
    image.refused("setup-conflict", GOOD, "kubelet.configFrom: cluster -> (not set)")
    changed = f"10.0.0.2 --token {OTHER} --ca-cert-hash {PIN} --node-name=a --kubelet-config-from=cluster"
    done = image.refused("setup-conflict", changed, 'discovery.endpoints: ["10.0.0.1:6443"] -> ["10.0.0.2:6443"]', 'node.name: (not set) -> "a"',
                         "node-bootstrap.token: token abcdef -> token ghijkl", "3 settings", "--force")
    assert "caCertHashes" not in done.stdout, "what stays is not listed"
    image.good(f"{changed} --force")
    assert image.document()["node"] == {"name": "a"} and image.discovery()["endpoints"] == ["10.0.0.2:6443"] and image.credentials() == {"token": OTHER}
    image.refused("setup-conflict", changed.replace("--node-name=a", ""), 'node.name: "a" -> (not set)')


def test_another_secret_of_the_same_token(image):
    image.good(GOOD)
    image.refused("setup-conflict", GOOD.replace(TOKEN, f"{TOKEN_ID}.{OTHER[7:]}"), "token abcdef -> token abcdef, with another secret")


def test_stored_token_with_other_line_ends(image):
    image.good(GOOD)
    (image.root / CREDENTIALS / "node-bootstrap.token").write_text(f"{TOKEN}\r\n")
    assert "nothing to write" in image.good(GOOD).stdout
    image.refused("setup-conflict", GOOD.replace(TOKEN, OTHER), "token abcdef -> token ghijkl")


def test_credentials_of_another_join_method_are_removed(image):
    """One left behind would take precedence over the new one, or conflict with it."""
    image.good(f"10.0.0.1 --discovery-token {TOKEN} --tls-bootstrap-token {OTHER} --ca-cert-hash {PIN}")
    image.refused("setup-conflict", GOOD, "node-bootstrap.tls-bootstrap-token: token ghijkl -> none")
    image.good(f"{GOOD} --force")
    assert image.credentials() == {"token": TOKEN}


def test_settings_in_a_credential(image):
    """They count like settings in files, and take precedence over what setup would write."""
    store = image.root / CREDENTIALS
    store.mkdir(parents=True)
    (store / "node-bootstrap.config").write_text(HEADER + yaml.safe_dump({"discovery": {"endpoints": ["10.0.0.1:6443"], "caCertHashes": [PIN]}}))
    image.refused("usage", f"10.0.0.2:6443 --token-file=@TOKEN@ --discovery-token-ca-cert-hash {PIN}",
                  "discovery.endpoints on the command line is overridden by credential 'node-bootstrap.config'")
    image.good("--token-file=@TOKEN@")
    assert image.credentials()["token"].strip() == TOKEN and not (image.root / DOCUMENT).exists()


def test_a_credential_is_removed_after_the_new_one_is_written(image):
    """With the same settings, a full disk leaves the old credential."""
    image.good(GOOD)
    (image.root / CREDENTIALS / "node-bootstrap.token").unlink()
    old = image.root / CREDENTIALS / "node-bootstrap.tls-bootstrap-token"
    old.touch(0o600)
    old.write_text(OTHER)
    done = image.run(*GOOD.split(), "--force", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)))
    assert done.returncode != 0 and image.credentials()["tls-bootstrap-token"] == OTHER
    image.good(f"{GOOD} --force")
    assert image.credentials() == {"token": TOKEN}


def planned(image, done):
    return [line.replace(str(image.root), "@") for line in done.stdout.splitlines() if line.startswith("would ")]


def test_dry_run_lists_what_it_would_remove(image):
    image.good(f"10.0.0.1 --discovery-token {TOKEN} --tls-bootstrap-token {OTHER} --ca-cert-hash {PIN}")
    before = image.files()
    assert planned(image, image.good(f"{GOOD} --force --dry-run")) == [f"would remove   @/{CREDENTIALS}/node-bootstrap.tls-bootstrap-token", "would not enable or start node-bootstrap.service: --root"]
    assert image.files() == before


@pytest.mark.parametrize("option", ["", " --dry-run"])
@pytest.mark.parametrize("make, expected", [(lambda path: None, "No such file or directory"), (lambda path: path.write_text(""), "Not a directory")], ids=["nothing", "a file"])
def test_root_that_is_not_a_directory(image, tmp_path, make, expected, option):
    image.root = tmp_path / "misspelt"
    make(image.root)
    done = image.setup(f"{GOOD}{option}")
    assert done.returncode == int(FAILURES["usage"]["exit"]) and f"'--root={image.root}': " in done.stderr and expected in done.stderr and done.stdout == ""
    assert not image.root.is_dir()


def test_dry_run_changes_nothing(image):
    done = image.good(f"{GOOD} --dry-run")
    assert image.files() == {} and PIN in done.stdout and "nothing was changed" in done.stdout
    assert planned(image, done) == [f"would write    @/{DOCUMENT} (mode 0644, owner {os.geteuid()})", f"would write    @/{CREDENTIALS}/node-bootstrap.token (mode 0600, owner {os.geteuid()})",
                                    "would not enable or start node-bootstrap.service: --root"]
    image.good(GOOD)
    image.refused("setup-conflict", f"10.0.0.2 --token {TOKEN} --ca-cert-hash {PIN} --dry-run", "10.0.0.2")


def rehearse_on_localhost(words):
    script = 'hostname localhost; mount -t tmpfs none /etc; exec "$@"'
    return subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "--uts", "sh", "-ec", script, "sh",
                           find_program("node-bootstrap"), "setup", "--dry-run", "--no-start", *words.split()],
                          capture_output=True, text=True, check=False, env={"PATH": "/usr/sbin:/usr/bin"})


def test_host_name_localhost(image):
    assert rehearse_on_localhost(GOOD).returncode == 0, "the join waits for its name"
    done = rehearse_on_localhost(f"{GOOD} --node-name=localhost")
    assert done.returncode == int(FAILURES["node-name-localhost"]["exit"]) and "node-bootstrap: node-name-localhost: " in done.stderr
    assert "would write" not in done.stdout
    assert rehearse_on_localhost(f"{GOOD} --node-name=a").returncode == 0


def test_image_gets_its_token_later(image):
    """Setup refuses a cluster without a token only on the machine itself."""
    image.good(f"10.0.0.1:6443 --discovery-token-ca-cert-hash {PIN}")
    assert not (image.root / CREDENTIALS).exists()


def put(image, name, text):
    path = image.root / "etc/node-bootstrap" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(HEADER + text)


def test_existing_settings(image):
    put(image, "config.yaml", "discovery:\n  endpoints: [10.0.0.9]\nnode:\n  name: a\n")
    image.refused("setup-conflict", GOOD, 'discovery.endpoints: ["10.0.0.9:6443"] -> ["10.0.0.1:6443"]', "1 setting differs from this machine's; use --force to replace it")
    image.good(f"--token {TOKEN} --ca-cert-hash {PIN}")
    assert image.discovery() == {"caCertHashes": [PIN]}, "the endpoint is that of the other document"


def test_settings_that_take_precedence(image):
    put(image, "config.yaml.d/60-site.yaml", "timeout: 1h\nnode:\n  name: a\n")
    image.refused("usage", f"{GOOD} --node-name=b", "node.name", "60-site.yaml", "precedence")
    image.good(f"{GOOD} --node-name=a")


def test_all_settings_together_must_be_valid(image):
    put(image, "config.yaml.d/60-site.yaml", "nodes: 1\n")
    image.refused("settings-invalid", GOOD, "60-site.yaml:3")


def test_damaged_document_of_an_earlier_setup(image):
    put(image, "config.yaml.d/50-setup.yaml", "nodes: 1\n")
    image.refused("settings-invalid", GOOD, "50-setup.yaml:3")
    image.good(f"{GOOD} --force")
    assert image.discovery() == BASIS


def test_keys_of_a_damaged_document_that_is_replaced(image):
    """They are listed as of any other document. What is refused was not in force."""
    put(image, "config.yaml.d/50-setup.yaml", "nodes: 1\nnode: {name: old}\nkubelet: {cgroupDriver: none, extraArgs: [--v=9]}\ntimeout: 1h\n")
    said = image.good(f"{GOOD} --force").stdout
    assert re.findall(r"^(\S+): (.*) -> \(not set\)$", said, re.M) == [("node.name", '"old"'), ("timeout", "3600s")]


def test_settings_from_a_file(image, tmp_path):
    config = tmp_path / "join.yaml"
    config.write_text(f"{HEADER}discovery:\n  endpoints: [10.0.0.1]\n  caCertHashes: ['{PIN}']\nkubelet:\n  kubeconfig: /var/lib/kubelet/kubeconfig\n")
    image.good(f"--config={config} --token-file=@TOKEN@ --node-name=a")
    assert image.document() == {"apiVersion": "node-bootstrap/v1", "kind": "NodeBootstrap", "discovery": BASIS,
                                "kubelet": {"kubeconfig": "/var/lib/kubelet/kubeconfig"}, "node": {"name": "a"}}
    image.refused("usage", f"--config={config} --endpoint=10.0.0.2", "discovery.endpoints is set on the command line and in", str(config))
    config.write_text("kind: x\n")
    image.refused("settings-invalid", f"--config={config} --force", str(config))


def cluster_info(**changes):
    ca = base64.b64encode(pki.CA().pem).decode()
    cluster = {"server": "https://10.0.0.1:6443", "certificate-authority-data": ca, **changes.pop("cluster", {})}
    return yaml.safe_dump({"apiVersion": "v1", "kind": "Config", "clusters": [{"name": "k", "cluster": cluster}], **changes})


def bootstrap_kubeconfig(**user):
    return cluster_info(contexts=[{"name": "c", "context": {"cluster": "k", "user": "u"}}], users=[{"name": "u", "user": user}], **{"current-context": "c"})


def given(tmp_path, name, text, mode=0o600):
    path = tmp_path / name
    path.touch(mode)
    path.chmod(mode)
    path.write_text(text)
    return path


def test_discovery_file_becomes_a_credential(image, tmp_path):
    text = cluster_info()
    for words, stdin in ((f"--discovery-file={given(tmp_path, 'c', text, 0o644)}", None), ("--discovery-file=- --force", text)):
        image.good(f"{words} --token {TOKEN}", stdin)
        assert image.credentials() == {"cluster-info": text, "token": TOKEN}
        assert not (image.root / DOCUMENT).exists(), "no setting was given"


@pytest.mark.parametrize("text, expected", [
    (bootstrap_kubeconfig(token="t"), "token"),
    (cluster_info(cluster={"insecure-skip-tls-verify": True}), "insecure-skip-tls-verify"),
    (cluster_info(clusters=[]), "cluster"),
    ("nonsense", ""),
], ids=["with a credential", "without TLS", "without a cluster", "no kubeconfig"])
def test_unacceptable_discovery_file(image, tmp_path, text, expected):
    path = given(tmp_path, "c", text)
    image.refused("discovery-file-unacceptable", f"--discovery-file={path} --token {TOKEN}", str(path), expected)


def test_discovery_file_and_endpoint(image, tmp_path):
    path = given(tmp_path, "c", cluster_info())
    image.refused("settings-invalid", f"{GOOD} --discovery-file={path}", "discovery.endpoints", "node-bootstrap.cluster-info", "both")


def test_bootstrap_kubeconfig(image, tmp_path):
    text = bootstrap_kubeconfig(token="service-account-token")
    image.good(f"--bootstrap-kubeconfig={given(tmp_path, 'k', text)}")
    assert image.credentials() == {"kubeconfig": text}
    image.refused("setup-conflict", GOOD, "node-bootstrap.kubeconfig: another document -> none")
    image.good(f"{GOOD} --force")
    assert image.credentials() == {"token": TOKEN}


@pytest.mark.parametrize("user, expected", [
    ({"username": "u", "password": "secret-password"}, "password"),
    ({"exec": {"command": "/bin/sh"}}, "exec"),
    ({"tokenFile": "token"}, "absolute"),
    ({}, "token"),
], ids=["a password", "a plugin", "a relative path", "nothing"])
def test_unacceptable_bootstrap_kubeconfig(image, tmp_path, user, expected):
    path = given(tmp_path, "k", bootstrap_kubeconfig(**user))
    done = image.refused("bootstrap-kubeconfig-unacceptable", f"--bootstrap-kubeconfig={path}", str(path), expected)
    assert "secret-password" not in done.stderr


def test_bootstrap_kubeconfig_with_a_file_hidden_from_the_service(image):
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        token = given(Path(folder), "t", "service-account-token")
        path = given(Path(folder), "k", bootstrap_kubeconfig(tokenFile=str(token)))
        image.refused("bootstrap-kubeconfig-unreadable", f"--bootstrap-kubeconfig={path}", f"'{token}'", "hidden from node-bootstrap.service")


def test_bootstrap_kubeconfig_that_others_can_read(image, tmp_path):
    image.refused("token-exposed", f"--bootstrap-kubeconfig={given(tmp_path, 'k', bootstrap_kubeconfig(token='t'), 0o644)}")


JOIN_CONFIGURATION = f"""
apiVersion: kubeadm.k8s.io/v1beta3
kind: JoinConfiguration
discovery:
  bootstrapToken:
    token: {TOKEN}
    apiServerEndpoint: 10.0.0.1:6443
    caCertHashes: ["{PIN}"]
  tlsBootstrapToken: {OTHER}
nodeRegistration:
  name: worker-1
  criSocket: /run/containerd/containerd.sock
  taints:
  - key: dedicated
    value: gpu
    effect: NoSchedule
  kubeletExtraArgs:
    node-labels: a=b
skipPhases: [preflight]
"""


def test_join_configuration(image, tmp_path):
    path = given(tmp_path, "join.yaml", JOIN_CONFIGURATION)
    done = image.good(f"--config={path}")
    assert image.document() == {
        "apiVersion": "node-bootstrap/v1", "kind": "NodeBootstrap", "discovery": BASIS, "node": {"name": "worker-1", "taints": ["dedicated=gpu:NoSchedule"]},
        "kubelet": {"criSocket": "unix:///run/containerd/containerd.sock", "extraArgs": ["node-labels=a=b"]}}
    assert image.credentials() == {"token": TOKEN, "tls-bootstrap-token": OTHER}
    assert "skipPhases" in done.stderr and str(path) in done.stderr
    assert "nothing to write" in image.good(f"--config={path}").stdout


def test_join_configuration_and_command_line(image, tmp_path):
    path = given(tmp_path, "join.yaml", JOIN_CONFIGURATION)
    image.refused("usage", f"--config={path} --token-file=@TOKEN@", "'--token-file'", str(path), "token")
    image.refused("usage", f"--config={path} --node-name=x", "node.name", str(path))
    image.refused("token-exposed", f"--config={given(tmp_path, 'open.yaml', JOIN_CONFIGURATION, 0o644)}", "open.yaml")
    image.refused("settings-invalid", f"--config={given(tmp_path, 'plane.yaml', JOIN_CONFIGURATION + 'controlPlane: {}')}", "controlPlane")


def test_nothing_is_written_outside_of_the_image(image, tmp_path):
    """Before it is written, everything stays in the memory of the process."""
    strace = shutil.which("strace") or pytest.skip("strace is not installed")
    trace = tmp_path / "trace"
    argv = [strace, "--follow-forks", "--decode-fds=path", f"--output={trace}", "--trace=open,openat,openat2,mkdir,mkdirat,mknod,mknodat",
            find_program("node-bootstrap"), "setup", f"--root={image.root}", *GOOD.split()]
    subprocess.run(argv, capture_output=True, check=True, env={"PATH": "/usr/sbin:/usr/bin", "ASAN_OPTIONS": "detect_leaks=0"})
    made = [line for line in trace.read_text().splitlines() if "O_CREAT" in line or "mkdir" in line or "mknod" in line]
    assert made and not [line for line in made if str(image.root) not in line]


def test_settings_that_cannot_be_written(image):
    """No token is left beside the settings of the other cluster."""
    image.good(GOOD)
    (image.root / DOCUMENT).with_name(".50-setup.yaml.tmp").mkdir()
    before = image.document()
    done = image.setup(f"10.0.0.2:6443 --token {OTHER} --ca-cert-hash {PIN_2} --force")
    assert done.returncode == int(FAILURES["setup-unwritable"]["exit"]), done.stderr
    assert image.document() == before and image.credentials() == {}


def test_links_in_an_image_that_lead_out(image, tmp_path):
    """Their targets on this machine are neither read nor removed."""
    outside = tmp_path / "outside"
    outside.mkdir()
    image.good(GOOD)
    (image.root / CREDENTIALS).rename(outside / "credstore")
    (image.root / CREDENTIALS).symlink_to(outside / "credstore")
    done = image.setup(f"10.0.0.1:6443 --token {OTHER} --ca-cert-hash {PIN} --force")
    assert TOKEN_ID not in done.stdout + done.stderr and (outside / "credstore/node-bootstrap.token").read_text() == TOKEN


def test_links_in_an_image_are_not_followed(image, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (image.root / "etc").mkdir()
    (image.root / "etc/credstore").symlink_to(outside)
    image.refused("setup-unwritable", GOOD, "etc/credstore")
    assert list(outside.iterdir()) == []


def test_not_root():
    as_nobody = {"user": 65534, "group": 65534} if os.geteuid() == 0 else {}
    with tempfile.TemporaryDirectory() as folder:       # the build may be where only root looks
        os.chmod(folder, 0o755)
        program = shutil.copy(find_program("node-bootstrap"), folder)
        done = subprocess.run([program, "setup", *GOOD.split()], capture_output=True, text=True, check=False, **as_nobody)
    assert done.returncode == int(FAILURES["setup-not-root"]["exit"]) and "node-bootstrap: setup-not-root: " in meet(done.stderr)


def test_without_systemd(tmp_path):
    """In a container that runs no init system. The folder would be one error more, if that were not the first."""
    namespace = Namespace()
    done = subprocess.run([*namespace.enter, find_program("node-bootstrap"), "setup", f"--config-directory={tmp_path}", *GOOD.split()],
                          capture_output=True, text=True, check=False)
    namespace.close()
    assert done.returncode == int(FAILURES["setup-without-systemd"]["exit"]) and "node-bootstrap: setup-without-systemd: " in done.stderr and "`--no-start`" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("ca", "words", "code"), [(b"foo", "", "discovery-file-unacceptable"), (None, "--ca-cert-hash=sha256:" + "0" * 64, "ca-pin-mismatch")],
                         ids=["no certificate", "another pin"])
def test_document_is_checked_by_itself(image, tmp_path, ca, words, code):
    document = tmp_path / "cluster-info.yaml"
    document.write_text(apiserver.kubeconfig("https://10.0.0.10:6443", ca or pki.CA().pem))
    image.refused(code, f"--discovery-file={document} --token-file=@TOKEN@ {words}")
