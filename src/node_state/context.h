/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What decides which node of which cluster this machine is. All of it comes from settings,
 * credentials, the machine, and if it has no identity of its own, from metadata: see
 * nb_context_settle(). It is loaded once, when install starts.
 */

#include <limits.h>
#include <stdbool.h>
#include <time.h>

#include "base/failure.h"
#include "base/secret.h"
#include "join_method/cluster_identity.h"
#include "join_method/method.h"
#include "kube_objects/node_name.h"
#include "os/sources.h"
#include "settings/kubelet_env.h"
#include "settings/settings.h"
#include "state_files/found_metadata.h"
#include "state_files/record.h"

struct nb_context {
        int root_fd; /* of --root, borrowed; -1 without */
        time_t now;
        struct nb_sources *sources;  /* borrowed */
        struct nb_settings settings; /* nb_node_inspect() replaces the paths of kubelet's files */
        bool is_recalled; /* the settings are only those that the record keeps for a refresh */
        struct nb_kubelet_paths wanted_paths; /* those in the settings */
        char host_name[HOST_NAME_MAX + 1];
        /* under which this machine has joined; "" for none */
        char fixed_name[NB_NODE_NAME_MAX + 1];
        char node_name[NB_NODE_NAME_MAX + 1]; /* nb_context_choose_name() */
        bool is_override_needed; /* kubelet needs --hostname-override to use node_name */
        bool is_name_lowered;    /* settings or host name have it with upper-case letters */

        struct nb_settings_tokens tokens; /* those in the settings, for `join` */
        struct nb_bootstrap bootstrap;
        struct nb_failure bootstrap_failure; /* why it could not be loaded; matters only if this
                                                machine has to join */
        struct nb_failure unread;            /* of nb_context_find_join() */
        struct nb_cluster_identity identity;
        bool is_metadata_wanted;       /* nb_bootstrap_wants_metadata() without any metadata */
        enum nb_provider metadata;     /* whose metadata supplied something; NB_PROVIDER_NONE */
        bool is_discard_from_metadata; /* metadata supplied token.discard */
};

/*
 * Sets everything but the node name. Release `context` with nb_context_done() even after a failure.
 * NB_SETTINGS_*. Endpoints, token and discovery file may be missing: a machine that has joined
 * needs none.
 */
int nb_context_load(struct nb_context *context, int root_fd, struct nb_sources *sources,
                    struct nb_failure *f);

/*
 * Sets the node name: that of the settings; otherwise `fixed`, the name under which this machine
 * has joined, or ""; otherwise the host name. It stays "" if nobody has set the host name yet.
 * NB_NODE_NAME_INVALID.
 */
int nb_context_choose_name(struct nb_context *context, const char *fixed, struct nb_failure *f);

/*
 * For `reset`, which needs only the paths of the last join: those in node-bootstrap.env, or those
 * in the settings. Reads the record. 1; 0 if there is none; NB_INSTALLED_*; NB_RESET_UNFINISHED if
 * there is none, but nb_context_verify_join() fails.
 */
int nb_context_find_join(struct nb_context *context, int root_fd, struct nb_sources *sources,
                         struct nb_record *ret_record, struct nb_failure *f);

/* Whether the paths are all that nb_context_find_join() had to read. NB_RESET_UNFINISHED. */
int nb_context_verify_join(const struct nb_context *context, struct nb_failure *f);

/*
 * Settles the settings: sets `settled` to `own`, the context of this machine, with what a child has
 * found in metadata below all settings of this machine, and limited to what metadata may set. Takes
 * the tokens from `found`. Fails if no join can begin with this: NB_SETTINGS_*, the failures of
 * nb_bootstrap_load() and nb_bootstrap_verify(). Release `settled` with nb_context_done() in any
 * case.
 */
int nb_context_settle(const struct nb_context *own, struct nb_found *found,
                      struct nb_context *settled, struct nb_failure *f);

/* Wipes the tokens and the keys, which only `join` needs. */
void nb_context_forget_secrets(struct nb_context *context);

/* The record of the last join. 1; 0 if there is none that can be read; -ENOMEM. */
int nb_context_read_record(const struct nb_context *context, struct nb_record *ret_record);

/* Fails with the bootstrap_failure, if any. */
int nb_context_verify_bootstrap(const struct nb_context *context, struct nb_failure *f);
void nb_context_done(struct nb_context *context);

/* Whether the settings take kubelet's configuration from the cluster, and it is missing here. An
 * existing file, which is the administrator's, is never replaced. */
bool nb_config_is_wanted(const struct nb_context *context);
bool nb_config_exists(int root_fd);
