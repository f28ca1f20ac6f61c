/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What this machine can join with, and where each value came from. Loaded in steps:
 *
 *      nb_load_settings(),   settings and bootstrap: from what is on this machine, or for `join`
 *      nb_load_bootstrap()   as install has settled them (join_method/plan.h)
 *      nb_load_recognise()   which cloud this is; sends no packet
 *      nb_load_metadata()    if there is a cloud: its metadata
 *
 * `join` needs the bootstrap. `join --metadata` takes the last two steps: it gets only the settings
 * about metadata, and merges none; install decides whether a join can begin with what it has found.
 * `check` takes all steps, and settles the settings as install does.
 *
 * Files are read through `sources`, from the first step to the last.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/failure.h"
#include "crypto/certificate.h"
#include "join_method/method.h"
#include "metadata/cloud.h"
#include "os/sources.h"
#include "settings/settings.h"

struct nb_load {
        struct nb_sources *sources; /* borrowed */

        struct nb_settings settings; /* its `tokens` are those below, and NULL once there is a
                                        bootstrap */
        struct nb_settings_tokens tokens;

        /* nb_load_bootstrap() */
        struct nb_bootstrap bootstrap;
        bool is_metadata_wanted; /* nb_bootstrap_wants_metadata() */

        /* nb_load_recognise() */
        struct nb_machine machine;
        struct nb_recognition recognition; /* independent of the settings */
        enum nb_provider provider; /* whose metadata is read: from the settings, or as recognised;
                                      NB_PROVIDER_NONE for none */

        /* nb_load_metadata() */
        bool is_metadata_read;
        bool has_metadata;                /* something in it is for this program */
        struct nb_metadata found;         /* without its documents and tokens */
        struct nb_settings from_metadata; /* the settings from there alone, with node name and
                                             provider ID */
};

#define NB_LOAD_INIT \
        { .tokens = NB_SETTINGS_TOKENS_INIT, .found = NB_METADATA_INIT }

/* The documents on this machine. `load` must not be moved. Failures of nb_documents_merge(). */
int nb_load_settings(struct nb_load *load, struct nb_sources *sources, struct nb_failure *f);

/* Wipes the tokens of the settings. Failures of nb_bootstrap_load(). */
int nb_load_bootstrap(struct nb_load *load, struct nb_failure *f);

/* Sets `provider` only if metadata is wanted. NB_METADATA_MALFORMED. */
int nb_load_recognise(struct nb_load *load, struct nb_failure *f);

/* Says whether a join can begin with load->tokens and load->from_metadata. 0; -ECANCELED; a
 * failure. */
typedef int (*nb_load_judge)(const struct nb_load *load, struct nb_failure *f);

/*
 * Retries like a stage (join/stages.h), at most until `deadline_ms` (nb_now_ms(), or
 * NB_TIME_INFINITE): until metadata is read and, since an attacker can answer in place of a
 * metadata service, until a join can begin with it. If there is no provider, only asks `judge`.
 * Without `judge`, this is a rehearsal, which uses the first answer, and puts it below the settings
 * of this machine. Failures of nb_cloud_read(), of the documents, and of `judge`, or of
 * nb_bootstrap_load(); -ECANCELED.
 */
int nb_load_metadata(struct nb_load *load, uint64_t deadline_ms, nb_load_judge judge,
                     struct nb_failure *f);

/*
 * Replaces the last two steps: applies `data`, named `source` in messages, as the user data
 * of a machine that does not exist yet. No cloud is queried for metadata.nodeName and
 * metadata.providerID. Failures of nb_bootstrap_load() and of the documents.
 */
int nb_load_user_data(struct nb_load *load, const char *source, const struct nb_secret *data,
                      struct nb_failure *f);

/* Describes the search for a token in metadata that found none: "no cloud was recognised, so no
 * metadata was read". "" if no metadata is wanted. */
void nb_load_describe(const struct nb_load *load, char *ret, size_t size);

/* Logs what the metadata contains, if it was read, but no values. */
void nb_load_report_metadata(const struct nb_load *load);

/* Verifies that a join can begin with settings, bootstrap and metadata: nb_settings_verify() and
 * nb_bootstrap_verify(). */
int nb_load_verify(const struct nb_load *load, struct nb_failure *f);

void nb_load_done(struct nb_load *load);

/* The name in the settings; otherwise `by_default`, unless it is ""; otherwise the host name.
 * NB_HOST_NAME_UNSET, and the failures of nb_settings_verify_name(). */
int nb_load_node_name(const struct nb_settings *settings, const char *by_default,
                      char ret_name[static NB_NODE_NAME_MAX + 1], struct nb_failure *f);
