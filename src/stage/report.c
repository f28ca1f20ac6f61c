/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "stage/internal.h"

/* NTP keeps clocks within seconds; certificates are dated back by minutes. */
#define CLOCK_SKEW_MAX_SEC 60

#define SINCE_SIZE 32

static void since_text(time_t *since, char ret[static SINCE_SIZE]) {
        struct tm utc;

        if (*since == 0)
                *since = time(NULL);
        if (!gmtime_r(since, &utc) || strftime(ret, SINCE_SIZE, "%Y-%m-%d %H:%M:%S", &utc) == 0)
                ret[0] = '\0';
}

void nb_report_wait(time_t *waiting_since, const struct nb_failure *f, bool is_new) {
        char since[SINCE_SIZE];

        since_text(waiting_since, since);
        nb_log_status("Waiting since %s UTC: %s", since, f->detail);
        if (is_new)
                nb_log_failure(LOG_WARNING, f);
}

void nb_join_report_wait(struct nb_join *join, const struct nb_failure *f, bool is_new) {
        nb_report_wait(&join->waiting_since, f, is_new);
}

void nb_join_report_approval(struct nb_join *join, const struct nb_failure *f, bool is_new) {
        char since[SINCE_SIZE], why[NB_PENDING_TEXT_SIZE];

        since_text(&join->waiting_since, since);
        nb_pending_explain(&join->csr, join->node_name, join->pending.reason, why);
        if (join->csr.state == NB_CSR_STATE_PENDING)
                nb_log_status("Waiting since %s UTC for approval: kubectl certificate approve %s%s%s%s", since, join->csr_name, why[0] ? " (" : "", why,
                              why[0] ? ")" : "");
        else
                nb_log_status("Waiting since %s UTC: %s", since, f->detail);
        if (is_new)
                nb_log_failure(LOG_WARNING, f);
}

void nb_join_report_done(struct nb_join *join) {
        join->waiting_since = 0;
}

int64_t nb_join_clock_skew_sec(const struct nb_join *join) {
        if (join->server_date_ms == 0)
                return 0;
        return (int64_t)join->server_date + (int64_t)((nb_now_ms() - join->server_date_ms) / 1000) - (int64_t)time(NULL);
}

int nb_join_blame_clock(const struct nb_join *join, int r, struct nb_failure *f) {
        int64_t skew = nb_join_clock_skew_sec(join);
        char duration[NB_DURATION_SIZE], detail[NB_FAILURE_DETAIL_MAX];

        if (r >= 0 || (!nb_http_is_untrusted(f->code) && f->code != NB_CERTIFICATE_UNUSABLE))
                return r;
        if (skew < CLOCK_SKEW_MAX_SEC && skew > -CLOCK_SKEW_MAX_SEC)
                return r;
        nb_duration_format((uint64_t)(skew < 0 ? -skew : skew) * 1000, duration);
        (void)snprintf(detail, sizeof(detail), "%s", f->detail);
        nb_failure_clear(f);
        return nb_failure_set(f, NB_CLOCK_WRONG, ETIME, "this machine's clock is %s %s the API server's, so that a certificate does not look valid (%s)",
                              duration, skew > 0 ? "behind" : "ahead of", detail);
}
