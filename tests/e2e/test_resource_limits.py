# SPDX-License-Identifier: Apache-2.0
"""The limits of the services, as the kernel has them."""

import pytest

from common.wait import until
from .harness.node import UNIT

REFRESH, PLATFORM = "node-bootstrap-refresh.service", "node-bootstrap-platform.service"
RLIMITS = {"Max file size": 8 << 20, "Max core file size": 0}
GROUPS = {UNIT: (128, 512 << 20, 1024), REFRESH: (128, 512 << 20, 1024), PLATFORM: (16, 256 << 20, 256)}
# Something else in the place of all that the unit runs, with nothing that keeps it from being run.
PROBE = """[Unit]
ConditionPathExists=
ConditionVirtualization=
ConditionKernelCommandLine=
[Service]
ExecStartPre=
ExecStart=
ExecStartPost=
ExecStart=/bin/sh -c 'cat /proc/self/limits; ls -A /dev/shm; touch /dev/shm/written; echo done'
"""


def assert_rlimits(text, n_files):
    for name, limit in {**RLIMITS, "Max open files": n_files}.items():
        [line] = [line for line in text.splitlines() if name in line]
        assert line.split(name)[1].split()[:2] == [str(limit)] * 2, line


def read_status(node, pid):
    return dict(line.split(":\t", 1) for line in node.run("cat", f"/proc/{pid}/status").stdout.splitlines() if ":\t" in line)


def assert_rights(node, main, pid):
    """install is uid 0 with one capability; join is the dynamic user with none. Read from outside of both."""
    install, join = read_status(node, main), read_status(node, pid)
    user = node.run("stat", "--format=%u", "/var/lib/private/node-bootstrap").stdout.strip()
    assert (install["Name"], install["Uid"].split()[0], int(install["CapEff"], 16), int(install["CapPrm"], 16)) == ("install", "0", 2, 2)
    assert join["Name"] == "node-bootstrap" and set(join["Uid"].split() + join["Gid"].split() + join["Groups"].split()) == {user} != {"0"}
    assert {int(join[key], 16) for key in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {0}
    for status in (install, join):
        assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    filters = [int(status["Seccomp_filters"]) for status in (install, join)]
    assert filters[0] > filters[1], "install has a filter of its own"


def group_file(node, unit, controller, name):
    """From the unit's control group; None without the controller."""
    for folder in (f"/sys/fs/cgroup/{controller}", "/sys/fs/cgroup"):
        done = node.run("cat", f"{folder}/system.slice/{unit}/{name}", check=False)
        if done.returncode == 0:
            return int(done.stdout)
    return None


@pytest.mark.each_release
@pytest.mark.parametrize("unit", GROUPS)
def test_limits(node, unit):
    tasks, memory, n_files = GROUPS[unit]
    node.drop_in(unit, PROBE)
    node.boot("--unit=basic.target")
    node.run("touch", "/dev/shm/of-others")
    node.run("systemctl", "start", unit)
    said = until(lambda: "done" in (text := node.journal_text("-u", unit, "--output=cat")) and text, "the probe has ended")
    assert_rlimits(said, n_files)
    assert "of-others" not in said and node.run("ls", "/dev/shm").stdout.split() == ["of-others"]
    assert node.show(unit, "TasksMax", "MemoryMax", "MemorySwapMax") == (str(tasks), str(memory), "0")


@pytest.mark.each_release
def test_limits_of_a_join_that_waits(node, cluster):
    front = cluster.new_front().refuse()
    node.configure(endpoints=[front.endpoint]).enable(UNIT).boot("--unit=basic.target")
    node.begin()
    node.await_status("endpoint-refused")
    main, pid = node.show(UNIT, "MainPID"), node.join_pid()
    assert_rights(node, main, pid)
    assert_rlimits(node.run("cat", f"/proc/{pid}/limits").stdout, GROUPS[UNIT][2])
    # A container around the machine may not permit a negative value; test_vm.py shows it.
    scores = [int(node.run("cat", f"/proc/{number}/oom_score_adj").stdout) for number in (main, pid)]
    assert scores in ([-500, 0], [0, 0]) and node.show(UNIT, "OOMScoreAdjust") == "-500", "join is killed first"
    # Even root with all capabilities cannot write there.
    for folder in ("/dev/shm", "/tmp", "/var/tmp"):
        assert node.run("nsenter", f"--target={pid}", "--mount", "--", "touch", f"{folder}/written", check=False).returncode != 0, folder
    assert node.run("ls", "/dev/shm").stdout == ""
    found = group_file(node, UNIT, "pids", "pids.max"), group_file(node, UNIT, "memory", "memory.max")
    assert all(value in (None, expected) for value, expected in zip(found, GROUPS[UNIT])), found
    front.close()
