/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "admin/controller/controller.h"
#include "admin/controller/lease.h"
#include "admin/controller/metrics.h"
#include "admin/controller/monitor.h"
#include "base/macro.h"
#include "settings/types.h"
#include "system/clock.h"
#include "system/log.h"
#include "system/stop.h"
#include "system/unit.h"

#define GRACE_MS (10 * 60 * 1000)
#define LEAD_RETRY_MS 2000
#define RELEASE_MS 2000 /* the last request after SIGTERM */
#define READING_MS 20   /* of events, before the next work */

/* Each part of the controller. They run in this order. */
static const struct nb_part *const all_parts[] = {
        &nb_part_approve_client,
        &nb_part_approve_serving,
        &nb_part_signer,
        &nb_part_cleaner,
};

void nb_controller_note(struct nb_controller *controller, const char *format, ...) {
        va_list arguments;

        controller->is_changed = true;
        va_start(arguments, format);
        vsnprintf(controller->last, sizeof(controller->last), format, arguments);
        va_end(arguments);
}

/* Before the connection is replaced: what was begun on it begins again. */
static void interrupt_calls(void *userdata) {
        struct nb_controller *controller = userdata;

        for (size_t i = 0; i < controller->n_watches; i++)
                nb_watch_stop(&controller->watches[i]);
        for (size_t i = 0; i < N_ELEMENTS(controller->slots); i++)
                nb_exchange_interrupt(&controller->slots[i].exchange);
        nb_exchange_interrupt(&controller->lease.exchange);
        nb_exchange_interrupt(&controller->leading);
}

int nb_controller_renew_credential(struct nb_controller *controller,
                                   const struct nb_failure *rejected) {
        return nb_admin_keep_usable(&controller->admin, rejected, nb_now_ms(),
                                    &controller->credential_failure);
}

/* --- Leadership --- */

static bool is_listed(const struct nb_controller *controller) {
        for (size_t i = 0; i < controller->n_watches; i++)
                if (!controller->watches[i].is_listed)
                        return false;
        return true;
}

static int begin_leading(struct nb_controller *controller, struct nb_failure *f) {
        int r = 0;

        if (nb_exchange_is_waiting(&controller->leading))
                return 0;
        controller->admin.exchange = &controller->leading;
        nb_exchange_rewind(&controller->leading);
        for (size_t i = 0; i < controller->n_parts && r >= 0; i++)
                if (controller->parts[i]->on_lead)
                        r = controller->parts[i]->on_lead(controller, f);
        controller->admin.exchange = NULL;
        if (r == -EINPROGRESS && f->code == NB_NONE)
                return 0;
        nb_exchange_done(&controller->leading);
        if (r < 0)
                return r;
        controller->is_leading = controller->is_changed = true;
        controller->report_ms = 0;
        nb_log(LOG_INFO, NB_ADMIN_LEADER, "this controller is the leader now (%s)",
               controller->identity);
        return 1;
}

/* A failure is logged if it differs from the last one. */
static int run_lease(struct nb_controller *controller) {
        struct nb_failure f = { 0 };
        uint64_t now = nb_now_ms();
        int r = nb_lease_run(controller, now, &f);

        if (controller->is_leading && !controller->lease.is_held) {
                nb_log(LOG_WARNING, NB_NONE, "this controller is no longer the leader");
                controller->is_leading = false;
                controller->is_changed = true;
        }
        if (r >= 0 && controller->lease.is_held && !controller->is_leading &&
            is_listed(controller) && now >= controller->resume_ms) {
                r = begin_leading(controller, &f);
                if (r < 0)
                        controller->resume_ms = now + LEAD_RETRY_MS;
        }
        if (r == -ECANCELED && f.code == NB_NONE)
                return r;
        if (r < 0 && f.code != controller->lease_failure.code)
                nb_log_failure(LOG_WARNING, &f);
        if (r < 0)
                controller->lease_failure = f;
        else if (r > 0 && (controller->is_leading || !controller->lease.is_held))
                controller->lease_failure = (struct nb_failure){ 0 };
        return r < 0 ? nb_controller_renew_credential(controller, &f) : 0;
}

/* --- The loop --- */

