# SPDX-License-Identifier: Apache-2.0
"""SECURITY-INSIGHTS.yml has what its schema 2.2.0 requires, which is published for CUE only, and nothing that the schema does not know."""

import copy
import datetime
import re

import pytest
import yaml

from common import SOURCE

# A type, a pattern, a set of values, a list of one kind of element (not empty), or the keys of a mapping, of which those with "?" are optional.
URL, TEXT = re.compile(r"https?://\S+"), str
CONTACT = {"name": TEXT, "primary": bool, "affiliation?": TEXT, "email?": re.compile(r"[\w.%+-]+@[\w.-]+\.[A-Za-z]{2,}"), "social?": TEXT}
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
SCHEMA = {
    "header": {"schema-version": {"2.2.0"}, "last-updated": DATE, "last-reviewed": DATE, "url": URL, "comment?": TEXT},
    "project": {
        "name": TEXT, "homepage?": URL, "administrators": [CONTACT], "repositories": [{"name": TEXT, "comment": TEXT, "url": URL}],
        "vulnerability-reporting": {"reports-accepted": bool, "bug-bounty-available": bool, "policy?": URL, "comment?": TEXT},
        "documentation?": {f"{name}?": URL for name in ("design", "detailed-guide", "code-of-conduct", "quickstart-guide", "release-process",
                                                        "support-policy", "signature-verification")},
    },
    "repository": {
        "status": {"active", "abandoned", "concept", "inactive", "moved", "suspended", "unsupported", "WIP"}, "url": URL,
        "accepts-change-request": bool, "accepts-automated-change-request": bool, "core-team": [CONTACT],
        "license": {"url": URL, "expression": TEXT},
        "documentation?": {f"{name}?": URL for name in ("contributing-guide", "dependency-management-policy", "governance", "review-policy",
                                                        "security-policy")},
        "release?": {"automated-pipeline": bool, "distribution-points": [{"uri": TEXT, "comment": TEXT}], "changelog?": URL},
        "security": {
            "assessments": {"self": {"comment": TEXT, "name?": TEXT, "evidence?": URL, "date?": DATE}},
            "tools?": [{"name": TEXT, "type": {"fuzzing", "container", "secret", "SCA", "SAST", "other"}, "comment?": TEXT, "rulesets": [TEXT],
                        "integration": {"adhoc": bool, "ci": bool, "release": bool}, "results": {}}],
        },
    },
}


def complaints(value, schema, where=""):
    if isinstance(schema, dict):
        keys = {key.rstrip("?"): wanted for key, wanted in schema.items()}
        if not isinstance(value, dict):
            return [f"{where}: no mapping"]
        found = [f"{where}.{key}: missing" for key in schema if not key.endswith("?") and key not in value]
        found += [f"{where}.{key}: unknown" for key in value.keys() - keys.keys()]
        return found + [one for key in value.keys() & keys.keys() for one in complaints(value[key], keys[key], f"{where}.{key}")]
    if isinstance(schema, list):
        is_list = isinstance(value, list) and value
        return [one for number, item in enumerate(value) for one in complaints(item, schema[0], f"{where}[{number}]")] if is_list else [f"{where}: no list"]
    is_valid = (value in schema if isinstance(schema, set) else isinstance(value, schema) if isinstance(schema, type)
                else isinstance(value, str) and schema.fullmatch(value))
    return [] if is_valid else [f"{where}: {value!r}"]


@pytest.fixture(name="document")
def read_document():
    return yaml.safe_load((SOURCE / "SECURITY-INSIGHTS.yml").read_text(encoding="utf-8"))


def test_it_follows_the_schema(document):
    assert complaints(document, SCHEMA) == []
    for key in ("last-updated", "last-reviewed"):
        datetime.date.fromisoformat(document["header"][key])


def test_what_is_no_such_document(document):
    for section, key, value, expected in [
            ("header", "schema-version", "1.0.0", ".header.schema-version: '1.0.0'"), ("project", "administrators", [], ".project.administrators: no list"),
            ("repository", "status", None, ".repository.status: None"), ("repository", "licence", {}, ".repository.licence: unknown")]:
        changed = copy.deepcopy(document)
        changed[section][key] = value
        assert complaints(changed, SCHEMA) == [expected]
    del document["repository"]["license"]
    assert complaints(document, SCHEMA) == [".repository.license: missing"]


def test_each_page_is_in_this_tree(document):
    base = f"{document['repository']['url']}/blob/main/"
    pages = re.findall(re.escape(base) + r"(\S+)", (SOURCE / "SECURITY-INSIGHTS.yml").read_text(encoding="utf-8"))
    assert len(pages) > 5 and [page for page in pages if not (SOURCE / page).is_file()] == []
