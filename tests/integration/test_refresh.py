# SPDX-License-Identifier: Apache-2.0
"""A refresh: kubelet's files follow the CA and the server of the cluster, and nothing an attacker sends."""

import json
import os

import pytest

from common import apiserver, faults, pki
from common.failures import FAILURES
from common.machine import HEADER, SECRET, Machine, to_yaml
from .crash import TABLE, moments, points, put_back, save, traced
from .installed import contents, lose_certificate, refresh_handoff, sha256, status

pytestmark = pytest.mark.usefixtures("crash_table")

RESTART, MARK = "var/lib/kubelet/node-bootstrap.restart", "var/lib/kubelet/node-bootstrap.automatic-refresh"
HOUR = 3600


def join(world, **settings):
    world.configure(**settings)
    world.machine.unit().joined()
    world.server.requests.clear()
    return world.machine


def inspect(machine):
    return machine.inspect("--refresh")


def ask(machine):
    return machine.start_child("refresh").wait()


def install(machine):
    return machine.install("--refresh")


def refresh(machine):
    """The command of node-bootstrap-refresh.service."""
    run = machine.unit("--refresh")
    run.said = run.stderr
    return run


def record(machine):
    return json.loads(machine.read(Machine.RECORD))


def in_order(*cas):
    return b"".join(ca.pem for ca in cas).decode()


def set_timeout(machine):
    machine.write_settings(HEADER + "timeout: 3s\n", "config.yaml.d/90-timeout.yaml")
    machine.unit().joined()


# A cluster that changes.

@pytest.mark.parametrize("kubelet", [None, {"criSocket": "unix:///run/crio/crio.sock", "providerID": "cloud://1", "extraArgs": ["v=4"]}],
                         ids=["few settings", "every argument of kubelet"])
def test_nothing_new(world, kubelet):
    """A refresh knows only the settings that the record keeps."""
    world.configure(kubelet=kubelet)
    world.machine.write_settings(HEADER + to_yaml({"node": {"taints": ["a=b:NoSchedule"] if kubelet else []}}), "config.yaml.d/taints.yaml")
    world.machine.unit().joined()
    world.server.requests.clear()
    machine = world.machine
    before = contents(machine)
    run = refresh(machine)
    assert run.exit == 0 and "has the same CA and server as this node" in run.said
    assert contents(machine) == before and not list(machine.state.iterdir())
    assert [request.kind for request in world.server.requests] == ["cluster-info"]


def test_ca_rotated_in_steps(world, cluster, server):
    machine = join(world)
    old, new = cluster.ca, pki.CA("kubernetes")
    certificate, kubeconfig, joined = os.readlink(machine.target(machine.CURRENT)), machine.read(machine.KUBECONFIG), record(machine)
    cluster.bundle = [old.pem, new.pem]
    run = refresh(machine)
    assert run.exit == 0 and "the CA file replaced" in run.said and "the CA file holds 2 CAs" in run.said
    assert machine.read(machine.CA_FILE) == in_order(old, new)
    assert record(machine)["ca"] == in_order(old, new) and record(machine)["refreshedAt"]
    server.identity = new.serving()
    cluster.bundle = [new.pem]
    refresh(machine).joined()
    assert machine.read(machine.CA_FILE) == in_order(new)
    after = record(machine)
    assert sha256(machine.read(machine.CA_FILE)) in after["fileHashes"]
    assert after.pop("refreshedAt") and after == {**joined, "ca": in_order(new), "fileHashes": after["fileHashes"]}
    assert os.readlink(machine.target(machine.CURRENT)) == certificate and machine.read(machine.KUBECONFIG) == kubeconfig
    assert "has the same CA and server" in refresh(machine).said
    assert all("authorization" not in request.headers for request in server.requests if request.kind == "cluster-info")
    run = machine.inspect().joined()
    assert run.note["verdict"] == "usable", "the pins in the settings are those of the old CA, and the node stays"


def test_ca_renewed_with_its_key(world, cluster, server):
    machine = join(world)
    renewed = pki.CA("kubernetes", key=cluster.ca.key)
    cluster.bundle = [renewed.pem]
    refresh(machine).joined()
    assert machine.read(machine.CA_FILE) == in_order(renewed)


