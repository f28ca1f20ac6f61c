/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The ConfigMap kube-public/cluster-info, as the API server returns it. */

#include <stddef.h>

#include "base/failure.h"

#define NB_CLUSTER_INFO_MAX (1024 * 1024) /* etcd's limit for an object is 1.5 MiB; real ones are some KiB */

struct nb_cluster_info {
        char *kubeconfig; /* the exact bytes that are signed */
        size_t kubeconfig_len;
        char *signature;       /* of our token's ID; NULL when there is none */
        unsigned n_signatures; /* of any token */
};

/* NB_ANSWER_MALFORMED when it is no ConfigMap or has no data.kubeconfig. */
int nb_cluster_info_parse(const char *json, size_t len, const char *token_id, struct nb_cluster_info *ret_info,
                          struct nb_failure *f);

void nb_cluster_info_done(struct nb_cluster_info *info);
