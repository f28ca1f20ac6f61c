# SPDX-License-Identifier: Apache-2.0
"""What is lost or damaged beside a valid certificate is written again from the record of the join, without token and network: the
kubeconfig, the link of kubelet's certificate store, and the other files of the join."""

import json
import os

import pytest

from common import pki
from common.machine import HEADER, Machine, to_yaml
from .crash import points, put_back, save, traced
from .installed import FLAGS, INSTANCE, contents, snapshot, status
from .k3s_joined import CERTIFICATE, CLIENT_CA, KEY, RESTART, SERVING, OldWorld, joined_long_ago, pair, refresh
from .kubelet_config import CONFIG, config_map

OLD = Machine.KUBECONFIG + ".old"
LOST = {"missing": None, "empty": b"", "zeros of a power cut": b"\0" * 512, "cut short": b"apiVersion: v1\nkind: Config\nclusters:\n- name: def",
        "cut within a line": b"apiVersion: v1\nki", "without its user": b"apiVersion: v1\nkind: Config\nclusters: []\n", "no text": bytes(range(256)),
        "names another file": b"kind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {user: b}}]\nusers: [{name: b, user: {client-certificate: /x}}]\n"}


def lose(machine, damage, path=Machine.KUBECONFIG):
    machine.target(path).unlink()
    if damage is not None:
        machine.put(path, damage)


def joined(world, **settings):
    """A machine that has joined, whose token and cluster are gone."""
    if settings:
        world.machine.write_settings(HEADER + to_yaml(settings), "config.yaml.d/10.yaml")
    world.machine.unit().joined()
    (world.machine.credentials / "node-bootstrap.token").unlink()
    world.server.requests.clear()
    return world.machine


@pytest.mark.parametrize("how", [(), ("--reload",), ("--refresh",)], ids=["start", "reload", "refresh"])
@pytest.mark.parametrize("damage", LOST)
def test_restored(world, damage, how):
    machine = joined(world)
    before = contents(machine)
    lose(machine, LOST[damage])
    run = machine.install(*how).joined()
    after = contents(machine)
    assert "was written again" in run.stderr and after.pop(OLD, b"") == (LOST[damage] or b"")
    assert after == before and machine.target(Machine.KUBECONFIG).stat().st_mode & 0o777 == 0o600
    assert world.server.requests == [] and "joining again" not in run.stderr
    assert "was written again" not in machine.install(*how).joined().stderr


FILES = [Machine.KUBECONFIG, Machine.CA_FILE, Machine.CURRENT, Machine.ENV, FLAGS, INSTANCE]
DAMAGES = {"deleted": None, "emptied": b"", "zeros of a power cut": bytes(512), "damaged": b"damaged"}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("path", FILES)
def test_each_file(world, path, damage):
    """Another program's arguments and endpoint look the same as damaged ones, so they stay."""
    machine = joined(world)
    before = contents(machine)
    lose(machine, DAMAGES[damage], path)
    if damage == "damaged" and path in (FLAGS, INSTANCE):
        before[path] = DAMAGES[damage]
    run = machine.install().joined()
    after = contents(machine)
    after.pop(f"{path}.old", None)
    assert after == before and world.server.requests == [] and "joining again" not in run.stderr
    files = snapshot(machine.root)
    machine.install().joined()
    assert snapshot(machine.root) == files


@pytest.fixture
def k3s(tmp_path):
    world = OldWorld(tmp_path)
    yield world
    world.close()
    world.check()


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("path", [CLIENT_CA, CERTIFICATE, KEY])
def test_each_file_of_k3s(k3s, path, damage):
    """What is not PEM is nobody's."""
    machine = joined_long_ago(k3s, days=0)
    before = contents(machine)
    lose(machine, DAMAGES[damage], path)
    run = machine.install().joined()
    after = contents(machine)
    after.pop(f"{path}.old", None)
    assert after == before and k3s.server.requests == [] and f"'/{path}' was written again" in run.stderr
    assert "it is renewed from" in refresh(machine).stderr


@pytest.mark.parametrize("damage", DAMAGES)
def test_serving_certificate_of_k3s(k3s, damage):
    """Only the supervisor has another one: the next refresh renews it, and with it kubelet's certificate."""
    machine = joined_long_ago(k3s, days=0)
    lose(machine, DAMAGES[damage], SERVING)
    before = contents(machine)
    machine.install().joined()
    assert contents(machine) == before and machine.gate().exit == 0
    run = refresh(machine).joined()
    assert f"serving certificate '/{SERVING}' is lost or damaged" in run.stderr and "was renewed by the supervisor" in run.stderr
    pair(machine)
    assert machine.read(RESTART) and "it is renewed from" in refresh(machine).stderr


