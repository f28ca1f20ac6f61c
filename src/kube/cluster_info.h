/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * GET /api/v1/namespaces/kube-public/configmaps/cluster-info, never with a credential.
 *
 * The unverified form starts a transfer, so that all endpoints are asked together. What it returns proves nothing until its signature and
 * its CA were checked, which is not done here.
 */

#include "base/failure.h"
#include "format/cluster_info.h"
#include "format/url.h"
#include "kube/api.h"
#include "net/http.h"

int nb_cluster_info_start(struct nb_http *unverified, const struct nb_url *endpoint, struct nb_http_transfer **ret_transfer,
                          struct nb_failure *f);

/* `name` of the endpoint, for messages. 0, or a failure for a status or a body that is not cluster-info. */
int nb_cluster_info_read(const struct nb_http_answer *answer, const char *name, const char *token_id,
                         struct nb_cluster_info *ret_info, struct nb_failure *f);

/* Fetches it from `endpoint` over TLS that the proven CA verifies. */
int nb_cluster_info_fetch_verified(struct nb_api *api, const char *token_id, uint64_t until_ms, struct nb_cluster_info *ret_info,
                                   struct nb_failure *f);
