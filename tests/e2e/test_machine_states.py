# SPDX-License-Identifier: Apache-2.0
"""States of a machine, each as status, status --monitor, --json, --prometheus, check and setup show it: all tell the same."""

import json
import uuid

import pytest

from common import pki, prometheus
from common.wait import until
from .harness.node import CURRENT, KUBECONFIG, PKI, TOKEN, UNIT, settings
from .harness.situations_joined import KUBELET_CONFIG, await_crash, break_kubelet, expire, lose

TABLE = []


@pytest.fixture(scope="module", autouse=True)
def table():
    yield
    print("\n{:22} {:20} {:>9} {:24} {:>5}  {}".format("state", "status --json", "--monitor", "check", "exit", "line of status --monitor"))
    for row in TABLE:
        print("{:22} {:20} {:>9} {:24} {:>5}  {:.90}".format(*row))


def await_well(node, name):
    """kubelet may end once, before its runtime is there, and then counts as well only some time after its restart."""
    node.cluster.await_node(name)
    until(lambda: node.run("node-bootstrap", "status", "--monitor", check=False).returncode == 0, "systemd restarted kubelet long enough ago")


@pytest.fixture
def joined(node):
    node.enable(UNIT).boot()
    await_well(node, node.name)
    # A kubelet that ends is down in all commands of look(): it never runs for a moment.
    node.drop_in("kubelet.service", "[Service]\nRestartSec=1h\n")
    return node


def look(node, what, state, status, code):
    """What the commands say; `code` is the failure of check's step, or None."""
    found = json.loads(node.run("node-bootstrap", "status", "--json", check=False).stdout)
    line = node.run("node-bootstrap", "status", "--monitor", check=False)
    text = node.run("node-bootstrap", "status", check=False)
    checked = node.run("node-bootstrap", "check", "--json", "--local", check=False)
    step = next(step for step in json.loads(checked.stdout[checked.stdout.index("{"):])["steps"] if step["step"] == "state")
    TABLE.append((what, found["state"], line.returncode, (step.get("failure") or {}).get("code") or step["state"], checked.returncode, line.stdout.strip()))
    assert (found["state"], found["code"], line.returncode) == (state, code, status), (found, line)
    message = found["message"].split("; this machine's clock says ")[0]
    assert message.removeprefix("not joined: ") in line.stdout and message in " ".join(text.stdout.split()) and text.returncode == line.returncode
    assert message in "\n".join([str((step.get("failure") or {}).get("detail")), *(row["text"] for row in step["rows"])]), step
    assert ((step.get("failure") or {}).get("code") == code) or step["state"] == "doubt"
    assert_reports(node, what, found, status)
    return found


def assert_reports(node, what, found, status):
    """The metrics that the sandboxed service writes are those of a shell, and which alerts fire after 17 minutes in this state."""
    node.run("mkdir", "--parents", "/var/lib/prometheus/node-exporter")
    node.run("systemctl", "start", "node-bootstrap-metrics.service")
    text, shown = node.read("/var/lib/prometheus/node-exporter/node-bootstrap.prom").decode(), node.run("node-bootstrap", "status", "--prometheus").stdout
    metrics = prometheus.read(text)
    assert {**prometheus.read(shown), prometheus.REPORT: 0} == {**metrics, prometheus.REPORT: 0}
    print(f"--- {what}\n{text}")
    assert metrics["node_bootstrap_joined"] == found["joined"]
    assert metrics["node_bootstrap_kubelet_running"] == (status == 0) or not found["joined"]
    assert ("certificate" in found) == ("node_bootstrap_certificate_expiration_timestamp_seconds" in metrics)
    alerts = {"NotJoined"} if not found["joined"] else {"KubeletDown"} if status else {"Renamed"} if found["code"] == "node-renamed" else set()
    prometheus.assert_fires(node.directory, metrics, 17, *alerts, *(["CertificateNotRenewed"] if found["state"] == "expired" else []))


def contents(node):
    """Of the files of the join."""
    return {path: facts[:-1] for path, facts in node.joined_files().items()}


