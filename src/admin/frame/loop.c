/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "admin/frame/controller.h"
#include "admin/frame/lease.h"
#include "admin/frame/metrics.h"
#include "admin/frame/monitor.h"
#include "base/macro.h"
#include "os/clock.h"
#include "os/stop.h"
#include "systemd/log.h"

#define RELEASE_MS 2000 /* the last request after SIGTERM */
#define REPORT_MS 5000
#define CONNECT_MS 5000 /* between two looks for a file of the kubeconfig */
#define READING_MS 20   /* of events, before the next work */

/* Before the connection is replaced: what was begun on it begins again. */
static void interrupt_calls(void *userdata) {
        struct nb_controller *controller = userdata;

        for (size_t i = 0; i < N_ELEMENTS(controller->watches); i++)
                nb_watch_stop(&controller->watches[i]);
        for (size_t i = 0; i < N_ELEMENTS(controller->slots); i++)
                nb_plan_interrupt(&controller->slots[i].plan);
        nb_lease_interrupt(controller);
}

/* --- Leadership --- */

/* Whether all objects are known as they are now: what is not seen, such as the approval of another
 * request, cannot be considered. A leader reads tokens and Nodes itself, but no other requests. */
static bool is_informed(const struct nb_controller *controller) {
        for (size_t i = 0; i < controller->n_watches; i++) {
                const struct nb_watch *watch = &controller->watches[i];

                if ((!controller->is_leading || watch->kind->on_object == nb_requests_on_object) &&
                    !nb_watch_is_current(watch))
                        return false;
        }
        return true;
}

/* Objects that decide on a request, or on its turn, are listed before the requests. A leader reads
 * the other lists as well. */
static size_t count_begun(const struct nb_controller *controller) {
        const size_t n_lists = controller->is_leading ? _NB_CONTROLLER_LISTS_N : 0;
        size_t n = 0;

        while (n < controller->n_watches + n_lists && controller->watches[n++].is_listed)
                ;
        return n;
}

static void set_leading(struct nb_controller *controller, bool is_leading) {
        controller->is_leading = is_leading;
        controller->report_ms = 0;
        if (!is_leading && controller->lease.election.is_held) {
                nb_log(LOG_WARNING, NB_NONE,
                       "nothing is decided until all requests are listed again");
                return;
        }
        if (!is_leading) {
                nb_log(LOG_WARNING, NB_NONE, "this controller is no longer the leader");
                return;
        }
        if (controller->settings.is_dry_run)
                nb_log(LOG_INFO, NB_NONE,
                       "dry run: this controller changes nothing, and other controllers continue");
        else
                nb_log(LOG_INFO, NB_ADMIN_LEADER, "this controller is the leader now (%s)",
                       controller->identity);
        for (size_t i = 0; i < controller->n_parts; i++)
                if (controller->parts[i]->on_leading)
                        controller->parts[i]->on_leading(controller);
}

/* A failure is logged if it differs from the last one. */
static int run_lease(struct nb_controller *controller) {
        struct nb_failure f = { 0 };
        int r = nb_lease_run(controller, nb_now_ms(), &f);
        bool is_leading = nb_election_is_leader(&controller->lease.election, &nb_lease_waits,
                                                nb_now_ms()) &&
                          is_informed(controller);

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
            nb_plan_take_done(&controller->lease.plan, &controller->admin, done))
                return;
        for (size_t i = 0; i < N_ELEMENTS(controller->watches); i++)
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
                        (is_informed(controller) || nb_metrics_find_failure(controller));

        if (!is_first && now_ms < controller->report_ms)
                return;
        controller->report_ms = now_ms + REPORT_MS;
        nb_metrics_report(controller, now_ms);
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

        /* A loop that is stuck ends here, and is started again. */
        (void)alarm(NB_MONITOR_STUCK_SEC);
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

static void set_identity(struct nb_controller *controller) {
        char host[256] = "";

        (void)gethostname(host, sizeof(host) - 1);
        snprintf(controller->identity, sizeof(controller->identity), "%s_%08x%08x", host,
                 nb_random(), nb_random());
}

/* A file that the kubeconfig names, such as that of a token, may be written later. */
static int connect_controller(struct nb_controller *controller, struct nb_failure *f) {
        int r;

        while ((r = nb_admin_connect(&controller->admin, f)) < 0 &&
               controller->admin.is_file_missing) {
                if (!controller->is_ready)
                        nb_log_failure(LOG_WARNING, f);
                nb_log_status("Waiting: %s", f->detail);
                if (!controller->is_ready)
                        nb_notify("READY=1");
                controller->is_ready = true;
                nb_failure_clear(f);
                r = nb_stop_wait(CONNECT_MS);
                if (r < 0)
                        return r;
        }
        return r;
}

int nb_controller_run(struct nb_controller *controller, struct nb_failure *f) {
        int r = nb_stop_init();

        if (r < 0)
                return nb_failure_set(f, NB_INTERNAL, r, "cannot handle signals: %m");
        nb_log_stamp();
        r = connect_controller(controller, f);
        if (r < 0)
                return r;
        nb_http_report_landlock();
        set_identity(controller);
        controller->admin.on_replace = interrupt_calls;
        controller->admin.userdata = controller;
        nb_controller_add_watches(controller);
        /* After the launcher of connections, whose fork would have only one of the threads. */
        if (controller->settings.listen)
                r = nb_monitor_start(controller->settings.listen, nb_now_ms(), &controller->monitor,
                                     f);
        return r < 0 ? r : run_controller(controller, f);
}

void nb_controller_end(struct nb_controller *controller) {
        for (size_t i = 0; i < N_ELEMENTS(controller->watches); i++)
                nb_watch_stop(&controller->watches[i]);
        nb_hosts_done(&controller->hosts);
        nb_hosts_done(&controller->next_hosts);
        nb_lease_interrupt(controller);
        for (size_t i = 0; i < controller->n_parts; i++)
                if (controller->parts[i]->end)
                        controller->parts[i]->end(controller);
        controller->n_parts = 0;
        nb_controller_drop_records(controller);
        nb_queue_done(&controller->queue);
        nb_monitor_stop(controller->monitor);
        nb_admin_done(&controller->admin);
}
