# SPDX-License-Identifier: Apache-2.0
"""What setup and reset ask systemd for; systemd is a part of the tests, or does not run."""

import os
import re
import socket
import subprocess
import time

import pytest

from common import pki
from common.disk import dead_automount, hung_file_system
from common.failures import FAILURES, meet
from common.machine import HEADER, TOKEN, Machine, exports, fake_clock, find_program
from .attackers import FAST
from .journal import last
from .manager import Manager

pytestmark = pytest.mark.each_release
UNIT, GATE, KUBELET = "node-bootstrap.service", "node-bootstrap-gate.service", "kubelet.service"
OTHER = "ghijkl.fedcba9876543210"
SETUP = ["setup", "10.0.0.1:6443", "--token", TOKEN, "--discovery-token-ca-cert-hash", "sha256:" + "ab" * 32]
INSIDE = f"""
mount -t tmpfs tmpfs /etc
mount -t tmpfs tmpfs /run
mkdir -p /etc/systemd/system /etc/kubernetes /run/systemd
printf '[Service]\\nExecStart=/bin/true\\n[Install]\\nRequiredBy={KUBELET}\\n' >/etc/systemd/system/{GATE}
printf '[Service]\\nExecStart=/bin/true\\n[Install]\\nWantedBy=multi-user.target\\nAlso={GATE}\\n' >/etc/systemd/system/{UNIT}
if [ -e "$0/systemd" ]; then mount --bind "$0/systemd" /run/systemd; fi
if [ -e "$0/joined" ]; then
    mount -t tmpfs tmpfs /var/lib
    cp -a "$0/joined/root/etc/." /etc
    cp -a "$0/joined/root/var/lib/." /var/lib
fi
"$@"
readlink /etc/systemd/system/multi-user.target.wants/{UNIT} || true
"""
# After an earlier setup with other values.
AGAIN = INSIDE.replace('"$@"\n', f"""
mount -t tmpfs tmpfs /var/lib
echo {OTHER} | "$1" setup 10.0.0.9:6443 --token-file=- --ca-cert-hash sha256:{64 * "0"} --node-name=a --no-start
@MORE@
"$@"
cat /etc/node-bootstrap/config.yaml.d/50-setup.yaml /etc/credstore/node-bootstrap.token
""")
AT_REST = {"SubState": "dead", "UnitFileState": "disabled", "Job": (0, "/")}
BEGIN = [("EnableUnitFiles", UNIT), ("Reload", ""), ("ResetFailedUnit", UNIT)]


@pytest.fixture
def manager(tmp_path):
    manager = Manager(tmp_path / "systemd")
    yield manager
    manager.close()


def run(path, *words, inside=INSIDE, **options):
    done = subprocess.run(["/usr/bin/unshare", "--user", "--map-root-user", "--mount", "sh", "-ec", inside, path, find_program("node-bootstrap"), *words],
                          capture_output=True, text=True, check=False, env={"PATH": "/usr/sbin:/usr/bin"}, **options)
    meet(done.stderr)
    return done


def test_service_is_enabled_without_systemd(tmp_path):
    """As in a chroot in which an image is built."""
    done = run(tmp_path, *SETUP, "--no-start")
    assert done.returncode == 0, done.stderr
    assert f"enabled  {UNIT}\n" in done.stdout and done.stdout.endswith(f"/etc/systemd/system/{UNIT}\n")


@pytest.mark.parametrize("options, started", [([], True), (["--no-start"], False)])
def test_dry_run(manager, tmp_path, options, started):
    manager.units[UNIT] = {**AT_REST, "ActiveState": "inactive"}
    done = run(tmp_path, *SETUP, "--dry-run", *options)
    assert done.returncode == 0 and manager.calls == [], done.stderr
    for line in ("would write    /etc/node-bootstrap/config.yaml.d/50-setup.yaml (mode 0644, owner 0)\n", f"would enable   {UNIT}\n"):
        assert line in done.stdout
    assert re.search(r"^would write    /etc/credstore/node-bootstrap\.token \(mode 0600, owner 0\)$", done.stdout, re.M)
    assert (f"would start    {UNIT}\n" in done.stdout) is started and ("--no-start" in done.stdout) is not started


