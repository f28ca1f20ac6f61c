/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "admin/client/facts.h"
#include "admin/controller/controller.h"
#include "admin/controller/lease.h"
#include "admin/controller/metrics.h"
#include "admin/controller/monitor.h"
#include "base/macro.h"
#include "settings/types.h"
#include "system/clock.h"
#include "system/log.h"
#include "system/stop.h"

#define RELEASE_MS 2000 /* the last request after SIGTERM */
#define REPORT_MS 5000  /* far below WatchdogSec= of the unit */
#define READING_MS 20   /* of events, before the next work */

/* Each part of the controller. They run in this order. */
static const struct nb_part *const all_parts[] = {
        &nb_part_approve_client,
        &nb_part_approve_serving,
        &nb_part_signer,
        &nb_part_cleaner,
};
_Static_assert(N_ELEMENTS(all_parts) <= NB_CONTROLLER_PARTS_MAX, "a place for each part");

/* Before the connection is replaced: what was begun on it begins again. */
static void interrupt_calls(void *userdata) {
        struct nb_controller *controller = userdata;

        for (size_t i = 0; i < controller->n_watches; i++)
                nb_watch_stop(&controller->watches[i]);
        for (size_t i = 0; i < N_ELEMENTS(controller->slots); i++)
                nb_exchange_interrupt(&controller->slots[i].exchange);
        nb_exchange_interrupt(&controller->lease.exchange);
}

int nb_controller_renew_credential(struct nb_controller *controller,
                                   const struct nb_failure *rejected) {
        return nb_admin_keep_usable(&controller->admin, rejected, nb_now_ms(),
                                    &controller->credential_failure);
}

/* --- Leadership --- */

static bool is_listed(const struct nb_controller *controller) {
        const size_t n = controller->n_watches;

        return n == 0 || controller->watches[n - 1].is_listed;
}

/* Objects that decide on a request, or on its turn, are listed before the requests. */
static size_t count_begun(const struct nb_controller *controller) {
        size_t n = 0;

        while (n < controller->n_watches && controller->watches[n++].is_listed)
                ;
        return n;
}

static void set_leading(struct nb_controller *controller, bool is_leading) {
        controller->is_leading = is_leading;
        controller->report_ms = 0;
        if (!is_leading) {
                nb_log(LOG_WARNING, NB_NONE, "this controller is no longer the leader");
                return;
        }
        nb_log(LOG_INFO, NB_ADMIN_LEADER, "this controller is the leader now (%s)",
               controller->identity);
        if (nb_controller_has_part(controller, &nb_part_approve_client))
                nb_controller_queue(controller, &controller->claims_work, 0);
        nb_signer_wake(controller);
}

/* A failure is logged if it differs from the last one. */
static int run_lease(struct nb_controller *controller) {
        struct nb_failure f = { 0 };
        int r = nb_lease_run(controller, nb_now_ms(), &f);
        bool is_leading = controller->lease.election.is_held &&
                          (controller->is_leading || is_listed(controller));

        if (is_leading != controller->is_leading)
                set_leading(controller, is_leading);
        if (r == -ECANCELED && f.code == NB_NONE)
                return r;
        if (r < 0 && f.code != controller->lease_failure.code)
                nb_log_failure(LOG_WARNING, &f);
        if (r != 0)
                controller->lease_failure = f;
        return r < 0 ? nb_controller_renew_credential(controller, &f) : 0;
}

/* --- The loop --- */

static int run_watches(struct nb_controller *controller) {
        int r = 0;

        for (size_t i = 0; i < count_begun(controller) && r >= 0; i++) {
                r = nb_watch_run(&controller->watches[i], &controller->admin, nb_now_ms());
                if (r >= 0)
                        r = nb_controller_renew_credential(controller,
                                                           &controller->watches[i].failure);
        }
        return r;
}

static void end_transfer(struct nb_controller *controller, const struct nb_http_transfer *done) {
        if (nb_controller_take_answer(controller, done) ||
            nb_exchange_take_done(&controller->lease.exchange, done))
                return;
        for (size_t i = 0; i < controller->n_watches; i++)
                if (nb_watch_take_done(&controller->watches[i], &controller->admin, done))
                        break;
}

