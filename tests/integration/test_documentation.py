# SPDX-License-Identifier: Apache-2.0
"""The manual pages and the documents match the programs: examples run, and lists are complete."""

import fnmatch
import html.parser
import pathlib
import re
import subprocess
import urllib.parse
from collections import Counter

import pytest
import yaml

from common import SOURCE, documentation, failures, metadata
from common.documentation import page
from common.failures import FAILURES, GENERATOR
from common.machine import BUILD, find_program
from .tables import tables


def test_every_example_says_what_it_is():
    kinds = {"yaml", "unit", "shell", "shell-setup", "shell-user-data", "user-data", "admin", "policy", "machines", "inventory"}
    of_documents = {"yaml", "unit", "shell", "user-data", "cloud-config", "console", "ansible"}
    assert [str(example) for example in documentation.examples() if example.kind not in (of_documents if example.is_of_document else kinds)] == []


# Which test runs the commands of a document with this name.
COMMANDS = {
    "print-join-command": "e2e/test_documentation.py", "setup": "e2e/test_documentation.py", "token-and-pin": "e2e/test_documentation.py",
    "credential": "e2e/test_documentation.py", "start": "e2e/test_documentation.py", "look": "e2e/test_documentation.py",
    "image": "e2e/test_documentation.py", "refresh": "e2e/test_documentation.py", "remove": "e2e/test_documentation.py",
    "admin": "e2e/test_admin_join.py", "controller": "e2e/test_admin_join.py", "renew-token": "integration/test_admin_print.py",
    "fleet": "e2e/test_fleet.py", "apt-repository": "e2e/test_repository.py", "apt-install": "e2e/test_repository.py",
    "rpm": "e2e/test_rpm.py", "verify-release": "e2e/test_release.py", "backtrace": "e2e/test_backtrace.py", "quick-loop": "run",
    "mkosi": "e2e/test_mkosi.py", "k3s-node": "e2e/test_k3s.py",
    "sysext": "e2e/test_sysext.py", "sysext-remove": "e2e/test_sysext.py", "metrics": "e2e/test_metrics.py",
    "tpm-key": "e2e/test_tpm.py", "tpm-enroll": "e2e/test_tpm.py", "tpm-fingerprint": "e2e/test_tpm.py", "tpm-fleet": "e2e/test_tpm.py",
    "tpm-inventory": "e2e/test_tpm.py",
    "cluster-api-image": "e2e/test_cluster_api.py", "cluster-api-sentinel": "e2e/test_cluster_api.py", "cluster-api-secret": "integration/test_admin_print.py",
}


def test_every_example_has_a_run():
    """Settings and setup: test_documented_join_methods.py; `shell` in the pages: tests/e2e. A new example needs a test there."""
    found = Counter((example.kind, example.where.split(":")[0].removesuffix(".in")) for example in documentation.examples()
                    if example.kind.startswith("shell") and example.kind != "shell-setup" and not example.is_of_document)
    assert {key: n for key, n in found.items() if key[0] != "shell"} == {
        ("shell-user-data", "node-bootstrap.8"): 1}
    assert {example.argument for example in documentation.examples("shell") if example.is_of_document} == set(COMMANDS)
    for name, path in COMMANDS.items():
        assert f'commands("{name}")' in (SOURCE / "tests" / path).read_text(), f"{path} does not run the commands {name}"


def test_credentials_that_fw_cfg_cannot_name():
    """QEMU has room for a name of 55 characters (FW_CFG_MAX_FILE_PATH, with the NUL)."""
    too_long = {name for name in documentation.credentials() if len(f"opt/io.systemd.credentials/{name}") > 55}
    excepted = re.search(r"^but not for\n((?:.*\n)*?)names that are too long for QEMU$", page("node-bootstrap.service.8"), re.M)[1]
    assert too_long and set(re.findall(r"node-bootstrap\.[a-z-]+", excepted)) == too_long


