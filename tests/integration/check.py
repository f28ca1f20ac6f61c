# SPDX-License-Identifier: Apache-2.0
"""node-bootstrap check: a mount name space to run it in, and what it reports."""

import json
import os
import re
import subprocess

from common.failures import count_remedies, meet
from common.machine import HEADER, SECRET, TOKEN, find_program, to_yaml

OTHER = "ghijkl.fedcba9876543210"
PIN = "sha256:" + "ab" * 32
ETC_STORE, RUN_STORE, SYSTEM, SEALED = "etc/credstore", "run/credstore", "run/credentials/@system", "etc/credstore.encrypted"
BASIS = {"discovery": {"endpoints": ["10.0.0.1:6443"], "caCertHashes": [PIN]}}
CONFIG = "etc/node-bootstrap/config.yaml"
# No network, too: whatever is looked at here is on the machine.
INSIDE = 'mount --rbind "$0/etc" /etc; mount --rbind "$0/sys" /sys/class; mount --rbind "$0/run" /run; exec "$@"'
PLATFORM = "run/node-bootstrap-platform"


class Place:
    def __init__(self, path):
        self.path = path
        for folder in ("etc", "run", "sys"):
            (path / folder).mkdir()
        self.secrets = [SECRET, OTHER.split(".")[1]]

    def put(self, name, text, mode=0o600, folder_mode=0o755):
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.parent.chmod(folder_mode)
        path.write_text(text)
        path.chmod(mode)

    def settings(self, changes=None, name=CONFIG):
        self.put(name, HEADER + to_yaml(changes or BASIS), 0o644)

    def token(self, text=TOKEN, store=ETC_STORE, name="token", **options):
        self.put(f"{store}/node-bootstrap.{name}", text, **options)

    def platform(self, user_data=None, **note):
        """What node-bootstrap-platform.service has found."""
        self.put(f"{PLATFORM}/platform.json", json.dumps(note), folder_mode=0o700)
        if user_data is not None:
            self.put(f"{PLATFORM}/user-data", user_data, folder_mode=0o700)

    def platform_unit(self, path, *replaced):
        """systemd runs, and node-bootstrap-platform.service starts if this path exists; a drop-in can replace it."""
        unit = "run/systemd/system/node-bootstrap-platform.service"
        self.put(unit, f"[Unit]\nConditionPathExists=|{path}\n[Service]\nType=oneshot\nExecStart=/bin/true\n", 0o644)
        for other in replaced:
            self.put(f"{unit}.d/other.conf", f"[Unit]\nConditionPathExists=\nConditionPathExists=|{other}\n", 0o644)
        (self.path / "run/systemd").chmod(0o555)           # check is no other user in here: systemd-analyze must not write to it

    def dmi(self, **files):
        for name, value in files.items():
            self.put(f"sys/dmi/id/{name}", value + "\n", 0o444)

    def files(self):
        return {str(path): (path.lstat().st_mode, path.lstat().st_mtime_ns) for path in sorted(self.path.rglob("*"))}

    def argv(self, *arguments, before=()):
        return ["unshare", "--user", "--map-root-user", "--mount", "--net", "sh", "-ec", INSIDE, self.path, *before,
                find_program("node-bootstrap"), "check", "--local", *arguments]

    @staticmethod
    def environment(**more):
        kept = {key: value for key, value in os.environ.items() if key.startswith(("ASAN_", "LSAN_", "UBSAN_", "LLVM_PROFILE"))}
        return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **kept, **more}

    def check(self, *arguments, before=(), **environment):
        files = self.files()
        done = subprocess.run(self.argv(*arguments, before=before), env=self.environment(**environment), check=False, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert self.files() == files, "files were changed"
        for secret in self.secrets:
            assert secret not in done.stdout + done.stderr, "a secret was printed"
        assert done.stderr == ""
        return done

    def good(self, *arguments, **options):
        done = self.check(*arguments, **options)
        assert done.returncode == 0 and "✗" not in done.stdout and done.stdout.endswith("  ✓ a join can start\n\nNo check failed\n"), done.stdout
        return sections(done.stdout)

    def bad(self, code, *words, section="Join", **options):
        done = self.check(**options)
        assert done.returncode == 1, done.stdout
        found = sections(done.stdout)
        [failure] = [row for row in found[section] if row.startswith(f"✗ {code}: ")]
        assert count_remedies(done.stdout, code), "the remedy is not there"
        for word in words:
            assert word in failure, f"{word!r} is not in {failure}"
        return found


def sections(text):
    """title -> rows, without their indentation and the verdict."""
    found = {}
    for line in re.sub(r"\n(No check failed|First failure: .*)\n$", "", text).splitlines():
        if line and not line.startswith(" "):
            rows = found[line] = []
        elif line:
            rows.append(line.strip())
    meet(text)
    return found


def kubelet_below(path):
    return {"kubeconfig": f"{path}/kubernetes/kubelet.conf", "caFile": f"{path}/kubernetes/ca.crt", "certificateDirectory": f"{path}/pki"}


def step_of(found, name):
    [step] = [step for step in found["steps"] if step["step"] == name]
    return step


def texts(found, name):
    return "\n".join(row["text"] for row in step_of(found, name)["rows"])
