/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "admin/policy/waits.h"

/* --- The Lease --- */

bool nb_election_observe(struct nb_election *election, const struct nb_election_waits *waits,
                         const char *version, bool is_free, uint64_t now_ms) {
        if (strcmp(version, election->observed) != 0)
                election->observed_ms = now_ms;
        snprintf(election->observed, sizeof(election->observed), "%s", version);
        if (is_free || now_ms >= election->observed_ms + waits->expire_ms)
                return true;
        nb_election_note(election, waits, 0, 0, now_ms);
        return false;
}

void nb_election_note(struct nb_election *election, const struct nb_election_waits *waits,
                      int result, uint64_t sent_ms, uint64_t now_ms) {
        election->due_ms = now_ms + (result > 0 ? waits->renew_ms : waits->standby_ms);
        if (result > 0)
                election->renewed_ms = sent_ms;
        if (result >= 0 || !nb_election_is_leader(election, waits, now_ms))
                election->is_held = result > 0;
}

bool nb_election_is_leader(const struct nb_election *election,
                           const struct nb_election_waits *waits, uint64_t now_ms) {
        return election->is_held && now_ms < election->renewed_ms + waits->held_ms;
}

/* --- Reports of a request --- */

static bool has_room(const struct nb_rate *rate, const struct nb_rate_limit *limit,
                     uint64_t now_ms) {
        const uint64_t from_ms = rate->used_ms > now_ms ? rate->used_ms : now_ms;

        return from_ms + limit->interval_ms <= now_ms + limit->burst * limit->interval_ms;
}

static void take_room(struct nb_rate *rate, const struct nb_rate_limit *limit, uint64_t now_ms) {
        rate->used_ms = (rate->used_ms > now_ms ? rate->used_ms : now_ms) + limit->interval_ms;
}

int nb_reports_take(struct nb_reports *reports, const struct nb_report_limits *limits,
                    struct nb_rate *of_party, struct nb_rate *of_kind, unsigned bit,
                    uint64_t now_ms) {
        if (now_ms >= reports->told_ms + limits->repeat_ms)
                reports->told = 0;
        if ((reports->told & bit) || !has_room(of_party, &limits->of_party, now_ms) ||
            !has_room(of_kind, &limits->of_kind, now_ms))
                return 0;
        take_room(of_party, &limits->of_party, now_ms);
        take_room(of_kind, &limits->of_kind, now_ms);
        *reports = (struct nb_reports){ .told = reports->told | bit, .told_ms = now_ms };
        return has_room(of_party, &limits->of_party, now_ms) ? 1 : 2;
}

/* --- The token of an issued certificate --- */

uint64_t nb_grace_wait(const struct nb_grace *grace, uint64_t grace_ms, uint64_t now_ms,
                       bool *ret_is_look_due) {
        const uint64_t end_ms = grace->issued_ms + grace_ms;

        *ret_is_look_due = now_ms >= grace->look_ms;
        if (now_ms >= end_ms)
                return 0;
        return (*ret_is_look_due || end_ms < grace->look_ms ? end_ms : grace->look_ms) - now_ms;
}
