/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Reads cluster-info and Nodes. */

#include <stdint.h>

#include "api/api.h"
#include "base/failure.h"
#include "codec/url.h"
#include "kube/cluster_info.h"
#include "kube/node_object.h"
#include "net/http.h"

/*
 * cluster-info is requested without a credential, and from all endpoints at once. An unverified
 * copy proves nothing until its signature and CA have been verified, which is not done here.
 */
int nb_cluster_info_start(struct nb_http *http, const struct nb_url *endpoint,
                          struct nb_http_transfer **ret_transfer, struct nb_failure *f);

/* `name` of the endpoint, for messages. */
int nb_cluster_info_read(const struct nb_http_answer *answer, const char *name,
                         const char *token_id, struct nb_cluster_info *ret_info,
                         struct nb_failure *f);

int nb_cluster_info_fetch_verified(struct nb_api *api, const char *token_id, uint64_t until_ms,
                                   struct nb_cluster_info *ret_info, struct nb_failure *f);

/*
 * 1: read; 0: there is no such Node. -EACCES with nothing set: this identity may not read it (403),
 * or is not valid (401); *ret_status tells which.
 */
int nb_node_read(struct nb_api *api, const char *name, uint64_t until_ms,
                 struct nb_node_object *ret_node, long *ret_status, struct nb_failure *f);
