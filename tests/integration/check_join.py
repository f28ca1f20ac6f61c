# SPDX-License-Identifier: Apache-2.0
"""node-bootstrap check with the scripted API server, and its report in JSON; kubelet's kubeconfig on a machine that has joined."""

import json
import pathlib
import re
import shutil

from common.apiserver import node_object
from common.machine import HEADER, NODE, Machine, node_kubeconfig, to_yaml
from .check import kubelet_below
from .installed import paths_env
from .journal import last


def everything(path):
    return {str(p): (p.lstat().st_mode, p.lstat().st_mtime_ns) for p in sorted(path.rglob("*"))}


def check(world, *arguments, **options):
    machine = world.machine
    if "kubelet:" not in (machine.etc / "config.yaml").read_text():
        # Nobody can write to the /etc of these tests.
        machine.write_settings(HEADER + to_yaml({"kubelet": kubelet_below(machine.path)}), "config.yaml.d/paths.yaml")
    before = everything(machine.path)
    requests, made = world.csrs(), world.server.kinds.count("create")
    env, told = pathlib.Path("/", Machine.ENV), pathlib.Path("/run/node-bootstrap/last.json")
    env.write_text(paths_env(**kubelet_below(machine.path)), encoding="utf-8")
    if world.pending:
        told.parent.mkdir()
        told.write_text(last("joining", "csr-pending", csr=world.pending))
    run = machine.start("node-bootstrap", "check", f"--config-directory={machine.etc}", *arguments, **options).wait()
    env.unlink()
    if world.pending:
        shutil.rmtree(told.parent)
    assert everything(machine.path) == before, "files were changed"
    assert world.csrs() == requests, "a certificate was requested"
    assert world.server.kinds.count("create") == made
    assert run.stderr == ""
    return run


def report(world, **options):
    run = check(world, "--json", **options)
    found = json.loads(run.stdout)
    assert set(found) == {"version", "good", "failure", "steps"} and found["version"] == 1
    assert found["good"] == (run.exit == 0) == (found["failure"] is None) and run.exit in (0, 1)
    for step in found["steps"]:
        assert set(step) == {"step", "section", "state", "durationUsec", "rows", "failure"}
        assert step["state"] in ("good", "note", "doubt", "bad", "untried") and (step["state"] == "bad") == (step["failure"] is not None)
        assert not step["failure"] or not re.search("<[A-Z_]+>|@|\\bNAME\\b", step["failure"]["remedy"]), "a placeholder was left"
    return found


def states(found):
    return {step["step"]: step["state"] for step in found["steps"]}


def put_client(world, identity=None, server=None, edit=lambda text: text):
    """kubelet's kubeconfig, and the files that it names, where the settings expect them."""
    folder, identity = world.machine.path, identity or world.cluster.ca.node(NODE)
    world.configure(kubelet=kubelet_below(folder))
    world.cluster.nodes[NODE] = node_object()
    for name, data in (("pki/current.pem", identity.combined), ("kubernetes/ca.crt", world.cluster.ca.pem)):
        (folder / name).parent.mkdir(mode=0o700, exist_ok=True)
        (folder / name).write_bytes(data)
        (folder / name).chmod(0o600)
    text = node_kubeconfig(server or world.server.url, paths=[f"{folder}/pki/current.pem"] * 2)
    path = folder / "kubernetes/kubelet.conf"
    path.write_text(edit(text.replace("/" + Machine.CA_FILE, f"{folder}/kubernetes/ca.crt")))
    path.chmod(0o600)
    return path
