/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the network side needs and only root may read, left for it in the runtime directory by
 * `install --inspect`: copies of the configuration files, and of the files that the settings name.
 * Root decides what is copied, by its settings alone.
 *
 *      config.yaml, the files of config.yaml.d
 *      discovery.file, a path; certificate-authority in it, or in the credential
 * node-bootstrap.cluster-info discovery.urlCAFile bootstrap.kubeconfig; certificate-authority,
 * tokenFile, client-certificate and client-key in it, or in the credential
 *      node-bootstrap.kubeconfig
 *      what is in NB_PLATFORM_DIRECTORY, where metadata is wanted
 *      the node password of k3s, which is made where there is none, unless `is_joined`: this
 * machine is in use already kubelet's client certificate with its key, the CA file, and kubelet's
 * kubeconfig with the files in it, if `is_client_needed`
 *
 * Each copy is a file of root with mode 0600 and one more entry in its access control list: the
 * owner of the folder may read it. `join` reads them once and removes them; the folder goes with
 * the service.
 */

#include <stdbool.h>

#include "base/failure.h"
#include "install/context.h"

/*
 * NB_COPY_UNWRITABLE when a copy of what only root may read cannot be made; NB_TARGET_UNWRITABLE
 * when the node password cannot be; NB_NODE_PASSWORD_MISSING when what is in its place is none.
 * What is not there, or not of the expected form, is passed over: `join` says so better.
 */
int nb_give(const struct nb_context *context, bool is_joined, bool is_client_needed,
            struct nb_failure *f);

/* For a refresh, which has a runtime directory of its own: the configuration files, kubelet's
 * kubeconfig, which refers to its key and does not hold it, and the CA file. NB_COPY_UNWRITABLE. */
int nb_give_for_refresh(const struct nb_context *context, struct nb_failure *f);
