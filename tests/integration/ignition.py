# SPDX-License-Identifier: Apache-2.0
"""Ignition configs in a form in which they can be compared."""

from urllib.parse import unquote


def from_butane(document):
    """The Ignition config that butane generates from the fields of the example."""
    def resource(entry):
        contents = entry.get("contents")
        return {**entry, "contents": contents["inline"]} if contents else entry

    assert (document["variant"], document["version"]) == ("fcos", "1.4.0")
    storage = {kind: [resource(entry) for entry in entries] for kind, entries in document["storage"].items()}
    return {"ignition": {"version": "3.3.0"}, "storage": storage, "systemd": document["systemd"]}


def without_urls(document):
    """An Ignition config with the text of its files instead of their data URLs."""
    for file in document["storage"]["files"]:
        scheme, text = file["contents"]["source"].split(",", 1)
        assert scheme == "data:" and not file["contents"].get("compression")
        file["contents"] = unquote(text)
    return document
