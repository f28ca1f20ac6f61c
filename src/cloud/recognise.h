/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which cloud a machine is in, by what is on the machine: not one packet is sent for it. The strings are those of
 * cloud-init's ds-identify and systemd's 40-imds.hwdb.
 */

#include "base/failure.h"
#include "format/platform.h"
#include "format/provider.h"

/* Of /sys/class/dmi/id/, those that everybody can read; "" for one that is not there. */
struct nb_dmi {
        char sys_vendor[64], product_name[64], product_version[64], chassis_asset_tag[64], board_vendor[64], board_name[64], bios_vendor[64];
};

struct nb_machine {
        struct nb_dmi dmi;
        struct nb_platform platform;
};

/* Reads /sys/class/dmi/id/ and NB_PLATFORM_NOTE; where that is not there, the kernel command line, if it can be read. NB_METADATA_MALFORMED. */
int nb_machine_read(struct nb_machine *ret_machine, struct nb_failure *f);

struct nb_recognition {
        enum nb_provider provider; /* NB_PROVIDER_NONE: no cloud that is known */
        char why[160];             /* "sys_vendor is 'Amazon EC2'", "ignition.platform.id=aws on the kernel command line" */
};

/* Pure. The kernel command line says more than DMI; a volume more than either, since the cloud attached it for this. */
void nb_recognise(const struct nb_machine *machine, struct nb_recognition *ret_recognition);
