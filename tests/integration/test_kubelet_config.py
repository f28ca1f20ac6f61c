# SPDX-License-Identifier: Apache-2.0
"""kubelet.configFrom: cluster: what is requested and filtered once a machine has joined, and what the installer accepts."""

import json
import re

import pytest

from common import apiserver, endpoint, faults, pki
from common.machine import HEADER, NODE, find_program, to_yaml
from .attackers import FAST
from .installed import SERVER, contents
from .kubelet_config import CONFIG, FILTERED, KUBEADM, config_map

MAPS = "/api/v1/namespaces/kube-system/configmaps/"


def forbidden(name):
    return apiserver.status(403, "Forbidden", f'configmaps "{name}" is forbidden: User "{pki.node_user(NODE)}" cannot get resource "configmaps"')


def missing(name):
    return apiserver.status(404, "NotFound", f'configmaps "{name}" not found')


def wanted(world):
    world.machine.write_settings(HEADER + to_yaml({"kubelet": {"configFrom": "cluster"}}), "config.yaml.d/10.yaml")


def maps(answers, otherwise=missing, version="34"):
    """The cluster's answer by the name of the ConfigMap: 403, as from RBAC, if a Role names only one of them."""
    def prepare(world):
        wanted(world)

        def action(request):
            if request.path == "/version":
                return endpoint.Reply(200, json.dumps({"major": "1", "minor": version}).encode()) if version else apiserver.unauthorized()
            name = request.path.removeprefix(MAPS)
            answer = answers.get(name, otherwise)
            return answer(name) if callable(answer) else answer
        world.server.on("other", action)
        world.server.on("version", action)
    return prepare


def kubeadm_role(world):
    """RBAC lets the nodes read it, but not a bound token, nor one that has expired since."""
    wanted(world)
    world.server.on("other", lambda request: config_map() if request.user == pki.node_user(NODE) else forbidden("x"))


def requests(world):
    return [request for request in world.server.requests if request.kind in ("other", "version")]


def asked_as(*users):
    def check(world, run):
        assert [request.user for request in requests(world)] == list(users)
    return check


def asked(*names):
    def check(world, run):
        assert [request.path.rsplit("/")[-1] for request in requests(world)] == list(names)
    return check


def reduced_nothing(world, run):
    assert "ignored" not in run.stderr


def first(n, answer, then):
    """A different answer to the first requests."""
    count = iter(range(n))
    return lambda name: answer(name) if next(count, None) is not None else then


MISSING, REFUSED, BAD = "kubelet-config-missing", "kubelet-config-forbidden", "kubelet-config-unacceptable"
OLD = ["kubelet-config", "version", "kubelet-config-1.20", "kubelet-config-1.19", "kubelet-config-1.18"]


class Answer:
    """An answer of the cluster, and what the service then says: a code, or None if the file is there."""

    def __init__(self, name, prepare, code, *words, check=None):
        self.name, self.prepare, self.code, self.words, self.check = name, prepare, code, words, check


CASES = [
    Answer("there", maps({"kubelet-config": config_map(KUBEADM + "volumePluginDir: /x\n")}), None, "ignored: volumePluginDir", check=asked("kubelet-config")),
    Answer("kubeadm's folder of pods", maps({"kubelet-config": config_map()}), None, check=reduced_nothing),
    Answer("old cluster", maps({"kubelet-config-1.20": config_map(KUBEADM + "volumePluginDir: /x\n")}, forbidden, version="20"), None,
         "kubelet-config-1.20: ignored: volumePluginDir", check=asked(*OLD[:3])),
    Answer("old cluster with a version of its own", maps({"kubelet-config-1.20": config_map()}, forbidden, version="20+"), None, check=asked(*OLD[:3])),
    Answer("old cluster, its control plane is newer", maps({"kubelet-config-1.18": config_map()}, version="20"), None, check=asked(*OLD)),
    Answer("none", maps({}, version="20"), MISSING, "kube-system/kubelet-config at"),
    Answer("none, and no Role", maps({}, forbidden, version="20"), REFUSED, "kube-system/kubelet-config", "forbidden"),
    Answer("one that is there, and may not be read", maps({"kubelet-config": forbidden}, version="20"), MISSING),
    Answer("none, and the server does not tell its version", maps({}, version=None), MISSING),
    Answer("401", maps({"kubelet-config": lambda name: apiserver.unauthorized()}), REFUSED, "401"),
    Answer("kubeadm's Role, and a bound token", kubeadm_role, None, check=asked_as(pki.node_user(NODE))),
    Answer("503, then good", maps({"kubelet-config": first(2, lambda name: faults.UNAVAILABLE(None), config_map())}), None, "server-error"),
    Answer("none, then it is made", maps({"kubelet-config": first(1, missing, config_map())}, version="0"), None, "kubelet-config-missing"),
    Answer("no key kubelet", maps({"kubelet-config": config_map(data={"other": "x"})}), MISSING, "data.kubelet"),
    Answer("not a KubeletConfiguration", maps({"kubelet-config": config_map("kind: Config\n")}), BAD, "apiVersion"),
    Answer("AlwaysAllow", maps({"kubelet-config": config_map(KUBEADM.replace("Webhook", "AlwaysAllow"))}), BAD, "authorization.mode", "AlwaysAllow"),
    Answer("another type", maps({"kubelet-config": config_map(KUBEADM + "maxPods: many\n")}), BAD, ":11: maxPods"),
    Answer("too large", maps({"kubelet-config": config_map("#" * 300000)}), BAD),
    Answer("not JSON", maps({"kubelet-config": endpoint.Reply(200, b"pong")}), "answer-malformed"),
    Answer("web page", maps({"kubelet-config": lambda name: faults.PORTAL(None)}), "answer-malformed"),
]


