# SPDX-License-Identifier: Apache-2.0
"""`node-bootstrap-admin token create --print`: programs that need no cluster read each form, and the token is in no argument."""

import base64
import json
import re
import subprocess
import urllib.parse

import pytest
import yaml

from common import documentation
from common.machine import TOKEN, find_program
from .written_files import check_files

NAME = "node-1"
DOCUMENT = "etc/node-bootstrap/config.yaml.d/50-setup.yaml"
CREDENTIAL = "etc/credstore/node-bootstrap.token"


@pytest.fixture
def cluster_info(api):
    document = {"apiVersion": "v1", "kind": "Config", "clusters": [{"name": "", "cluster": api.user_cluster()}]}
    api.objects.put("/api/v1/namespaces/kube-public/configmaps/cluster-info", data={"kubeconfig": json.dumps(document)})


@pytest.fixture
def printed(api, cluster_info):
    """printed(form): the text for NAME, with TOKEN."""
    def make(form, *words):
        done = api.run("token", "create", TOKEN, "--print", form, "--node", NAME, *words)
        assert done.returncode == 0, done.stderr
        return done.stdout
    return make


@pytest.fixture
def expected(api):
    """The settings that each form holds."""
    return {"apiVersion": "node-bootstrap/v1", "kind": "NodeBootstrap", "node": {"name": NAME},
            "discovery": {"endpoints": [f"{api.host}:{api.port}"], "caCertHashes": [api.cluster.ca.pin]}}


@pytest.fixture
def run(tmp_path):
    """run(text, program, script, *words): runs a printed script with a shell script in place of a program; returns the program's arguments
    and what it wrote."""
    def perform(text, program, script, *words, shell="sh"):
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        (folder / program).write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >"$0.arguments"\n{script}\n')
        (folder / program).chmod(0o755)
        (tmp_path / "printed").write_text(text)
        command = [shell, tmp_path / "printed", *words]
        done = subprocess.run(command, check=False, text=True, capture_output=True, env={"PATH": f"{folder}:/usr/bin:/bin"})
        assert done.returncode == 0, done.stderr
        arguments = (folder / f"{program}.arguments").read_text().splitlines()
        assert TOKEN not in str(arguments)
        return arguments, done.stdout
    return perform


@pytest.fixture
def image(tmp_path):
    """An image for `setup --root`, and what it wrote there."""
    root = tmp_path / "root"
    root.mkdir()

    def read():
        assert (root / CREDENTIAL).read_text() == TOKEN
        return yaml.safe_load((root / DOCUMENT).read_text())
    read.root = root
    read.command = [find_program("node-bootstrap"), "setup", f"--root={root}"]
    return read


def set_up(image, *words, **options):
    return subprocess.run([*image.command, *words], check=True, text=True, capture_output=True, **options)


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_setup_takes_its_command(printed, expected, image, run, shell):
    program, _, root = image.command
    run(printed("setup"), "node-bootstrap", f'shift\nexec "{program}" setup "{root}" "$@"', shell=shell)
    assert image() == expected


def test_setup_takes_the_line_of_kubeadm(printed, expected, image):
    set_up(image, "-", input=printed("kubeadm"))
    assert image() == expected


def test_setup_takes_a_file(printed, expected, image, tmp_path):
    path = tmp_path / "document"
    path.touch(0o600)
    path.write_text(printed("config"))
    set_up(image, "--config", path)
    assert image() == expected


def test_setup_takes_the_credential(printed, expected, image):
    [endpoint], [pin] = expected["discovery"].values()
    set_up(image, "--token-file=-", f"--ca-cert-hash={pin}", f"--node-name={NAME}", endpoint, input=printed("credential"))
    assert image() == expected


@pytest.mark.parametrize("form", ["cloud-config", "ignition", "config"])
def test_check_finds_everything(tmp_path, printed, expected, form):
    """In user data, or in the files that cloud-init or Ignition writes."""
    if form in ("cloud-config", "ignition"):
        done = check_files(tmp_path, printed(form), "--json")
    else:
        command = [find_program("node-bootstrap"), "check", "--local", "--json", "--user-data=-"]
        done = subprocess.run(command, check=False, text=True, capture_output=True, input=printed(form))
    report = json.loads(done.stdout)
    text = "\n".join(row["text"] for step in report["steps"] for row in step["rows"])
    assert done.returncode == 0 and report["good"], text
    for value in (*expected["discovery"].values(), TOKEN.split(".")[0], f'node.name: "{NAME}"'):
        assert (json.dumps(value) if isinstance(value, list) else value) in text


def test_a_launch_template_gets_a_new_token(api, cluster_info, run, tmp_path):
    """docs/autoscaling.md: the job hands a template's user data to aws in a file, and leaves no file behind."""
    program = tmp_path / "bin/node-bootstrap-admin"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{find_program("node-bootstrap-admin")}" "$@" --kubeconfig="{api.kubeconfig()}"\n')
    program.chmod(0o755)
    (tmp_path / "tmp").mkdir()
    text = f'export TMPDIR="{tmp_path}/tmp"\n' + documentation.commands("renew-token")
    words, said = run(text, "aws", 'while [ "$1" != --launch-template-data ]; do shift; done\ncat "${2#file://}"')
    assert words[:2] == ["ec2", "create-launch-template-version"] and words[words.index("--source-version") + 1] == "$Latest"
    user_data = base64.b64decode(json.loads(said)["UserData"]).decode()
    token = re.search(r"^ +([a-z0-9]{6}\.[a-z0-9]{16})$", user_data, re.M)[1]
    assert api.objects.look(f"/api/v1/namespaces/kube-system/secrets/bootstrap-token-{token[:6]}") and token not in str(words)
    assert not list((tmp_path / "tmp").iterdir())
    done = check_files(tmp_path, user_data)
    assert done.returncode == 0 and "a join can start" in done.stdout, done.stdout
    (tmp_path / "bin/aws").write_text("#!/bin/sh\nexit 3\n")
    done = subprocess.run(["sh", "-c", text], check=False, env={"PATH": f"{tmp_path}/bin:/usr/bin:/bin"})
    assert done.returncode == 3 and not list((tmp_path / "tmp").iterdir()), "the token stays in a file"


