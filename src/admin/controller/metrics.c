/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "admin/controller/metrics.h"
#include "admin/policy/verdict.h"
#include "base/macro.h"
#include "net/http.h"
#include "system/log.h"

#define PREFIX "node_bootstrap_controller_"

static const char *const kind_names[_NB_NODE_REQUEST_KIND_N] = {
        [NB_NODE_REQUEST_CLIENT] = "client",
        [NB_NODE_REQUEST_SERVING] = "serving",
};

static const char *const decision_names[_NB_DECISION_N] = {
        [NB_DECISION_APPROVED] = "approved",
        [NB_DECISION_DENIED] = "denied",
        [NB_DECISION_PENDING] = "pending",
};

/* In seconds. creationTimestamp has whole seconds. */
static const unsigned bucket_ends[NB_METRICS_BUCKETS_N] = { 1, 2, 5, 10, 30, 60, 300, 1800, 7200 };

/* --- Counting --- */

static struct nb_decision_count *find_count(struct nb_metrics *metrics,
                                            enum nb_node_request_kind kind,
                                            enum nb_decision decision, const char *reason) {
        struct nb_decision_count *count = metrics->decisions;
        const struct nb_decision_count *end = count + metrics->n_decisions;

        for (; count < end; count++)
                if (count->kind == kind && count->decision == decision &&
                    strcmp(count->reason, reason) == 0)
                        return count;
        if (metrics->n_decisions == NB_METRICS_DECISIONS_MAX)
                return NULL;
        metrics->n_decisions++;
        *count = (struct nb_decision_count){ kind, decision, reason, 0 };
        return count;
}

void nb_metrics_init(struct nb_controller *controller) {
        const enum nb_decision decisions[] = {
                [NB_VERDICT_APPROVE] = NB_DECISION_APPROVED,
                [NB_VERDICT_WAIT] = NB_DECISION_PENDING,
                [NB_VERDICT_REFUSE] = controller->settings.is_denying ? NB_DECISION_DENIED
                                                                      : NB_DECISION_PENDING,
        };

        for (enum nb_reason i = NB_REASON_NONE; i < _NB_REASON_N; i++)
                if (nb_reason_verdict(i) != NB_VERDICT_IGNORE)
                        (void)find_count(&controller->metrics, NB_NODE_REQUEST_CLIENT,
                                         decisions[nb_reason_verdict(i)], nb_reason_name(i));
}

static void count_duration(struct nb_duration_count *count, time_t created) {
        time_t now = time(NULL);
        uint64_t seconds = now > created ? (uint64_t)(now - created) : 0;

        if (created == 0)
                return;
        for (size_t i = 0; i < N_ELEMENTS(bucket_ends); i++)
                count->buckets[i] += seconds <= bucket_ends[i];
        count->n++;
        count->sum += seconds;
}

void nb_metrics_decide(struct nb_controller *controller, struct nb_request_record *record,
                       enum nb_decision decision, const char *reason) {
        struct nb_metrics *metrics = &controller->metrics;
        struct nb_decision_count *count;

        if (record->reason == reason)
                return;
        record->reason = reason;
        count = find_count(metrics, record->kind, decision, reason);
        if (count)
                count->n++;
        if (decision == NB_DECISION_PENDING) {
                nb_controller_note(controller, "left %s pending", record->name);
                return;
        }
        count_duration(&metrics->durations[record->kind], record->created);
        metrics->n_approved += decision == NB_DECISION_APPROVED;
        nb_controller_note(controller, "%s %s", decision_names[decision],
                           decision == NB_DECISION_APPROVED &&
                                           record->kind == NB_NODE_REQUEST_CLIENT
                                   ? record->node
                                   : record->name);
}

/* --- Text --- */

struct pending {
        size_t n[_NB_NODE_REQUEST_KIND_N];
        time_t oldest; /* 0: none */
};

static void count_pending(const struct nb_records *requests, struct pending *pending) {
        for (size_t i = 0; i < requests->n; i++) {
                const struct nb_request_record *record = (const struct nb_request_record *)
                                                                 requests->records[i];

                if (record->state != NB_CSR_STATE_PENDING)
                        continue;
                pending->n[record->kind]++;
                if (record->created != 0 &&
                    (pending->oldest == 0 || record->created < pending->oldest))
                        pending->oldest = record->created;
        }
}

static struct pending find_pending(const struct nb_controller *controller) {
        struct pending pending = { 0 };

        for (size_t i = 0; i < _NB_NODE_REQUEST_KIND_N; i++)
                count_pending(&controller->requests[i], &pending);
        return pending;
}

static void put_head(struct nb_buffer *text, const char *name, const char *type, const char *help) {
        nb_buffer_printf(text, "# HELP " PREFIX "%s %s\n# TYPE " PREFIX "%s %s\n", name, help, name,
                         type);
}

static void put_decisions(struct nb_buffer *text, const struct nb_metrics *metrics) {
        put_head(text, "decisions_total", "counter",
                 "Decisions on requests, a pending request once for each reason.");
        for (unsigned i = 0; i < metrics->n_decisions; i++) {
                const struct nb_decision_count *count = &metrics->decisions[i];

                nb_buffer_printf(
                        text,
                        PREFIX "decisions_total{kind=\"%s\",decision=\"%s\",reason=\"%s\"} %llu\n",
                        kind_names[count->kind], decision_names[count->decision], count->reason,
                        count->n);
        }
}

