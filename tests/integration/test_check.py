# SPDX-License-Identifier: Apache-2.0
"""node-bootstrap check: settings and credentials as the service would get them, in a mount name space with an /etc and a /run of its own."""

import os
import pty
import re
import subprocess
import sys

import pytest

from common import apiserver, documentation, pki
from common.machine import HEADER, SECRET, TOKEN, TOKEN_ID, fake_clock, find_program, to_yaml
from .check import BASIS, CONFIG, ETC_STORE, OTHER, PIN, PLATFORM, RUN_STORE, SEALED, SYSTEM, Place, sections
from .tables import tables

MASKED = f"{TOKEN_ID}.****************"


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def test_join_can_start(place):
    place.settings()
    place.settings({"node": {"name": "node-7"}}, CONFIG + ".d/10-name.yaml")
    place.token()
    found = place.good()
    assert list(found)[:2] == ["Service", "Settings"] and list(found)[-1] == "Join"
    assert found["Service"] == ["! cannot determine whether systemd can start node-bootstrap.service: systemd is not running"]
    assert found["Settings"] == [
        '- discovery.endpoints: ["10.0.0.1:6443"] (/etc/node-bootstrap/config.yaml)',
        f'- discovery.caCertHashes: ["{PIN}"] (/etc/node-bootstrap/config.yaml)',
        '- node.name: "node-7" (/etc/node-bootstrap/config.yaml.d/10-name.yaml)', "✓ valid"]
    assert found["Credentials and tokens"] == [f"✓ node-bootstrap.token: bootstrap token {MASKED} (/etc/credstore)", "✓ valid"]
    assert "- node name: node-7 (/etc/node-bootstrap/config.yaml.d/10-name.yaml)" in found["Join"]
    assert "- identity: credential 'node-bootstrap.token'" in found["Join"]


@pytest.mark.parametrize("key", ["", "tpm", "credential"])
def test_unused_key(place, key):
    """A key that requests do not use; whether the one that they use signs, only the service can try."""
    place.settings(BASIS | ({"proof": {"key": key}} if key else {}))
    place.token()
    place.token("x", name="attestation-key")
    found = place.good()
    row = "! the key 'node-bootstrap.attestation-key' in /etc/credstore is not used: proof.key is not 'credential'"
    assert (row in found["Credentials and tokens"]) == (key != "credential")
    assert found.get("Proof") == (["! not tried: only the service can use the key"] if key else None)


def test_settings_that_only_root_can_read(place):
    """The installer passes them to the network side."""
    place.put(CONFIG, HEADER + to_yaml(BASIS), 0o600)
    place.put(CONFIG + ".d/10-name.yaml", HEADER + to_yaml({"node": {"name": "node-7"}}), 0o400)
    for folder in ("etc/node-bootstrap", "etc/node-bootstrap/config.yaml.d"):
        (place.path / folder).chmod(0o700)
    place.token()
    place.good()


def test_no_settings_and_no_credentials(place):
    found = place.bad("settings-incomplete", "discovery.endpoints")
    assert found["Settings"][0] == "- no settings in /etc/node-bootstrap or a credential"
    assert found["Credentials and tokens"] == ["- none"]


def test_all_shows_every_setting_and_credential(place):
    place.settings()
    place.token()
    found = place.good("--all")
    assert [row.split(":")[0] for row in found["Settings"][:-1]] == [f"- {key}" for key in tables()["settings"]]
    assert "- timeout: infinity (default)" in found["Settings"]
    assert {row.split(":")[0][2:] for row in found["Credentials and tokens"][:-1]} == documentation.credentials() - {"node-bootstrap.attestation-key"}


@pytest.mark.parametrize("store", [SYSTEM, ETC_STORE, RUN_STORE])
def test_each_place_for_credentials(place, store):
    place.settings({"node": {"name": "weak"}})
    place.put(f"{store}/node-bootstrap.config", HEADER + to_yaml({**BASIS, "node": {"name": "strong"}}))
    place.token(store=store)
    found = place.good()
    assert "- node.name: \"strong\" (credential 'node-bootstrap.config')" in found["Settings"]
    assert f"✓ node-bootstrap.token: bootstrap token {MASKED} (/{store})" in found["Credentials and tokens"]
    assert any(re.fullmatch(rf"✓ node-bootstrap\.config: \d+ bytes \(/{store}\)", row) for row in found["Credentials and tokens"])


