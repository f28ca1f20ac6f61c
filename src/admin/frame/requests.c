/* SPDX-License-Identifier: Apache-2.0 */

/* What the watches of requests tell, and what a decision reads of one. */

#include <stdio.h>
#include <string.h>

#include "admin/client/facts.h"
#include "admin/frame/controller.h"
#include "admin/frame/enrolled.h"
#include "base/macro.h"
#include "os/clock.h"
#include "systemd/log.h"

/* A request may be approved before the watch of the tokens shows its token. Most requests without a
 * token are old, though. */
#define TOKEN_LAG_MS 2000

/* An older request of a token that is not known has nothing to revoke. */
#define TOKEN_SEEN_SEC 60

/* The token of a request that was approved, or has claimed it, is claimed and revoked, by whichever
 * controller leads then. Of a token that is long gone, there is nothing to do. */
static void delete_request(struct nb_request_record *record) {
        struct nb_controller *controller = record->controller;
        const time_t now = nb_admin_time(&controller->admin);
        const bool has_token = nb_controller_find_token(controller, record->token_id);
        const bool is_user = record->kind == NB_NODE_REQUEST_CLIENT &&
                             (record->state == NB_CSR_STATE_APPROVED || record->claimed_uid[0]);

        record->is_gone = true;
        if (record->work.slot)
                record->work.is_changed = true;
        else if (is_user && has_token)
                nb_request_queue(record, 0);
        else if (is_user && now < record->created + TOKEN_SEEN_SEC)
                nb_request_queue(record, TOKEN_LAG_MS);
        else
                nb_controller_drop_request(record);
}

/* The requests of one party take turns with those of others. A fleet may share an enrolled token,
 * so the node that the request names counts as well. A bound token is for one node: other names,
 * which a thief can invent, would be turns for nothing. */
static int set_flow(struct nb_request_record *record, const struct nb_node_request *request) {
        struct nb_controller *controller = record->controller;
        char flow[sizeof(request->username) + sizeof(request->node) + 1];

        record->work.is_last = false;
        if (request->state != NB_CSR_STATE_PENDING)
                return nb_work_set_flow(&controller->queue, &record->work, NB_REQUEST_FOLLOW_UPS);
        record->work.is_last = request->kind == NB_NODE_REQUEST_CLIENT &&
                               nb_enrolled_lacks_proof(controller, request);
        snprintf(flow, sizeof(flow), "%s %s", request->username,
                 request->is_in_enrolled_group ? request->node : "");
        return nb_work_set_flow(&controller->queue, &record->work, flow);
}

/* Returns whether the request has another state than before, or a certificate. */
static bool update_record(struct nb_request_record *record, const struct nb_node_request *request) {
        const bool is_decided = record->state != request->state;
        const bool is_changed = is_decided || record->has_certificate != request->has_certificate;

        record->state = request->state;
        record->is_seen_pending |= request->state == NB_CSR_STATE_PENDING;
        record->has_certificate = request->has_certificate;
        record->is_in_bound_group = request->is_in_bound_group;
        record->is_in_enrolled_group = request->is_in_enrolled_group;
        record->created = request->created;
        record->approved = request->approved;
        if (record->has_certificate && record->grace.issued_ms == 0)
                record->grace.issued_ms = nb_now_ms();
        memcpy(record->key, request->facts.key, sizeof(record->key));
        if (is_decided) {
                /* What is wrong with it is told again: somebody may approve it nevertheless. */
                memset(record->reports, 0, sizeof(record->reports));
                nb_request_link(record);
                nb_queue_remove(&record->controller->queue, &record->work);
                (void)set_flow(record, request);
        }
        return is_changed;
}

/* A request with an unbound token, which kube-controller-manager approves at once if it does. */
static bool is_counted(const struct nb_node_request *request) {
        return request->state == NB_CSR_STATE_PENDING && request->token_id[0];
}

int nb_controller_take_request(struct nb_request_record *record, struct nb_plan *plan,
                               struct nb_node_request *ret_request, struct nb_failure *f) {
        struct nb_controller *controller = record->controller;
        int r = nb_facts_take_request(plan, &controller->admin, ret_request, f);

        if (r < 0)
                return r;
        /* Its deletion may have been seen since it was read. */
        record->is_gone |= r == 0 || strcmp(ret_request->uid, record->record.key) != 0;
        if (record->is_gone)
                return 0;
        if (!controller->deciders[record->kind]->is_wanted(controller, ret_request)) {
                record->is_others = is_counted(ret_request);
                return 0;
        }
        update_record(record, ret_request);
        return 1;
}

static void write_request(struct nb_controller *controller, struct nb_request_record *record,
                          const struct nb_node_request *request, bool is_wanted) {
        bool is_changed = !record;

        if (!record) {
                record = nb_controller_add_request(controller, request->kind, request->uid,
                                                   request->name, request->node, request->token_id);
                if (!record || set_flow(record, request) < 0) {
                        nb_log(LOG_ERR, NB_NONE, "CSR %s: memory ran out", request->name);
                        return;
                }
        }
        (void)nb_records_put(nb_request_siblings(record), record->record.key, sizeof(*record));
        is_changed |= update_record(record, request) || record->is_others;
        record->is_others = !is_wanted;
        if (!is_wanted)
                return;
        /* The approval whose answer is awaited is no news. */
        if (record->is_approving && record->state == NB_CSR_STATE_APPROVED &&
            !record->has_certificate)
                return;
        if (is_changed) {
                record->n_waits = 0;
                nb_request_queue(record, record->state == NB_CSR_STATE_APPROVED &&
                                                         !nb_controller_find_token(controller,
                                                                                   record->token_id)
                                                 ? TOKEN_LAG_MS
                                                 : 0);
        }
}

void nb_requests_on_object(void *userdata, struct nb_json *object, enum nb_change change) {
        struct nb_controller *controller = userdata;
        _cleanup_(nb_node_request_done) struct nb_node_request request = { 0 };
        struct nb_request_record *record;
        bool is_wanted, is_known;

        nb_node_request_read(object, &request);
        if (object->r < 0 || request.kind == NB_NODE_REQUEST_OTHER)
                return;
        record = nb_records_find(&controller->requests[request.kind], request.uid);
        is_wanted = controller->deciders[request.kind]->is_wanted(controller, &request);
        is_known = is_wanted || is_counted(&request);
        /* One that was approved and deleted at once has used its token as well. */
        if (is_known &&
            (change != NB_CHANGE_DELETED || record || request.state == NB_CSR_STATE_APPROVED)) {
                write_request(controller, record, &request, is_wanted);
                record = nb_records_find(&controller->requests[request.kind], request.uid);
        }
        if (!record)
                return;
        if (change == NB_CHANGE_DELETED)
                delete_request(record);
        else if (!is_known && record->work.slot)
                record->work.is_changed = true;
        else if (!is_known && !record->is_unanswered)
                nb_controller_drop_request(record);
}

static void sweep_request(void *userdata _unused_, struct nb_record *swept) {
        struct nb_request_record *record = (struct nb_request_record *)swept;

        if (!record->is_gone)
                delete_request(record);
}

void nb_requests_on_client_list(void *userdata, bool is_complete) {
        struct nb_controller *controller = userdata;

        nb_records_list(&controller->requests[NB_NODE_REQUEST_CLIENT], is_complete, sweep_request,
                        NULL);
}

void nb_requests_on_serving_list(void *userdata, bool is_complete) {
        struct nb_controller *controller = userdata;

        nb_records_list(&controller->requests[NB_NODE_REQUEST_SERVING], is_complete, sweep_request,
                        NULL);
}
