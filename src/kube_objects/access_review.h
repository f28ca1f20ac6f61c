/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* SelfSubjectAccessReview (authorization.k8s.io/v1): asks what the sender may do. It grants
 * nothing, and every authenticated user may submit it by default. */

#include <stdbool.h>
#include <stddef.h>

#include "base/failure.h"

#define NB_ACCESS_REVIEW_MAX (64 * 1024)

enum nb_right {
        NB_RIGHT_CREATE_CSR,
        NB_RIGHT_NODECLIENT, /* kube-controller-manager approves the CSR of a user with this right
                              */
};

extern const char *const nb_access_review_body[]; /* the object to create, by right */

/* NB_ANSWER_MALFORMED also if the answer is "no" because the server could not evaluate the right.
 */
int nb_access_review_parse(const char *text, size_t len, bool *ret_is_allowed,
                           struct nb_failure *f);
