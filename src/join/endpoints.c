/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>

#include "base/macro.h"
#include "join/endpoints.h"
#include "join/report.h"
#include "join/retry.h"
#include "join/stages.h"
#include "os/clock.h"
#include "systemd/log.h"

/* An endpoint that has not answered for this time, or that has failed, is not waited for: the next
 * one is asked. As the "Connection Attempt Delay" of RFC 8305, section 5. Less if the deadline is
 * so near that the last endpoints would not be asked. */
#define NEXT_AFTER_MS 250

/* One endpoint: being asked, waiting for its next attempt, or out. */
struct candidate {
        const struct nb_url *url;
        struct nb_api api;   /* unverified; one for each, so that no endpoint waits for another */
        struct nb_api again; /* verified, for the second copy; empty if none is needed */
        struct nb_api early; /* for the verified connection to this endpoint, if there will be one:
                                for the second copy, or for the next stages of the join */
        struct nb_unverified first;        /* the copy that the second is compared with */
        struct nb_http_transfer *transfer; /* the request in progress, or NULL */
        struct nb_retry retry;
        struct nb_failure failure; /* of its last attempt */
        bool is_out;
};

struct race {
        struct nb_join *join;
        const struct nb_race *kind;
        struct candidate candidates[NB_SETTINGS_ENDPOINTS_MAX];
        unsigned n;
        unsigned n_begun;  /* the others are not asked yet */
        uint64_t begin_ms; /* when the next one is asked for the first time */
};

/* Closes the verified connections, and frees the first copy. */
static void forget_first(struct candidate *c) {
        nb_api_done(&c->again);
        nb_api_done(&c->early);
        nb_unverified_done(&c->first);
}

static void race_done(struct race *race) {
        for (unsigned i = 0; i < race->n; i++) {
                nb_api_done(&race->candidates[i].api);
                forget_first(&race->candidates[i]);
        }
}

/* Prefers to report the failure of an endpoint that answered, because it says more than the failure
 * of an unreachable one. */
static int give_up(const struct race *race, struct nb_failure *f) {
        const struct candidate *best = &race->candidates[0];

        for (unsigned i = 1; i < race->n; i++) {
                const struct candidate *c = &race->candidates[i];

                if (c->failure.code != NB_NONE &&
                    (best->failure.code == NB_NONE || nb_http_is_unanswered(best->failure.code)))
                        best = c;
        }
        nb_log_field(NB_FIELD_ENDPOINT, "%s", best->api.name);
        nb_report_new_connection(&best->api);
        if (best->failure.code == NB_NONE)
                return nb_failure_set(f, NB_ENDPOINT_UNREACHABLE, ETIMEDOUT,
                                      "%s %s: no answer before the deadline",
                                      race->kind->call->what, best->api.name);
        *f = best->failure;
        return f->errnum > 0 ? -f->errnum : -EPROTO;
}

/*
 * Asks an endpoint. The connection that will probably follow is opened by TCP as soon as the
 * endpoint has completed TLS, which saves a round trip. But only in the first attempt, because an
 * endpoint that was not verified then is probably starting up, overloaded or hostile; not with a
 * client certificate, which each worker of its connection is born with; and not in a rehearsal.
 */
static int start_first(const struct race *race, struct candidate *c, struct nb_failure *f) {
        struct nb_http_request more = { 0 };
        struct nb_failure ignored = { 0 };

        if (c->retry.attempts == 0 && !race->join->is_rehearsal &&
            race->join->bootstrap->identity.kind != NB_IDENTITY_CERTIFICATE)
                (void)nb_api_init_early(&c->early, c->url, &ignored);
        more.next = c->early.http;
        return nb_api_start(&c->api, race->kind->call, &more, &c->transfer, f);
}

/* Repeats the request over TLS verified by the CAs of `verified`. */
static int start_second(const struct race *race, struct candidate *c,
                        const struct nb_cluster *verified) {
        const struct nb_cluster cluster = { .server = *c->url,
                                            .ca = verified->ca,
                                            .ca_len = verified->ca_len };
        int r;

        c->again = TAKE(c->early);
        r = nb_api_init(&c->again, &cluster, NULL, race->join->deadline_ms, &c->failure);
        return r < 0 ? r
                     : nb_api_start(&c->again, race->kind->call, NULL, &c->transfer, &c->failure);
}

static int classify_first(const struct race *race, struct candidate *c,
                          struct nb_cluster *ret_cluster) {
        struct nb_join *join = race->join;
        int r;

        r = nb_http_finish_unverified(TAKE(c->transfer), &c->first, &c->failure);
        if (r < 0)
                return r;
        if (c->first.answer.date > 0) {
                join->server_date = c->first.answer.date;
                join->server_date_ms = nb_now_ms();
        }
        r = race->kind->verify(join, &c->api, &c->first, NULL, ret_cluster, &c->failure);
        return r == NB_RACE_AGAIN ? start_second(race, c, ret_cluster) : r;
}

static int classify_second(const struct race *race, struct candidate *c,
                           struct nb_cluster *ret_cluster) {
        _cleanup_(nb_http_answer_done) struct nb_http_answer second = { 0 };
        int r;

        r = nb_http_finish(TAKE(c->transfer), &second, &c->failure);
        if (r < 0)
                return nb_join_map_clock_skew(race->join, r, &c->failure);
        return race->kind->verify(race->join, &c->api, &c->first, &second, ret_cluster,
                                  &c->failure);
}

