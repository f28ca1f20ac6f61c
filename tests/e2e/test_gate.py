# SPDX-License-Identifier: Apache-2.0
"""node-bootstrap-gate.service: whether node-bootstrap.service fails or not, kubelet is running on a machine that has joined, and on no other.

kubelet is a stand-in, and so is the join where a row says so; what a join leaves on disk is real.
"""

import contextlib
import ctypes
import json
import os
import time
from dataclasses import dataclass, field

import pytest

from common.wait import until
from .harness import hung, on_disk
from .harness.node import GATE, UNIT, UNIT_GROUP

pytestmark = pytest.mark.each_release
KUBELET, TARGET = "kubelet.service", "node-joined.target"
INSTALL = "/usr/lib/node-bootstrap/install"
STAND_IN = "[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n"
WORDS = "kubelet waits: this machine has not joined; see `node-bootstrap status`"
FAST = "TimeoutStopSec=1\nRestartSec=50ms\n"


def runs(command, *more):
    """A drop-in with another command."""
    return "\n".join(["[Service]", "ExecStart=", f"ExecStart={command}", *more]) + "\n"


def shell(text, *more):
    return runs(f"!/bin/sh -c '{text}'", *more)


WAITS = shell("until test -e /run/go; do sleep 0.05; done")
KILLED = shell("kill -KILL $$$$", FAST)


@dataclass
class Broken:
    """What is wrong with node-bootstrap.service: a drop-in, or commands before the start and after it."""

    drop_in: str = ""
    before: str = ""
    after: str = ""
    result: tuple = ()                      # Result, and the status of the main process
    is_limited: bool = False                # systemd starts it again, until the limit
    marks: list = field(default_factory=list)


both = pytest.mark.parametrize("is_joined", [True, False], ids=["joined", "not joined"])
nightly = [pytest.mark.nightly]
FILE = f"$(systemctl show --value --property=FragmentPath {UNIT})"
BROKEN = {
    "credential that cannot be loaded": Broken("[Service]\nLoadCredential=extra:/missing\n", result=("exit-code", "243")),
    "program is missing": Broken(runs("!/missing"), result=("exit-code", "203"), marks=nightly),
    "group is missing": Broken("[Service]\nSupplementaryGroups=missing\n", result=("exit-code", "216"), marks=nightly),
    "mount is missing": Broken("[Service]\nBindReadOnlyPaths=/missing\n", result=("exit-code", "226"), marks=nightly),
    "state directory is a file": Broken("[Service]\nStateDirectory=blocked\n", "touch /var/lib/private/blocked /var/lib/blocked", "rm /var/lib/private/blocked /var/lib/blocked",
                                        result=("exit-code", "238"), marks=nightly),
    "environment file is missing": Broken(f"[Service]\nEnvironmentFile=/missing\n{FAST}", result=("resources", "0"), is_limited=True),
    "deadline": Broken(shell("exit 75"), result=("exit-code", "75"), marks=nightly),
    "settings": Broken(shell("exit 78"), result=("exit-code", "78"), marks=nightly),
    "timeout": Broken(runs("!/bin/sleep infinity", FAST, "TimeoutStartSec=100ms"), result=("timeout", "15"), is_limited=True, marks=nightly),
    "killed each time": Broken(KILLED, result=("signal", "9"), is_limited=True),
    "masked": Broken(before=f"systemctl mask {UNIT}", after=f"systemctl unmask {UNIT}"),
    "missing": Broken(before=f"mv {FILE} /root/saved; systemctl daemon-reload", after="mv /root/saved $(dirname $(systemctl show --value --property=FragmentPath "
                      f"{GATE}))/{UNIT}", marks=nightly),
}


def rows(table):
    return [pytest.param(value, id=name, marks=getattr(value, "marks", [])) for name, value in table.items()]


def stand_in(node):
    """Replaces kubelet, and what its package adds to the unit."""
    for name in ("10-kubeadm.conf", "90-container.conf"):
        node.path(f"/usr/lib/systemd/system/{KUBELET}.d/{name}").unlink(missing_ok=True)
    node.write(f"/etc/systemd/system/{KUBELET}", STAND_IN)
    return node


