/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * token.discard: removes the plaintext of the token from this machine after it has joined. install
 * writes a mark in kubelet's folder; without the mark, nothing is removed. The
 * mark is removed last, so that the next start retries files that could not be removed.
 *
 * A file is unlinked, not overwritten. What is elsewhere stays: encrypted credentials, those that
 * the machine's manager passed in (SMBIOS, fw_cfg), volumes, user data of other clouds.
 */

#include "base/failure.h"

/* Below `root` (NULL: of this machine). Logs what was removed and what could not be.
 * NB_TOKEN_NOT_DISCARDED, which is logged by the caller. */
int nb_discard(const char *root, struct nb_failure *f);
