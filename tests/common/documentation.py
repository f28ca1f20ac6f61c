# SPDX-License-Identifier: Apache-2.0
"""The examples in the manual pages and in the documents, for the tests that run them.

In a manual page the line before a literal display says what it is: `.\\" example: KIND [ARGUMENT]`. In a document (README.md, SECURITY.md,
CONTRIBUTING.md, docs/) the first line of a block does: its language is the kind (a block that begins with #cloud-config is user data, or
files for cloud-init), and the word after it is the argument. Indented blocks are not tested; `console` is what a terminal showed.
"""

import json
import re
from dataclasses import dataclass

from . import SOURCE

PAGES = sorted((SOURCE / "man").glob("*.in"))
README = SOURCE / "README.md"
DOCUMENTS = [README, SOURCE / "SECURITY.md", SOURCE / "CONTRIBUTING.md", *sorted((SOURCE / "docs").glob("*.md"))]


@dataclass
class Example:
    where: str          # file and line
    kind: str           # yaml, unit, shell, ...
    argument: str       # of a unit: its name; of a document's commands: their name
    text: str

    def __str__(self):
        return f"{self.kind} {self.where}"

    @property
    def is_of_document(self):
        return ".md:" in self.where


def plain(roff):
    for escape, character in ((r"\-", "-"), (r"\(aq", "'"), (r"\(ga", "`"), (r"\&", ""), ("\\ ", " "), (r"\e", "\\")):
        roff = roff.replace(escape, character)
    return roff


def of_page(path):
    text = path.read_text(encoding="ascii")
    for found in re.finditer(r"^(?:\.\\\" example: (\S+) ?(.*)\n)?\.Bd .*\n((?:.*\n)*?)\.Ed\n", text, re.M):
        line = text.count("\n", 0, found.start()) + 1
        yield Example(f"{path.name}:{line}", found[1] or "", found[2] or "", plain(found[3]))


def kind_of(language, body):
    if body.startswith("#cloud-config\n"):
        return "cloud-config" if "\nwrite_files:" in body else "user-data"
    return {"sh": "shell", "ini": "unit"}.get(language, language)


def of_document(path):
    text = path.read_text(encoding="utf-8")
    for found in re.finditer(r"^( *)```(\w*) ?(\S*)\n((?:.*\n)*?) *```\n", text, re.M):
        line = text.count("\n", 0, found.start()) + 1
        body = re.sub(f"^{found[1]}", "", found[4], flags=re.M)
        yield Example(f"{path.relative_to(SOURCE)}:{line}", kind_of(found[2], body), found[3], body)


def examples(kind=None):
    found = [example for page in PAGES for example in of_page(page)] + [example for path in DOCUMENTS for example in of_document(path)]
    return [example for example in found if kind in (None, example.kind)]


def commands(name):
    """The commands with this name, which must be the same in all documents that have them."""
    [text] = {example.text for example in examples("shell") if example.argument == name and example.is_of_document}
    return text


def rows_of(heading, path=README):
    """The cells of each row of the table below this heading."""
    section = path.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in section.splitlines() if line.startswith("|")]
    return rows[2:]


def page(name):
    return plain((SOURCE / f"man/{name}.in").read_text(encoding="ascii"))


def credentials():
    """The names that node-bootstrap.service(8) lists."""
    return set(re.findall(r"^\.It Li (node-bootstrap\.[a-z-]+)$", page("node-bootstrap.service.8"), re.M))


# What tests/demo records, which the README quotes.

RECORDING = SOURCE / "docs/demo.cast"
CONTROLS = re.compile(r"[^\n]*\r\x1b\[K|\r(?=\n)|\x1b\[[0-9;]*m")   # a line that was rewritten in place, a terminal's line end, colours


def without_controls(text):
    """As it is in the end, without colours."""
    return CONTROLS.sub("", text)


def recorded(path):
    """The text that a recording shows."""
    _, *events = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return without_controls("".join(text for _, _, text in events))


def join_in(shown):
    """The join with `setup` in what the demo showed."""
    return re.search(r"^worker-1# node-bootstrap setup .*?\n(?=\n)", shown, re.M | re.S)[0]


def join_of_readme():
    return next(example.text for example in of_document(README) if example.kind == "console")


def normalised(text):
    """Without what differs from join to join: token, hash, durations, dates and addresses."""
    for pattern, one in ((r"--token \S+ +", "--token … "), (r"sha256:\S+", "sha256:…"), (r"\([0-9]+ ms\)", "(0 ms)"),
                         (r"[0-9-]{10}T[0-9:]{8}Z", "DATE"), (r"[0-9.]{7,15}:6443", "ADDRESS")):
        text = re.sub(pattern, one, text)
    return text
