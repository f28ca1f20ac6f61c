/* SPDX-License-Identifier: Apache-2.0 */

/* Approves requests for serving certificates of kubelets by the rules of serving_policy.h. Other
 * requests stay pending, with an Event that states the reason. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/client/facts.h"
#include "admin/controller/controller.h"
#include "admin/controller/events.h"
#include "admin/controller/metrics.h"
#include "base/macro.h"
#include "system/clock.h"
#include "system/log.h"

#define WAIT_FIRST_MS 1000
#define WAIT_CAP_MS ((uint64_t)5 * 60 * 1000)
/* The status of a new Node may be a few seconds behind, which needs no Event. */
#define WAITS_UNREPORTED 2
#define ALLOWED "all names in the request are allowed to this node"

/* One snapshot for all requests, which wait while it is read. */
struct serving {
        struct nb_controller *controller;
        struct nb_hosts hosts;   /* the last one that is complete */
        struct nb_hosts reading; /* the next one */
        struct nb_work work;
};

static bool is_snapshot_fresh(const struct serving *serving) {
        return serving->hosts.read_ms > 0 &&
               nb_now_ms() - serving->hosts.read_ms <= NB_HOSTS_AGE_MAX_MS;
}

static int read_snapshot(void *userdata, struct nb_work *work _unused_, struct nb_failure *f) {
        struct serving *serving = userdata;
        struct nb_controller *controller = serving->controller;
        const struct nb_records *requests = &controller->requests[NB_NODE_REQUEST_SERVING];
        int r;

        if (!nb_exchange_has_calls(controller->admin.exchange))
                nb_hosts_done(&serving->reading);
        r = nb_facts_read_hosts(&controller->admin, &serving->reading, f);
        if (r < 0)
                return r;
        nb_hosts_done(&serving->hosts);
        serving->hosts = TAKE(serving->reading);
        for (size_t i = 0; i < requests->n; i++) {
                struct nb_request_record *record = (struct nb_request_record *)requests->records[i];

                if (record->is_waiting && !record->work.heap)
                        nb_controller_queue(controller, &record->work, nb_now_ms());
        }
        return 0;
}

/* The request runs again when the snapshot is there. */
static int wait_for_snapshot(struct serving *serving, struct nb_request_record *record) {
        record->is_waiting = true;
        if (!serving->work.heap && !serving->work.slot)
                nb_controller_queue(serving->controller, &serving->work, nb_now_ms());
        return 0;
}

/* --- The decision --- */

/* Reports the verdict in an Event, and leaves the request as it is. */
static int tell(struct nb_controller *controller, struct nb_request_record *record,
                enum nb_serving_verdict verdict, const char *what, const char *reason) {
        char message[NB_SERVING_REASON_SIZE + 64];
        const struct nb_event event = { .bit = 1U << verdict,
                                        .code = NB_ADMIN_LEFT_PENDING,
                                        .reason = nb_serving_verdict_name(verdict),
                                        .message = message };
        int r;

        snprintf(message, sizeof(message), "%s: %s", what, reason);
        r = nb_event_tell(controller, record, &event);
        if (r >= 0)
                nb_metrics_decide(controller, record,
                                  verdict == NB_SERVING_APPROVED ? NB_DECISION_APPROVED
                                                                 : NB_DECISION_PENDING,
                                  event.reason);
        return r;
}

/* The snapshot may change until the answer arrives, but the decision does not. */
static int approve(struct nb_controller *controller, struct nb_request_record *record,
                   const struct nb_node_request *request, struct nb_failure *f) {
        int r = nb_csr_decide(&controller->admin, request, "Approved",
                              nb_serving_verdict_name(NB_SERVING_APPROVED), ALLOWED, f);

        record->is_approving = r == -EINPROGRESS && f->code == NB_NONE;
        if (r <= 0)
                return r < 0 ? r : -EAGAIN;
        nb_log(LOG_INFO, NB_ADMIN_APPROVED, "approved CSR %s: serving certificate of node %s",
               record->name, record->node);
        nb_metrics_decide(controller, record, NB_DECISION_APPROVED,
                          nb_serving_verdict_name(NB_SERVING_APPROVED));
        return 0;
}

