/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/client/facts.h"
#include "admin/frame/enrolled.h"
#include "admin/frame/metrics.h"
#include "admin/parts/decision.h"
#include "base/macro.h"
#include "os/clock.h"
#include "systemd/log.h"

/* The Node of an approved request is looked for this much later, or when the watch shows it, so
 * that a fleet costs one call for each machine. */
#define LOOK_MS 20000

#define EVENT_WHAT "creating an Event"
#define EVENT_TEXT_MAX 768
/* Kubernetes deletes an Event after an hour (--event-ttl of kube-apiserver). */
#define REPEAT_MS ((uint64_t)60 * 60 * 1000)
#define WAIT_FIRST_MS 1000
#define WAIT_CAP_MS (5 * 60 * 1000)
#define UNREPORTED_WAITS 2

/* The holder of a token cannot flood the cluster with Events, or the log. Each reason has limits of
 * its own, for client and for serving certificates, so that requests which are wrong in one way
 * hide none that is wrong in another: a thief must not hide the machine's own request. The last
 * Event before a pause says that there may be others. */
static const struct nb_report_limits limits[_NB_REPORTS_N] = {
        [NB_REPORT_EVENT] = { .repeat_ms = REPEAT_MS,
                              .of_party = { 10, 60000 },
                              .of_kind = { 1000, 1000 } },
        [NB_REPORT_LINE] = { .repeat_ms = REPEAT_MS,
                             .of_party = { 500, 1000 },
                             .of_kind = { 5000, 100 } },
};
_Static_assert((unsigned)_NB_SERVING_VERDICT_N <= (unsigned)_NB_REASON_N,
               "a limit for each reason");

#define OTHERS \
        "; further requests of the same kind get no Event for a while: see the log of the " \
        "controller"

/* --- Events --- */

/* What one party causes has limits of its own: a token, whether it still exists or not, with the
 * nodes that its holder can invent; and beside that each node that is known. */
static size_t find_party(const struct nb_request_record *record) {
        struct nb_controller *controller = record->controller;
        const struct nb_token_record *token = nb_token_record_find(&controller->tokens,
                                                                   record->token_id);
        const bool is_known = !record->token_id[0] ||
                              (token && !strcmp(token->node, record->node)) ||
                              nb_enrolled_has(controller, record->node);
        char party[NB_TOKEN_ID_LEN + NB_NODE_NAME_MAX + 2];

        snprintf(party, sizeof(party), "%s %s", record->token_id, is_known ? record->node : "");
        return nb_controller_hash(party) % NB_CONTROLLER_PARTIES_N;
}

/* As nb_reports_take(). */
static int take_report(struct nb_request_record *record, unsigned reason, unsigned kind) {
        struct nb_controller *controller = record->controller;

        return nb_reports_take(&record->reports[kind], &limits[kind],
                               &controller->parties[find_party(record)][reason][kind],
                               &controller->rates[record->kind][reason][kind], 1U << reason,
                               nb_now_ms());
}

void nb_event_add(struct nb_plan *plan, const struct nb_admin *admin,
                  const struct nb_event *event) {
        const char *namespace = event->namespace;
        char path[NB_ADMIN_PATH_MAX], now[NB_RFC3339_SIZE];
        struct nb_admin_call *call;

        snprintf(path, sizeof(path), "/api/v1/namespaces/%s/events",
                 namespace ? namespace : "default");
        call = nb_plan_write(plan, "POST", path, EVENT_WHAT);
        nb_time_format(nb_admin_time(admin), now);
        nb_json_format(&call->body,
                       "{'apiVersion':'v1','kind':'Event',"
                       "'metadata':{'generateName':'node-bootstrap-'},"
                       "'involvedObject':{'apiVersion':%s,'kind':%s,'namespace':%s,'name':%s,"
                       "'uid':%s},"
                       "'type':'Warning','reason':%s,'message':%s,'firstTimestamp':%s,"
                       "'lastTimestamp':%s,'source':{'component':'node-bootstrap-controller'}}",
                       event->api_version, event->kind, namespace, event->name, event->uid,
                       event->reason, event->text, now, now);
}

bool nb_event_is_written(const struct nb_admin_call *call, int r, struct nb_failure *f) {
        if (strcmp(call->what, EVENT_WHAT) != 0)
                return false;
        if (r < 0 && f->code != NB_NONE)
                nb_log_failure(LOG_WARNING, f);
        nb_failure_clear(f);
        return true;
}

