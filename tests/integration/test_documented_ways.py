# SPDX-License-Identifier: Apache-2.0
"""Each join method as in its example in the manual, with the addresses and files of this cluster."""

import base64
import gzip
import os
import re
import subprocess
import sys

import pytest
import yaml

import apiserver
import faults
import k3s
import pki
import test_kubelet_config
import ways
from machine import HEADER, NODE, SECRET, SOURCE, TOKEN, TOKEN_ID, Machine, find_program

sys.path.insert(0, str(SOURCE / "tests"))
import documentation  # noqa: E402

PIN = "sha256:6d2a8f0d2a9c5a7c2f5f0e6d0f3b8e6b7f4a9c0d1e2f3a4b5c6d7e8f9a0b1c2d"
OTHER = "ghijkl.fedcba9876543210"
BEARER = "c2VydmljZS1hY2NvdW50" * 8
FLAGS = "var/lib/kubelet/kubeadm-flags.env"
LABELS, SOCKET, TAINT = "--node-labels=example.com/rack=r1", "--container-runtime-endpoint=unix:///run/containerd/containerd.sock", \
    "--register-with-taints=dedicated=gpu:NoSchedule"


def at(world, text):
    """The first endpoint is this cluster's, the others are dead."""
    first, *others = dict.fromkeys(re.findall(r"[\w.-]+:6443|\[[\w:]+\]:6443", text))
    for other in others:
        text = text.replace(other, faults.dead_endpoint())
    return text.replace(first, world.server.endpoint).replace(PIN, world.cluster.ca.pin)


def in_place(text, key, found):
    """Replaces the paths and addresses in the document; the rest stays unchanged."""
    changed, count = re.subn(rf"(^ *{key}: ).*", rf"\g<1>{found}", text, flags=re.M)
    assert count == 1, f"{key} is not in the example once"
    return changed


def requested_as(world, user):
    assert world.request()["username"] == user


def by_token(world, text):
    yield at(world, text)
    requested_as(world, f"system:bootstrap:{TOKEN_ID}")


def by_file(world, text):
    yield in_place(text, "file", world.give("cluster-info.yaml", world.document(), 0o644))
    requested_as(world, f"system:bootstrap:{TOKEN_ID}")


def by_url(world, text):
    web = world.endpoint(world.stranger())
    web.on("any", lambda request: faults.answer(world.document(), Content_Type="text/yaml")(request))
    path = re.search(r"file: https://[^/]+(/.*)", text)[1]
    text = in_place(text, "file", f"https://{web.endpoint}{path}").replace(PIN, world.cluster.ca.pin)
    yield in_place(text, "urlCAFile", world.give("web.pem", web.cluster.ca.pem, 0o644))
    assert [request.target for request in web.requests] == [path]


def by_kubeconfig(world, text):
    """A service account token, and no other credential."""
    user = "system:serviceaccount:kube-system:node-bootstrapper"
    world.cluster.bearers[BEARER], world.cluster.requesters[user] = user, ("system:serviceaccounts",)
    world.machine.secrets.append(BEARER)
    (world.machine.credentials / "node-bootstrap.token").unlink()
    first = text.index("kubeconfig: ")
    kubeconfig = world.give("bootstrap.conf", ways.bootstrap_kubeconfig(world.server.url, world.cluster.ca.pem, {"token": BEARER}))
    world.machine.secret_files.append(world.given / "bootstrap.conf")
    yield text[:first] + in_place(text[first:].split("\n", 1)[0], "kubeconfig", kubeconfig) + "\n" + text[first:].split("\n", 1)[1]
    requested_as(world, user)


def by_supervisor(world, text):
    yield at(world, text)
    assert world.csrs() == [] and len(world.server.seen("client-kubelet")) == 1


def by_csr_of_k3s(world, text):
    yield at(world, text)
    assert world.server.seen("client-kubelet") == [] and len(world.csrs()) == 1