def test_commands_that_stand_in_several_places_are_the_same():
    """The README shows the shortest way, and a remedy on a console cannot be a link; a manual page refers to the document."""
    found = {}
    for example in documentation.examples("shell"):
        if example.is_of_document:
            found.setdefault(example.argument, set()).add(example.text)
    assert [name for name, texts in found.items() if len(texts) > 1] == []
    pin = documentation.commands("token-and-pin").split("\n")[1]
    assert {code for code, row in FAILURES.items() if pin in GENERATOR.commands(row["remedy"])} == {"settings-incomplete", "ca-pin-mismatch"}
    assert [path.name for path in documentation.PAGES if "openssl pkey \\-pubin" in path.read_text(encoding="ascii")] == []


def test_continuous_integration_runs_the_commands_of_the_readme():
    """Both, on both releases, where containers can be booted."""
    job = yaml.safe_load((SOURCE / ".github/workflows/ci.yml").read_text())["jobs"]["tests"]
    asked = re.search(r"^On Debian (\d+) or (\d+) as root, .*:\n\n    (.+)\n    (.+)$", documentation.README.read_text(), re.M).groups()
    assert job["strategy"]["matrix"] == {"debian": [int(release) for release in asked[:2]], "command": list(asked[2:])}
    assert "--privileged" in job["container"]["options"] and job["steps"][-1]["run"] == "${{ matrix.command }}"


LINK = re.compile(r"\]\(([^()\s]+)\)|<img [^>]*src=\"([^\"]+)\"")