# name, words, what is said
INCOMPLETE = [
    ("no token", [SETUP[1], *SETUP[-2:]], "run the same command again with --token-file=FILE, or paste the whole line that `kubeadm token create --print-join-command` prints to "
     "`node-bootstrap setup -`"),
    ("the first half of a line", [f"kubeadm join {SETUP[1]} --token {TOKEN} \\\n"], "the pasted line has no --discovery-token-ca-cert-hash; was all of it pasted?"),
    ("half of a token", [f"kubeadm join {' '.join(SETUP[1:])}".replace(TOKEN, TOKEN[:12])], "was all of the line pasted? Paste it again"),
]


@pytest.mark.parametrize("row", INCOMPLETE, ids=[row[0] for row in INCOMPLETE])
def test_incomplete_line(tmp_path, row):
    """A remedy for the service would not help: nothing is written."""
    _, words, expected = row
    done = run(tmp_path, "setup", *words, "--no-start")
    assert done.returncode == int(FAILURES["usage"]["exit"]) and "wrote" not in done.stdout
    assert f"; {expected}; see `node-bootstrap setup --help`\n" in done.stderr and "/etc/credstore" not in done.stderr


def site(text):
    return f"printf 'apiVersion: node-bootstrap/v1\\nkind: NodeBootstrap\\n{text}\\n' >/etc/node-bootstrap/config.yaml.d/60-site.yaml"


# name, what happens to a machine that has never joined, words, whether they replace those of the earlier setup
LINES = [
    ("the whole line", "", SETUP[1:], True),
    ("the whole line beside another file", site("timeout: 1h"), SETUP[1:], True),
    ("a line without a token", "", [SETUP[1], *SETUP[-2:]], False),
    ("a value of another file", f"rm /etc/node-bootstrap/config.yaml.d/*; {site('node: {name: b}')}; mv /etc/node-bootstrap/config.yaml.d/60-site.yaml /etc/node-bootstrap/config.yaml",
     [*SETUP[1:], "--node-name=c"], False),
    ("after a join", "mkdir -p /var/lib/kubelet/pki; touch /var/lib/kubelet/pki/node-bootstrap.json", SETUP[1:], False),
]


@pytest.mark.parametrize("row", LINES, ids=[row[0] for row in LINES])
def test_line_after_a_wrong_one(tmp_path, row):
    """A pin or an address that is wrong has done nothing yet."""
    _, more, words, is_replaced = row
    done = run(tmp_path, "setup", *words, "--no-start", inside=AGAIN.replace("@MORE@", more))
    if is_replaced:
        assert done.returncode == 0, done.stderr
        for line in ('discovery.endpoints: ["10.0.0.9:6443"] -> ["10.0.0.1:6443"]', "discovery.caCertHashes: [", 'node.name: "a" -> (not set)', "token ghijkl -> token abcdef"):
            assert line in done.stdout
        assert TOKEN in done.stdout and SETUP[-1] in done.stdout.split("wrote ")[-1]
    else:
        assert done.returncode == int(FAILURES["setup-conflict"]["exit"]) and "use --force to replace" in done.stderr, done.stderr


@pytest.mark.parametrize("was_enabled", [{UNIT, GATE}, {UNIT}, {GATE}])
def test_service_of_a_joined_machine(manager, tmp_path, was_enabled):
    """systemd makes the links, and a service that is active is not started."""
    (tmp_path / "joined").mkdir()
    joined = Machine(tmp_path / "joined")
    ca = pki.CA()
    joined.put_joined_before(ca.node(socket.gethostname()), "https://10.0.0.1:6443", ca=ca)
    words = [word if not word.startswith("sha256:") else ca.pin for word in SETUP]
    for unit, state in ((UNIT, "active"), (GATE, "inactive")):
        manager.units[unit] = {**AT_REST, "ActiveState": state, "UnitFileState": "enabled" if unit in was_enabled else "disabled"}
    done = run(tmp_path, *words)
    assert done.returncode == 0 and "this machine has joined; systemd does not answer" in done.stdout, done.stderr
    assert (f"enabled  {UNIT}\n" in done.stdout) is (was_enabled != {UNIT, GATE})
    assert manager.calls == BEGIN[:2]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a file system")