def test_stronger_credential_store_wins(place):
    place.settings()
    place.token(store=SYSTEM)
    place.token(OTHER)
    assert place.good()["Credentials and tokens"] == [
        f"✓ node-bootstrap.token: bootstrap token {MASKED} (/run/credentials/@system)", "✓ valid"]


def test_only_delivered_credentials_are_used(place):
    place.settings()
    place.token(OTHER)
    place.token(store="run/given", mode=0o400)
    found = place.good(CREDENTIALS_DIRECTORY="/run/given")
    assert found["Credentials and tokens"] == [f"✓ node-bootstrap.token: bootstrap token {MASKED} (/run/given)", "✓ valid"]


def test_token_in_a_join_configuration(place):
    text = (f"apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\ndryRun: true\ndiscovery:\n  tlsBootstrapToken: {OTHER}\n  bootstrapToken:\n"
            f"    apiServerEndpoint: 10.0.0.1:6443\n    token: {TOKEN}\n    caCertHashes: ['{PIN}']\n")
    place.put(CONFIG, text)
    found = place.good()
    assert found["Credentials and tokens"] == [f"✓ token: bootstrap token {MASKED} (/etc/node-bootstrap/config.yaml)",
                                               "✓ token for the request: bootstrap token ghijkl.**************** (/etc/node-bootstrap/config.yaml)", "✓ valid"]
    assert "- ignored, for other phases of kubeadm join: dryRun" in found["Settings"]


def test_missing_token(place):
    place.settings()
    place.bad("token-missing", "node-bootstrap.token")


def test_invalid_token(place):
    place.settings()
    place.token(TOKEN[:-1])
    found = place.bad("token-malformed", "22 bytes", section="Credentials and tokens")
    assert found["Credentials and tokens"][0] == "! node-bootstrap.token: 22 bytes (/etc/credstore)"
    assert found["Join"] == ["– skipped: see above"]


@pytest.mark.parametrize("end", ["\r\n", "\n\n", "\r\n\n"], ids=ascii)
def test_line_ends_after_a_token(place, end):
    place.settings()
    place.token(TOKEN + end)
    rows = place.good()["Credentials and tokens"]
    assert rows[0] == f"✓ node-bootstrap.token: bootstrap token {MASKED} (/etc/credstore)"
    assert rows[-1] == "✓ valid"


def test_invalid_settings_do_not_hide_credentials(place):
    place.settings({"discovery": {"endpoint": []}})
    place.token()
    found = place.bad("settings-invalid", "discovery.endpoint", section="Settings")
    assert found["Credentials and tokens"] == [f"✓ node-bootstrap.token: bootstrap token {MASKED} (/etc/credstore)"]
    assert found["Join"] == ["– skipped: see above"]


def test_invalid_token_and_invalid_settings(place):
    """The first failure is that of the settings."""
    place.settings({"discovery": {"endpoint": []}})
    place.token(TOKEN[:-1])
    found = place.bad("settings-invalid", "discovery.endpoint", section="Settings")
    assert found["Credentials and tokens"][0] == "! node-bootstrap.token: 22 bytes (/etc/credstore)"


def test_encrypted_token(place):
    place.settings()
    place.token("ciphertext", store=SEALED)
    done = place.check()
    assert done.returncode == 0 and "✗" not in done.stdout, done.stdout
    found = sections(done.stdout)
    assert found["Credentials and tokens"][0] == "! node-bootstrap.token: encrypted; only the service can read it"
    assert found["Join"][-1] == "! cannot determine whether a join can start: it depends on a credential that only the service receives"


def test_encrypted_token_that_is_not_delivered(place):
    """Before version 254, systemd reads the folder only with a drop-in."""
    place.settings()
    place.token("ciphertext", store=SEALED)
    (place.path / "etc/delivered").mkdir()
    found = sections(place.check(CREDENTIALS_DIRECTORY="/etc/delivered").stdout)
    version = int(subprocess.run(["systemctl", "--version"], check=True, text=True, capture_output=True).stdout.split()[1])
    assert any("LoadCredentialEncrypted=node-bootstrap.token in a drop-in" in row for row in found["Credentials and tokens"]) is (version < 254)


