/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The settings of a machine out of all its documents: in the same way on both sides, weakest first, and weakest of all the one
 * that came from metadata. Key by key, but for one thing: where the machine itself has discovery.caCertHashes, discovery.file or the credential
 * node-bootstrap.cluster-info, the cluster has to show what those say, and unsafeSkipCAVerification and trustWholeBundle out of metadata do not count.
 */

#include <stdbool.h>

#include "base/failure.h"
#include "format/settings.h"

/* What metadata gave, without tokens, as text. */
struct nb_metadata_document {
        const char *origin; /* for people: "the user data of Amazon EC2" */
        const char *data;
        size_t len;
};

/*
 * Not yet nb_settings_verify()d. `metadata` may be NULL. `tokens` takes those of the documents on the machine, over what it holds already; NULL
 * drops them. NB_SETTINGS_*, NB_TOKEN_MALFORMED, NB_TOKEN_EXPOSED.
 */
int nb_documents_merge(const char *config_directory, const struct nb_metadata_document *metadata, struct nb_settings_tokens *tokens,
                       struct nb_settings *ret_settings, struct nb_failure *f);

/* Whether a value came from there. */
bool nb_setting_is_from(const struct nb_settings *settings, enum nb_setting setting, const char *origin);
