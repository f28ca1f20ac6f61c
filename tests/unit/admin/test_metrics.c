/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "admin/frame/metrics.h"
#include "base/macro.h"
#include "os/clock.h"

static void assert_line(const struct nb_controller *controller, const char *line) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_METRICS_MAX);
        char whole[160];

        (void)snprintf(whole, sizeof(whole), "\nnode_bootstrap_controller_%s\n", line);
        nb_metrics_format(controller, &text);
        assert_int_equal(text.error, 0);
        if (!strstr(text.data, whole))
                fail_msg("%s:%s", whole, text.data);
}

static void counts_decisions(_unused_ void **state) {
        struct nb_controller *controller = calloc(1, sizeof(*controller));
        struct nb_request_record *record;
        const unsigned reason = NB_REASON_TOKEN_USED;

        assert_non_null(controller);
        controller->admin.date = time(NULL);
        controller->admin.date_ms = nb_now_ms();
        assert_line(controller,
                    "decisions_total{kind=\"client\",decision=\"pending\",reason=\"TokenUsed\"} 0");
        record = nb_controller_add_request(controller, NB_NODE_REQUEST_CLIENT, "u", "csr", "n1",
                                           "aaaaaa");
        assert_non_null(record);
        record->state = NB_CSR_STATE_PENDING;
        record->created = time(NULL) - 45;
        assert_line(controller, "pending_requests{kind=\"client\"} 1");

        nb_metrics_decide(record, reason);
        nb_metrics_decide(record, reason);
        assert_line(controller,
                    "decisions_total{kind=\"client\",decision=\"pending\",reason=\"TokenUsed\"} 1");
        assert_line(controller, "decision_duration_seconds_count{kind=\"client\"} 0");
        controller->settings.is_denying = true;
        assert_line(controller,
                    "decisions_total{kind=\"client\",decision=\"denied\",reason=\"TokenUsed\"} 1");

        nb_metrics_decide(record, NB_REASON_NONE);
        assert_line(controller, "decision_duration_seconds_bucket{kind=\"client\",le=\"30\"} 0");
        assert_line(controller, "decision_duration_seconds_bucket{kind=\"client\",le=\"60\"} 1");
        assert_line(controller, "decision_duration_seconds_bucket{kind=\"client\",le=\"+Inf\"} 1");
        nb_controller_drop_records(controller);
        nb_queue_done(&controller->queue);
        free(controller);
}

/* What is served has room for all statuses and reasons. */
static void stays_within_its_limits(_unused_ void **state) {
        struct nb_controller *controller = calloc(1, sizeof(*controller));
        struct nb_request_record record = { .controller = controller,
                                            .kind = NB_NODE_REQUEST_SERVING,
                                            .name = (char[]){ "csr" } };

        assert_non_null(controller);
        for (unsigned i = 0; i < _NB_SERVING_VERDICT_N; i++)
                nb_metrics_decide(&record, i);
        for (size_t i = 0; i < N_ELEMENTS(controller->admin.n_answers); i++)
                controller->admin.n_answers[i] = ULLONG_MAX;
        assert_line(controller, "decisions_total{kind=\"serving\",decision=\"pending\",reason="
                                "\"ServingNotAllowed\"} 1");
        free(controller);
}

static void says_whether_the_loop_runs(_unused_ void **state) {
        static const struct {
                const char *path, *unready;
                uint64_t silent_ms;
                unsigned status;
                const char *text;
        } rows[] = {
                { "/healthz", "CSRs", NB_MONITOR_SILENT_MS - 1, 200, "ok\n" },
                { "/healthz", NULL, NB_MONITOR_SILENT_MS, 503, "the loop has not run for 15 s\n" },
                { "/readyz", NULL, NB_MONITOR_SILENT_MS, 200, "ok\n" },
                { "/readyz", "CSRs", 0, 503, "it waits for: CSRs\n" },
                { "/metric", NULL, 0, 404, "there are /healthz, /readyz and /metrics\n" },
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                char text[NB_MONITOR_TEXT_SIZE];

                assert_int_equal(
                        nb_monitor_judge(rows[i].path, rows[i].silent_ms, rows[i].unready, text),
                        rows[i].status);
                assert_string_equal(text, rows[i].text);
        }
}

static void says_whether_what_is_known_is_old(_unused_ void **state) {
        static const struct {
                const char *name;
                struct nb_watch watch;
                bool is_healthy; /* at 100,000 ms */
        } rows[] = {
                { "nothing is listed", { .wants_list = true }, false },
                { "a watch", { .is_listed = true }, true },
                { "a watch without events", { .is_listed = true, .is_stalled = true }, false },
                { "a failure", { .is_listed = true, .failure.code = NB_ADMIN_UNREACHABLE }, false },
                { "a new list",
                  { .is_listed = true, .wants_list = true, .stale_ms = 100001 - NB_WATCH_OLD_MS },
                  true },
                { "a new list that takes long",
                  { .is_listed = true, .wants_list = true, .stale_ms = 100000 - NB_WATCH_OLD_MS },
                  false },
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++)
                if (nb_watch_is_healthy(&rows[i].watch, 100000) != rows[i].is_healthy)
                        fail_msg("%s", rows[i].name);
}

/* The time since when a list is wanted is not that of the last attempt. */
static void a_list_that_fails_does_not_become_new(_unused_ void **state) {
        struct nb_watch watch = { .is_listed = true };
        uint64_t stale_ms;

        nb_watch_list_again(&watch);
        stale_ms = watch.stale_ms;
        assert_in_range(stale_ms, nb_now_ms() - 1000, nb_now_ms());
        watch.stale_ms -= 5000;
        nb_watch_list_again(&watch);
        assert_int_equal(watch.stale_ms, stale_ms - 5000);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(counts_decisions),
                cmocka_unit_test(stays_within_its_limits),
                cmocka_unit_test(says_whether_the_loop_runs),
                cmocka_unit_test(says_whether_what_is_known_is_old),
                cmocka_unit_test(a_list_that_fails_does_not_become_new),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