def test_encrypted_settings(place):
    place.token("ciphertext", store=SEALED, name="config")
    found = sections(place.check().stdout)
    assert "! node-bootstrap.config: encrypted; only the service can read it" in found["Credentials and tokens"] and "cannot determine" in found["Join"][-1]
    place.token("apiVersion: node-bootstrap/v1\nkind: NodeBootstrap\nnode: {name: plain}\n", name="config")
    found = sections(place.check().stdout)
    assert found["Join"][0] == "- node name: plain (credential 'node-bootstrap.config')"


def test_encrypted_token_excuses_no_other_failure(place):
    place.settings({"discovery": {"endpoints": ["10.0.0.1:6443"], "file": "https://config.example.com/cluster-info.yaml"}})
    place.token("ciphertext", store=SEALED)
    place.bad("settings-invalid", "discovery.file", section="Credentials and tokens")


@pytest.mark.parametrize(("mode", "folder_mode", "is_exposed"), [(0o644, 0o755, True), (0o644, 0o700, False), (0o640, 0o755, False)])
def test_token_that_others_can_read(place, mode, folder_mode, is_exposed):
    place.settings()
    place.token(mode=mode, folder_mode=folder_mode)
    if is_exposed:
        place.bad("token-exposed", "0644", section="Credentials and tokens")
    else:
        place.good()


def test_unreadable_credential_store(place):
    """Root without capabilities cannot read a folder of mode 0."""
    place.settings()
    (place.path / ETC_STORE).mkdir()
    (place.path / ETC_STORE).chmod(0)
    try:
        done = place.check(before=("setpriv", "--bounding-set=-all", "--inh-caps=-all"))
    finally:
        (place.path / ETC_STORE).chmod(0o700)
    found = sections(done.stdout)
    assert done.returncode == 0 and found["Credentials and tokens"][0] == "! cannot read /etc/credstore: run as root"
    assert found["Join"][-1] == "! cannot determine whether a join can start: run as root"


def test_pin_does_not_match_discovery_file(place):
    ca = pki.CA()
    place.put("etc/cluster-info.yaml", apiserver.kubeconfig("https://10.0.0.10:6443", ca.pem), 0o644)
    place.token()
    place.settings({"discovery": {"file": "/etc/cluster-info.yaml", "caCertHashes": [ca.pin]}})
    assert "- cluster: a kubeconfig on this machine" in place.good()["Join"]
    place.settings({"discovery": {"file": "/etc/cluster-info.yaml", "caCertHashes": [PIN]}})
    place.bad("ca-pin-mismatch")


@pytest.mark.parametrize("is_token", [True, False])
def test_credential_is_a_link(place, is_token):
    """systemd follows the link, which configuration managers and /run/secrets need."""
    place.put("run/secrets/it", TOKEN if is_token else HEADER + to_yaml(BASIS))
    if is_token:
        place.settings()
    else:
        place.token(store=RUN_STORE)
    store = place.path / RUN_STORE
    store.mkdir(parents=True, exist_ok=True)
    (store / f"node-bootstrap.{'token' if is_token else 'config'}").symlink_to("/run/secrets/it")
    rows = place.good()["Credentials and tokens"]
    assert f"✓ node-bootstrap.token: bootstrap token {MASKED} (/run/credstore)" in rows


def test_delivered_credential_is_a_link(place):
    """systemd delivers none, and `join` refuses one."""
    place.settings()
    place.token(store="run/secrets", mode=0o400)
    (place.path / "run/given").mkdir()
    (place.path / "run/given/node-bootstrap.token").symlink_to("/run/secrets/node-bootstrap.token")
    done = place.check(CREDENTIALS_DIRECTORY="/run/given")
    rows = sections(done.stdout)["Credentials and tokens"]
    assert done.returncode == 1 and rows[0].startswith("! node-bootstrap.token: cannot be read in /run/given: ") and MASKED not in done.stdout


def test_credential_is_a_dangling_link(place):
    """It is none; what systemd makes of it, the rehearsal shows."""
    place.settings()
    place.token(store=RUN_STORE)
    (place.path / ETC_STORE).mkdir()
    (place.path / ETC_STORE / "node-bootstrap.token").symlink_to("/run/secrets/none")
    assert place.good()["Credentials and tokens"][:1] == [f"✓ node-bootstrap.token: bootstrap token {MASKED} (/run/credstore)"]


