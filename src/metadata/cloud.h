/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Recognises the cloud that a machine is in, from facts on the machine, without sending a packet.
 * Reads its instance metadata: user data, and single values if the cloud has them.
 * clouds.def has all clouds; cloud_readers.c has code for values that a row cannot describe.
 *
 * Requests use plain HTTP to the documented link-local address (http/http.h,
 * nb_http_new_metadata()), without proxies or redirects; nothing is written to disk. Volumes and
 * guestinfo are files that node-bootstrap-platform.service has written
 * (state_files/platform_note.h). Plain HTTP is not authenticated, so metadata is trusted as much as
 * the cloud and its network, and never overrides settings or credentials on the machine.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/failure.h"
#include "base/secret.h"
#include "metadata/user_data.h"
#include "os/sources.h"
#include "settings/settings.h"
#include "state_files/platform_note.h"

/* --- Recognition (cloud_recognise.c) --- */

/* Files in /sys/class/dmi/id/ that every user can read; "" for missing ones. */
struct nb_dmi {
        char sys_vendor[64], product_name[64], product_version[64], chassis_asset_tag[64],
                board_vendor[64], bios_vendor[64];
};

struct nb_machine {
        struct nb_dmi dmi;
        struct nb_platform platform;
};

/* Reads /sys/class/dmi/id/ and NB_PLATFORM_NOTE, or the kernel command line if that file is missing
 * or not readable. NB_METADATA_MALFORMED. */
int nb_machine_read(struct nb_sources *sources, struct nb_machine *ret_machine,
                    struct nb_failure *f);

struct nb_recognition {
        enum nb_provider provider; /* NB_PROVIDER_NONE: no known cloud */
        char why[160]; /* "sys_vendor is 'Amazon EC2'", "ignition.platform.id=aws on the kernel
                          command line" */
};

/* Recognises the cloud of a machine; no I/O. The kernel command line overrides DMI, and a volume
 * overrides both, since the cloud attached it for this purpose. The strings are those of
 * cloud-init's ds-identify and systemd's 40-imds.hwdb. */
void nb_recognise(const struct nb_machine *machine, struct nb_recognition *ret_recognition);

/* --- Metadata --- */

#define NB_CLOUD_CONNECT_TIMEOUT_MS 2000
#define NB_CLOUD_REQUEST_TIMEOUT_MS 5000
#define NB_CLOUD_PATIENCE_MS 60000 /* how long a 404 or 410 may mean "not yet" (Azure) */

struct nb_cloud_request {
        struct nb_sources *sources;
        enum nb_provider provider;
        const struct nb_machine *machine;
        bool wants_node_name;
        bool wants_provider_id;
        bool is_patience_over; /* 404 and 410 no longer mean "not yet" */
        uint64_t until_ms;     /* deadline of this attempt, as nb_now_ms() */
};

#define NB_METADATA_SOURCE_MAX 127

struct nb_metadata {
        enum nb_provider provider;
        struct nb_user_data user_data;
        struct nb_secret token; /* from a separate value, not from the user data; empty for none */
        /* The origins of both: "the user data of Amazon EC2", "instance attribute
         * 'node-bootstrap-token' of Google Compute Engine". "" for none. */
        char user_data_source[NB_METADATA_SOURCE_MAX + 1], token_source[NB_METADATA_SOURCE_MAX + 1];
        char node_name[NB_NODE_NAME_MAX + 1]; /* "" if there is none, or it is not wanted */
        /* "aws:///eu-west-1a/i-0123", as the cloud controller manager writes it. "" as above. */
        char provider_id[NB_SETTINGS_PROVIDER_ID_SIZE];
        bool is_unverified; /* an attacker on the network could have forged this */
};

#define NB_METADATA_INIT \
        { .user_data = NB_USER_DATA_INIT, .token = NB_SECRET_INIT }

/*
 * Tries once to read all requested metadata; the class of the failure decides whether the caller
 * retries. NB_METADATA_UNREACHABLE (no connection, no complete answer, 429, 5xx, "not yet"),
 * NB_METADATA_REFUSED (a redirect, another unexpected status, an answer that is too large),
 * NB_METADATA_MALFORMED, NB_PLATFORM_UNREADABLE, NB_INTERNAL, -ECANCELED. A missing value (404,
 * 204, empty) is not a failure: its member stays empty.
 */
int nb_cloud_read(const struct nb_cloud_request *request, struct nb_metadata *ret_metadata,
                  struct nb_failure *f);

/* Whether the provider's metadata contains a node name, or a provider ID. */
bool nb_cloud_has_node_name(enum nb_provider provider);
bool nb_cloud_has_provider_id(enum nb_provider provider);

/* Names the separate value for the token in messages: "instance tag 'node-bootstrap-token'". NULL
 * if the cloud has none. */
const char *nb_cloud_token_place(enum nb_provider provider);

void nb_metadata_done(struct nb_metadata *metadata);
