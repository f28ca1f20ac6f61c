# SPDX-License-Identifier: Apache-2.0
"""Versions and measurements in the documents. The numbers in the manual pages come from the program (man/numbers.h)."""

import json
import re

from bench import report
from common import SOURCE


def test_versions_of_libraries():
    """docs/install.md: those that the build asks for."""
    asked = "".join((SOURCE / name).read_text() for name in ("meson.build", "src/admin/meson.build"))
    text = re.sub(r"\s+", " ", (SOURCE / "docs/install.md").read_text(encoding="utf-8"))
    names = {"libsystemd": "systemd", "gnutls": "GnuTLS", "yaml-0.1": "libyaml"}
    found = re.findall(r"dependency\('([\w.-]+)', version: '>= ([\d.]+)'\)", asked)
    assert len(found) > 5 and [name for name, version in found if f"{names.get(name, name)} {version}" not in text] == []
    meson = re.search(r"meson_version: '>= ?([\d.]+)'", asked)[1]
    assert f"meson {meson.removesuffix('.0') if meson.count('.') > 1 else meson}" in text


def test_figures_are_those_of_the_recorded_runs():
    """docs/comparison.md: what report.py makes of docs/bench.json and docs/waiting.json."""
    page = (SOURCE / "docs/comparison.md").read_text(encoding="utf-8")
    assert report.update(page, report.quotes()) == page
    assert "\n".join(report.picture(json.loads((SOURCE / "docs/bench.json").read_text()))) + "\n" == (SOURCE / "docs/bench.svg").read_text()
