# SPDX-License-Identifier: Apache-2.0
"""A virtual machine: Debian's kernel and the session's root on emulated hardware, with firmware and devices of its own.

What a container cannot have is real here: SMBIOS, fw_cfg, udev, kernel modules, volumes. The processor is emulated (TCG):
that works on every machine that runs these tests. Its network is QEMU's own, in the session's name space: the API
server's addresses are there, and its own address comes by DHCP.
"""

import os
import re
import shutil
import socket
import subprocess
from pathlib import Path

from common.wait import PATIENCE, until
from . import controlplane, image, isolation

# Runs what is sent to it, as root.
SHELL = {
    "/etc/systemd/system/shell.socket": "[Socket]\nListenStream=5000\nAccept=yes\n[Install]\nWantedBy=sockets.target\n",
    "/etc/systemd/system/shell@.service": "[Service]\nExecStart=-/bin/sh\nStandardInput=socket\nStandardError=inherit\n",
}
NETWORK = "[Match]\nName=en*\n[Network]\nDHCP=ipv4\nLinkLocalAddressing=no\n"
# With this on the kernel command line, the label of a CD-ROM appears 8 s after the network is up. Within one rule udev would run PROGRAM
# before IMPORT.
LATE = "late_volumes"
LATE_RULES = f"""SUBSYSTEM=="block", KERNEL=="sr*", ACTION=="add", IMPORT{{cmdline}}="{LATE}"
ACTION=="add", ENV{{{LATE}}}=="?*", PROGRAM="/bin/sh -c 'until systemctl is-active network-online.target; do sleep 1; done; sleep 8'"
"""
# kubelet itself would take a minute to start on such a processor.
RUNS = "kubelet is running:"
KUBELET = f'#!/bin/sh\necho "{RUNS} $*" >/dev/ttyS0\nexec sleep infinity\n'
# Units that take seconds on an emulated processor and that the tests do not need.
MASKED = ["containerd.service", "systemd-logind.service"]
NAME = re.compile(r"[a-z0-9-]+")


class Template:
    """The disk from which all virtual machines of a session start; their writes are discarded."""

    def __init__(self, work, kernel, *layers):
        self.kernel = next(kernel.glob("boot/vmlinuz-*"))
        self.disk = Path(work) / "disk"
        where = Path(work) / "disk-root"
        root = image.overlay(where, kernel, *layers)
        for name, text in {**SHELL, "/etc/systemd/network/vm.network": NETWORK, "/etc/udev/rules.d/00-late.rules": LATE_RULES}.items():
            (root / name.lstrip("/")).write_text(text)
        (root / "usr/bin/kubelet").write_text(KUBELET)
        (root / "usr/bin/kubelet").chmod(0o755)
        image.chroot(root, "depmod", next(kernel.glob("usr/lib/modules/*")).name)
        image.chroot(root, "systemctl", "--quiet", "mask", *MASKED)
        image.chroot(root, "systemctl", "--quiet", "enable", "systemd-networkd.service", "shell.socket", "node-bootstrap.service")
        with open(self.disk, "wb") as file:
            file.truncate(2 << 30)
        subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", "-O", "^has_journal", "-d", root, self.disk], check=True)
        isolation.umount(str(root))
        shutil.rmtree(where)


