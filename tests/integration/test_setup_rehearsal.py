# SPDX-License-Identifier: Apache-2.0
"""setup --json: what --dry-run predicts is what then happens, in each state of a machine, and --dry-run changes nothing."""

import json
import re
import subprocess

import pytest

from common.failures import FAILURES, meet
from common.machine import SECRET, TOKEN, find_program
from .joined_machine import JoinedMachine
from .manager import Manager

UNIT = "node-bootstrap.service"
OTHER = "ghijkl.fedcba9876543210"
PIN, PIN_2 = "sha256:" + "ab" * 32, "sha256:" + "cd" * 32
DOCUMENT, CREDENTIAL = "/etc/node-bootstrap/config.yaml.d/50-setup.yaml", "/etc/credstore/node-bootstrap.token"
GOOD = f"10.0.0.1:6443 --token-file=@TOKEN@ --ca-cert-hash={PIN} --wait=certificate"
INSIDE = r"""
folder=$0 program=$1
shift
hostname node-1
for path in /etc /run /var/lib; do mount -t tmpfs none "$path"; done
mkdir -p /etc/node-bootstrap/config.yaml.d /etc/systemd/system /etc/kubernetes /var/lib/kubelet /run/systemd
printf '[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n' >/etc/systemd/system/node-bootstrap.service
if [ -e "$folder/joined" ]; then cp -a "$folder/joined/root/etc/." /etc; cp -a "$folder/joined/root/var/lib/." /var/lib; fi
earlier() { "$program" setup --no-start --token-file="$folder/token" "$@" >&2; }
@PREPARE@
if [ -e "$folder/systemd" ]; then mount --bind "$folder/systemd" /run/systemd; fi
look() { find /etc /run /var/lib ! -path '/run/systemd*' -printf '%p %y %m %U %T@ %s %l\n' | sort; }
look >"$folder/before"
"$program" setup --json --dry-run "$@" >"$folder/predicted" || echo $? >"$folder/status"
look | cmp "$folder/before" - >&2
"$program" setup --json "$@" >"$folder/happened" || echo $? >>"$folder/status"
"""


def earlier(words=f"10.0.0.1:6443 --ca-cert-hash={PIN}"):
    return f"earlier {words}"


def site(text):
    return f"printf 'apiVersion: node-bootstrap/v1\\nkind: NodeBootstrap\\n{text}\\n' >/etc/node-bootstrap/config.yaml.d/60-site.yaml"


WROTE = [f"write {DOCUMENT}", f"write {CREDENTIAL}"]
ENABLED, STARTED = f"enable {UNIT}", f"start {UNIT}"
RENEW = f"echo {OTHER} >$folder/token"
SEALED = "/etc/credstore.encrypted/node-bootstrap.token"
SEAL = f"mkdir /etc/credstore.encrypted; echo ciphertext >{SEALED}; echo x >{SEALED}-x"
JOINED = GOOD.replace(PIN, "@PIN@")

# What systemd cannot read in the place of the token (243/CREDENTIALS). With systemd 252, a dangling link is no credential.
DAMAGED = {"a directory": f"mkdir {CREDENTIAL}", "a link loop": f"ln -s {CREDENTIAL} {CREDENTIAL}", "a FIFO": f"mkfifo {CREDENTIAL}",
           "a file of 2 MiB": f"truncate -s 2M {CREDENTIAL}"}
DANGLING, FILLED = f"ln -s absent {CREDENTIAL}", f"mkdir -p {CREDENTIAL}/x"

