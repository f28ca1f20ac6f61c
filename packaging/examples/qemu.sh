#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# qemu.sh DISK [OPTION...]: boots a virtual machine from the image DISK, in which node-bootstrap.service is enabled. Token and
# settings are files in the working directory, "token" (mode 0600) and "config.yaml": neither is on a command line.
set -eu

disk=$1
shift
exec qemu-system-x86_64 -machine q35,accel=kvm:tcg -m 2048 -nographic -nic user,model=virtio-net-pci \
        -drive file="$disk",format=qcow2,if=virtio \
        -fw_cfg name=opt/io.systemd.credentials/node-bootstrap.token,file=token \
        -fw_cfg name=opt/io.systemd.credentials/node-bootstrap.config,file=config.yaml "$@"