def test_not_requested_by_default(world):
    world.machine.join().joined()
    assert world.server.seen("other") == [] and not (world.machine.state / "kubelet-config.yaml").exists()


def test_whole_unit(world):
    maps({"kubelet-config": config_map()})(world)
    world.machine.unit().joined()
    assert world.machine.read(CONFIG) == FILTERED and world.machine.target(CONFIG).stat().st_mode & 0o777 == 0o644
    assert list(world.machine.state.iterdir()) == []
    [request] = world.server.seen("other")
    assert request.user == pki.node_user(NODE)


def test_existing_file_stays(world):
    """The operator's file stays."""
    maps({"kubelet-config": config_map()})(world)
    world.machine.put(CONFIG, "mine", 0o644)
    world.machine.unit().joined()
    assert world.machine.read(CONFIG) == "mine"


def test_other_ca_file(world):
    wanted(world)
    maps({"kubelet-config": config_map()})(world)
    world.configure(kubelet={"caFile": "/etc/kubernetes/other.crt"})
    world.machine.unit().joined()
    assert 'clientCAFile: "/etc/kubernetes/other.crt"' in world.machine.read(CONFIG)


LIES = [
    ("static pods", FILTERED + "staticPodPath: /etc/kubernetes/manifests/\n", "handoff-untrusted", "staticPodPath"),
    ("anonymous requests", FILTERED.replace("enabled: false", "enabled: true"), "handoff-untrusted", "authentication.anonymous.enabled"),
    ("no authorization", FILTERED.replace("Webhook", "AlwaysAllow"), "handoff-untrusted", "authorization.mode"),
    ("a socket", FILTERED + 'containerRuntimeEndpoint: "unix:///tmp/x"\n', "handoff-untrusted", "containerRuntimeEndpoint"),
    ("another document", FILTERED + "---\nstaticPodPath: /tmp\n", "handoff-untrusted", "kubelet-config.yaml"),
    ("not YAML", "{", "handoff-untrusted", "kubelet-config.yaml"),
    ("too large", "#" * 300000, "handoff-malformed", "not a regular file of at most"),
]


@pytest.mark.parametrize("is_wanted", [False, True], ids=["by default", "configFrom: cluster"])
def test_join_leaves_none(world, is_wanted):
    """One that is beside the handoff is of no use, whatever the settings ask for."""
    if is_wanted:
        wanted(world)
    world.machine.put_handoff(world.cluster.ca, SERVER)
    world.machine.put_state("kubelet-config.yaml", FILTERED)
    world.machine.install().joined()
    assert not world.machine.target(CONFIG).exists() and list(world.machine.state.iterdir()) == []


# A machine that has joined, and whose config.yaml is missing.

@pytest.fixture
def joined(world):
    kubeadm_role(world)
    world.machine.unit().joined()
    (world.machine.credentials / "node-bootstrap.token").unlink()
    world.machine.target(CONFIG).unlink()
    world.server.requests.clear()
    world.before = contents(world.machine)
    return world


@pytest.mark.parametrize("case", CASES)
def test_answer(joined, case):
    machine = joined.machine
    joined.configure(timeout="3s" if case.code else "30s")
    case.prepare(joined)
    run = machine.unit().joined()
    assert not case.code or run.code == case.code, run.stderr
    for word in case.words:
        assert word in run.stderr
    assert machine.target(CONFIG).exists() == (not case.code) and (case.code or machine.read(CONFIG) == FILTERED)
    if case.check:
        case.check(joined, run)


