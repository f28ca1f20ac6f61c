#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# vmware.sh VM [OPTION...]: gives the virtual machine VM, which is off, the file "user-data" in the working directory as guestinfo, by govc. In the image
# node-bootstrap.service is enabled, and open-vm-tools are there. In vSphere's client the same is "Edit Settings", "Advanced Parameters":
# guestinfo.userdata, in base64. Who may see the settings of the VM reads it: make the token short-lived.
set -eu

vm=${1:?expected the name of a virtual machine}
shift
exec govc vm.change -vm "$vm" -f guestinfo.userdata="$PWD/user-data" "$@"
