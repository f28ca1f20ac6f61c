/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the installer goes by. All of it comes from the settings and the machine, nothing from `join`; but for what a join is
 * checked and written by where there is metadata: see nb_context_load_joined().
 */

#include <limits.h>
#include <stdbool.h>
#include <time.h>

#include "base/failure.h"
#include "bootstrap/bootstrap.h"
#include "format/node_name.h"
#include "format/settings.h"
#include "install/anchors.h"
#include "install/state.h"

/* kubelet's default --root-dir; both environment files are at home there, wherever the rest is. */
#define NB_KUBELET_DIRECTORY "/var/lib/kubelet"

struct nb_context {
        int root_fd; /* of --root; -1 without */
        struct nb_settings settings;
        char node_name[NB_NODE_NAME_MAX + 1];
        bool is_override_needed; /* kubelet would take another name by itself */
        bool is_name_lowered;    /* it stands in capitals in the settings, or as the host name */
        char host_name[HOST_NAME_MAX + 1];
        time_t now;

        const char *config_directory; /* borrowed */
        struct nb_bootstrap bootstrap;
        struct nb_failure bootstrap_failure; /* why there is none, for those who need it; a machine that has joined does not */
        struct nb_anchors anchors;
        bool is_metadata_wanted;       /* nb_bootstrap_wants_metadata(), by this view alone */
        bool is_hash_from_metadata;    /* of nb_accept(): so is the hash of a k3s token */
        bool is_node_from_metadata;    /* of nb_context_load_joined(): the node name is by the word of `join` */
        bool is_discard_from_metadata; /* of nb_context_load_joined(): so is token.discard */
};

/* With nb_context_recall(). `root` may be NULL. NB_USAGE, NB_SETTINGS_*, NB_NODE_NAME_INVALID. Whether there is enough to join with is left to where
 * a join is wanted: a machine that has joined goes on without endpoints, token and discovery file. */
int nb_context_load(struct nb_context *ret_context, const char *root, const char *config_directory,
                    struct nb_failure *f);

/*
 * The node name, once more: by the settings on this machine; where they have none, by the record of a join that had it from metadata, which is asked
 * once, so that it holds whatever the host is called; or the host's. NB_NODE_NAME_INVALID.
 */
int nb_context_recall(struct nb_context *context, struct nb_failure *f);

/*
 * What the join that is in the state directory is checked and written by. That is `context` once more, but the node name of the record does not
 * count; and where `context` wants metadata, NB_METADATA_FILE does, beneath all that is set on this machine and with the keys alone that metadata may
 * set. NB_HANDOFF_MALFORMED and NB_HANDOFF_UNTRUSTED for that file, and as above.
 */
int nb_context_load_joined(const struct nb_context *context, const struct nb_state *state, struct nb_context *ret_joined, struct nb_failure *f);

/* The record of the last join: 1; 0 where there is none that can be read; -ENOMEM. */
int nb_context_read_record(const struct nb_context *context, struct nb_record *ret_record);

/* What nb_bootstrap_load() said. */
int nb_context_verify_bootstrap(const struct nb_context *context, struct nb_failure *f);
void nb_context_done(struct nb_context *context);