/* Objects that decide on a request, or on its turn, are listed before the requests. */
static size_t count_begun_watches(const struct nb_controller *controller) {
        size_t n = 0;

        while (n < controller->n_watches && controller->watches[n].is_listed)
                n++;
        return n < controller->n_watches ? n + 1 : n;
}

static int run_watches(struct nb_controller *controller) {
        int r = 0;

        for (size_t i = 0; i < count_begun_watches(controller) && r >= 0; i++) {
                struct nb_watch *watch = &controller->watches[i];
                enum nb_code before = watch->failure.code;

                r = nb_watch_run(watch, &controller->admin, nb_now_ms());
                if (r >= 0)
                        r = nb_controller_renew_credential(controller, &watch->failure);
                controller->is_changed |= before != watch->failure.code;
        }
        return r;
}

static void end_transfer(struct nb_controller *controller, const struct nb_http_transfer *done) {
        controller->is_changed = true;
        if (nb_controller_take_answer(controller, done) ||
            nb_exchange_take_done(&controller->lease.exchange, done) ||
            nb_exchange_take_done(&controller->leading, done))
                return;
        for (size_t i = 0; i < controller->n_watches; i++)
                if (nb_watch_take_done(&controller->watches[i], &controller->admin, done))
                        break;
}

static uint64_t find_next_time(const struct nb_controller *controller) {
        const size_t n = count_begun_watches(controller);
        uint64_t renewal = controller->admin.expires_ms;
        uint64_t times[4 + NB_CONTROLLER_WATCHES_MAX] = {
                nb_lease_due(controller),
                nb_controller_work_due(controller),
                controller->watchdog_ms,
                renewal < controller->admin.renew_ms ? controller->admin.renew_ms : renewal,
        };
        uint64_t next = controller->is_changed || controller->monitor ? controller->report_ms
                                                                      : NB_TIME_INFINITE;

        for (size_t i = 0; i < n; i++)
                times[4 + i] = nb_watch_due(&controller->watches[i]);
        for (size_t i = 0; i < 4 + n; i++)
                next = times[i] < next ? times[i] : next;
        return next;
}

/* Ready: everything is listed, or the status says what this controller waits for. */
static void notify_systemd(struct nb_controller *controller) {
        uint64_t now = nb_now_ms(), interval_ms = nb_unit_watchdog_ms();

        if (!controller->is_ready) {
                bool is_failed = false;

                for (size_t i = 0; i < controller->n_watches; i++)
                        is_failed |= controller->watches[i].failure.code != NB_NONE;
                controller->is_ready = is_failed || is_listed(controller);
                if (controller->is_ready) {
                        /* STATUS= first: who starts the unit may read it at once. */
                        controller->is_changed = true;
                        controller->report_ms = 0;
                        nb_metrics_report(controller, now);
                        nb_unit_notify("READY=1");
                }
        }
        if (now < controller->watchdog_ms)
                return;
        if (interval_ms != NB_TIME_INFINITE)
                nb_unit_notify("WATCHDOG=1");
        controller->watchdog_ms = interval_ms == NB_TIME_INFINITE ? NB_TIME_INFINITE
                                                                  : now + interval_ms / 3;
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
        notify_systemd(controller);
        nb_metrics_report(controller, nb_now_ms());
        return read_events(controller, f);
}

static int run_controller(struct nb_controller *controller, struct nb_failure *f) {
        struct nb_failure ignored = { 0 };
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
        (void)nb_lease_release(controller, &ignored);
        controller->is_leading = false;
        controller->is_changed = true;
        nb_metrics_report(controller, NB_TIME_INFINITE);
        nb_unit_notify("STOPPING=1");
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

/* Every name in the list must be a part. */
static int verify_parts(const char *list, struct nb_failure *f) {
        char quoted[NB_WORD_QUOTED_SIZE], name[64];

        for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
                size_t len = strcspn(at, ","), i = 0;

                snprintf(name, sizeof(name), "%.*s", (int)len, at);
                while (i < N_ELEMENTS(all_parts) && strcmp(all_parts[i]->name, name) != 0)
                        i++;
                if (i == N_ELEMENTS(all_parts))
                        return nb_failure_set(f, NB_USAGE, 0,
                                              "--parts: unknown part %s; the parts are "
                                              "approve-client, approve-serving, signer and cleaner",
                                              nb_word_quote(name, quoted));
        }
        return 0;
}

