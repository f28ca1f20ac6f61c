# SPDX-License-Identifier: Apache-2.0
"""Limits and times of the program that the documents and the manual pages state: each is that of the source."""

import json
import re

import pytest

from bench import report
from common import SOURCE, documentation

DESIGN, ADMIN, PAGE, SERVICE, YAML = ("docs/security-design.md", *(f"man/node-bootstrap{name}.in" for name in ("-admin.8", ".8", ".service.8", ".yaml.5")))
# Document, words; file of the source, what is there.
NUMBERS = [
    (DESIGN, "one second of CPU time", "net/http.h", "#define NB_HTTP_CPU_MAX_SEC 1 "),
    (DESIGN, "keys above 8192 bits", "crypto/key_internal.h", "#define NB_KEY_BITS_MAX 8192 "),
    (DESIGN, "RSA exponents above 32 bits", "crypto/key_internal.h", "#define NB_RSA_EXPONENT_MAX 4 /* bytes */"),
    (DESIGN, "Certificates above 16 KiB", "crypto/certificate.c", "a certificate larger than 16 KiB"),
    (DESIGN, "Memory is limited to 256 MiB", "net/http_sandbox.c", "#define MEMORY_MAX ((rlim_t)256 * 1024 * 1024) "),
    (DESIGN, "at most four lines of printable text a second", "install/child.c", "#define STATUS_PAUSE_MS 250 "),
    (DESIGN, "10 s after `timeout`, `install` kills `join`", "install/child.h", "#define NB_CHILD_GRACE_S 10 "),
    (DESIGN, "takes at most 30 s", "install/child.h", "#define NB_SWEEPER_MAX_S 30 "),
    (DESIGN, "with pauses of up to 60 s", "join/retry.c", "[NB_RETRY_RESUBMIT] = { 500, 60000,"),
    (DESIGN, "were read at most 10 s ago", "admin/policy/hosts.h", "#define NB_HOSTS_AGE_MAX_MS 10000 "),
    (DESIGN, "all 16 connections", "admin/controller/monitor.h", "#define NB_MONITOR_CONNECTIONS_MAX 16 "),
    (DESIGN, "after 10 to 15 s", "admin/controller/monitor.h", "#define NB_MONITOR_FULL_MS 10000 "),
    (ADMIN, "all 16 connections", "admin/controller/monitor.h", "#define NB_MONITOR_CONNECTIONS_MAX 16 "),
    (ADMIN, "takes over within 15 seconds", "admin/client/automatic_approval.h", "#define NB_LEASE_DURATION_SEC 14 "),
    (ADMIN, "cannot be used for 5 minutes", "admin/client/client.h", "#define NB_ADMIN_UNUSABLE_MS 300000 "),
    (ADMIN, "at most the 5000 newest tokens", "admin/controller/controller.h", "#define NB_SIGNATURES_MAX 5000 "),
    (PAGE, "waits up to 60 seconds", "system/lock.h", "#define NB_LOCK_TIMEOUT_MS 60000 "),
    (PAGE, "held the lock for 60 seconds", "system/lock.h", "#define NB_LOCK_TIMEOUT_MS 60000 "),
    (PAGE, "until kubelet has run for 3 seconds", "cli/setup/setup_service.c", "#define SETTLED_USEC ((uint64_t)3 * 1000000) "),
    (PAGE, "a minute after the join at the latest", "cli/setup/setup_service.c", "#define KUBELET_MS 60000 "),
    (PAGE, "has been running for 30 seconds", "cli/machine_state.h", "#define NB_KUBELET_SETTLED_USEC ((uint64_t)30 * 1000000) "),
    (PAGE, "less than 30 seconds ago", "cli/machine_state.h", "#define NB_KUBELET_SETTLED_USEC ((uint64_t)30 * 1000000) "),
    (PAGE, "for at most 15 seconds", "cli/check/check_metadata.c", "#define PATIENCE_MS 15000 "),
    (YAML, "and fails after 5 minutes", "join/retry.h", "#define NB_RETRY_NODE_MS 300000 "),
    ("docs/operations.md", "retries for 30 seconds, then fails", "join/retry.h", "#define NB_RETRY_CONFIRM_MS 30000 "),
    ("man/node-bootstrap.failures.7.in", "retries for 30 seconds", "join/retry.h", "#define NB_RETRY_CONFIRM_MS 30000 "),
    (SERVICE, "if joining again fails for 60 seconds", "files/handoff.h", "#define NB_FALLBACK_TIMEOUT_MS 60000 "),
    (SERVICE, "gives up after 5 minutes", "join/refresh.c", "#define TIMEOUT_MS (5 * 60 * 1000) "),
    (SERVICE, "has not ended 10 seconds after", "install/child.h", "#define NB_CHILD_GRACE_S 10 "),
    (SERVICE, "limited to 7 MiB", "system/sources.h", "#define NB_SOURCES_MAX (7 * 1024 * 1024) "),
    (YAML, "at most 1 MiB", "metadata/user_data.h", "#define NB_USER_DATA_MAX (1024 * 1024) "),
    (YAML, "no connection within 2 seconds", "metadata/cloud.h", "#define NB_CLOUD_CONNECT_TIMEOUT_MS 2000 "),
    (YAML, "404 and 410 are retried for a minute", "metadata/cloud.h", "#define NB_CLOUD_PATIENCE_MS 60000 "),
    (YAML, "all addresses of a name are tried. At most 16", "settings/settings.h", "#define NB_SETTINGS_ENDPOINTS_MAX 16 "),
    (YAML, "pins are an additional check. At most 32", "settings/settings.h", "#define NB_SETTINGS_PINS_MAX 32 "),
    (YAML, "at most 16:", "settings/settings.h", "#define NB_SETTINGS_TAINTS_MAX 16 "),
    (YAML, "at most 32, each name once", "settings/settings.h", "#define NB_SETTINGS_EXTRA_ARGS_MAX 32 "),
    (YAML, "at most 3650d", "settings/types.h", "#define NB_SETTING_TIMEOUT_MAX_SECONDS (3650ULL * 24 * 3600) "),
]


def one_line(path):
    """Without line breaks, also those of a macro."""
    text = (SOURCE / path).read_text(encoding="utf-8")
    return re.sub(r"\s+", " ", documentation.plain(text) if path.startswith("man/") else text.replace("\\\n", "\n"))


@pytest.mark.parametrize("document, words, source, definition", NUMBERS, ids=[f"{row[0]}: {row[1]}" for row in NUMBERS])
def test_number_is_that_of_the_source(document, words, source, definition):
    assert words in one_line(document)
    assert definition in one_line(f"src/{source}")


def test_versions_of_libraries():
    """docs/install.md: those that the build asks for."""
    asked = "".join((SOURCE / name).read_text() for name in ("meson.build", "src/admin/meson.build"))
    text = one_line("docs/install.md")
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