def anchors(path):
    """Of a document's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^ *```.*?^ *```$", "", path.read_text(encoding="utf-8"), flags=re.M | re.S), re.M)
    return {re.sub(r"[^a-z0-9 _-]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", documentation.DOCUMENTS, ids=lambda path: path.name)
def test_every_link_has_its_target(path):
    broken = []
    for link in (one or other for one, other in LINK.findall(path.read_text(encoding="utf-8"))):
        if link.startswith("https://"):
            continue
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        if not target.exists() or anchor and anchor not in anchors(target):
            broken.append(link)
    assert broken == []


def test_every_document_is_linked_from_the_readme():
    readme = documentation.README.read_text(encoding="utf-8")
    assert [path.name for path in documentation.DOCUMENTS[1:] if f"({path.relative_to(SOURCE)}" not in readme] == []


def test_contributing_names_the_layers():
    named = [name for cell, _ in documentation.rows_of("Where things are", SOURCE / "CONTRIBUTING.md") for name in re.findall("`(.+?)`", cell)]
    assert sorted(named) == sorted(path.name for path in (SOURCE / "src").iterdir() if path.is_dir())


def words_without_code(path):
    prose = re.sub(r"^ *```.*?^ *```$", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    return len(re.sub(r"^    .*$", "", prose, flags=re.M).split())


def test_readme_and_security_are_short():
    assert len(documentation.README.read_text(encoding="utf-8").split()) <= 700 and words_without_code(SOURCE / "SECURITY.md") <= 1450


def test_every_guarantee_has_its_test():
    rows = documentation.rows_of("Guarantees", SOURCE / "SECURITY.md")
    assert len(rows) > 8
    for _, link in rows:
        name, path = re.fullmatch(r"\[(test_\w+)\]\((tests/[\w/.]+)\)", link).groups()
        assert f"\ndef {name}(" in (SOURCE / path).read_text(), link


@pytest.mark.each_release
def test_tested_with_this_distribution():
    """The rows of CI are those in which CI runs this test: tests/run does so in both releases."""
    here = dict(line.split("=", 1) for line in pathlib.Path("/etc/os-release").read_text().splitlines() if "=" in line)
    systemd = subprocess.run(["systemctl", "--version"], check=True, text=True, stdout=subprocess.PIPE).stdout.split()[1]
    in_ci = {distribution: version for distribution, version, what in documentation.rows_of("Tested with") if "outside of CI" not in what}
    assert set(in_ci) == {"Debian 12", "Debian 13"}
    name = "Debian " + here.get("VERSION_ID", "unstable").strip('"')
    assert name not in in_ci or in_ci[name] == systemd


def test_the_first_boot_is_the_example():
    """README.md, docs/first-boot.md and packaging/examples/cloud-config.yaml, which also enables the service."""
    first, second = (yaml.safe_load(example.text) for example in documentation.examples("cloud-config"))
    example = yaml.safe_load((SOURCE / "packaging/examples/cloud-config.yaml").read_text())
    assert first == second and first["write_files"] == example["write_files"]


def test_what_the_readme_shows_is_what_the_program_prints():
    """They are in the recording, which tests/e2e/test_demo.py compares with another one."""
    setup, status = (example.text for example in documentation.of_document(documentation.README) if example.kind == "console")
    shown = documentation.recorded(documentation.RECORDING)
    join = documentation.join_in(shown)
    assert re.sub("sha256:.*", "sha256:…", re.sub("--token .* --disc", "--token … --disc", join)) == setup
    command, *lines = status.splitlines()
    [printed] = re.findall(r"^worker-2# systemctl status .*\n(?:.+\n)*?worker", shown, re.M)
    assert command == "# systemctl status node-bootstrap.service" and len(lines) == 2
    assert all(re.search(".*".join(map(re.escape, line.split("…"))), printed) for line in lines)


def test_the_project_has_one_address():
    """Which is a placeholder."""
    names = [path for path in SOURCE.rglob("*.md") if ".git" not in path.parts]
    found = {url.rstrip(".") for path in names for url in re.findall(r"https?://(?:www\.)?example\.org[^\s)>`\"]*", path.read_text(encoding="utf-8"))}
    assert {re.sub("/(releases|manual/.*)$", "", url) for url in found} == {"https://example.org/node-bootstrap"}


def test_owners_lists_every_placeholder():
    """Nobody publishes a package with an address or a URL of example.org that they did not know of."""
    owners = (SOURCE / "packaging/OWNERS.md").read_text()
    placeholder = re.compile("example.org/node-bootstrap|packages.example.org|node-bootstrap@")
    files = [*(SOURCE / name for name in ("README.md", "SECURITY.md", "SECURITY-INSIGHTS.yml")), *(path for name in ("docs", "packaging") for path in (SOURCE / name).rglob("*"))]
    with_placeholder = {str(path.relative_to(SOURCE)) for path in files if path.is_file() and placeholder.search(path.read_text(errors="replace"))}
    assert with_placeholder - {"packaging/OWNERS.md"} == {path for path in re.findall(r"`([^`]+)`", owners) if path in with_placeholder}
    assert "packaging/debian/control" in with_placeholder


def test_the_picture_is_that_of_the_journal():
    done = subprocess.run([SOURCE / "docs/boot.py"], check=True, stdin=(SOURCE / "docs/boot.json").open(), stdout=subprocess.PIPE)
    assert done.stdout == (SOURCE / "docs/boot.svg").read_bytes()


def test_codes_in_the_documents_exist():
    """In the tables of docs/troubleshooting.md, and in brackets anywhere: a code that was renamed is found."""
    known = {*FAILURES, *failures.read("src/admin/admin_failures.def")}
    rows = re.findall(r"^\| (`[a-z-]+`(?:, `[a-z-]+`)*) \|", (SOURCE / "docs/troubleshooting.md").read_text(), re.M)
    named = {code for row in rows for code in re.findall(r"`([a-z-]+)`", row)}
    named |= {code for path in documentation.DOCUMENTS for code in re.findall(r"\(`([a-z]+(?:-[a-z]+)+)`\)", path.read_text())}
    assert len(named) > 15 and named - known == {"cluster-info"}, "which is no failure but a ConfigMap"


def test_join_methods_are_named():
    """The manual has the name that the record of a join has."""
    listed = re.search(r"command calls the methods\n((?:.*\n)*?)\.Pq a bootstrap", page("node-bootstrap.service.8"))[1]
    assert set(re.findall(r"[a-z]+", re.sub(r"\.Pq .*|\.Li|\band\b", "", listed))) == set(tables()["methods"])


def test_settings_in_full_leave_no_key_out():
    full = next(e for e in documentation.examples("yaml") if "expirationSeconds: 0" in e.text).text
    for key in tables()["settings"]:
        assert re.search(rf"^ *{key.rsplit('.', 1)[-1]}:", full, re.M), f"{key} is not in the example"


def test_settings_have_an_entry_with_their_default():
    sections = dict(re.findall(r"^\.Ss (\w+)\n((?:.*\n)*?)(?=\.S[sh])", page("node-bootstrap.yaml.5"), re.M))
    for key, row in tables()["settings"].items():
        section, _, name = key.rpartition(".")
        text = sections[section] if section else page("node-bootstrap.yaml.5")
        entry = re.search(rf"^\.It Li {name} Pq (.*?)(?: , No default (.*))?$", text, re.M)
        assert entry, f"{key} has no entry"
        if key == "node.name":
            assert entry[2] == "the host name"
        else:
            assert (entry[2] or "").removeprefix("Pa ").replace("Qq", "") == (row["default"] or ""), key
        for kind in ("boolean", "list of strings"):
            assert (entry[1] == kind) == (row["type"] == kind), key


def provider_entries():
    return dict(re.findall(r"^\.It Li ([a-z0-9]+)\n((?:.*\n)*?)(?=\.It|\.El)", page("node-bootstrap.yaml.5").split(".Ss Providers")[1].split(".Sh ")[0], re.M))


def test_providers_are_listed():
    """Each is in the list of names, and has an entry that says how it is recognised."""
    named = re.search(r"^or one of\n\.Li ([a-z0-9 ,]+) \.$", page("node-bootstrap.yaml.5"), re.M)[1].split(" , ")
    assert set(provider_entries()) == set(tables()["providers"]) == set(named)


def test_every_metadata_service_is_played():
    """A scripted service for each, so that all tests of metadata run with it."""
    services = {name for name, row in tables()["providers"].items() if row["address"]}
    assert services == {service.provider for service in metadata.ALL}


def test_first_boot_has_a_row_for_every_provider():
    """With its place for the token alone."""
    table = (SOURCE / "docs/first-boot.md").read_text().split("\n## Clouds\n")[1].split("\n## ")[0]
    rows = {title: token for title, _, token in re.findall(r"^\| (.*) \| (.*) \| (.*) \|$", table, re.M)[2:]}
    assert set(rows) == {row["title"] for row in tables()["providers"].values()}
    for row in tables()["providers"].values():
        place = re.search("[a-z.-]*token(?='?$)", row["token_place"] or "")
        assert f"`{place[0]}`" in rows[row["title"]] if place else rows[row["title"]] == "–", row["title"]


def test_what_recognises_a_provider_is_in_its_entry():
    entries = provider_entries()
    for name, row in tables()["providers"].items():
        for field, pattern in row["dmi"]:
            assert field in entries[name] and pattern.strip("*") in entries[name], (name, field, pattern)


def test_the_provider_id_is_in_the_entry():
    """Its form; the place for the token alone is in docs/first-boot.md."""
    entries = provider_entries()
    for name, row in tables()["providers"].items():
        entry = entries[name].replace(" Ns ", "").replace("Ar ", "")
        form = row["id_form"]
        assert form.partition("*")[0] in entry if form else "No provider ID" in entry or "no provider ID" in entry, name
        assert "Token:" not in entry, name


def test_keys_for_metadata_are_listed():
    allowed = {key for key, row in tables()["settings"].items() if row["metadata"] != "never"}
    of_discovery = {key for key in tables()["settings"] if key.startswith("discovery.")}
    assert of_discovery - allowed == {"discovery.urlCAFile"}
    listed = re.search(r"^A document in metadata may set\n((?:.*\n)*?)Any other key is an error", page("node-bootstrap.yaml.5"), re.M)[1]
    assert set(re.findall(r"\w+\.\w+", listed)) | {"timeout"} == allowed - of_discovery | {"kubelet.extraArgs"}


def test_credentials_are_listed():
    """In both lists of files; test_check.py compares them with those that the program shows."""
    for name in ("node-bootstrap.8", "node-bootstrap.service.8"):
        files = page(name).split(".Sh FILES\n")[1].split(".Sh ")[0]
        assert documentation.credentials() == set(re.findall(r"^\.It\n\.Pa (node-bootstrap\.\S+)$", files, re.M)), name


@pytest.mark.each_release
@pytest.mark.parametrize("example", documentation.examples("unit"), ids=str)
def test_systemd_accepts_unit(tmp_path, example):
    name = example.argument
    is_drop_in = (BUILD / "units" / name).exists() or (SOURCE / "units" / name).exists() or name == "kubelet.service"
    path = tmp_path / f"{name}.d/50-example.conf" if is_drop_in else tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(example.text)
    done = subprocess.run([SOURCE / "tests/lint/units", BUILD / "units/node-bootstrap.service", SOURCE / "units", tmp_path],
                          check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """What the build installs."""
    root = tmp_path_factory.mktemp("root")
    subprocess.run(["meson", "install", "--quiet", "--no-rebuild", "--destdir", root, "-C", BUILD], check=True, stdout=subprocess.DEVNULL)
    return root


def test_man_finds_every_unit(installed):
    """`man UNIT` shows the first page in the unit's Documentation=, and this page describes the unit."""
    units = [path for path in installed.glob("**/systemd/system/*") if path.suffix in (".service", ".target", ".timer")]
    assert len(units) >= 9
    [pages] = installed.glob("**/man/man8")
    for unit in units:
        found = (pages / f"{unit.name}.8").resolve(strict=True)
        assert f"man:{found.stem}(8)" == re.search(r"^Documentation=(\S+)", unit.read_text(), re.M)[1], unit.name
        assert unit.name in documentation.plain(found.read_text(encoding="ascii")), unit.name