@pytest.mark.parametrize("damage", DAMAGES)
def test_certificate(world, damage):
    """Its key is nowhere else: the machine joins again, for which it needs a token."""
    machine = world.machine
    machine.unit().joined()
    [path] = [path for path in machine.target_names() if path.startswith(Machine.PKI + "/kubelet-client-2")]
    lose(machine, DAMAGES[damage], path)
    before = contents(machine)
    token = machine.credentials / "node-bootstrap.token"
    token.rename(machine.path / "token")
    machine.unit().failed("token-missing", 66)
    assert contents(machine) == before and machine.gate().exit == 1
    found = json.loads(status(machine, "--json").stdout)
    assert (found["state"], found["code"], found["joined"]) == ("unusable", "join-needed", False) and f"{machine.root}/{Machine.CURRENT}" in found["message"]
    (machine.path / "token").rename(token)
    assert "joining again" in machine.unit().joined().stderr and machine.gate().exit == 0


@pytest.mark.parametrize("damage", DAMAGES)
def test_configuration_of_kubelet(world, damage):
    """A missing one is read from the cluster. Any other one is the administrator's: kubelet refuses it, and `status` repeats kubelet's words."""
    world.server.on("other", lambda request: config_map())
    machine = joined(world, kubelet={"configFrom": "cluster"})
    before = contents(machine)
    lose(machine, DAMAGES[damage], CONFIG)
    machine.unit().joined()
    assert contents(machine) == (before if DAMAGES[damage] is None else {**before, CONFIG: DAMAGES[damage]})
    assert bool(world.server.requests) is (DAMAGES[damage] is None)


@pytest.mark.parametrize("damage", DAMAGES)
def test_record(world, damage):
    """Nothing can be written without it, and nothing is changed."""
    machine = joined(world)
    lose(machine, DAMAGES[damage], Machine.RECORD)
    before = contents(machine)
    machine.install().joined()
    assert contents(machine) == before and machine.gate().exit == 0


def test_ca_file_of_an_administrator(world):
    """It is written again as it was last seen: a CA that somebody has removed does not come back."""
    machine = joined(world)
    new = pki.CA("kubernetes").pem.decode()
    for text in (machine.read(Machine.CA_FILE) + new, "# only the new one\n" + new):
        machine.put(Machine.CA_FILE, text, 0o644)
        machine.install().joined()
        assert machine.read(Machine.CA_FILE) == text
        machine.target(Machine.CA_FILE).unlink()
        machine.install().joined()
        assert machine.read(Machine.CA_FILE) == text.removeprefix("# only the new one\n")


def leads_nowhere(machine):
    machine.target(Machine.CURRENT).symlink_to("nowhere.pem")


def renewed_and_empty(machine):
    """As after a power cut."""
    machine.put(Machine.PKI + "/renewed.pem", "")
    machine.target(Machine.CURRENT).symlink_to("renewed.pem")


@pytest.mark.parametrize("how", [(), ("--reload",), ("--refresh",)], ids=["start", "reload", "refresh"])
@pytest.mark.parametrize("damage", [lambda machine: None, leads_nowhere, renewed_and_empty], ids=["missing", "leads nowhere", "renewed and empty"])
def test_link_of_the_store(world, damage, how):
    """It leads to the certificate of the join again, and nothing else changes."""
    machine = joined(world)
    before = contents(machine)
    machine.target(Machine.CURRENT).unlink()
    damage(machine)
    assert machine.gate().exit == 1
    run = machine.install(*how).joined()
    after = contents(machine)
    after.pop(Machine.PKI + "/renewed.pem", None)
    assert after == before and machine.gate().exit == 0 and world.server.requests == [] and "joining again" not in run.stderr


def test_name_and_proxy_of_the_server(world):
    """The record holds all that the kubeconfig says."""
    machine = joined(world)
    record = json.loads(machine.read(Machine.RECORD))
    record.update(tlsServerName="api.example", proxyURL="http://192.0.2.1:3128")
    machine.put(Machine.RECORD, json.dumps(record), 0o644)
    lose(machine, None)
    machine.install().joined()
    text = machine.read(Machine.KUBECONFIG)
    assert 'tls-server-name: "api.example"' in text and 'proxy-url: "http://192.0.2.1:3128"' in text


def no_record(machine):
    machine.target(Machine.RECORD).unlink()


def broken_record(machine):
    machine.put(Machine.RECORD, "{", 0o644)


