/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads the files that the network side needs and only root may read, and keeps their contents in
 * the memory of `context->sources`, which nb_sources_pass() passes on. Only root's settings choose
 * these files. nb_context_load() has read the configuration files, the credentials, and the files
 * that they name; nb_give() adds:
 *
 *      the files in NB_PLATFORM_DIRECTORY, and discovery.urlCAFile, if metadata is wanted
 *      the node password of k3s, which is created if it does not exist
 *      kubelet's client certificate with its key, the CA file, and kubelet's kubeconfig with the
 *      files in it, if `is_client_needed`
 */

#include <stdbool.h>

#include "base/failure.h"
#include "node/context.h"

/*
 * NB_TARGET_UNWRITABLE if the node password cannot be created; NB_NODE_PASSWORD_MISSING if the
 * existing file contains none. Skips files that do not exist or have an unexpected form, because
 * `join` reports them better.
 */
int nb_give(const struct nb_context *context, bool is_client_needed, struct nb_failure *f);

/* What `refresh` does, each of which needs more than the one before. */
enum nb_refresh {
        NB_REFRESH_CLUSTER, /* looks for a new CA or server */
        NB_REFRESH_CONFIG,  /* reads kubelet's configuration: client certificate with its key */
        NB_REFRESH_RENEWAL, /* also the record of the join, and the node password of k3s */
};

/* Keeps only what a refresh needs: some settings of the context (files/refresh_settings.h),
 * kubelet's kubeconfig, which refers to its key and does not contain it, the CA file, and the
 * above. */
int nb_give_for_refresh(const struct nb_context *context, enum nb_refresh refresh,
                        struct nb_failure *f);
