# SPDX-License-Identifier: Apache-2.0
"""How the root side writes: flags and sync of each file, and no other process in the control group."""

import os
import pathlib
import re
import signal
import subprocess
import tempfile

import pytest

from common import namespace
from common.machine import find_program
from common.wait import until
from .crash import WITHOUT_LEAK_DETECTION
from .installed import SERVER

pytestmark = pytest.mark.each_release


def traced(machine, strace, *argv, words=()):
    """The trace of all file system calls of `argv`; descriptors with their paths."""
    path = machine.path / "trace"
    run = machine.new_run([strace, "-f", "-y", "-o", str(path), "-e", "trace=openat,fsync,rename,renameat,renameat2,linkat,umask", *argv, *words], {**machine.environment, "RUNTIME_DIRECTORY": str(machine.path), **WITHOUT_LEAK_DETECTION})
    machine.runs.append(run)
    run.wait().joined()
    return path.read_text().splitlines()


def install(machine, strace, *words):
    return traced(machine, strace, find_program("install"), *machine.install_words("--program=", *words))


def setting_up(machine, strace, cluster):
    machine.secret_files.append(machine.target("etc/credstore/node-bootstrap.token"))
    return traced(machine, strace, find_program("node-bootstrap"), "setup", f"--root={machine.root}", "10.0.0.1:6443", "--token=bcdefg.0123456789abcdef",
                  "--discovery-token-unsafe-skip-ca-verification")


def joining(machine, strace, cluster):
    machine.put_handoff(cluster.ca, SERVER)
    return install(machine, strace)


WRITERS = [joining, setting_up]


@pytest.mark.parametrize("write", WRITERS, ids=["install", "setup"])
def test_each_file_is_synced_before_it_gets_its_name(machine, cluster, strace, write):
    synced, published = set(), 0
    for line in write(machine, strace, cluster):
        if found := re.search(r"fsync\(\d+<(.*)>\) += 0", line):
            synced.add(found[1])
        elif found := re.search(r'(?:rename\w*|linkat)\(\d+<(.*?)>, "([^"]*)", \d+<.*?>, "([^"]*)".* = 0', line):
            folder, source, target = found.groups()
            if not source.endswith(".tmp") or target == "kubelet-client-current.pem":    # a link has no data of its own
                continue
            assert f"{folder}/{source}" in synced, f"{target} was not synced before: {line}"
            synced.discard(f"{folder}/{source}")
            published += 1
    assert published >= 2


@pytest.mark.parametrize("write", WRITERS, ids=["install", "setup"])
def test_each_file_is_made_exclusively_and_without_following_links(machine, cluster, strace, write):
    made = [line for line in write(machine, strace, cluster) if "openat(" in line and "O_CREAT" in line and str(machine.path) in line and "/trace" not in line]
    assert len(made) >= 2
    for line in made:
        assert "O_EXCL" in line and "O_NOFOLLOW" in line and "O_CLOEXEC" in line, line


@pytest.mark.parametrize("words", [["install"], ["platform"]], ids=lambda words: words[0])
def test_umask(machine, strace, cluster, words):
    """Set by the program before it creates any file."""
    machine.put_handoff(cluster.ca, SERVER)
    rest = ["--program=", f"--root={machine.root}", f"--config-directory={machine.etc}"] if words[0] == "install" else []
    lines = traced(machine, strace, "/bin/sh", "-c", 'umask 0; exec "$@"', "sh", find_program(words[0]), *words[1:], *rest)
    masks = [number for number, line in enumerate(lines) if "umask(077)" in line]
    made = [number for number, line in enumerate(lines) if "O_CREAT" in line and "/dev/null" not in line]
    assert masks and made and masks[0] < made[0]


# No process is left beside it.

def find_hierarchy():
    for folder in ("/sys/fs/cgroup/systemd", "/sys/fs/cgroup"):
        if os.path.exists(f"{folder}/cgroup.procs"):
            return pathlib.Path(folder)
    pytest.skip("there is no cgroup tree")


@pytest.fixture
def group():
    if os.geteuid() != 0:
        pytest.skip("control groups need root")
    folder = find_hierarchy() / f"node-bootstrap-test-{os.getpid()}" / "node-bootstrap.service"
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        pytest.skip(f"no control group can be made: {error}")
    yield folder
    for number in [signal.SIGSTOP] * 10 + [signal.SIGKILL]:      # what is stopped cannot fork
        for pid in (folder / "cgroup.procs").read_text().split():
            os.kill(int(pid), number)
    until(lambda: not (folder / "cgroup.procs").read_text(), "the processes of the control group end", pause=0.01)
    for below in [path for path in folder.iterdir() if path.is_dir()] + [folder, folder.parent]:
        below.rmdir()
    namespace.take_left_files()     # run_in() is not limited to a root


def start_in(machine, group, *words, program="", tracer=()):
    """On the machine itself, as in the service: its folders are hidden from the tests."""
    run = machine.new_run([*tracer, "/bin/sh", "-c", f'echo $$ >{group}/cgroup.procs; exec "$@"', "sh", find_program("install"), f"--config-directory={machine.etc}", f"--program={program}", *words],
                          {**machine.environment, **WITHOUT_LEAK_DETECTION})
    machine.runs.append(run)
    return run


def run_in(*arguments, **options):
    return start_in(*arguments, **options).wait()


def test_alone(machine, group):
    run_in(machine, group).failed("handoff-missing", 65)


def test_process_of_another_user_in_the_group(machine, group):
    with subprocess.Popen(["sleep", "infinity"], user=65534) as other:
        (group / "cgroup.procs").write_text(str(other.pid))
        try:
            run_in(machine, group).failed("not-alone", 76, f"process {other.pid}")
        finally:
            other.kill()


