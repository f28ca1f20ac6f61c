# SPDX-License-Identifier: Apache-2.0
"""node-bootstrap check lets systemd start the service under another name: what systemd cannot start, check reports, and it leaves nothing behind."""

import contextlib
import json
import signal
from dataclasses import dataclass

import pytest

from common import pki
from common.wait import until
from .harness import on_disk
from .harness.node import STATE, TOKEN, UNIT

pytestmark = pytest.mark.each_release
FOLDER, NAME = "/run/systemd/system", "node_bootstrap_check"
SEALED, SOCKET = "/etc/credstore.encrypted/node-bootstrap.token", "/run/broker.sock"
PLAIN = "abcdef.0123456789abcdef"
SERVICE, OF_SERVICE = "service-setup", "systemd cannot start node-bootstrap.service "
BLIND = f"{OF_SERVICE}without its credentials (243/CREDENTIALS)"
HANGS = "198.51.100.250:6443"           # a neighbour that is not there


@pytest.fixture(scope="module")
def booted(new_shared_node):
    node = new_shared_node("rehearsed").enable("kubelet.service", off=True)
    node.boot("--unit=basic.target")
    return node


@pytest.fixture
def node(booted):
    """With settings and a token, as root has written them; nothing has been started."""
    node = booted.forget().configure(endpoints=[HANGS], pins=[pki.CA("other").pin])
    node.reset_limit()
    node.give(PLAIN)
    yield node
    node.run("sh", "-c", f"rm -rf /etc/credstore.encrypted /etc/systemd/system/{UNIT} /root/token; systemctl daemon-reload; systemctl reset-failed")


def of_service(node):
    """What nothing but a start changes."""
    return node.show(UNIT, "ActiveState", "InvocationID", "StateChangeTimestampMonotonic", "NRestarts"), node.jobs().splitlines()[0]


def left_behind(node):
    units = node.run("systemctl", "list-units", "--all", "--plain", "--no-legend", f"{NAME}*").stdout
    return units + node.run("sh", "-c", f"ls -a {FOLDER} /run/systemd/transient 2>/dev/null | grep {NAME}; ls -d /run/{NAME}* /run/private/{NAME}* 2>/dev/null; cat /run/node-bootstrap-check; true").stdout


def rehearse(node, *words):
    """The report, and its step "service"."""
    before = of_service(node), node.tree()
    done = node.run("node-bootstrap", "check", "--json", "--local", *words, check=False)
    found = json.loads(done.stdout)
    assert (of_service(node), node.tree()) == before, "something was changed"
    assert left_behind(node) == ""
    assert found["good"] == (done.returncode == 0)
    service = found["steps"][0]
    assert service["step"] == "service" and service["section"] == "Service"
    return found, service


def texts(step):
    return "\n".join(row["text"] for row in step["rows"])


def steps(found):
    return {step["step"]: step for step in found["steps"]}


@dataclass
class Broken:
    """What keeps systemd from starting the service: a drop-in, or a command before."""

    drop_in: str = ""
    before: str = "true"
    code: str = SERVICE
    words: tuple = ()


def loads(name, path, kind=""):
    return f"LoadCredential{kind}={name}:{path}\n"


