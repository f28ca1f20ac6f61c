# SPDX-License-Identifier: Apache-2.0
"""packaging/examples/terraform: the user data that Terraform would render is what the program reads, and the token is treated as a secret.

tests/e2e/test_cloud_init.py lets cloud-init judge the same user data.
"""

import re
import subprocess

import pytest

from common import SOURCE
from common.machine import KEPT, SECRET, TOKEN, TOKEN_ID, find_program
from common.terraform import CLOUDS, FORMS, MODULE, render, text_of
from .written_files import check_files, files_of

PIN = "sha256:" + "ab" * 32
VALUES = {"node": "worker-1", "token": TOKEN, "endpoint": "[2001:db8::1]:6443", "pin": PIN}
# What each cloud accepts, in bytes, and whether it counts the base64: a template that grows must still fit.
LIMITS = {"aws": (16384, False), "azure": (65536, True), "gce": (262144, False), "hetzner": (32768, False), "openstack": (65535, True), "proxmox": (1 << 20, False)}


def test_user_data_without_cloud_init(tmp_path):
    (tmp_path / "user-data").write_text(render("node-bootstrap", VALUES))
    done = subprocess.run(["unshare", "--user", "--net", find_program("node-bootstrap"), "check", f"--user-data={tmp_path}/user-data"], check=False,
                          stdout=subprocess.PIPE, text=True, env={"PATH": "/usr/bin:/bin", **KEPT})
    output = done.stdout
    assert done.returncode == 0 and output.endswith("  ✓ a join can start\n\nNo check failed\n"), output
    assert f"✓ token: {TOKEN_ID}." in output and f'caCertHashes: ["{PIN}"]' in output
    assert 'endpoints: ["[2001:db8::1]:6443"]' in output and "node name: worker-1 (" in output, output


def test_files_of_cloud_init(tmp_path):
    text = render("cloud-init", VALUES)
    assert {path: oct(mode) for path, mode, content in files_of(text) if SECRET in content} == {"/etc/credstore/node-bootstrap.token": "0o600"}
    done = check_files(tmp_path, text)
    assert done.returncode == 0 and done.stdout.endswith("  ✓ a join can start\n\nNo check failed\n"), done.stdout
    assert f"✓ node-bootstrap.token: bootstrap token {TOKEN_ID}." in done.stdout and "node name: worker-1 (" in done.stdout, done.stdout
    assert 'endpoints: ["[2001:db8::1]:6443"]' in done.stdout and PIN in done.stdout, done.stdout


def test_settings_are_the_same_in_both_forms():
    """But for the place of the token."""
    first, second = ({line.strip() for line in text_of(f"{form}.tftpl").splitlines()} for form in FORMS)
    settings = {line for line in first & second if ":" in line}
    assert settings == {"discovery:", 'endpoints: ["${endpoint}"]', 'caCertHashes: ["${pin}"]', "node:", "name: ${node}"}


