# SPDX-License-Identifier: Apache-2.0
"""node-bootstrap setup on a machine that has joined: the same cluster is left alone, another one is a conflict."""

import hashlib
import json

import pytest

from common.failures import FAILURES
from common.machine import HEADER, NODE, TOKEN, Machine
from .joined_machine import PIN, RECORD, JoinedMachine
from .manager import Manager

OTHER = "ghijkl.fedcba9876543210"
OTHER_CLUSTER = f"10.0.0.1:6443 --token {TOKEN} --ca-cert-hash {PIN}"

K3S = "K10@K3S@::node:0123456789abcdef"

# name, words, whether that is the cluster that the machine has joined
SAME = [
    ("its pin", "10.0.0.9 --token @OTHER@ --ca-cert-hash @PIN@", True),
    ("its pin and another", f"10.0.0.9 --token @OTHER@ --ca-cert-hash @PIN@,{PIN}", True),
    ("the hash in a token of k3s", f"10.0.0.9 --token {K3S}", True),
    ("a token alone", "--token @OTHER@", True),
    ("a server, without a pin", "10.0.0.1:6443 --token @OTHER@ --discovery-token-unsafe-skip-ca-verification", False),
    ("another hash in a token of k3s", f"10.0.0.1 --token K10{64 * 'a'}::node:0123456789abcdef", False),
    ("the name of the node", f"10.0.0.9 --token @OTHER@ --ca-cert-hash @PIN@ --node-name {NODE}", False),
    ("another node name", "10.0.0.9 --token @OTHER@ --ca-cert-hash @PIN@ --node-name another", False),
    ("a socket that is not set", "10.0.0.9 --token @OTHER@ --ca-cert-hash @PIN@ --cri-socket unix:///run/c.sock", False),
    ("kubelet's configuration", "10.0.0.9 --token @OTHER@ --ca-cert-hash @PIN@ --kubelet-config-from=cluster", False),
    ("its pin, with force", "10.0.0.9 --token @OTHER@ --ca-cert-hash @PIN@ --force", False),
]


@pytest.fixture
def joined(tmp_path):
    return JoinedMachine(tmp_path)


@pytest.mark.parametrize("row", SAME, ids=[row[0] for row in SAME])
def test_joined_machine_is_left_alone(joined, row):
    _, words, is_same = row
    k3s = hashlib.sha256(joined.ca.pem).hexdigest()
    done = joined.setup(words.replace("@PIN@", joined.pin).replace("@OTHER@", OTHER).replace("@K3S@", k3s))
    assert done.returncode == 0, done.stdout + done.stderr
    assert ("already joined (" in done.stdout and "; nothing to write" in done.stdout) is is_same
    assert ("would write " in done.stdout) is not is_same, done.stdout
    assert "would enable   node-bootstrap.service\n" in done.stdout, "the service is not enabled"


ADDRESSES = 'discovery.endpoints: ["10.0.0.1:6443", "10.0.0.2:6443"] -> '
# On a machine that lists two API servers and its pin: name, words, what differs; "" if nothing does
ASKED = [
    ("the other API server", "10.0.0.2 --token @OTHER@ --ca-cert-hash @PIN@", ""),
    ("an API server, without a pin", "10.0.0.2 --token @OTHER@", ""),
    ("an API server that is not listed", "10.0.0.9 --token @OTHER@ --ca-cert-hash @PIN@", ADDRESSES + '["10.0.0.9:6443"]\n'),
    ("another port", "10.0.0.2:8443 --token @OTHER@ --ca-cert-hash @PIN@", ADDRESSES + '["10.0.0.2:8443"]\n'),
    ("a pin more", f"10.0.0.2 --token @OTHER@ --ca-cert-hash @PIN@,{PIN}", f'discovery.caCertHashes: ["@PIN@"] -> ["@PIN@", "{PIN}"]\n'),
    ("kubelet's configuration", "10.0.0.2 --token @OTHER@ --ca-cert-hash @PIN@ --kubelet-config-from=cluster", "kubelet.configFrom: (not set) -> cluster\n"),
    ("all settings", "--config=@CONFIG@", ADDRESSES + '["10.0.0.2:6443"]\nnode.taints: ["a=b:NoSchedule"] -> (not set)\n'),
]


