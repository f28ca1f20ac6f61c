/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads the cloud's metadata, before the stages of join.h, if nothing on this machine provides an
 * identity. Retries by the class of the failure, as a stage does: STATUS= says what is waited for,
 * and the journal has each reason once. Writes nothing to disk.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/failure.h"
#include "cloud/cloud.h"

struct nb_metadata_attempt {
        enum nb_provider provider;
        /* Reads metadata once, and checks that a join can begin with it. `is_patience_over` as in
         * struct nb_cloud_request: the initial 404 of some clouds is waited for only once. */
        int (*run)(void *userdata, bool is_patience_over, struct nb_failure *f);
        void *userdata;
        bool is_rehearsal; /* ends with the first answer, valid or not */
};

/* Runs attempts until one succeeds (0), one fails for good, or `deadline_ms` (nb_now_ms()) has
 * passed. -ECANCELED. */
int nb_metadata_wait(const struct nb_metadata_attempt *attempt, uint64_t deadline_ms,
                     struct nb_failure *f);

/* Adds to a failure at the deadline after how long it was given up, and by which limit:
 * "timeout". */
void nb_metadata_add_limit(uint64_t deadline_ms, uint64_t patience_ms, const char *limit,
                           struct nb_failure *f);

/* Whether anything in it is for this program, also after its secrets were wiped. */
bool nb_metadata_is_for_us(const struct nb_metadata *metadata);

/* Otherwise, what was found: "the metadata of Amazon EC2 has nothing for node-bootstrap: the user
 * data of Amazon EC2 is a shell script". */
void nb_metadata_describe_nothing(const struct nb_metadata *metadata, char *ret, size_t size);

/* Logs what was found, without any value. */
void nb_metadata_report(const struct nb_metadata *metadata);
