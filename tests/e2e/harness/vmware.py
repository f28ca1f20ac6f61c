# SPDX-License-Identifier: Apache-2.0
"""A machine on VMware: one whose DMI says so.

VMware's tool is a shell script here, with the real one's arguments, streams and exit statuses (open-vm-tools, rpctool.c), and values in files.
"""

from .node import UNIT

PLATFORM = "node-bootstrap-platform.service"
GUESTINFO = "/etc/e2e-guestinfo"
RPCTOOL = f"""#!/bin/sh
test $# = 1 || exit 1
set -f
set -- $1
case $1:$# in
info-get:2)
        test -e {GUESTINFO}/$2 || {{ echo "No value found" >&2; exit 1; }}
        cat {GUESTINFO}/$2
        echo ;;
info-set:3)
        printf %s "$3" >{GUESTINFO}/$2
        echo ;;
*)
        echo "Two and exactly two arguments expected" >&2
        exit 1 ;;
esac
"""
DMI = {"sys_vendor": "VMware, Inc.", "product_name": "VMware Virtual Platform"}


def on_vmware(node, **values):
    """A machine on VMware with these values in its guestinfo; '_' stands for '-' and '__' for '.'."""
    for name, text in DMI.items():
        node.write(f"/etc/e2e-dmi/{name}", text + "\n")
    for unit in (UNIT, PLATFORM):
        node.drop_in(unit, "[Service]\nTemporaryFileSystem=/sys/class\nBindReadOnlyPaths=/etc/e2e-dmi:/sys/class/dmi/id\n", "40-dmi.conf")
    node.drop_in(PLATFORM, "[Unit]\nConditionPathExists=\n", "41-started.conf")
    node.write("/usr/bin/vmware-rpctool", RPCTOOL, 0o755)
    node.path(GUESTINFO).mkdir(0o700, exist_ok=True)
    for name, text in values.items():
        node.write(f"{GUESTINFO}/guestinfo.{name.replace('__', '.').replace('_', '-')}", text, 0o600)
    return node
