# SPDX-License-Identifier: Apache-2.0
"""node-bootstrap-metrics.timer: the file for node_exporter, whatever others do to its folder."""

import os
import stat

from common import documentation, prometheus
from common.documentation import commands
from common.failures import FAILURES
from common.wait import until
from .harness.node import UNIT

FOLDER = "/var/lib/prometheus/node-exporter"
FILE, TEMPORARY = f"{FOLDER}/node-bootstrap.prom", f"{FOLDER}/.node-bootstrap.prom.tmp"
TIMER, SERVICE = "node-bootstrap-metrics.timer", "node-bootstrap-metrics.service"
NOBODY = 65534
UNIT_FAILED = "d9b373ed55a64feb8242e02dbe79a49c"     # SD_MESSAGE_UNIT_FAILURE_RESULT of sd-messages.h
HOLD = "/root/hold"
HOLDS = f"[Service]\nExecStartPre=/bin/sh -c 'while test -e {HOLD}; do sleep 0.05; done'\n"
ONCE_A_SECOND = "[Timer]\nOnActiveSec=\nOnUnitActiveSec=\nOnActiveSec=1s\nOnUnitActiveSec=1s\nAccuracySec=100ms\n"
# How to break and how to mend the folder, and the reason that is reported; its file system has two pages.
BROKEN = [
    ("full", f"mount -t tmpfs -o size=8k,mode=755 none {FOLDER}; cp /root/old {FILE}; echo >{FOLDER}/full", f"umount {FOLDER}", "No space left on device"),
    ("read-only", f"mount -t tmpfs none {FOLDER}; cp /root/old {FILE}; mount -o remount,ro {FOLDER}", f"umount {FOLDER}", "Read-only file system"),
    ("a directory instead of the temporary file", f"mkdir {TEMPORARY}", f"rmdir {TEMPORARY}", "Is a directory"),
    ("a directory instead of the file", f"rm -f {FILE}; mkdir {FILE}", f"rmdir {FILE}", "Is a directory"),
]


def shell(node, text):
    return node.run("sh", "-ec", text).stdout


def read(node, path=FILE):
    found = os.lstat(node.path(path))
    assert (stat.filemode(found.st_mode), found.st_uid) == ("-rw-r--r--", 0)
    return prometheus.read(node.read(path).decode())


def await_report(node, path=FILE):
    """A new one."""
    begin = node.path(path).stat().st_mtime_ns if node.path(path).is_file() else 0
    until(lambda: node.path(path).is_file() and node.path(path).stat().st_mtime_ns > begin, "the timer writes the metrics")
    return read(node, path)


def failures(node):
    """What systemd and the program say of failed updates: a state would be over before a slow machine had a look at it."""
    return (node.journal(f"UNIT={SERVICE}", f"MESSAGE_ID={UNIT_FAILED}"),
            [entry["MESSAGE"] for entry in node.journal(f"_SYSTEMD_UNIT={SERVICE}", "MESSAGE_ID=" + FAILURES["metrics-unwritable"]["message-id"])])


def change(node, text):
    """While no update runs: one between two of the commands would undo the first, or keep the file system busy."""
    node.write(HOLD, "")
    until(lambda: node.show(SERVICE, "SubState") == "start-pre", "the next update is held")
    shell(node, text)
    node.path(HOLD).unlink()