def test_server_moves(world, cluster, server):
    machine = join(world)
    moved = world.endpoint()
    cluster.server = moved.url
    run = refresh(machine)
    assert run.exit == 0 and f"the kubeconfig replaced: the server is {moved.url}, previously {server.url}" in run.said
    assert f'server: "{moved.url}"' in machine.read(machine.KUBECONFIG) and server.url not in machine.read(machine.KUBECONFIG)
    assert machine.target(machine.KUBECONFIG).stat().st_mode & 0o777 == 0o600
    assert record(machine)["server"] == moved.url and [request.kind for request in moved.requests] == ["cluster-info"]
    server.close()
    assert "has the same CA and server" in refresh(machine).said
    assert machine.inspect().note["verdict"] == "usable"


def test_kubelet_is_told_only_where_that_is_asked_for(world, cluster):
    machine = join(world)
    cluster.bundle = [cluster.ca.pem, pki.CA("second").pem]
    refresh(machine).joined()
    assert not machine.target(RESTART).exists()
    machine.write_settings(HEADER + to_yaml({"refresh": {"restartKubelet": True}}), "config.yaml.d/10.yaml")
    machine.unit().joined()
    refresh(machine).joined()
    assert not machine.target(RESTART).exists(), "nothing has changed"
    cluster.bundle.append(pki.CA("third").pem)
    refresh(machine).joined()
    assert machine.target(RESTART).stat().st_mode & 0o777 == 0o600


def test_what_the_network_side_gets(world):
    machine = join(world)
    inspect(machine).joined()
    assert {name.rsplit("/", 1)[-1] for name in machine.passed.files} == {"kubelet.conf", "ca.crt"}
    assert b"PRIVATE" not in bytes(machine.passed) and SECRET.encode() not in bytes(machine.passed)
    ask(machine).joined()


def test_settings_and_credentials_may_be_gone(world, cluster):
    """The service has recorded at its last start what a refresh needs."""
    paths = {"kubeconfig": "/etc/kubernetes/other.conf", "caFile": "/etc/kubernetes/pki/other.crt", "certificateDirectory": "/var/lib/kubelet/other"}
    machine = join(world, kubelet=paths)
    machine.write_settings(HEADER + to_yaml({"refresh": {"restartKubelet": True}}), "config.yaml.d/10.yaml")
    machine.unit().joined()
    machine.write_settings("damaged")
    machine.set_credential("node-bootstrap.config", "damaged, too")
    cluster.bundle = [cluster.ca.pem, pki.CA("second").pem]
    run = refresh(machine).joined()
    assert "the CA file holds 2 CAs" in run.stderr and machine.target(RESTART).exists()
    assert machine.read("etc/kubernetes/pki/other.crt") == b"".join(cluster.bundle).decode()


def test_a_timer_refreshes_once_a_day(world, server):
    machine = join(world)
    mark, timer = machine.target(MARK), {"TRIGGER_UNIT": "node-bootstrap-refresh.timer"}
    assert not mark.exists()
    machine.unit("--refresh", environment=timer).joined()
    assert not server.requests, "the timer runs on, but the settings no longer ask for it"
    machine.write_settings(HEADER + to_yaml({"refresh": {"automatic": True}}), "config.yaml.d/10.yaml")
    machine.unit().joined()
    begin = mark.stat().st_mtime
    for age, is_due in ((0, False), (23 * HOUR, False), (23.6 * HOUR, True), (-HOUR, True)):
        os.utime(mark, (0, begin - age))
        server.requests.clear()
        machine.unit("--refresh", environment=timer).joined()
        assert bool(server.requests) == is_due and (mark.stat().st_mtime >= int(begin)) == (is_due or age <= 0), age
    server.requests.clear()
    refresh(machine).joined()
    assert server.requests, "by hand, it refreshes at any time"
    machine.write_settings(HEADER, "config.yaml.d/10.yaml")
    machine.unit().joined()
    assert not mark.exists()


def test_status_tells_of_it(world, cluster):
    machine = join(world)
    assert "Refreshed" not in machine.status().stdout
    cluster.bundle.append(pki.CA("second").pem)
    refresh(machine).joined()
    assert f"Refreshed: {record(machine)['refreshedAt']}" in status(machine).joined().stdout