@pytest.mark.parametrize("spoil", [no_record, broken_record])
def test_joins_again_under_its_own_name(world, spoil):
    """What is needed for the kubeconfig is gone too. Its own Node is no reason to wait."""
    world.machine.unit().joined()
    lose(world.machine, None)
    spoil(world.machine)
    run = world.machine.inspect().joined()
    assert run.note["verdict"] == "without-kubeconfig"
    world.machine.install("--reload").failed("join-needed", 75)
    assert not world.machine.target(Machine.KUBECONFIG).exists()
    world.machine.unit().joined()


@pytest.mark.parametrize("settings, verdict", [({"node": {"name": "node-2"}}, "other-node"), ({"discovery": {"caCertHashes": [pki.CA("another").pin]}}, "other-cluster")],
                         ids=["node", "cluster"])
def test_certificate_for_something_else(world, settings, verdict):
    """It is the fallback if the next join fails, and kubelet needs a kubeconfig to use it."""
    machine = joined(world)
    machine.write_settings(HEADER + to_yaml(settings), "config.yaml.d/10.yaml")
    text = machine.read(Machine.KUBECONFIG)
    lose(machine, None)
    note = machine.inspect(is_metadata_read=False).note
    assert note == {**note, "verdict": verdict, "fallback": True}
    assert machine.read(Machine.KUBECONFIG) == text


def test_expired(world):
    machine = joined(world)
    pem = world.cluster.ca.node(start=-pki.DAY, end=-pki.HOUR).combined
    machine.target(Machine.CURRENT).unlink()
    machine.put(Machine.PKI + "/old.pem", pem)
    machine.target(Machine.CURRENT).symlink_to(f"/{Machine.PKI}/old.pem")
    lose(machine, None)
    machine.install("--reload").failed("join-needed", 75)


@pytest.mark.parametrize("text", ["kind: Pod\n", "apiVersion: apps/v1\nkind: Deployment\n"])
def test_other_document(world, text):
    """It has been put there by mistake, or the settings name it by mistake."""
    machine = joined(world)
    lose(machine, text.encode())
    machine.install("--reload").failed("target-not-kubeconfig", 73)
    assert machine.read(Machine.KUBECONFIG) == text and OLD not in machine.target_names()


@pytest.mark.parametrize("make", [lambda path: path.mkdir(), os.mkfifo], ids=["directory", "FIFO"])
def test_no_regular_file(world, make):
    """The remedy: once it is moved away, the kubeconfig is written again."""
    machine = joined(world)
    before = contents(machine)
    path = machine.target(Machine.KUBECONFIG)
    path.unlink()
    make(path)
    machine.install().failed("target-not-kubeconfig", 73, f"'/{Machine.KUBECONFIG}' is not a regular file")
    assert machine.gate().exit == 1
    path.rename(machine.path / "away")
    machine.install().joined()
    assert contents(machine) == before and machine.gate().exit == 0 and world.server.requests == []


def test_damaged_file_that_the_join_did_not_write(world):
    """The settings name another path by now."""
    machine = joined(world)
    other = "etc/kubernetes/other"
    machine.write_settings(HEADER + to_yaml({"kubelet": {"kubeconfig": "/" + other}}), "config.yaml.d/10.yaml")
    machine.put(other, "root:x:0:0\n")
    machine.unit().joined()
    assert machine.read(other) == "root:x:0:0\n"


def test_clock_is_wrong(world):
    machine = joined(world)
    lose(machine, None)
    machine.start("install", *machine.install_words("--program=", "--reload"), faketime="-3650d").wait().joined()
    assert machine.target(Machine.KUBECONFIG).exists()


def test_killed(world, strace):
    machine = joined(world)
    before = contents(machine)
    lose(machine, b"damaged: [")
    files = save(machine)
    words = machine.install_words("--program=", "--reload")
    traced(machine, strace, "install", *words).joined()
    for name, number in points(machine):
        put_back(machine, files)
        traced(machine, strace, "install", *words, inject=f"{name}:signal=KILL:when={number}")
        machine.install("--reload").joined()
        after = contents(machine)
        assert after.pop(OLD) == b"damaged: [" and after == before, f"killed at {name} {number}"


@pytest.mark.parametrize("error", ["ENOSPC", "EROFS"])
def test_error(world, strace, error):
    machine = joined(world)
    before = contents(machine)
    lose(machine, b"damaged: [")
    files = save(machine)
    words = machine.install_words("--program=", "--reload")
    traced(machine, strace, "install", *words).joined()
    for name, number in points(machine):
        if name.startswith(("rename", "fsync", "fchmod")):
            put_back(machine, files)
            run = traced(machine, strace, "install", *words, inject=f"{name}:error={error}:when={number}")
            assert run.exit == 0 or machine.read(Machine.KUBECONFIG) == "damaged: [", f"{error} at {name} {number}: {run.stderr}"
            machine.install("--reload").joined()
            after = contents(machine)
            after.pop(OLD)
            assert after == before