# name, state of the service, what happens before, words, changes or the code of the refusal
STATES = [
    ("a fresh machine", "inactive", "", GOOD, [*WROTE, ENABLED, STARTED]),
    ("an encrypted token", "inactive", SEAL, GOOD, [f"remove {SEALED}", *WROTE, ENABLED, STARTED]),
    ("a service that is waiting, without its encrypted token", "activating enabled", f"{earlier()}; rm {CREDENTIAL}; {SEAL}", GOOD,
     [f"write {CREDENTIAL}", f"remove {SEALED}", f"restart {UNIT}"]),
    ("a token that cannot be decrypted", "243 enabled", f"{earlier()}; rm {CREDENTIAL}; {SEAL}", GOOD, [f"write {CREDENTIAL}", f"remove {SEALED}", STARTED]),
    *((f"{name} instead of the token", "243 enabled", f"{earlier()}; rm {CREDENTIAL}; {damage}", GOOD, [f"write {CREDENTIAL}", STARTED])
      for name, damage in {**DAMAGED, "a dangling link": DANGLING}.items()),
    ("a directory with files instead of the token", "243 enabled", f"{earlier()}; rm {CREDENTIAL}; {FILLED}", GOOD, "setup-unwritable"),
    ("a directory instead of the token, with another setting", "243 enabled", f"{earlier()}; rm {CREDENTIAL}; {DAMAGED['a directory']}", f"{GOOD} --force --node-name=x",
     [f"remove {CREDENTIAL}", *WROTE, STARTED]),
    ("a directory instead of the token, and no new one", "243 enabled", f"{earlier()}; rm {CREDENTIAL}; {DAMAGED['a directory']}", f"10.0.0.1:6443 --ca-cert-hash={PIN}",
     "settings-unreadable"),
    ("a drop-in for encrypted tokens", "inactive decrypts", "", GOOD, "usage"),
    ("a fresh machine that is not to start", "inactive", "", f"{GOOD} --no-start", [*WROTE, ENABLED]),
    ("a fresh machine that is not watched", "inactive", "", GOOD.replace("=joined", "=none"), [*WROTE, ENABLED, STARTED]),
    ("configured the same, and stopped", "inactive enabled", earlier(), GOOD, [STARTED]),
    ("configured the same, and failed", "failed enabled", earlier(), GOOD, [STARTED]),
    ("configured the same, and waiting", "activating enabled", earlier(), GOOD, []),
    ("configured the same, and not to start", "inactive enabled", earlier(), f"{GOOD} --no-start", []),
    ("a changed setting", "activating enabled", earlier("10.0.0.9:6443 --ca-cert-hash=" + PIN), GOOD.replace("@TOKEN@", "@OTHER@"),
     [f"remove {CREDENTIAL}", *WROTE, f"restart {UNIT}"]),
    ("a changed setting of another file", "activating enabled", earlier() + "; " + site("node: {name: b}"), f"{GOOD} --node-name=a", "usage"),
    ("a changed setting without a token", "activating enabled", earlier("10.0.0.9:6443 --ca-cert-hash=" + PIN), f"10.0.0.1:6443 --ca-cert-hash={PIN}", "setup-conflict"),
    ("the same with force", "activating enabled", earlier("10.0.0.9:6443 --ca-cert-hash=" + PIN), f"10.0.0.1:6443 --ca-cert-hash={PIN} --wait=certificate --force",
     [f"write {DOCUMENT}", f"restart {UNIT}"]),
    ("a new token for a machine that waits", "activating enabled", f"{earlier()}; {RENEW}", GOOD, [f"write {CREDENTIAL}", f"restart {UNIT}"]),
    ("a credential of another method", "activating enabled", f"{earlier()}; mv {CREDENTIAL} {CREDENTIAL.replace('token', 'tls-bootstrap-token')}", f"{GOOD} --force",
     [f"write {CREDENTIAL}", f"remove {CREDENTIAL.replace('token', 'tls-bootstrap-token')}", f"restart {UNIT}"]),
    ("a joined machine", "active enabled joined", "", JOINED, []),
    ("a joined machine that was set up", "active enabled joined", earlier("10.0.0.1:6443 --ca-cert-hash=@PIN@ --force"), JOINED, []),
    ("a joined machine with a new token", "active enabled joined", earlier("10.0.0.1:6443 --ca-cert-hash=@PIN@ --force") + f"; {RENEW}", JOINED, []),
    ("a joined machine, a token that cannot be decrypted", "243 enabled joined", SEAL, JOINED, [f"remove {SEALED}", STARTED]),
    *((f"a joined machine, {name} instead of the token", "243 enabled joined", f"mkdir /etc/credstore; {damage}", JOINED, [f"remove {CREDENTIAL}", STARTED])
      for name, damage in DAMAGED.items()),
    ("a joined machine, a directory with files instead of the token", "243 enabled joined", f"mkdir /etc/credstore; {FILLED}", JOINED, "setup-unwritable"),
    ("a joined machine, an encrypted token", "active enabled joined", SEAL, JOINED, []),
    ("a joined machine, disabled and stopped", "inactive joined", "", JOINED, [ENABLED, STARTED]),
    ("a joined machine without its kubeconfig", "active enabled joined", "rm /etc/kubernetes/kubelet.conf", JOINED, [f"reload {UNIT}"]),
    ("a joined machine, forced", "active enabled joined", "", f"{JOINED} --force", WROTE),
    ("a joined machine with another name", "active enabled joined", earlier("10.0.0.1:6443 --ca-cert-hash=@PIN@ --force"), f"{JOINED} --node-name=other", "setup-conflict"),
    ("a joined machine, another cluster", "active enabled joined", "", GOOD, "setup-other-cluster"),
    ("no pin", "inactive", "", "10.0.0.1:6443 --token-file=@TOKEN@", "usage"),
    ("a malformed name", "inactive", "", f"{GOOD} --node-name=a_b", "usage"),
    ("a word that is misspelt", "inactive", "", f"{GOOD} --frobnicate", "usage"),
    ("another folder of settings", "inactive", "", f"{GOOD} --config-directory=/etc/x", "usage"),
    ("a token in the boot's credentials", "inactive", "mkdir -p /run/credentials/@system; echo x >/run/credentials/@system/node-bootstrap.token", GOOD, "usage"),
    ("a token that others can read", "inactive", "chmod 0644 $folder/token", GOOD, "token-exposed"),
    ("no file with the token", "inactive", "rm $folder/token", GOOD, "settings-unreadable"),
    ("damaged settings", "inactive", site("nodes: 1"), GOOD, "settings-invalid"),
    ("a host without a name", "inactive", "hostname localhost", f"{GOOD} --node-name=localhost", "node-name-localhost"),
    ("a masked service", "inactive masked", "", GOOD, "unit-masked"),
    ("no service", "inactive not-found", "", GOOD, "unit-missing"),
    ("no systemd", "gone", "", GOOD, "setup-without-systemd"),
    ("a folder that is read-only", "inactive", "mount -t tmpfs -o ro none /etc/node-bootstrap/config.yaml.d", GOOD, "setup-unwritable"),
    ("a file in the place of the store", "inactive", "touch /etc/credstore", GOOD, "settings-unreadable"),
]