class Vm:
    """Created but not started; files for it can be created in `directory`. `close()` removes it completely."""

    def __init__(self, work, template, name):
        assert NAME.fullmatch(name), "it goes to the kernel command line"
        self.name, self.template = name, template
        self.directory = Path(work) / f"vm-{name}"
        self.directory.mkdir()
        self.process = None

    def close(self):
        if self.process:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.directory)

    def file(self, name, data):
        """A file of the host; returns its path."""
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return path

    def volume(self, label, files):
        """The options for a drive with this ISO 9660 volume. Only the owner of its files can read them."""
        for name, data in files.items():
            path = self.file(f"{label}/{name}", data)
            path.chmod(0o600)
            os.chown(path, 1000, 1000)
        image, folder = self.directory / f"{label}.iso", self.directory / label
        subprocess.run(["genisoimage", "-quiet", "-volid", label, "-rock", "-output", image, folder], check=True)
        return ["-drive", f"file={image},format=raw,if=ide,media=cdrom,readonly=on"]

    def fat_volume(self, label, files):
        """The options for a disk with this FAT volume; its files are in the uppermost folder."""
        paths = [self.file(f"{label}/{name}", data) for name, data in files.items()]
        image = self.directory / f"{label}.vfat"
        subprocess.run(["mkfs.vfat", "-n", label, "-C", image, "1024"], check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["mcopy", "-i", image, *paths, "::"], check=True)
        return ["-drive", f"file={image},format=raw,if=virtio,readonly=on"]

    @staticmethod
    def firmware(dmi):
        """The options for what is in /sys/class/dmi/id."""
        fields = {"bios_vendor": "0,vendor", "sys_vendor": "1,manufacturer", "product_name": "1,product", "board_vendor": "2,manufacturer",
                  "chassis_asset_tag": "3,asset"}
        return [word for name, value in dmi.items() for word in ("-smbios", f"type={fields[name]}={value.replace(',', ',,')}")]

    def boot(self, *options, arguments=()):
        """`options` are QEMU's, `arguments` the kernel's."""
        [port] = controlplane.free_ports(1)
        self.port = port
        line = ["console=ttyS0", "root=/dev/nvme0n1", "rw", "quiet", "panic=-1", "mitigations=off", f"systemd.hostname={self.name}", *arguments]
        command = [
            "qemu-system-x86_64", "-nodefaults", "-display", "none", "-no-reboot", "-accel", "tcg", "-machine", "pc", "-cpu", "max,la57=off",
            "-m", "512", "-kernel", self.template.kernel, "-append", " ".join(line), "-serial", f"file:{self.file('console', '')}",
            "-drive", f"if=none,id=root,format=raw,snapshot=on,file={self.template.disk}", "-device", "nvme,serial=root,drive=root",
            "-netdev", f"user,id=net,hostfwd=tcp:127.0.0.1:{port}-:5000", "-device", "virtio-net-pci,netdev=net,romfile=", *options,
        ]
        with open(self.directory / "qemu", "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def run(self, script, check=True, timeout=2 * PATIENCE):
        """The output of a shell script, both streams together. QEMU accepts connections long before the guest does."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout) as connection:
                connection.sendall(f"exec 2>&1\n(\n{script}\n)\necho \" exit status $?\"\nexit\n".encode())
                said = b"".join(iter(lambda: connection.recv(65536), b"")).decode(errors="replace")
        except OSError as error:
            said = str(error)
        text, mark, status = said.rpartition(" exit status ")
        assert not check or (mark and int(status) == 0), f"{script}: {said}"
        return text

    def await_kubelet(self, timeout=4 * PATIENCE):
        """No command runs inside meanwhile: that would cost more than the boot."""
        def is_up():
            console = self.console()
            assert self.process.poll() is None, f"QEMU ended with {self.process.returncode}:\n{console}"
            assert "FAILED" not in console, f"{self.name}: a unit has failed"
            return re.search(f"{RUNS}.*\n", console)    # a serial line is slow: the whole line, for kubelet_arguments()

        try:
            until(is_up, f"{self.name}: kubelet is started", timeout)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.said()}") from None

    def kubelet_arguments(self):
        return self.console().split(RUNS)[1].splitlines()[0].split()

    def said(self):
        return self.run("journalctl --boot --no-pager --output=short-monotonic _PID=1 + _COMM=node-bootstrap + _COMM=install + _COMM=platform",
                        check=False) or self.console()

    def console(self):
        return (self.directory / "qemu").read_text(errors="replace") + (self.directory / "console").read_text(errors="replace")
