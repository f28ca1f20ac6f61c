/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/macro.h"
#include "base/text.h"
#include "join/report.h"
#include "join/retry.h"
#include "join/stages.h"
#include "kube_calls/csr_calls.h"
#include "os/clock.h"
#include "systemd/log.h"

#define REPORT_AFTER_MS 2000    /* automatic approval takes milliseconds */
#define ASK_AFTER_MS 10000      /* later than any automatic approval */
#define WATCH_REFUSED_MS 300000 /* by then, RBAC may have been corrected */
#define WATCH_GOOD_MS 5000      /* after a watch of this length, the next one starts at once */

enum outcome {
        ISSUED,
        WAITING,
        SUBMIT_AGAIN,
        ENDED, /* the watch ended; read the state with GET */
};

struct await {
        struct nb_join *join;
        struct nb_csr_watch watch;
        uint64_t watch_since_ms;
        char version[sizeof(
                ((struct nb_csr *)NULL)->resource_version)]; /* of the last object; bookmarks do not
                                                                change it */
        uint64_t report_ms; /* when to report the next reason to wait */
};

/* Nobody can log in at the first boot, so the fingerprint goes to the console. */
static int describe_csr(const struct nb_join *join, struct nb_failure *f) {
        int r = nb_pending_describe(&join->csr, join->node_name, join->pending.reason, f);

        if (join->proof_key_id[0] && f->code == NB_CSR_PENDING_CONTROLLER)
                nb_failure_add(f, "; the fingerprint of this machine's proof key is %s",
                               join->proof_key_id);
        return r;
}

/* A new state or a new object starts a new wait; a retry of the stage continues the previous
 * one. */
static void begin_wait(struct await *a) {
        struct nb_join *join = a->join;
        struct nb_pending *p = &join->pending;
        uint64_t now = nb_now_ms();

        a->report_ms = now + REPORT_AFTER_MS;
        if (p->since_ms > 0 && p->state == join->csr.state && strcmp(p->uid, join->csr.uid) == 0)
                return;
        *p = (struct nb_pending){
                .state = join->csr.state,
                .since_ms = now,
                .remind_ms = now + nb_pending_next_ms(0),
                .ask_ms = NB_TIME_INFINITE,
        };
        NB_TEXT_COPY(p->uid, join->csr.uid);
        if (p->state == NB_CSR_STATE_PENDING) {
                p->reason = nb_pending_reason_known(&join->csr);
                if (p->reason == NB_PENDING_UNASKED)
                        p->ask_ms = now + ASK_AFTER_MS;
        }
        nb_log_field(NB_FIELD_REASON, "%s", nb_pending_reason_name(p->reason));
}

static void report_csr(struct await *a) {
        struct nb_pending *p = &a->join->pending;
        struct nb_failure f = { 0 };
        uint64_t now = nb_now_ms();
        bool is_reminder = now >= p->remind_ms;

        (void)describe_csr(a->join, &f);
        nb_report_wait(&a->join->waiting_since, &f, false);
        if (is_reminder || f.code != a->join->reported)
                nb_log_failure(LOG_WARNING, &f);
        a->join->reported = f.code;
        if (is_reminder)
                p->remind_ms = p->since_ms + nb_pending_next_ms(now - p->since_ms);
        a->report_ms = p->remind_ms;
}

/* --- Why the CSR is not approved --- */

int nb_join_ask_reason(struct nb_join *join, enum nb_pending_reason *ret) {
        struct nb_failure why = { 0 };
        int r;

        *ret = nb_pending_reason_known(&join->csr);
        if (*ret != NB_PENDING_UNASKED)
                return 0;
        r = nb_right_read(&join->api, NB_RIGHT_NODECLIENT, &why);
        if (r == -ECANCELED && why.code == NB_NONE)
                return r;
        if (r < 0)
                nb_log(LOG_DEBUG, NB_NONE, "cannot determine why the CSR is not approved: %s",
                       why.detail);
        *ret = nb_pending_reason_of(r);
        return 0;
}

/* If the API server does not report the reason, asks again with the next reminder. 0;
 * -ECANCELED. */
static int ask_when_due(struct await *a) {
        struct nb_pending *p = &a->join->pending;
        int r;

        if (nb_now_ms() < p->ask_ms)
                return 0;
        /* The review needs a connection without other transfers. The next watch starts at the
         * version of the last object, so that it misses nothing. */
        nb_csr_watch_done(&a->watch);
        r = nb_join_ask_reason(a->join, &p->reason);
        if (r < 0)
                return r;
        p->ask_ms = p->reason == NB_PENDING_UNKNOWN ? p->remind_ms : NB_TIME_INFINITE;
        nb_log_field(NB_FIELD_REASON, "%s", nb_pending_reason_name(p->reason));
        a->report_ms = nb_now_ms();
        return 0;
}

static int submit_again(struct await *a, const char *why) {
        nb_log(LOG_WARNING, NB_CSR_SUBMITTED_AGAIN, "the CSR '%s' %s; submitting it again",
               a->join->csr_name, why);
        return SUBMIT_AGAIN;
}