@pytest.mark.parametrize("row", ASKED, ids=[row[0] for row in ASKED])
def test_what_is_asked_for_differs(joined, row):
    """A join command names one of several API servers, and is silent about taints. The token is written only with --force."""
    _, words, differences = row
    discovery = f"discovery: {{endpoints: [10.0.0.1, 10.0.0.2], caCertHashes: ['{joined.pin}']}}\n"
    joined.machine.put("etc/node-bootstrap/config.yaml.d/50-setup.yaml", HEADER + discovery + "node: {taints: ['a=b:NoSchedule']}\n")
    joined.machine.put("etc/join.yaml", HEADER + discovery.replace("10.0.0.1, ", "") + f"bootstrap: {{token: {OTHER}}}\n", 0o600)
    words = words.replace("@OTHER@", OTHER).replace("@PIN@", joined.pin).replace("@CONFIG@", "/etc/join.yaml")
    done = joined.setup(words)
    assert "already joined (" in done.stdout and "would write" not in done.stdout
    if not differences:
        assert done.returncode == 0 and "; nothing to write\n" in done.stdout and " -> " not in done.stdout, done.stderr
        return
    assert done.returncode == int(FAILURES["setup-conflict"]["exit"]) and "node-bootstrap: setup-conflict: " in done.stderr, done.stderr
    assert differences.replace("@PIN@", joined.pin) in done.stdout
    done = joined.setup(words + " --force")
    assert done.returncode == 0 and [line.split()[2] for line in done.stdout.splitlines() if line.startswith("would write")] == [
        "/etc/node-bootstrap/config.yaml.d/50-setup.yaml", "/etc/credstore/node-bootstrap.token"], done.stderr


FLAGS, NAME = "var/lib/kubelet/kubeadm-flags.env", f"--hostname-override={NODE}"
WRITES = f"node-bootstrap.service writes '/{FLAGS}' again; a running kubelet uses it after `systemctl restart kubelet.service`\n"
LEFT = f"'/{FLAGS}' has been changed since the join, so it stays as it is: add --v=4, and remove --v=2 in KUBELET_KUBEADM_ARGS, and run `systemctl restart kubelet.service`\n"
ONCE = "taints, labels and provider ID count only when kubelet creates the Node; change those of an existing Node with "
# On a machine that joined with --v=2: name, kubeadm-flags.env, the settings now, what is said
EFFECTS = [
    ("another argument", f"--v=2 {NAME}", "kubelet: {extraArgs: [v=4]}", [WRITES]),
    ("another argument, after somebody has changed the file", f"{NAME} --v=2 --b=1", "kubelet: {extraArgs: [v=4]}", [LEFT]),
    ("labels and taints", f"--v=2 {NAME}", "node: {taints: ['a=b:NoSchedule']}\nkubelet: {extraArgs: ['v=2', 'node-labels=c=d']}", [WRITES, ONCE]),
    ("another time limit", f"--v=2 {NAME}", "timeout: 5m\nkubelet: {extraArgs: [v=2]}", []),
]


@pytest.mark.parametrize("row", EFFECTS, ids=[row[0] for row in EFFECTS])
def test_what_other_settings_mean_to_kubelet(joined, row):
    _, arguments, settings, lines = row
    discovery = f"{HEADER}discovery: {{endpoints: [10.0.0.1], caCertHashes: ['{joined.pin}']}}\n"
    joined.machine.put(Machine.RECORD, json.dumps({**RECORD, "kubeletArguments": f"--v=2 {NAME}"}))
    joined.machine.put(FLAGS, f'KUBELET_KUBEADM_ARGS="{arguments}"\n')
    joined.machine.put("etc/node-bootstrap/config.yaml.d/50-setup.yaml", discovery + "kubelet: {extraArgs: [v=2]}\n")
    joined.machine.put("etc/join.yaml", discovery + settings + "\n", 0o600)
    manager = Manager(joined.machine.target("run/systemd"), {"node-bootstrap.service": {"ActiveState": "active", "UnitFileState": "enabled", "Job": (0, "/")}})
    done = joined.setup("--config=/etc/join.yaml --force")
    manager.close()
    assert done.returncode == 0, done.stderr
    assert [line for line in (WRITES, LEFT, ONCE) if line in done.stdout] == lines, done.stdout
    assert ("would reload   node-bootstrap.service\n" in done.stdout) == (WRITES in lines)


