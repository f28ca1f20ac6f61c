/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/macro.h"
#include "join/race.h"
#include "join/report.h"
#include "join/retry.h"

/* One endpoint: being asked, waiting for its next attempt, or out. */
struct candidate {
        const struct nb_url *url;
        struct nb_api api;   /* unverified; one for each, so that no endpoint waits for another */
        struct nb_api again; /* verified, for the second copy; empty if none is needed */
        struct nb_unverified first;        /* the copy that the second is compared with */
        struct nb_http_transfer *transfer; /* while it is asked */
        struct nb_retry retry;
        struct nb_failure failure; /* of its last attempt */
        struct nb_http_connection connection;
        bool is_out;
};

struct race {
        const struct nb_race *kind;
        struct candidate candidates[NB_SETTINGS_ENDPOINTS_MAX];
        unsigned n;
};

/* Drops the connection for the second copy. */
static void forget_first(struct candidate *c) {
        nb_api_done(&c->again);
        nb_unverified_done(&c->first);
}

static void race_done(struct race *race) {
        for (unsigned i = 0; i < race->n; i++) {
                forget_first(&race->candidates[i]);
                nb_api_done(&race->candidates[i].api);
        }
}

/* Asks the endpoints that are due; *ret_next_ms is when the next one is. */
static int start_due(struct race *race, uint64_t deadline_ms, uint64_t *ret_next_ms,
                     struct nb_failure *f) {
        uint64_t now = nb_now_ms();

        *ret_next_ms = deadline_ms;
        for (unsigned i = 0; i < race->n; i++) {
                struct candidate *c = &race->candidates[i];
                int r;

                if (c->is_out || c->transfer)
                        continue;
                if (c->retry.due_ms > now) {
                        if (c->retry.due_ms < *ret_next_ms)
                                *ret_next_ms = c->retry.due_ms;
                        continue;
                }
                r = nb_api_start(&c->api, race->kind->call, NULL, &c->transfer, f);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* The failure of an endpoint that answered, before that of one that did not. */
static const struct candidate *most_telling(const struct race *race) {
        const struct candidate *best = &race->candidates[0];

        for (unsigned i = 0; i < race->n; i++) {
                const struct candidate *c = &race->candidates[i];

                if (c->failure.code != NB_NONE &&
                    (best->failure.code == NB_NONE || nb_http_is_unanswered(best->failure.code)))
                        best = c;
        }
        return best;
}

static int give_up(const struct race *race, struct nb_failure *f) {
        const struct candidate *c = most_telling(race);

        nb_log_field(NB_FIELD_ENDPOINT, "%s", c->api.name);
        nb_report_connection(&c->connection, c->api.name);
        if (c->failure.code == NB_NONE)
                return nb_failure_set(f, NB_ENDPOINT_UNREACHABLE, ETIMEDOUT,
                                      "%s %s: no answer until the deadline", race->kind->call->what,
                                      c->api.name);
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

/* Repeats the request over TLS verified by `ca`. */
static int start_second(const struct nb_join *join, const struct race *race, struct candidate *c,
                        const struct nb_cluster *verified) {
        const struct nb_cluster cluster = { .server = *c->url,
                                            .ca = verified->ca,
                                            .ca_len = verified->ca_len };
        int r;

        r = nb_api_init(&c->again, &cluster, NULL, join->deadline_ms, &c->failure);
        return r < 0 ? r
                     : nb_api_start(&c->again, race->kind->call, NULL, &c->transfer, &c->failure);
}

static int classify_first(struct nb_join *join, const struct race *race, struct candidate *c,
                          struct nb_cluster *ret_cluster) {
        int r;

        r = nb_http_finish_unverified(TAKE(c->transfer), &c->first, &c->failure);
        (void)nb_http_take_connection(c->api.http, &c->connection);
        if (r < 0)
                return r;
        note_date(join, &c->first.answer);
        r = race->kind->verify(join, &c->api, &c->first, NULL, ret_cluster, &c->failure);
        return r == NB_RACE_AGAIN ? start_second(join, race, c, ret_cluster) : r;
}

static int classify_second(const struct nb_join *join, const struct race *race, struct candidate *c,
                           struct nb_cluster *ret_cluster) {
        _cleanup_(nb_http_answer_done) struct nb_http_answer second = { 0 };
        int r;

        r = nb_http_finish(TAKE(c->transfer), &second, &c->failure);
        if (r < 0)
                return nb_join_map_clock_skew(join, r, &c->failure);
        return race->kind->verify(join, &c->api, &c->first, &second, ret_cluster, &c->failure);
}

static int adopt(struct nb_join *join, const struct race *race, struct candidate *c,
                 struct nb_cluster *cluster) {
        char what[NB_URL_MAX + 32];
        struct nb_ca_selection selection;
        int r;

        r = nb_join_trust(join, cluster, race->kind->malformed, &selection, &c->failure);
        if (r < 0)
                return r;
        snprintf(what, sizeof(what), "%s %s", race->kind->call->what, c->api.name);
        nb_join_adopt(join, cluster, c->api.name, &selection, what);
        nb_report_new_connection(&c->again);
        return 0;
}

static int classify(struct nb_join *join, const struct race *race, struct candidate *c) {
        _cleanup_(nb_cluster_done) struct nb_cluster cluster = { .server = *c->url };
        const struct nb_failure before = c->failure;
        bool is_second = c->again.http;
        int r;

        nb_failure_clear(&c->failure);
        r = is_second ? classify_second(join, race, c, &cluster)
                      : classify_first(join, race, c, &cluster);
        /* Waiting for the second copy. */
        if (r >= 0 && c->transfer) {
                c->failure = before;
                return NB_RACE_AGAIN;
        }
        if (r >= 0)
                r = adopt(join, race, c, &cluster);
        if (r < 0 && is_second && race->kind->is_unproven)
                c->failure.is_unverified = true;
        forget_first(c);
        nb_retry_last_word(&before, &c->failure);
        return r;
}

/* Schedules the next attempt with an endpoint that was not verified. */
static void plan(struct nb_join *join, struct candidate *c) {
        if (join->is_rehearsal) {
                c->is_out = true;
                return;
        }
        c->is_out = !nb_retry_next(&c->retry, &c->failure, nb_now_ms(), nb_random());
        nb_log_field(NB_FIELD_ENDPOINT, "%s", c->api.name);
        nb_log_field(NB_FIELD_ATTEMPT, "%u", c->retry.attempts);
        if (!c->is_out || join->settings->n_endpoints > 1)
                nb_report_wait(&join->waiting_since, &c->failure, c->retry.is_new);
}

static int wait_for_any(struct race *race, uint64_t until_ms, struct nb_http_transfer **ret_done,
                        struct nb_failure *f) {
        struct nb_http *https[NB_SETTINGS_ENDPOINTS_MAX];

        for (unsigned i = 0; i < race->n; i++)
                https[i] = race->candidates[i].again.http ? race->candidates[i].again.http
                                                          : race->candidates[i].api.http;
        return nb_http_wait_any(https, race->n, until_ms, ret_done, f);
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
                r = wait_for_any(race, next_ms, &done, f);
                if (r < 0)
                        return r;
                if (r == 0) {
                        if (nb_now_ms() >= join->deadline_ms)
                                return give_up(race, f);
                        continue;
                }
                c = candidate_of(race, done);
                r = classify(join, race, c);
                if (r == NB_RACE_AGAIN)
                        continue;
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

        for (unsigned i = 0; i < race.n; i++) {
                const struct nb_url *url = &join->settings->endpoints[i];
                int r = nb_api_init_unverified(&race.candidates[i].api, url, f);

                if (r < 0)
                        return r;
                race.candidates[i].url = url;
                race.candidates[i].retry.deadline_ms = join->deadline_ms;
        }
        return run_race(join, &race, f);
}
