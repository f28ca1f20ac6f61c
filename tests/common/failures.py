# SPDX-License-Identifier: Apache-2.0
"""The rows of failures.def and admin_failures.def, by code, and the codes that programs have reported."""

import importlib.util
import re

from . import SOURCE


SPEC = importlib.util.spec_from_file_location("failures", SOURCE / "src/base/failures.py")
GENERATOR = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(GENERATOR)


def read(path):
    return {row["code"]: row for row in GENERATOR.read(SOURCE / path)}


def flat(text):
    """In one line, for texts that programs wrap."""
    return re.sub(r"\s+", " ", text).strip()


FAILURES = read("src/base/failures.def")
MET = set()             # see --each-code in integration/conftest.py


def is_for_k3s_server(command):
    """A command of k3s, or for its unit. No test runs one, since no test has a server of k3s; docs/k3s.md lists them."""
    return bool(re.match(r"k3s |systemctl \S+ k3s$", command))


def count_remedies(text, code, key="remedy"):
    """How often the remedy, up to its first field, is in the output of a program, which wraps it."""
    return flat(text).count(flat(FAILURES[code][key]).split("@")[0])


def meet(text):
    """Records the codes in the output of a program: in lines, in the rows of `check`, in JSON. Returns the output."""
    MET.update(code for code in re.findall(r"(?:^[\w-]+: |✗ |\"(?:code|failure)\": ?\")([a-z-]+)[:\"]", text, re.M) if code in FAILURES)
    return text
