/* SPDX-License-Identifier: Apache-2.0 */

/* The records of requests: by their UID, by their token, and their work. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/frame/controller.h"
#include "os/clock.h"
#include "systemd/log.h"

#define NODE_PAUSE_MS 5000 /* between two decisions because of a change of the Node */

const char *nb_controller_reason(enum nb_node_request_kind kind, unsigned reason) {
        return kind == NB_NODE_REQUEST_CLIENT
                       ? nb_reason_name((enum nb_reason)reason)
                       : nb_serving_verdict_name((enum nb_serving_verdict)reason);
}

struct nb_records *nb_request_siblings(const struct nb_request_record *record) {
        return &record->controller->requests[record->kind];
}

uint32_t nb_controller_hash(const char *text) {
        uint32_t hash = 0;

        for (; *text; text++)
                hash = hash * 31 + (unsigned char)*text;
        return hash;
}

static size_t bucket_of(const char *token_id) {
        return nb_controller_hash(token_id) % NB_CONTROLLER_BUCKETS_N;
}

static void unlink_request(struct nb_request_record *record) {
        if (!record->at)
                return;
        *record->at = record->next;
        if (record->next)
                record->next->at = record->at;
        record->at = NULL;
}

/* At the beginning, or behind the approved ones, of which there are few. */
void nb_request_link(struct nb_request_record *record) {
        struct nb_request_record **at = &record->controller->by_token[bucket_of(record->token_id)];

        if (!record->token_id[0])
                return;
        unlink_request(record);
        while (record->state != NB_CSR_STATE_APPROVED && *at &&
               (*at)->state == NB_CSR_STATE_APPROVED)
                at = &(*at)->next;
        record->next = *at;
        record->at = at;
        *at = record;
        if (record->next)
                record->next->at = &record->next;
}

struct nb_request_record *nb_controller_find_users(const struct nb_controller *controller,
                                                   const char *token_id) {
        return controller->by_token[bucket_of(token_id)];
}

static void free_request(struct nb_request_record *record) {
        unlink_request(record);
        free(record->name);
        free(record->node);
        free(record->text);
        nb_records_drop(nb_request_siblings(record), &record->record);
}

static void set_log_fields(const struct nb_request_record *record) {
        nb_log_field(NB_FIELD_CSR, "%s", record->name);
        nb_log_field(NB_FIELD_NODE, "%s", record->node);
        nb_log_field(NB_FIELD_TOKEN_ID, "%s", record->token_id);
}

static void clear_log_fields(void) {
        nb_log_field(NB_FIELD_CSR, NULL);
        nb_log_field(NB_FIELD_NODE, NULL);
        nb_log_field(NB_FIELD_TOKEN_ID, NULL);
}

static int begin_request(void *userdata, struct nb_plan *plan) {
        struct nb_request_record *record = userdata;

        record->is_over = record->is_approving = false;
        return record->controller->deciders[record->kind]->begin_request(record, plan);
}

static int judge_request(void *userdata, struct nb_plan *plan, struct nb_failure *f) {
        struct nb_request_record *record = userdata;
        int r;

        set_log_fields(record);
        record->judged_ms = nb_now_ms();
        r = record->controller->deciders[record->kind]->judge_request(record, plan, f);
        clear_log_fields();
        return r;
}

static int request_written(void *userdata, struct nb_plan *plan, const struct nb_admin_call *call,
                           int r, struct nb_failure *f) {
        struct nb_request_record *record = userdata;

        set_log_fields(record);
        r = record->controller->deciders[record->kind]->written(record, plan, call, r, f);
        clear_log_fields();
        return r;
}

static void finish_request(void *userdata) {
        struct nb_request_record *record = userdata;

        if (record->is_over && !nb_work_is_queued(&record->work))
                nb_controller_drop_request(record);
}

static const struct nb_plan_steps request_steps = { begin_request, judge_request, request_written,
                                                    finish_request };

struct nb_request_record *nb_controller_add_request(struct nb_controller *controller,
                                                    enum nb_node_request_kind kind, const char *uid,
                                                    const char *name, const char *node,
                                                    const char *token_id) {
        struct nb_request_record *record = nb_records_put(&controller->requests[kind], uid,
                                                          sizeof(*record));

        if (!record)
                return NULL;
        record->name = strdup(name);
        record->node = strdup(node);
        record->controller = controller;
        record->kind = kind;
        record->work.steps = &request_steps;
        record->work.userdata = record;
        snprintf(record->token_id, sizeof(record->token_id), "%s", token_id);
        if (record->name && record->node &&
            nb_work_set_flow(&controller->queue, &record->work, NB_REQUEST_FOLLOW_UPS) >= 0) {
                nb_request_link(record);
                return record;
        }
        nb_work_done(&controller->queue, &record->work);
        free_request(record);
        return NULL;
}

void nb_controller_drop_request(struct nb_request_record *record) {
        nb_controller_drop_work(record->controller, &record->work);
        free_request(record);
}

void nb_request_queue(struct nb_request_record *record, uint64_t after_ms) {
        record->work.attempt = 0;
        nb_controller_queue(record->controller, &record->work, after_ms);
}

void nb_controller_note_approval(struct nb_request_record *record) {
        record->is_own = record->is_judged = true;
        record->state = NB_CSR_STATE_APPROVED;
        nb_request_link(record);
        (void)nb_work_set_flow(&record->controller->queue, &record->work, NB_REQUEST_FOLLOW_UPS);
}

/* --- What a request waits for --- */

/* Work that runs may have read the object before the change. */
static void wake_request(struct nb_request_record *record, enum nb_fact fact) {
        const uint64_t now_ms = nb_now_ms(), pause_ms = record->judged_ms + NODE_PAUSE_MS;
        uint64_t after_ms = 0;

        if (fact == NB_FACT_NODE)
                record->grace.look_ms = 0;
        /* The snapshot of what others have is looked at after the reads. */
        record->work.is_changed |= record->work.slot && fact != NB_FACT_HOSTS;
        if (record->work.slot || !record->is_waiting || !(record->waits_for & fact))
                return;
        /* A Node is written often, and its condition does not change each time. */
        if (fact == NB_FACT_NODE && record->state == NB_CSR_STATE_PENDING)
                after_ms = now_ms < pause_ms ? pause_ms - now_ms : 0;
        else if (fact != NB_FACT_HOSTS)
                record->n_waits = 0;
        if (fact == NB_FACT_LIMITS) {
                nb_queue_remove(&record->controller->queue, &record->work);
                record->work.is_last = false;
        }
        nb_request_queue(record, after_ms);
}

void nb_controller_wake(struct nb_controller *controller, enum nb_fact fact, const char *token_id,
                        const char *node) {
        struct nb_request_record *next = token_id ? nb_controller_find_users(controller, token_id)
                                                  : NULL;

        for (struct nb_request_record *record; (record = next);) {
                next = record->next;
                if (strcmp(record->token_id, token_id) == 0)
                        wake_request(record, fact);
        }
        for (size_t kind = 0; kind < _NB_NODE_REQUEST_KIND_N && !token_id; kind++)
                for (size_t i = 0; i < controller->requests[kind].n; i++) {
                        struct nb_request_record *record = controller->requests[kind].items[i];

                        if (!node || strcmp(record->node, node) == 0)
                                wake_request(record, fact);
                }
}