def test_metrics(manual, cluster, tmp_path):
    node = manual
    node.path(FOLDER).mkdir(parents=True)
    os.chown(node.path(FOLDER), 1234, 1234)     # another user's
    node.enable(UNIT).boot()
    node.await_status("waiting for approval")
    until(lambda: node.said("csr-pending"), "the journal says so, a moment after the status")
    assert node.run("systemctl", "is-enabled", TIMER, check=False).stdout.strip() == "disabled" and not node.exists(FILE)
    shell(node, commands("metrics"))
    await_report(node)

    # A machine that waits, in which systemd, the journal and a shell say the same.
    found = read(node)
    [(series, since)] = [(series, value) for series, value in found.items() if "waiting_since" in series]
    assert "csr-pending" in series and found["node_bootstrap_joined"] == 0
    assert shell(node, f"date --utc --date=@{since:.0f} '+Waiting since %F %T UTC: '").strip() in node.show(UNIT, "StatusText")
    assert shell(node, f"date --utc --date=@{since:.0f} '+, waiting since %FT%TZ (csr-pending'").strip() in node.run("node-bootstrap", "status", check=False).stdout
    prometheus.assert_fires(tmp_path, found, 5)
    prometheus.assert_fires(tmp_path, found, 16, "NotJoined")

    # What others do to the folder.
    node.drop_in(SERVICE, HOLDS)
    node.drop_in(TIMER, ONCE_A_SECOND)
    node.run("systemctl", "restart", TIMER)
    await_report(node)
    node.write("/root/old", node.read(FILE))
    for name, break_it, mend_it, reason in BROKEN:
        failed, said = failures(node)
        change(node, break_it)
        before = node.read(FILE) if node.path(FILE).is_file() else b""
        until(lambda: all(map(lambda now, then: len(now) > len(then), failures(node), (failed, said))), f"an update fails: {name}")
        said = failures(node)[1][-1]
        assert said == f"cannot write '{FILE}': {reason}", (name, said)
        visible = node.run("sh", "-c", f"cat {FILE} 2>/dev/null; ls -A {FOLDER} 2>/dev/null", check=False).stdout
        assert not before or "_joined 0" in visible, (name, visible)
        change(node, mend_it)
        await_report(node)
    shell(node, f"systemctl stop {TIMER} {SERVICE}; mv {FOLDER} {FOLDER}.away; systemctl start {SERVICE}")
    assert node.show(SERVICE, "ActiveState", "Result") == ("inactive", "exec-condition"), "a folder that is missing is no failure"
    shell(node, f"mv {FOLDER}.away {FOLDER}; systemctl start {TIMER}")
    await_report(node)
    change(node, f"ln -sf /etc/passwd {FILE}; mkfifo {TEMPORARY}")
    node.drop_in(SERVICE, "")
    assert await_report(node)["node_bootstrap_joined"] == 0 and node.read("/etc/passwd").startswith(b"root:")
    until(lambda: os.listdir(node.path(FOLDER)) == ["node-bootstrap.prom"], "nothing else is left between two updates")
    assert not [entry["MESSAGE"] for entry in node.journal(f"UNIT={SERVICE}") if int(entry["PRIORITY"]) > 5], "a line for each run"

    # A machine that has joined; then one that was reset, and one without the timer.
    cluster.kubectl("certificate", "approve", cluster.await_csr(node.name)["metadata"]["name"])
    node.await_kubelet()
    until(lambda: await_report(node).get("node_bootstrap_kubelet_running") == 1, "kubelet has been running for a while")
    found = read(node)
    stages = {series.split('"')[1] for series in found if "stage=" in series}
    assert found["node_bootstrap_joined"] == 1 and stages >= {"discover", "node", "request", "await", "install"}
    prometheus.assert_fires(tmp_path, found, 59)
    done = node.run("setpriv", f"--reuid={NOBODY}", "--clear-groups", "node-bootstrap", "status", "--prometheus", check=False)
    assert done.returncode == 5 and "_joined " not in done.stdout and prometheus.REPORT in done.stdout
    node.run("node-bootstrap", "reset", "--stop-kubelet", "--all")
    until(lambda: await_report(node)["node_bootstrap_joined"] == 0, "an update that began after the reset")

    # The documented drop-in, and a purge.
    node.drop_in(SERVICE, next(e.text for e in documentation.examples("unit") if e.argument == SERVICE), "folder.conf")
    shell(node, "mkdir /srv/textfile; systemctl daemon-reload")
    await_report(node, "/srv/textfile/node-bootstrap.prom")
    shell(node, "dpkg --purge kube-node-bootstrap")
    assert not node.exists(FILE) and "node-bootstrap" not in node.run("systemctl", "list-units", "--failed").stdout
    assert not [name for name in os.listdir(node.path("/etc/systemd/system")) if name.startswith("timers.target") and node.exists(f"/etc/systemd/system/{name}/{TIMER}")]