@pytest.fixture(scope="module")
def machine(new_shared_node):
    node = stand_in(new_shared_node("gate"))
    # The stand-in needs no container runtime.
    node.configure(endpoints=["192.0.2.254:6443"], kubelet={"criSocket": "unix:///run/systemd/private"})
    node.enable(UNIT).boot("--unit=basic.target")
    return node


@pytest.fixture
def fresh(machine):
    """Enabled, with nothing on disk, and nothing started."""
    node = stand_in(machine)
    node.run("sh", "-c", f"rm -rf /etc/systemd/system/{UNIT}.d /etc/systemd/system/{GATE}.d /etc/systemd/system/{KUBELET}.d; systemctl unmask {UNIT} {GATE} {KUBELET}; "
             f"systemctl daemon-reload; systemctl stop {KUBELET} {UNIT} {TARGET}; systemctl --quiet enable {UNIT} {KUBELET}; systemctl reset-failed; rm -f /run/go /run/once")
    on_disk.remove(node)
    node.mark = count_words(node)
    return node


def count_words(node):
    return len(node.journal("_UID=0", f"OBJECT_SYSTEMD_UNIT={KUBELET}", f"_SYSTEMD_UNIT={GATE}"))


def has_words(node):
    """A new line for kubelet, which `systemctl status` shows."""
    said = count_words(node) > node.mark
    assert not said or WORDS in node.run("systemctl", "status", KUBELET, check=False).stdout
    return said


def has_job(node, unit):
    return node.show(unit, "Job") not in ("", "0")


def assert_kubelet(node, is_up):
    """Whether kubelet is running, and whether its status and node-joined.target agree."""
    assert (node.show(KUBELET, "ActiveState"), has_words(node), has_job(node, KUBELET)) == ("active" if is_up else "inactive", not is_up, False), node.jobs()
    until(lambda: node.is_active(TARGET) == is_up and not has_job(node, TARGET), f"{TARGET} follows")


def start_kubelet(node):
    """As at boot. systemctl returns when the job has ended."""
    return node.run("systemctl", "start", KUBELET, check=False).returncode


@both
@pytest.mark.parametrize("broken", rows(BROKEN))
def test_service_that_fails(fresh, broken, is_joined):
    node = fresh
    if is_joined:
        on_disk.put(node, node.name)
    if broken.before:
        node.run("sh", "-ec", broken.before)
    if broken.drop_in:
        node.drop_in(UNIT, broken.drop_in)
    try:
        assert (start_kubelet(node) == 0) is is_joined
        assert_kubelet(node, is_joined)
        if broken.result and not broken.is_limited:
            assert node.show(UNIT, "ActiveState", "Result", "ExecMainStatus") == ("failed", *broken.result)
        if broken.is_limited:
            assert node.show(UNIT, "ActiveState", "Result") == ("failed", broken.result[0]) and is_limited(node)
            until(lambda: "Start request repeated too quickly." in node.run("systemctl", "status", UNIT, check=False).stdout, "the journal has it")
            node.run("systemctl", "reset-failed", UNIT)
    finally:
        if broken.after:
            node.run("sh", "-ec", broken.after)
        node.path(f"/etc/systemd/system/{UNIT}.d/50-test.conf").unlink(missing_ok=True)
        node.run("systemctl", "daemon-reload")
    if not is_joined:       # a late repair starts kubelet as well
        on_disk.put(node, node.name)
        assert start_of_service(node) == 0
        until(lambda: node.is_active(KUBELET), "kubelet is running")


def is_limited(node):
    """Whether five starts were the limit. kubelet's own start of the service counts as well, while the service waits for its restart."""
    return 2 <= int(node.show(UNIT, "NRestarts")) <= 5


def start_of_service(node, verb="start"):
    return node.run("systemctl", verb, UNIT, check=False).returncode


@pytest.mark.nightly
def test_limit_of_slow_crashes(fresh):
    """Whatever is ordered after the service waits while systemd starts it again."""
    on_disk.put(fresh, fresh.name)
    fresh.drop_in(UNIT, shell("sleep 20; kill -KILL $$$$"))
    begin = time.monotonic()
    assert fresh.run("systemctl", "start", KUBELET, timeout=300).returncode == 0
    assert 50 < time.monotonic() - begin and fresh.show(UNIT, "ActiveState") == "failed" and is_limited(fresh)


