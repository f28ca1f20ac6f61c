# SPDX-License-Identifier: Apache-2.0
"""packaging/examples/bootc: its steps that concern node-bootstrap, on Debian, and what bootc does with an image, which Debian does not have.

bootc replaces /usr, merges /etc from the old image's, the new image's and the machine's, and copies /var only at the installation.
"""

import shutil
from pathlib import Path

import pytest

from common import SOURCE
from common.wait import until
from .harness import image, isolation
from .harness.node import CONFIG, GATE, PKI, UNIT, settings

EXAMPLE = SOURCE / "packaging/examples/bootc"
PRESET = "usr/lib/systemd/system-preset/50-worker.preset"
UNITS = ("kubelet.service", UNIT, GATE)
ABSENT, AN_ID = None, "0123456789abcdef0123456789abcdef\n"
IS_FIRST_BOOT = {ABSENT: True, "": False, "uninitialized\n": True, AN_ID: False}     # machine-id(5), "First Boot Semantics"


def entries(tree):
    """{path: (kind, content, mode)} of what is in a tree."""
    found = {}
    for path in sorted(tree.rglob("*")):
        kind = "link" if path.is_symlink() else "dir" if path.is_dir() else "file" if path.is_file() else None
        content = {"link": path.readlink, "dir": lambda: None, "file": path.read_bytes}[kind]() if kind else None
        if kind:
            found[str(path.relative_to(tree))] = (kind, content, kind != "link" and path.stat().st_mode & 0o7777)
    return found


def merged(old, new, machine):
    """ostree's rule: what the machine has changed, added or removed stays so; all else is as in the new image."""
    changed = {path for path in old.keys() | machine.keys() if old.get(path) != machine.get(path)}
    return {path: machine.get(path) if path in changed else new.get(path) for path in sorted(new.keys() | changed)
            if (machine if path in changed else new).get(path)}


def write(tree, wanted):
    for path, (kind, content, mode) in entries(tree).items():
        if wanted.get(path) != (kind, content, mode) and kind != "dir":
            (tree / path).unlink()
    for path, (kind, content, mode) in wanted.items():
        where = tree / path
        if kind == "dir":
            where.mkdir(exist_ok=True)
        elif kind == "link":
            where.is_symlink() or where.symlink_to(content)
        elif not where.exists():
            where.write_bytes(content)
        if kind != "link":
            where.chmod(mode)


def build(root, config):
    """The steps of the Containerfile. The package is there, as is kubelet; dnf and bootc are not."""
    (root / "usr/lib/systemd/system-preset/99-default-disable.preset").write_text("disable *\n")     # as Fedora has it
    (root / "usr/lib/systemd/system-preset/90-node-bootstrap.preset").unlink(missing_ok=True)        # which the rpm does not have
    # Debian's presets enable it, and it would wait two minutes for an interface of its own.
    (root / "usr/lib/systemd/system-preset/10-image.preset").write_text("disable systemd-networkd*\n")
    (root / "usr/lib/systemd/system/crio.service").write_text("[Service]\nExecStart=true\n[Install]\nWantedBy=multi-user.target\n")
    done = []
    for line in (EXAMPLE / "Containerfile").read_text().splitlines():
        match line.split():
            case ["COPY", "usr/", target]:
                shutil.copytree(EXAMPLE / "usr", root / target.strip("/"), dirs_exist_ok=True)
            case ["COPY", "config.yaml", target]:
                (root / target.strip("/")).mkdir(parents=True, exist_ok=True)
                (root / target.strip("/") / "config.yaml").write_text(config)
            case ["RUN", "systemctl", *words]:
                image.chroot(root, "systemctl", "--quiet", *words)
            case ["FROM", _] | ["COPY", "kubernetes.repo" | "kube-node-bootstrap-[0-9]*.rpm", _] | ["RUN", "dnf" | "rm", *_] | ["#", *_] | []:
                continue
            case _:
                raise AssertionError(f"what does {line} do?")
        done.append(line)
    assert len(done) == 3, done


@pytest.fixture
def make_tree(world):
    """make_tree(config): a writable tree of a new image."""
    made = []

    def make(config="kind: NodeBootstrap\n"):
        work = world.work / f"bootc-{len(made)}"
        made.append(work)
        root = image.overlay(work, world.layer, world.base)
        build(root, config)
        return root

    yield make
    for work in made:
        isolation.umount(str(work / "root"))
        shutil.rmtree(work)


def set_machine_id(root, text):
    (root / "etc/machine-id").unlink(missing_ok=True)
    if text is not ABSENT:
        (root / "etc/machine-id").write_text(text)


def presets_of_first_boot(root, machine_id):
    """What systemd does as Fedora configures it, first-boot-full-preset; Debian's only enables."""
    if IS_FIRST_BOOT[machine_id]:
        image.chroot(root, "systemctl", "--quiet", "preset-all")


