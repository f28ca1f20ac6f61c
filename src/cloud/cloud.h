/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which cloud a machine is in, by what is on the machine: not a packet is sent for that; and its
 * instance metadata: user data, and single values where the cloud has them. settings/provider.def
 * has all clouds; readers.c has the code for values that a row cannot describe.
 *
 * Plain HTTP to the documented link-local address (net/http.h, nb_http_new_metadata()), without
 * proxy, redirects or name resolution; nothing is written to disk. Volumes and guestinfo come as
 * files from node-bootstrap-platform.service (state/platform.h). The answers are not authenticated:
 * they are trusted as far as the cloud is, and never override what is on the machine.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/failure.h"
#include "base/secret.h"
#include "base/sources.h"
#include "metadata/user_data.h"
#include "settings/settings.h"
#include "state/platform.h"

/* --- Recognition (recognise.c) --- */

/* Of /sys/class/dmi/id/, what every user can read; "" for missing ones. */
struct nb_dmi {
        char sys_vendor[64], product_name[64], product_version[64], chassis_asset_tag[64],
                board_vendor[64], bios_vendor[64];
};

struct nb_machine {
        struct nb_dmi dmi;
        struct nb_platform platform;
};

/* Reads /sys/class/dmi/id/ and NB_PLATFORM_NOTE, or without that note the kernel command line, if
 * it can be read. NB_METADATA_MALFORMED. */
int nb_machine_read(struct nb_sources *sources, struct nb_machine *ret_machine,
                    struct nb_failure *f);

struct nb_recognition {
        enum nb_provider provider; /* NB_PROVIDER_NONE: no known cloud */
        char why[160]; /* "sys_vendor is 'Amazon EC2'", "ignition.platform.id=aws on the kernel
                          command line" */
};

/* Which cloud a machine is in; no I/O. The kernel command line overrides DMI, and a volume both,
 * since the cloud attached it for this. The strings are those of cloud-init's ds-identify and
 * systemd's 40-imds.hwdb. */
void nb_recognise(const struct nb_machine *machine, struct nb_recognition *ret_recognition);

/* --- Metadata --- */

#define NB_CLOUD_CONNECT_TIMEOUT_MS 2000
#define NB_CLOUD_REQUEST_TIMEOUT_MS 5000
#define NB_CLOUD_PATIENCE_MS 60000 /* how long a 404 or 410 may mean "not yet" (Azure) */
#define NB_CLOUD_TOKEN_KEY "node-bootstrap-token" /* attribute, tag or key with the token alone */

struct nb_cloud_request {
        struct nb_sources *sources;
        enum nb_provider provider;
        const struct nb_machine *machine;
        bool wants_node_name;
        bool wants_provider_id;
        bool is_patience_over; /* 404 and 410 are final everywhere */
        uint64_t until_ms;     /* nb_now_ms(): where this attempt ends */
};

#define NB_METADATA_SOURCE_MAX 127

struct nb_metadata {
        enum nb_provider provider;
        struct nb_user_data user_data; /* never NB_USER_DATA_UNREADABLE */
        struct nb_secret token; /* a value of its own, beside the user data; empty for none */
        /* Where the two are from: "the user data of Amazon EC2", "instance attribute
         * 'node-bootstrap-token' of Google Compute Engine". "" for none. */
        char user_data_source[NB_METADATA_SOURCE_MAX + 1], token_source[NB_METADATA_SOURCE_MAX + 1];
        char node_name[NB_NODE_NAME_MAX + 1]; /* "" for none, or not wanted */
        /* The same: "aws:///eu-west-1a/i-0123", as the cloud's controller manager writes it. */
        char provider_id[NB_SETTINGS_PROVIDER_ID_SIZE];
        bool is_unverified; /* an attacker on the network could have forged this */
};

#define NB_METADATA_INIT \
        { .user_data = NB_USER_DATA_INIT, .token = NB_SECRET_INIT }

/*
 * Tries once to read all of it; the caller tries again by the class of the failure.
 * NB_METADATA_UNREACHABLE (no connection, cut, 429, 5xx), NB_METADATA_REFUSED (another unexpected
 * status, a redirect, an answer that is too large), NB_METADATA_MALFORMED, -ECANCELED. A missing
 * value (404, 204, empty) is no failure: the member stays empty.
 */
int nb_cloud_read(const struct nb_cloud_request *request, struct nb_metadata *ret_metadata,
                  struct nb_failure *f);

/* Whether the provider has these at all. */
bool nb_cloud_has_node_name(enum nb_provider provider);
bool nb_cloud_has_provider_id(enum nb_provider provider);

/* Where the cloud has the token as a value of its own, for people: "instance tag
 * 'node-bootstrap-token'"; NULL for none. */
const char *nb_cloud_token_place(enum nb_provider provider);

/* Decides about user data that cannot be read, once everything was read: with another token it is
 * ignored, without one it is NB_METADATA_MALFORMED. */
int nb_metadata_finish(struct nb_metadata *metadata, struct nb_failure *f);

void nb_metadata_done(struct nb_metadata *metadata);