def test_credential_is_a_folder(place):
    place.settings()
    (place.path / ETC_STORE / "node-bootstrap.token").mkdir(parents=True)
    place.bad("token-malformed", "is not a regular file", section="Credentials and tokens")


def test_control_characters_in_a_file_name(place):
    place.settings(name=CONFIG + ".d/\033[2Jx.yaml")
    place.token()
    done = place.check()
    assert done.returncode == 0 and "\033" not in done.stdout and "[2Jx.yaml" in done.stdout


def test_missing_config_directory(place):
    done = subprocess.run(place.argv("--config-directory=/etc/no-such-folder"), env=place.environment(), check=False, text=True, capture_output=True)
    assert done.returncode == 64 and done.stdout == ""
    assert "usage: '--config-directory=/etc/no-such-folder': No such file or directory; see" in done.stderr


# Metadata.

def test_no_cloud(place):
    place.settings()
    place.dmi(sys_vendor="QEMU", product_name="Standard PC")
    found = place.bad("token-missing")
    assert found["Metadata"] == ["- no cloud is recognised: sys_vendor is 'QEMU', product_name 'Standard PC'", "- not queried"]


def test_metadata_not_queried_with_a_token_credential(place):
    place.settings()
    place.token()
    place.dmi(sys_vendor="Amazon EC2")
    assert place.good()["Metadata"] == ["- recognised: Amazon EC2 (sys_vendor is 'Amazon EC2')",
                                        "- not queried: the identity is from credential 'node-bootstrap.token'"]


def test_metadata_not_queried_with_provider_none(place):
    place.settings({**BASIS, "metadata": {"provider": "none"}})
    place.dmi(sys_vendor="Amazon EC2")
    assert place.bad("token-missing")["Metadata"][-1] == "- not queried: metadata.provider is none (/etc/node-bootstrap/config.yaml)"


def test_metadata_not_queried_with_an_encrypted_token(place):
    place.settings()
    place.token("ciphertext", store=SEALED)
    place.dmi(sys_vendor="Amazon EC2")
    done = place.check()
    assert done.returncode == 0 and sections(done.stdout)["Metadata"][-1] == "- not queried"


def test_values_from_metadata(place):
    """Token and settings of a NoCloud volume; the machine's own take precedence."""
    place.settings({"node": {"name": "local"}, "timeout": "5m"})
    place.platform(HEADER + to_yaml({**BASIS, "node": {"name": "cloud", "allowExisting": True}, "bootstrap": {"token": TOKEN}}), volume="cidata")
    found = place.good()
    source = next(row.split(": ")[0][2:] for row in found["Metadata"] if "a NodeBootstrap document" in row)
    assert "NoCloud" in source
    assert found["Metadata"][:2] == ["- recognised: NoCloud (a volume has the label 'cidata')", "- querying NoCloud"]
    assert f"✓ token: {MASKED} ({source})" in found["Metadata"]
    assert not [row for row in found["Metadata"] if "bootstrap.token" in row], "told of once, and it does count"
    for row in (f'- discovery.endpoints: ["10.0.0.1:6443"] ({source})', f"- node.allowExisting: true ({source})",
                f'- node.name: "cloud" ({source}); overridden by /etc/node-bootstrap/config.yaml'):
        assert row in found["Metadata"], row
    assert "- node name: local (/etc/node-bootstrap/config.yaml)" in found["Join"] and f"- identity: {source}" in found["Join"]


def test_metadata_cannot_weaken_settings(place):
    place.settings()
    place.platform(HEADER + to_yaml({"discovery": {"trustWholeBundle": True}, "bootstrap": {"token": TOKEN}}), volume="cidata")
    assert "- discovery.trustWholeBundle: true (the user data of NoCloud); overridden by this machine's cluster settings" \
        in place.good()["Metadata"]


def test_two_tokens_in_metadata(place):
    place.settings()
    place.platform("apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\n" +
                   to_yaml({"discovery": {"bootstrapToken": {"token": TOKEN}, "tlsBootstrapToken": OTHER}}), volume="cidata")
    rows = place.good()["Metadata"]
    assert f"✓ token for discovery: {MASKED}" in rows and any(row.startswith("✓ token for the request: ghijkl.**************** (") for row in rows)


