# SPDX-License-Identifier: Apache-2.0
"""tests/demo: what it shows, records and leaves behind."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest

from common import SOURCE, documentation
from common.wait import PATIENCE
from . import demo_story
from .harness import isolation
from .harness.screen import Screen


def check_recording(path, shown):
    """asciicast v2, with what was shown but for the seconds that count."""
    header, *events = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    assert header["version"] == 2 and header["width"] > 0 and header["height"] > 0
    times = [time for time, kind, text in events if kind == "o" and isinstance(text, str)]
    assert len(times) == len(events) > 10 and times == sorted(times)
    assert documentation.recorded(path) == re.sub(r"^\[.*   still .*\n", "", shown, flags=re.M)


def check_ending(shown):
    ending = shown.rpartition("\n==== ")[2].splitlines()
    assert len(ending) <= 23 and all(len(line) <= 80 for line in ending), shown
    assert shown.count("\n==== ") == 4 and "    token-unknown: " in shown.rpartition("\n==== ")[2]


def test_the_remedy_is_read():
    """From what was printed: without a remedy the demo fails."""
    printed = "  ✗ token-unknown: it has expired\n    On a node, `kubeadm` prints\n    one:\n        kubeadm token create\n  – API server: skipped\n"
    assert demo_story.find_remedy(printed) == ["kubeadm token create"]
    for missing in (printed.replace("unknown", "other"), printed.split("    On")[0]):
        with pytest.raises(AssertionError, match="does not report"):
            demo_story.find_remedy(missing)


def test_a_container_without_the_kernel_log():
    """Found before anything is installed or built."""
    command = 'mount -t tmpfs none /dev && exec "$0"'
    result = subprocess.run(["unshare", "--mount", "sh", "-c", command, SOURCE / "tests/demo"], capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (69, "") and "needs /dev/kmsg" in result.stderr


def test_with_a_real_cluster(world, cluster, capsys, tmp_path):
    """The join in the README is what this one looks like."""
    real = demo_story.Real(cluster, "of this test")
    real.stop = lambda: None
    demo = demo_story.Demo(Screen(tmp_path / "cast"), world.work, real, [world.layer, world.base])
    try:
        demo.play()
    finally:
        for name in ("worker-1", "worker-2"):
            cluster.delete_node(name)
    shown = capsys.readouterr().out
    check_recording(tmp_path / "cast", shown)
    check_ending(shown)

    def join(text):
        """How often it waits depends on the time that kubelet takes, and which stages are seen on that of each."""
        return [line for line in documentation.normalised(text).splitlines() if not re.match(r"waiting until|\* (?!Joined)", line)]

    assert join(documentation.join_in(shown)) == join(documentation.join_of_readme())


@pytest.fixture
def start(world):
    """Starts the demo with stand-ins, as from a shell. When it has ended, all is as it was before."""
    def groups():
        return sorted(str(group) for base in isolation.hierarchies() for group in base.iterdir() if group.is_dir())

    def mounts():
        return open("/proc/self/mountinfo", encoding="utf-8").read()

    def run(*more, directory="."):
        environment = {key: value for key, value in os.environ.items() if key != "KUBEBUILDER_ASSETS"}
        command = [sys.executable, "-B", "-m", "e2e.demo", f"--directory={directory}", f"--package={world.deb}", *more]
        return subprocess.Popen(command, env=environment, text=True, cwd=SOURCE / "tests", stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)

    before = groups(), mounts()
    yield run
    assert (groups(), mounts()) == before


REFUSALS = {
    "not root": (["unshare", "--user"], 77, "run it as root"),
    "another system": (["unshare", "--mount", "sh", "-c", 'mount --bind /dev/null /etc/os-release && exec "$0"'], 69, "needs Debian 12"),
    "assets": (["env", "KUBEBUILDER_ASSETS=/nowhere"], 78, "no program /nowhere/kube-apiserver"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals(case):
    """One sentence, before anything is done."""
    before, status, words = REFUSALS[case]
    done = subprocess.run([*before, SOURCE / "tests/demo"], check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (status, "", 1) and words in done.stderr


def test_with_stand_ins(start, tmp_path):
    demo = start("--record=cast", directory=tmp_path)
    shown, errors = demo.communicate(timeout=PATIENCE)
    assert (demo.returncode, errors) == (0, ""), shown + errors
    assert "kubelet is a stand-in here" in "".join(shown.splitlines()[:3])
    assert not re.search(r"[^\n -~\u00a0-\uffff]", shown), "a control character, where there is no terminal"
    check_recording(tmp_path / "cast", shown)
    check_ending(shown)


def test_interrupted(start):
    """Ctrl-C, while machines run."""
    demo = start()
    while "worker-1# node-bootstrap" not in demo.stdout.readline():
        assert demo.poll() is None
    os.killpg(demo.pid, signal.SIGINT)
    _, errors = demo.communicate(timeout=PATIENCE)
    assert (demo.returncode, errors) == (130, "\ninterrupted: the machines and the cluster are removed\n")
