/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whether the cluster that this node belongs to has another CA bundle or another server by now. cluster-info is fetched over TLS
 * verified by exactly the CAs that the node has, and never with a credential. What is new counts only when it goes on from
 * what is trusted now (nb_ca_renew()), and when the new server shows the same cluster-info over TLS verified by the new CAs.
 *
 * Nothing on disk. Retries are few and far between: there is a timer that comes again.
 */

#include <stdint.h>

#include "base/failure.h"
#include "format/kubeconfig.h"

#define NB_REFRESH_TIMEOUT_MS (5 * 60 * 1000)

/*
 * `present` is what the node has; its `ca` must be there. 1: *ret_newer takes its place; 0: nothing is new. -ECANCELED;
 * NB_REFRESH_NOT_SHOWN (401, 403, 404), NB_REFRESH_INAPPLICABLE, NB_REFRESH_UNFINISHED, NB_REFRESH_UNPROVEN, NB_TLS_UNTRUSTED,
 * NB_ANSWER_MALFORMED, NB_CLUSTER_INFO_UNACCEPTABLE.
 */
int nb_refresh_run(const struct nb_cluster *present, uint64_t deadline_ms, struct nb_cluster *ret_newer, struct nb_failure *f);
