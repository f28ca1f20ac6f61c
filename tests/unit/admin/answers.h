/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Answers that have already arrived, so that no server is needed. A call without an answer here
 * fails the test, since there is no connection. */

#include <string.h>

#include "admin/client/exchange_internal.h"

#include "case.h"

static inline void answer(struct nb_exchange *exchange, const char *method, const char *path,
                          long status, const char *body) {
        struct nb_failure f = { 0 };
        struct nb_exchange_call *call = nb_exchange_find(exchange, method, path, &f);

        assert_non_null(call);
        call->is_answered = call->is_new = true;
        call->answer.status = status;
        call->answer.body = (struct nb_buffer)NB_BUFFER_INIT(strlen(body) + 1);
        nb_buffer_append_string(&call->answer.body, body);
        nb_exchange_rewind(exchange);
}
