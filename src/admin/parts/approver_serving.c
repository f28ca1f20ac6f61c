/* SPDX-License-Identifier: Apache-2.0 */

/* Approves requests for serving certificates of kubelets by the rules of serving_policy.h. Other
 * requests stay pending, with an Event that states the reason. */

#include <stdio.h>

#include "admin/client/facts.h"
#include "admin/parts/decision.h"
#include "admin/parts/parts.h"
#include "admin/policy/serving_policy.h"
#include "base/macro.h"
#include "os/clock.h"

#define ALLOWED "All names in the request are allowed to this node"
#define WAIT_MS 60000 /* for the snapshot, whose end wakes the request */

/* The request runs again when the snapshot is there. */
static void wait_for_snapshot(struct nb_request_record *record) {
        struct nb_controller *controller = record->controller;

        if (!controller->lists[NB_LIST_NODES].wants_list &&
            !controller->lists[NB_LIST_RECORDS].wants_list)
                nb_watch_list_again(&controller->lists[NB_LIST_NODES]);
        nb_decision_wait(record, NB_FACT_HOSTS, WAIT_MS);
}

static int begin_request(struct nb_request_record *record, struct nb_plan *plan) {
        record->is_waiting = false;
        if (nb_csr_name_is_usable(record->name))
                nb_facts_add(plan, NB_READ_REQUEST, record->name);
        nb_look_add(plan, "", record->node);
        return 0;
}

static int judge_request(struct nb_request_record *record, struct nb_plan *plan,
                         struct nb_failure *f) {
        struct nb_controller *controller = record->controller;
        _cleanup_(nb_node_request_done) struct nb_node_request request = { 0 };
        struct nb_look look = { 0 };
        char reason[NB_SERVING_REASON_SIZE], text[NB_SERVING_REASON_SIZE + 64];
        int r = 1;

        if (plan->reads[NB_READ_REQUEST].method)
                r = nb_controller_take_request(record, plan, &request, f);
        else
                nb_decision_copy(record, &request);
        if (r < 0)
                return r;
        nb_decision_confirm(record, &request);
        if (r == 0) {
                record->is_over = true;
                return 0;
        }
        r = nb_look_take(plan, &controller->admin, &request, &look, f);
        if (r < 0)
                return r;
        if (nb_hosts_is_fresh(&controller->hosts, nb_now_ms()))
                look.facts.hosts = &controller->hosts;
        r = (int)nb_serving_decide(&look.facts, reason);
        if (r == NB_SERVING_NEEDS_LIST)
                wait_for_snapshot(record);
        else if (r == NB_SERVING_APPROVED)
                nb_decision_make(record, plan, &request, NB_SERVING_APPROVED, ALLOWED);
        else {
                snprintf(text, sizeof(text), "the serving certificate is not approved: %s", reason);
                nb_decision_leave(record, plan, (unsigned)r,
                                  r == NB_SERVING_MALFORMED ? NB_PAUSE_LONG
                                  : nb_serving_is_brief((enum nb_serving_verdict)r)
                                          ? NB_PAUSE_SILENT
                                          : NB_PAUSE_GROWING,
                                  NB_FACT_LIMITS | NB_FACT_NODE, text);
        }
        return 0;
}

static int note_write(struct nb_request_record *record, struct nb_plan *plan,
                      const struct nb_admin_call *call, int r, struct nb_failure *f) {
        r = nb_decision_written(record, plan, call, r, f);
        record->is_over = r >= 0 && record->state != NB_CSR_STATE_PENDING;
        return r;
}

static bool is_wanted(const struct nb_controller *controller _unused_,
                      const struct nb_node_request *request) {
        return request->state == NB_CSR_STATE_PENDING;
}

const struct nb_part nb_part_approve_serving = {
        .name = "approve-serving",
        .kind = NB_NODE_REQUEST_SERVING,
        .is_wanted = is_wanted,
        .begin_request = begin_request,
        .judge_request = judge_request,
        .written = note_write,
};
