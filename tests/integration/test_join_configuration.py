# SPDX-License-Identifier: Apache-2.0
"""kubeadm's JoinConfiguration instead of settings, as a file and as a credential, with all three commands."""

import re

import pytest
import yaml

from common import apiserver, pki
from common.machine import HEADER, NODE, SECRET, TOKEN, TOKEN_ID, Machine, to_yaml
from .join_configuration import FLAGS, OTHER, OTHER_ID, OTHER_SECRET, Row, as_credential, as_file, document

VERSIONS = ["v1beta2", "v1beta3", "v1beta4"]
SOCKET = "unix:///run/containerd/containerd.sock"
TAINTS = [{"key": "example.org/gpu", "value": "a100", "effect": "NoSchedule"}, {"key": "maintenance", "effect": "NoExecute"}]
CLUSTER_CONFIGURATION = "apiVersion: kubeadm.k8s.io/v1beta3\nkind: ClusterConfiguration\nkubernetesVersion: v1.30.0\n"
KUBELET_CONFIGURATION = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nfailSwapOn: false\n"


def of(version, **options):
    return lambda world: document(world, version, **options)


def by_token(world, run):
    assert world.request()["username"] == "system:bootstrap:" + TOKEN_ID
    assert world.server.kinds == ["cluster-info", "create", "watch"]
    assert world.installed_cas() == [world.cluster.ca.pin]
    said_once(world, None)


def said_once(world, run, *ignored):
    """One line of the whole unit lists the ignored keys."""
    lines = [line for one in world.machine.runs for line in one.lines if "keys that are for other phases" in line]
    assert len(lines) == bool(ignored)
    assert all(key in lines[0] for key in ignored)


def ignores(*keys):
    return lambda world, run: said_once(world, run, *keys)


def flags(*arguments):
    """Checks that kubeadm-flags.env has these and the node name, and nothing else."""
    def check(world, run):
        [found] = re.findall(r'\AKUBELET_KUBEADM_ARGS="(.*)"\n\Z', world.machine.read(FLAGS))
        assert sorted(found.split()) == sorted([*arguments, f"--hostname-override={NODE}"])
        assert world.machine.target_names()[FLAGS] == 0o644
    return check


def extra_args(version, **arguments):
    return [{"name": name, "value": value} for name, value in arguments.items()] if version == "v1beta4" else arguments


def registered(version):
    arguments = extra_args(version, **{"node-labels": "pool=gpu", "v": "4"})
    return of(version, registration={"criSocket": SOCKET, "taints": TAINTS, "kubeletExtraArgs": arguments})


REGISTERED = flags(f"--container-runtime-endpoint={SOCKET}", "--node-labels=pool=gpu",
                   "--register-with-taints=example.org/gpu=a100:NoSchedule,maintenance:NoExecute", "--v=4")


def two_tokens(world):
    world.machine.secrets.append(OTHER_SECRET)
    world.cluster.tokens = {TOKEN_ID: apiserver.Token(SECRET, may=()), OTHER_ID: apiserver.Token(OTHER_SECRET, signs=False)}
    discovery = yaml.safe_load(document(world))["discovery"]
    return document(world, discovery={**discovery, "tlsBootstrapToken": OTHER})


def by_two_tokens(world, run):
    assert world.request()["username"] == "system:bootstrap:" + OTHER_ID


def by_file(world):
    """File discovery, with a token for the request."""
    path = world.give("cluster.conf", world.document())
    return document(world, discovery={"file": {"kubeConfigPath": path}, "tlsBootstrapToken": TOKEN, "timeout": "80s"})


def weaker_than_a_credential(world):
    """The cluster does not know the token in the document."""
    world.machine.secrets.append(OTHER_SECRET)
    text = document(world, token=OTHER)
    world.machine.set_credential("token", TOKEN)
    return text


def among_others(world):
    return f"{CLUSTER_CONFIGURATION}---\n{document(world)}---\n{KUBELET_CONFIGURATION}"


def with_ignored_keys(world):
    return document(world, "v1beta4", registration={"imagePullPolicy": "IfNotPresent", "ignorePreflightErrors": ["Swap"]}, dryRun=False,
                    skipPhases=["preflight"], patches={"directory": "/etc/patches"})


def beside_our_own(world):
    """config.yaml.d wins, key by key."""
    folder = world.machine.etc / "config.yaml.d"
    folder.mkdir()
    (folder / "10.yaml").write_text(HEADER + to_yaml({"kubelet": {"caFile": "/etc/kubernetes/other.crt"}}))
    return document(world, caCertPath="/etc/kubernetes/pki/ca.crt")


def ca_elsewhere(world, run):
    names = world.machine.target_names()
    assert "etc/kubernetes/other.crt" in names and Machine.CA_FILE not in names