def test_process_of_root_in_the_group(machine, group):
    """One that an earlier run has left. It executes nothing more, even if it does not end."""
    with subprocess.Popen(["sleep", "infinity"]) as other:
        (group / "cgroup.procs").write_text(str(other.pid))
        try:
            run_in(machine, group).failed("handoff-missing", 65, f"killed process {other.pid} ('sleep') of root")
            assert other.wait(60) == -signal.SIGKILL
        finally:
            other.kill()
            other.wait(60)


def test_process_of_root_in_a_foreign_group(machine, group):
    """As that of a shell, when somebody starts the installer by hand: it may be their session."""
    foreign = group / "session-1.scope"
    foreign.mkdir()
    with subprocess.Popen(["sleep", "infinity"]) as other:
        (foreign / "cgroup.procs").write_text(str(other.pid))
        try:
            run_in(machine, foreign).failed("not-alone", 76, f"process {other.pid}")
            assert other.poll() is None
        finally:
            other.kill()
            other.wait(60)


def test_process_from_before_the_join_on_a_joined_machine(machine, cluster, group):
    """It is accepted: nothing has to be installed."""
    machine.configure(endpoints=["192.0.2.10:6443"], pins=[cluster.ca.pin],
                      kubelet={"kubeconfig": f"{machine.root}/kubelet.conf", "caFile": f"{machine.root}/ca.crt", "certificateDirectory": f"{machine.root}/pki"})
    machine.put_handoff(cluster.ca, SERVER)
    run_in(machine, group).joined()
    with subprocess.Popen(["sleep", "infinity"], user=65534) as other:
        (group / "cgroup.procs").write_text(str(other.pid))
        try:
            assert "has joined, so kubelet can start" in run_in(machine, group).joined().stderr
        finally:
            other.kill()


@pytest.fixture
def program(machine):
    """Writes a script that runs in place of join, as a user of its own."""
    os.chown(machine.state, 65534, 65534)
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)

        def write(script):
            path = pathlib.Path(folder, "program")
            path.write_text("#!/bin/sh\nexec >/dev/null 2>&1 3>&-\n" + script)
            path.chmod(0o755)
            return path

        yield write


LEFT = {
    "in the background": "sleep infinity &\n",
    "in a session of its own": "setsid -f sleep infinity\n",
    "deaf to SIGTERM": "setsid -f sh -c 'trap \"\" TERM; while :; do sleep 1; done'\n",
    "stopped": "setsid -f sh -c 'kill -STOP $$'\nsleep 0.3\n",
    "forks all the time": "setsid -f prlimit --nproc=100:100 perl -e 'fork while 1'\nsleep 0.3\n",       # as many as TasksMax= permits
}


@pytest.mark.parametrize("how", LEFT)
def test_process_that_join_leaves(machine, group, program, how):
    """It is killed before anything is read. The join goes on, here to the failure of a join that has left nothing else."""
    run_in(machine, group, program=program(LEFT[how])).failed("handoff-missing", 65, "join left processes in the control group")
    assert (group / "cgroup.procs").read_text() == ""


def test_no_process_is_killed_by_its_number(machine, group, program, strace):
    """A process of root may get the number of one that has ended: what is killed was in the group after it had a descriptor."""
    # A file for each process: in a common one, a call that another process interrupts fills two lines.
    run_in(machine, group, program=program("sleep infinity &\n"),
           tracer=[strace, "-ff", "-y", "-o", str(machine.path / "trace"), "-e", "trace=kill,pidfd_open,openat,pidfd_send_signal"])
    calls = re.findall(r"^(?:(kill)\(\d+|(pidfd_open)\(|openat\(.*(cgroup.procs)|(pidfd_send_signal)\(.*, (SIGKILL)).* = \d",
                       "".join(trace.read_text() for trace in machine.path.glob("trace.*")), re.MULTILINE)
    calls = ["".join(call) for call in calls]
    assert calls.count("kill") == 1, "the child, which has not been reaped"
    assert "pidfd_open cgroup.procs pidfd_send_signalSIGKILL cgroup.procs" in " ".join(calls)


def test_process_that_has_left_the_group(machine, group, program, strace):
    """It is not killed, since it could have got the number of one that was in the group. The runner stops when it
    has its descriptor; its first one is that of the child."""
    other, trace = group.parent.with_name(f"{group.parent.name}-other"), machine.path / "trace"
    run = start_in(machine, group, program=program("sleep infinity &\n"),
                   tracer=[strace, "-f", "-o", str(trace), "-e", "trace=pidfd_open,pidfd_send_signal", "-e", "inject=pidfd_open:signal=SIGSTOP:when=2"])
    sweeper = until(lambda: trace.exists() and re.search(r"^(\d+) +--- stopped by SIGSTOP", trace.read_text(), re.MULTILINE), "the sweeper stops")[1]
    parent = pathlib.Path(f"/proc/{sweeper}/stat").read_text().split()[3]
    [left] = set((group / "cgroup.procs").read_text().split()) - {sweeper, parent}
    other.mkdir()
    try:
        (other / "cgroup.procs").write_text(left)
        os.kill(int(sweeper), signal.SIGCONT)
        until(lambda: not os.path.exists(f"/proc/{sweeper}"), "the sweeper ends")
        assert "pidfd_send_signal" not in trace.read_text()
    finally:
        os.kill(int(left), signal.SIGKILL)
        until(lambda: not (other / "cgroup.procs").read_text(), "it ends", pause=0.01)
        other.rmdir()
    run.wait().failed("handoff-missing", 65)


def test_group_below(machine, group):
    """Even if empty: a process could hide there and return."""
    (group / "below").mkdir()
    run_in(machine, group).failed("not-alone", 76, "has subgroups")
