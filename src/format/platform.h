/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The note that node-bootstrap-platform.service leaves: what of this platform the sandbox of node-bootstrap.service does not
 * let see. JSON, {"platformId": "qemu", "dataSource": "nocloud", "volume": "cidata", "hasGuestinfo": false}; keys that are not
 * known are passed over. Beside it, where there is such a thing: user data and metadata as they were found, raw.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/failure.h"

#define NB_PLATFORM_DIRECTORY "/run/node-bootstrap-platform"
#define NB_PLATFORM_NOTE NB_PLATFORM_DIRECTORY "/platform.json"
#define NB_PLATFORM_USER_DATA NB_PLATFORM_DIRECTORY "/user-data" /* of the volume, or guestinfo.userdata */
#define NB_PLATFORM_META_DATA NB_PLATFORM_DIRECTORY "/meta-data" /* of the volume: meta_data.json (config drive), meta-data (NoCloud) */
#define NB_PLATFORM_TOKEN NB_PLATFORM_DIRECTORY "/token"         /* guestinfo.node-bootstrap.token */
#define NB_PLATFORM_NOTE_MAX 4096

struct nb_platform {
        char platform_id[32]; /* ignition.platform.id= of the kernel command line; "" for none */
        char data_source[32]; /* ds= of the kernel command line, without what follows ';': cloud-init's */
        char volume[16];      /* label of the volume that was read: "config-2" or "cidata", lower case; "" for none */
        bool has_guestinfo;   /* VMware's tools answered */
};

int nb_platform_format(const struct nb_platform *platform, struct nb_buffer *ret);

/* NB_METADATA_MALFORMED. */
int nb_platform_parse(const char *json, size_t len, struct nb_platform *ret_platform, struct nb_failure *f);