@pytest.fixture
def secret(api, cluster_info):
    """secret(*words): what is printed for Cluster API."""
    return lambda *words: api.run("token", "create", TOKEN, "--print=capi-secret", *words)


def test_secret_for_cluster_api(api, secret):
    """The user data is that of the form cloud-config, which test_cloud_init.py tries; the token is kubeadm's."""
    done = secret("--cluster=east.1")
    assert done.returncode == 0, done.stderr
    found = yaml.safe_load(done.stdout)
    values = found.pop("stringData")
    assert found == {"apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
                     "metadata": {"name": "east.1-node-bootstrap", "labels": {"cluster.x-k8s.io/cluster-name": "east.1"}}}
    same = api.run("token", "create", TOKEN, "--dry-run", "--print=cloud-config")
    assert values == {"format": "cloud-config", "value": same.stdout}
    created = api.objects.look(f"/api/v1/namespaces/kube-system/secrets/bootstrap-token-{TOKEN[:6]}")
    assert base64.b64decode(created["data"]["auth-extra-groups"]).decode() == "system:bootstrappers:kubeadm:default-node-token"


def test_the_secret_is_applied(api, cluster_info, run, tmp_path):
    """docs/cluster-api.md"""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/node-bootstrap-admin").symlink_to(find_program("node-bootstrap-admin"))
    text = documentation.commands("cluster-api-secret").replace("east.kubeconfig", str(api.kubeconfig()))
    words, said = run(text, "kubectl", "cat")
    assert words == ["apply", "--namespace=default", "--filename=-"]
    assert yaml.safe_load(said)["metadata"]["name"] == "east-node-bootstrap"


@pytest.mark.parametrize("words, expected", [
    (["--cluster=east", f"--node={NAME}"], "a bound token is for one node"),
    (["--cluster=east", "--enrolled"], "an enrolled token only for machines that are enrolled"),
    ([], "'--cluster'"),
    (["--print=config", "--cluster=east"], "'--cluster'"),
    (["--cluster=East"], "a word of 4 characters"),
    (["--cluster=" + 64 * "a"], "at most 63"),
    (["--cluster=" + TOKEN], "at most 63"),
])
def test_secret_that_cannot_serve(api, secret, words, expected):
    done = secret(*words)
    assert done.returncode == 64 and expected in done.stderr and TOKEN.split(".")[1] not in done.stderr
    assert not [request for request in api.requests if request.verb == "create"], "a token was created"


def test_form_that_does_not_exist(api):
    done = api.run("token", "create", "--print", "helm")
    assert done.returncode == 64 and "'--print' to be" in done.stderr and "cloud-config" in done.stderr
    assert not [request for request in api.requests if request.verb == "create"], "a token was created"


# The key of an enrolled machine.

@pytest.mark.parametrize("form", ["cloud-config", "ignition"])
def test_proof_key(api, cluster_info, form):
    """In the settings of each form that has some; without it, the command warns."""
    done = api.run("token", "create", TOKEN, "--enrolled", f"--print={form}", "--proof-key=tpm:0x81000003", "--dry-run")
    text = urllib.parse.unquote(done.stdout)
    assert done.returncode == 0 and re.search(r'proof:\n *key: "tpm:0x81000003"\n', text), text
    assert "without a proof" not in done.stderr
    done = api.run("token", "create", TOKEN, "--enrolled", f"--print={form}", "--dry-run")
    assert done.returncode == 0 and "proof:" not in done.stdout and "--proof-key adds the setting" in done.stderr


@pytest.mark.parametrize("words, is_warned", [(["--print=setup"], True), ([], True), (["--print=config"], True), (["--print=credential"], False)])
def test_enrolled_token_in_a_form_without_settings(api, cluster_info, words, is_warned):
    done = api.run("token", "create", TOKEN, "--enrolled", "--dry-run", *words)
    assert done.returncode == 0 and ("set proof.key on the machine" in done.stderr) is is_warned


@pytest.mark.parametrize("words, form", [(["--print=setup"], "setup"), ([], "setup"), (["--print=credential"], "credential"), (["--print=config"], "config")])
def test_proof_key_that_would_be_dropped_or_refused(api, words, form):
    done = api.run("token", "create", TOKEN, "--enrolled", "--proof-key=tpm", *words)
    assert done.returncode == 64 and f"with '--print={form}', set proof.key on the machine" in done.stderr and not api.requests, done.stderr


@pytest.mark.parametrize("words", [["--enrolled", "--proof-key=x"], ["--node=a", "--proof-key=tpm"], ["--proof-key=tpm"]], ids=" ".join)
def test_wrong_proof_key(api, words):
    done = api.run("token", "create", "--print=config", *words)
    assert done.returncode == 64 and not api.requests, done.stderr
