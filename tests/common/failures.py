# SPDX-License-Identifier: Apache-2.0
"""The rows of failures.def and admin_failures.def, by code."""

import importlib.util

from . import SOURCE


def read(path):
    spec = importlib.util.spec_from_file_location("failures", SOURCE / "src/base/failures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {row["code"]: row for row in module.read(SOURCE / path)}


FAILURES = read("src/base/failures.def")
MET = set()             # the codes that programs have reported; see --each-code in integration/conftest.py
