/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/stop.h"
#include "stage/internal.h"

int nb_pause_before_retry(struct nb_retry *retry, time_t *waiting_since, uint64_t deadline_ms, int r, struct nb_failure *f) {
        uint64_t due_ms, now = nb_now_ms();
        bool is_new;

        if (nb_retry_next(retry, f, now, deadline_ms, nb_random(), &due_ms, &is_new) == NB_RETRY_OVER)
                return r;
        nb_log_field(NB_FIELD_ATTEMPT, "%u", retry->attempts);
        nb_report_wait(waiting_since, f, is_new);
        if (due_ms < deadline_ms) {
                nb_failure_clear(f);
                return nb_stop_wait(due_ms > now ? due_ms - now : 0);
        }
        /* Nothing can be asked any more by then, and an attempt without time would hide this failure behind a timeout. */
        if (nb_stop_wait(due_ms > now ? due_ms - now : 0) >= 0)
                return r;
        nb_failure_clear(f);
        return -ECANCELED;
}
