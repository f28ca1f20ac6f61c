/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/macro.h"
#include "stage/internal.h"
#include "stage/retry.h"

#define SECOND_COPY_MS 3000

/* One endpoint: it is asked, waits for its next turn, or is out for good. */
struct candidate {
        const struct nb_url *url;
        struct nb_http_transfer *transfer; /* while it is asked */
        struct nb_retry retry;
        uint64_t due_ms;
        struct nb_failure failure; /* of its last attempt */
        struct nb_http_connection connection;
        bool is_out;
};

struct race {
        const struct nb_race *kind;
        struct nb_http *http;
        struct candidate candidates[NB_SETTINGS_ENDPOINTS_MAX];
        unsigned n;
};

static void race_done(struct race *race) {
        nb_http_free(race->http);
}

/* Asks those whose turn it is; *ret_next_ms is when the next one has it. */
static int start_due(struct race *race, uint64_t deadline_ms, uint64_t *ret_next_ms, struct nb_failure *f) {
        uint64_t now = nb_now_ms();

        *ret_next_ms = deadline_ms;
        for (unsigned i = 0; i < race->n; i++) {
                struct candidate *c = &race->candidates[i];
                int r;

                if (c->is_out || c->transfer)
                        continue;
                if (c->due_ms > now) {
                        if (c->due_ms < *ret_next_ms)
                                *ret_next_ms = c->due_ms;
                        continue;
                }
                r = race->kind->start(race->http, c->url, &c->transfer, f);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* The failure that says most: that of an endpoint that answered, before that of one that did not. */
static const struct candidate *most_telling(const struct race *race) {
        const struct candidate *best = &race->candidates[0];

        for (unsigned i = 0; i < race->n; i++) {
                const struct candidate *c = &race->candidates[i];

                if (c->failure.code != NB_NONE && (best->failure.code == NB_NONE || nb_http_is_unanswered(best->failure.code)))
                        best = c;
        }
        return best;
}

static int give_up(const struct race *race, struct nb_failure *f) {
        const struct candidate *c = most_telling(race);
        char name[NB_URL_MAX];

        nb_endpoint_format(c->url, name);
        nb_log_field(NB_FIELD_ENDPOINT, "%s", name);
        nb_report_connection(&c->connection, name);
        if (c->failure.code == NB_NONE)
                return nb_failure_set(f, NB_ENDPOINT_UNREACHABLE, ETIMEDOUT, "%s %s: no answer until the deadline", race->kind->what, name);
        *f = c->failure;
        return c->failure.errnum > 0 ? -c->failure.errnum : -EPROTO;
}

static bool is_anyone_left(const struct race *race) {
        for (unsigned i = 0; i < race->n; i++)
                if (!race->candidates[i].is_out)
                        return true;
        return false;
}

static struct candidate *candidate_of(struct race *race, const struct nb_http_transfer *transfer) {
        unsigned i = 0;

        while (race->candidates[i].transfer != transfer) {
                i++;
                assert(i < race->n);
        }
        return &race->candidates[i];
}

static void note_date(struct nb_join *join, const struct nb_http_answer *answer) {
        if (answer->date > 0) {
                join->server_date = answer->date;
                join->server_date_ms = nb_now_ms();
        }
}

static int judge(struct nb_join *join, const struct race *race, struct candidate *c) {
        _cleanup_(nb_unverified_done) struct nb_unverified unverified = { 0 };
        const struct nb_failure before = c->failure;
        int r;

        nb_failure_clear(&c->failure);
        r = nb_http_finish_unverified(TAKE(c->transfer), &unverified, &c->failure);
        (void)nb_http_take_connection(race->http, &c->connection);
        if (r < 0)
                return r;
        note_date(join, &unverified.answer);
        r = race->kind->prove(join, c->url, &unverified, &c->failure);
        nb_retry_last_word(&before, &c->failure);
        return r;
}

/* Plans the next turn of an endpoint that did not prove good. */
static void plan(struct nb_join *join, struct candidate *c) {
        char name[NB_URL_MAX];
        bool is_new;

        if (join->is_rehearsal) {
                c->is_out = true;
                return;
        }
        c->is_out = nb_retry_next(&c->retry, &c->failure, nb_now_ms(), join->deadline_ms, nb_random(), &c->due_ms, &is_new) ==
                    NB_RETRY_OVER;
        nb_endpoint_format(c->url, name);
        nb_log_field(NB_FIELD_ENDPOINT, "%s", name);
        nb_log_field(NB_FIELD_ATTEMPT, "%u", c->retry.attempts);
        if (!c->is_out || join->settings->n_endpoints > 1)
                nb_join_report_wait(join, &c->failure, is_new);
}

static int run_race(struct nb_join *join, struct race *race, struct nb_failure *f) {
        for (;;) {
                struct nb_http_transfer *done;
                struct candidate *c;
                uint64_t next_ms;
                int r;

                r = start_due(race, join->deadline_ms, &next_ms, f);
                if (r < 0)
                        return r;
                r = nb_http_wait(race->http, next_ms, &done, f);
                if (r < 0)
                        return r;
                if (r == 0) {
                        if (nb_now_ms() >= join->deadline_ms)
                                return give_up(race, f);
                        continue;
                }
                c = candidate_of(race, done);
                r = judge(join, race, c);
                if (r >= 0)
                        nb_report_connection(&c->connection, join->endpoint);
                if (r >= 0 || r == -ECANCELED)
                        return r;
                plan(join, c);
                if (!is_anyone_left(race))
                        return give_up(race, f);
        }
}

int nb_join_race(struct nb_join *join, const struct nb_race *kind, struct nb_failure *f) {
        _cleanup_(race_done) struct race race = { .kind = kind, .n = join->settings->n_endpoints };
        int r;

        r = nb_http_new(NULL, &race.http, f);
        if (r < 0)
                return r;
        for (unsigned i = 0; i < race.n; i++)
                race.candidates[i].url = &join->settings->endpoints[i];
        return run_race(join, &race, f);
}

/* With other endpoints at hand the second copy must come soon: one that stalls then holds up the others. */
uint64_t nb_join_second_copy_ms(const struct nb_join *join) {
        uint64_t soon_ms = nb_now_ms() + SECOND_COPY_MS;

        return join->settings->n_endpoints > 1 && soon_ms < join->deadline_ms ? soon_ms : join->deadline_ms;
}