BROKEN = {
    "credential that does not exist": Broken(loads("extra", "/missing"), code="service-credential", words=(BLIND, "it cannot load 'extra' from '/missing'")),
    "second of two credentials": Broken(loads("first", "/etc/hostname") + loads("second", "/missing"), code="service-credential", words=("cannot load 'second'",)),
    "credential that is too large": Broken(loads("large", "/root/large"), "truncate --size=2M /root/large", "service-credential", ("cannot load 'large' from '/root/large'",)),
    "encrypted credential that is damaged": Broken(loads("node-bootstrap.token", SEALED, "Encrypted"), f"mkdir -p -m 0700 /etc/credstore.encrypted; echo x >{SEALED}; rm {TOKEN}",
                                                   "service-credential", (f"cannot load 'node-bootstrap.token' from '{SEALED}'",)),
    "damaged one in a drop-in": Broken("SetCredentialEncrypted=node-bootstrap.token:AAAA\n", f"rm {TOKEN}", "service-credential",
                                       ("SetCredentialEncrypted= may be damaged",)),
    "too much together": Broken(loads("a", "/root/a") + loads("b", "/root/b"), "truncate --size=700K /root/a /root/b", "service-credential", ("all credentials together larger than 1 MiB",)),
    "program is missing": Broken("ExecStart=\nExecStart=!/missing\n", words=(f"{OF_SERVICE}(203/EXEC); systemd: ", "/missing")),
    "program cannot be executed": Broken("ExecStart=\nExecStart=!/etc/hostname\n", words=("(203/EXEC)",)),
    "group is missing": Broken("SupplementaryGroups=missing\n", words=("(216/GROUP)",)),
    "mount is missing": Broken("BindReadOnlyPaths=/missing\n", words=("(226/NAMESPACE)", "/missing")),
    "environment file is missing": Broken("EnvironmentFile=/missing\n", words=("(resources)", "Failed to load environment files")),
    "condition": Broken("[Unit]\nConditionPathExists=/missing\n", words=("a condition in the unit is not met",)),
}


@pytest.mark.parametrize("is_joined", [True, False], ids=["joined", "not joined"])
@pytest.mark.parametrize("broken", [pytest.param(value, id=name) for name, value in BROKEN.items()])
def test_service_that_cannot_start(node, broken, is_joined):
    """Before it has been started, and after it has failed."""
    if is_joined:
        on_disk.put(node, node.name)
    node.run("sh", "-ec", broken.before)
    node.drop_in(UNIT, f"[Service]\n{broken.drop_in}")
    for _ in range(2):
        found, service = rehearse(node)
        why = service["failure"]
        assert found["failure"] == why["code"] == broken.code, found
        assert all(word in why["detail"] for word in broken.words), why
        assert steps(found)["settings"]["state"] == steps(found)["join"]["state"] == "untried" and "state" in steps(found)
        node.reset_limit()
        node.run("systemctl", "start", UNIT, check=False)
        until(lambda: node.show(UNIT, "Job") in ("", "0") and node.show(UNIT, "ActiveState") in ("failed", "inactive"), "it has failed")
    node.path(f"/etc/systemd/system/{UNIT}.d/50-test.conf").unlink()
    node.run("sh", "-ec", f"systemctl daemon-reload; rm -rf /etc/credstore.encrypted; echo {PLAIN} >{TOKEN}")
    found, service = rehearse(node)
    assert service["state"] == "good" and steps(found)["state"]["state"] != "bad", "what became of the last start is over"


def test_state_directory(node):
    """The rehearsal has none: systemd says what became of the last start."""
    node.run("sh", "-c", "touch /var/lib/private/blocked /var/lib/blocked")
    node.drop_in(UNIT, "[Service]\nStateDirectory=blocked\n")
    assert node.join(check=False).returncode != 0
    node.reset_limit()
    node.run("systemctl", "start", UNIT, check=False)
    try:
        found, service = rehearse(node)
        assert found["failure"] == SERVICE and "(238/STATE_DIRECTORY)" in steps(found)["state"]["failure"]["detail"] and service["state"] == "good"
    finally:
        node.run("sh", "-c", "rm /var/lib/private/blocked /var/lib/blocked")


@pytest.mark.parametrize("drop_in", ["#LoadCredential=x:/missing\n  ; LoadCredential=x:/missing\n", "LoadCredential=x:/missing\nLoadCredential=\nLoadCredential=node-bootstrap.token\n",
                                     "Environment=A=b \\\n# a comment \\\nLoadCredential=x:/missing\n", "LoadCredential=x:/root/%N-%n-%p\n"])
def test_drop_in_that_does_no_harm(node, drop_in):
    """A comment, a reset, a line that is continued; names that the unit has in its place."""
    node.write("/root/node-bootstrap-node-bootstrap.service-node-bootstrap", "x")
    node.drop_in(UNIT, f"[Service]\n{drop_in}")
    found, service = rehearse(node)
    assert found["good"] and service["state"] == "good", found
    rows = texts(steps(found)["credentials"])
    assert f"node-bootstrap.token: bootstrap token abcdef.**************** ({TOKEN.rpartition('/')[0]})" in rows, rows


