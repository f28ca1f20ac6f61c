/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads what the sandbox of node-bootstrap.service hides: the kernel command line, a volume,
 * VMware's guestinfo. It runs in a separate service that does nothing else.
 * state_files/platform_note.h describes the files that it writes.
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
 * Replaces all files in `folder_fd`, each atomically. A source that cannot be read is skipped, the
 * others are still read, and the first failure is returned at the end. NB_PLATFORM_UNREADABLE.
 */
int nb_collect(const struct nb_places *places, int folder_fd, struct nb_failure *f);
