/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "admin/frame/metrics.h"
#include "base/encoding.h"
#include "base/macro.h"
#include "crypto/certificate.h"
#include "http/http.h"
#include "os/clock.h"
#include "systemd/log.h"

#define TOKEN_MAX ((size_t)64 * 1024)
#define PREFIX "node_bootstrap_controller_"

/* In seconds. creationTimestamp has whole seconds. */
static const unsigned bucket_ends[NB_METRICS_BUCKETS_N] = { 1, 2, 5, 10, 30, 60, 300, 1800, 7200 };

/* --- Counting --- */

static const char *decision_of(const struct nb_controller *controller,
                               enum nb_node_request_kind kind, unsigned reason) {
        if (reason == 0)
                return "approved";
        return kind == NB_NODE_REQUEST_CLIENT && controller->settings.is_denying &&
                               nb_reason_verdict((enum nb_reason)reason) == NB_VERDICT_REFUSE
                       ? "denied"
                       : "pending";
}

static void count_duration(struct nb_kind_metrics *metrics, time_t created, time_t now) {
        uint64_t seconds = now > created ? (uint64_t)(now - created) : 0;

        if (created == 0)
                return;
        for (size_t i = 0; i < N_ELEMENTS(bucket_ends); i++)
                metrics->buckets[i] += seconds <= bucket_ends[i];
        metrics->n++;
        metrics->sum += seconds;
}

void nb_metrics_decide(struct nb_request_record *record, unsigned reason) {
        struct nb_controller *controller = record->controller;
        struct nb_kind_metrics *metrics = &controller->metrics.kinds[record->kind];

        if (record->counted & 1U << reason)
                return;
        record->counted |= 1U << reason;
        metrics->decisions[reason]++;
        if (strcmp(decision_of(controller, record->kind, reason), "pending") != 0)
                count_duration(metrics, record->created, nb_admin_time(&controller->admin));
}

/* --- The credential --- */

/* "exp" of a token that is a JWT (RFC 7519): of a ServiceAccount. 0: none. */
static time_t find_token_expiry(const struct nb_secret *token) {
        const char *begin = strchr(token->data, '.'), *end = begin ? strchr(begin + 1, '.') : NULL;
        _cleanup_(nb_buffer_done) struct nb_buffer base64 = NB_BUFFER_INIT(TOKEN_MAX);
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(TOKEN_MAX);
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        struct nb_failure ignored = { 0 };
        time_t expires;

        if (!end)
                return 0;
        nb_buffer_append(&base64, begin + 1, (size_t)(end - begin) - 1);
        while (base64.error == 0 && base64.len % 4 != 0)
                nb_buffer_append_string(&base64, "=");
        for (char *at = base64.data; base64.error == 0 && *at; at++)
                *at = *at == '-' ? '+' : *at == '_' ? '/' : *at;
        if (base64.error < 0 || nb_base64_decode(base64.data, base64.len, &text) < 0)
                return 0;
        json = nb_json_parse(text.data, text.len, "the token", NB_ANSWER_MALFORMED, &ignored);
        expires = (time_t)nb_json_integer(&json, "exp");
        return json.r < 0 ? 0 : expires;
}

static time_t find_expiry(const struct nb_identity *identity) {
        _cleanup_(nb_certificates_freep) struct nb_certificates *certificates = NULL;

        if (identity->kind == NB_IDENTITY_TOKEN && identity->secret.data)
                return find_token_expiry(&identity->secret);
        if (identity->kind != NB_IDENTITY_CERTIFICATE ||
            nb_certificates_parse(identity->certificate.data, identity->certificate.len, true,
                                  &certificates) < 0)
                return 0;
        return nb_certificate_not_after(certificates, 0);
}

/* --- Text --- */

struct pending {
        size_t n[_NB_NODE_REQUEST_KIND_N];
        time_t oldest; /* 0: none */
};

static struct pending find_pending(const struct nb_controller *controller) {
        struct pending pending = { 0 };

        for (size_t kind = 0; kind < _NB_NODE_REQUEST_KIND_N; kind++)
                for (size_t i = 0; i < controller->requests[kind].n; i++) {
                        const struct nb_request_record *record =
                                controller->requests[kind].items[i];

                        if (record->state != NB_CSR_STATE_PENDING)
                                continue;
                        pending.n[kind]++;
                        if (record->created != 0 &&
                            (pending.oldest == 0 || record->created < pending.oldest))
                                pending.oldest = record->created;
                }
        return pending;
}

static void put_head(struct nb_buffer *text, const char *name, const char *type, const char *help) {
        nb_buffer_printf(text, "# HELP " PREFIX "%s %s\n# TYPE " PREFIX "%s %s\n", name, help, name,
                         type);
}

