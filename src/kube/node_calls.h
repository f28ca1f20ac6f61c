/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* GET /api/v1/nodes/<name>. */

#include <stdint.h>

#include "base/failure.h"
#include "format/node_object.h"
#include "kube/api.h"

/*
 * 1: read; 0: there is none (404). -EACCES, and nothing set: this identity may not look (403), or does not count (401);
 * *ret_status tells which. NB_SERVER_ERROR, NB_ANSWER_MALFORMED, NB_ENDPOINT_UNREACHABLE, NB_TLS_UNTRUSTED.
 */
int nb_node_read(struct nb_api *api, const char *name, uint64_t until_ms, struct nb_node_object *ret_node, long *ret_status,
                 struct nb_failure *f);
