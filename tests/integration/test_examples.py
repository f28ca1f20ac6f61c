# SPDX-License-Identifier: Apache-2.0
"""packaging/examples: repeated values match, and tokens are not exposed. The end-to-end tests boot with them."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from common import SOURCE, documentation
from common.machine import BUILD, find_program
from .tables import tables
from .written_files import check_files, files_of, from_butane, without_urls

EXAMPLES = SOURCE / "packaging/examples"
TOKEN = "abcdef.0123456789abcdef"


@pytest.mark.parametrize("name", ["node-bootstrap", "sysext"])
def test_butane_and_ignition_are_the_same(name):
    butane = yaml.safe_load((EXAMPLES / f"{name}.bu").read_text())
    ignition = json.loads((EXAMPLES / f"{name}.ign").read_text())
    assert without_urls(ignition) == from_butane(butane)


def test_ignition_installs_this_extension():
    """With the drop-in that a person installs, and under the name that systemd requires."""
    config = json.loads((EXAMPLES / "sysext.ign").read_text())
    version = re.search(r"^  version: '(.*)',$", (SOURCE / "meson.build").read_text(), re.M)[1]
    [file], links = config["storage"]["files"], {link["path"]: link["target"] for link in config["storage"]["links"]}
    name = f"/node-bootstrap-{version}-x86-64.raw"
    assert file["path"].endswith(name) and file["contents"]["source"].endswith(name)
    assert links["/etc/extensions/node-bootstrap.raw"] == file["path"]
    [unit] = config["systemd"]["units"]
    text = "".join(line for line in (EXAMPLES / "sysext.conf").read_text().splitlines(keepends=True) if not line.startswith("#"))
    assert unit["dropins"] == [{"name": "node-bootstrap.conf", "contents": text}]


WRITTEN = ("cloud-config.yaml", "node-bootstrap.ign")


@pytest.mark.parametrize("path, mode, text", [file for name in WRITTEN for file in files_of((EXAMPLES / name).read_text())])
def test_files_with_a_token_are_for_root_alone(path, mode, text):
    is_token = path == "/etc/credstore/node-bootstrap.token"
    assert (TOKEN in text) == is_token
    assert oct(mode) == ("0o600" if is_token else "0o644")


@pytest.mark.parametrize("name", WRITTEN)
def test_a_join_can_start_with_the_files(tmp_path, name):
    done = check_files(tmp_path, (EXAMPLES / name).read_text())
    assert done.returncode == 0 and done.stdout.endswith("  ✓ a join can start\n\nNo check failed\n"), done.stdout


@pytest.mark.parametrize("example", documentation.examples("cloud-config"), ids=str)
def test_a_join_can_start_with_the_documented_files(tmp_path, example):
    done = check_files(tmp_path, example.text)
    assert done.returncode == 0 and done.stdout.endswith("  ✓ a join can start\n\nNo check failed\n"), done.stdout


def words_of(tmp_path, script, program):
    """The arguments of the program that the script runs, in a folder with the files that it names; none is the token."""
    stub = tmp_path / program
    stub.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    stub.chmod(0o755)
    (tmp_path / "token").write_text(TOKEN)
    done = subprocess.run(
        [EXAMPLES / script, "the root", "--more", "a b"], cwd=tmp_path, text=True, check=True, stdout=subprocess.PIPE,
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )
    assert TOKEN not in done.stdout
    words = done.stdout.splitlines()
    assert words[-2:] == ["--more", "a b"] and any("the root" in word for word in words)
    return words


def test_user_data_is_the_same_everywhere():
    documents = [yaml.safe_load((EXAMPLES / name).read_text()) for name in ("user-data", "nocloud/user-data")]
    assert documents[0] == documents[1] and documents[0]["node_bootstrap"]["bootstrap"]["token"] == TOKEN
    assert (EXAMPLES / "user-data").read_text().startswith("#cloud-config\n")


def test_aws(tmp_path):
    """The user data is passed as a file, and only IMDSv2 is enabled, which pods behind another hop cannot reach."""
    words = words_of(tmp_path, "aws.sh", "aws")
    assert words[:6] == ["ec2", "run-instances", "--image-id", "the root", "--user-data", "file://user-data"]
    options = dict(option.split("=") for option in words[words.index("--metadata-options") + 1].split(","))
    assert options == {"HttpTokens": "required", "HttpPutResponseHopLimit": "1", "HttpEndpoint": "enabled"}


def test_vmware(tmp_path):
    """govc requires an absolute path; the key is the one that the program reads."""
    words = words_of(tmp_path, "vmware.sh", "govc")
    assert words[:5] == ["vm.change", "-vm", "the root", "-f", f"guestinfo.userdata={tmp_path}/user-data"]
    assert tables()["guestinfo"][0] == "guestinfo.userdata"


@pytest.mark.parametrize("words, expected", [
    *((words, "unexpected: argument") for words in ("version -o short", "init", "config images pull", "join phase preflight")),
    ("join --control-plane 192.0.2.1:6443", "only workers"),
])
def test_commands_of_kubeadm_that_its_stand_in_refuses(words, expected):
    """test_cluster_api.py joins with it."""
    environment = {"PATH": f"{Path(find_program('node-bootstrap')).parent}:{os.environ['PATH']}"}
    done = subprocess.run([EXAMPLES / "cluster-api/kubeadm", *words.split()], check=False, text=True, capture_output=True, env=environment)
    assert done.returncode == 64 and expected in done.stderr and "kubeadm join" in done.stderr


@pytest.mark.parametrize("script, program", [("nspawn.sh", "systemd-nspawn"), ("qemu.sh", "qemu-system-x86_64")])
def test_command_lines_hold_no_token(tmp_path, script, program):
    """They name existing files, and pass on other arguments."""
    words = words_of(tmp_path, script, program)
    for name, file in (("node-bootstrap.token", "token"), ("node-bootstrap.config", "config.yaml")):
        assert [w for w in words if name in w and w.endswith(file)], words
    names = [w.split(",")[0].removeprefix("name=") for w in words if w.startswith("name=")]
    assert all(len(name) <= 55 for name in names), "QEMU refuses a longer name"


@pytest.mark.parametrize("name, unit", [
    ("multi-user.conf", "kubelet.service"), ("console.conf", "node-bootstrap.service"), ("summary.conf", "node-bootstrap.service"),
])
def test_drop_in_is_the_documented_one(name, unit):
    lines = (EXAMPLES / name).read_text().splitlines(keepends=True)
    text = "".join(line for line in lines if not line.startswith("#"))
    assert text in [example.text for example in documentation.examples("unit") if example.argument == unit]


@pytest.mark.each_release
def test_systemd_accepts_the_units(tmp_path):
    """The summary with the drop-in that starts it; its exposure is at most that of our own services."""
    drop_in = tmp_path / "node-bootstrap.service.d/summary.conf"
    drop_in.parent.mkdir()
    shutil.copy(EXAMPLES / "summary.conf", drop_in)
    for unit in EXAMPLES.rglob("*.service"):
        shutil.copy(unit, tmp_path)
    run = {"check": False, "text": True, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    done = subprocess.run([SOURCE / "tests/lint/units", BUILD / "units/node-bootstrap.service", SOURCE / "units", tmp_path], **run)
    assert done.returncode == 0, done.stdout
    done = subprocess.run(["systemd-analyze", "security", "--no-pager", "--offline=yes", "--threshold=12", tmp_path / "node-bootstrap-summary.service"], **run)
    assert done.returncode == 0, done.stdout