static void put_value(struct nb_buffer *text, const char *name, const char *type, const char *help,
                      unsigned long long value) {
        put_head(text, name, type, help);
        nb_buffer_printf(text, PREFIX "%s %llu\n", name, value);
}

/* All reasons, also with 0: a series that begins with 1 has no increase, and an alert on the first
 * stolen token would not fire. */
static void put_decisions(struct nb_buffer *text, const struct nb_controller *controller,
                          enum nb_node_request_kind kind, unsigned n_reasons) {
        for (unsigned i = 0; i < n_reasons; i++)
                nb_buffer_printf(
                        text,
                        PREFIX "decisions_total{kind=\"%s\",decision=\"%s\",reason=\"%s\"} %llu\n",
                        nb_node_request_kinds[kind], decision_of(controller, kind, i),
                        nb_controller_reason(kind, i),
                        controller->metrics.kinds[kind].decisions[i]);
}

static void put_duration(struct nb_buffer *text, const char *kind,
                         const struct nb_kind_metrics *metrics) {
        static const char name[] = PREFIX "decision_duration_seconds";

        for (size_t i = 0; i < N_ELEMENTS(bucket_ends); i++)
                nb_buffer_printf(text, "%s_bucket{kind=\"%s\",le=\"%u\"} %llu\n", name, kind,
                                 bucket_ends[i], metrics->buckets[i]);
        nb_buffer_printf(text, "%s_bucket{kind=\"%s\",le=\"+Inf\"} %llu\n", name, kind, metrics->n);
        nb_buffer_printf(text, "%s_sum{kind=\"%s\"} %llu\n", name, kind, metrics->sum);
        nb_buffer_printf(text, "%s_count{kind=\"%s\"} %llu\n", name, kind, metrics->n);
}

static void put_pending(struct nb_buffer *text, const struct nb_controller *controller) {
        const struct pending pending = find_pending(controller);

        put_head(text, "pending_requests", "gauge", "Requests that are not decided.");
        for (size_t i = NB_NODE_REQUEST_CLIENT; i < _NB_NODE_REQUEST_KIND_N; i++)
                nb_buffer_printf(text, PREFIX "pending_requests{kind=\"%s\"} %zu\n",
                                 nb_node_request_kinds[i], pending.n[i]);
        if (pending.oldest > 0)
                put_value(text, "oldest_pending_request_timestamp_seconds", "gauge",
                          "When the oldest of them was created; absent without one.",
                          (unsigned long long)pending.oldest);
}

static void put_state(struct nb_buffer *text, const struct nb_controller *controller) {
        const struct nb_records *requests = &controller->requests[NB_NODE_REQUEST_CLIENT];
        size_t n_tokens[3] = { 0 }, n_claims = 0;

        for (size_t i = 0; i < controller->tokens.n; i++) {
                const struct nb_token_record *token = controller->tokens.items[i];

                n_tokens[token->node[0] ? 0 : token->is_enrolled ? 1 : 2]++;
        }
        for (size_t i = 0; i < requests->n; i++) {
                const struct nb_request_record *request = requests->items[i];

                n_claims += request->claimed_uid[0] != '\0';
        }
        put_head(text, "tokens", "gauge", "Bootstrap tokens.");
        for (size_t i = 0; i < N_ELEMENTS(n_tokens); i++)
                nb_buffer_printf(text, PREFIX "tokens{kind=\"%s\"} %zu\n",
                                 (const char *[]){ "bound", "enrolled", "unbound" }[i],
                                 n_tokens[i]);
        put_value(text, "claims", "gauge", "Requests for which a bound token is claimed.",
                  n_claims);
        put_value(text, "queue_length", "gauge", "Work that waits for its time or its turn.",
                  controller->queue.n_waiting + controller->queue.n_ready);
        put_value(text, "suppressed_events_total", "counter",
                  "Events that were not written, since there were too many of their reason.",
                  controller->metrics.n_suppressed);
        put_value(text, "signatures_left_out", "gauge",
                  "Tokens with which cluster-info is not signed for lack of room.",
                  controller->signer.n_left_out > 0
                          ? (unsigned long long)controller->signer.n_left_out
                          : 0);
}