static int act(struct nb_controller *controller, struct nb_request_record *record,
               enum nb_serving_verdict verdict, const struct nb_node_request *request,
               const char *reason, struct nb_failure *f) {
        uint64_t after_ms = NB_EVENTS_REPEAT_MS;
        int r = 0;

        if (verdict == NB_SERVING_APPROVED && controller->settings.is_dry_run)
                r = tell(controller, record, verdict, "dry run: the request would be approved",
                         ALLOWED);
        else if (verdict == NB_SERVING_APPROVED)
                return approve(controller, record, request, f);
        else if (verdict < NB_SERVING_NO_NODE || record->n_waits >= WAITS_UNREPORTED)
                r = tell(controller, record, verdict, "the serving certificate is not approved",
                         reason);
        if (r < 0)
                return r;
        if (verdict > NB_SERVING_MALFORMED)
                after_ms = nb_backoff_ms(record->n_waits++, WAIT_FIRST_MS, WAIT_CAP_MS,
                                         nb_random());
        record->is_waiting = true;
        nb_controller_queue(controller, &record->work, nb_now_ms() + after_ms);
        return 0;
}

static int run_request(void *userdata, struct nb_work *work _unused_, struct nb_failure *f) {
        struct nb_request_record *record = userdata;
        struct nb_controller *controller = record->controller;
        struct serving *serving = controller->approver_serving;
        _cleanup_(nb_node_request_done) struct nb_node_request request = { 0 };
        struct nb_serving_look look = { 0 };
        char reason[NB_SERVING_REASON_SIZE];
        int r;

        /* A flaw needs no other facts. */
        if (!record->has_flaw && !is_snapshot_fresh(serving) &&
            !nb_exchange_has_calls(controller->admin.exchange))
                return wait_for_snapshot(serving, record);
        record->is_waiting = false;
        r = nb_controller_read_request(controller, record, &request, f);
        if (r < 0)
                return r;
        if (r == 0 || request.state != NB_CSR_STATE_PENDING) {
                nb_controller_drop_request(controller, record);
                return 0;
        }
        nb_log_field(NB_FIELD_CSR, "%s", record->name);
        nb_log_field(NB_FIELD_NODE, "%s", request.node);
        if (record->is_approving)
                r = NB_SERVING_APPROVED;
        else
                r = nb_serving_look(&controller->admin, &request, &serving->hosts, &look, reason,
                                    f);
        if (r >= 0)
                r = act(controller, record, (enum nb_serving_verdict)r, &request, reason, f);
        nb_log_field(NB_FIELD_CSR, NULL);
        nb_log_field(NB_FIELD_NODE, NULL);
        return r;
}

/* --- The part --- */

static bool on_request(struct nb_controller *controller, struct nb_request_record *record,
                       const struct nb_node_request *request, bool is_changed) {
        if (request->state != NB_CSR_STATE_PENDING)
                return false;
        record->work.run = run_request;
        if (is_changed) {
                record->work.attempt = record->n_waits = 0;
                nb_controller_queue(controller, &record->work, nb_now_ms());
        }
        return true;
}

static bool on_request_deleted(struct nb_controller *controller _unused_,
                               struct nb_request_record *record _unused_) {
        return false;
}

static int begin_serving(struct nb_controller *controller, struct nb_failure *f) {
        struct serving *serving = calloc(1, sizeof(*serving));

        if (!serving)
                return nb_failure_set_memory(f);
        serving->controller = controller;
        serving->work = (struct nb_work){ .run = read_snapshot, .userdata = serving };
        controller->approver_serving = serving;
        return 0;
}

static void end_serving(struct nb_controller *controller) {
        struct serving *serving = TAKE(controller->approver_serving);

        if (!serving)
                return;
        nb_controller_drop_work(controller, &serving->work);
        nb_hosts_done(&serving->hosts);
        nb_hosts_done(&serving->reading);
        free(serving);
}

const struct nb_part nb_part_approve_serving = {
        .name = "approve-serving",
        .kind = NB_NODE_REQUEST_SERVING,
        .begin = begin_serving,
        .on_request = on_request,
        .on_request_deleted = on_request_deleted,
        .end = end_serving,
};
