# SPDX-License-Identifier: Apache-2.0
"""A containerd of its own, beside those of the machines."""

import contextlib
import subprocess

from common.wait import until


@contextlib.contextmanager
def started(folder, configuration=""):
    """Yields ctr(...), which runs its client. Its socket is `folder`/socket."""
    folder.mkdir()
    # The directory of network plugins is made where it is missing, which a root that is read-only does not permit.
    plugins = f'[plugins."io.containerd.grpc.v1.cri".cni]\nconf_dir = "{folder}/cni"\n'
    (folder / "config.toml").write_text(f"version = 2\n{configuration}\n{plugins}")
    command = ["containerd", f"--config={folder}/config.toml", f"--address={folder}/socket", f"--root={folder}/root", f"--state={folder}/state"]
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def ctr(*arguments, check=True):
        done = subprocess.run(["ctr", f"--address={folder}/socket", *arguments], check=False, text=True, capture_output=True)
        assert done.returncode == 0 or not check, f"{arguments}\n{done.stdout}{done.stderr}"
        return done

    try:
        until(lambda: ctr("version", check=False).returncode == 0, "containerd is ready")
        yield ctr
    finally:
        process.terminate()
        process.wait()
