/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads the cloud's metadata before the stages of a join (stages.h), if nothing on this machine
 * provides an identity. The class of a failure decides whether to retry, as in a stage: STATUS=
 * shows the current failure, and the journal contains each failure once. Writes nothing to disk.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/failure.h"
#include "cloud/cloud.h"

/* Runs `attempt`, which reads metadata once and checks that a join can begin with it, until it
 * succeeds (0), its failure is final, or `deadline_ms` (nb_now_ms()) has passed. -ECANCELED. A
 * rehearsal ends with the first answer, valid or not. */
int nb_metadata_wait(enum nb_provider provider,
                     int (*attempt)(void *userdata, struct nb_failure *f), void *userdata,
                     bool is_rehearsal, uint64_t deadline_ms, struct nb_failure *f);

/* Whether the metadata contains a token or settings for this program. Secrets may be wiped before
 * this call. */
bool nb_metadata_is_for_us(const struct nb_metadata *metadata);

/* If the metadata contains nothing for this program, describes what was found: "the metadata of
 * Amazon EC2 has nothing for node-bootstrap: the user data of Amazon EC2 is a shell script". */
void nb_metadata_describe_nothing(const struct nb_metadata *metadata, char *ret, size_t size);

/* Logs what was found, but no values. */
void nb_metadata_report(const struct nb_metadata *metadata);
