# SPDX-License-Identifier: Apache-2.0
"""node-bootstrap check --user-data: how another machine would use a file."""

import base64
import gzip
import json
import os
import pathlib
import subprocess
import sys
import time

import pytest

import apiserver
import pki
from cloud import CloudWorld
from machine import FAILURES, HEADER, KEPT, PATIENCE, SECRET, SOURCE, TOKEN, TOKEN_ID, find_program, to_yaml
from test_check import sections
from test_metadata_data import FORMS, FORBIDDEN, OTHER_TOKEN

sys.path.insert(0, str(SOURCE / "tests"))
import documentation  # noqa: E402

PIN = "sha256:" + "ab" * 32
BASIS = {"discovery": {"endpoints": ["10.0.0.1:6443"], "caCertHashes": [PIN]}}
DOCUMENT = HEADER + to_yaml({**BASIS, "bootstrap": {"token": TOKEN}})
NOBODY = ["unshare", "--user", "--net"]         # without a capability, and with no way to anybody


def check(file, *arguments, network=False, **options):
    """As an ordinary user, and without a network."""
    if "input" not in options:
        options.setdefault("stdin", subprocess.DEVNULL)
    done = subprocess.run([*([] if network else NOBODY), find_program("node-bootstrap"), "check", f"--user-data={file}", *arguments], check=False, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env={"PATH": "/usr/bin:/bin", **KEPT}, **options)
    output = done.stdout.decode()
    assert done.stderr == b"" and SECRET not in output and OTHER_TOKEN.split(".")[1] not in output
    return done.returncode, output


def write(folder, data, name="user-data"):
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def bad(code, status_and_output, *words, section="User data"):
    status, output = status_and_output
    [failure] = [row for row in sections(output)[section] if row.startswith(f"✗ {code}: ")]
    assert status == 1 and all(word in failure for word in words), output
    assert FAILURES[code]["remedy"].split("@")[0] in output
    return sections(output)


def test_file(tmp_path):
    path = write(tmp_path, "#cloud-config\nhostname: a\nnode_bootstrap:\n" + "".join(f"  {line}\n" for line in DOCUMENT.removeprefix(HEADER).splitlines()))
    status, output = check(path)
    assert status == 0 and "✗" not in output, output
    found = sections(output)
    assert list(found) == ["User data", "Join"]
    assert found["User data"] == [f"- {path}: {path.stat().st_size} bytes: a cloud-config", f"✓ token: {TOKEN_ID}.**************** ({path})",
                                  f'- discovery.endpoints: ["10.0.0.1:6443"] ({path})', f'- discovery.caCertHashes: ["{PIN}"] ({path})', "✓ valid"]
    assert found["Join"][0] == "- node name: the host name of the machine" and found["Join"][-1] == "✓ a join can start"


@pytest.mark.parametrize("encode", [bytes, gzip.compress, base64.b64encode, lambda data: base64.b64encode(gzip.compress(data))],
                         ids=["raw", "gzip", "base64", "both"])
def test_standard_input(encode):
    status, output = check("-", input=encode(DOCUMENT.encode()))
    assert status == 0 and "- identity: standard input\n" in output and ": a NodeBootstrap document" in output


