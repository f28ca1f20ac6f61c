/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* POST of a SelfSubjectAccessReview (authorization.k8s.io/v1), which creates nothing: what the identity may. */

#include <stdint.h>

#include "base/failure.h"
#include "kube/api.h"

/*
 * Whether it may create certificate signing requests: 1 or 0. -EACCES, and nothing set: the API server knows the identity, but does not let it ask
 * (403), or does not know the question (404). NB_TOKEN_REJECTED (401), NB_SERVER_ERROR, NB_ANSWER_*, as of nb_http_perform().
 */
int nb_csr_right_read(struct nb_api *api, uint64_t until_ms, struct nb_failure *f);