def with_repeated_names(world):
    arguments = (("v", "4"), ("node-labels", "pool=gpu"), ("v", "10"), ("node-labels", "a=b"), ("v", "4"))
    return document(world, "v1beta4", registration={"kubeletExtraArgs": [{"name": name, "value": value} for name, value in arguments]})


def keeps_repeated_names(world, run):
    """In kubeadm's order, by name and value."""
    said = "\n".join(run.stderr for run in world.machine.runs)
    assert " --node-labels=a=b --node-labels=pool=gpu --v=10 --v=4" in world.machine.read(FLAGS)
    assert "kubelet.extraArgs: 'v' is there more than once" in said and "'node-labels' is there" not in said


GOOD = [
    *(Row(f"{version} as a file", as_file(of(version)), None, 0, check=by_token) for version in VERSIONS),
    *(Row(f"{version} as a credential", as_credential(of(version)), None, 0, check=by_token) for version in VERSIONS),
    *(Row(f"what kubelet registers with, {version}", as_file(registered(version)), None, 0, check=REGISTERED) for version in VERSIONS),
    Row("arguments whose names repeat", as_file(with_repeated_names), None, 0, check=keeps_repeated_names),
    Row("no taints", as_file(of("v1beta4", registration={"taints": []})), None, 0, check=by_token),
    Row("a socket without a scheme", as_file(of("v1beta2", registration={"criSocket": "/run/crio/crio.sock"})), None, 0,
        check=flags("--container-runtime-endpoint=unix:///run/crio/crio.sock")),
    Row("another token for the request", as_file(two_tokens), None, 0, check=by_two_tokens),
    Row("a discovery file", as_file(by_file), None, 0, check=by_token),
    Row("a discovery file, as a credential", as_credential(by_file), None, 0, check=by_token),
    Row("a credential is stronger than its token", as_file(weaker_than_a_credential), None, 0, check=by_token),
    Row("with other documents", as_file(among_others), None, 0, check=ignores("ClusterConfiguration", "KubeletConfiguration")),
    Row("keys of other phases", as_file(with_ignored_keys), None, 0, check=ignores("imagePullPolicy", "ignorePreflightErrors", "skipPhases", "patches")),
    Row("with a NodeBootstrap drop-in", as_file(beside_our_own), None, 0, check=ca_elsewhere),
]


def with_endpoints(world):
    folder = world.machine.etc / "config.yaml.d"
    folder.mkdir()
    (folder / "10.yaml").write_text(HEADER + to_yaml({"discovery": {"endpoints": [world.server.endpoint]}}))
    return by_file(world)


def malformed_token(world):
    world.machine.secrets.append("ABCDEF0123456789")
    return document(world, token="abcdef.ABCDEF0123456789")


def other_token(world):
    world.machine.secrets.append(OTHER_SECRET)
    return document(world, token=f"{TOKEN_ID}.{OTHER_SECRET}", timeout="8s")


INVALID = ("settings-invalid", 78)
REFUSED = [
    Row("other users can read the token", as_file(of("v1beta3"), 0o644), "token-exposed", 78, "config.yaml", requests=[]),
    Row("a control plane node", as_file(of("v1beta3", controlPlane={"localAPIEndpoint": {"advertiseAddress": "192.0.2.1"}})), *INVALID,
        "controlPlane", requests=[]),
    Row("an unknown key", as_file(of("v1beta3", podSubnet="10.0.0.0/8")), *INVALID, "unknown key (9 characters)", requests=[]),
    Row("timeouts of another version", as_file(of("v1beta3", timeouts={"discovery": "5m"})), *INVALID, "timeouts", requests=[]),
    Row("two JoinConfigurations", as_file(lambda world: f"{document(world)}---\n{document(world)}"), *INVALID, "second", requests=[]),
    Row("with a document that kubeadm does not know", as_file(lambda world: f"{document(world)}---\n{HEADER}"), *INVALID, requests=[]),
    Row("version v1beta1", as_file(of("v1beta1")), *INVALID, "apiVersion: expected kubeadm.k8s.io/v1beta2, v1beta3 or v1beta4", "found 22 characters", requests=[]),
    Row("a malformed token", as_file(malformed_token), "token-malformed", 65, requests=[]),
    Row("a token with another secret", as_file(other_token), "signature-invalid", 76),
    Row("file and endpoints", as_file(with_endpoints), *INVALID, "discovery.endpoints in", "discovery.file in", "10.yaml", "config.yaml", requests=[]),
]


@pytest.mark.parametrize("case", GOOD)
def test_joined(played, case):
    played(case)


@pytest.mark.parametrize("case", REFUSED)
def test_refused(played, case):
    played(case)


def test_pin_holds(tmp_path):
    """The hash is only in the document."""
    world = Row.world(tmp_path)
    try:
        as_file(of("v1beta4"))(world)
        world.cluster.bundle = [pki.CA().pem]
        world.configure()
        world.machine.unit().failed("ca-pin-mismatch", 76)
        assert world.csrs() == []
    finally:
        world.close()
    world.check()
