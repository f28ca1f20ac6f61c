/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What an answer of an API server that is not the object asked for means: one table for all calls. */

#include "base/failure.h"
#include "net/http.h"

/*
 * Sets the failure for a status that the caller does not expect: 401 and 403 as the caller says (RBAC of different objects have different
 * remedies), 429 and 5xx NB_SERVER_ERROR, 400 and 422 `invalid`, the rest NB_ANSWER_MALFORMED. The server's words are quoted when the body is a
 * Status. Redirects, and refusals that are none, come from something on the way or from another service: NB_ANSWER_FOREIGN.
 */
struct nb_answer_codes {
        enum nb_code unauthorized; /* 401 */
        enum nb_code forbidden;    /* 403 */
        enum nb_code invalid;      /* 400, 409, 422 */
        enum nb_code anonymous;    /* 403 as system:anonymous, of a request that showed a credential; NB_NONE: as forbidden */
        bool has_plain_refusals;   /* 401 and 403 come without a Status: from a supervisor of k3s */
};

int nb_answer_failure(const struct nb_http_answer *answer, const char *what, const struct nb_answer_codes *codes,
                      struct nb_failure *f);

/* The body; "" for none. */
static inline const char *nb_answer_text(const struct nb_http_answer *answer) {
        return answer->body.data ? answer->body.data : "";
}
