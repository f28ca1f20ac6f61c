# SPDX-License-Identifier: Apache-2.0
"""Each row of failures.def is in the manual pages and `explain`, and in the catalogue unless it needs nothing; nothing else is."""

import configparser
import re
import subprocess
import sys

from common import SOURCE, documentation
from common.failures import FAILURES, GENERATOR, is_for_k3s_server
from common.machine import BUILD
from .command_line import complete, explain, one_line, plain
from .tables import tables

EVENTS = {code for code, row in FAILURES.items() if row["class"] == "event"}
PARTS = ("subject", "what", "unchanged", "remedy")
QUIET = {code for code, row in FAILURES.items() if row["remedy"].startswith("Nothing to do.")}
K3S = "remedy-k3s"      # of some rows


def section(page, title):
    return documentation.plain((BUILD / "man" / page).read_text(encoding="ascii")).split(f".Sh {title}\n")[1].split("\n.Sh ")[0]


def catalog(path="src/base/node-bootstrap.catalog"):
    """code -> texts, of the journal's catalog; an unknown MESSAGE_ID is its own code."""
    codes = {row["message-id"]: code for code, row in FAILURES.items()}
    found = {}
    for entry in re.split(r"^-- ", (BUILD / path).read_text(encoding="ascii"), flags=re.M)[1:]:
        head, *paragraphs = entry.strip().split("\n\n")
        identifier, subject = re.match("(.*)\nSubject: (.*)\n", head).groups()
        found[codes.get(identifier, identifier)] = [subject, *paragraphs]
    return found


def in_the_page():
    """code -> texts, with class and exit status, of node-bootstrap.failures(7)."""
    entries = re.findall(r"^\.It Sy (\S+) Pq Li (\w+) , No exit status (\d+)\n((?:.*\n)*?)(?=\.It|\.El)", section("node-bootstrap.failures.7", "FAILURES"), re.M)
    return {code: (kind, status, one_line(re.sub(r"^\.(Pp|Bd.*|Ed)\n", "", text, flags=re.M))) for code, kind, status, text in entries}


def messages():
    """code -> MESSAGE_ID and subject, of node-bootstrap.journal(7)."""
    entries = re.findall(r"^\.It Sy (\S+) Pq Li (\S+)\n((?:.*\n)*?)(?=\.It|\.El)", section("node-bootstrap.journal.7", "MESSAGES"), re.M)
    return {code: (identifier, one_line(text)) for code, identifier, text in entries}


def explained():
    """code -> class, exit status and MESSAGE_ID, and texts, of `node-bootstrap explain` for all that it lists."""
    listed = [line.split()[0] for line in explain().stdout.splitlines()]
    heads = "|".join(map(re.escape, listed))
    entries = re.split(rf"^(?=(?:{heads}): )", explain(*listed).stdout, flags=re.M)[1:]
    return {entry.partition(":")[0]: one_line(entry) for entry in entries}


def test_rows_are_the_same_everywhere():
    in_catalog, in_failures, in_messages, in_explain = catalog(), in_the_page(), messages(), explained()
    codes = list(FAILURES)
    assert list(in_catalog) == [code for code in codes if code not in QUIET]
    assert list(in_messages) == list(in_explain) == complete("node-bootstrap", "explain", "") == codes
    assert list(in_failures) == [code for code in codes if code not in EVENTS]
    for code, row in FAILURES.items():
        what, unchanged, remedy = (one_line(plain(row[part])) for part in PARTS[1:])
        k3s = [one_line(plain(row[K3S]))] if K3S in row else []
        shown = {part: "\n".join(GENERATOR.wrap(GENERATOR.without_fields(text))) for part, text in row.items() if part in (*PARTS, K3S)}
        shown["subject"] = row["subject"]
        assert code in QUIET or in_catalog[code] == [*(shown[part] for part in PARTS), *(f"With k3s and RKE2:\n{shown[K3S]}" for _ in k3s)]
        assert in_messages[code] == (row["message-id"], row["subject"] + ".")
        assert in_explain[code] == one_line(
            f"{code}: {row['subject']} class {row['class']}, exit status {row['exit']}, MESSAGE_ID {row['message-id']} "
            f"What happened {what} What was not changed {unchanged} What to do {remedy}" + "".join(f" What to do with k3s and RKE2 {text}" for text in k3s))
        if code not in EVENTS:
            assert in_failures[code] == (row["class"], row["exit"], " ".join([f"{row['subject']}. {what} {unchanged} {remedy}", *(f"With k3s and RKE2: {text}" for text in k3s)]))


