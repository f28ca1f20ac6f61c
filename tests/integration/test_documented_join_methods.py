# SPDX-License-Identifier: Apache-2.0
"""Each join method as in its example in the manual, with the addresses and files of this cluster."""

import base64
import os
import re
import subprocess

import pytest
import yaml

from common import apiserver, documentation, pki
from common.machine import HEADER, NODE, TOKEN, TOKEN_ID, Machine, find_program
from . import join_methods
from .documented_methods import BEARER, METHODS, at, requested_as


def test_every_example_is_run_and_every_method_has_one():
    assert {example.argument for example in documentation.examples("yaml")} == set(METHODS)


@pytest.mark.parametrize("example", documentation.examples("yaml"), ids=str)
def test_joins(tmp_path, example):
    world_type, method = METHODS[example.argument]
    world = world_type(tmp_path)
    try:
        steps = method(world, example.text)
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


ENCODINGS = {"raw": bytes, "base64": base64.b64encode}


@pytest.mark.parametrize("encode", ENCODINGS.values(), ids=ENCODINGS)
@pytest.mark.parametrize("example", documentation.examples("user-data"), ids=str)
def test_joins_by_user_data(tmp_path, example, encode):
    """On a NoCloud volume: a machine without any credential."""
    world = join_methods.World(tmp_path)
    try:
        machine = world.machine
        (machine.credentials / "node-bootstrap.token").unlink()
        machine.write_settings(HEADER + f"node: {{name: {NODE}}}\n")
        machine.inspect(is_metadata_read=False)
        machine.passed.put("/run/node-bootstrap-platform/platform.json", b'{"volume": "cidata"}')
        machine.passed.put("/run/node-bootstrap-platform/user-data", encode(at(world, example.text).encode()))
        run = machine.unit_with_passed().joined()
        assert "NoCloud" in run.stderr
        requested_as(world, f"system:bootstrap:{TOKEN_ID}")
    finally:
        world.close()
    world.check()


def test_every_form_of_user_data_has_an_example():
    texts = [example.text for example in documentation.examples("user-data") if not example.is_of_document]
    assert all(any(text.startswith(begin) for text in texts) for begin in ("apiVersion: ", "#cloud-config\n")) and len(texts) == 2


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
             "bootstrap.kubeconfig": join_methods.bootstrap_kubeconfig("https://10.0.0.10:6443", ca.pem, {"token": BEARER}),
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