def wait_in_the_queue(node):
    node.drop_in(UNIT, WAITS)
    node.run("systemctl", "start", "--no-block", KUBELET)
    until(lambda: node.show(UNIT, "ActiveState") == "activating" and has_job(node, KUBELET), "kubelet waits")


def let_go(node):
    node.run("touch", "/run/go")
    until(lambda: node.is_active(UNIT) and not has_job(node, UNIT), "the join is over")


@both
def test_service_is_stopped_while_it_waits(fresh, is_joined):
    """The gate decides."""
    if is_joined:
        on_disk.put(fresh, fresh.name)
    wait_in_the_queue(fresh)
    assert not fresh.is_active(KUBELET)
    fresh.run("systemctl", "stop", UNIT)
    until(lambda: not has_job(fresh, KUBELET), "the gate has decided")
    assert_kubelet(fresh, is_joined)


@both
def test_kubelet_is_stopped_while_the_service_waits(fresh, is_joined):
    """It stays stopped, until somebody starts it."""
    if is_joined:
        on_disk.put(fresh, fresh.name)
    wait_in_the_queue(fresh)
    fresh.run("systemctl", "stop", KUBELET)
    let_go(fresh)
    until(lambda: fresh.show(GATE, "ActiveState") == ("inactive" if is_joined else "failed") and not has_job(fresh, GATE), "the gate has decided")
    assert fresh.show(KUBELET, "ActiveState") == "inactive" and not has_job(fresh, KUBELET)
    assert (start_kubelet(fresh) == 0) is is_joined
    assert_kubelet(fresh, is_joined)


def test_stop_and_start(fresh):
    """A running kubelet is not affected. A start or restart of the service also starts a kubelet that is stopped or disabled, but not one that is masked."""
    node = fresh
    on_disk.put(node, node.name)
    assert start_kubelet(node) == 0
    pid = node.kubelet_pid()
    for command in (f"restart {UNIT}", f"stop {UNIT}", f"start {UNIT}", f"stop {GATE}", f"restart {GATE}", f"start {GATE}", f"disable {UNIT}", f"enable {UNIT}",
                    f"mask --now {UNIT}", f"unmask {UNIT}", f"start {UNIT}"):
        done = node.run("systemctl", *command.split(), check=False)
        assert (done.returncode == 0) is (command not in (f"stop {GATE}", f"restart {GATE}")), command
        assert node.kubelet_pid() == pid, command
    node.drop_in(UNIT, "[Service]\nLoadCredential=extra:/missing\n")
    assert start_of_service(node, "restart") != 0 and node.kubelet_pid() == pid and node.is_active(TARGET)
    node.drop_in(UNIT, "")
    for state, is_started, stopped in (("enable", True, [UNIT]), ("enable", True, []), ("disable", True, [UNIT]), ("mask", False, [UNIT])):
        node.run("systemctl", "reset-failed")
        node.run("systemctl", "stop", KUBELET, *stopped)
        if state == "mask":
            node.path(f"/etc/systemd/system/{KUBELET}").unlink()
        node.run("systemctl", "--quiet", state, KUBELET)
        assert start_of_service(node, "start" if stopped else "restart") == 0
        until(lambda: not has_job(node, KUBELET), "kubelet's job has ended")
        assert node.is_active(KUBELET) is is_started, state
    node.run("systemctl", "unmask", KUBELET)


def test_kubelet_that_crashes(fresh):
    """Each restart of kubelet starts the gate."""
    on_disk.put(fresh, fresh.name)
    fresh.drop_in(KUBELET, "[Unit]\nStartLimitIntervalSec=0\n[Service]\nExecStart=\nExecStart=/bin/false\nRestart=always\nRestartSec=300ms\n")
    start_kubelet(fresh)
    until(lambda: int(fresh.show(KUBELET, "NRestarts")) >= 10, "it crashes again and again")
    assert fresh.show(GATE, "Result") == "success"
    fresh.drop_in(KUBELET, "[Unit]\nStartLimitIntervalSec=0\n[Service]\nRestart=always\nRestartSec=300ms\n")
    until(lambda: fresh.is_active(KUBELET), "the repaired kubelet is running")


