# SPDX-License-Identifier: Apache-2.0
"""What the manual pages and the README say is what the programs do: examples run, and lists are complete."""

import os
import pathlib
import re
import subprocess
import sys
from collections import Counter

import pytest

from machine import SOURCE, find_program

sys.path.insert(0, str(SOURCE / "tests"))
import documentation  # noqa: E402

MAN = SOURCE / "man"


def page(name):
    return documentation.plain((MAN / f"{name}.in").read_text(encoding="ascii"))


def test_every_example_says_what_it_is():
    kinds = {"yaml", "unit", "shell", "shell-join", "shell-pin", "shell-setup", "shell-reset", "shell-user-data", "user-data"}
    assert [str(example) for example in documentation.examples() if example.kind not in kinds] == []


def test_every_example_has_a_run():
    """Settings and setup: test_documented_ways.py; `shell` in the pages: each by itself, tests/e2e. Whoever adds one of these adds its run there."""
    found = Counter((example.kind, example.where.split(":")[0].removesuffix(".in")) for example in documentation.examples()
                    if example.kind.startswith("shell") and example.kind != "shell-setup")
    assert {key: n for key, n in found.items() if key[0] != "shell" or key[1] == "README.md"} == {
        ("shell-join", "node-bootstrap.8"): 1, ("shell-join", "node-bootstrap.service.8"): 1, ("shell-pin", "node-bootstrap.yaml.5"): 1,
        ("shell-reset", "node-bootstrap.8"): 1, ("shell-user-data", "node-bootstrap.8"): 1, ("shell", "README.md"): 6}


def test_settings_in_full_leave_no_key_out():
    full = next(e for e in documentation.examples("yaml") if "keyType" in e.text).text
    header = (SOURCE / "src/format/settings.h").read_text()
    keys = re.findall(r"NB_SETTING_\w+, +/\* ([A-Za-z.]+)", header)
    assert len(keys) > 10
    for key in keys:
        assert re.search(rf"^ *{key.rsplit('.', 1)[-1]}:", full, re.M), f"{key} is not in the example"
        assert key.rsplit(".", 1)[-1] in page("node-bootstrap.yaml.5"), f"{key} is not in node-bootstrap.yaml(5)"


def test_providers_are_listed():
    """In the list of names, and each with an entry that says how it is recognised."""
    source = (SOURCE / "src/format/provider.c").read_text()
    known = set(re.findall(r"\[NB_PROVIDER_\w+\] = \{ \"([a-z]+)\"", source)) - {"none", "auto"}
    text = page("node-bootstrap.yaml.5")
    entries = set(re.findall(r"^\.It Li ([a-z]+)$", text.split(".Ss Providers")[1].split(".Sh ")[0], re.M))
    named = re.search(r"^or one of\n\.Li ([a-z0-9 ,]+) \.$", text, re.M)[1].split(" , ")
    assert len(known) > 10 and entries == known == set(named)


def test_the_readme_names_every_provider():
    titles = dict(re.findall(r"\[NB_PROVIDER_(\w+)\] = \{ \"[a-z]+\", \"([^\"]+)\"", (SOURCE / "src/format/provider.c").read_text()))
    readme = " ".join((SOURCE / "README.md").read_text().split())
    assert len(titles) > 10 and [title for name, title in titles.items() if name not in ("NONE", "AUTO") and title not in readme] == []


def test_what_recognises_a_provider_is_in_its_entry():
    source = (SOURCE / "src/cloud/recognise.c").read_text()
    entries = dict(re.findall(r"^\.It Li ([a-z]+)\n((?:.*\n)*?)(?=\.It|\.El)", page("node-bootstrap.yaml.5").split(".Ss Providers")[1], re.M))
    rules = re.findall(r"\{ NB_PROVIDER_(\w+), FIELD\((\w+)\), \w+, \"([^\"]+)\" \}", source)
    assert len(rules) > 20
    for provider, field, value in rules:
        assert field in entries[provider.lower()] and value in entries[provider.lower()], (provider, field, value)


def test_what_a_provider_gives_is_in_its_entry():
    """Whether it has a place for the token alone, and the form of its provider ID."""
    source = (SOURCE / "src/cloud/table.c").read_text()
    entries = dict(re.findall(r"^\.It Li ([a-z]+)\n((?:.*\n)*?)(?=\.It|\.El)", page("node-bootstrap.yaml.5").split(".Ss Providers")[1], re.M))
    rows = dict(re.findall(r"\[NB_PROVIDER_(\w+)\] = \{\n((?: {16}.*\n)*) {8}\}", source))
    assert len(rows) > 10
    for name, row in rows.items():
        entry = entries[name.lower()].replace(" Ns ", "").replace("Ar ", "")
        form = re.search(r"\.id_form = \"([^*\"]*)", row)
        assert form[1] in entry if form else "No provider ID" in entry or "no provider ID" in entry, name
        if ".read =" not in row:
            assert (".token =" in row) == ("Token:" in entry), name