def test_replaced_unit_file(node):
    text = node.run("systemctl", "cat", UNIT).stdout
    node.write(f"/etc/systemd/system/{UNIT}", f"{text}\n[Service]\nLoadCredential=x:/missing\n")
    node.run("systemctl", "daemon-reload")
    found, service = rehearse(node)
    assert found["failure"] == "service-credential" and "cannot load 'x' from '/missing'" in service["failure"]["detail"], found


def test_what_the_service_gets(node):
    """A token of a path, and settings that only systemd can decrypt."""
    config, token = "node-bootstrap.config", "node-bootstrap.token"
    node.run("sh", "-ec", f"""rm {TOKEN}; (umask 077; echo {PLAIN} >/root/token); mkdir -p -m 0700 /etc/credstore.encrypted
systemd-creds encrypt --with-key=host --name={config} /etc/node-bootstrap/config.yaml /root/sealed 2>/dev/null; rm /etc/node-bootstrap/config.yaml""")
    node.drop_in(UNIT, f"[Service]\n{loads(token, '/root/token')}{loads(config, '/root/sealed', 'Encrypted')}")
    found, _ = rehearse(node)
    assert found["good"], found
    assert f"credential '{config}'" in texts(steps(found)["settings"]) and "a join can start" in texts(steps(found)["join"])
    assert f"{token}: bootstrap token abcdef.**************** (delivered by systemd)" in texts(steps(found)["credentials"])


def test_settings_that_the_service_cannot_read(node):
    """The capability of the service is for files of root. A file of root that a group may read is one."""
    node.run("sh", "-c", "chown root:adm /etc/node-bootstrap/config.yaml; chmod 0640 /etc/node-bootstrap/config.yaml")
    assert rehearse(node)[0]["good"]
    node.run("sh", "-c", "chown daemon:daemon /etc/node-bootstrap/config.yaml; chmod 0600 /etc/node-bootstrap/config.yaml")
    found, _ = rehearse(node)
    assert found["failure"] == "settings-unreadable", found


def test_commands_of_drop_ins(node):
    """They are not run, which is said."""
    node.drop_in(UNIT, "[Unit]\nOnFailure=x.service\nWants=node-bootstrap-metrics.service\n[Service]\nExecCondition=/bin/touch /root/ran\nExecStartPre=+/bin/touch /root/ran\n"
                 "ExecStart=\nExecStart=+/bin/touch /root/ran\nExecStopPost=/bin/touch /root/ran\n")
    found, service = rehearse(node)
    assert found["good"] and not node.exists("/root/ran") and "are not rehearsed" in texts(service) and "has changed ExecStart=" in texts(service), found


@pytest.mark.parametrize("folder", ["service.d", "node-.service.d", "node-bootstrap-.service.d"])
def test_drop_ins_of_other_services(node, folder):
    """Neither their commands nor what they name in [Unit] is for the rehearsal, which fails here, nor for a unit that tries one credential."""
    node.run("sh", "-c", f"cd /etc/systemd/system; mkdir {folder}; printf '[Unit]\\nOnFailure=alarm.service\\n[Service]\\nExecStopPost=+/bin/touch /root/ran\\n"
             f"LoadCredential=x:/root/missing\\n' >{folder}/10-all.conf; printf '[Service]\\nExecStart=/bin/touch /root/ran\\n' >alarm.service; systemctl daemon-reload")
    try:
        found, _ = rehearse(node)
        assert node.run("systemctl", "show", "--property=InactiveExitTimestampMonotonic", "--value", "alarm.service").stdout.strip() == "0"
    finally:
        node.run("sh", "-c", f"cd /etc/systemd/system; rm -r {folder} alarm.service; systemctl daemon-reload")
    assert not node.exists("/root/ran"), found
    assert folder == "node-bootstrap-.service.d" or (not found["good"] and "cannot load 'x' from '/root/missing'" in found["steps"][0]["failure"]["detail"]), found