def test_user_data_of_another_tool(place):
    place.settings()
    place.platform("#!/bin/sh\necho hello\n", volume="cidata")
    found = place.bad("token-missing")
    assert "has nothing for node-bootstrap" in found["Metadata"][-1] and "script" in found["Metadata"][-1]


def test_invalid_user_data(place):
    place.settings()
    place.platform(f"#cloud-config\nnode_bootstrap:\n  bootstrap: {{token: {TOKEN}, unknown: 1}}\n", volume="cidata")
    found = place.bad("settings-invalid", "unknown", section="Metadata")
    assert found["Join"] == ["– skipped: see above"]


def test_unreadable_platform_data(place):
    place.settings()
    place.platform(volume="cidata")
    (place.path / PLATFORM / "platform.json").chmod(0)
    done = place.check(before=("setpriv", "--bounding-set=-all", "--inh-caps=-all"))
    found = sections(done.stdout)
    assert done.returncode == 0 and "! cannot read /run/node-bootstrap-platform/platform.json: run as root" in found["Metadata"]
    assert found["Join"][-1].startswith("! cannot determine whether a join can start: it depends on data that only the service can read")


@pytest.mark.parametrize("provider", ["nocloud", "vmware", "auto"])
def test_platform_data_not_read_yet(place, provider):
    """A drop-in has replaced the conditions of the unit."""
    place.settings({**BASIS, "metadata": {"provider": provider}})
    place.platform_unit("/nowhere", "/etc/node-bootstrap")
    done = place.check()
    found = sections(done.stdout)
    assert done.returncode == 0 and "✗" not in done.stdout, done.stdout
    assert found["Metadata"][-2:] == ["! node-bootstrap-platform.service has not read this machine's data yet: run `systemctl start "
                                      "node-bootstrap-platform.service`, then check again", "- not queried"]
    assert found["Join"][-1].startswith("! cannot determine whether a join can start: it depends on data that only the service can read")


def test_platform_without_data(place):
    """The unit would start nothing, so starting it is no remedy."""
    place.settings({**BASIS, "metadata": {"provider": "auto"}})
    place.dmi(sys_vendor="VMware, Inc.")
    place.platform_unit("/nowhere")
    assert not [row for row in place.bad("token-missing")["Metadata"] if row.startswith("!")]


def test_platform_excuses_nothing_with_provider_none(place):
    place.settings({**BASIS, "metadata": {"provider": "none"}})
    place.platform_unit("/etc/node-bootstrap")
    assert not [row for row in place.bad("token-missing")["Metadata"] if row.startswith("!")]