def test_keys_for_metadata_are_listed():
    keys = dict(re.findall(r"(NB_SETTING_\w+), +/\* ([A-Za-z.]+)", (SOURCE / "src/format/settings.h").read_text()))
    allowed = {keys[name] for name in re.findall(r"\[(NB_SETTING_\w+)\] = true", (SOURCE / "src/format/settings_metadata.c").read_text())}
    of_discovery = {key for key in keys.values() if key.startswith("discovery.")}
    assert of_discovery - allowed == {"discovery.urlCAFile"}
    listed = re.search(r"^A document in metadata may set\n((?:.*\n)*?)Any other key is an error", page("node-bootstrap.yaml.5"), re.M)[1]
    assert set(re.findall(r"\w+\.\w+", listed)) | {"timeout"} == allowed - of_discovery | {"kubelet.extraArgs"}
    options = re.search(r"options\[\] = \{ (.*) \}", (SOURCE / "src/format/settings_metadata.c").read_text())[1]
    assert all(option.strip('" ') in listed for option in options.split(","))


def test_credentials_are_listed():
    header = (SOURCE / "src/base/sources.h").read_text()
    known = set(re.findall(r"define NB_CREDENTIAL_\w+ \"([a-z.-]+)\"", header))
    assert len(known) > 4 and known == set(re.findall(r"^\.It Li (node-bootstrap\.[a-z-]+)$", page("node-bootstrap.service.8"), re.M))


@pytest.mark.parametrize("example", documentation.examples("unit"), ids=str)
def test_systemd_accepts_unit(tmp_path, example):
    build = pathlib.Path(os.environ.get("NB_BUILDDIR") or SOURCE / "build")
    name = example.argument
    is_drop_in = (build / "units" / name).exists() or (SOURCE / "units" / name).exists() or name == "kubelet.service"
    path = tmp_path / f"{name}.d/50-example.conf" if is_drop_in else tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(example.text)
    environment = {**os.environ, **({"NB_EXPOSURE_MAX": "16"} if "AmbientCapabilities=" in example.text else {})}     # one more, and that is why it is a drop-in
    done = subprocess.run([SOURCE / "tests/lint/units", build / "units/node-bootstrap.service", SOURCE / "units", tmp_path], env=environment,
                          check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout


def test_the_drop_in_for_scaleway_is_the_one_among_the_examples():
    lines = (SOURCE / "packaging/examples/scaleway.conf").read_text().splitlines(keepends=True)
    shipped = "".join(line for line in lines if not line.startswith("#"))
    assert shipped in [example.text for example in documentation.examples("unit")]


def test_fields_are_listed():
    """node-bootstrap.journal(7) names every field that the program knows, and no other."""
    source = (SOURCE / "src/base/log.c").read_text()
    known = {"NODE_BOOTSTRAP_" + name for name in re.findall(r"\[NB_FIELD_\w+\] = \"(\w+)\"", source)}
    known |= set(re.findall(r"\"(NODE_BOOTSTRAP_[A-Z_]+)=", source)) | {"NODE_BOOTSTRAP_" + n for n in re.findall(r"PREFIX \"(\w+)=", source)}
    listed = set(re.findall(r"^\.It Li (NODE_BOOTSTRAP_\w+)", page("node-bootstrap.journal.7"), re.M))
    assert len(known) > 5
    assert listed == known


def test_stages_are_listed():
    source = (SOURCE / "src/stage/join.c").read_text()
    stages = re.findall(r"= \{ \"([a-z-]+)\", (?:\"|[A-Z]+)|^ +\{ \"([a-z-]+)\", \"", source, re.M)
    stages = {one or other for one, other in stages}
    text = page("node-bootstrap.journal.7")
    listed = re.search(r"The stage of the join:\n((?:\.Li .*\n|or\n)+)", text)[1].replace(".Li", "").replace(",", "").replace("or\n", "").split()
    assert len(stages) >= 3 and set(listed) - {"."} == stages


def help_of(*verb):
    return subprocess.run([find_program("node-bootstrap"), *verb, "--help"], check=True, text=True, stdout=subprocess.PIPE).stdout


def test_verbs_and_options_are_listed():
    """SYNOPSIS, the lists, --help of each verb and what the verbs take agree."""
    text = page("node-bootstrap.8")
    verbs = set(re.findall(r"^  ([a-z]+) ", help_of(), re.M))
    assert verbs == set(re.findall(r"^\.It Cm (\w+)", text, re.M)) == set(re.findall(r"^\.Cm (\w+)", text.split(".Sh DESCRIPTION")[0], re.M))
    listed = {option for line in re.findall(r"^\.It Fl .*", text, re.M) for option in re.findall(r"Fl -([a-z-]+)", line)}
    told = {option for verb in ([], *([verb] for verb in verbs)) for option in re.findall(r"^ .*--([a-z-]+)", help_of(*verb), re.M)}
    assert len(told) > 3 and told <= listed
    rows = {row for path in (SOURCE / "src/verb").glob("*.c") for row in re.findall(r"\[OPTION_\w+\] = \{ \"([a-z-]+)\", (?:NULL|\"[^\"]*\"), ", path.read_text())}
    assert listed == told | rows


def test_installer_has_no_network_library():
    """SECURITY.md: what talks to the network does not run as root."""
    told = subprocess.run(["readelf", "--dynamic", find_program("install")], check=True, text=True, stdout=subprocess.PIPE).stdout
    needed = set(re.findall(r"NEEDED.*\[lib([a-z-]+)", told)) - {"asan", "ubsan"}
    assert needed <= {"c", "gnutls", "json-c", "systemd", "yaml-", "yaml"}, needed
