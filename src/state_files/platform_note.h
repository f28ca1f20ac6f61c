/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Facts about this machine that the sandbox of node-bootstrap.service hides.
 * node-bootstrap-platform.service writes them to /run/node-bootstrap-platform: platform.json, a
 * state file, and the unchanged user data and metadata.
 */

#include <stdbool.h>

#include "state_files/state_file.h"

#define NB_PLATFORM_DIRECTORY "/run/node-bootstrap-platform"
#define NB_PLATFORM_NOTE NB_PLATFORM_DIRECTORY "/platform.json"
/* from the volume, or guestinfo.userdata */
#define NB_PLATFORM_USER_DATA NB_PLATFORM_DIRECTORY "/user-data"
/* from the volume: meta_data.json (config drive) or meta-data (NoCloud) */
#define NB_PLATFORM_META_DATA NB_PLATFORM_DIRECTORY "/meta-data"
/* guestinfo.node-bootstrap.token */
#define NB_PLATFORM_TOKEN NB_PLATFORM_DIRECTORY "/token"
#define NB_PLATFORM_NOTE_MAX 4096

struct nb_platform {
        char platform_id[32]; /* ignition.platform.id= of the kernel command line; "" for none */
        char data_source[32]; /* cloud-init's ds= of the kernel command line, up to ';' */
        char volume[16];      /* label of the volume that was read: "config-2", "cidata" or "" */
        bool has_guestinfo;   /* VMware's tools answered */
};

/* NB_METADATA_MALFORMED. */
extern const struct nb_state_file nb_platform_file;