@pytest.mark.parametrize("mount", [hung_file_system, dead_automount])
def test_settings_on_a_file_server_that_is_dead(tmp_path, mount):
    """Nothing waits for it longer than 10 s, and --force does not write there."""
    inside = INSIDE.replace('"$@"\n', f'{exports(fake_clock(FAST))}\n"$@"\n')
    with mount(tmp_path / "hung") as folder:
        done = run(tmp_path, *SETUP, "--no-start", "--force", f"--config-directory={folder}", inside=inside, start_new_session=True)
    assert done.returncode == int(FAILURES["settings-unreadable"]["exit"]) and "within 10 s: the file system does not answer" in done.stderr, done.stderr
    assert "wrote" not in done.stdout


@pytest.mark.parametrize("masked", [UNIT, GATE])
def test_masked(manager, tmp_path, masked):
    manager.units.update(dict.fromkeys((UNIT, GATE), AT_REST) | {masked: {**AT_REST, "LoadState": "masked"}})
    done = run(tmp_path, *SETUP)
    assert f"unit-masked: {masked} is masked; nothing was written: once this is repaired, run the same command again" in done.stderr
    assert "wrote" not in done.stdout and manager.calls == []


def test_damaged_document_of_an_earlier_setup(tmp_path):
    """Only that one can be replaced."""
    damaged = [run(tmp_path, *SETUP, "--no-start", inside=INSIDE.replace('"$@"\n', f'mkdir -p /etc/node-bootstrap/config.yaml.d\necho "a: [" >/etc/node-bootstrap/{name}\n"$@"\n'))
               for name in ("config.yaml.d/50-setup.yaml", "config.yaml")]
    for done, is_replaceable in zip(damaged, (True, False)):
        assert done.returncode == int(FAILURES["settings-malformed"]["exit"]) and "wrote" not in done.stdout
        assert ("; use --force to replace '/etc/node-bootstrap/config.yaml.d/50-setup.yaml'" in done.stderr) is is_replaceable, done.stderr


def test_kubelet_that_has_only_just_started(manager, tmp_path):
    """The end of --wait-timeout is not silent."""
    (tmp_path / "joined").mkdir()
    ca = pki.CA()
    Machine(tmp_path / "joined").put_joined_before(ca.node(socket.gethostname()), "https://10.0.0.1:6443", ca=ca)
    manager.units[UNIT] = {**AT_REST, "ActiveState": "active", "StatusText": "Joined as a", "UnitFileState": "enabled"}
    manager.units[KUBELET] = lambda: {**AT_REST, "LoadState": "loaded", "ActiveState": "active", "SubState": "running",
                                      "ExecStart": [("/bin/true", ["/bin/true", "--container-runtime-endpoint=tcp:a"], False, *[0] * 7)],
                                      "ActiveEnterTimestampMonotonic": time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}
    done = run(tmp_path, *SETUP[:-1], ca.pin, "--wait-timeout=1s")
    assert done.returncode == int(FAILURES["kubelet-down"]["exit"]) and "; stopped watching before" in done.stderr and "kubelet is running" not in done.stdout


def test_service_that_fails_at_once(manager, tmp_path):
    manager.units[UNIT] = {**AT_REST, "ActiveState": "failed", "SubState": "failed", "ExecMainStatus": 77}
    done = run(tmp_path, *SETUP)
    assert done.returncode == 77 and f"setup-unfinished: {UNIT} is failed (failed, exit status 77)" in done.stderr
    assert manager.calls == [*BEGIN, ("StartUnit", f"{UNIT} replace")]


