/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/macro.h"
#include "base/stop.h"
#include "kube/csr_calls.h"
#include "stage/internal.h"

#define REPORT_AFTER_MS 2000 /* automatic approval takes milliseconds and is not worth a warning */
#define POLL_FIRST_MS 500
#define POLL_CAP_MS 15000
#define WATCH_REFUSED_MS 300000 /* RBAC may be mended meanwhile */
#define WATCH_GOOD_MS 5000      /* a watch that lasted so long did its work: the next one may follow at once */

enum outcome {
        ISSUED,
        WAITING,
        SUBMIT_AGAIN,
        ENDED, /* the watch is over; a GET tells how things stand */
};

struct await {
        struct nb_join *join;
        struct nb_csr_watch watch;
        uint64_t watch_since_ms;
        char version[sizeof(((struct nb_csr *)NULL)->resource_version)]; /* of the object as seen last; bookmarks do not count */
        uint64_t report_ms;                                              /* when the next reason to wait is worth telling */
};

static int still_waiting(const struct nb_join *join, struct nb_failure *f) {
        if (join->csr.state == NB_CSR_STATE_APPROVED)
                return nb_failure_set(f, NB_CSR_NOT_ISSUED, ETIMEDOUT, "the certificate signing request '%s' is approved, but no certificate was issued yet",
                                      join->csr_name);
        return nb_failure_set(f, NB_CSR_PENDING, ETIMEDOUT, "the certificate signing request '%s' waits for approval", join->csr_name);
}

static void report(struct await *a) {
        struct nb_failure f = { 0 };

        (void)still_waiting(a->join, &f);
        nb_join_report_approval(a->join, &f, f.code != a->join->reported);
        a->join->reported = f.code;
        a->report_ms = NB_TIME_INFINITE;
}

static int submit_again(struct await *a, const char *why) {
        nb_log(LOG_WARNING, NB_CSR_SUBMITTED_AGAIN, "the certificate signing request '%s' %s; submitting it again", a->join->csr_name, why);
        return SUBMIT_AGAIN;
}

static int refused(struct nb_join *join, enum nb_code code, const char *verb, struct nb_failure *f) {
        struct nb_failure ignored = { 0 };
        int r;

        r = nb_failure_set(f, code, EACCES, "the certificate signing request '%s' %s, reason '%s', message '%s'", join->csr_name, verb,
                           join->csr.reason, join->csr.message);
        nb_log_field(NB_FIELD_REASON, "%s", join->csr.reason);
        (void)nb_pending_key_drop(join, &ignored);
        return r;
}

static int take_certificate(struct await *a, struct nb_failure *f) {
        struct nb_join *join = a->join;
        struct nb_failure ignored = { 0 };
        int r;

        r = nb_join_take_issued(join, join->csr.certificate, join->csr.certificate_len, f);
        if (r < 0 && f->code == NB_CERTIFICATE_UNUSABLE) {
                (void)nb_pending_key_drop(join, &ignored);
                if (join->is_csr_found) {
                        /* Issued in an earlier life, for instance an expired one: no verdict on this cluster. */
                        nb_log(LOG_WARNING, NB_KEY_DROPPED, "%s; making a new key and request", f->detail);
                        nb_failure_clear(f);
                        return SUBMIT_AGAIN;
                }
        }
        return r < 0 ? r : ISSUED;
}

static int judge(struct await *a, struct nb_failure *f) {
        struct nb_join *join = a->join;

        if (join->csr.state == NB_CSR_STATE_DENIED)
                return refused(join, NB_CSR_DENIED, "was denied", f);
        if (join->csr.state == NB_CSR_STATE_FAILED)
                return refused(join, NB_CSR_FAILED, "failed", f);
        if (join->csr.state == NB_CSR_STATE_APPROVED && join->csr.certificate)
                return take_certificate(a, f);
        return WAITING;
}

/* A newer state of the object. Another UID is another object, whatever its name. */
static int take_object(struct await *a, struct nb_csr *csr) {
        if (strcmp(csr->uid, a->join->csr.uid) != 0)
                return submit_again(a, "was replaced by another");
        if (strcmp(csr->resource_version, a->version) != 0) {
                memcpy(a->version, csr->resource_version, sizeof(a->version));
                a->join->n_idle_rounds = 0;
        }
        if (csr->state != a->join->csr.state)
                a->report_ms = nb_now_ms() + REPORT_AFTER_MS;
        nb_csr_done(&a->join->csr);
        a->join->csr = *csr;
        *csr = (struct nb_csr){ 0 };
        return WAITING;
}

