/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the sandbox of node-bootstrap.service does not let see, read beforehand by a service whose sandbox lets nothing else be done: the
 * kernel command line, a volume, VMware's guestinfo. What it leaves is described in format/platform.h.
 */

#include "base/failure.h"
#include "platform/guestinfo.h"

struct nb_places {
        const char *kernel_line;
        const char *dmi; /* a folder */
        const char *by_label;
        const struct nb_guestinfo_tool *tools;
};
extern const struct nb_places nb_places; /* of this machine */

/*
 * Writes into `folder_fd`, where nothing of an earlier run is left then; each file is the old one or the new one. What cannot be read is
 * left out, and the rest is read all the same: the first failure is returned at the end. NB_PLATFORM_UNREADABLE.
 */
int nb_collect(const struct nb_places *places, int folder_fd, struct nb_failure *f);