def test_missing_file_is_fetched(joined):
    run = joined.machine.unit().joined()
    assert contents(joined.machine) == {**joined.before, CONFIG: FILTERED.encode()}
    assert joined.machine.target(CONFIG).stat().st_mode & 0o777 == 0o644 and list(joined.machine.state.iterdir()) == []
    assert [request.user for request in joined.server.requests] == [pki.node_user(NODE)]
    assert "was missing, and was read from the cluster" in run.stderr
    joined.machine.put(CONFIG, "mine", 0o644)
    joined.machine.unit().joined()
    assert joined.machine.read(CONFIG) == "mine" and len(joined.server.requests) == 1


def test_a_join_with_a_file_asks_for_no_config_map(world):
    maps({})(world)
    world.machine.put(CONFIG, "mine", 0o644)
    world.machine.unit().joined()
    assert world.machine.read(CONFIG) == "mine" and requests(world) == []


def test_missing_file_that_the_settings_do_not_want(joined):
    joined.machine.write_settings(HEADER + to_yaml({"kubelet": {"configFrom": "none"}}), "config.yaml.d/20.yaml")
    joined.machine.unit().joined()
    assert contents(joined.machine) == joined.before and joined.server.requests == []


def test_what_the_network_side_gets(joined):
    """Kubelet's certificate with its key, but neither the record nor a token."""
    machine = joined.machine
    machine.inspect()
    assert machine.arguments == ["refresh", "--kubelet-config"]
    assert {name.rsplit("/", 1)[-1] for name in machine.passed.files} == {"kubelet.conf", "ca.crt", "kubelet-client-current.pem"}


def role_is_missing(world):
    world.server.on("other", lambda request: forbidden("x"))


def certificate_is_revoked(world):
    world.server.on("other", lambda request: apiserver.unauthorized())


def other_kubeconfig(world):
    world.machine.put(world.machine.KUBECONFIG, world.machine.read(world.machine.KUBECONFIG) + "# mine\n")


def impostor(world):
    world.server.identity = pki.CA("kubernetes").serving()


def no_pods(world):
    world.server.on("other", lambda request: config_map(KUBEADM.replace("Webhook", "AlwaysAllow")))


UNFETCHED = {
    "no ConfigMap": (maps({}), "kubelet-config-missing"),
    "no Role": (role_is_missing, "kubelet-config-forbidden"),
    "401": (certificate_is_revoked, "kubelet-config-forbidden"),
    "AlwaysAllow": (no_pods, "kubelet-config-unacceptable"),
    "no server": (lambda world: world.server.close(), "endpoint-refused"),
    "another server": (impostor, "tls-untrusted"),
    "a kubeconfig that somebody edited": (other_kubeconfig, "kubelet-unprepared"),
}


@pytest.mark.parametrize("name", UNFETCHED)
def test_kubelet_starts_without_it(joined, name):
    change, code = UNFETCHED[name]
    joined.configure(timeout="3s")
    change(joined)
    before = contents(joined.machine)
    run = joined.machine.unit().joined()
    assert run.code == code and code in run.statuses[-1]
    # The record keeps the time limit for the refresh.
    assert contents(joined.machine) == {**before, joined.machine.RECORD: joined.machine.target(joined.machine.RECORD).read_bytes()} and list(joined.machine.state.iterdir()) == []


def test_later_start_waits_less(joined):
    """kubelet waits at each boot. Meanwhile, the state is that of a machine that has joined."""
    last = joined.machine.target("run/node-bootstrap/last.json")
    last.parent.mkdir(parents=True)
    joined.configure(timeout="1h")
    joined.server.on("other", faults.stall)
    run = joined.machine.start_unit(faketime=FAST)
    run.wait_for_status("Joined; reading kubelet's configuration")
    assert json.loads(last.read_text())["state"] == "kept"
    assert re.search(r"gave up after (10|[1-9]) s \(kubelet waits\)", run.wait().joined().stderr)


# A join has spent its token: nothing that follows can make it fail.

AFTER_A_JOIN = {
    "no ConfigMap": (maps({}), "kubelet-config-missing"),
    "no Role": (role_is_missing, "kubelet-config-forbidden"),
    "401": (certificate_is_revoked, "kubelet-config-forbidden"),
    "AlwaysAllow": (no_pods, "kubelet-config-unacceptable"),
    "not JSON": (lambda world: world.server.on("other", lambda request: endpoint.Reply(200, b"pong")), "answer-malformed"),
    "no answer": (lambda world: world.server.on("other", faults.stall), "endpoint-unreachable"),
}


