# SPDX-License-Identifier: Apache-2.0
"""node-bootstrap explain, and what bash completes."""

import os
import re
import subprocess

from common import SOURCE
from common.machine import find_program


def explain(*words):
    return subprocess.run([find_program("node-bootstrap"), "explain", *words], env={}, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


def plain(text):
    return re.sub(r"@NODE_BOOTSTRAP_([A-Z_]+)@", r"<\1>", text)


def one_line(text):
    return re.sub(r"\s+", " ", text).strip()


def complete(*words):
    """What bash offers for the last word; bash splits words at '='."""
    parts = [part for word in words for part in re.split(r"(=)", word) if part] or [""]
    if words[-1] == "":
        parts.append("")
    script = """
        source "$1"; shift
        compopt() { :; }  # there is no completion under way
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        _node_bootstrap
        printf '%s\\n' "${COMPREPLY[@]}"
    """
    path = os.path.dirname(find_program("node-bootstrap")) + ":/usr/bin:/bin"
    done = subprocess.run(["bash", "-euc", script, "bash", SOURCE / "packaging/completion/node-bootstrap", *parts],
                          env={"PATH": path}, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return [word for word in done.stdout.split("\n") if word]