def test_enabled_service_of_a_joined_machine(joined):
    manager = Manager(joined.machine.target("run/systemd"), {"node-bootstrap.service": {"UnitFileState": "enabled"}})
    done = joined.setup(f"10.0.0.9 --token {OTHER} --ca-cert-hash {joined.pin}")
    assert done.returncode == 0 and "already joined (" in done.stdout and "would enable" not in done.stdout
    assert manager.calls == []
    manager.close()


def test_machine_joined_to_another_cluster(joined):
    done = joined.setup(OTHER_CLUSTER)
    assert done.returncode == int(FAILURES["setup-other-cluster"]["exit"]) and "node-bootstrap: setup-other-cluster: " in done.stderr
    assert "joined another cluster" in done.stderr and "node-bootstrap reset --all" in done.stderr and "--force" not in done.stderr
    assert "/etc/kubernetes/pki/ca.crt" in done.stdout and "would write" not in done.stdout
    done = joined.setup(OTHER_CLUSTER + " --force")
    assert done.returncode == 0 and "this machine has joined another cluster (" in done.stdout and "would write" in done.stdout


def test_certificate_that_kubelet_cannot_rotate(joined):
    """The service joins again at its next start, so the new token is needed."""
    path = joined.machine.target(Machine.CURRENT)
    pem = joined.machine.root.joinpath(str(path.readlink()).lstrip("/")).read_bytes()
    path.unlink()
    joined.machine.put(Machine.CURRENT, pem)
    done = joined.setup(f"10.0.0.9 --token {OTHER} --ca-cert-hash {joined.pin}")
    assert done.returncode == 0 and "already joined" not in done.stdout and "node-bootstrap.token (mode 0600" in done.stdout


def test_lost_kubeconfig_needs_no_token(joined):
    """The service writes it again."""
    joined.machine.target(Machine.KUBECONFIG).unlink()
    done = joined.setup(f"10.0.0.9 --token {OTHER} --ca-cert-hash {joined.pin}")
    assert done.returncode == 0 and "already joined (" in done.stdout


@pytest.mark.parametrize("what", [[Machine.CURRENT], [Machine.CA_FILE], [Machine.KUBECONFIG, Machine.RECORD], [Machine.KUBECONFIG, Machine.CA_FILE]])
def test_machine_with_half_of_a_credential_is_set_up(joined, what):
    for path in what:
        joined.machine.target(path).unlink()
    done = joined.setup(f"10.0.0.9 --token {OTHER} --ca-cert-hash {joined.pin}")
    assert done.returncode == 0 and "already joined" not in done.stdout and "node-bootstrap.token (mode 0600" in done.stdout


def test_machine_whose_certificate_has_expired_is_set_up(joined):
    done = joined.setup(f"10.0.0.9 --token {OTHER} --ca-cert-hash {joined.pin}", faketime="+400d")
    assert done.returncode == 0 and "already joined" not in done.stdout and "node-bootstrap.token (mode 0600" in done.stdout


@pytest.mark.parametrize("words", ["", "--json", f"10.0.0.1 --token {OTHER} --ca-cert-hash @PIN@"])
def test_changed_host_name_is_recorded_by_hand(joined, words):
    """Automation that repeats setup would turn a copy into the original."""
    joined.machine.put(Machine.RECORD, json.dumps({**RECORD, "hostName": "node-0"}))
    joined.machine.put("etc/node-bootstrap/config.yaml", f"{HEADER}discovery: {{endpoints: [10.0.0.1], caCertHashes: ['{joined.pin}']}}\ntoken: {{discard: true}}\n")
    done = joined.setup(words.replace("@PIN@", joined.pin))
    assert done.returncode == 0 and ("would record" in done.stdout + done.stderr) == (not words), done.stdout + done.stderr


def test_joined_machine_whose_token_was_discarded(joined):
    """It needs none, until it joins again."""
    joined.machine.put("etc/node-bootstrap/config.yaml", f"{HEADER}discovery: {{endpoints: [10.0.0.1], caCertHashes: ['{joined.pin}']}}\ntoken: {{discard: true}}\n")
    done = joined.setup("")
    assert done.returncode == 0 and "nothing to write" in done.stdout, done.stderr
    done = joined.setup("", faketime="+400d")
    assert done.returncode != 0 and "there is no credential 'node-bootstrap.token'" in done.stderr