static void put_ages(struct nb_buffer *text, const struct nb_controller *controller) {
        const time_t expiry = find_expiry(&controller->admin.identity);
        const uint64_t now_ms = nb_now_ms();

        put_head(text, "watch_age_seconds", "gauge", "Since when a watch is connected.");
        for (size_t i = 0; i < controller->n_watches; i++)
                if (controller->watches[i].transfer)
                        nb_buffer_printf(
                                text, PREFIX "watch_age_seconds{objects=\"%s\"} %llu\n",
                                controller->watches[i].kind->what,
                                (unsigned long long)(now_ms - controller->watches[i].started_ms) /
                                        1000);
        if (controller->hosts.read_ms > 0)
                put_value(text, "snapshot_age_seconds", "gauge",
                          "Since when the addresses of the other nodes are known.",
                          (now_ms - controller->hosts.read_ms) / 1000);
        if (expiry > 0)
                put_value(text, "credential_expiration_timestamp_seconds", "gauge",
                          "When the credential of this controller expires.",
                          (unsigned long long)expiry);
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
        if (admin->date > 0) {
                put_head(text, "clock_offset_seconds", "gauge",
                         "How far this machine's clock is ahead of that of the API server.");
                nb_buffer_printf(text, PREFIX "clock_offset_seconds %lld\n",
                                 (long long)(time(NULL) - nb_admin_time(admin)));
        }
        put_value(text, "landlock", "gauge",
                  "Whether Landlock restricts the processes of connections.",
                  nb_http_has_landlock());
}

void nb_metrics_format(const struct nb_controller *controller, struct nb_buffer *text) {
        put_head(text, "build_info", "gauge", "The version of node-bootstrap-admin.");
        nb_buffer_append_string(text, PREFIX "build_info{version=\"" NB_VERSION "\"} 1\n");
        put_value(text, "leader", "gauge", "Whether this controller acts.",
                  controller->is_leading && !controller->settings.is_dry_run);
        put_head(text, "decisions_total", "counter",
                 "Decisions on requests, a pending request once for each reason.");
        put_decisions(text, controller, NB_NODE_REQUEST_CLIENT, NB_REASON_APPROVED_BY_OTHERS);
        put_decisions(text, controller, NB_NODE_REQUEST_SERVING, _NB_SERVING_VERDICT_N);
        put_head(text, "decision_duration_seconds", "histogram",
                 "Time from the creation of a request to its approval or denial.");
        for (size_t i = NB_NODE_REQUEST_CLIENT; i < _NB_NODE_REQUEST_KIND_N; i++)
                put_duration(text, nb_node_request_kinds[i], &controller->metrics.kinds[i]);
        put_value(text, "approved_by_others_total", "counter",
                  "Requests by bound and enrolled tokens that something else approved.",
                  controller->metrics.n_approved_by_others);
        put_head(text, "misused_tokens_total", "counter",
                 "Requests that something else approved, and that their tokens do not allow.");
        for (enum nb_reason i = NB_REASON_TOKEN_RECREATED; i < NB_REASON_APPROVED_BY_OTHERS; i++)
                nb_buffer_printf(
                        text, PREFIX "misused_tokens_total{kind=\"client\",reason=\"%s\"} %llu\n",
                        nb_reason_name(i), controller->metrics.n_misused[i]);
        put_pending(text, controller);
        put_state(text, controller);
        put_ages(text, controller);
        put_connections(text, controller);
}

/* --- Reports --- */

const struct nb_failure *nb_metrics_find_failure(const struct nb_controller *controller) {
        for (size_t i = 0; i < controller->n_watches; i++)
                if (controller->watches[i].failure.code != NB_NONE)
                        return &controller->watches[i].failure;
        return controller->lease_failure.code != NB_NONE ? &controller->lease_failure : NULL;
}

static void report_status(const struct nb_controller *controller) {
        const struct nb_failure *f = nb_metrics_find_failure(controller);
        const struct nb_kind_metrics *kinds = controller->metrics.kinds;
        struct pending pending = find_pending(controller);

        if (f)
                nb_log_status("Trying again: %s", f->detail);
        else
                nb_log_status("%s; %zu pending, %zu tokens, %llu approved",
                              controller->settings.is_dry_run      ? "Dry run"
                              : controller->is_leading             ? "Leader"
                              : controller->lease.election.is_held ? "Starting"
                                                                   : "Standby",
                              pending.n[NB_NODE_REQUEST_CLIENT] +
                                      pending.n[NB_NODE_REQUEST_SERVING],
                              controller->tokens.n,
                              kinds[NB_NODE_REQUEST_CLIENT].decisions[0] +
                                      kinds[NB_NODE_REQUEST_SERVING].decisions[0]);
}

void nb_metrics_report(const struct nb_controller *controller, uint64_t now_ms) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_METRICS_MAX);
        const char *unready = controller->lease_failure.code != NB_NONE ? "the Lease"
                              : controller->has_policy                  ? NULL
                                                                        : "a usable policy";

        report_status(controller);
        if (!controller->monitor)
                return;
        for (size_t i = controller->n_watches; i > 0; i--) {
                const struct nb_watch *watch = &controller->watches[i - 1];

                if (!nb_watch_is_healthy(watch, now_ms))
                        unready = watch->kind->what;
        }
        nb_metrics_format(controller, &text);
        nb_monitor_publish(controller->monitor, &text, unready, now_ms);
}