ONCE = f"test -e /run/once && exec {INSTALL} --gate; touch /run/once; "
GATES = {
    # drop-in of the gate; whether kubelet then runs on a machine that has joined
    "killed once": (shell(ONCE + "kill -KILL $$$$"), True),
    "hung once": (shell(ONCE + "exec sleep infinity", "TimeoutStartSec=200ms"), True),
    "killed each time": (shell("kill -KILL $$$$", "RestartSec=0"), False),
    "program is missing": (runs("/missing"), False),
}


@both
@pytest.mark.parametrize("gate", GATES)
def test_gate_that_fails(fresh, gate, is_joined):
    node, (drop_in, is_kept) = fresh, GATES[gate]
    if is_joined:
        on_disk.put(node, node.name)
    node.drop_in(GATE, drop_in)
    node.drop_in(UNIT, runs("!/bin/true"))
    start_kubelet(node)
    until(lambda: node.show(GATE, "ActiveState") in ("inactive", "failed") and not has_job(node, KUBELET), "the gate has decided")
    assert node.is_active(KUBELET) is (is_joined and is_kept), node.jobs()
    assert has_words(node) is (is_kept and not is_joined)
    if not is_kept:
        assert node.show(GATE, "ActiveState") == "failed"
        if is_joined and gate == "program is missing":
            said = node.run("node-bootstrap", "status", "--monitor", check=False).stdout
            assert f"kubelet.service is inactive (dead); {GATE} has failed (exit status 203)" in said
        node.drop_in(GATE, "")
        node.run("systemctl", "reset-failed", GATE)
        assert (start_kubelet(node) == 0) is is_joined


@contextlib.contextmanager
def hanging(path):
    """Nobody can open the file, as on a file system that does not answer: fanotify_mark(2), FAN_OPEN_PERM."""
    libc = ctypes.CDLL(None, use_errno=True)
    handle = libc.fanotify_init(0x5, 0)
    assert handle >= 0 and libc.fanotify_mark(handle, 1, ctypes.c_uint64(0x10000), -100, os.fsencode(path)) == 0, os.strerror(ctypes.get_errno())
    try:
        yield
    finally:
        os.close(handle)


def test_file_system_that_hangs(fresh):
    """The service and then the gate wait for it, and kubelet is running once it answers again."""
    node = fresh
    on_disk.put(node, node.name)
    node.drop_in(GATE, "[Service]\nTimeoutStartSec=200ms\n")
    for unit in (UNIT, GATE):
        with hanging(node.path(on_disk.FILES["certificate"])):
            node.run("systemctl", "start", "--no-block", KUBELET)
            until(lambda: node.show(unit, "ActiveState") == "activating", f"{unit} waits")   # pylint: disable=cell-var-from-loop
            if unit == GATE:
                until(lambda: node.show(GATE, "NRestarts") not in ("", "0"), "the gate is asked again")
            assert not node.is_active(KUBELET)
        until(lambda: node.is_active(KUBELET), "kubelet is running")
        node.run("systemctl", "stop", KUBELET)


# At the boot

AT_BOOT = {"credential that cannot be loaded": True, "killed each time": False}


@pytest.fixture(scope="module")
def rebooted(new_shared_node):
    node = new_shared_node("gate-boot")
    # As in machine().
    node.configure(endpoints=["192.0.2.254:6443"], kubelet={"criSocket": "unix:///run/systemd/private"})
    node.run_offline("systemctl", "--quiet", "disable", "containerd.service")
    return node


def boot(node):
    """Returns when the boot is over."""
    node.kill()
    node.boot(wait=None)
    until(lambda: node.run("systemctl", "is-system-running", check=False).stdout.strip() in ("running", "degraded"), lambda: node.jobs())


def boots():
    for name, broken in BROKEN.items():
        for is_joined in (True, False):
            yield pytest.param(broken, is_joined, id=f"{name}-{'joined' if is_joined else 'not joined'}", marks=[] if AT_BOOT.get(name) is is_joined else nightly)


