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


def test_five_crashes_are_within_the_limit():
    """units/node-bootstrap.service.in: how long a start of a machine that has joined takes at most, by the deadlines in the program."""
    unit = (SOURCE / "units/node-bootstrap.service.in").read_text()

    def seconds(path, name):
        number = re.search(rf"#define {name} (\d+)", (SOURCE / "src" / path).read_text())[1]
        return int(number) / (1000 if name.endswith("_MS") else 1)

    lock, sweep = seconds("state_files/lock.h", "NB_LOCK_TIMEOUT_MS"), seconds("install/child.h", "NB_RUNNER_SWEEP_MAX_S")
    start = (seconds("os/sources.h", "NB_SOURCES_READ_TIMEOUT_MS") + seconds("install/install.c", "HOST_NAME_WAIT_MS")
             + seconds("state_files/handoff.h", "NB_FALLBACK_TIMEOUT_MS") + 2 * seconds("install/child.h", "NB_CHILD_GRACE_S") + 2 * sweep + 3 * lock
             + int(re.search(r"^RestartSec=(\d+)$", unit, re.M)[1]))
    limit, burst = int(re.search(r"^StartLimitIntervalSec=(\d+)min$", unit, re.M)[1]), int(re.search(r"^StartLimitBurst=(\d+)$", unit, re.M)[1])
    assert f"at most {start:.0f} s:" in unit and start * burst < limit * 60 and start * (burst + 1) > limit * 60, "and the limit is no longer than needed"
    for page in ("man/node-bootstrap.service.8.in", "docs/operations.md"):
        assert f"times in {limit} minutes" in (SOURCE / page).read_text()


def test_figures_are_those_of_the_recorded_runs():
    """docs/comparison.md: what report.py makes of docs/bench.json and docs/waiting.json."""
    page = (SOURCE / "docs/comparison.md").read_text(encoding="utf-8")
    assert report.update(page, report.quotes()) == page
    assert "\n".join(report.picture(json.loads((SOURCE / "docs/bench.json").read_text()))) + "\n" == (SOURCE / "docs/bench.svg").read_text()