# One that does not prove good, or says nothing.

def leaf_in_bundle(world):
    world.cluster.bundle.append(world.cluster.ca.serving().chain)


def replaced_in_one_step(world):
    world.cluster.bundle = [pki.CA("kubernetes").pem]


def dead_server(world):
    world.cluster.server = f"https://{faults.dead_endpoint()}"


def server_of_another_ca(world):
    world.cluster.server = world.endpoint(identity=pki.CA("other").serving()).url


def server_of_another_cluster_with_the_same_ca(world):
    other = apiserver.Cluster(ca=world.cluster.ca, tokens=world.cluster.tokens)
    other.bundle.append(pki.CA("of the other one").pem)
    world.cluster.server = world.endpoint(other).url


def bundle_that_does_not_verify_the_server(world):
    world.cluster.bundle = [pki.CA("renamed", key=world.cluster.ca.key).pem]


def impostor(world):
    world.server.identity = pki.CA("kubernetes").serving()
    world.cluster.bundle.append(pki.CA("hostile").pem)


def answer(*arguments):
    return lambda world: world.server.on("cluster-info", lambda request: apiserver.status(*arguments))


def kubeconfig(text):
    def change(world):
        world.cluster.kubeconfig = text
    return change


def users(world):
    world.cluster.kubeconfig = lambda url: apiserver.kubeconfig(
        url, world.cluster.ca.pem, tail="kind: Config\nusers:\n- name: a\n  user: {exec: {command: sh}}\n")


BAD = {
    "a new CA in one step": (replaced_in_one_step, "refresh-unproven"),
    "a certificate that is no CA": (leaf_in_bundle, "refresh-unproven"),
    "a server that is not there": (dead_server, "refresh-unfinished"),
    "a server that another CA vouches for": (server_of_another_ca, "tls-untrusted"),
    "a server that shows another cluster-info": (server_of_another_cluster_with_the_same_ca, "refresh-unproven"),
    "a bundle that does not verify the server": (bundle_that_does_not_verify_the_server, "tls-untrusted"),
    "somebody else in the server's place": (impostor, "tls-untrusted"),
    "a user entry": (users, "cluster-info-unacceptable"),
    "no kubeconfig": (kubeconfig("{}"), "cluster-info-unacceptable"),
    "a server that is not ready": (answer(503, "ServiceUnavailable", "wait"), "refresh-unfinished"),
    "an answer of nobody knows what": (answer(418, "Teapot", "short and stout"), "answer-malformed"),
}


@pytest.mark.parametrize("name", BAD)
def test_nothing_changes(world, name):
    change, code = BAD[name]
    machine = join(world)
    set_timeout(machine)
    before = contents(machine)
    change(world)
    refresh(machine).failed(code, int(FAILURES[code]["exit"]))
    assert contents(machine) == before
    assert not list(machine.state.iterdir())


@pytest.mark.parametrize("status", [(401, "Unauthorized", "Unauthorized"), (403, "Forbidden", "no"), (404, "NotFound", "none")], ids=lambda row: row[1])
def test_cluster_that_does_not_show_it(world, status):
    machine = join(world)
    before = contents(machine)
    answer(*status)(world)
    run = refresh(machine)
    assert run.exit == 0 and "nothing is refreshed: " in run.said and "cluster-info" in run.said
    assert contents(machine) == before and len(world.server.requests) == 1


# A machine for which there is nothing to do.

def edited(machine):
    machine.put(machine.KUBECONFIG, machine.read(machine.KUBECONFIG) + "# mine\n")


def embedded(machine):
    text = machine.read(machine.KUBECONFIG)
    machine.put(machine.KUBECONFIG, text.replace('certificate-authority: "/etc/kubernetes/pki/ca.crt"', "certificate-authority-data: \"QUJD\""))


NOTHING_TO_DO = {
    "no certificate": (lose_certificate, "this machine has not joined"),
    "a kubeconfig that somebody edited": (edited, "was not written by node-bootstrap"),
    "a kubeconfig with the CA in it": (embedded, "was not written by node-bootstrap"),
    "something else in the kubeconfig's place": (lambda machine: machine.put(machine.KUBECONFIG, "kind: KubeletConfiguration\n"), "kind: Config"),
}


