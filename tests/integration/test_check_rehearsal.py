# SPDX-License-Identifier: Apache-2.0
"""node-bootstrap check as root, if systemd runs: the unit that it starts, and what it makes of the rows that this unit sends; the tests play systemd."""

import fcntl
import os
import re
import stat
import struct
import subprocess

import pytest

from common import SOURCE
from common.disk import hung_file_system
from common.machine import fake_clock, find_program
from .attackers import FAST
from .check import INSIDE, Place, sections
from .manager import Manager

REHEARSAL = "node_bootstrap_check.service"
UNIT, FRAGMENT, DROP_IN = "node-bootstrap.service", "etc/systemd/system/node-bootstrap.service", "etc/systemd/system/node-bootstrap.service.d/x.conf"
SERVICE, SETTINGS, STATE, USER_DATA = 0, 1, 3, 6      # steps
N_FIELDS = len(re.findall(r"^ +NB_FIELD_\w+,", (SOURCE / "src/systemd/log.h").read_text(), re.M))
DEAD = {"LoadState": "loaded", "ActiveState": "inactive", "SubState": "dead", "Result": "success"}
GONE = {**DEAD, "LoadState": "not-found"}       # systemd forgets a unit that has not failed


def failed(result, status=0):
    return {**DEAD, "ActiveState": "failed", "Result": result, "ExecMainCode": 1 if status else 0, "ExecMainStatus": status}


FRAME = f"<IIIiQ8192s{N_FIELDS * 256}s"


def frame(step=SETTINGS, text="", mark=1, code=0):
    return struct.pack(FRAME, step, mark, code, 0, 7, text.encode(), b"")


