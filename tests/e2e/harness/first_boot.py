# SPDX-License-Identifier: Apache-2.0
"""Images with cloud-init or Ignition, and what both read there."""

import os
import subprocess

from . import image

SEED = "/var/lib/cloud/seed/nocloud"
# The network is there already, and there is no metadata service to ask.
IMAGE = "datasource_list: [NoCloud, None]\nlocale: C.UTF-8\nnetwork: {config: disabled}\nssh_genkeytypes: [ed25519]\n"
IGNITION = "usr/lib/dracut/modules.d/30ignition/ignition"


def layers_with_cloud_init(world):
    """Also with sshd."""
    work, packages = world.work / "cloud-init", [path for path in world.debs if not path.name.startswith("ignition_")]
    lower = image.layer(work, packages, world.base)
    layer = image.install(work, world.base, world.deb, world.minor, [lower])
    (layer / "etc/cloud/cloud.cfg.d").mkdir(parents=True)
    (layer / "etc/cloud/cloud.cfg.d/90-image.cfg").write_text(IMAGE)
    return [layer, lower]


def layers_with_ignition(world):
    layer = image.extend(world.work / "ignition", [p for p in world.debs if p.name.startswith("ignition_")], world.layer, world.base)
    # Debian's presets enable it, and it would wait for an interface of its own; the network is there already.
    preset = layer / "etc/systemd/system-preset/10-image.preset"
    preset.parent.mkdir(parents=True, exist_ok=True)
    preset.write_text("disable systemd-networkd*\n")
    return [layer]


def apply_ignition(node, config, program=None):
    """Runs the machine's Ignition, or this one, as in the initial RAM disk. Its behaviour depends on argv[0]."""
    command = ["ignition-apply", "--offline", f"--root={node.root}", node.path(config)]
    done = subprocess.run(command, executable=program or node.path(IGNITION), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                          env={**os.environ, "container": "test"})    # else it refuses, to protect the tester's system
    assert done.returncode == 0, done.stdout