@pytest.mark.parametrize("name", AFTER_A_JOIN)
def test_join_succeeds_without_it(world, name):
    change, code = AFTER_A_JOIN[name]
    wanted(world)
    change(world)
    world.configure(timeout="100s")
    world.machine.target("run/node-bootstrap").mkdir(parents=True)
    run = world.machine.unit(faketime=FAST).joined()
    assert run.code == code and code in run.statuses[-1] and world.server.kinds.count("create") == 1
    told = json.loads(world.machine.read("run/node-bootstrap/last.json"))
    assert (told["state"], told["code"]) == ("joined", code)
    assert world.machine.target(world.machine.KUBECONFIG).exists() and not world.machine.target(CONFIG).exists()
    assert list(world.machine.state.iterdir()) == []
    kubeadm_role(world)
    world.machine.unit().joined()
    assert world.machine.read(CONFIG) == FILTERED


def test_join_succeeds_though_the_second_child_is_killed(world):
    wanted(world)
    program = world.machine.path / "killed"
    program.write_text(f'#!/bin/sh\n[ "$1" = join ] && exec {find_program("node-bootstrap")} "$@"\nkill -9 $$\n')
    program.chmod(0o755)
    run = world.machine.start("install", *world.machine.install_words(f"--program={program}")).wait().joined()
    assert "was killed by signal 9" in run.stderr and world.machine.target(world.machine.KUBECONFIG).exists()


@pytest.mark.parametrize("text, code, word", [row[1:] for row in LIES], ids=[row[0] for row in LIES])
def test_hostile_refresh(joined, text, code, word):
    joined.machine.put_state("kubelet-config.yaml", text)
    run = joined.machine.install_left().joined()
    assert run.codes == [code] and word in run.stderr and contents(joined.machine) == joined.before


def test_hostile_refresh_cannot_replace_the_join(joined):
    machine = joined.machine
    machine.put_handoff(joined.cluster.ca, SERVER)
    machine.put_state("kubelet-config.yaml", FILTERED)
    machine.install_left().joined()
    assert contents(machine) == {**joined.before, CONFIG: FILTERED.encode()} and list(machine.state.iterdir()) == []


def test_ca_file_is_the_installers(joined):
    joined.machine.put_state("kubelet-config.yaml", FILTERED.replace("/etc/kubernetes/pki/ca.crt", "/var/lib/private/node-bootstrap/ca.crt"))
    joined.machine.install_left().joined()
    assert joined.machine.read(CONFIG) == FILTERED


def test_static_pods_of_the_machine(joined):
    """kubeadm's staticPodPath is never written, and is missed only where there are such pods."""
    machine = joined.machine
    machine.put("etc/kubernetes/manifests/.hidden", "")
    machine.put_state("kubelet-config.yaml", FILTERED + "staticPodPath: /etc/kubernetes/manifests\n")
    run = machine.install_left().joined()
    assert "static pods" not in run.stderr and machine.read(CONFIG) == FILTERED
    machine.target(CONFIG).unlink()
    machine.put("etc/kubernetes/manifests/pod.yaml", "")
    machine.put_state("kubelet-config.yaml", FILTERED)
    run = machine.install_left().joined()
    assert "kubelet will not run the static pods in '/etc/kubernetes/manifests'" in run.stderr


def test_link_instead_of_a_file(joined):
    (joined.machine.path / "secret").write_text(FILTERED)
    (joined.machine.state / "kubelet-config.yaml").symlink_to(joined.machine.path / "secret")
    run = joined.machine.install_left().joined()
    assert run.codes == ["handoff-malformed"] and "not a regular file" in run.stderr and contents(joined.machine) == joined.before


def test_refresh_that_is_killed(joined):
    program = joined.machine.path / "killed"
    program.write_text("#!/bin/sh\nkill -9 $$\n")
    program.chmod(0o755)
    run = joined.machine.start("install", *joined.machine.install_words(f"--program={program}")).wait().joined()
    assert "was killed by signal 9" in run.stderr and contents(joined.machine) == joined.before


def test_file_that_appears_meanwhile(joined):
    """Not replaced, whenever it appears."""
    joined.server.on("other", lambda request: (joined.machine.put(CONFIG, "mine", 0o644), config_map())[1])
    joined.machine.unit().joined()
    assert joined.machine.read(CONFIG) == "mine"
