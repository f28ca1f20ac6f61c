/* SPDX-License-Identifier: Apache-2.0 */

/* Approves requests for serving certificates of kubelets by the rules of serving_policy.h. Other
 * requests stay pending, with an Event that states the reason. */

#include <stdio.h>

#include "admin/client/facts.h"
#include "admin/controller/decision.h"
#include "base/macro.h"
#include "system/clock.h"

#define ALLOWED "All names in the request are allowed to this node"

/* --- The snapshot --- */

static int read_snapshot(void *userdata, struct nb_work *work _unused_, struct nb_failure *f) {
        struct nb_controller *controller = userdata;
        const struct nb_records *requests = &controller->requests[NB_NODE_REQUEST_SERVING];
        int r;

        if (!nb_exchange_has_calls(controller->admin.exchange))
                nb_hosts_done(&controller->next_hosts);
        r = nb_facts_read_hosts(&controller->admin, &controller->next_hosts, f);
        if (r < 0)
                return r;
        nb_hosts_done(&controller->hosts);
        controller->hosts = TAKE(controller->next_hosts);
        for (size_t i = 0; i < requests->n; i++) {
                struct nb_request_record *record = (struct nb_request_record *)requests->records[i];

                if (record->is_waiting && !record->work.heap)
                        nb_controller_queue(controller, &record->work, 0);
        }
        return 0;
}

/* The request runs again when the snapshot is there. */
static int wait_for_snapshot(struct nb_request_record *record) {
        struct nb_controller *controller = record->controller;
        struct nb_work *work = &controller->hosts_work;

        record->is_waiting = true;
        work->run = read_snapshot;
        work->userdata = controller;
        if (!work->heap && !work->slot)
                nb_controller_queue(controller, work, 0);
        return 0;
}

/* --- The decision --- */

static int run_request(struct nb_request_record *record, struct nb_failure *f) {
        struct nb_controller *controller = record->controller;
        _cleanup_(nb_node_request_done) struct nb_node_request request = { 0 };
        struct nb_serving_look look = { 0 };
        char reason[NB_SERVING_REASON_SIZE], text[NB_SERVING_REASON_SIZE + 64];
        int r;

        /* A flaw needs no other facts. */
        if (!record->has_flaw && !nb_hosts_is_fresh(&controller->hosts, nb_now_ms()) &&
            !nb_exchange_has_calls(controller->admin.exchange))
                return wait_for_snapshot(record);
        record->is_waiting = false;
        r = nb_controller_read_request(record, &request, f);
        if (r < 0)
                return r;
        if (r == 0) {
                nb_controller_drop_request(record);
                return 0;
        }
        /* The snapshot may change until the answer arrives, but the decision does not. */
        r = NB_SERVING_APPROVED;
        if (!record->is_approving)
                r = nb_serving_look(&controller->admin, &request, &controller->hosts, &look, reason,
                                    f);
        if (r < 0)
                return r;
        if (r == NB_SERVING_APPROVED)
                return nb_decision_make(record, &request, NB_SERVING_APPROVED, ALLOWED, f);
        snprintf(text, sizeof(text), "the serving certificate is not approved: %s", reason);
        return nb_decision_leave(record, (unsigned)r,
                                 r == NB_SERVING_MALFORMED ? NB_PAUSE_LONG
                                 /* The status of a new Node may be a few seconds behind. */
                                 : r >= NB_SERVING_NO_NODE ? NB_PAUSE_SILENT
                                                           : NB_PAUSE_GROWING,
                                 text);
}

static bool is_wanted(const struct nb_controller *controller _unused_,
                      const struct nb_node_request *request) {
        return request->state == NB_CSR_STATE_PENDING;
}

const struct nb_part nb_part_approve_serving = {
        .name = "approve-serving",
        .is_wanted = is_wanted,
        .run_request = run_request,
};
