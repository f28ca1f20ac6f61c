/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What this machine has to join with, and where each value came from. `join` and `check` load it in the same steps:
 *
 *      nb_load_local()       settings and bootstrap, by the documents and credentials on this machine alone
 *      nb_load_recognise()   where these want metadata: which cloud this is; not a packet for that
 *      nb_load_metadata()    where there is one: reads it, and takes everything together once more, metadata weakest
 *
 * Files are read through nb_sources_read(): the installer's copies count while nb_sources_use_given() says so, from the first step to the last.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/failure.h"
#include "bootstrap/bootstrap.h"
#include "cloud/cloud.h"
#include "cloud/recognise.h"
#include "format/settings.h"

struct nb_load {
        const char *config_directory; /* borrowed; NULL: no document of this machine */
        struct nb_settings settings;  /* origin[]: where each value came from; its `tokens` are those below, and NULL once there is a bootstrap */
        struct nb_settings_tokens tokens;
        struct nb_bootstrap bootstrap; /* its sources say where the token came from */
        struct nb_failure why;         /* why there is no bootstrap: then it is empty; NB_NONE */

        bool is_metadata_wanted;           /* nb_bootstrap_wants_metadata() */
        struct nb_machine machine;         /* nb_load_recognise() */
        struct nb_recognition recognition; /* what this machine looks like, whatever the settings say */
        enum nb_provider provider;         /* whose metadata is read: that of the settings, or the one recognised; NB_PROVIDER_NONE: nobody's */

        bool is_metadata_read;            /* nb_load_metadata() */
        struct nb_metadata metadata;      /* what was found; its texts and tokens are gone, its sources and `what` are there */
        bool has_metadata;                /* something of it is for this program */
        struct nb_settings from_metadata; /* the settings that came from there, by themselves, node name and provider ID among them */
};

#define NB_LOAD_INIT \
        { .tokens = NB_SETTINGS_TOKENS_INIT, .metadata = NB_METADATA_INIT }

/* `load` must stay where it is. NB_SETTINGS_*, NB_TOKEN_*; what nb_bootstrap_load() says is in `load->why`, and no failure. */
int nb_load_local(struct nb_load *load, const char *config_directory, struct nb_failure *f);

/* Nothing to do where no metadata is wanted. NB_METADATA_MALFORMED. */
int nb_load_recognise(struct nb_load *load, struct nb_failure *f);

/*
 * Nothing to do where there is no provider. Tries again until `deadline_ms` (nb_now_ms(), or NB_TIME_INFINITE; stage/metadata.h). Failures of
 * nb_cloud_read(), of the documents, and of nb_bootstrap_load(); -ECANCELED.
 */
int nb_load_metadata(struct nb_load *load, uint64_t deadline_ms, struct nb_failure *f);

/*
 * For who asks before a machine is made with it: what one with these documents (NULL: none) would make of `data` as user data, in the place of
 * all three steps. No cloud is asked, so that what metadata.nodeName and metadata.providerID ask for stays open. `source` names the data.
 * Failures as of nb_load_local(), of nb_bootstrap_load() and of the documents.
 */
int nb_load_user_data(struct nb_load *load, const char *config_directory, const char *source, const struct nb_secret *data, struct nb_failure *f);

/* What was recognised, or not, and what was found there, for whoever misses a token: "no cloud was recognised". "" where no metadata is wanted. */
void nb_load_describe(const struct nb_load *load, char *ret, size_t size);

/*
 * Whether a join could begin with all of it: nb_settings_verify(), nb_bootstrap_verify(), with what was looked at in vain and the place of this
 * cloud for a token, and that what metadata says is not said too late.
 */
int nb_load_verify(const struct nb_load *load, struct nb_failure *f);

void nb_load_done(struct nb_load *load);

/* All documents merged; not yet nb_settings_verify()d. `tokens` takes those that stand in documents; NULL drops them. */
int nb_load_settings(const char *config_directory, struct nb_settings_tokens *tokens, struct nb_settings *ret_settings, struct nb_failure *f);

/* The name of the settings, or the host's. NB_NODE_NAME_INVALID. */
int nb_load_node_name(const struct nb_settings *settings, char ret_name[static NB_NODE_NAME_MAX + 1], struct nb_failure *f);