static void put_durations(struct nb_buffer *text, const struct nb_metrics *metrics) {
        static const char name[] = PREFIX "decision_duration_seconds";

        put_head(text, "decision_duration_seconds", "histogram",
                 "Time from the creation of a request to its approval or denial.");
        for (size_t i = NB_NODE_REQUEST_CLIENT; i < _NB_NODE_REQUEST_KIND_N; i++) {
                const struct nb_duration_count *count = &metrics->durations[i];
                const char *kind = kind_names[i];

                for (size_t k = 0; k < N_ELEMENTS(bucket_ends); k++)
                        nb_buffer_printf(text, "%s_bucket{kind=\"%s\",le=\"%u\"} %llu\n", name,
                                         kind, bucket_ends[k], count->buckets[k]);
                nb_buffer_printf(text, "%s_bucket{kind=\"%s\",le=\"+Inf\"} %llu\n", name, kind,
                                 count->n);
                nb_buffer_printf(text, "%s_sum{kind=\"%s\"} %llu\n", name, kind, count->sum);
                nb_buffer_printf(text, "%s_count{kind=\"%s\"} %llu\n", name, kind, count->n);
        }
}

static void put_pending(struct nb_buffer *text, const struct pending *pending) {
        put_head(text, "pending_requests", "gauge", "Requests that are not decided.");
        for (size_t i = NB_NODE_REQUEST_CLIENT; i < _NB_NODE_REQUEST_KIND_N; i++)
                nb_buffer_printf(text, PREFIX "pending_requests{kind=\"%s\"} %zu\n", kind_names[i],
                                 pending->n[i]);
        put_head(text, "oldest_pending_request_timestamp_seconds", "gauge",
                 "When the oldest of them was created; absent without one.");
        if (pending->oldest > 0)
                nb_buffer_printf(text, PREFIX "oldest_pending_request_timestamp_seconds %lld\n",
                                 (long long)pending->oldest);
}

static void put_connections(struct nb_buffer *text, const struct nb_controller *controller) {
        const struct nb_admin *admin = &controller->admin;

        put_head(text, "api_requests_total", "counter",
                 "Requests to the API server by status; 0: no answer.");
        for (size_t i = 0; i < N_ELEMENTS(admin->n_answers); i++)
                if (i == 0 || admin->n_answers[i] > 0)
                        nb_buffer_printf(text, PREFIX "api_requests_total{code=\"%zu\"} %llu\n", i,
                                         admin->n_answers[i]);
        put_head(text, "watch_restarts_total", "counter", "Watches that failed.");
        for (size_t i = 0; i < controller->n_watches; i++)
                nb_buffer_printf(text, PREFIX "watch_restarts_total{objects=\"%s\"} %llu\n",
                                 controller->watches[i].kind->what,
                                 (unsigned long long)controller->watches[i].n_restarts);
        put_head(text, "landlock", "gauge",
                 "Whether Landlock restricts the processes of connections.");
        nb_buffer_printf(text, PREFIX "landlock %d\n", nb_http_has_landlock());
}

void nb_metrics_format(const struct nb_controller *controller, struct nb_buffer *text) {
        struct pending pending = find_pending(controller);

        put_head(text, "build_info", "gauge", "The version of node-bootstrap-admin.");
        nb_buffer_append_string(text, PREFIX "build_info{version=\"" NB_VERSION "\"} 1\n");
        put_head(text, "leader", "gauge", "Whether this controller acts.");
        nb_buffer_printf(text, PREFIX "leader %d\n", controller->is_leading);
        put_decisions(text, &controller->metrics);
        put_durations(text, &controller->metrics);
        put_head(text, "approved_by_others_total", "counter",
                 "Requests by bound and enrolled tokens that something else approved.");
        nb_buffer_printf(text, PREFIX "approved_by_others_total %llu\n",
                         controller->metrics.n_approved_by_others);
        put_pending(text, &pending);
        put_connections(text, controller);
}

/* --- Reports --- */

/* What prevents the controller from acting; NULL if nothing does. */
static const struct nb_failure *find_failure(const struct nb_controller *controller) {
        for (size_t i = 0; i < controller->n_watches; i++)
                if (controller->watches[i].failure.code != NB_NONE)
                        return &controller->watches[i].failure;
        return controller->lease_failure.code != NB_NONE ? &controller->lease_failure : NULL;
}

static void report_status(const struct nb_controller *controller) {
        const struct nb_failure *f = find_failure(controller);
        struct pending pending = find_pending(controller);

        if (f) {
                nb_log_status("Trying again: %s", f->detail);
                return;
        }
        nb_log_status("%s; %zu pending, %zu tokens, %llu approved%s%s",
                      controller->is_leading      ? "Leader"
                      : controller->lease.is_held ? "Starting"
                                                  : "Standby",
                      pending.n[NB_NODE_REQUEST_CLIENT] + pending.n[NB_NODE_REQUEST_SERVING],
                      controller->tokens.n, controller->metrics.n_approved,
                      controller->last[0] ? "; last: " : "", controller->last);
}

static void serve(const struct nb_controller *controller) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_METRICS_MAX);
        const char *unready = NULL;

        for (size_t i = 0; i < controller->n_watches && !unready; i++) {
                const struct nb_watch *watch = &controller->watches[i];

                if (!watch->is_listed || watch->failure.code != NB_NONE)
                        unready = watch->kind->what;
        }
        nb_metrics_format(controller, &text);
        nb_monitor_publish(controller->monitor, &text, unready);
}

void nb_metrics_report(struct nb_controller *controller, uint64_t now_ms) {
        bool is_changed = controller->is_changed;

        if (now_ms < controller->report_ms || (!is_changed && !controller->monitor))
                return;
        controller->is_changed = false;
        controller->report_ms = now_ms + NB_REPORT_INTERVAL_MS;
        if (is_changed)
                report_status(controller);
        if (controller->monitor)
                serve(controller);
}
