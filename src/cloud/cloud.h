/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Instance metadata: user data, and narrower places for one value where the cloud has them. One table of providers
 * (table.c); a row of data for the generic one, a file for each that needs more.
 *
 * Plain HTTP to the documented link-local address (net/http.h, nb_http_new_metadata()), no proxy, no redirect, no name
 * resolved; nothing is written to disk. Volumes and guestinfo are read before by node-bootstrap-platform.service and come as files
 * (format/platform.h). What comes back proves nothing and is trusted as far as the cloud is: it never outranks what is on the machine.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/failure.h"
#include "base/secret.h"
#include "cloud/recognise.h"
#include "format/user_data.h"

#define NB_CLOUD_CONNECT_TIMEOUT_MS 2000
#define NB_CLOUD_REQUEST_TIMEOUT_MS 5000
#define NB_CLOUD_PATIENCE_MS 60000                /* how long a 404 or 410 may mean "not yet" where the cloud says that it can: Azure */
#define NB_CLOUD_TOKEN_KEY "node-bootstrap-token" /* instance attribute, tag or metadata key that holds the token alone */

struct nb_cloud_request {
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
        struct nb_user_data user_data;                     /* never NB_USER_DATA_UNREADABLE */
        char user_data_source[NB_METADATA_SOURCE_MAX + 1]; /* "the user data of Amazon EC2"; "" when there is none */
        struct nb_secret token;                            /* out of the narrower place; empty for none */
        char token_source[NB_METADATA_SOURCE_MAX + 1];     /* "instance attribute 'node-bootstrap-token' of Google Compute Engine"; "" for none */
        char node_name[254];                               /* "" for none, or not wanted */
        char provider_id[512];                             /* as the cloud's controller manager has it: "aws:///eu-west-1a/i-0123"; "" for none */
};

#define NB_METADATA_INIT \
        { .user_data = NB_USER_DATA_INIT, .token = NB_SECRET_INIT }

/*
 * One attempt at all of it; who calls tries again by the failure's class. NB_METADATA_UNREACHABLE (no connection, cut, 429, 5xx), NB_METADATA_REFUSED
 * (any other status that is not "none", a redirect, an answer above a ceiling), NB_METADATA_MALFORMED, -ECANCELED.
 * Not found (404, 204, empty) is no failure: the member stays empty.
 */
int nb_cloud_read(const struct nb_cloud_request *request, struct nb_metadata *ret_metadata, struct nb_failure *f);

/* True where the provider can tell the two at all; for messages about settings that ask for it. */
bool nb_cloud_has_node_name(enum nb_provider provider);
bool nb_cloud_has_provider_id(enum nb_provider provider);

/* What of it is for this program at all, when everything has been read: without another token, user data that nobody can read is NB_METADATA_MALFORMED. */
int nb_metadata_judge(struct nb_metadata *metadata, struct nb_failure *f);

/* Where the cloud takes the token alone, for people: "instance tag 'node-bootstrap-token'"; NULL where it is in the user data, as everywhere. */
const char *nb_cloud_token_place(enum nb_provider provider);

void nb_metadata_done(struct nb_metadata *metadata);
