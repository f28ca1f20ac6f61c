# SPDX-License-Identifier: Apache-2.0
"""packaging/sbom, and the schema of CycloneDX, which Debian 13 has."""

import json
import re
import subprocess
from urllib.parse import unquote

from common import SOURCE
from . import image


def validate(folder, document):
    """What packaging/check-sbom returns."""
    (folder / "sbom.json").write_text(json.dumps(document))
    return subprocess.run(image.command_in("trixie", folder, "packaging/check-sbom", "FOLDER/sbom.json"), cwd=SOURCE, check=False,
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def made_of(folder, path):
    """The valid bill of materials of this file."""
    done = subprocess.run([SOURCE / "packaging/sbom", path], check=True, text=True, stdout=subprocess.PIPE)
    document = json.loads(done.stdout)
    checked = validate(folder, document)
    assert checked.returncode == 0, checked.stdout
    return document


def assert_names_libraries(document, folder, release):
    """By the purls that Debian's versions of them have in the release that the file was built with; returns their names."""
    ours, *libraries = document["components"]
    assert ours["name"].startswith("kube-node-bootstrap") and ours["purl"].startswith("pkg:generic/")
    show = ["dpkg-query", "--show", "--showformat=${Package} ${Version} ${source:Package}@${source:Version}\n", *(library["name"] for library in libraries)]
    said = subprocess.run(image.command_in(release, folder, *show), cwd=SOURCE, check=True, text=True, stdout=subprocess.PIPE).stdout
    number = {"bookworm": "12", "trixie": "13"}[release]
    found = [re.fullmatch(r"pkg:deb/debian/(\S+)@(\S+)\?arch=amd64&distro=debian-(\d+)&upstream=(\S+)", library["purl"]) for library in libraries]
    assert [f"{purl[1]} {unquote(purl[2])} {unquote(purl[4])}" for purl in found] == said.splitlines()
    assert {purl[3] for purl in found} == {number}
    return {library["name"] for library in libraries}
