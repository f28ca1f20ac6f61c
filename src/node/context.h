/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What decides which node of which cluster this machine is. All of it comes from settings,
 * credentials and the machine. `join` may be hostile and supplies nothing except metadata, see
 * nb_context_load_joined().
 */

#include <limits.h>
#include <stdbool.h>
#include <time.h>

#include "base/failure.h"
#include "base/secret.h"
#include "files/record.h"
#include "kube/node_name.h"
#include "method/cluster_identity.h"
#include "method/method.h"
#include "settings/settings.h"
#include "system/sources.h"

struct nb_context {
        int root_fd; /* of --root, borrowed; -1 without */
        time_t now;
        struct nb_sources *sources; /* borrowed */
        struct nb_settings settings;
        char host_name[HOST_NAME_MAX + 1];
        char node_name[NB_NODE_NAME_MAX + 1];
        bool is_override_needed; /* kubelet needs --hostname-override to use node_name */
        bool is_name_lowered;    /* settings or host name have it with upper-case letters */

        struct nb_bootstrap bootstrap;
        struct nb_failure bootstrap_failure; /* why it could not be loaded; matters only if this
                                                machine has to join */
        struct nb_cluster_identity identity;
        bool is_metadata_wanted;       /* nb_bootstrap_wants_metadata() without any metadata */
        bool is_hash_from_metadata;    /* metadata supplied the k3s hash (nb_accept()) */
        bool is_node_from_metadata;    /* metadata supplied node_name (nb_context_load_joined()) */
        bool is_discard_from_metadata; /* metadata supplied token.discard (likewise) */
};

/*
 * Calls nb_context_recall(). Release `context` with nb_context_done() even after a failure.
 * NB_SETTINGS_*, NB_NODE_NAME_INVALID. Endpoints, token and discovery file may be missing: a
 * machine that has joined needs none.
 */
int nb_context_load(struct nb_context *context, int root_fd, struct nb_sources *sources,
                    struct nb_failure *f);

/*
 * For use after nb_context_load() has failed, to find the files of a machine that has joined: sets
 * paths, but no node name and no cluster identity. With `is_by_record` these are the paths that the
 * last join recorded, or the default ones; otherwise those of the settings that are valid.
 */
void nb_context_salvage(struct nb_context *context, int root_fd, struct nb_sources *sources,
                        bool is_by_record);

/*
 * For `reset`, which needs only the paths of the last join: loads `context`, or salvages it if that
 * fails, for the reason in *ret_ignored. Then applies the paths that the last join recorded and
 * reads the record; if there is none, also tries the default paths. 1; 0 if there is no record;
 * NB_INSTALLED_*.
 */
int nb_context_find_join(struct nb_context *context, int root_fd, struct nb_sources *sources,
                         struct nb_record *ret_record, struct nb_failure *ret_ignored,
                         struct nb_failure *f);

/*
 * Sets the node name: from the settings; if they have none, from the record of a join that got it
 * from metadata, which is not asked again; otherwise the host name. NB_NODE_NAME_INVALID.
 */
int nb_context_recall(struct nb_context *context, struct nb_failure *f);

/*
 * Loads into `joined` the context for verifying and installing the handoff of `join`: like
 * `context`, but without the node name from the record, and with the settings in `metadata` (its
 * data may be NULL), below all settings of this machine and limited to what metadata may set.
 * NB_HANDOFF_MALFORMED and NB_HANDOFF_UNTRUSTED for `metadata`, and as nb_context_load().
 */
int nb_context_load_joined(const struct nb_context *context, const struct nb_secret *metadata,
                           struct nb_context *joined, struct nb_failure *f);

/* The record of the last join. 1; 0 if there is none that can be read; -ENOMEM. */
int nb_context_read_record(const struct nb_context *context, struct nb_record *ret_record);

/* Fails with the bootstrap_failure, if any. */
int nb_context_verify_bootstrap(const struct nb_context *context, struct nb_failure *f);
void nb_context_done(struct nb_context *context);

/* Whether the settings take kubelet's configuration from the cluster, and it is missing here. An
 * existing file, which is the administrator's, is never replaced. */
bool nb_config_is_wanted(const struct nb_context *context);
bool nb_config_exists(int root_fd);