def test_no_field_is_in_a_command_of_the_journal():
    """An attacker who has taken over a join writes all fields, and root copies commands from `journalctl -x`."""
    for path in ("src/base/node-bootstrap.catalog", "src/admin/node-bootstrap-admin.catalog"):
        texts = [text for texts in catalog(path).values() for text in texts]
        assert all(text.count("`") % 2 == 0 for text in texts)
        inside = [command for text in texts for command in GENERATOR.commands(text)]
        assert not [command for command in inside if "@" in command] and any("<CSR>" in command for command in inside)
        assert any("@NODE_BOOTSTRAP_CSR@" in text for text in texts), "elsewhere, a field is replaced"


def groups_in_the_page():
    """(title, sentence) -> codes, of node-bootstrap.failures(7)."""
    parts = re.findall(r"^\.Ss (.*)\n((?:(?!\.).*\n)+)\.Bl .*\n((?:.*\n)*?)\.El", section("node-bootstrap.failures.7", "FAILURES"), re.M)
    return {(title, one_line(about)): re.findall(r"^\.It Sy (\S+)", entries, re.M) for title, about, entries in parts}


def test_every_code_is_in_a_group():
    """In the page, each code is below the heading and the sentence of its group, and nothing is above the first heading."""
    assert section("node-bootstrap.failures.7", "FAILURES").startswith(".Ss ")
    expected = {}
    for code, row in FAILURES.items():
        if code not in EVENTS:
            expected.setdefault(row["group"], []).append(code)
    found = groups_in_the_page()
    assert list(found.items()) == list(expected.items()) and len(found) > 5
    assert all(about.endswith(".") for _, about in found)


def test_a_code_without_a_group_is_refused(tmp_path):
    text = (SOURCE / "src/base/failures.def").read_text(encoding="ascii")
    (tmp_path / "failures.def").write_text(re.sub("^== .*\n", "", text, flags=re.M), encoding="ascii")
    done = subprocess.run([sys.executable, SOURCE / "src/base/failures.py", "mdoc", tmp_path / "failures.def", tmp_path / "mdoc"], check=False, capture_output=True, text=True)
    assert done.returncode == 1 and "[service-credential] is in no group" in done.stderr


def test_routine_is_quiet():
    """Every start and every stage logs one of these; a failure always has its text."""
    assert {"already-joined", "connected", "installed", "joined", "stage-done"} <= QUIET <= EVENTS


def test_fields_in_the_texts_are_fields():
    known = {"NODE_BOOTSTRAP_" + name for name in tables()["fields"]}
    named = {field for row in FAILURES.values() for part in (*PARTS, K3S) for field in re.findall("@([^@ ]+)@", row.get(part, ""))}
    assert len(named) > 3 and named <= known


def test_exit_statuses():
    """Each is in the manual page, and the unit and systemd treat each as a failure, except a stop on request."""
    listed = re.findall(r"^\.It (\d+)$", section("node-bootstrap.8", "EXIT STATUS"), re.M)
    failures = {row["exit"] for code, row in FAILURES.items() if code not in EVENTS}
    stopped = FAILURES["stopped"]["exit"]
    assert sorted(listed, key=int) == listed and set(listed) == {"0", "1", "2", "3", "4", "5", stopped} | failures
    assert all(status == "1" or 64 <= int(status) <= 78 for status in failures), "others are the shell's, or systemd's"
    for name, good in {"node-bootstrap.service": [stopped], "node-bootstrap-refresh.service": [stopped], "node-bootstrap-platform.service": []}.items():
        unit = configparser.ConfigParser(strict=False, delimiters=["="], comment_prefixes=["#"], interpolation=None, allow_no_value=True)
        unit.optionxform = str
        unit.read(BUILD / "units" / name)
        service = unit["Service"]
        assert service.get("SuccessExitStatus", "").split() == good, name
        # Neither a status that starts the service over and over, nor one that keeps a crash from starting it again.
        assert service.get("Restart", "no") in ("no", "on-abnormal") and not {"RestartPreventExitStatus", "RestartForceExitStatus"} & set(service), name


def test_commands_that_no_test_runs_are_documented():
    """Those of k3s: no test has a server of it. The end-to-end tests run the others."""
    unrun = {command for row in FAILURES.values() for key in ("remedy", K3S) for command in GENERATOR.commands(row.get(key, "")) if is_for_k3s_server(command)}
    listed = (SOURCE / "docs/k3s.md").read_text(encoding="ascii").split("No test runs", 1)[1].split("\n\n")[0]
    assert set(re.findall("`([^`]*)`", " ".join(listed.split()))) == unrun