static int classify_csr(struct await *a, struct nb_failure *f) {
        struct nb_join *join = a->join;
        int r;

        if (join->csr.state == NB_CSR_STATE_DENIED || join->csr.state == NB_CSR_STATE_FAILED) {
                nb_log_field(NB_FIELD_REASON, "%s", join->csr.reason);
                nb_pending_key_drop(join);
                return describe_csr(join, f);
        }
        if (join->csr.state != NB_CSR_STATE_APPROVED || !join->csr.certificate)
                return WAITING;
        r = nb_join_take_issued(join, join->csr.certificate, join->csr.certificate_len, f);
        if (r >= 0)
                return ISSUED;
        if (f->code != NB_CERTIFICATE_UNUSABLE)
                return r;
        nb_failure_add(f, "; issued for the request '%s'", join->csr_name);
        nb_pending_key_drop(join);
        if (!join->is_csr_found)
                return r;
        /* The CSR existed before this join submitted it, so its certificate may have expired since.
         * A new CSR may succeed. */
        nb_log(LOG_WARNING, NB_KEY_DROPPED, "%s; creating a new key and CSR", f->detail);
        nb_failure_clear(f);
        return SUBMIT_AGAIN;
}

/* An object with another UID is another object, even if it has the same name. */
static int take_object(struct await *a, struct nb_csr *csr) {
        bool is_other = csr->state != a->join->csr.state;

        if (strcmp(csr->uid, a->join->csr.uid) != 0)
                return submit_again(a, "was replaced");
        if (strcmp(csr->resource_version, a->version) != 0) {
                NB_TEXT_COPY(a->version, csr->resource_version);
                a->join->n_idle_rounds = 0;
        }
        nb_csr_done(&a->join->csr);
        a->join->csr = *csr;
        *csr = (struct nb_csr){ 0 };
        if (is_other)
                begin_wait(a);
        return WAITING;
}

static int take_event(struct await *a, struct nb_csr_event *event) {
        if (event->type == NB_CSR_EVENT_DELETED)
                return submit_again(a, "was deleted");
        if (event->type == NB_CSR_EVENT_BOOKMARK) {
                NB_TEXT_COPY(a->join->csr.resource_version, event->csr.resource_version);
                return WAITING;
        }
        if (event->type != NB_CSR_EVENT_ERROR)
                return take_object(a, &event->csr);
        nb_log(LOG_DEBUG, NB_NONE, "the watch ended with %ld %s: %s", (long)event->status.code,
               event->status.reason, event->status.message);
        return ENDED;
}

/* The next GET reports what is wrong; this function only decides whether to watch again. */
static int watch_failed(struct await *a, struct nb_failure *f) {
        nb_log(LOG_DEBUG, NB_NONE, "the watch ended: %s", f->detail);
        if (f->http_status >= 400 && f->http_status < 500 && f->http_status != 401 &&
            f->http_status != 429)
                a->join->watch_refused_until_ms = nb_now_ms() + WATCH_REFUSED_MS;
        nb_failure_clear(f);
        return ENDED;
}

static int watch_on(struct await *a, struct nb_failure *f) {
        _cleanup_(nb_csr_event_done) struct nb_csr_event event = { 0 };
        uint64_t until = a->join->deadline_ms;
        int r = 0;

        if (until > a->report_ms)
                until = a->report_ms;
        if (until > a->join->pending.ask_ms)
                until = a->join->pending.ask_ms;
        if (!a->watch.transfer) {
                a->watch_since_ms = nb_now_ms();
                r = nb_csr_watch_start(&a->watch, &a->join->api, a->join->csr_name,
                                       a->join->csr.resource_version, f);
        }
        if (r >= 0)
                r = nb_csr_watch_next(&a->watch, until, &event, f);
        if (r == -ECANCELED)
                return r;
        if (r < 0)
                return watch_failed(a, f);
        if (r == NB_WATCH_EVENT)
                return take_event(a, &event);
        return r == NB_WATCH_ENDED ? ENDED : WAITING;
}

/* Reads the CSR with GET, after a delay that grows while the CSR does not change. */
static int poll_once(struct await *a, struct nb_failure *f) {
        _cleanup_(nb_csr_done) struct nb_csr csr = { 0 };
        struct nb_failure waiting = { 0 };
        struct nb_join *join = a->join;
        uint64_t now = nb_now_ms();
        int r;

        if (now >= join->watch_refused_until_ms && now - a->watch_since_ms >= WATCH_GOOD_MS)
                join->n_idle_rounds = 0;
        r = nb_retry_wait(NB_RETRY_POLL, join->n_idle_rounds++, join->deadline_ms);
        if (r != 0)
                return r < 0 ? r : WAITING; /* the deadline has passed */
        r = nb_csr_read(&join->api, join->csr_name, &csr, f);
        if (r < 0) {
                (void)describe_csr(join, &waiting);
                nb_retry_last_word(&waiting, f);
                return r;
        }
        if (r == 0)
                return submit_again(a, "was deleted");
        return take_object(a, &csr);
}

static int await_certificate(struct await *a, struct nb_failure *f) {
        for (;;) {
                int r;

                r = classify_csr(a, f);
                if (r != WAITING)
                        return r;
                if (nb_now_ms() >= a->join->deadline_ms)
                        return describe_csr(a->join, f);
                if (nb_now_ms() >= a->report_ms)
                        report_csr(a);
                r = ask_when_due(a);
                if (r < 0)
                        return r;
                r = nb_now_ms() < a->join->watch_refused_until_ms ? ENDED : watch_on(a, f);
                if (r == ENDED) {
                        nb_csr_watch_done(&a->watch);
                        r = poll_once(a, f);
                }
                if (r != WAITING)
                        return r;
        }
}

int nb_stage_await(struct nb_join *join, struct nb_failure *f) {
        struct await a = { .join = join };
        int r;

        NB_TEXT_COPY(a.version, join->csr.resource_version);
        begin_wait(&a);
        r = await_certificate(&a, f);
        nb_csr_watch_done(&a.watch);
        if (r < 0)
                return r;
        nb_log_field(NB_FIELD_REASON, NULL);
        return r == SUBMIT_AGAIN ? NB_REQUEST_AGAIN : 0;
}