@pytest.mark.parametrize("broken, is_joined", boots())
def test_boot(rebooted, broken, is_joined):
    node = rebooted
    node.kill()
    stand_in(node).enable(UNIT, KUBELET)
    on_disk.remove(node)
    if is_joined:
        on_disk.put(node, node.name)
    if broken.before:
        node.run_offline("sh", "-ec", broken.before.replace(FILE, f"/lib/systemd/system/{UNIT}").split("; systemctl daemon-reload")[0])
    if broken.drop_in:
        node.drop_in(UNIT, broken.drop_in)
    node.mark = count_words(node)
    try:
        boot(node)
        assert_kubelet(node, is_joined)
        assert node.is_active("multi-user.target")
    finally:
        node.path(f"/etc/systemd/system/{UNIT}.d/50-test.conf").unlink(missing_ok=True)
        if broken.after:
            node.run("sh", "-ec", broken.after)


@dataclass
class Hung:
    """A directory that does not answer at the boot, and drop-ins."""

    directory: str
    drop_ins: dict = field(default_factory=dict)
    has_settings: bool = True               # kubelet's files answer
    words: str = ""                         # of status, while kubelet waits


FOR_KUBELET = {"has_settings": False, "words": "kubelet's files cannot be read within 10 s: their file system does not answer"}
IMPATIENT = "[Service]\nTimeoutStartSec=1s\nTimeoutStopSec=100ms\n"
HUNG = {
    "kubeconfig": Hung("/etc/kubernetes", **FOR_KUBELET),
    "certificate": Hung("/var/lib/kubelet", **FOR_KUBELET),
    "kubeconfig behind the gate": Hung("/etc/kubernetes", {UNIT: runs("!/bin/true"), GATE: IMPATIENT}, **FOR_KUBELET),
    "certificate behind the gate": Hung("/var/lib/kubelet", {UNIT: runs("!/bin/true"), GATE: IMPATIENT}, **FOR_KUBELET),
    "settings": Hung("/etc/node-bootstrap", words="settings-unreadable): the settings in '/etc/node-bootstrap' cannot be read within 10 s"),
    "discovery file": Hung("/srv/discovery", words="): '/srv/discovery/cluster-info.conf' cannot be read within 10 s"),
}


def hung_boots():
    for name, row in HUNG.items():
        for is_joined in (True, False):
            yield pytest.param(row, is_joined, id=f"{name}-{'joined' if is_joined else 'not joined'}",
                               marks=[] if is_joined and name == "kubeconfig behind the gate" else nightly)


def has_booted(node):
    return node.run("systemctl", "is-system-running", check=False).stdout.strip() in ("running", "degraded")


@pytest.mark.parametrize("row, is_joined", hung_boots())
def test_boot_with_a_file_system_that_hangs(rebooted, row, is_joined):
    """Not even SIGKILL ends a process that waits for it. Only kubelet's own files keep kubelet waiting, until they answer."""
    node = rebooted
    node.kill()
    stand_in(node).enable(UNIT, KUBELET)
    on_disk.remove(node)
    if is_joined:
        on_disk.put(node, node.name)
    else:       # something that would have to be read
        for what in ("environment", "kubeconfig"):
            node.write(on_disk.FILES[what], "")
    node.write("/srv/discovery/cluster-info.conf", "")
    # As criSocket in settings that answer.
    node.write("/etc/tmpfiles.d/runtime.conf", "L /run/containerd/containerd.sock - - - - /run/systemd/private\n")
    node.configure(endpoints=["192.0.2.254:6443"], kubelet={"criSocket": "unix:///run/systemd/private"}, timeout="40s",
                   **({"discovery": {"file": "/srv/discovery/cluster-info.conf"}} if row.directory == "/srv/discovery" else {}))
    for unit, text in row.drop_ins.items():
        node.drop_in(unit, text)
    node.mark = count_words(node)

    def said():
        return " ".join(node.run("node-bootstrap", "status", check=False).stdout.split())
    try:
        with hung.hung(node.path(row.directory)) as file_system:
            node.boot(wait=None)
            if is_joined and row.has_settings:
                until(lambda: has_booted(node), lambda: node.jobs())
                assert node.show(UNIT, "ActiveState", "Result") == ("active", "success")
            else:
                until(lambda: row.words in said(), lambda: f"status does not name what does not answer: {said()}")
                if row.drop_ins:
                    until(lambda: node.show(GATE, "NRestarts") not in ("", "0"), "the gate is asked again")
                assert has_job(node, KUBELET) and not node.is_active(KUBELET) and not has_booted(node)
                file_system.let_go()
                until(lambda: has_booted(node), lambda: node.jobs())
            assert_kubelet(node, is_joined)
            done = node.run("node-bootstrap", "status", check=False)
            assert ("State: joined, and kubelet is running" in done.stdout, done.returncode == 0) == (is_joined, is_joined), done.stdout
    finally:
        for unit in row.drop_ins:
            node.path(f"/etc/systemd/system/{unit}.d/50-test.conf").unlink()
        # As in rebooted().
        node.configure(endpoints=["192.0.2.254:6443"], kubelet={"criSocket": "unix:///run/systemd/private"})