static int take_event(struct await *a, struct nb_csr_event *event) {
        switch (event->type) {
        case NB_CSR_EVENT_ADDED:
        case NB_CSR_EVENT_MODIFIED:
                return take_object(a, &event->csr);
        case NB_CSR_EVENT_DELETED:
                return submit_again(a, "was deleted");
        case NB_CSR_EVENT_BOOKMARK:
                memcpy(a->join->csr.resource_version, event->csr.resource_version, sizeof(event->csr.resource_version));
                return WAITING;
        case NB_CSR_EVENT_ERROR:
        default:
                nb_log(LOG_DEBUG, NB_NONE, "the watch ended with %ld %s: %s", (long)event->status.code, event->status.reason,
                       event->status.message);
                return ENDED;
        }
}

/* The GET that follows says what is wrong, or that nothing is; here only whether watching is worth another try. */
static int watch_failed(struct await *a, struct nb_failure *f) {
        nb_log(LOG_DEBUG, NB_NONE, "the watch ended: %s", f->detail);
        if (f->http_status >= 400 && f->http_status < 500 && f->http_status != 401 && f->http_status != 429)
                a->join->watch_refused_until_ms = nb_now_ms() + WATCH_REFUSED_MS;
        nb_failure_clear(f);
        return ENDED;
}

static int watch_on(struct await *a, struct nb_failure *f) {
        _cleanup_(nb_csr_event_done) struct nb_csr_event event = { 0 };
        uint64_t until = a->report_ms < a->join->deadline_ms ? a->report_ms : a->join->deadline_ms;
        int r = 0;

        if (!a->watch.transfer) {
                a->watch_since_ms = nb_now_ms();
                r = nb_csr_watch_start(&a->watch, &a->join->api, a->join->csr_name, a->join->csr.resource_version, f);
        }
        if (r >= 0)
                r = nb_csr_watch_next(&a->watch, until, &event, f);
        if (r == -ECANCELED)
                return r;
        if (r < 0)
                return watch_failed(a, f);
        if (r == NB_WATCH_EVENT)
                return take_event(a, &event);
        if (r == NB_WATCH_ENDED)
                return ENDED;
        if (nb_now_ms() >= a->join->deadline_ms)
                return still_waiting(a->join, f);
        report(a);
        return WAITING;
}

/* Looks again by GET, after a pause that grows while nothing new is heard. */
static int poll_once(struct await *a, struct nb_failure *f) {
        _cleanup_(nb_csr_done) struct nb_csr csr = { 0 };
        struct nb_join *join = a->join;
        uint64_t now = nb_now_ms(), delay, left;
        int r;

        if (now >= join->deadline_ms)
                return still_waiting(join, f);
        if (now >= a->report_ms)
                report(a);
        if (now >= join->watch_refused_until_ms && now - a->watch_since_ms >= WATCH_GOOD_MS)
                join->n_idle_rounds = 0;
        delay = join->n_idle_rounds == 0 ? 0 : nb_backoff_ms(join->n_idle_rounds - 1, POLL_FIRST_MS, POLL_CAP_MS, nb_random());
        left = join->deadline_ms - now;
        join->n_idle_rounds++;
        if (nb_stop_wait(delay < left ? delay : left) < 0)
                return -ECANCELED;
        if (delay >= left)
                return still_waiting(join, f);
        r = nb_csr_read(&join->api, join->csr_name, join->deadline_ms, &csr, f);
        if (r < 0)
                return nb_join_blame_clock(join, r, f);
        if (r == 0)
                return submit_again(a, "was removed");
        return take_object(a, &csr);
}

static int await(struct await *a, struct nb_failure *f) {
        for (;;) {
                int r;

                r = judge(a, f);
                if (r != WAITING)
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
        struct await a = { .join = join, .report_ms = nb_now_ms() + REPORT_AFTER_MS };
        int r;

        memcpy(a.version, join->csr.resource_version, sizeof(a.version));
        r = await(&a, f);
        nb_csr_watch_done(&a.watch);
        if (r < 0)
                return r;
        return r == SUBMIT_AGAIN ? NB_STAGE_REQUEST : 0;
}
