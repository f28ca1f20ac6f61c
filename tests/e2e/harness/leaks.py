# SPDX-License-Identifier: Apache-2.0
"""Where a token could leak to: command lines, environments and files of a machine."""

import base64
import contextlib
import os
import threading
from pathlib import Path

STORES = ("/etc/credstore", "/run/credentials", "/run/host/credentials", "/run/credstore")


class Sampler(threading.Thread):
    """Reads command line and environment of every process of a machine, again and again."""

    def __init__(self, node):
        super().__init__(daemon=True)
        self.node, self.found, self.over, self.programs = node, [], threading.Event(), set()

    def run(self):
        while not self.over.is_set():
            for pid in self.node.pids():
                for name in ("cmdline", "environ"):
                    try:
                        data = Path(f"/proc/{pid}/{name}").read_bytes()
                    except OSError:
                        continue
                    if name == "cmdline":
                        self.programs.add(data.split(b"\0")[0])
                    if any(form in data for form in self.node.forms):
                        self.found.append((pid, name, data))

    def finish(self):
        self.over.set()
        self.join()
        return self.found


def forms(token):
    """What a leak could look like."""
    whole = str(token).encode()
    encoded = [base64.b64encode(b"x" * n + whole)[4:-4] for n in range(3)]
    return [token.secret.encode(), token.secret.encode().hex().encode(), *encoded]


def found_in(node):
    """Files that contain the token, on the machine's disk and in its memory file systems."""
    places = [node.root] + [Path(f"/proc/{node.leader}/root{name}") for name in ("/run", "/tmp", "/dev/shm")]
    found = []
    for place in places:
        inside = str(place).removeprefix(f"/proc/{node.leader}/root") if place != node.root else ""
        top = node.upper if place == node.root else place
        for folder, _, files in os.walk(top):
            for name in files:
                path = Path(folder, name)
                shown = inside + "/" + str(path.relative_to(top))
                if shown.startswith(STORES) or not path.is_file() or path.is_symlink():
                    continue
                with contextlib.suppress(FileNotFoundError):    # a temporary file
                    data = path.read_bytes()
                    found += [shown] if any(form in data for form in node.forms) else []
    return found