def are_enabled(root):
    [state] = {image.chroot(root, "sh", "-c", f"systemctl is-enabled {unit} || :").strip() for unit in UNITS}
    return {"enabled": True, "disabled": False}[state]


@pytest.mark.parametrize("machine_id", IS_FIRST_BOOT, ids=["absent", "empty", "uninitialized", "an ID"])
def test_first_boot(make_tree, machine_id):
    """The example's preset and its `systemctl enable` together are right with each machine ID in the image; either alone is not."""
    root = make_tree()
    set_machine_id(root, machine_id)
    presets_of_first_boot(root, machine_id)
    assert are_enabled(root)

    image.chroot(root, "systemctl", "--quiet", "disable", *UNITS)
    presets_of_first_boot(root, machine_id)
    assert are_enabled(root) == IS_FIRST_BOOT[machine_id], "by the preset alone"

    image.chroot(root, "systemctl", "--quiet", "enable", *UNITS)
    (root / PRESET).unlink()
    presets_of_first_boot(root, machine_id)
    assert are_enabled(root) == (not IS_FIRST_BOOT[machine_id]), "by `systemctl enable` alone"


def test_an_update_keeps_what_the_machine_changed(make_tree):
    """`systemctl disable`, and the settings that somebody has edited; settings that nobody has edited are those of the new image."""
    old, new = make_tree("old: true\n"), make_tree("new: true\n")
    for edited, disabled in ((False, False), (True, True)):
        machine = make_tree("old: true\n")
        if disabled:
            image.chroot(machine, "systemctl", "--quiet", "disable", UNIT)
        if edited:
            (machine / CONFIG.lstrip("/")).write_text("edited: true\n")
        write(machine / "etc", merged(entries(old / "etc"), entries(new / "etc"), entries(machine / "etc")))
        assert (machine / CONFIG.lstrip("/")).read_text() == ("edited: true\n" if edited else "new: true\n")
        links = [machine / f"etc/systemd/system/kubelet.service.{name}" for name in (f"wants/{UNIT}", f"requires/{GATE}")]
        assert [link.is_symlink() for link in links] == [not disabled] * 2
        # Not a first boot: nothing applies presets.
        assert image.chroot(machine, "sh", "-c", f"systemctl is-enabled {UNIT} || :").strip() == ("disabled" if disabled else "enabled")


def test_nothing_of_the_image_is_in_var(world, make_tree):
    """What would be there is never updated on a machine."""
    root = make_tree()
    upper = root.parent / "upper"
    assert not [path for path in entries(upper) if Path(path).parts[0] == "var"]
    listed = image.chroot(root, "dpkg", "--listfiles", "kube-node-bootstrap").split()
    assert UNIT in " ".join(listed) and not [path for path in listed if path.startswith("/var")]


@pytest.mark.nightly
def test_joins_and_is_updated(new_node, cluster, make_tree):
    """With nothing of kubelet's in /var, over an update to an image with other settings. systemd says whether a boot is the first."""
    texts = [settings(cluster, kubelet={"configFrom": "cluster"}, timeout=timeout) for timeout in ("1h", "2h")]
    old, new = map(make_tree, texts)
    node = new_node(layers=[old.parent / "upper"])
    cluster.upload_kubelet_config(node)
    shutil.rmtree(node.path("/var/lib/kubelet"))
    # It remembers what /run/systemd/first-boot, which systemd removes as soon as it has started, said.
    unit = Path(node.path("/usr/lib/systemd/system/first-boot.service"))
    unit.write_text("[Unit]\nConditionFirstBoot=yes\n[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=true\n")
    wants = unit.parent / "basic.target.wants" / unit.name
    wants.parent.mkdir(exist_ok=True)
    wants.symlink_to(unit.name)
    for machine_id, is_first in IS_FIRST_BOOT.items():
        set_machine_id(node.root, machine_id)
        node.boot("--unit=basic.target")
        assert node.is_active(unit.name) == is_first, machine_id
        node.kill()
    wants.unlink()
    node.give(cluster.token()).boot()
    cluster.await_node(node.name)
    files = node.joined_files()
    assert files and node.read(CONFIG).decode() == texts[0]

    node.kill()
    write(node.path("/etc"), merged(entries(old / "etc"), entries(new / "etc"), entries(node.path("/etc"))))
    assert node.read(CONFIG).decode() == texts[1]
    node.boot()
    node.await_kubelet()
    until(lambda: node.is_active(UNIT), "the service is active")
    record, after = f"{PKI}/node-bootstrap.json", node.joined_files()
    assert after.pop(record) != files.pop(record), "it has the new settings, for the next refresh"
    assert after == files and len(cluster.csrs(node.name)) == 1
