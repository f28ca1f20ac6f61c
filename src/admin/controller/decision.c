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
/* Kubernetes deletes an Event after an hour (--event-ttl of kube-apiserver). */
#define REPEAT_MS ((uint64_t)60 * 60 * 1000)
#define WAIT_FIRST_MS 1000
#define WAIT_CAP_MS (5 * 60 * 1000)
#define UNREPORTED_WAITS 2

/* The holder of a token cannot flood the cluster with Events. All requests for client certificates
 * together have a limit of their own, and so have those for serving certificates. */
static const struct nb_report_limits report_limits = { .repeat_ms = REPEAT_MS,
                                                       .of_token = { 10, 60000 },
                                                       .of_kind = { 200, 1000 } };

/* --- Events --- */

static int create_event(const struct nb_request_record *record, unsigned reason, const char *text) {
        _cleanup_(nb_buffer_done) struct nb_buffer body = NB_BUFFER_INIT(EVENT_MAX);
        struct nb_failure f = { 0 };
        char now[NB_RFC3339_SIZE];
        int r;

        nb_time_format(time(NULL), now);
        nb_json_format(&body,
                       "{'apiVersion':'v1','kind':'Event',"
                       "'metadata':{'generateName':'node-bootstrap-'},"
                       "'involvedObject':{'apiVersion':'certificates.k8s.io/v1',"
                       "'kind':'CertificateSigningRequest','name':%s,'uid':%s},"
                       "'type':'Warning','reason':%s,'message':%s,'firstTimestamp':%s,"
                       "'lastTimestamp':%s,'source':{'component':'node-bootstrap-controller'}}",
                       record->name, record->uid, nb_controller_reason(record->kind, reason), text,
                       now, now);
        r = nb_admin_send(&record->controller->admin, "POST", "creating an Event", EVENTS_PATH,
                          &body, NULL, &f);
        if (r < 0 && f.code == NB_NONE)
                return r;
        if (r < 0)
                nb_log_failure(LOG_WARNING, &f);
        return 0;
}

int nb_decision_tell(struct nb_request_record *record, unsigned reason, enum nb_code code,
                     const char *text) {
        struct nb_controller *controller = record->controller;
        struct nb_token_record *token = nb_controller_find_token(controller, record->token_id);
        const unsigned bit = 1U << reason;
        int r;

        if (!nb_reports_begin(&record->reports, &report_limits, token ? &token->reports : NULL,
                              &controller->reports[record->kind], bit, nb_now_ms()))
                return 0;
        r = create_event(record, reason, text);
        if (r < 0)
                return r;
        nb_reports_done(&record->reports, bit, nb_now_ms());
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
                record->grace.look_ms = nb_now_ms() + LOOK_MS;
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
        return pause == NB_PAUSE_LONG ? nb_decision_wait(record, REPEAT_MS)
                                      : nb_decision_wait_longer(record);
}

int nb_decision_wait(struct nb_request_record *record, uint64_t after_ms) {
        record->is_waiting = true;
        nb_controller_queue(record->controller, &record->work, after_ms);
        return 0;
}

int nb_decision_wait_longer(struct nb_request_record *record) {
        return nb_decision_wait(
                record, nb_backoff_ms(record->n_waits++, WAIT_FIRST_MS, WAIT_CAP_MS, nb_random()));
}
