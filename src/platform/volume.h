/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A volume that the platform attached for the machine to read, found by its label: OpenStack's config drive, or NoCloud's seed.
 *
 * Mounted read-only, without set-ID bits, devices and programs, as a detached mount that is in no file tree and goes with its
 * descriptor; as iso9660 or vfat, which are what such volumes have, and never by what the volume says of itself: whoever can
 * attach one chooses among two parsers of the kernel, not among all. On it no link is followed.
 */

#include <stdbool.h>

#include "base/failure.h"
#include "base/secret.h"

#define NB_VOLUME_BY_LABEL "/dev/disk/by-label"

enum nb_volume_kind {
        NB_VOLUME_CONFIG_DRIVE, /* label config-2 or CONFIG-2; openstack/latest/{user_data,meta_data.json} */
        NB_VOLUME_NOCLOUD,      /* label cidata or CIDATA; {user-data,meta-data} */
        _NB_VOLUME_N,
};

struct nb_volume {
        const char *label;          /* "config-2" or "cidata"; NULL: there is none */
        struct nb_secret user_data; /* empty where there is no such file */
        struct nb_secret meta_data;
};

#define NB_VOLUME_INIT \
        { .label = NULL, .user_data = NB_SECRET_INIT, .meta_data = NB_SECRET_INIT }

/* Looks below `by_label` (NB_VOLUME_BY_LABEL) for either kind, `first` first, and reads the first that is there. NB_PLATFORM_UNREADABLE. */
int nb_volume_read(const char *by_label, enum nb_volume_kind first, struct nb_volume *ret_volume, struct nb_failure *f);

/* The second half of it: what is in the folder where the volume is mounted. */
int nb_volume_read_files(int root_fd, enum nb_volume_kind kind, struct nb_volume *ret_volume, struct nb_failure *f);

void nb_volume_done(struct nb_volume *volume);