void nb_decision_tell(struct nb_request_record *record, struct nb_plan *plan, unsigned reason,
                      enum nb_code code, const char *text) {
        struct nb_controller *controller = record->controller;
        const bool is_told = (record->reports[NB_REPORT_EVENT].told & 1U << reason) != 0;
        char message[EVENT_TEXT_MAX + sizeof(OTHERS)];
        int r;

        if (take_report(record, reason, NB_REPORT_LINE) > 0)
                nb_log(LOG_WARNING, code, "CSR %s: %s", record->name, text);
        r = take_report(record, reason, NB_REPORT_EVENT);
        if (r == 0) {
                controller->metrics.n_suppressed += !is_told;
                return;
        }
        snprintf(message, sizeof(message), "%s%s", text, r == 2 ? OTHERS : "");
        nb_event_add(plan, &controller->admin,
                     &(struct nb_event){ .api_version = "certificates.k8s.io/v1",
                                         .kind = "CertificateSigningRequest",
                                         .name = record->name,
                                         .uid = record->record.key,
                                         .reason = nb_controller_reason(record->kind, reason),
                                         .text = message });
}

/* --- Decisions --- */

void nb_decision_copy(const struct nb_request_record *record, struct nb_node_request *ret_request) {
        ret_request->kind = record->kind;
        ret_request->created = record->created;
        ret_request->is_in_bound_group = record->is_in_bound_group;
        ret_request->is_in_enrolled_group = record->is_in_enrolled_group;
        memcpy(ret_request->token_id, record->token_id, sizeof(ret_request->token_id));
        snprintf(ret_request->node, sizeof(ret_request->node), "%s", record->node);
        snprintf(ret_request->flaw, sizeof(ret_request->flaw), "its name is not usable");
}

void nb_decision_make(struct nb_request_record *record, struct nb_plan *plan,
                      const struct nb_node_request *request, unsigned reason, const char *text) {
        char message[EVENT_TEXT_MAX];

        if (record->controller->settings.is_dry_run) {
                snprintf(message, sizeof(message), "Dry run: the request would be %s. %s",
                         reason == 0 ? "approved" : "denied", text);
                nb_decision_leave(record, plan, reason, NB_PAUSE_LONG,
                                  NB_FACT_TOKEN | NB_FACT_LIMITS | NB_FACT_NODE, message);
                return;
        }
        free(record->text);
        record->text = strdup(text);
        record->decision = reason;
        record->is_approving = reason == 0;
        record->grace.look_ms = nb_now_ms() + LOOK_MS;
        nb_csr_add_decision(plan, request, reason == 0 ? "Approved" : "Denied",
                            nb_controller_reason(record->kind, reason), text);
}

static void note_approval(struct nb_request_record *record) {
        _cleanup_(nb_freep) char *text = TAKE(record->text);

        nb_metrics_decide(record, 0);
        nb_log(LOG_INFO, NB_ADMIN_APPROVED, "approved CSR %s: %s", record->name, text ? text : "");
        nb_controller_note_approval(record);
}

int nb_decision_written(struct nb_request_record *record, struct nb_plan *plan,
                        const struct nb_admin_call *call, int r, struct nb_failure *f) {
        _cleanup_(nb_freep) char *text = NULL;

        if (nb_event_is_written(call, r, f))
                return 0;
        if (strcmp(call->method, "PATCH") != 0)
                return r;
        record->is_approving = false;
        record->is_unanswered = record->decision == 0 && (r < 0 || r >= 300);
        if (r < 0 || r >= 300)
                return r < 0 ? r : -EAGAIN;
        if (record->decision == 0) {
                note_approval(record);
                return 0;
        }
        text = TAKE(record->text);
        nb_metrics_decide(record, record->decision);
        nb_decision_tell(record, plan, record->decision, NB_ADMIN_DENIED, text ? text : "");
        return 0;
}

void nb_decision_confirm(struct nb_request_record *record, const struct nb_node_request *request) {
        /* Another request may have its name. */
        if (TAKE(record->is_unanswered) && !record->is_gone && request->is_approved_by_controller)
                note_approval(record);
}

void nb_decision_leave(struct nb_request_record *record, struct nb_plan *plan, unsigned reason,
                       enum nb_pause pause, unsigned facts, const char *text) {
        if (pause != NB_PAUSE_SILENT || record->n_waits >= UNREPORTED_WAITS)
                nb_decision_tell(record, plan, reason, NB_ADMIN_LEFT_PENDING, text);
        nb_metrics_decide(record, reason);
        if (pause == NB_PAUSE_LONG)
                nb_decision_wait(record, facts, REPEAT_MS);
        else
                nb_decision_wait_longer(record, facts);
}

void nb_decision_wait(struct nb_request_record *record, unsigned facts, uint64_t after_ms) {
        record->is_waiting = true;
        record->waits_for = facts;
        nb_work_again(&record->work, after_ms);
}

void nb_decision_wait_longer(struct nb_request_record *record, unsigned facts) {
        nb_decision_wait(record, facts,
                         nb_backoff_ms(record->n_waits++, WAIT_FIRST_MS, WAIT_CAP_MS, nb_random()));
}
