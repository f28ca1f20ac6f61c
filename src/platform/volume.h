/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads a volume that the platform attached for the machine, found by its label: OpenStack's config
 * drive, or NoCloud's seed.
 *
 * It is mounted read-only, nosuid, nodev and noexec, as a detached mount that is in no file tree
 * and ends with its descriptor. Only iso9660 and vfat are tried, whatever the volume claims to be,
 * so that whoever can attach a volume reaches two file systems of the kernel, not all of them. No
 * link is followed.
 */

#include "base/failure.h"
#include "base/secret.h"

#define NB_VOLUME_BY_LABEL "/dev/disk/by-label"

enum nb_volume_kind {
        NB_VOLUME_CONFIG_DRIVE, /* label config-2 or CONFIG-2;
                                   openstack/latest/{user_data,meta_data.json} */
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

/* Reads the first volume in the folder `by_label` (NB_VOLUME_BY_LABEL), looking for the kind
 * `first` before the other. NB_PLATFORM_UNREADABLE. */
int nb_volume_read(const char *by_label, enum nb_volume_kind first, struct nb_volume *volume,
                   struct nb_failure *f);

/* Reads the files of a mounted volume. After a failure, `volume` has no label. */
int nb_volume_read_files(int root_fd, enum nb_volume_kind kind, struct nb_volume *volume,
                         struct nb_failure *f);

void nb_volume_done(struct nb_volume *volume);
