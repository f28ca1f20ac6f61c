/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Merges the settings documents of a machine key by key, in the same way for `join` and `install`.
 * The document from metadata comes first, and documents on this machine override it. One exception:
 * if this machine itself sets discovery.caCertHashes or discovery.file, or has the credential
 * node-bootstrap.cluster-info, then unsafeSkipCAVerification and trustWholeBundle from metadata are
 * ignored.
 */

#include <stdbool.h>

#include "base/failure.h"
#include "settings/settings.h"
#include "system/sources.h"

/* Settings from metadata as text, without tokens. */
struct nb_metadata_document {
        const char *origin; /* "the user data of Amazon EC2" */
        const char *data;
        size_t len;
};

/*
 * Call nb_settings_verify() on the result. `metadata` may be NULL. The tokens in documents on this
 * machine replace those in `tokens`; NULL drops them. NB_SETTINGS_*, NB_TOKEN_MALFORMED,
 * NB_TOKEN_EXPOSED.
 */
int nb_documents_merge(struct nb_sources *sources, const struct nb_metadata_document *metadata,
                       struct nb_settings_tokens *tokens, struct nb_settings *ret_settings,
                       struct nb_failure *f);

/*
 * Reads what is valid in settings that nb_documents_merge() refuses: each valid key of each
 * document, up to the first document that cannot be parsed. Used to find the files of a machine
 * that has joined. Cannot fail.
 */
void nb_documents_salvage(struct nb_sources *sources, struct nb_settings *ret_settings);

/* Whether a value comes from `origin`. */
bool nb_setting_is_from(const struct nb_settings *settings, enum nb_setting setting,
                        const char *origin);
