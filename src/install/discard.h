/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * token.discard: a mark which requests that the plaintext of the token is removed from this machine
 * after node-bootstrap.service has started (platform/discard.h). It is a file in kubelet's folder,
 * which the network side cannot write. Its one line names the cloud whose metadata contained the
 * token, or is "none".
 *
 * A mark applies to one start of the service: each start first removes the previous mark. It writes
 * a new one only after it has installed a join (install/write.h), or if the credentials of an
 * earlier join are usable. In any other case the mark would remove a token that the next join
 * needs.
 */

#include "base/buffer.h"
#include "base/failure.h"
#include "install/context.h"
#include "state/handoff.h"

/* Formats the contents of the mark; `metadata` is as in the record of a join, "" for none. */
void nb_discard_format(const char *metadata, struct nb_buffer *ret);

/* Removes the mark. 0, also if it does not exist. NB_TARGET_UNWRITABLE. */
int nb_discard_forget(const struct nb_context *context, struct nb_failure *f);

/* Writes the mark on a machine that has already joined, if its settings request it or metadata did
 * at the join. install cannot see whether any plaintext is left. NB_TARGET_UNWRITABLE. */
int nb_discard_mark(const struct nb_context *context, struct nb_failure *f);