class Rehearsal:
    """What the unit of the rehearsal sends, and how it ends."""

    def __init__(self, path):
        self.place, self.rows, self.end, self.text = Place(path), frame(text="valid"), GONE, None
        self.place.put(FRAGMENT, "[Unit]\nWants=x.service\nConditionHost=y\n[Service]\nExecStart=!/usr/x\nEnvironment=A=%n\n", 0o644)
        self.place.put(DROP_IN, "[Service]\n#Environment=B=b\nExecStartPre=/bin/x\n", 0o644)
        self.place.settings()
        self.place.token()
        self.service = {**DEAD, "FragmentPath": f"/{FRAGMENT}", "DropInPaths": [f"/{DROP_IN}"]}
        self.manager = Manager(self.place.path / "run/systemd", {UNIT: self.service, REHEARSAL: GONE})
        self.manager.on_start = self.start

    def start(self, name):
        file = self.place.path / "run/systemd/system" / name
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        self.text, self.manager.units[name] = file.read_text(), self.end
        [output] = re.findall("^StandardOutput=file:(.*)$", self.text, re.M)
        with open(self.place.path / output.lstrip("/"), "r+b") as rows:
            assert stat.S_IMODE(os.fstat(rows.fileno()).st_mode) == 0o600
            rows.write(self.rows)

    def left(self):
        rows = self.place.path / "run/node-bootstrap-check"
        return [path.name for path in (self.place.path / "run/systemd/system").iterdir()] + ([rows] if rows.exists() and rows.stat().st_size else [])

    def check(self):
        done = subprocess.run(self.place.argv(), env=self.place.environment(), check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert done.stderr == "" and self.left() == [], "nothing is left"
        return done.returncode, sections(done.stdout)


@pytest.fixture
def rehearsal(tmp_path):
    found = Rehearsal(tmp_path)
    yield found
    found.manager.close()


def test_unit(rehearsal):
    """With the lines of the service, what they would change taken back, and nothing that starts another unit than the prover's socket."""
    status, found = rehearsal.check()
    text = rehearsal.text
    assert "[Unit]\nConditionHost=y\n[Service]\nExecStart=!/usr/x\nEnvironment=A=node-bootstrap.service\n" in text and text.count("Wants") == 1 and "\nWants=node-bootstrap-prover.socket\n" in text and "B=b" not in text
    assert text.index("ExecStartPre=/bin/x\n") < text.index("\nExecStartPre=\n") and text.index("ExecStart=!/usr/x") < text.index("\nExecStart=\n")
    assert " --rehearsal check --rehearsal --local\n" in text.rpartition("ExecStart=")[2]
    assert status == 0 and found["Service"][-1] == "✓ systemd can start node-bootstrap.service" and found["Settings"] == ["✓ valid"] and "This machine" in found
    calls = [call[0] for call in rehearsal.manager.calls]
    assert calls.count("StartUnit") == 1 and calls[-2:] == ["StopUnit", "ResetFailedUnit"], calls


def test_rows(rehearsal):
    """They are printed as they are, but cannot control a terminal."""
    rehearsal.rows = frame(text="a\033[2Jb\n  ✗ c") + frame(text="x" * 8192, mark=2) + frame()[:100]
    status, found = rehearsal.check()
    assert status == 0 and found["Settings"] == ["✓ a [2Jb   ✗ c", f"! {'x' * 8191}"]


@pytest.mark.parametrize("rows", [frame(STATE), frame(USER_DATA), frame(99), frame(mark=9), frame(code=100000)],
                         ids=["step of the machine", "step of user data", "unknown step", "mark", "code"])
def test_invalid_rows(rehearsal, rows):
    rehearsal.rows = rows
    status, found = rehearsal.check()
    assert status == 1 and any(row.startswith("✗ internal: the rehearsal sent an invalid row") for row in found["Service"]), found
    assert "This machine" in found and rehearsal.manager.calls[-2][0] == "StopUnit"


def test_rehearsal_that_cannot_begin(rehearsal):
    rehearsal.rows = frame(SERVICE, "no user", code=1)
    status, found = rehearsal.check()
    assert status == 1 and not any("can start" in row for row in found["Service"]) and found["Service"][1].endswith(": no user"), found


@pytest.mark.parametrize("rows, end, code, words", [
    (b"", failed("resources"), "service-setup", "(resources)"), (b"", failed("exit-code", 226), "service-setup", "(226/NAMESPACE)"),
    (b"", failed("exit-code", 243), "service-credential", "(243/CREDENTIALS); it "),
    (b"", GONE, "service-setup", "a condition in the unit is not met"), (b"x" * 100, failed("signal"), "internal", "ended early (signal"),
    (b"", failed("exit-code", 70), "internal", "ended early (exit-code, exit status 70)"),
], ids=["resources", "226", "243", "condition", "killed", "internal"])
def test_unit_that_fails(rehearsal, rows, end, code, words):
    """The first row. What depends on it is skipped, and nothing is good."""
    rehearsal.rows, rehearsal.end = rows, end
    status, found = rehearsal.check()
    assert status == 1 and words in [row for row in found["Service"] if row.startswith(f"✗ {code}: ")][0], found
    assert found["Settings"] == found["Join"] == ["– skipped: see above"] and "This machine" in found
    assert "ResetFailedUnit" in [call[0] for call in rehearsal.manager.calls]


def test_rehearsal_that_ends_in_a_step(rehearsal):
    rehearsal.rows, rehearsal.end = frame(text="begun"), failed("signal")
    status, found = rehearsal.check()
    assert status == 1 and found["Settings"] == ["✓ begun"] and [row for row in found["Service"] if row.startswith("✗ ") and "ended early" in row]


def test_credential_that_cannot_be_loaded(rehearsal):
    """Each one alone, in a unit that is in no file."""
    def try_one(name):
        rehearsal.tried.append(name)
        rehearsal.manager.units[REHEARSAL] = failed("exit-code", 243) if name.startswith("second") else GONE

    rehearsal.rows, rehearsal.end, rehearsal.tried = b"", failed("exit-code", 243), []
    rehearsal.service["LoadCredential"] = [("first", "/etc/first"), ("second", "/etc/second"), ("third", "/etc/third")]
    rehearsal.manager.on_load = try_one
    status, found = rehearsal.check()
    assert status == 1 and found["Service"][1].endswith("(243/CREDENTIALS); it cannot load 'second' from '/etc/second'; drop-ins: '/etc/systemd/system/node-bootstrap.service.d/x.conf'"), found
    assert rehearsal.tried == ["first", "second"]
    del rehearsal.service["LoadCredential"], rehearsal.tried[:]
    _, found = rehearsal.check()
    assert "; it can load each file alone" in found["Service"][1] and rehearsal.tried == ["node-bootstrap.token"], "those of the stores follow"


def test_files_of_a_check_that_was_killed(rehearsal):
    """systemd may still run its unit, which is stopped."""
    folder = rehearsal.place.path / "run/systemd/system"
    (folder / REHEARSAL).write_text("")
    (folder / f"{REHEARSAL}.d").mkdir()
    (folder / f"{REHEARSAL}.d/old.conf").symlink_to("/dev/null")
    rehearsal.place.put("run/node-bootstrap-check", "x" * 20000)
    status, found = rehearsal.check()
    assert status == 0 and found["Settings"] == ["✓ valid"]
    assert [call[0] for call in rehearsal.manager.calls][:3] == ["StopUnit", "ResetFailedUnit", "StartUnit"]


def test_secret_in_the_unit_file(rehearsal):
    """The file is gone once systemd has loaded it, before the program has run."""
    states = iter([{**DEAD, "ActiveState": "activating", "Job": (1, "/job")}])

    def later():
        if rehearsal.text and (state := next(states, None)):
            rehearsal.seen = rehearsal.left()
            return state
        return GONE

    rehearsal.place.put(DROP_IN, "[Service]\nSetCredential=x:secret\n", 0o644)
    rehearsal.end = later
    status, found = rehearsal.check()
    assert status == 0 and "SetCredential=x:secret\n" in rehearsal.text and REHEARSAL not in rehearsal.seen and found["Settings"] == ["✓ valid"]


def test_another_check(rehearsal):
    """The second one waits: it could take the unit of the first one for that of a check that was killed."""
    rows = rehearsal.place.path / "run/node-bootstrap-check"
    rows.touch(0o600)
    with open(rows, "rb") as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        with subprocess.Popen(rehearsal.place.argv(), env=rehearsal.place.environment(), text=True, stdout=subprocess.PIPE) as second:
            assert [second.stdout.readline() for _ in range(2)] == ["Service\n", "  - waiting for another `node-bootstrap check`\n"]
            assert rehearsal.manager.calls == []
            fcntl.flock(first, fcntl.LOCK_UN)
            assert "✓ systemd can start" in second.stdout.read() and second.wait() == 0


def test_unit_files_that_have_changed(rehearsal):
    rehearsal.service["NeedDaemonReload"] = True
    status, found = rehearsal.check()
    assert status == 0 and any("have changed since systemd read them" in row for row in found["Service"])


@pytest.mark.parametrize("changes", [{"LoadState": "masked"}, {"LoadState": "not-found"}, {"FragmentPath": ""}], ids=str)
def test_service_that_is_not_loaded(rehearsal, changes):
    rehearsal.service.update(changes)
    _, found = rehearsal.check()
    assert found["Service"] == ["! cannot determine whether systemd can start node-bootstrap.service: systemd has not loaded it"]
    assert found["Credentials and tokens"] and rehearsal.manager.calls == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a file system")
def test_settings_on_a_file_server_that_is_dead(tmp_path):
    """The unit itself looks at them before its first step, which says so."""
    place, runtime = Place(tmp_path), tmp_path / "runtime"
    (tmp_path / "etc/node-bootstrap").symlink_to(tmp_path / "hung")
    runtime.mkdir()
    os.chown(runtime, 65534, 65534)
    argv = ["unshare", "--mount", "--net", "sh", "-ec", INSIDE, tmp_path, find_program("node-bootstrap"), "check", "--rehearsal", "--local"]
    with hung_file_system(tmp_path / "hung"):
        done = subprocess.run(argv, env=place.environment(RUNTIME_DIRECTORY=str(runtime), **fake_clock(FAST)), check=True, stdout=subprocess.PIPE)
    rows = [(step, code, text.rstrip(b"\0").decode()) for step, _, code, _, _, text, _ in struct.iter_unpack(FRAME, done.stdout)]
    [failure] = [row for row in rows if row[1]]
    assert failure[::2] == (SETTINGS, "the settings in '/etc/node-bootstrap' cannot be read within 10 s: the file system does not answer"), rows
