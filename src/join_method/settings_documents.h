/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Merges the settings documents of a machine key by key, and settles them with those of metadata.
 */

#include <stdbool.h>

#include "base/failure.h"
#include "os/sources.h"
#include "settings/settings.h"

/*
 * Merges the documents on this machine; later ones take precedence. The tokens in them replace
 * those in `tokens`; NULL drops them. Call nb_settings_verify() on the result. If a document is
 * refused, *ret_settings has those before it: NB_SETTINGS_*, NB_TOKEN_MALFORMED, NB_TOKEN_EXPOSED.
 * -ETIMEDOUT if the file system does not answer within NB_SOURCES_READ_TIMEOUT_MS, and -errno if no
 * process can be started that would wait for it: `sources` has no config_directory any more then,
 * so that nothing waits for it again.
 */
int nb_documents_merge(struct nb_sources *sources, struct nb_settings_tokens *tokens,
                       struct nb_settings *ret_settings, struct nb_failure *f);

/* The same as far as the documents can be read: skips what is refused, and all tokens. For paths of
 * files that an earlier join wrote, and for what a document has that is to be replaced. Sets
 * *ret_unread if a document could not be read, or a path of these files was refused. */
void nb_documents_merge_readable(struct nb_sources *sources, struct nb_settings *ret_settings,
                                 struct nb_failure *ret_unread);

/*
 * The settings of this machine (`own`) override those from metadata, whose tokens are in `tokens`;
 * the result refers to them. If this machine itself sets discovery.caCertHashes or discovery.file,
 * or has the credential node-bootstrap.cluster-info, metadata must not weaken this:
 * unsafeSkipCAVerification and trustWholeBundle from metadata are ignored.
 */
void nb_settings_settle(struct nb_sources *sources, const struct nb_settings *own,
                        const struct nb_settings *metadata, struct nb_settings_tokens *tokens,
                        struct nb_settings *ret_settings);

/* Whether a value comes from `origin`. */
bool nb_setting_is_from(const struct nb_settings *settings, enum nb_setting setting,
                        const char *origin);
