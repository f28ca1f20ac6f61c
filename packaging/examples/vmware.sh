#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# vmware.sh VM [OPTION...]: sets, with govc, the guestinfo of the virtual machine VM, which is powered off, to the file "user-data" in the working
# directory. In the image, node-bootstrap.service is enabled and open-vm-tools is installed. In vSphere's client, use "Edit Settings",
# "Advanced Parameters": guestinfo.userdata, in base64. Whoever can see the settings of the VM can read it: make the token short-lived.
set -eu

vm=${1:?expected the name of a virtual machine}
shift
exec govc vm.change -vm "$vm" -f guestinfo.userdata="$PWD/user-data" "$@"