static uint64_t find_next_time(const struct nb_controller *controller) {
        const struct nb_admin *admin = &controller->admin;
        const uint64_t times[] = {
                controller->report_ms,
                nb_lease_due(controller),
                nb_controller_work_due(controller),
                admin->expires_ms < admin->renew_ms ? admin->renew_ms : admin->expires_ms,
        };
        uint64_t next = NB_TIME_INFINITE;

        for (size_t i = 0; i < N_ELEMENTS(times); i++)
                next = times[i] < next ? times[i] : next;
        for (size_t i = 0; i < count_begun(controller); i++) {
                uint64_t due_ms = nb_watch_due(&controller->watches[i]);

                next = due_ms < next ? due_ms : next;
        }
        return next;
}

/* Ready: everything is listed, or the status says what this controller waits for. STATUS= first:
 * who starts the unit may read it at once. */
static void report(struct nb_controller *controller) {
        uint64_t now_ms = nb_now_ms();
        bool is_first = !controller->is_ready &&
                        (is_listed(controller) || nb_metrics_find_failure(controller));

        if (!is_first && now_ms < controller->report_ms)
                return;
        controller->report_ms = now_ms + REPORT_MS;
        nb_metrics_report(controller, now_ms);
        nb_notify("WATCHDOG=1");
        if (is_first)
                nb_notify("READY=1");
        controller->is_ready |= is_first;
}

/* Waits for events, and handles all that have arrived: a new request must not wait behind the work
 * that earlier events caused. The time is limited, since a flood of events must not stop the work.
 * -ECANCELED as below. */
static int read_events(struct nb_controller *controller, struct nb_failure *f) {
        uint64_t until_ms = find_next_time(controller), end_ms = NB_TIME_INFINITE;
        int r;

        do {
                struct nb_http_transfer *done = NULL;

                r = nb_http_wait(&controller->admin.api.http, 1, until_ms, &done, f);
                if (r <= 0)
                        return r;
                if (done)
                        end_transfer(controller, done);
                r = run_watches(controller);
                if (end_ms == NB_TIME_INFINITE)
                        end_ms = nb_now_ms() + READING_MS;
                until_ms = 0;
        } while (r >= 0 && nb_now_ms() < end_ms);
        return r;
}

/* One round. -ECANCELED without a failure if a stop was requested. */
static int run_once(struct nb_controller *controller, struct nb_failure *f) {
        int r;

        r = run_watches(controller);
        if (r >= 0)
                r = run_lease(controller);
        if (r >= 0)
                r = nb_controller_run_work(controller);
        if (r < 0)
                return r;
        report(controller);
        return read_events(controller, f);
}

static int run_controller(struct nb_controller *controller, struct nb_failure *f) {
        int r;

        do
                r = run_once(controller, f);
        while (r >= 0);
        if (f->code == NB_NONE)
                *f = controller->credential_failure;
        if (f->code != NB_NONE)
                return r;
        nb_stop_forget();
        controller->admin.api.deadline_ms = nb_now_ms() + RELEASE_MS;
        nb_lease_release(controller);
        controller->is_leading = false;
        nb_metrics_report(controller, nb_now_ms());
        nb_notify("STOPPING=1");
        return 0;
}

/* --- Begin and end --- */

static bool is_chosen(const char *list, const char *name, bool by_default) {
        size_t len = strlen(name);

        if (!list)
                return by_default;
        for (const char *at = list; (at = strstr(at, name)); at += len)
                if ((at == list || at[-1] == ',') && (at[len] == ',' || !at[len]))
                        return true;
        return false;
}

/* Signer and cleaner have nothing to say in a dry run. */
static int choose_parts(struct nb_controller *controller, struct nb_failure *f) {
        const char *list = controller->settings.parts;
        char quoted[NB_WORD_QUOTED_SIZE];
        size_t n_named = 1;

        for (const char *at = list; at && *at; at++)
                n_named += *at == ',';
        for (size_t i = 0; i < N_ELEMENTS(all_parts); i++) {
                if (!is_chosen(list, all_parts[i]->name, all_parts[i]->is_default))
                        continue;
                n_named--;
                if (all_parts[i]->is_wanted || !controller->settings.is_dry_run)
                        controller->parts[controller->n_parts++] = all_parts[i];
        }
        if (list && n_named != 0)
                return nb_failure_set(f, NB_USAGE, 0,
                                      "--parts: unknown part in %s; the parts are approve-client, "
                                      "approve-serving, signer and cleaner",
                                      nb_word_quote(list, quoted));
        for (size_t i = 0; i < controller->n_parts; i++)
                if (controller->parts[i]->begin)
                        controller->parts[i]->begin(controller);
        return 0;
}

