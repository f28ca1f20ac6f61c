/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Calls that are sent to nobody, since there is no server, and their answers. */

#include <errno.h>
#include <string.h>

#include "admin/client/call_plan.h"

#include "case.h"

static char not_a_transfer;

int __wrap_nb_call_start(struct nb_admin_call *call, struct nb_admin *admin, struct nb_failure *f);
void __wrap_nb_http_cancel(struct nb_http_transfer *transfer);

int __wrap_nb_call_start(struct nb_admin_call *call, struct nb_admin *admin _unused_,
                         struct nb_failure *f _unused_) {
        assert_int_equal(call->body.error, 0);
        call->transfer = (struct nb_http_transfer *)&not_a_transfer;
        return 0;
}

void __wrap_nb_http_cancel(struct nb_http_transfer *transfer _unused_) {
}

/* `status` 0: it fails. */
static inline void answer(struct nb_admin_call *call, const char *method, const char *path,
                          long status, const char *body) {
        assert_non_null(call);
        assert_string_equal(call->method, method);
        assert_string_equal(call->path, path);
        assert_false(call->is_answered);
        call->transfer = NULL;
        call->is_answered = true;
        call->r = status == 0 ? -EIO : 0;
        call->failure.code = status == 0 ? NB_SERVER_ERROR : NB_NONE;
        call->answer.status = status;
        call->answer.body = (struct nb_buffer)NB_BUFFER_INIT(strlen(body) + 1);
        nb_buffer_append_string(&call->answer.body, body);
}