def test_every_page_is_in_one_package(installed):
    patterns = {path: re.findall(r"^usr/share/man\S*", path.read_text(), re.M) for path in (SOURCE / "packaging/debian").glob("*.install")}
    [pages] = installed.glob("**/share/man")
    for page in pages.glob("*/*"):
        path = pathlib.Path("usr/share/man") / page.relative_to(pages)
        packages = [name for name, found in patterns.items() if any(fnmatch.fnmatchcase(str(p), pattern) for pattern in found for p in (path, path.parent))]
        assert len(packages) == 1, path


def test_pages_refer_to_each_other():
    """Each page has all others in SEE ALSO, and the README has all. Wherever a page is named, it exists."""
    texts = {re.sub(r"(.*)\.(\d)\.in", r"\1(\2)", path.name): documentation.plain(path.read_text(encoding="ascii")) for path in documentation.PAGES}
    for name, text in texts.items():
        listed = {f"{page}({section})" for page, section in re.findall(r"^\.Xr (\S+) (\d)", text.split(".Sh SEE ALSO\n")[1], re.M)}
        assert set(texts) - {name} <= listed, name
    assert [name for name in texts if name not in documentation.README.read_text(encoding="utf-8")] == []
    named = {f"{page}({section})" for text in texts.values() for page, section in re.findall(r"^\.Xr (node-\S+) (\d)", text, re.M)}
    for folder in ("src", "units", "packaging", "docs", "."):
        for path in (SOURCE / folder).glob("*.*" if folder == "." else "**/*"):
            if path.is_file():
                named |= set(re.findall(r"\bnode-bootstrap[a-z.-]*\(\d\)", path.read_text(encoding="utf-8", errors="replace")))
    assert named == set(texts)


