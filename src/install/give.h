/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the network side needs and only root may read: it is kept in the memory of
 * `context->sources`, which nb_sources_pass() passes on. Root decides by its settings alone what
 * that is. nb_context_load() has read the configuration files, the credentials, and the files that
 * they name; to these, nb_give() adds:
 *
 *      what is in NB_PLATFORM_DIRECTORY, and discovery.urlCAFile, where metadata is wanted
 *      the node password of k3s, which is created if there is none, unless `is_joined`: this
 *      machine is in use already
 *      kubelet's client certificate with its key, the CA file, and kubelet's kubeconfig with the
 *      files in it, if `is_client_needed`
 */

#include <stdbool.h>

#include "base/failure.h"
#include "install/context.h"

/*
 * NB_TARGET_UNWRITABLE if the node password cannot be created; NB_NODE_PASSWORD_MISSING if what is
 * in its place is none. Skips what does not exist or has an unexpected form: `join` explains it
 * better.
 */
int nb_give(const struct nb_context *context, bool is_joined, bool is_client_needed,
            struct nb_failure *f);

/* Keeps only what a refresh needs: the configuration files, kubelet's kubeconfig, which refers to
 * its key and does not contain it, and the CA file. */
int nb_give_for_refresh(const struct nb_context *context, struct nb_failure *f);
