# SPDX-License-Identifier: Apache-2.0
"""The examples in the manual pages and the README, for the tests that run them.

In a manual page the line before a literal display says what it is: `.\\" example: KIND [ARGUMENT]`. In the README the language of a
block is its kind (what begins as a cloud-config is user data), and blocks without one are for developers and read by nobody.
"""

import re
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1]
PAGES = sorted((SOURCE / "man").glob("*.in"))
README = SOURCE / "README.md"


@dataclass
class Example:
    where: str          # file and line
    kind: str           # yaml, unit, shell, ...
    argument: str       # of a unit: its name
    text: str

    def __str__(self):
        return f"{self.kind} {self.where}"


def plain(roff):
    for escape, character in ((r"\-", "-"), (r"\(aq", "'"), (r"\(ga", "`"), (r"\&", ""), (r"\e", "\\")):
        roff = roff.replace(escape, character)
    return roff


def of_page(path):
    text = path.read_text(encoding="ascii")
    for found in re.finditer(r"^(?:\.\\\" example: (\S+) ?(.*)\n)?\.Bd .*\n((?:.*\n)*?)\.Ed\n", text, re.M):
        line = text.count("\n", 0, found.start()) + 1
        yield Example(f"{path.name}:{line}", found[1] or "", found[2] or "", plain(found[3]))


def of_readme():
    text = README.read_text(encoding="utf-8")
    for found in re.finditer(r"^( *)```(\w*)\n((?:.*\n)*?) *```\n", text, re.M):
        line = text.count("\n", 0, found.start()) + 1
        body = re.sub(f"^{found[1]}", "", found[3], flags=re.M)
        kind = "user-data" if body.startswith("#cloud-config\n") else {"sh": "shell"}.get(found[2], found[2])
        yield Example(f"{README.name}:{line}", kind, "", body)


def examples(kind=None):
    found = [example for page in PAGES for example in of_page(page)] + list(of_readme())
    return [example for example in found if kind in (None, example.kind)]
