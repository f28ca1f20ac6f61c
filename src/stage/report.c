/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/terminal.h"
#include "stage/internal.h"
#include "stage/wall_clock.h"

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
        nb_log_status(NB_TERMINAL_WAITING "%s UTC: %s", since, f->detail);
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
                nb_log_status(NB_TERMINAL_WAITING "%s UTC for approval: kubectl certificate approve %s%s%s%s", since, join->csr_name, why[0] ? " (" : "", why,
                              why[0] ? ")" : "");
        else
                nb_log_status(NB_TERMINAL_WAITING "%s UTC: %s", since, f->detail);
        if (is_new)
                nb_log_failure(LOG_WARNING, f);
}

void nb_join_report_done(struct nb_join *join) {
        join->waiting_since = 0;
}

void nb_report_given_up(uint64_t patience_ms, const char *limit, struct nb_failure *f) {
        char duration[NB_DURATION_SIZE];

        nb_duration_format(patience_ms, duration);
        nb_failure_add(f, "; gave up after %s%s%s%s", duration, limit ? " (" : "", limit ? limit : "", limit ? ")" : "");
}

int nb_join_name_identity(const struct nb_identity *identity, int r, struct nb_failure *f) {
        if (r < 0 && f->code == NB_TOKEN_REJECTED && identity->token_id[0])
                nb_failure_add(f, "; it was shown the token with the ID %s, out of %s", identity->token_id, identity->source);
        else if (r < 0 && f->code == NB_TOKEN_REJECTED)
                nb_failure_add(f, "; it was shown what is in %s", identity->source);
        return r;
}

int64_t nb_join_clock_skew_sec(const struct nb_join *join) {
        if (join->server_date_ms == 0)
                return 0;
        return (int64_t)join->server_date + (int64_t)((nb_now_ms() - join->server_date_ms) / 1000) - (int64_t)time(NULL);
}

/*
 * A name that does not fit, a certificate of another CA or of another key is not the clock's doing. The Date may be of whoever ends
 * TLS: a stranger must not get a failure of trust waited out for ever by saying that it is another time.
 */
static bool is_of_time(const struct nb_failure *f) {
        return f->code == NB_TLS_EXPIRED || (f->code == NB_CERTIFICATE_UNUSABLE && f->errnum == EKEYEXPIRED);
}

int nb_join_blame_clock(const struct nb_join *join, int r, struct nb_failure *f) {
        const struct nb_wall_clock clock = {
                .now = time(NULL),
                .has_date = join->server_date_ms > 0,
                .behind_sec = nb_join_clock_skew_sec(join),
                .built = nb_build_time(),
        };
        char blame[NB_WALL_CLOCK_TEXT_SIZE], detail[NB_FAILURE_DETAIL_MAX];

        if (r >= 0 || !is_of_time(f) || nb_wall_clock_blame(&clock, blame) == 0)
                return r;
        (void)snprintf(detail, sizeof(detail), "%s", f->detail);
        nb_failure_clear(f);
        return nb_failure_set(f, NB_CLOCK_WRONG, ETIME, "%s, so that a certificate does not look valid (%s)", blame, detail);
}