def with_arguments(world, text):
    yield at(world, text)
    flags = world.machine.read(FLAGS)
    for argument in (LABELS, SOCKET, TAINT, f"--hostname-override={yaml.safe_load(text)['node']['name']}"):
        assert argument in flags


def configured(world, text):
    world.server.on("other", lambda request: test_kubelet_config.config_map())
    yield at(world, text)
    assert world.machine.read(test_kubelet_config.CONFIG) == test_kubelet_config.FILTERED


def anew(world, text):
    """Joined and reinstalled, while its Node is still Ready."""
    yield at(world, text)
    [name] = world.csrs()
    world.cluster.nodes[NODE] = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": NODE}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    world.machine.target(Machine.KUBECONFIG).unlink()
    world.machine.unit().joined()
    assert len(world.csrs()) == 2 and name in world.csrs()


def by_join_configuration(world, text):
    assert f"token: {TOKEN}\n" in text and f"tlsBootstrapToken: {OTHER}\n" in text
    for path in world.machine.credentials.iterdir():
        path.unlink()
    world.machine.secrets.append(OTHER.split(".")[1])
    world.machine.secret_files.append(world.machine.etc / "config.yaml")
    world.cluster.tokens = {TOKEN_ID: apiserver.Token(SECRET, may=()), OTHER.split(".")[0]: apiserver.Token(OTHER.split(".")[1], signs=False)}
    yield at(world, text)
    requested_as(world, f"system:bootstrap:{OTHER.split('.')[0]}")
    flags = world.machine.read(FLAGS)
    for argument in (LABELS, SOCKET, TAINT, f"--hostname-override={yaml.safe_load(text)['nodeRegistration']['name']}"):
        assert argument in flags


class K3sWorld(k3s.K3sWorld):
    request = ways.World.request


WAYS = {
    "token": (ways.World, by_token),
    "file": (ways.World, by_file),
    "url": (ways.World, by_url),
    "kubeconfig": (ways.World, by_kubeconfig),
    "k3s": (K3sWorld, by_supervisor),
    "k3s-csr": (K3sWorld, by_csr_of_k3s),
    "node": (ways.World, with_arguments),
    "config": (ways.World, configured),
    "node-anew": (ways.World, anew),
    "kubeadm": (ways.World, by_join_configuration),
}


def test_every_example_is_run_and_every_way_has_one():
    assert {example.argument for example in documentation.examples("yaml")} - {""} == set(WAYS)
    assert [str(example) for example in documentation.examples("yaml") if not example.argument and "README" not in example.where] == []


@pytest.mark.parametrize("example", documentation.examples("yaml"), ids=str)
def test_joins(tmp_path, example):
    world_type, way = WAYS[example.argument or "token"]
    world = world_type(tmp_path)
    try:
        steps = way(world, example.text)
        world.machine.write_settings(next(steps))
        (world.machine.etc / "config.yaml").chmod(0o600 if example.argument == "kubeadm" else 0o644)
        own = re.search(r"^  name: ([a-z0-9.-]+)$", example.text, re.M)
        if not own:     # whatever the machine is called that runs the tests
            world.machine.write_settings(HEADER + f"node: {{name: {NODE}}}\n", "config.yaml.d/10-name.yaml")
        world.machine.unit().joined()
        certificates, _ = world.machine.installed_identity()
        assert pki.subject(certificates[0]) == ([pki.NODES], [pki.node_user(own[1] if own else NODE)])
        kubelet = yaml.safe_load(example.text).get("kubelet", {})
        assert world.machine.target(kubelet.get("kubeconfig", "/" + Machine.KUBECONFIG)[1:]).exists()
        assert next(steps, None) is None
    finally:
        world.close()
    world.check()


ENCODINGS = {"raw": bytes, "base64": base64.b64encode, "gzip": gzip.compress, "gzip in base64": lambda data: base64.b64encode(gzip.compress(data))}


