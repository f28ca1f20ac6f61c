/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>

#include "admin/client/calls.h"
#include "admin/client/facts.h"
#include "admin/controller/decision.h"
#include "admin/controller/metrics.h"
#include "base/macro.h"
#include "system/clock.h"
#include "system/log.h"

/* The Node of an approved request is looked for this much later, or when the watch shows it, so
 * that a fleet costs one call for each machine. */
#define LOOK_MS 20000

#define EVENTS_PATH "/api/v1/namespaces/default/events"
#define EVENT_MAX ((size_t)8 * 1024)
#define EVENT_TEXT_MAX 768
#define WAIT_FIRST_MS 1000
#define WAIT_CAP_MS (5 * 60 * 1000)
#define UNREPORTED_WAITS 2

/* --- Events --- */

/* Whether one more is allowed now; then counts it. */
static bool take_from_rate(struct nb_rate *rate, unsigned burst, uint64_t interval_ms,
                           uint64_t now_ms) {
        uint64_t from_ms = rate->used_ms > now_ms ? rate->used_ms : now_ms;

        if (from_ms + interval_ms > now_ms + burst * interval_ms)
                return false;
        rate->used_ms = from_ms + interval_ms;
        return true;
}

static int create_event(const struct nb_request_record *record, unsigned reason, const char *text) {
        _cleanup_(nb_buffer_done) struct nb_buffer body = NB_BUFFER_INIT(EVENT_MAX);
        _cleanup_(nb_http_answer_done) struct nb_http_answer answer = { 0 };
        struct nb_json_writer writer = { .buffer = &body };
        struct nb_admin_call call = { .method = "POST",
                                      .what = "creating an Event",
                                      .path = EVENTS_PATH };
        struct nb_failure f = { 0 };
        char now[NB_RFC3339_SIZE];
        int r;

        nb_time_format(time(NULL), now);
        nb_json_open(&writer, NULL, '{');
        nb_json_put_string(&writer, "apiVersion", "v1");
        nb_json_put_string(&writer, "kind", "Event");
        nb_json_open(&writer, "metadata", '{');
        nb_json_put_string(&writer, "generateName", "node-bootstrap-");
        nb_json_close(&writer);
        nb_json_open(&writer, "involvedObject", '{');
        nb_json_put_string(&writer, "apiVersion", "certificates.k8s.io/v1");
        nb_json_put_string(&writer, "kind", "CertificateSigningRequest");
        nb_json_put_string(&writer, "name", record->name);
        nb_json_put_string(&writer, "uid", record->uid);
        nb_json_close(&writer);
        nb_json_put_string(&writer, "type", "Warning");
        nb_json_put_string(&writer, "reason", nb_controller_reason(record->kind, reason));
        nb_json_put_string(&writer, "message", text);
        nb_json_put_string(&writer, "firstTimestamp", now);
        nb_json_put_string(&writer, "lastTimestamp", now);
        nb_json_open(&writer, "source", '{');
        nb_json_put_string(&writer, "component", "node-bootstrap-controller");
        if (nb_json_finish(&writer) < 0)
                return 0;
        call.body = body.data;
        call.body_len = body.len;
        r = nb_admin_perform(&record->controller->admin, &call, &answer, &f);
        if (r < 0 && f.code == NB_NONE)
                return r;
        if (r < 0)
                nb_log_failure(LOG_WARNING, &f);
        return 0;
}

/* Once for each time that it is told, however often the work runs until the answer is there. */
static bool may_tell(struct nb_request_record *record, unsigned bit) {
        struct nb_controller *controller = record->controller;
        struct nb_token_record *token = nb_controller_find_token(controller, record->token_id);
        uint64_t now = nb_now_ms();

        if (record->telling == bit)
                return true;
        if (now >= record->told_ms + NB_EVENTS_REPEAT_MS)
                record->told = 0;
        if ((record->told & bit) ||
            (token && !take_from_rate(&token->reports, NB_EVENTS_OF_TOKEN_BURST,
                                      NB_EVENTS_OF_TOKEN_INTERVAL_MS, now)) ||
            !take_from_rate(&controller->reports[record->kind], NB_EVENTS_BURST,
                            NB_EVENTS_INTERVAL_MS, now))
                return false;
        record->telling = bit;
        return true;
}

int nb_decision_tell(struct nb_request_record *record, unsigned reason, enum nb_code code,
                     const char *text) {
        const unsigned bit = 1U << reason;
        int r;

        if (!may_tell(record, bit))
                return 0;
        r = create_event(record, reason, text);
        if (r < 0)
                return r;
        record->telling = 0;
        record->told |= bit;
        record->told_ms = nb_now_ms();
        nb_log(LOG_WARNING, code, "CSR %s: %s", record->name, text);
        return 0;
}

/* --- Decisions --- */

int nb_decision_make(struct nb_request_record *record, const struct nb_node_request *request,
                     unsigned reason, const char *text, struct nb_failure *f) {
        char message[EVENT_TEXT_MAX];
        int r;

        if (record->controller->settings.is_dry_run) {
                snprintf(message, sizeof(message), "Dry run: the request would be %s. %s",
                         reason == 0 ? "approved" : "denied", text);
                return nb_decision_leave(record, reason, NB_PAUSE_LONG, message);
        }
        if (!record->is_approving)
                record->look_ms = nb_now_ms() + LOOK_MS;
        r = nb_csr_decide(&record->controller->admin, request, reason == 0 ? "Approved" : "Denied",
                          nb_controller_reason(record->kind, reason), text, f);
        record->is_approving = reason == 0 && r == -EINPROGRESS && f->code == NB_NONE;
        if (r <= 0)
                return r < 0 ? r : -EAGAIN;
        if (reason == 0)
                nb_log(LOG_INFO, NB_ADMIN_APPROVED, "approved CSR %s: %s", record->name, text);
        else
                r = nb_decision_tell(record, reason, NB_ADMIN_DENIED, text);
        if (r < 0)
                return r;
        nb_metrics_decide(record, reason);
        if (reason == 0)
                nb_controller_note_approval(record);
        return 0;
}

int nb_decision_leave(struct nb_request_record *record, unsigned reason, enum nb_pause pause,
                      const char *text) {
        int r = 0;

        if (pause != NB_PAUSE_SILENT || record->n_waits >= UNREPORTED_WAITS)
                r = nb_decision_tell(record, reason, NB_ADMIN_LEFT_PENDING, text);
        if (r < 0)
                return r;
        nb_metrics_decide(record, reason);
        return pause == NB_PAUSE_LONG ? nb_decision_wait(record, NB_EVENTS_REPEAT_MS)
                                      : nb_decision_wait_longer(record);
}

int nb_decision_wait(struct nb_request_record *record, uint64_t after_ms) {
        record->is_waiting = true;
        nb_controller_queue(record->controller, &record->work, nb_now_ms() + after_ms);
        return 0;
}

int nb_decision_wait_longer(struct nb_request_record *record) {
        return nb_decision_wait(
                record, nb_backoff_ms(record->n_waits++, WAIT_FIRST_MS, WAIT_CAP_MS, nb_random()));
}