static int apply_settings(struct nb_controller *controller, struct nb_failure *f) {
        const struct nb_controller_settings *settings = &controller->settings;
        char host[256] = "";

        if (nb_setting_duration_parse(settings->grace ? settings->grace : "10m", false,
                                      &controller->grace_ms) < 0)
                return nb_failure_set(f, NB_USAGE, 0, "--grace: expected a duration such as 10m");
        (void)gethostname(host, sizeof(host) - 1);
        snprintf(controller->identity, sizeof(controller->identity), "%s_%08x%08x", host,
                 nb_random(), nb_random());
        return choose_parts(controller, f);
}

static void end_controller(struct nb_controller *controller) {
        for (size_t i = 0; i < controller->n_watches; i++)
                nb_watch_stop(&controller->watches[i]);
        nb_controller_drop_work(controller, &controller->claims_work);
        nb_controller_drop_work(controller, &controller->hosts_work);
        nb_hosts_done(&controller->hosts);
        nb_hosts_done(&controller->next_hosts);
        nb_exchange_done(&controller->lease.exchange);
        nb_controller_drop_records(controller);
        nb_queue_done(&controller->queue);
        nb_monitor_stop(controller->monitor);
        nb_admin_done(&controller->admin);
}

/* Without the networks of Services, each request for a serving certificate would stay pending. A
 * failure that may pass does not end the controller. */
static int verify_serving(struct nb_controller *controller, struct nb_failure *f) {
        struct nb_failure failure = { 0 };

        if (!nb_controller_has_part(controller, &nb_part_approve_serving) ||
            nb_facts_verify_service_networks(&controller->admin, &failure) >= 0 ||
            failure.code != NB_USAGE)
                return 0;
        *f = failure;
        return -EINVAL;
}

int nb_admin_command_controller(struct nb_options *options, struct nb_failure *f) {
        _cleanup_(end_controller) struct nb_controller controller = { 0 };
        struct nb_controller_settings *settings = &controller.settings;
        struct nb_admin_place place = { 0 };
        const struct nb_option rows[] = {
                NB_ADMIN_PLACE_OPTIONS(place),
                { "parts", "LIST",
                  "run these parts: approve-client, approve-serving, signer, cleaner; default: all "
                  "but approve-serving",
                  .ret_value = &settings->parts },
                { "deny", NULL,
                  "deny requests for client certificates that can never be approved as they are; "
                  "default: leave them pending",
                  .ret_switch = &settings->is_denying },
                { "dry-run", NULL,
                  "change nothing; Events, log and metrics say what would be decided",
                  .ret_switch = &settings->is_dry_run },
                { "grace", "DURATION",
                  "revoke a bound token this long after the certificate was issued, if the Node "
                  "does not appear; default: 10m",
                  .ret_value = &settings->grace },
                { "listen", "[ADDRESS]:PORT",
                  "serve /healthz, /readyz and /metrics with HTTP; without an address, on "
                  "127.0.0.1",
                  .ret_value = &settings->listen },
                { 0 },
        };
        int r;

        r = nb_options_read(options, rows, f);
        if (r >= 0)
                r = apply_settings(&controller, f);
        if (r < 0)
                return r;
        r = nb_stop_init();
        if (r < 0)
                return nb_failure_set(f, NB_INTERNAL, r, "cannot handle signals: %m");
        r = nb_admin_connect(&place, &controller.admin, f);
        if (r < 0)
                return r;
        nb_http_report_landlock();
        r = verify_serving(&controller, f);
        if (r < 0)
                return r;
        controller.admin.on_replace = interrupt_calls;
        controller.admin.userdata = &controller;
        controller.claims_work = (struct nb_work){ .run = nb_claims_adopt,
                                                   .userdata = &controller };
        nb_controller_add_watches(&controller);
        /* After the launcher of connections, whose fork would have only one of the threads. */
        if (settings->listen)
                r = nb_monitor_start(settings->listen, nb_now_ms(), &controller.monitor, f);
        return r < 0 ? r : run_controller(&controller, f);
}
