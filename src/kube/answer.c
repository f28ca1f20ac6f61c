/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/log.h"
#include "format/csr.h"
#include "kube/answer.h"

static enum nb_code code_of(long status, const struct nb_answer_codes *codes) {
        if (status == 401)
                return codes->unauthorized;
        if (status == 403)
                return codes->forbidden;
        if (status == 429 || status >= 500)
                return NB_SERVER_ERROR;
        if (status == 400 || status == 409 || status == 422)
                return codes->invalid;
        return NB_ANSWER_MALFORMED;
}

/* Who shows a credential and is taken for anonymous has shown it to nobody: it was lost on the way, or is of a kind that the server does not read. */
static enum nb_code take_user(const struct nb_status *status, const struct nb_answer_codes *codes, enum nb_code code) {
        char user[sizeof(status->message)];

        nb_status_user(status, user, sizeof(user));
        if (codes->anonymous == NB_NONE || !user[0])
                return code;
        nb_log_field(NB_FIELD_USER, "%s", user);
        return strcmp(user, "system:anonymous") == 0 ? codes->anonymous : code;
}

/* A load balancer has 5xx of its own, which pass. */
static bool is_foreign(long status, const struct nb_answer_codes *codes) {
        if (status == 401 || status == 403)
                return !codes->has_plain_refusals;
        return status >= 400 && status < 500 && status != 429;
}

int nb_answer_failure(const struct nb_http_answer *answer, const char *what, const struct nb_answer_codes *codes,
                      struct nb_failure *f) {
        struct nb_status status = { 0 };
        enum nb_code code = code_of(answer->status, codes);

        if (f->code == NB_NONE)
                f->retry_after_ms = answer->retry_after_ms;
        (void)nb_status_parse(nb_answer_text(answer), answer->body.len, &status);
        if (answer->status >= 300 && answer->status < 400)
                return nb_failure_set_http(f, NB_ANSWER_FOREIGN, answer->status, "%s: the answer is a redirect (%ld) to '%s'; redirects are not followed",
                                           what, answer->status, answer->location);
        if (status.code == 0 && is_foreign(answer->status, codes))
                code = NB_ANSWER_FOREIGN;
        if (status.code == 0)
                return nb_failure_set_http(f, code, answer->status,
                                           "%s: the answer has the status %ld and is not of an API server (no Status object): something on the way may have sent it",
                                           what, answer->status);
        if (answer->status == 403)
                code = take_user(&status, codes, code);
        if (code == codes->anonymous && answer->status == 403)
                return nb_failure_set_http(f, code, answer->status, "%s: the API server did not take the credential, and answered as to anybody: %ld %s: '%s'",
                                           what, answer->status, status.reason, status.message);
        return nb_failure_set_http(f, code, answer->status, "%s: %ld %s: '%s'", what, answer->status, status.reason,
                                   status.message);
}
