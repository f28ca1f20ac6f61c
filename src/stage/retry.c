/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/clock.h"
#include "net/http.h"
#include "stage/retry.h"

static uint64_t end_of_patience(struct nb_retry *retry, enum nb_class class, uint64_t now_ms, uint64_t deadline_ms) {
        if (class != NB_CLASS_CONFIRM) {
                retry->confirm_until_ms = 0;
                return deadline_ms;
        }
        if (retry->confirm_until_ms == 0)
                retry->confirm_until_ms = now_ms + NB_RETRY_CONFIRM_MS;
        return retry->confirm_until_ms < deadline_ms ? retry->confirm_until_ms : deadline_ms;
}

enum nb_retry_verdict nb_retry_next(struct nb_retry *retry, const struct nb_failure *f, uint64_t now_ms,
                                    uint64_t deadline_ms, uint32_t random, uint64_t *ret_due_ms, bool *ret_is_new) {
        enum nb_class class = nb_failure_info(f->code)->class;
        uint64_t end, delay;

        if (now_ms > retry->due_ms + NB_RETRY_QUIET_MS) {
                retry->confirm_until_ms = 0;
                memset(retry->is_known, 0, sizeof(retry->is_known));
        }
        *ret_is_new = !retry->is_known[f->code];
        retry->is_known[f->code] = true;
        end = end_of_patience(retry, class, now_ms, deadline_ms);
        if (class == NB_CLASS_FATAL || class == NB_CLASS_EVENT || now_ms >= end)
                return NB_RETRY_OVER;
        delay = nb_backoff_ms(retry->attempts++, NB_RETRY_FIRST_MS, NB_RETRY_CAP_MS, random);
        if (delay < f->retry_after_ms)
                delay = f->retry_after_ms;
        retry->due_ms = end - now_ms < delay ? end : now_ms + delay;
        *ret_due_ms = retry->due_ms;
        return NB_RETRY_AGAIN;
}

void nb_retry_last_word(const struct nb_failure *before, struct nb_failure *f) {
        if (before->code != NB_NONE && f->code == NB_ENDPOINT_UNREACHABLE && f->errnum == NB_HTTP_CUT_SHORT)
                *f = *before;
}
