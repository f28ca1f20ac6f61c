/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What all API objects have in common, and Status (meta/v1), the object that an API server answers
 * with if it refuses a request. */

#include <stddef.h>
#include <stdint.h>

#include "base/failure.h"
#include "codec/json.h"

struct nb_object_type {
        const char *what; /* for messages: "the Node" */
        const char *kind;
        const char *api_version;
        size_t max; /* bytes */
};

/* Parses an object and checks its kind and API version. NB_ANSWER_MALFORMED. */
struct nb_json nb_object_parse(const char *text, size_t len, const struct nb_object_type *type,
                               struct nb_failure *f);
void nb_object_verify_type(struct nb_json *json, const struct nb_object_type *type);

struct nb_status {
        int64_t code; /* 0 if missing */
        char reason[64];
        /* The sentence of an admission policy comes after up to 220 bytes of names. */
        char message[384];
};

/* Empty if the body is not a Status, since a proxy on the path may have sent it. */
struct nb_status nb_status_parse(const char *text, size_t len);

void nb_status_read(struct nb_json *json, struct nb_status *ret_status);

/* The user that a refusal names, as in `User "system:anonymous" cannot create ...`, or "". */
void nb_status_user(const struct nb_status *status, char *ret, size_t size);
