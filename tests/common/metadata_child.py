# SPDX-License-Identifier: Apache-2.0
"""Machines whose child that reads metadata is replaced: part of machine.py."""

import re
import struct

from . import SOURCE


class MetadataChild:
    def install_found(self, document=None, *, token="abcdef.0123456789abcdef", provider="aws", origin="the user data of a hostile child", message=None):
        """Runs install with a child that says that it has found this in metadata, and with a `join` that leaves the state directory as it is."""
        names = re.findall(r"^PROVIDER\((\w+),", (SOURCE / "src/metadata/clouds.def").read_text(), re.M)
        parts = [(document or "").encode(), (token or "").encode()]
        head = struct.pack("=IIII128s128s", names.index(provider.upper()) + 2, *map(len, parts), 0, origin.encode(), b"")
        found, program = self.path / "found", self.path / "programs" / "find"
        found.write_bytes(message if message is not None else head + b"".join(parts))
        self.secret_files.append(found)
        program.parent.mkdir(exist_ok=True)
        passed, self.asked = self.path / "passed", self.path / "asked"
        passed.unlink(missing_ok=True)
        program.write_text(f'#!/bin/sh\ncase " $* " in *" --metadata "*) touch {self.asked}; exec python3 -c \'\nimport socket\nchannel = socket.socket(fileno=5)\n'
                           f'channel.send(open("{found}", "rb").read())\nchannel.recv(65536)\n\';; esac\ncat <&4 >{passed}\n')
        program.chmod(0o755)
        run = self.start("install", *self.install_words(f"--program={program}")).wait()
        self.passed = self.passed_type(passed.read_bytes()) if passed.exists() else None
        passed.unlink(missing_ok=True)
        return run

    def unit_with_passed(self):
        """The same, but the child that reads metadata gets what `self.passed` has."""
        passed, program = self.path / "passed", self.path / "programs" / "exchange"
        passed.write_bytes(bytes(self.passed))
        program.parent.mkdir(exist_ok=True)
        program.write_text(f'#!/bin/sh\ncase " $* " in *" --metadata "*) exec 4<{passed};; esac\nexec {self.program("node-bootstrap")} "$@"\n')
        program.chmod(0o755)
        return self.start("install", *self.install_words(f"--program={program}")).wait()
