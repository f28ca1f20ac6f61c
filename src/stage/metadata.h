/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Before the stages of join.h, and only where nothing on this machine gives an identity: what the cloud's metadata holds. Attempts go on by the
 * class of the failure, as with any stage: STATUS= says what is waited for, and the journal each reason once. Nothing on disk.
 */

#include <stdint.h>

#include "base/failure.h"
#include "cloud/cloud.h"

/*
 * `request` as of nb_cloud_read(), but for is_patience_over and until_ms, which are kept here: where a cloud may answer 404 for something that will
 * be there, that is waited out once. 0; -ECANCELED; the failure of nb_cloud_read() that is final, or the last one before `deadline_ms`.
 */
int nb_metadata_wait(const struct nb_cloud_request *request, uint64_t deadline_ms, struct nb_metadata *ret_metadata, struct nb_failure *f);

/* Says of a failure at the deadline that it was given up, after how long, and by whose limit: "timeout". */
void nb_metadata_add_limit(uint64_t deadline_ms, uint64_t patience_ms, const char *limit, struct nb_failure *f);

/* Whether there is anything for this program in it, also when its secrets have been taken out. */
bool nb_metadata_is_for_us(const struct nb_metadata *metadata);

/* An entry that names what was found, or that nothing was; never a value. */
void nb_metadata_report(const struct nb_metadata *metadata);
