/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The ConfigMap kube-public/cluster-info, as the API server returns it. */

#include <stdbool.h>
#include <stddef.h>

#include "base/failure.h"
#include "kube_objects/kubeconfig.h"

#define NB_CLUSTER_INFO_MAX (1024 * 1024)     /* real ones have some KiB */
#define NB_SIGNATURE_PREFIX "jws-kubeconfig-" /* and the ID of a token: key in the ConfigMap */

struct nb_cluster_info {
        char *kubeconfig;      /* the exact bytes that are signed */
        char *signature;       /* by our token, or NULL */
        unsigned n_signatures; /* by any token */
};

/* NB_ANSWER_MALFORMED if it is not a ConfigMap with data.kubeconfig. */
int nb_cluster_info_parse(const char *text, size_t len, const char *token_id,
                          struct nb_cluster_info *ret_info, struct nb_failure *f);

/* Reads the cluster of its kubeconfig; NB_CLUSTER_INFO_UNACCEPTABLE, also if it has no CA. */
int nb_cluster_info_parse_cluster(const char *kubeconfig, struct nb_cluster *ret_cluster,
                                  struct nb_failure *f);

/* Whether the signed parts are the same bytes. */
bool nb_cluster_info_is_equal(const struct nb_cluster_info *a, const struct nb_cluster_info *b);

void nb_cluster_info_done(struct nb_cluster_info *info);
