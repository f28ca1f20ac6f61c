/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds out whether this node's cluster has a new CA bundle or server. cluster-info is fetched over
 * TLS that exactly the node's CAs verify, without a credential. A change is accepted only if the
 * new bundle shares a CA with the current one (nb_ca_renew()), and if the new server presents the
 * same cluster-info over TLS that the new CAs verify.
 *
 * Writes nothing to disk. There are few retries, since a timer repeats the refresh.
 */

#include <stdint.h>

#include "base/failure.h"
#include "kube/kubeconfig.h"

#define NB_REFRESH_TIMEOUT_MS (5 * 60 * 1000)

/*
 * `present` is the node's current cluster with its CAs. 1: *ret_newer replaces it; 0: no change.
 * -ECANCELED; NB_REFRESH_NOT_SHOWN (401, 403, 404), NB_REFRESH_INAPPLICABLE, NB_REFRESH_UNFINISHED,
 * NB_REFRESH_UNPROVEN, NB_TLS_UNTRUSTED, NB_ANSWER_MALFORMED, NB_CLUSTER_INFO_UNACCEPTABLE.
 */
int nb_refresh_run(const struct nb_cluster *present, uint64_t deadline_ms,
                   struct nb_cluster *ret_newer, struct nb_failure *f);
