/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "admin/controller/metrics.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/macro.h"
#include "net/http.h"
#include "system/log.h"

#define PREFIX "node_bootstrap_controller_"
#define FILE_MAX ((size_t)16 * 1024)

static const char *const count_names[_NB_COUNT_N] = {
        [NB_COUNT_APPROVED] = "approved",
        [NB_COUNT_DENIED] = "denied",
        [NB_COUNT_LEFT_PENDING] = "left_pending",
        [NB_COUNT_REVOKED] = "token_revoked",
        [NB_COUNT_SIGNED] = "cluster_info_signed",
        [NB_COUNT_EXPIRED] = "token_expired",
        [NB_COUNT_FAILED] = "failed",
};

static size_t count_pending(const struct nb_controller *controller) {
        size_t n = 0;

        for (size_t i = 0; i < controller->requests.n; i++)
                n += ((const struct nb_request_record *)controller->requests.records[i])->state ==
                     NB_CSR_STATE_PENDING;
        return n;
}

static void put_head(struct nb_buffer *text, const char *name, const char *type, const char *help) {
        nb_buffer_printf(text, "# HELP " PREFIX "%s %s\n# TYPE " PREFIX "%s %s\n", name, help, name,
                         type);
}

static void put_gauge(struct nb_buffer *text, const char *name, const char *help, uint64_t value) {
        put_head(text, name, "gauge", help);
        nb_buffer_printf(text, PREFIX "%s %llu\n", name, (unsigned long long)value);
}

static void format_metrics(const struct nb_controller *controller, struct nb_buffer *text) {
        put_head(text, "actions_total", "counter", "What the controller did, by kind.");
        for (size_t i = 0; i < _NB_COUNT_N; i++)
                nb_buffer_printf(text, PREFIX "actions_total{action=\"%s\"} %llu\n", count_names[i],
                                 (unsigned long long)controller->counts[i]);
        put_head(text, "last_action_timestamp_seconds", "gauge", "When it last did so.");
        for (size_t i = 0; i < _NB_COUNT_N; i++)
                if (controller->count_times[i] > 0)
                        nb_buffer_printf(
                                text, PREFIX "last_action_timestamp_seconds{action=\"%s\"} %lld\n",
                                count_names[i], (long long)controller->count_times[i]);
        put_head(text, "watch_restarts_total", "counter", "Failures of watches.");
        for (size_t i = 0; i < controller->n_watches; i++)
                nb_buffer_printf(text, PREFIX "watch_restarts_total{objects=\"%s\"} %llu\n",
                                 controller->watches[i].kind->what,
                                 (unsigned long long)controller->watches[i].n_restarts);
        put_gauge(text, "leader", "Whether this controller acts.", controller->is_leading);
        put_gauge(text, "pending_requests", "Requests that are not decided.",
                  count_pending(controller));
        put_gauge(text, "queue_length", "Work that is due or waits for another attempt.",
                  nb_queue_len(&controller->queue));
        put_gauge(text, "tokens", "Bootstrap tokens in the cluster.", controller->tokens.n);
        put_gauge(text, "unsigned_tokens", "Tokens for which cluster-info has no room.",
                  controller->n_unsigned);
        put_gauge(text, "landlock", "Whether Landlock restricts the processes of connections.",
                  nb_http_has_landlock());
        put_gauge(text, "report_timestamp_seconds", "When this file was written.",
                  (uint64_t)time(NULL));
}

static void write_metrics(struct nb_controller *controller) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(FILE_MAX);
        _cleanup_(nb_closep) int folder = -1;
        char path[PATH_MAX];
        const char *name;
        int r;

        nb_path_split(controller->settings.metrics, path, sizeof(path), &name);
        format_metrics(controller, &text);
        r = text.error;
        if (r >= 0)
                r = nb_folder_open(path, &folder);
        if (r >= 0)
                r = nb_file_write(folder, name, 0644, text.data, text.len);
        if (r < 0 && !controller->has_metrics_failed) {
                struct nb_failure f = { 0 };

                (void)nb_failure_set(&f, NB_ADMIN_OUTPUT_UNWRITABLE, r,
                                     "cannot write the metrics to '%s': %m",
                                     controller->settings.metrics);
                nb_log_failure(LOG_WARNING, &f);
        }
        controller->has_metrics_failed = r < 0;
}

/* What prevents the controller from acting; NULL if nothing does. */
static const struct nb_failure *find_failure(const struct nb_controller *controller) {
        for (size_t i = 0; i < controller->n_watches; i++)
                if (controller->watches[i].failure.code != NB_NONE)
                        return &controller->watches[i].failure;
        return controller->lease_failure.code != NB_NONE ? &controller->lease_failure : NULL;
}

static void report_status(const struct nb_controller *controller) {
        const struct nb_failure *f = find_failure(controller);

        if (f) {
                nb_log_status("Trying again: %s", f->detail);
                return;
        }
        nb_log_status("%s; %zu pending, %zu tokens, %llu approved%s%s",
                      controller->is_leading      ? "Leader"
                      : controller->lease.is_held ? "Starting"
                                                  : "Standby",
                      count_pending(controller), controller->tokens.n,
                      (unsigned long long)controller->counts[NB_COUNT_APPROVED],
                      controller->last[0] ? "; last: " : "", controller->last);
}

void nb_metrics_report(struct nb_controller *controller, uint64_t now_ms) {
        if (!controller->is_changed || now_ms < controller->report_ms)
                return;
        controller->is_changed = false;
        controller->report_ms = now_ms + NB_REPORT_INTERVAL_MS;
        report_status(controller);
        if (controller->settings.metrics)
                write_metrics(controller);
}