class Service:
    """In the state of the row, until its job makes it active."""

    def __init__(self, words):
        self.words, self.manager = words, None

    def __call__(self):
        active = self.words[0]
        if any(method in ("StartUnit", "RestartUnit", "ReloadUnit") for method, _ in self.manager.calls):
            active = "active"
        failed = {"Result": "exit-code", "ExecMainCode": 1, "ExecMainStatus": 243} if active == "243" else {}
        decrypts = {"LoadCredentialEncrypted": [("node-bootstrap.token", "node-bootstrap.token")]} if "decrypts" in self.words else {}
        [load] = {"masked", "not-found"} & set(self.words) or ["loaded"]
        return {"LoadState": load, "ActiveState": "failed" if failed else active, "SubState": "dead", **failed, **decrypts,
                "UnitFileState": "enabled" if "enabled" in self.words else "disabled", "Job": (0, "/")}


def run(tmp_path, row):
    _, state, prepare, words, _ = row
    pin = PIN_2
    for name, text in (("token", TOKEN), ("other", OTHER)):
        (tmp_path / name).touch(0o600)
        (tmp_path / name).write_text(f"{text}\n")
    if "joined" in state:
        (tmp_path / "joined").mkdir()
        pin = JoinedMachine(tmp_path / "joined").pin
    service = Service(state.split())
    manager = service.manager = Manager(tmp_path / "systemd", {UNIT: service}) if state != "gone" else None
    replaced = {"@PIN@": pin, "@TOKEN@": str(tmp_path / "token"), "@OTHER@": str(tmp_path / "other")}
    for key, value in replaced.items():
        words, prepare = words.replace(key, value), prepare.replace(key, value)
    done = subprocess.run(["/usr/bin/unshare", "--user", "--map-root-user", "--mount", "--uts", "sh", "-ec", INSIDE.replace("@PREPARE@", prepare), tmp_path,
                           find_program("node-bootstrap"), *words.split()],
                          capture_output=True, text=True, check=False, env={"PATH": "/usr/sbin:/usr/bin"})
    if manager:
        manager.close()
    assert done.returncode == 0, done.stderr
    said = [meet((tmp_path / name).read_text()) for name in ("predicted", "happened")]
    for secret in (SECRET, OTHER.split(".")[1]):
        assert secret not in done.stderr + "".join(said), "a secret was printed"
    status = tmp_path / "status"
    return [json.loads(text) for text in said], status.read_text().split() if status.exists() else [], manager, done.stderr