static int choose_parts(struct nb_controller *controller, struct nb_failure *f) {
        const char *list = controller->settings.parts;
        int r = verify_parts(list, f);

        if (r < 0)
                return r;
        for (size_t i = 0; i < N_ELEMENTS(all_parts); i++)
                if (is_chosen(list, all_parts[i]->name, all_parts[i]->is_default) &&
                    (all_parts[i]->kind != NB_NODE_REQUEST_OTHER ||
                     !controller->settings.is_dry_run))
                        controller->parts[controller->n_parts++] = all_parts[i];
        for (size_t i = 0; i < controller->n_parts; i++) {
                r = controller->parts[i]->begin ? controller->parts[i]->begin(controller, f) : 0;
                if (r < 0)
                        return r;
        }
        return 0;
}

static int apply_settings(struct nb_controller *controller, struct nb_failure *f) {
        const struct nb_controller_settings *settings = &controller->settings;
        char host[256] = "";

        controller->grace_ms = GRACE_MS;
        if (settings->grace &&
            nb_setting_duration_parse(settings->grace, false, &controller->grace_ms) < 0)
                return nb_failure_set(f, NB_USAGE, 0, "--grace: expected a duration such as 10min");
        (void)gethostname(host, sizeof(host) - 1);
        snprintf(controller->identity, sizeof(controller->identity), "%s_%08x%08x", host,
                 nb_random(), nb_random());
        return choose_parts(controller, f);
}

static void end_controller(struct nb_controller *controller) {
        for (size_t i = 0; i < controller->n_parts; i++)
                if (controller->parts[i]->end)
                        controller->parts[i]->end(controller);
        for (size_t i = 0; i < controller->n_watches; i++)
                nb_watch_stop(&controller->watches[i]);
        nb_exchange_done(&controller->lease.exchange);
        nb_exchange_done(&controller->leading);
        nb_controller_drop_records(controller);
        nb_queue_done(&controller->queue);
        nb_monitor_stop(controller->monitor);
        nb_admin_done(&controller->admin);
}

int nb_admin_command_controller(struct nb_options *options, struct nb_failure *f) {
        _cleanup_(end_controller) struct nb_controller controller = { 0 };
        struct nb_controller_settings *settings = &controller.settings;
        struct nb_admin_place place = { 0 };
        const struct nb_option rows[] = {
                { .name = "kubeconfig",
                  .value = "FILE",
                  .ret_value = &place.kubeconfig,
                  .help = "use this kubeconfig" },
                { .name = "context",
                  .value = "NAME",
                  .ret_value = &place.context,
                  .help = "use this context of the kubeconfig" },
                { .name = "parts",
                  .value = "LIST",
                  .ret_value = &settings->parts,
                  .help = "run these parts: approve-client, approve-serving, signer, cleaner; "
                          "default: all but approve-serving" },
                { .name = "deny",
                  .ret_switch = &settings->is_denying,
                  .help = "deny requests for client certificates that can never be approved as "
                          "they are; default: leave them pending" },
                { .name = "dry-run",
                  .ret_switch = &settings->is_dry_run,
                  .help = "change nothing; Events, log and metrics say what would be decided" },
                { .name = "grace",
                  .value = "DURATION",
                  .ret_value = &settings->grace,
                  .help = "revoke a bound token this long after the certificate was issued, if the "
                          "Node does not appear; default: 10min" },
                { .name = "listen",
                  .value = "[ADDRESS]:PORT",
                  .ret_value = &settings->listen,
                  .help = "serve /healthz, /readyz and /metrics with HTTP; without an address, on "
                          "127.0.0.1" },
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
        nb_metrics_init(&controller);
        controller.admin.on_replace = interrupt_calls;
        controller.admin.userdata = &controller;
        nb_controller_add_watches(&controller);
        /* After the launcher of connections, whose fork would have only one of the threads. */
        if (settings->listen)
                r = nb_monitor_start(settings->listen, &controller.monitor, f);
        return r < 0 ? r : run_controller(&controller, f);
}