class Anchors(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.ids, self.links = set(), set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.ids.add(attributes.get("id"))
        self.links.add(attributes.get("href"))


def test_pages_as_html(tmp_path):
    """Each page is in the index, and each link within and between the pages has its target: the sections in .Sx exist."""
    subprocess.run([SOURCE / "packaging/build-html", BUILD / "man", tmp_path], check=True)
    found = {path.name: Anchors(path.read_text(encoding="utf-8")) for path in tmp_path.glob("*.html")}
    pages = {f"{path.stem}.html" for path in documentation.PAGES}
    assert set(found) == pages | {"index.html"} and pages <= found["index.html"].links
    for name, page in found.items():
        for link in page.links - {None}:
            path, _, anchor = link.partition("#")
            if not link.startswith("https://manpages.debian.org/"):
                assert (tmp_path / path).exists() and (not anchor or urllib.parse.unquote(anchor) in found[path or name].ids), (name, link)


def test_fields_are_listed():
    """node-bootstrap.journal(7) names every field that the program knows, and no other."""
    known = {f"NODE_BOOTSTRAP_{name}" for name in [*tables()["fields"], "CODE"]}        # CODE: the code of a failure
    assert set(re.findall(r"^\.It Li (NODE_BOOTSTRAP_\w+)", page("node-bootstrap.journal.7"), re.M)) == known


def help_of(*verb):
    return subprocess.run([find_program("node-bootstrap"), *verb, "--help"], check=True, text=True, stdout=subprocess.PIPE).stdout


def test_verbs_and_options_are_listed():
    """SYNOPSIS, the lists, each command's --help and its options agree. --help does not list what only units run."""
    text = page("node-bootstrap.8").replace("\\-", "-")
    *verbs, last = re.findall(r"^  ([a-z-]+) ", help_of(), re.M)
    assert last == "help"
    verbs += ["refresh", "join", "prover"]
    assert verbs == re.findall(r"^\.Ss ([a-z-]+)$", text, re.M) == re.findall(r"^\.Cm ([\w-]+)", text.split(".Sh DESCRIPTION")[0], re.M)
    listed = {option for line in re.findall(r"^\.It Fl .*", text, re.M) for option in re.findall(r"Fl -([a-z-]+)", line)}
    told = {option for verb in ([], *([verb] for verb in verbs)) for option in re.findall(r"^  (?:-.,|   ) --([a-z-]+)", help_of(*verb), re.M)}
    assert len(told) > 3 and told <= listed
    # Those of kubeadm that setup ignores or refuses are in no --help.
    said = {option: subprocess.run([find_program("node-bootstrap"), "setup", f"--{option}"], check=False, capture_output=True, text=True).stderr
            for option in {"no-such-option", *listed - told}}
    assert {option for option, text in said.items() if "unknown option" in text} == {"no-such-option"}


def test_installer_has_no_network_library():
    """No program that uses the network runs as root; docs/security-design.md lists the libraries."""
    told = subprocess.run(["readelf", "--dynamic", find_program("install")], check=True, text=True, stdout=subprocess.PIPE).stdout
    needed = set(re.findall(r"NEEDED.*\[lib([a-z-]+)", told)) - {"asan", "ubsan"}
    listed = re.search(r"its libraries are (.*?), which it loads", (SOURCE / "docs/security-design.md").read_text(), re.S)[1].lower()
    listed = {re.sub("^lib", "", word) for word in re.split(r",?\s+and\s+|,\s+", listed)}
    assert {{"c": "glibc", "yaml-": "yaml"}.get(name, name) for name in needed} <= listed <= {"glibc", "gnutls", "json-c", "seccomp", "systemd", "yaml"}
