# SPDX-License-Identifier: Apache-2.0
"""The files that cloud-init and Ignition write, and Ignition configs in a form in which they can be compared."""

import os
import subprocess
from urllib.parse import unquote

import yaml

from common.machine import KEPT, find_program


def from_butane(document):
    """The Ignition config that butane generates from the fields of the example."""
    def resource(entry):
        contents = entry.get("contents", {})
        return {**entry, "contents": contents["inline"]} if "inline" in contents else entry

    assert (document["variant"], document["version"]) in [("fcos", "1.4.0"), ("flatcar", "1.0.0")]
    storage = {kind: [resource(entry) for entry in entries] for kind, entries in document["storage"].items()}
    return {"ignition": {"version": "3.3.0"}, "storage": storage, "systemd": document["systemd"]}


def without_urls(document):
    """An Ignition config with the text of its files instead of their data URLs."""
    for file in document["storage"]["files"]:
        if file["contents"]["source"].startswith("https:"):
            continue
        scheme, text = file["contents"]["source"].split(",", 1)
        assert scheme == "data:" and not file["contents"].get("compression")
        file["contents"] = unquote(text)
    return document


def files_of(text):
    """What cloud-init or Ignition writes: path, mode and text of each file."""
    document = yaml.safe_load(text)
    if text.startswith("#cloud-config\n"):
        return [(entry["path"], int(entry["permissions"], 8), entry["content"]) for entry in document["write_files"]]
    return [(file["path"], file["mode"], file["contents"]) for file in without_urls(document)["storage"]["files"]]


def check_files(tmp_path, text, *arguments):
    """`node-bootstrap check` on a machine with these files, without a network."""
    for path, mode, content in files_of(text):
        file = tmp_path / path.removeprefix("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
        file.chmod(mode)
    return subprocess.run(
        ["unshare", "--user", "--net", find_program("node-bootstrap"), "check", "--local", f"--config-directory={tmp_path}/etc/node-bootstrap", *arguments],
        text=True, check=False, stdout=subprocess.PIPE, env={"PATH": os.environ["PATH"], **KEPT, "CREDENTIALS_DIRECTORY": f"{tmp_path}/etc/credstore"},
    )
