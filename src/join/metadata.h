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

/* Runs `attempt`, which reads metadata once and checks that a join can begin with it, until it
 * succeeds (0), fails for good, or `deadline_ms` (nb_now_ms()) has passed. -ECANCELED. A rehearsal
 * ends with the first answer, valid or not. */
int nb_metadata_wait(enum nb_provider provider,
                     int (*attempt)(void *userdata, struct nb_failure *f), void *userdata,
                     bool is_rehearsal, uint64_t deadline_ms, struct nb_failure *f);

/* Whether anything in it is for this program, also after its secrets were wiped. */
bool nb_metadata_is_for_us(const struct nb_metadata *metadata);

/* Otherwise, what was found: "the metadata of Amazon EC2 has nothing for node-bootstrap: the user
 * data of Amazon EC2 is a shell script". */
void nb_metadata_describe_nothing(const struct nb_metadata *metadata, char *ret, size_t size);

/* Logs what was found, without any value. */
void nb_metadata_report(const struct nb_metadata *metadata);
