/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * token.discard: a mark which requests that the plaintext of the token is removed from this machine
 * after node-bootstrap.service has started (platform/discard.h). It is a file in kubelet's folder,
 * which the network side cannot write. Its one line names the cloud whose metadata contained the
 * token, or is "none".
 *
 * It is of one start: each begins without, and leaves one where it has installed a join
 * (install/write.h), or where what an earlier one had installed is found usable. One that was left
 * otherwise would have the token go that a join anew still needs.
 */

#include "base/buffer.h"
#include "base/failure.h"
#include "install/context.h"
#include "state/handoff.h"

/* Formats the contents of the mark; `metadata` is as in the record of a join, "" for none. 0,
 * -E2BIG, -ENOMEM. */
void nb_discard_format(const char *metadata, struct nb_buffer *ret);

/* Removes the mark. 0, also if it does not exist. NB_TARGET_UNWRITABLE. */
int nb_discard_forget(const struct nb_context *context, struct nb_failure *f);

/* Writes the mark on a machine that has already joined, if its settings request it or metadata did
 * at the join. install cannot see whether any plaintext is left. NB_TARGET_UNWRITABLE. */
int nb_discard_mark(const struct nb_context *context, struct nb_failure *f);