@pytest.mark.each_release
def test_kubelet(joined):
    node = joined
    look(node, "joined", "joined", 0, None)
    said = node.run("node-bootstrap", "setup").stdout
    assert "this machine has joined already\n" in said and "kubelet is running" in said

    node.run("systemctl", "stop", "kubelet.service")
    found = look(node, "kubelet is stopped", "kubelet-stopped", 4, "kubelet-down")
    assert "kubelet.service is inactive" in found["message"]
    assert node.run("node-bootstrap", "status", "--monitor", "--no-kubelet").stdout.startswith("OK: ")
    done = node.run("node-bootstrap", "setup", check=False)
    assert done.returncode == 71 and "kubelet-down: " in done.stdout

    config = break_kubelet(node)
    found = look(node, "kubelet ends", "kubelet-crashing", 4, "kubelet-down")
    assert "no.such.group" in found["message"], "the last error of kubelet"
    done = node.run("node-bootstrap", "setup", check=False)
    assert done.returncode == 71 and "no.such.group" in done.stdout
    node.write(KUBELET_CONFIG, config)
    node.run("systemctl", "restart", "kubelet.service")
    assert "kubelet is running" in node.run("node-bootstrap", "setup").stdout
    await_well(node, node.name)
    look(node, "kubelet is running again", "joined", 0, None)

    # The name may be in a credential that only the service can read: then that of the certificate counts.
    node.run("systemctl", "stop", "kubelet.service", UNIT)
    node.set_host_name(f"{node.name}-x")
    node.run("sh", "-c", "mkdir -p /etc/credstore.encrypted && echo sealed >/etc/credstore.encrypted/node-bootstrap.config")
    for _ in range(2):
        assert json.loads(node.run("node-bootstrap", "status", "--json", check=False).stdout)["state"] == "kubelet-stopped"
        assert "kubelet-down: " in node.run("node-bootstrap", "check", "--local", check=False).stdout
        node.run("rm", "--force", "/etc/credstore.encrypted/node-bootstrap.config")
        node.drop_in(UNIT, "[Service]\nLoadCredential=node-bootstrap.config:/root/node-bootstrap.config\n")


@pytest.mark.each_release
def test_settings_in_a_credential(new_node, cluster):
    """Only the service is given them; the commands judge the machine as it does, and so does its reload."""
    node = new_node().enable(UNIT)
    name = f"{node.name}-x"
    node.boot(credentials={"node-bootstrap.token": str(cluster.token()),
                           "node-bootstrap.config": settings(cluster, node={"name": name, "allowExisting": True})})
    await_well(node, name)
    look(node, "settings in a credential", "joined", 0, None)
    assert "this machine has joined already\n" in node.run("node-bootstrap", "setup").stdout
    before = contents(node)
    node.path(KUBECONFIG).unlink()
    node.run("systemctl", "reload", UNIT)
    assert contents(node) == before
    node.run("systemctl", "stop", "kubelet.service", UNIT)
    look(node, "and without the service", "kubelet-stopped", 4, "kubelet-down")
    refused = node.run("node-bootstrap", "setup", "-", "--force", stdin=cluster.join_command(), check=False)
    assert refused.returncode == 64 and "LoadCredential= in a drop-in" in refused.stdout, refused.stdout
    token = cluster.token()
    node.write("/root/token", str(token), 0o600)
    node.drop_in(UNIT, "[Service]\nLoadCredential=node-bootstrap.token:/root/token\n")
    node.unjoin()
    node.join()
    assert node.entries("installed")[-1]["NODE_BOOTSTRAP_TOKEN_ID"] == token.id


def test_paths_in_a_credential(new_node, cluster):
    """No settings file has the paths."""
    node = new_node().enable(UNIT)
    moved = {"kubeconfig": "/var/lib/kubelet/kubeconfig", "certificateDirectory": "/var/lib/kubelet/certificates", "caFile": "/var/lib/kubelet/ca.crt"}
    node.drop_in("kubelet.service", f"[Service]\nExecStart=\nExecStart=/usr/bin/kubelet --kubeconfig={moved['kubeconfig']} --config={KUBELET_CONFIG} "
                 f"--cert-dir={moved['certificateDirectory']} $KUBELET_EXTRA_ARGS\n", "paths.conf")
    node.boot(credentials={"node-bootstrap.token": str(cluster.token()), "node-bootstrap.config": settings(cluster, kubelet=moved)})
    await_well(node, node.name)
    look(node, "paths in a credential", "joined", 0, None)
    before = node.read(moved["kubeconfig"])
    node.path(moved["kubeconfig"]).unlink()
    node.run("systemctl", "reload", UNIT)
    assert node.read(moved["kubeconfig"]) == before and not node.exists(KUBECONFIG)


def test_lost_kubeconfig(joined, cluster):
    """It is written again by reload, and kubelet goes on with the same certificate."""
    node = joined
    before = contents(node)
    lose(node, KUBECONFIG)
    look(node, "kubeconfig is lost", "without-kubeconfig", 4, "kubeconfig-lost")
    node.run("systemctl", "reload-or-restart", UNIT)
    assert node.said("file-restored") and contents(node) == before
    node.run("systemctl", "restart", "kubelet.service")
    until(lambda: node.is_active("kubelet.service"), "kubelet is running")
    node.path(KUBECONFIG).unlink()
    done = node.run("node-bootstrap", "setup", "-", stdin=cluster.join_command())
    assert "the token was not written" in done.stdout and contents(node) == before
    assert len(cluster.csrs(node.name)) == 1


def reboot_as(node, name, is_copy):
    node.write("/etc/hostname", name + "\n")
    if is_copy:
        node.write("/etc/machine-id", uuid.uuid4().hex + "\n")
    node.path(TOKEN).unlink(missing_ok=True)
    node.reboot()


