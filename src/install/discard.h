/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * token.discard: the mark by which node-bootstrap.service knows, once it has started, that the
 * plaintext of the token is to be removed from this machine (platform/discard.h). It lies in
 * kubelet's folder, which the network side cannot write, and holds one line: the cloud whose
 * metadata gave the token, or "none".
 *
 * It is of one start: each begins without, and leaves one where it has installed a join
 * (install/write.h), or where what an earlier one had installed is found usable. One that was left
 * otherwise would have the token go that a join anew still needs.
 */

#include "base/buffer.h"
#include "base/failure.h"
#include "install/context.h"
#include "state/handoff.h"

/* What stands in it; `metadata` as in the record of a join, "" for none. 0, -E2BIG, -ENOMEM. */
int nb_discard_format(const char *metadata, struct nb_buffer *ret);

/* 0, also where there is none. NB_TARGET_UNWRITABLE. */
int nb_discard_forget(const struct nb_context *context, struct nb_failure *f);

/* Of a machine that had joined before, where the settings ask for it, or metadata did when it
 * joined: whether there is any plaintext, the installer cannot see. NB_TARGET_UNWRITABLE. */
int nb_discard_mark(const struct nb_context *context, struct nb_failure *f);
