# SPDX-License-Identifier: Apache-2.0
"""node-bootstrap check: settings and credentials as the service would get them, in a mount name space with an /etc and a /run of its own."""

import os
import pty
import re
import subprocess

import pytest

import apiserver
import pki
from machine import FAILURES, HEADER, SECRET, SOURCE, TOKEN, TOKEN_ID, find_program, to_yaml

OTHER = "ghijkl.fedcba9876543210"
MASKED = f"{TOKEN_ID}.****************"
PIN = "sha256:" + "ab" * 32
ETC_STORE, RUN_STORE, SYSTEM, SEALED = "etc/credstore", "run/credstore", "run/credentials/@system", "etc/credstore.encrypted"
BASIS = {"discovery": {"endpoints": ["10.0.0.1:6443"], "caCertHashes": [PIN]}}
CONFIG = "etc/node-bootstrap/config.yaml"
# No network, too: whatever is looked at here is on the machine.
INSIDE = 'mount --rbind "$0/etc" /etc; mount --rbind "$0/run" /run; exec "$@"'


class Place:
    def __init__(self, path):
        self.path = path
        for folder in ("etc", "run"):
            (path / folder).mkdir()
        self.secrets = [SECRET, OTHER.split(".")[1]]

    def put(self, name, text, mode=0o600, folder_mode=0o755):
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.parent.chmod(folder_mode)
        path.write_text(text)
        path.chmod(mode)

    def settings(self, changes=None, name=CONFIG):
        self.put(name, HEADER + to_yaml(changes or BASIS), 0o644)

    def token(self, text=TOKEN, store=ETC_STORE, name="token", **options):
        self.put(f"{store}/node-bootstrap.{name}", text, **options)

    def files(self):
        return {str(path): (path.lstat().st_mode, path.lstat().st_mtime_ns) for path in sorted(self.path.rglob("*"))}

    def argv(self, *arguments, before=()):
        return ["unshare", "--user", "--map-root-user", "--mount", "--net", "sh", "-ec", INSIDE, self.path, *before,
                find_program("node-bootstrap"), "check", *arguments]

    @staticmethod
    def environment(**more):
        kept = {key: value for key, value in os.environ.items() if key.startswith(("ASAN_", "LSAN_", "UBSAN_", "LLVM_PROFILE"))}
        return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **kept, **more}

    def check(self, *arguments, before=(), **environment):
        files = self.files()
        done = subprocess.run(self.argv(*arguments, before=before), env=self.environment(**environment), check=False, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert self.files() == files, "files were changed"
        for secret in self.secrets:
            assert secret not in done.stdout + done.stderr, "a secret was printed"
        assert done.stderr == ""
        return done

    def good(self, *arguments, **options):
        done = self.check(*arguments, **options)
        assert done.returncode == 0 and "✗" not in done.stdout and done.stdout.endswith("  ✓ it could begin\n"), done.stdout
        return sections(done.stdout)

    def bad(self, code, *words, section="Join", **options):
        done = self.check(**options)
        assert done.returncode == int(FAILURES[code]["exit"]), done.stdout
        found = sections(done.stdout)
        [failure] = [row for row in found[section] if row.startswith(f"✗ {code}: ")]
        assert f"  {FAILURES[code]['remedy'].split('@')[0]}" in done.stdout, "the remedy is not there"
        for word in words:
            assert word in failure, f"{word!r} is not in {failure}"
        return found


def sections(text):
    """title -> rows, without their indentation."""
    found = {}
    for line in text.splitlines():
        if line and not line.startswith(" "):
            rows = found[line] = []
        elif line:
            rows.append(line.strip())
    return found


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def test_a_join_could_begin(place):
    place.settings()
    place.settings({"node": {"name": "node-7"}}, CONFIG + ".d/10-name.yaml")
    place.token()
    found = place.good()
    assert list(found)[0] == "Settings" and list(found)[-1] == "Join"
    assert found["Settings"] == [
        '- discovery.endpoints: ["10.0.0.1:6443"] (/etc/node-bootstrap/config.yaml)',
        f'- discovery.caCertHashes: ["{PIN}"] (/etc/node-bootstrap/config.yaml)',
        '- node.name: "node-7" (/etc/node-bootstrap/config.yaml.d/10-name.yaml)', "✓ in order"]
    assert found["Credentials and tokens"] == [f"✓ node-bootstrap.token: bootstrap token {MASKED} (/etc/credstore)", "✓ in order"]
    assert "- node name: node-7 (/etc/node-bootstrap/config.yaml.d/10-name.yaml)" in found["Join"]
    assert "- the identity: credential 'node-bootstrap.token'" in found["Join"]


def test_nothing_at_all(place):
    found = place.bad("settings-incomplete", "discovery.endpoints")
    assert found["Settings"][0] == "- none: no document in /etc/node-bootstrap or among the credentials has one"
    assert found["Credentials and tokens"] == ["- none"]


def test_all_shows_every_setting_and_credential(place):
    place.settings()
    place.token()
    found = place.good("--all")
    keys = re.findall(r"NB_SETTING_\w+, +/\* ([A-Za-z.]+)", (SOURCE / "src/format/settings.h").read_text())
    assert len(keys) > 20 and [row.split(":")[0] for row in found["Settings"][:-1]] == [f"- {key}" for key in keys]
    assert "- timeout: infinity (default)" in found["Settings"]
    names = re.findall(r"define NB_CREDENTIAL_\w+ \"([a-z.-]+)\"", (SOURCE / "src/base/sources.h").read_text())
    assert {row.split(":")[0][2:] for row in found["Credentials and tokens"][:-1]} == set(names)


@pytest.mark.parametrize("store", [SYSTEM, ETC_STORE, RUN_STORE])
def test_each_place_for_credentials(place, store):
    place.settings({"node": {"name": "weak"}})
    place.put(f"{store}/node-bootstrap.config", HEADER + to_yaml({**BASIS, "node": {"name": "strong"}}))
    place.token(store=store)
    found = place.good()
    assert "- node.name: \"strong\" (credential 'node-bootstrap.config')" in found["Settings"]
    assert f"✓ node-bootstrap.token: bootstrap token {MASKED} (/{store})" in found["Credentials and tokens"]
    assert any(re.fullmatch(rf"✓ node-bootstrap\.config: \d+ bytes \(/{store}\)", row) for row in found["Credentials and tokens"])


def test_the_stronger_place_counts(place):
    place.settings()
    place.token(store=SYSTEM)
    place.token(OTHER)
    assert place.good()["Credentials and tokens"] == [
        f"✓ node-bootstrap.token: bootstrap token {MASKED} (/run/credentials/@system)",
        "- node-bootstrap.token: also in /etc/credstore, where it does not count", "✓ in order"]


def test_what_systemd_has_delivered_counts_alone(place):
    place.settings()
    place.token(OTHER)
    place.token(store="run/given", mode=0o400)
    found = place.good(CREDENTIALS_DIRECTORY="/run/given")
    assert found["Credentials and tokens"] == [f"✓ node-bootstrap.token: bootstrap token {MASKED} (/run/given)", "✓ in order"]


def test_a_token_of_a_document(place):
    text = (f"apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\ndryRun: true\ndiscovery:\n  tlsBootstrapToken: {OTHER}\n  bootstrapToken:\n"
            f"    apiServerEndpoint: 10.0.0.1:6443\n    token: {TOKEN}\n    caCertHashes: ['{PIN}']\n")
    place.put(CONFIG, text)
    found = place.good()
    assert found["Credentials and tokens"] == [f"✓ token: bootstrap token {MASKED} (/etc/node-bootstrap/config.yaml)",
                                               "✓ token for the request: bootstrap token ghijkl.**************** (/etc/node-bootstrap/config.yaml)", "✓ in order"]
    assert "- ignored, being for other phases of kubeadm join: dryRun" in found["Settings"]


def test_a_token_is_missing(place):
    place.settings()
    place.bad("token-missing", "node-bootstrap.token")


def test_a_damaged_token(place):
    place.settings()
    place.token(TOKEN[:-1])
    found = place.bad("token-malformed", "22 bytes", section="Credentials and tokens")
    assert "✗ node-bootstrap.token: 22 bytes that are no token (/etc/credstore)" in found["Credentials and tokens"]
    assert found["Join"] == ["- not looked at: see above"]


def test_damaged_settings_do_not_hide_the_credentials(place):
    place.settings({"discovery": {"endpoint": []}})
    place.token()
    found = place.bad("settings-invalid", "discovery.endpoint", section="Settings")
    assert found["Credentials and tokens"] == [f"✓ node-bootstrap.token: bootstrap token {MASKED} (/etc/credstore)"]
    assert found["Join"] == ["- not looked at: see above"]


def test_an_encrypted_token_is_for_the_service(place):
    place.settings()
    place.token("ciphertext", store=SEALED)
    done = place.check()
    assert done.returncode == 0 and "✗" not in done.stdout, done.stdout
    found = sections(done.stdout)
    assert found["Credentials and tokens"][0].startswith("! node-bootstrap.token: encrypted in /etc/credstore.encrypted; ")
    assert found["Join"][-1] == "! whether it could begin is decided by an encrypted credential"


def test_an_encrypted_token_excuses_nothing_else(place):
    place.settings({"discovery": {"endpoints": ["10.0.0.1:6443"], "file": "https://config.example.com/cluster-info.yaml"}})
    place.token("ciphertext", store=SEALED)
    place.bad("settings-invalid", "discovery.file", section="Credentials and tokens")


@pytest.mark.parametrize(("mode", "folder_mode", "is_told"), [(0o644, 0o755, True), (0o644, 0o700, False), (0o640, 0o755, False)])
def test_a_token_that_others_can_read(place, mode, folder_mode, is_told):
    """systemd delivers it all the same."""
    place.settings()
    place.token(mode=mode, folder_mode=folder_mode)
    rows = place.good()["Credentials and tokens"]
    assert ("! node-bootstrap.token: others can read it in /etc/credstore: mode 0644; expected 0600" in rows) == is_told


def test_what_this_user_cannot_read_is_named(place):
    """A root without any capability, in front of a folder that is closed to its owner."""
    place.settings()
    (place.path / ETC_STORE).mkdir()
    (place.path / ETC_STORE).chmod(0)
    try:
        found = place.bad("token-missing", before=("setpriv", "--bounding-set=-all", "--inh-caps=-all"))
    finally:
        (place.path / ETC_STORE).chmod(0o700)
    assert found["Credentials and tokens"][0] == "! /etc/credstore cannot be looked into by this user: run as root"


def test_a_pin_that_does_not_fit_the_discovery_file(place):
    ca = pki.CA()
    place.put("etc/cluster-info.yaml", apiserver.kubeconfig("https://10.0.0.10:6443", ca.pem), 0o644)
    place.token()
    place.settings({"discovery": {"file": "/etc/cluster-info.yaml", "caCertHashes": [ca.pin]}})
    assert "- the cluster: a kubeconfig on this machine" in place.good()["Join"]
    place.settings({"discovery": {"file": "/etc/cluster-info.yaml", "caCertHashes": [PIN]}})
    place.bad("ca-pin-mismatch")


def test_a_machine_that_has_joined_is_told(place):
    place.settings({**BASIS, "kubelet": {"certificateDirectory": "/etc/pki"}})
    place.put("etc/pki/node-bootstrap.json", "{}")
    place.token()
    assert place.good()["Join"][0].startswith("- this machine has joined already")


def test_a_file_name_cannot_move_the_cursor(place):
    place.settings(name=CONFIG + ".d/\033[2Jx.yaml")
    place.token()
    done = place.check()
    assert done.returncode == 0 and "\033" not in done.stdout and "[2Jx.yaml" in done.stdout


def on_terminal(place, **environment):
    parent, child = pty.openpty()
    with subprocess.Popen(place.argv(), env=place.environment(**environment), stdin=subprocess.DEVNULL, stdout=child) as program:
        os.close(child)
        text = b""
        while True:
            try:
                text += os.read(parent, 65536)
            except OSError:     # the other side was closed
                break
    os.close(parent)
    assert program.returncode == 0, text
    return text.decode()


def test_colour_is_for_terminals(place):
    place.settings()
    place.token()
    assert "\033[32m✓\033[0m it could begin" in on_terminal(place, TERM="linux")
    for environment in ({"TERM": "dumb"}, {"TERM": "linux", "NO_COLOR": "1"}):
        assert "\033" not in on_terminal(place, **environment)
    assert "\033" not in place.check(TERM="linux").stdout


def test_usage():
    done = subprocess.run([find_program("node-bootstrap"), "check", "twice"], check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.returncode == 64 and "'twice' after 'check' is one too many" in done.stderr and done.stdout == ""