@pytest.mark.parametrize("row", STATES, ids=[row[0] for row in STATES])
def test_rehearsal_is_what_happens(tmp_path, row):
    (predicted, happened), statuses, manager, said = run(tmp_path, row)
    expected = row[-1]
    is_refused = isinstance(expected, str)
    assert (predicted.pop("dryRun"), happened.pop("dryRun")) == (True, False)
    if not is_refused:                      # The state is that at the end.
        del predicted["state"], happened["state"]
    for found in predicted, happened:       # --dry-run is an argument
        if found.get("failure"):
            found["failure"]["detail"] = re.sub(r"argument \d+", "argument", found["failure"]["detail"])
    assert predicted == happened, said
    if is_refused:
        row = FAILURES[expected]
        assert (happened["changed"], happened["changes"]) == (False, [])
        assert happened["failure"]["code"] == expected and happened["failure"]["detail"]
        assert happened["exitStatus"] == int(row["exit"]) and statuses == [row["exit"]] * 2
        assert happened["failure"]["remedy"] if expected != "usage" else happened["failure"]["remedy"] is None
        assert said.count(f"node-bootstrap: {expected}: ") == 2, "and on standard error"
        assert not manager or manager.calls == []
    else:
        assert happened["failure"] is None and happened["exitStatus"] == 0 and statuses == [], said
        assert [" ".join(change.values()) for change in happened["changes"]] == expected
        assert happened["changed"] is bool(expected)
        assert [method for method, _ in manager.calls].count("EnableUnitFiles") == 1, "--dry-run asked systemd for something"


def test_differences(tmp_path):
    [_, happened], *_ = run(tmp_path, next(row for row in STATES if row[0] == "a changed setting"))
    assert happened["differences"] == [
        {"what": "credential node-bootstrap.token", "before": "token abcdef", "after": "token ghijkl"},
        {"what": "discovery.endpoints", "before": '["10.0.0.9:6443"]', "after": '["10.0.0.1:6443"]'},
    ]


def test_failure_after_some_changes(tmp_path):
    """The list ends where setup ended; what is not UTF-8 is replaced."""
    tmp_path = tmp_path / "a\udcff"
    tmp_path.mkdir()
    (tmp_path / "token").touch(0o600)
    (tmp_path / "token").write_text(TOKEN)
    argv = [find_program("node-bootstrap"), "setup", "--json", f"--root={tmp_path}", *GOOD.replace("@TOKEN@", str(tmp_path / "token")).split()]
    (tmp_path / "etc/credstore/.node-bootstrap.token.tmp").mkdir(parents=True)
    done = subprocess.run(argv, capture_output=True, check=False)
    result = json.loads(done.stdout)
    assert done.returncode == result["exitStatus"] == int(FAILURES["setup-unwritable"]["exit"]) and result["failure"]["code"] == "setup-unwritable"
    assert result["changed"] and result["changes"] == [{"action": "write", "path": str(tmp_path).replace("\udcff", "?") + DOCUMENT}] and result["state"] is None


@pytest.mark.parametrize("is_pasted", [True, False], ids=["pasted", "one argument"])
def test_root_in_the_line(tmp_path, is_pasted):
    """The line, which may contain a token, is not wiped before --root has been read for the result."""
    line = f"kubeadm join 10.0.0.1 --token {TOKEN} --discovery-token-ca-cert-hash {PIN} --root={tmp_path}"
    argv = [find_program("node-bootstrap"), "setup", "--json", "-" if is_pasted else line]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, input=line if is_pasted else "")
    assert done.returncode == 0, done.stderr
    assert {"action": "write", "path": f"{tmp_path}{DOCUMENT}"} in json.loads(done.stdout)["changes"]


def test_link_in_an_image(tmp_path):
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/credstore").symlink_to(tmp_path / "outside")
    results = []
    for option in ("--dry-run", "--no-start"):
        argv = [find_program("node-bootstrap"), "setup", "--json", f"--root={tmp_path}", option, "-"]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, input=f"kubeadm join 10.0.0.1 --token {TOKEN} --discovery-token-ca-cert-hash {PIN}")
        results.append((done.returncode, json.loads(done.stdout)["failure"]))
        assert [path.name for path in tmp_path.iterdir()] == ["etc"] and SECRET not in done.stdout + done.stderr
    assert results[0] == results[1] and results[0][1]["code"] == "setup-unwritable"


def test_not_root():
    results = []
    for option in ("--dry-run", "--no-start"):
        argv = [find_program("node-bootstrap"), "setup", "--json", option, "-"]
        done = subprocess.run(["unshare", "--user", *argv], capture_output=True, text=True, check=False, input=f"kubeadm join 10.0.0.1 --token {TOKEN}")
        results.append((done.returncode, json.loads(done.stdout)["failure"]["code"]))
    assert results == [(int(FAILURES["setup-not-root"]["exit"]), "setup-not-root")] * 2