def test_metadata_service_does_not_answer(place):
    """In a network without a route to it."""
    place.settings({**BASIS, "timeout": "1s", "metadata": {"provider": "hetzner"}})
    done = subprocess.run(place.argv(), env=place.environment(), check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    found = sections(done.stdout)
    assert done.returncode == 1
    assert "- querying Hetzner Cloud" in found["Metadata"]
    [row] = [row for row in found["Metadata"] if row.startswith("✗ metadata-unreachable: ")]
    assert row.endswith("; gave up after 1 s (timeout)")


def test_limit_of_check_on_metadata(place):
    """The failure says that it is not a setting."""
    place.settings({**BASIS, "metadata": {"provider": "hetzner"}})
    environment = place.environment(**fake_clock("+0 x10"))
    done = subprocess.run(place.argv(), env=environment, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    [row] = [row for row in sections(done.stdout)["Metadata"] if row.startswith("✗ metadata-unreachable: ")]
    assert row.endswith("; gave up after 15 s (the limit of check, not the setting timeout)")


# Around the program: a name server that hears, and is silent. It ends with 1 where the program asked a second time before it ended, else as the program did.
SILENT = """
import os, select, signal, socket, subprocess, sys
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 53))
with subprocess.Popen(sys.argv[2:]) as program:
    ended, seen = os.pidfd_open(program.pid), set()
    while program.poll() is None:
        if server in select.select([server, ended], [], [])[0]:
            question = server.recv(512)
            if question in seen:
                program.kill()
                sys.exit("was asked again")
            if not seen and sys.argv[1] == "stop":
                program.send_signal(signal.SIGINT)
            seen.add(question)
assert seen
sys.exit(program.returncode)
"""


def with_silent_name_server(place, what, *arguments, **environment):
    """glibc asks again after 30 seconds."""
    place.put("etc/resolv.conf", "nameserver 127.0.0.1\noptions timeout:30 attempts:2\n", 0o644)
    place.settings({"discovery": {**BASIS["discovery"], "endpoints": ["a.example.com:6443"]}, "metadata": {"provider": "none"}})
    place.token()
    argv = [word for word in place.argv(*arguments, before=(sys.executable, "-c", SILENT, what)) if word != "--local"]
    return subprocess.run(argv, env=place.environment(**environment), check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_signal_while_name_server_is_silent(place):
    """The resolver of the C library does not return on a signal."""
    done = with_silent_name_server(place, "stop")
    assert (done.returncode, done.stderr) == (143, "")


def test_silent_name_server(place):
    done = with_silent_name_server(place, "wait", **fake_clock("+0 x2"))
    assert (done.returncode, done.stderr) == (1, "")
    assert sections(done.stdout)["Cluster"][0].startswith("✗ endpoint-unresolved: ")


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


def test_colour_only_on_terminals(place):
    place.settings()
    place.token()
    assert "\033[32m✓\033[0m a join can start" in on_terminal(place, TERM="linux")
    for environment in ({"TERM": "dumb"}, {"TERM": "linux", "NO_COLOR": "1"}):
        assert "\033" not in on_terminal(place, **environment)
    assert "\033" not in place.check(TERM="linux").stdout


def test_usage():
    done = subprocess.run([find_program("node-bootstrap"), "check", "twice"], check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.returncode == 64 and "unexpected: argument 2 (5 characters)" in done.stderr and done.stdout == ""


def test_missing_folder(place):
    """The service cannot create it: it may write only in folders that exist when it starts."""
    place.settings()
    place.token()
    assert "  ✗ directory-missing: '/etc/kubernetes' does not exist (needed for the kubeconfig)" in place.check("--local=false").stdout
    (place.path / "etc/kubernetes").mkdir()
    output = place.check("--local=false").stdout
    assert "  ✓ kubeconfig: '/etc/kubernetes' can be written" in output and "  ✓ CA: '/etc/kubernetes/pki' can be created" in output


@pytest.mark.parametrize("options, is_good", [("size=1020k", False), ("size=2m", True), ("nr_inodes=20", False), ("nr_inodes=80", True)])
@pytest.mark.parametrize("what", ["kubeconfig", "state"])
def test_full_file_system(place, what, options, is_good):
    place.settings()
    place.token()
    (place.path / "etc/kubernetes").mkdir()
    folder = "/etc/kubernetes" if what == "kubeconfig" else "/mnt"
    mounted = place.check("--local=false", before=("sh", "-ec", f'mount --no-mtab -t tmpfs -o {options} none {folder}; exec "$@"', "-"), STATE_DIRECTORY="/mnt").stdout
    assert (f"  ✓ {what}: '{folder}' can be written" in mounted) == is_good
    assert (f"  ✗ disk-full: {what}, '{folder}': '{folder}': No space left on device" in mounted) != is_good


def test_folder_whose_name_begins_alike(place):
    place.settings({**BASIS, "kubelet": {"kubeconfig": "/etc/kubernetes2/kubelet.conf"}})
    place.token()
    (place.path / "etc/kubernetes").mkdir()
    assert "  ✓ kubeconfig: '/etc/kubernetes2' can be created" in place.check("--local=false").stdout


@pytest.mark.parametrize("environment", [{"LC_ALL": "C"}, {"TERM": "dumb"}, {"LANG": "POSIX"}])
def test_marks_are_ascii_where_nothing_else_can_be_shown(place, environment):
    place.settings()
    place.token()
    done = place.check(**environment)
    assert done.returncode == 0 and done.stdout.isascii() and done.stdout.endswith("  + a join can start\n\nNo check failed\n")
    (place.path / CONFIG).unlink()
    said = place.check(**environment).stdout
    assert said.isascii() and "  x settings-incomplete: " in said
    assert said.splitlines()[-1].startswith("First failure: settings-incomplete: discovery.endpoints: "), "the verdict is last"