def test_what_the_service_tells(manager, tmp_path):
    """What it waits for, with the remedy, once; then why it failed. Not what an earlier run has reported."""
    folder, old, new = tmp_path / "last", "0a" * 16, "0b" * 16
    folder.mkdir()

    def tell(*words, invocation=new):
        (folder / "last.json").write_text(last(*words, invocation=invocation))

    tell("failed", "token-missing", invocation=old)
    steps = iter([("activating", ["joining"]), *[("activating", ["joining", "token-unknown"])] * 2, ("failed", ["failed", "ca-pin-mismatch"])])

    def look():
        if not any(method == "StartUnit" for method, _ in manager.calls):
            return {**AT_REST, "ActiveState": "failed", "InvocationID": [0x0a] * 16}
        state, words = next(steps, ("failed", ["failed", "ca-pin-mismatch"]))
        tell(*words)
        return {**AT_REST, "ActiveState": state, "Job": (1, "/job") if state == "activating" else (0, "/"), "InvocationID": [0x0b] * 16}

    manager.units[UNIT] = look
    done = run(tmp_path, *SETUP, inside=INSIDE.replace('"$@"\n', 'mkdir /run/node-bootstrap\nmount --bind "$0/last" /run/node-bootstrap\n"$@"\n', 1))
    assert done.returncode == int(FAILURES["ca-pin-mismatch"]["exit"]) and "ca-pin-mismatch: it is ca-pin-mismatch\n" in done.stderr, done.stderr
    assert done.stdout.count("  it is token-unknown\n    On a control plane node, ") == 1 and "token-missing" not in done.stdout + done.stderr


def test_reasons_that_alternate(manager, tmp_path):
    """As those of two endpoints: each is printed once, and no stage in between."""
    folder, codes = tmp_path / "last", (["token-unknown"] * 4 + ["endpoint-unreachable"] * 4) * 2
    folder.mkdir()
    starting = {**AT_REST, "ActiveState": "activating", "Job": (1, "/job"), "InvocationID": [0x0b] * 16}

    def look():
        if not any(method == "StartUnit" for method, _ in manager.calls):
            return {**AT_REST, "ActiveState": "inactive"}
        if not codes:
            return {**AT_REST, "ActiveState": "active", "StatusText": "Joined", "InvocationID": [0x0b] * 16}
        (folder / "last.json").write_text(last("joining", codes[-1], invocation="0b" * 16))
        return {**starting, "StatusText": f"Looking for the API server: {len(codes)}, {codes.pop()}"}

    manager.units[UNIT] = look
    done = run(tmp_path, *SETUP, "--wait=certificate", inside=INSIDE.replace('"$@"\n', 'mkdir /run/node-bootstrap\nmount --bind "$0/last" /run/node-bootstrap\n"$@"\n', 1))
    assert not codes and done.stdout.count("  it is token-unknown\n") == done.stdout.count("  it is endpoint-unreachable\n") == 1, done.stdout
    assert [line for line in done.stdout.splitlines() if line.startswith("*")] == ["* Joined"]


def test_service_that_systemd_cannot_start(manager, tmp_path):
    manager.units[UNIT] = [{**AT_REST, "ActiveState": "inactive"}, {**AT_REST, "ActiveState": "failed", "Result": "exit-code", "ExecMainCode": 1, "ExecMainStatus": 203}]
    done = run(tmp_path, *SETUP)
    assert done.returncode == int(FAILURES["service-setup"]["exit"]) and f"service-setup: systemd cannot start {UNIT} (203/EXEC)" in done.stderr, done.stderr


def test_service_that_another_setup_has_started_meanwhile(manager, tmp_path):
    """It may have started with the old token, or without one."""
    manager.units[UNIT] = [{**AT_REST, "ActiveState": "inactive"}] * 3 + [{**AT_REST, "ActiveState": "activating"}, {**AT_REST, "ActiveState": "failed", "ExecMainStatus": 77}]
    assert run(tmp_path, *SETUP).returncode == 77
    assert manager.calls == [*BEGIN, ("RestartUnit", f"{UNIT} replace")]