def test_restart_while_the_settings_hang(new_node):
    """No signal ends the process that the first start has left. The next start does not take it for an attacker's."""
    node = new_node().prepare().enable(UNIT)
    node.drop_in(UNIT, "[Service]\nTimeoutStopSec=100ms\n")

    def processes():
        return node.run("cat", UNIT_GROUP, check=False).stdout.split()
    with hung.hung(node.path("/etc/node-bootstrap")) as file_system:
        node.boot("--unit=basic.target")
        node.begin()
        main = until(lambda: file_system.unanswered and len(processes()) == 2 and node.show(UNIT, "MainPID"), "the settings are read by a process of their own")
        [left] = set(processes()) - {main}
        node.begin("restart")
        node.await_status("Waiting: the settings in '/etc/node-bootstrap' cannot be read within 10 s")
        assert left in processes() and main not in processes()
        file_system.let_go()
        assert node.await_end() == ("active", 0)
    node.await_kubelet()
    assert not node.said("not-alone")


@pytest.mark.nightly
@both
def test_boot_with_a_masked_gate(rebooted, is_joined):
    """Only systemd 252 ignores it. status and check name it; their remedy is in harness/situations_service.py."""
    node = rebooted
    node.kill()
    stand_in(node).enable(UNIT, KUBELET)
    on_disk.remove(node)
    if is_joined:
        on_disk.put(node, node.name)
    node.run_offline("systemctl", "--quiet", "mask", GATE)
    try:
        boot(node)
        is_up = int(node.run("systemctl", "--version").stdout.split()[1]) < 257
        assert node.is_active(KUBELET) is is_up and node.is_active("multi-user.target"), node.jobs()
        node.run("sh", "-ec", "mkdir --parents /run/containerd; ln -s /run/systemd/private /run/containerd/containerd.sock")     # kubelet's runtime
        assert f"systemctl unmask {UNIT} {GATE}\n" in node.run("node-bootstrap", "check", check=False).stdout
        done = node.run("node-bootstrap", "status", "--json", check=False)
        found = json.loads(done.stdout)
        assert found["code"] == "unit-masked" and f"{GATE} is masked" in found["message"]
        assert (found["state"], done.returncode) == (("joined", 0) if is_joined and is_up else ("kubelet-stopped", 4) if is_joined else ("failed", 1))
    finally:
        node.run("systemctl", "unmask", GATE)
    node.run("systemctl", "reset-failed")
    node.run("systemctl", "stop", KUBELET)
    assert (start_of_service(node) == 0) is is_joined
    until(lambda: not has_job(node, KUBELET), "kubelet's job has ended")
    assert node.is_active(KUBELET) is is_joined


@pytest.mark.parametrize("machine_id", [None, *(pytest.param(text, marks=nightly, id=text.strip() or "empty") for text in ("uninitialized\n", ""))])
def test_first_boot_of_an_image_enables_nothing(new_node, machine_id):
    """Without a machine ID, systemd applies presets, and Debian's enable every unit that they do not name. The gate alone would keep kubelet down."""
    node = stand_in(new_node())
    if machine_id is None:
        node.path("/etc/machine-id").unlink()
    else:
        node.write("/etc/machine-id", machine_id)
    node.boot("--unit=multi-user.target", wait="multi-user.target")
    assert node.run("systemctl", "is-enabled", UNIT, GATE, check=False).stdout.split() == ["disabled"] * 2
    assert node.is_active(KUBELET) and not node.is_active(UNIT) and GATE not in node.show(KUBELET, "Requires")
