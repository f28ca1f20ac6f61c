/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads the files that the network side needs and only root may read, and keeps their contents in
 * memory, for nb_sources_pass(). Only root's settings choose these files.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/failure.h"
#include "install/state_directory.h"
#include "node_state/context.h"
#include "node_state/present.h"

/* What the steps of install share. */
struct nb_install {
        bool is_child_run;          /* otherwise no program is run */
        struct nb_context own;      /* nb_context_load() */
        struct nb_context settled;  /* nb_context_settle(), once metadata was read */
        struct nb_context *context; /* of the join: one of them */
        struct nb_state state;      /* the caller opens it before each step, and releases it and */
        struct nb_node node;        /* this one afterwards; the inspection stays */
        bool is_installed;          /* by this process */
        bool is_stopped;            /* no other child is to run */
        /* Of the join that follows, unless metadata has another one. "": nobody has set the host
         * name yet. */
        char name[NB_NODE_NAME_MAX + 1];
        uint64_t timeout_ms; /* of the child that follows, from started_ms; NB_TIME_INFINITE */
        uint64_t started_ms, metadata_usec; /* as in struct nb_plan */
        unsigned n_connections;             /* of this join to the prover */
        uint64_t connection_due_ms;         /* nb_now_ms(): no further connection before this
                                               time */
};

/*
 * For `join`, with the settled settings. install->context->sources already has the credentials, and
 * the files that the settings name; this function adds the plan (join_method/plan.h), and:
 *
 *      the node password of k3s, which is created if it does not exist
 *      with a supervisor of k3s that may accept kubelet's client certificate: this one with its
 *      key, the CA file, and kubelet's kubeconfig with the files in it
 *
 * NB_TARGET_UNWRITABLE if the node password cannot be created; NB_NODE_PASSWORD_MISSING if the
 * existing file contains none. Skips files that do not exist or have an unexpected form, because
 * `join` reports them better.
 */
int nb_give(const struct nb_install *install, struct nb_failure *f);

/* For `join --metadata`: a plan that only has the settings about metadata, and the files in
 * NB_PLATFORM_DIRECTORY. No token, and no credential. */
int nb_give_for_metadata(const struct nb_install *install, struct nb_sources *ret_sources,
                         struct nb_failure *f);

/* What `refresh` does, each of which needs more than the one before. */
enum nb_refresh {
        NB_REFRESH_SERVER,  /* k3s: looks for another server in discovery.endpoints */
        NB_REFRESH_CLUSTER, /* looks for a new CA or server */
        NB_REFRESH_CONFIG,  /* reads kubelet's configuration: client certificate with its key */
        NB_REFRESH_RENEWAL, /* also the record of the join, and the node password of k3s */
};

/* Keeps only what a refresh needs: a plan with the settings of the context and at most this
 * timeout, kubelet's kubeconfig, which refers to its key and does not contain it, the CA file, and
 * the above. */
int nb_give_for_refresh(const struct nb_context *context, enum nb_refresh refresh,
                        uint64_t timeout_ms, struct nb_failure *f);