@pytest.mark.parametrize("encode", ENCODINGS.values(), ids=ENCODINGS)
@pytest.mark.parametrize("example", documentation.examples("user-data"), ids=str)
def test_joins_by_user_data(tmp_path, example, encode):
    """On a NoCloud volume: a machine without any credential."""
    world = ways.World(tmp_path)
    try:
        machine = world.machine
        (machine.credentials / "node-bootstrap.token").unlink()
        machine.write_settings(HEADER + f"node: {{name: {NODE}}}\n")
        machine.inspect().joined()
        machine.passed.put("/run/node-bootstrap-platform/platform.json", b'{"volume": "cidata"}')
        machine.passed.put("/run/node-bootstrap-platform/user-data", encode(at(world, example.text).encode()))
        run = machine.join().joined()
        assert "NoCloud" in run.stderr
        machine.install().joined()
        requested_as(world, f"system:bootstrap:{TOKEN_ID}")
    finally:
        world.close()
    world.check()


def test_every_form_of_user_data_has_an_example():
    texts = [example.text for example in documentation.examples("user-data") if "README" not in example.where]
    assert all(any(text.startswith(begin) for text in texts) for begin in ("apiVersion: ", "#cloud-config\n", "MIME-Version: ")) and len(texts) == 3


# What `node-bootstrap setup` makes of each example: words that tell it, and the credentials.
SETUPS = [
    ("setup kubeadm join", {"token"}),
    ("ssh control-plane", {"token"}),
    ("--discovery-file=", {"cluster-info", "token"}),
    ("--bootstrap-kubeconfig=", {"kubeconfig"}),
    ("k3s.example.com", {"token"}),
    ("--root=image", {"tls-bootstrap-token", "token"}),
    ("--config=", {"tls-bootstrap-token", "token"}),
]


@pytest.fixture
def desk(tmp_path):
    """A folder with the files that the examples name, and wrappers that make the programs write into an image."""
    ca = pki.CA()
    given = {"token": TOKEN, "line": f"kubeadm join 10.0.0.10:6443 --token {TOKEN} --discovery-token-ca-cert-hash {ca.pin} \n", "k3s-token": f"K10{64 * 'a'}::{TOKEN}",
             "cluster-info.yaml": apiserver.kubeconfig("https://10.0.0.10:6443", ca.pem),
             "bootstrap.kubeconfig": ways.bootstrap_kubeconfig("https://10.0.0.10:6443", ca.pem, {"token": BEARER}),
             "join.yaml": next(e.text for e in documentation.examples("yaml") if e.argument == "kubeadm")}
    for name, text in given.items():
        (tmp_path / name).touch(0o600)
        (tmp_path / name).write_text(text)
    (tmp_path / "image").mkdir()
    (tmp_path / "bin").mkdir()
    for name, script in (("ssh", "cat line"), ("node-bootstrap", f"exec {find_program('node-bootstrap')} \"$@\" $IMAGE")):
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    return tmp_path


@pytest.mark.parametrize("example", documentation.examples("shell-setup"), ids=str)
def test_sets_up(desk, example):
    credentials = next(credentials for words, credentials in SETUPS if words in example.text)
    environment = {"PATH": f"{desk}/bin:/usr/sbin:/usr/bin", "IMAGE": "" if "--root" in example.text else "--root=image"}
    done = subprocess.run(["sh", "-ec", example.text], cwd=desk, env=environment, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    assert {name.removeprefix("node-bootstrap.") for name in os.listdir(desk / "image/etc/credstore")} == credentials
    assert ("token on the command line" in done.stdout) == ("--token " in example.text), "who puts a token on the command line is told"


def test_every_setup_is_known():
    examples = documentation.examples("shell-setup")
    assert len(examples) == len(SETUPS) and all(any(words in example.text for example in examples) for words, _ in SETUPS)
