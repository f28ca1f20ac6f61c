/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whether the identity may have its request for a node's certificate approved by itself, asked of the API server. Begun and finished apart, so that
 * the watch on the request goes on meanwhile.
 */

#include "base/failure.h"
#include "kube/api.h"

int nb_nodeclient_review_start(struct nb_api *api, struct nb_http_transfer **ret_transfer, struct nb_failure *f);

/* Of a transfer that is over: 1 when it may, 0 when not. -EACCES, and nothing set: it may not ask (401, 403), or the server does not know the
 * question (404). */
int nb_nodeclient_review_finish(const struct nb_api *api, struct nb_http_transfer *transfer, struct nb_failure *f);