def join_copy(node, name, what):
    """The machine becomes a copy, which needs a join command of its own."""
    reboot_as(node, name, True)
    until(lambda: node.show(UNIT, "ActiveState") == "failed", "the copy has no token")
    assert not node.kubelet_pid()
    assert "host name and machine ID differ" in look(node, what, "copied", 1, "machine-copied")["message"]
    assert "kubelet is running" in node.run("node-bootstrap", "setup", "-", stdin=node.cluster.join_command()).stdout
    node.cluster.await_node(name)


def serving(node):
    """kubelet's serving certificate, in PEM, and its key."""
    return [node.read(f"{PKI}/kubelet.{end}") for end in ("crt", "key")]


def test_renamed_and_copied(joined):
    """Another host name is a warning, and kubelet is running after a reboot. With another machine ID as well, the machine is a copy. The
    serving certificate that kubelet has signed itself for the other name goes with the join of the copy; another one is a warning."""
    node, old = joined, joined.name
    own, warning = serving(node), "belongs to the machine of which this one is a copy; replace it and its key"
    reboot_as(node, f"{old}-new", False)
    await_well(node, old)
    found = look(node, "host name changed", "joined", 0, "node-renamed")
    assert old in found["message"] and "host name" in found["message"]
    assert f"kubectl delete node {old}\n" in node.run("node-bootstrap", "status", check=False).stdout
    assert serving(node) == own
    join_copy(node, f"{old}-copy", "copy")
    assert [serves(pem, name) for pem, name in ((own, old), (serving(node), f"{old}-copy"))] == [True] * 2 and serving(node)[1] != own[1]
    key = pki.new_key()
    pem = pki.cert_pem(pki.CA("site").client(key.public_key(), f"{old}-copy", ()))
    for end, data in (("crt", pem), ("key", pki.key_pem(key))):
        node.write(f"{PKI}/kubelet.{end}", data)
    assert warning not in node.journal_text("-u", UNIT)
    join_copy(node, f"{old}-again", "copy with another serving certificate")
    assert serving(node) == [pem, pki.key_pem(key)] and warning in node.journal_text("-u", UNIT)


def serves(files, name):
    """kubelet adds the time at which it has signed the certificate."""
    return pki.load_certs(files[0])[0].subject.rfc4514_string().startswith(f"CN={name}@")


@pytest.mark.each_release
def test_late_host_name(new_node, cluster):
    """As from DHCP: the unit sees the new name, and joins with it."""
    node = new_node().prepare().enable(UNIT)
    node.write("/etc/hostname", "localhost\n")
    node.boot(wait=None)
    until(lambda: "host-name-unset" in node.run("systemctl", "show", "--value", "--property=StatusText", UNIT, check=False).stdout, "the join waits for its name")
    assert not node.kubelet_pid()
    node.run("hostnamectl", "set-hostname", node.name)
    await_well(node, node.name)


def test_expired(joined, cluster):
    node = joined
    look(node, "joined", "joined", 0, None)
    expire(node)
    look(node, "expired", "expired", 2, "join-needed")
    done = node.run("node-bootstrap", "setup", "-", stdin=cluster.join_command())
    assert "kubelet is running" in done.stdout and node.exists(CURRENT)


@pytest.mark.each_release
def test_not_joined(new_node, cluster):
    node = new_node()
    node.boot("--unit=basic.target")
    look(node, "never joined", "not-joined", 1, None)
    node.write("/etc/systemd/system/slow.service", "[Unit]\nBefore=network-online.target\n[Service]\nType=oneshot\nExecStart=/bin/sleep infinity\n")
    node.run("systemctl", "daemon-reload")
    node.run("systemctl", "start", "--no-block", "slow.service", "network-online.target")
    line = cluster.join_command()
    done = node.run("node-bootstrap", "setup", "-", "--wait-timeout=6s", stdin=line, check=False)
    assert done.returncode != 0 and "slow.service" in done.stdout
    found = look(node, "queued", "queued", 1, None)
    assert "queued behind slow.service, which has been starting since 20" in found["message"]
    node.run("systemctl", "stop", "slow.service")
    assert node.await_end() == ("active", 0)
    await_well(node, node.name)
    look(node, "joined after the queue", "joined", 0, None)


def test_waiting(new_node, cluster):
    """For a token that does not exist; a new join command replaces it, without --force."""
    node = new_node()
    node.boot("--unit=basic.target")
    line = cluster.join_command()
    token = line.split("--token ")[1].split()[0]
    dead = f"{token[:6]}.{token[7:][::-1]}"
    node.run("sh", "-c", "node-bootstrap setup - --wait-timeout=1s", stdin=line.replace(token, dead), check=False)
    node.await_status("signature|token")
    until(lambda: json.loads(node.run("node-bootstrap", "status", "--json", check=False).stdout)["code"], "the reason is in the journal")
    found = json.loads(node.run("node-bootstrap", "status", "--json", check=False).stdout)
    look(node, "waits for a token", "waiting", 1, found["code"])
    done = node.run("node-bootstrap", "setup", "-", "--wait=certificate", stdin=line)
    assert "--force" not in done.stdout and node.is_active(UNIT)