static int adopt_candidate(const struct race *race, struct candidate *c,
                           struct nb_cluster *cluster) {
        char what[NB_URL_MAX + 32];
        struct nb_ca_selection selection;
        int r;

        r = nb_join_trust(race->join, cluster, race->kind->malformed, &selection, &c->failure);
        if (r < 0)
                return r;
        snprintf(what, sizeof(what), "%s %s", race->kind->call->what, c->api.name);
        nb_join_adopt(race->join, cluster, c->api.name, &selection, what);
        nb_report_new_connection(&c->again);
        nb_report_new_connection(&c->api);
        race->join->api = TAKE(c->early);
        return 0;
}

static int classify_answer(const struct race *race, struct candidate *c) {
        _cleanup_(nb_cluster_done) struct nb_cluster cluster = { .server = *c->url };
        const struct nb_failure before = c->failure;
        bool is_second = c->again.http;
        int r;

        nb_failure_clear(&c->failure);
        r = is_second ? classify_second(race, c, &cluster) : classify_first(race, c, &cluster);
        /* The request for the second copy has started. */
        if (r >= 0 && c->transfer) {
                c->failure = before;
                return NB_RACE_AGAIN;
        }
        if (r >= 0)
                r = adopt_candidate(race, c, &cluster);
        if (r < 0 && is_second && race->kind->is_unproven)
                c->failure.is_unverified = true;
        forget_first(c);
        return r;
}

/* Schedules the next attempt with an endpoint that was not verified, and asks the next endpoint. */
static void plan_attempt(struct race *race, struct candidate *c) {
        struct nb_join *join = race->join;

        race->begin_ms = 0;
        c->is_out = join->is_rehearsal ||
                    !nb_retry_next(&c->retry, &c->failure, nb_now_ms(), nb_random());
        if (join->is_rehearsal)
                return;
        nb_log_field(NB_FIELD_ENDPOINT, "%s", c->api.name);
        nb_log_field(NB_FIELD_ATTEMPT, "%u", c->retry.attempts);
        if (!c->is_out || join->settings->n_endpoints > 1)
                nb_report_wait(&join->waiting_since, &c->failure, c->retry.is_new);
}

/* Starts a request to each endpoint that is due; *ret_next_ms is when the next one becomes due.
 * Whether some endpoints are still in the race. */
static bool start_due(struct race *race, uint64_t *ret_next_ms) {
        uint64_t now = nb_now_ms();
        bool is_any;

        if (race->n_begun < race->n && race->begin_ms <= now) {
                uint64_t share_ms = (race->join->deadline_ms - now) / (race->n - race->n_begun++);

                race->begin_ms = now + (share_ms < NEXT_AFTER_MS ? share_ms : NEXT_AFTER_MS);
        }
        is_any = race->n_begun < race->n;
        *ret_next_ms = race->join->deadline_ms;
        for (unsigned i = 0; i < race->n_begun; i++) {
                struct candidate *c = &race->candidates[i];
                struct nb_failure failure = { 0 };

                if (!c->is_out && c->retry.due_ms <= now && !c->transfer &&
                    start_first(race, c, &failure) < 0) {
                        c->failure = failure;
                        plan_attempt(race, c);
                }
                is_any |= !c->is_out;
                if (!c->is_out && !c->transfer && c->retry.due_ms < *ret_next_ms)
                        *ret_next_ms = c->retry.due_ms;
        }
        if (race->n_begun < race->n && race->begin_ms < *ret_next_ms)
                *ret_next_ms = race->begin_ms;
        return is_any;
}

/* Sets *ret_done to NULL if no request ends before `until_ms`. */
static int wait_for_any(struct race *race, uint64_t until_ms, struct candidate **ret_done,
                        struct nb_failure *f) {
        struct nb_http *https[NB_SETTINGS_ENDPOINTS_MAX];
        struct nb_http_transfer *done = NULL;
        int r;

        for (unsigned i = 0; i < race->n; i++)
                https[i] = race->candidates[i].again.http ? race->candidates[i].again.http
                                                          : race->candidates[i].api.http;
        r = nb_http_wait(https, race->n, until_ms, &done, f);
        *ret_done = NULL;
        for (unsigned i = 0; r > 0 && i < race->n; i++)
                if (race->candidates[i].transfer == done)
                        *ret_done = &race->candidates[i];
        return r;
}

int nb_join_race(struct nb_join *join, const struct nb_race *kind, struct nb_failure *f) {
        _cleanup_(race_done) struct race race = { .join = join,
                                                  .kind = kind,
                                                  .n = join->settings->n_endpoints };
        int r;

        for (unsigned i = 0; i < race.n; i++) {
                struct candidate *c = &race.candidates[i];

                c->url = &join->settings->endpoints[i];
                c->retry.deadline_ms = join->deadline_ms;
                r = nb_api_init_unverified(&c->api, c->url, f);
                if (r < 0)
                        return r;
        }
        for (;;) {
                struct candidate *done;
                uint64_t next_ms;

                if (!start_due(&race, &next_ms))
                        return give_up(&race, f);
                /* Costs no time: otherwise this process would only wait for the endpoint. */
                r = join->is_rehearsal ? 0 : nb_pending_key_prepare(join, f);
                if (r < 0)
                        return r;
                r = wait_for_any(&race, next_ms, &done, f);
                if (r < 0)
                        return r;
                if (!done && nb_now_ms() >= join->deadline_ms)
                        return give_up(&race, f);
                r = done ? classify_answer(&race, done) : NB_RACE_AGAIN;
                if (r == 0)
                        return 0;
                if (r < 0)
                        plan_attempt(&race, done);
        }
}