def test_signal_while_reading_standard_input():
    """SIGINT and SIGTERM end it."""
    with subprocess.Popen([find_program("node-bootstrap"), "check", "--user-data=-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as run:
        mask = pathlib.Path(f"/proc/{run.pid}/status")
        end = time.monotonic() + PATIENCE
        while "SigBlk:\t0000000000004002" not in mask.read_text() and time.monotonic() < end:
            time.sleep(0.01)
        run.terminate()
        assert run.wait(PATIENCE) == 143


def test_json(tmp_path):
    path = write(tmp_path, DOCUMENT)
    status, output = check(path, "--json")
    found = json.loads(output)
    assert status == 0 and found["good"] and [step["step"] for step in found["steps"]] == ["user-data", "join"]
    status, output = check(write(tmp_path, DOCUMENT.lower()), "--json")
    found = json.loads(output)
    assert status == 1 and found["failure"] == found["steps"][0]["failure"]["code"] == "metadata-nothing"


class Given:
    """The part of a world that the metadata cases need for their data."""

    def __init__(self):
        self.given = None
        self.local = {}
        self.server = type("Server", (), {"endpoint": "10.0.0.1:6443"})
        self.cluster = type("Cluster", (), {"ca": type("CA", (), {"pin": PIN})})

    document = CloudWorld.document

    def enter_cloud(self, service=None, *, user_data=None, token=None):
        self.given = user_data


@pytest.mark.parametrize("case", [*FORMS, *FORBIDDEN], ids=lambda case: case.name)
def test_same_result_as_a_join(tmp_path, case):
    """The join has the same failure."""
    world = Given()
    case.prepare(world)
    if world.given is None:
        return
    status, output = check(write(tmp_path, world.given))
    if not case.code:
        assert status == 0 and output.endswith("  ✓ a join can start\n"), output
    elif case.code == "token-missing":
        assert status == 1 and "✗ metadata-nothing: " in output, output
    else:
        bad(case.code, (status, output))


@pytest.mark.parametrize(("data", "code", "word"), [
    ("#!/bin/sh\n", "metadata-nothing", "a shell script"), ("", "metadata-nothing", "empty"), ("a\n\0\xff", "metadata-nothing", "another program"),
    (gzip.compress(DOCUMENT.encode())[:-9], "metadata-malformed", "truncated or damaged gzip")],
    ids=["script", "empty", "bytes", "cut"])
def test_nothing_for_node_bootstrap(tmp_path, data, code, word):
    assert bad(code, check(write(tmp_path, data)), word)["Join"] == ["- skipped: see above"]


def test_settings_of_an_image(tmp_path):
    """An image may contain more."""
    path = write(tmp_path, HEADER + to_yaml({"bootstrap": {"token": TOKEN}}))
    bad("settings-incomplete", check(path), "--config-directory=DIR", section="Join")
    (tmp_path / "etc").mkdir()
    write(tmp_path / "etc", HEADER + to_yaml(BASIS), "config.yaml")
    status, output = check(path, f"--config-directory={tmp_path}/etc")
    assert status == 0 and list(sections(output)) == ["Settings", "User data", "Join"], output
    write(tmp_path / "etc", HEADER + "a: b\n", "config.yaml")
    found = bad("settings-invalid", check(path, f"--config-directory={tmp_path}/etc"), section="Settings")
    assert found["User data"] == ["- skipped: see above"]


def test_image_with_provider_none(tmp_path):
    (tmp_path / "etc").mkdir()
    path = write(tmp_path / "etc", HEADER + to_yaml({**BASIS, "metadata": {"provider": "none"}}), "config.yaml")
    status, output = check(write(tmp_path, DOCUMENT), f"--config-directory={path.parent}")
    assert status == 1 and "! a machine would not read it: metadata.provider is none" in output


def test_k3s_token_without_cluster_type(tmp_path):
    """Its node's password is made before metadata is read."""
    text = HEADER + to_yaml({"discovery": {"endpoints": ["10.0.0.1:6443"]}, "bootstrap": {"token": f"K10{'0' * 64}::{TOKEN}"}})
    bad("settings-incomplete", check(write(tmp_path, text)), "cluster.type: expected k3s in the settings on this machine", section="Join")
    (tmp_path / "etc").mkdir()
    write(tmp_path / "etc", HEADER + "cluster: {type: k3s}\n", "config.yaml")
    assert check(tmp_path / "user-data", f"--config-directory={tmp_path}/etc")[0] == 0


def test_not_a_readable_file(tmp_path):
    os.mkfifo(tmp_path / "fifo", 0o644)
    for path, word in (("fifo", "is not a regular file; '--user-data=-' reads standard input"), (".", "is not a regular file"), ("none", "No such file")):
        bad("settings-unreadable", check(tmp_path / path), word)
    with open(tmp_path / "large", "wb") as file:
        file.truncate(1 << 40)
    bad("settings-unreadable", check(tmp_path / "large"), "larger than 1024 KiB")
    with open("/dev/zero", "rb") as zero:
        bad("settings-unreadable", check("-", stdin=zero), "larger than")
    descriptor = os.open(tmp_path, os.O_RDONLY)
    bad("settings-unreadable", check("-", stdin=descriptor), "cannot read 'standard input': Is a directory")
    os.close(descriptor)


@pytest.mark.parametrize("data", documentation.examples("user-data"), ids=str)
def test_documented_examples(tmp_path, data):
    """That of the command, with those of user data."""
    [example] = documentation.examples("shell-user-data")
    write(tmp_path, data.text, "user-data.yaml")
    program = pathlib.Path(find_program("node-bootstrap"))
    done = subprocess.run([*NOBODY, "sh", "-ec", example.text], cwd=tmp_path, env={"PATH": f"{program.parent}:/usr/bin:/bin", **KEPT}, check=False,
                          stdout=subprocess.PIPE, text=True)
    assert done.returncode == 0 and done.stdout.endswith("  ✓ a join can start\n"), done.stdout


def test_cluster_is_asked_with_local_false(tmp_path):
    world = CloudWorld.__mro__[1](tmp_path)
    try:
        path = write(tmp_path, HEADER + to_yaml({"discovery": {"endpoints": [world.server.endpoint], "caCertHashes": [world.cluster.ca.pin]},
                                                 "bootstrap": {"token": TOKEN}}))
        assert check(path, network=True)[0] == 0 and world.server.connections == []
        status, output = check(path, "--local=false", network=True)
        assert status == 0 and "Request" in sections(output) and "This machine" not in sections(output), output
        assert world.server.connections != [] and world.csrs() == []
    finally:
        world.close()


# --- Files that cloud-init or Ignition writes ---

SETTINGS = HEADER + to_yaml(BASIS)
CONFIG_PATH, TOKEN_PATH = "/etc/node-bootstrap/config.yaml", "/etc/credstore/node-bootstrap.token"


def encoded(data, *steps):
    for step in steps:
        data = step(data if isinstance(data, bytes) else data.encode())
    return data.decode() if isinstance(data, bytes) else data


def cloud_config(*files, first="#cloud-config\n"):
    return first + to_yaml({"write_files": [{"path": path, **entry} for path, entry in files]})


def ignition(*files, **more):
    return json.dumps({"ignition": {"version": "3.3.0"}, "storage": {"files": [{"path": path, **entry} for path, entry in files]}, **more})


def url(text, compression=""):
    data = gzip.compress(text.encode()) if compression else text.encode()
    return {"contents": {"source": "data:;base64," + base64.b64encode(data).decode(), "compression": compression}}


def multipart(*parts):
    return "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n" + "".join(
        f"--b\nContent-Type: text/{kind}\n\n{text}\n" for kind, text in parts) + "--b--\n"


WRITTEN = {
    "cloud-config": cloud_config((CONFIG_PATH, {"content": SETTINGS}), (TOKEN_PATH, {"content": TOKEN, "permissions": "0600"})),
    "base64": cloud_config((CONFIG_PATH, {"content": encoded(SETTINGS, base64.b64encode), "encoding": "b64"}), (TOKEN_PATH, {"content": TOKEN})),
    "gzip": cloud_config((CONFIG_PATH, {"content": encoded(SETTINGS, gzip.compress, base64.encodebytes), "encoding": "gz+b64"}), (TOKEN_PATH, {"content": TOKEN})),
    "template": cloud_config((CONFIG_PATH, {"content": SETTINGS}), (TOKEN_PATH, {"content": TOKEN}), first="## template: jinja\n#cloud-config\n"),
    "a part of a message": multipart(("x-shellscript", "#!/bin/sh"), ("cloud-config", cloud_config((CONFIG_PATH, {"content": SETTINGS}), (TOKEN_PATH, {"content": TOKEN})))),
    "a drop-in, a token in it": cloud_config(("/etc/node-bootstrap/config.yaml.d/10-a.yaml", {"content": HEADER + "bootstrap: {token: " + TOKEN + "}\n", "permissions": "0600"}),
                                             (CONFIG_PATH, {"content": SETTINGS})),
    "a file that the settings name": cloud_config((CONFIG_PATH, {"content": HEADER + "discovery: {file: /etc/cluster.yaml}\n"}), (TOKEN_PATH, {"content": TOKEN}),
                                                  ("/etc/cluster.yaml", {"content": "@CLUSTER@"})),
    "Ignition": ignition((CONFIG_PATH, url(SETTINGS)), (TOKEN_PATH, {"mode": 384, "contents": {"source": f"data:,{TOKEN}%0A"}}), ("/etc/other", {"contents": {"source": "https://a/b"}})),
    "Ignition with gzip": ignition((CONFIG_PATH, url(SETTINGS, "gzip")), (TOKEN_PATH, url(TOKEN))),
    "beside a document": multipart(("cloud-config", cloud_config((CONFIG_PATH, {"content": SETTINGS}))),
                                   ("plain", HEADER + to_yaml({"bootstrap": {"token": TOKEN}}))),
}


@pytest.mark.parametrize("data", WRITTEN.values(), ids=WRITTEN)
def test_written_files(tmp_path, data):
    ca = pki.CA("kubernetes")
    status, output = check(write(tmp_path, data.replace('"@CLUSTER@"', json.dumps(apiserver.kubeconfig("https://10.0.0.1:6443", ca.pem)))))
    assert status == 0 and "✗" not in output and output.endswith("  ✓ a join can start\n"), output
    assert f"{TOKEN_ID}.****************" in output


@pytest.mark.parametrize(("data", "code", "words", "section"), [
    (cloud_config((CONFIG_PATH, {"content": HEADER + "discovry: {}\n"}), (TOKEN_PATH, {"content": TOKEN})), "settings-invalid", [CONFIG_PATH, "discovry"], "User data"),
    (cloud_config((CONFIG_PATH, {"content": SETTINGS})), "token-missing", [], "Join"),
    (cloud_config((TOKEN_PATH, {"content": TOKEN})), "settings-incomplete", ["discovery.endpoints"], "Join"),
    (cloud_config((CONFIG_PATH, {"content": SETTINGS}), (TOKEN_PATH, {"content": "x"})), "token-malformed", [], "User data"),
    (cloud_config((CONFIG_PATH, {"content": HEADER + to_yaml({**BASIS, "bootstrap": {"token": TOKEN}})})), "token-exposed", [CONFIG_PATH], "User data"),
    (cloud_config((CONFIG_PATH, {"content": "?", "encoding": "b64"})), "metadata-malformed", ["write_files", "content"], "User data"),
    (cloud_config((CONFIG_PATH, {"content": SETTINGS, "encoding": "rot13"})), "metadata-malformed", ["write_files", "encoding"], "User data"),
    (ignition((CONFIG_PATH, {"contents": {"source": "data:;base64,?"}})), "metadata-malformed", ["storage.files[0].contents.source"], "User data"),
    (cloud_config(("/etc/other", {"content": SETTINGS})), "metadata-nothing", ["a cloud-config without"], "User data"),
    (cloud_config(*[(f"/etc/other{i}", {"content": "a"}) for i in range(257)]), "metadata-malformed", ["more than 256 files"], "User data"),
], ids=["settings", "no token", "no settings", "token", "a token that others can read", "base64", "encoding", "data URL", "other files", "too many"])
def test_written_files_with_failures(tmp_path, data, code, words, section):
    bad(code, check(write(tmp_path, data)), *words, section=section)


def test_written_files_and_an_image(tmp_path):
    """A file of the same name is replaced, others stay."""
    (tmp_path / "etc/config.yaml.d").mkdir(parents=True)
    write(tmp_path / "etc", HEADER + "node: {name: image}\n", "config.yaml")
    write(tmp_path / "etc/config.yaml.d", HEADER + "timeout: 5m\n", "50-image.yaml")
    data = cloud_config(("/etc/node-bootstrap/config.yaml.d/40-a.yaml", {"content": HEADER + "timeout: 1m\nnode: {name: files}\n"}),
                        (CONFIG_PATH, {"content": SETTINGS}), (TOKEN_PATH, {"content": TOKEN}))
    status, output = check(write(tmp_path, data), f"--config-directory={tmp_path}/etc")
    assert status == 0 and "- timeout: 300s" in output and '- node.name: "files"' in output and "1m" not in output.split("User data")[1], output


@pytest.mark.parametrize("name", ["cloud-config.yaml", "node-bootstrap.ign"])
def test_packaged_examples(name):
    status, output = check(SOURCE / "packaging/examples" / name)
    assert status == 0 and output.endswith("  ✓ a join can start\n"), output


def test_encrypted_token(tmp_path):
    data = cloud_config((CONFIG_PATH, {"content": SETTINGS}), ("/etc/credstore.encrypted/node-bootstrap.token", {"content": "AAAA"}))
    status, output = check(write(tmp_path, data))
    assert status == 0 and "it depends on a credential that only the service receives" in output, output