def test_secret_in_a_drop_in(node):
    """SetCredential=: the unit file of the rehearsal is gone once systemd has loaded it, so that no check that is killed leaves it."""
    node.run("rm", TOKEN)
    node.drop_in(UNIT, f"[Service]\nSetCredential=node-bootstrap.token:{PLAIN}\n")
    command = begin_check(node)
    left = node.run("sh", "-c", f"grep -rl {PLAIN} /run --exclude-dir=credentials --exclude-dir=nspawn; true").stdout
    node.run("pkill", "-KILL", "-x", "node-bootstrap", check=False)
    with contextlib.closing(command.stdout):
        command.wait(60)
    assert left == "" and node.run("sh", "-c", f"grep -rl {PLAIN} {FOLDER}; true").stdout == ""
    found = json.loads(node.run("node-bootstrap", "check", "--json", "--local").stdout)
    assert "a join can start" in texts(steps(found)["join"]) and left_behind(node) == ""


def test_socket(node):
    """A service that mints tokens is not asked for one."""
    node.run("sh", "-c", f"rm {TOKEN}; rm -f /root/asked")
    node.drop_in(UNIT, f"[Service]\n{loads('node-bootstrap.token', SOCKET)}{loads('x', '/etc/hostname')}")
    node.run("systemd-run", "--unit=broker", "socat", f"UNIX-LISTEN:{SOCKET},fork,mode=0600", "EXEC:/usr/bin/touch /root/asked")
    until(lambda: node.run("grep", "-q", f" 00010000 .* {SOCKET}$", "/proc/net/unix", check=False).returncode == 0, "the broker listens")
    try:
        found, service = rehearse(node)
    finally:
        node.run("systemctl", "stop", "broker.service")
    assert found["good"] and not node.exists("/root/asked"), found
    assert f"credential 'node-bootstrap.token' comes from the socket or FIFO '{SOCKET}': left out" in texts(service)
    assert "cannot determine whether a join can start" in texts(steps(found)["join"])


def test_beside_a_waiting_join(node, cluster):
    """Its key stays its own."""
    node.configure(endpoints=[HANGS])
    node.begin()
    until(lambda: node.show(UNIT, "ActiveState") == "activating" and node.exists(f"{STATE}"), "the join waits")
    before = node.run("stat", "--format=%u %a %n", "/var/lib/private/node-bootstrap").stdout
    status, said = node.run("node-bootstrap", "check", "--local", check=False).returncode, left_behind(node)
    assert (status, said) == (0, "") and node.run("stat", "--format=%u %a %n", "/var/lib/private/node-bootstrap").stdout == before
    assert node.show(UNIT, "ActiveState") == "activating"
    node.run("systemctl", "stop", UNIT)


def begin_check(node):
    """Returns while the rehearsal connects to an endpoint that does not answer."""
    command = node.start("node-bootstrap", "check")
    until(lambda: "activating" in node.run("systemctl", "list-units", "--all", f"{NAME}*").stdout, "the rehearsal has begun")
    return command


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL], ids=lambda number: number.name)
def test_check_that_is_killed(node, number):
    """SIGKILL leaves files, which the next check removes."""
    command = begin_check(node)
    pid = node.run("pgrep", "-of", "^node-bootstrap check$").stdout.strip()
    node.run("kill", f"-{number.name.removeprefix('SIG')}", pid)
    if number == signal.SIGHUP:
        node.run("kill", "-TERM", pid, check=False)     # unless it has ended
    with contextlib.closing(command.stdout):
        status = command.wait(60)
    if number == signal.SIGKILL:
        assert left_behind(node) != ""
        node.run("node-bootstrap", "check", "--local")
        until(lambda: left_behind(node) == "", "the rehearsal has ended")
    else:
        assert status in ((-signal.SIGHUP, 143) if number == signal.SIGHUP else (143,))
        until(lambda: left_behind(node) == "", "systemd has dropped the unit")
    assert node.run("systemctl", "--failed", "--plain", "--no-legend").stdout == ""


def test_reader_that_goes_away(node):
    done = node.run("sh", "-c", "node-bootstrap check --local --all | head -1; true")
    assert "Service" in done.stdout
    until(lambda: left_behind(node) == "", "it removes its files nevertheless")
