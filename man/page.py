#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""page.py VERSION NUMBERS FAILURES.PY FAILURES.DEF FAILURES.MDOC PAGE.IN PAGE: fills in the parts of a manual page that are generated."""

import importlib.util
import re
import sys
from pathlib import Path


def load(failures_py):
    spec = importlib.util.spec_from_file_location("failures", failures_py)
    failures = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(failures)
    return failures


def messages(failures, failures_def):
    """Codes and identifiers, events included."""
    yield ".Bl -tag -width Ds -compact"
    for row in failures.read(failures_def):
        yield f".It Sy {row['code']} Pq Li {row['message-id']}".replace("-", "\\-")
        yield from failures.roff(row["subject"] + ".")
    yield ".El"


def read_numbers(path):
    """(name, value) of each NUMBER(name, expression) in the output of the preprocessor."""
    for name, expression in re.findall(r"^NUMBER\((\w+), (.*)\)$", Path(path).read_text(encoding="utf-8"), re.M):
        plain = re.sub(r"\((?:uint64_t|size_t)\)|(?<=\d)U?L*", "", expression)
        value = eval(plain, {"__builtins__": {}})  # pylint: disable=eval-used
        if value != int(value):
            sys.exit(f"{path}: {name} is not a whole number: {expression}")
        yield name, int(value)


def main():
    version, numbers, failures_py, failures_def, failures_mdoc, page, output = sys.argv[1:]
    text = Path(page).read_text(encoding="ascii")
    text = text.replace("@VERSION@", version)
    for name, value in read_numbers(numbers):
        text = text.replace(f"@{name}@", str(value))
    text = text.replace("@FAILURES@\n", Path(failures_mdoc).read_text(encoding="ascii"))
    failures = load(failures_py)
    text = text.replace("@INDEX@", "\n".join(failures.index(failures.read(failures_def))))
    text = text.replace("@MESSAGES@", "\n".join(messages(failures, failures_def)))
    if unknown := re.findall(r"@[A-Z][A-Z_]*@", text):
        sys.exit(f"{page}: {unknown[0]} is not in numbers.h")
    Path(output).write_text(text, encoding="ascii")


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    main()