@pytest.mark.parametrize("form", FORMS)
def test_size(form):
    raw = len(render(form, {**VALUES, "node": "n" * 253, "endpoint": "e" * 259}))
    for cloud, (limit, counts_base64) in LIMITS.items():
        assert (-(-raw // 3) * 4 if counts_base64 else raw) <= limit, cloud
    assert set(LIMITS) == set(CLOUDS)


# Where the user data goes, and what lets a machine alone when its token changes.
PLACES = {"azure": ["custom_data", "user_data"], "gce": ["user-data"], "proxmox": ["data"]}
IGNORED = {"aws": "user_data", "azure": "custom_data, user_data", "gce": 'metadata["user-data"]', "hetzner": "user_data", "openstack": "user_data",
           "proxmox": "source_raw"}
SHARED = [r'variable "tokens" {\n.*?\n}\n', r'variable "cluster" {\n.*?\n}\n', r'module "user_data" {\n.*?\n}\n']


@pytest.mark.parametrize("cloud", CLOUDS)
def test_example_of_a_cloud(cloud):
    """The token reaches nothing but the module, and what it renders nothing but the user data, whose changes leave machines alone."""
    text = re.sub(" +=", " =", text_of(f"{cloud}/main.tf"))
    blocks = [re.search(pattern, text, re.S)[0] for pattern in SHARED]
    assert blocks == [re.search(pattern, re.sub(" +=", " =", text_of("aws/main.tf")), re.S)[0] for pattern in SHARED]
    assert "  sensitive = true\n" in blocks[0] and '  source = "../user-data"\n' in blocks[2]
    uses = [line.strip() for line in text.splitlines() if "var.tokens" in line and "for_each" not in line]
    assert uses == ["tokens = var.tokens"]
    assert {line.split("=", 1)[1].strip() for line in text.splitlines() if line.startswith("  for_each")} == {"nonsensitive(toset(keys(var.tokens)))"}
    places = [re.findall(r"([\w-]+) = ", line)[-1] for line in text.splitlines() if "module.user_data.of[each.key]" in line]
    assert (places, f"ignore_changes = [{IGNORED[cloud]}]" in text) == (PLACES.get(cloud, ["user_data"]), True)
    head = text.split("terraform {")[0]
    assert "state" in head and "bound token" in head, "who can read the token, and what to do about it"


@pytest.mark.parametrize("cloud", CLOUDS)
def test_user_data_of_fleet(cloud):
    """docs/operations.md: the files of packaging/fleet replace the module and the tokens, and nothing else mentions either."""
    text, document = re.sub(" +=", " =", text_of(f"{cloud}/main.tf")), (SOURCE / "docs/operations.md").read_text()
    for pattern in (SHARED[0], SHARED[2]):
        text = re.sub(pattern, "", text, flags=re.S)
    for old, new in (("for_each = nonsensitive(toset(keys(var.tokens)))", 'for_each = toset(["worker-1", "worker-2", "worker-3"])'),
                     ("module.user_data.of[each.key]", 'sensitive(file("workers/${each.key}.user-data"))')):
        assert old in text and f"`{new}`" in document
        text = text.replace(old, new)
    assert "var.tokens" not in text and "module.user_data" not in text


def test_module_keeps_the_token_secret():
    text = text_of(f"{MODULE}/main.tf")
    for block in ('variable "tokens" {', 'output "of" {'):
        assert "sensitive" in re.search(re.escape(block) + r"\n(.*?)\n}\n", text, re.S)[1]


def test_metadata_service_of_aws():
    """As aws.sh: only IMDSv2, which pods behind another hop cannot reach."""
    options = dict(re.findall(r"^    (http_\w+) += (\S+)$", text_of("aws/main.tf"), re.M))
    assert options == {"http_endpoint": '"enabled"', "http_tokens": '"required"', "http_put_response_hop_limit": "1"}


def test_tokens_file(tmp_path):
    """The commands in the comment write the tokens to a file, and put none on a command line."""
    commands = "".join(line.removeprefix("#   ") + "\n" for line in text_of(f"{MODULE}/main.tf").splitlines() if line.startswith("#   "))
    stub = tmp_path / "node-bootstrap-admin"
    stub.write_text('#!/bin/sh\n[ "$*" = "token create --node=${3#--node=} --print=credential" ] && echo "token-of-${3#--node=}"\n')
    stub.chmod(0o755)
    done = subprocess.run(["strace", "-f", "-qq", "-e", "trace=execve", "-o", "trace", "sh", "-euc", f"umask 077\n{commands}"], cwd=tmp_path, check=False,
                          env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True)
    made = tmp_path / "tokens.auto.tfvars.json"
    assert done.returncode == 0 and oct(made.stat().st_mode)[-3:] == "600", done.stderr
    assert made.read_text() == '{"tokens": {"worker-1": "token-of-worker-1", "worker-2": "token-of-worker-2"}}\n'
    assert "token-of" not in (tmp_path / "trace").read_text() and "worker-1" in (tmp_path / "trace").read_text()