@pytest.mark.parametrize("name", NOTHING_TO_DO)
def test_nothing_to_do(world, name):
    change, words = NOTHING_TO_DO[name]
    machine = join(world)
    change(machine)
    before = contents(machine)
    run = refresh(machine)
    assert run.exit == 0 and "nothing to refresh: " in run.said and words in run.said, run.said
    assert contents(machine) == before and world.server.requests == []


# The root side takes what the network side leaves for hostile.


def left(world, **changes):
    """A handoff that would be accepted, with these changes."""
    return json.dumps(refresh_handoff(world.machine, [world.cluster.ca.pem, pki.CA("new").pem], **changes))


def link(world):
    elsewhere = world.machine.path / "elsewhere"
    elsewhere.write_text(left(world))
    (world.machine.state / "refreshed.json").symlink_to(elsewhere)


def second_name(world):
    world.machine.put_state("refreshed.json", left(world))
    os.link(world.machine.state / "refreshed.json", world.machine.path / "elsewhere")


def text(make):
    return lambda world: world.machine.put_state("refreshed.json", make(world))


def changed(**changes):
    return text(lambda world: left(world, **changes))


def bundle(make):
    return text(lambda world: json.dumps(refresh_handoff(world.machine, make(world.cluster.ca))))


HOSTILE = {
    "a bundle without a CA that is trusted": (bundle(lambda ca: [pki.CA("kubernetes").pem]), "handoff-untrusted"),
    "a certificate that is no CA": (bundle(lambda ca: [ca.pem, ca.serving().chain]), "handoff-untrusted"),
    "a leaf with the trusted key": (bundle(lambda ca: [ca.serving().chain]), "handoff-untrusted"),
    "a bundle of nothing": (changed(ca=""), "handoff-malformed"),
    "a bundle that is none": (changed(ca="-----BEGIN CERTIFICATE-----\n"), "handoff-malformed"),
    "a private key in the bundle": (bundle(lambda ca: [ca.pem, pki.key_pem(pki.new_key())]), "handoff-malformed"),
    "more certificates than fit": (bundle(lambda ca: [ca.pem] + [pki.CA(str(i)).pem for i in range(32)]), "handoff-malformed"),
    "a server without TLS": (changed(server="http://10.0.0.1:6443"), "handoff-untrusted"),
    "a server with another line": (changed(server="https://10.0.0.1:6443\n    insecure-skip-tls-verify: true"), "handoff-untrusted"),
    "a proxy that is a command": (changed(proxyURL="exec://sh"), "handoff-untrusted"),
    "a name with a quote": (changed(tlsServerName='a"'), "handoff-untrusted"),
    "user entries": (changed(users=[{"name": "a", "user": {"exec": {"command": "sh"}}}]), "handoff-malformed"),
    "another version": (changed(version=2), "handoff-malformed"),
    "no JSON": (text(lambda world: "kind: Config\n"), "handoff-malformed"),
    "too much of it": (text(lambda world: left(world) + " " * (512 * 1024)), "handoff-malformed"),
    "a link": (link, "handoff-malformed"),
    "a second name": (second_name, "handoff-malformed"),
    "a FIFO": (lambda world: os.mkfifo(world.machine.state / "refreshed.json"), "handoff-malformed"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_note(world, name):
    leave, code = HOSTILE[name]
    machine = join(world)
    before = contents(machine)
    leave(world)
    run = install(machine)
    assert "PRIVATE KEY" not in run.stderr
    run.failed(code, int(FAILURES[code]["exit"]))
    assert contents(machine) == before
    assert not list(machine.state.iterdir()), "it is not looked at twice"


def test_note_for_a_machine_that_has_not_joined(world):
    machine = join(world)
    machine.put_state("refreshed.json", left(world))
    lose_certificate(machine)
    before = contents(machine)
    install(machine).joined()
    assert contents(machine) == before


def test_file_that_cannot_be_written(world, cluster):
    """All or nothing: the CA file is put back when the kubeconfig cannot be written."""
    machine = join(world)
    before = contents(machine)
    (machine.target(machine.KUBECONFIG).parent / ".kubelet.conf.tmp").mkdir()
    cluster.bundle.append(pki.CA("second").pem)
    cluster.server = world.endpoint().url
    refresh(machine).failed("target-unwritable", 73, machine.KUBECONFIG)
    assert contents(machine) == before


def test_ca_file_that_is_emptied_after_the_installer(world):
    """Without any CA, those of the system would be trusted."""
    machine = join(world)
    inspect(machine).joined()
    [path] = [path for path in machine.passed.files if path.endswith("ca.crt")]
    machine.passed.put(path, b"")
    connections = len(world.server.connections)
    ask(machine).joined()
    assert len(world.server.connections) == connections
    assert not list(machine.state.iterdir())


# At every step of the file system work of the root side.

def changed_cluster(world):
    """A handoff for another CA bundle and another server; (files before, files after)."""
    machine = join(world)
    machine.write_settings(HEADER + to_yaml({"refresh": {"restartKubelet": True}}), "config.yaml.d/10.yaml")
    machine.unit().joined()
    before = contents(machine)
    world.cluster.bundle.append(pki.CA("second").pem)
    world.cluster.server = world.endpoint().url
    inspect(machine).joined()
    ask(machine).joined()
    files = save(machine)
    traced_install(machine, world.strace).joined()
    after = contents(machine)
    assert {name for name in after if after[name] != before.get(name)} == {RESTART, machine.RECORD, machine.CA_FILE, machine.KUBECONFIG}
    return files, before, after


def traced_install(machine, program, inject=None):
    return traced(machine, program, "install", "--program=", f"--root={machine.root}", f"--config-directory={machine.etc}", "--refresh", inject=inject)


def without_record(found):
    return {name: text for name, text in found.items() if name != Machine.RECORD}


def test_installer_is_killed(world, strace):
    """Each file is the old one or the new one, no kubeconfig comes before its CA, and the next refresh does the rest."""
    machine, world.strace = world.machine, strace
    files, before, after = changed_cluster(world)
    found = set()
    for name, number in moments(machine):
        put_back(machine, files)
        run = traced_install(machine, strace, f"{name}:signal=KILL:when={number}")
        where = f"killed at {name} {number}"
        if run.exit == 0:
            continue        # the call was not reached this time
        is_new = []
        for path in (machine.RECORD, machine.CA_FILE, machine.KUBECONFIG):
            text = machine.target(path).read_bytes()
            assert path == machine.RECORD or text in (before[path], after[path]), where
            is_new.append(text != before[path])
        assert is_new == sorted(is_new, reverse=True), where
        found.add(tuple(is_new))
        TABLE["refresh", name][f"{sum(is_new)} of 3 files new"] += 1
        run = refresh(machine)
        assert run.exit == 0, f"{where}: {run.said}"
        assert without_record(contents(machine)) == without_record(after), where
        assert [record(machine)[key] for key in ("server", "ca")] == [json.loads(after[machine.RECORD])[key] for key in ("server", "ca")]
        assert list(machine.state.iterdir()) == [], where
    assert found == {(False, False, False), (True, False, False), (True, True, False), (True, True, True)}


def test_installer_meets_an_error(world, strace):
    """All or nothing, except for what the last directory sync did not confirm."""
    machine, world.strace = world.machine, strace
    files, before, after = changed_cluster(world)
    strikes = [(name, number) for name, number in points(machine) if name in ("renameat2", "fsync", "fchmod")]
    failed = 0
    for name, number in strikes:
        put_back(machine, files)
        run = traced_install(machine, strace, f"{name}:error=EIO:when={number}")
        if run.exit == 0:
            assert without_record(contents(machine)) == without_record(after), f"{name} {number}"
            continue
        run.failed("target-unwritable", 73)
        assert contents(machine) == before, f"{name} {number}"
        failed += 1
    assert failed > 8


def test_the_network_side_without_the_files_of_install(world):
    """It cannot read root's, so only a test comes here."""
    machine = join(world)
    inspect(machine).joined()
    machine.passed.entries = {key: entry for key, entry in machine.passed.entries.items() if key[0] == machine.passed.PLAN}
    ask(machine).failed("installed-unreadable", 74, "kubelet.conf")