def test_status_of_the_previous_run_is_not_shown(manager, tmp_path):
    """systemd keeps it until the service starts again, which may have to wait for another unit."""
    old = {**AT_REST, "ActiveState": "inactive", "StatusText": "Joined long ago"}
    manager.units[UNIT] = [old, {**old, "Job": (1, "/job")}, {**AT_REST, "ActiveState": "active", "StatusText": "Joined now"}]
    done = run(tmp_path, *SETUP, "--wait=certificate")
    assert done.returncode == 0 and "* Joined now\n" in done.stdout and "long ago" not in done.stdout


def test_folders_cannot_be_created(manager, tmp_path):
    """Nothing is written, and nothing is started."""
    manager.units[UNIT] = AT_REST
    done = run(tmp_path, *SETUP, inside=INSIDE.replace("/etc/kubernetes", ""))
    assert done.returncode == int(FAILURES["directory-missing"]["exit"]) and "wrote" not in done.stdout and manager.calls == []
    assert "directory-missing: systemd-tmpfiles does not create '/etc/kubernetes': " in done.stderr


def test_systemd_refuses(manager, tmp_path):
    """Its message is shown."""
    done = run(tmp_path, *SETUP)
    assert done.returncode == int(FAILURES["setup-command-failed"]["exit"]) and manager.calls == []
    assert f"setup-command-failed: systemd: GetAll failed: Unit {UNIT} is unknown to the test." in done.stderr


def test_unit_that_is_active_again_after_it_was_stopped(manager, tmp_path):
    manager.units[KUBELET] = {**AT_REST, "ActiveState": "active"}
    done = run(tmp_path, "reset", "--stop-kubelet")
    assert done.returncode == int(FAILURES["setup-command-failed"]["exit"]) and f"{KUBELET} is active again" in done.stderr
    assert manager.calls == [("StopUnit", f"{KUBELET} replace")]


def test_reset_of_a_machine_whose_kubelet_is_queued(manager, tmp_path):
    """Once the service is stopped, an old certificate could let kubelet start."""
    (tmp_path / "config.yaml").write_text("")
    stopped = {**AT_REST, "ActiveState": "inactive"}
    manager.units[KUBELET] = [{**stopped, "Job": (1, "/job")}, stopped]
    manager.units[UNIT] = [{**stopped, "ActiveState": "activating"}, stopped]
    manager.units.update(dict.fromkeys(("node-joined.target", "node-bootstrap-refresh.service"), stopped))
    run(tmp_path, "reset", f"--config-directory={tmp_path}")
    assert manager.calls == [("StopUnit", f"{KUBELET} replace"), ("StopUnit", f"{UNIT} replace")]


@pytest.mark.parametrize("record, end", [("{}", "installed-malformed"), (None, "internal")])
def test_reset_stops_nothing_if_the_installer_would_fail(manager, tmp_path, record, end):
    """There is no installer in these tests: running it is the first thing that fails without a damaged record."""
    (tmp_path / "joined").mkdir()
    joined = Machine(tmp_path / "joined")
    for folder in ("etc", "var/lib"):
        joined.target(folder).mkdir(parents=True, exist_ok=True)
    if record:
        joined.put(joined.RECORD, record, 0o644)
    (tmp_path / "config.yaml").write_text(f"{HEADER}discovery: {{endpoint: [10.0.0.1:6443]}}\n")
    stopped = [{**AT_REST, "ActiveState": "inactive"}] * 9
    manager.units[KUBELET] = [{**AT_REST, "ActiveState": "active"}, *stopped]
    manager.units.update(dict.fromkeys((UNIT, "node-joined.target", "node-bootstrap-refresh.service"), stopped[0]))
    done = run(tmp_path, "reset", "--stop-kubelet", f"--config-directory={tmp_path}")
    assert done.returncode == int(FAILURES[end]["exit"]) and f"{end}: " in done.stderr
    assert manager.calls == ([] if record else [("StopUnit", f"{KUBELET} replace")])
    assert record or done.stdout == f"stopping {KUBELET}\nstopped  {KUBELET}\n"
