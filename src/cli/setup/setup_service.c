/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/macro.h"
#include "base/text.h"
#include "cli/service.h"
#include "cli/setup/setup_internal.h"
#include "files/last.h"
#include "system/clock.h"
#include "system/log.h"
#include "system/process.h"
#include "system/stop.h"
#include "system/terminal.h"
#include "system/unit.h"

#define LOOK_MS 500
#define QUEUED_LOOKS 2  /* each start is queued for a moment, behind the service's helpers */
#define SILENCE_MS 5000 /* of a wait for kubelet, before setup says what it waits for */

struct watch {
        struct nb_unit_state state;
        struct nb_last last; /* of the run that is watched */
        char previous[sizeof(((struct nb_last *)NULL)->invocation)]; /* the run before it; "" */
        char code[sizeof(((struct nb_last *)NULL)->code)]; /* of the failure that was printed */
        uint64_t deadline_ms;                              /* NB_TIME_INFINITE */
        char status[sizeof(((struct nb_unit_state *)NULL)->status)];
        bool has_line;                    /* a terminal: the status is rewritten in place */
        unsigned n_queued;                /* how often it was seen queued, without a break */
        bool is_begun;                    /* a job was queued */
        char since[16 + NB_RFC3339_SIZE]; /* "; since ...", if this program queued it */
};

static void print_line(char mark, const char *text, const struct nb_last *last) {
        nb_terminal_line_hide();
        printf("%c %s\n", mark, text);
        if (last) {
                nb_last_adopt_fields(last);
                printf("    ");
                nb_log_print_remedy(stdout, nb_failure_find(last->code));
        }
        fflush(stdout);
        nb_terminal_line_show();
}

/* A failure that ends the watch is printed at the end. */
static void print_wait(struct watch *watch) {
        struct nb_last *last = &watch->last;

        nb_last_read(-1, &watch->state, last);
        if (watch->previous[0] && !strcmp(watch->previous, last->invocation))
                *last = (struct nb_last){ 0 };
        if (last->code[0] && strcmp(watch->code, last->code) != 0 &&
            !nb_last_is(last, NB_LAST_FAILED))
                print_line(' ', last->detail, last);
        memcpy(watch->code, last->code, sizeof(watch->code));
}

static void print_status(struct watch *watch) {
        const char *status = watch->state.status;

        if (watch->has_line && !nb_unit_is_at_rest(&watch->state))
                nb_terminal_line_set(status);
        else if (status[0] && strcmp(watch->status, status) != 0 &&
                 strcmp(watch->state.active, "failed") != 0)
                print_line('*', status, NULL);
        NB_TEXT_COPY(watch->status, status);
}

/* A queued service has no status of its own. */
static void find_queue(struct watch *watch) {
        struct nb_unit_state *state = &watch->state;
        char blocker[NB_UNIT_NAME_SIZE];

        if (!state->has_job || state->status[0] || !strcmp(state->active, "activating"))
                watch->n_queued = 0;
        else
                watch->n_queued++;
        if (watch->n_queued <= QUEUED_LOOKS)
                return;
        nb_unit_find_blocker(state, blocker);
        if (blocker[0])
                snprintf(state->status, sizeof(state->status),
                         NB_SETUP_UNIT " is queued until %s has started%s", blocker, watch->since);
}

/* -ECANCELED on Ctrl-C; -ETIME. */
static int watch_job(struct watch *watch, struct nb_failure *f) {
        for (;;) {
                int r = nb_unit_show(NB_SETUP_UNIT, &watch->state, f);

                if (r < 0)
                        return r;
                find_queue(watch);
                print_wait(watch);
                print_status(watch);
                if (nb_unit_is_at_rest(&watch->state))
                        return 0;
                if (nb_now_ms() >= watch->deadline_ms)
                        return -ETIME;
                r = nb_stop_wait(LOOK_MS);
                if (r < 0)
                        return r;
        }
}

/* last.json has the reason or, if the program did not run, systemd. If neither has it, reports the
 * result and exit status from systemd. If the service was stopped, what it waited for is not the
 * cause. */
static int refuse_result(const struct watch *watch, const char *more, struct nb_failure *f) {
        _cleanup_(nb_unit_done) struct nb_unit unit = { 0 };
        const struct nb_unit_state *state = &watch->state;
        enum nb_code code = nb_failure_find(watch->last.code);
        int r;

        if (nb_unit_read(NB_SETUP_UNIT, &unit, f) < 0)
                return -EPROTO;
        if (nb_service_find_obstacle(&unit, f)) {
                nb_failure_add(f, "%s", more);
                return -EPROTO;
        }
        if (code != NB_NONE && (more[0] || !strcmp(state->active, "failed"))) {
                nb_last_adopt_fields(&watch->last);
                return nb_failure_set(f, code, 0, "%s%s", watch->last.detail, more);
        }
        r = nb_failure_set(f, NB_SETUP_UNFINISHED, 0,
                           NB_SETUP_UNIT " is %s (%s, exit status %d)%s%s%s", state->active,
                           state->sub, state->exit_status, state->status[0] ? ": " : "",
                           state->status, more);
        /* The exit status of a stopped service is 143 with systemd 252, and 0 with 257. */
        if (strcmp(state->active, "failed") != 0 || state->exit_status <= 0)
                return r;
        nb_log_failure(LOG_ERR, f);
        return state->exit_status;
}

static int watch_to_end(struct watch *watch, struct nb_failure *f) {
        int r;

        watch->has_line = nb_terminal_line_begin(STDOUT_FILENO);
        r = watch_job(watch, f);
        nb_terminal_line_end();
        fflush(stdout);
        if (r == -ETIME)
                return refuse_result(
                        watch,
                        "; stopped watching (--timeout), but " NB_SETUP_UNIT " keeps running", f);
        if (r < 0 && f->code != NB_NONE)
                return r;
        if (r < 0) {
                printf("Stopped watching; the join continues: `systemctl status " NB_SETUP_UNIT
                       "` shows it, `systemctl stop` ends it\n");
                return NB_EXIT_STOPPED;
        }
        return strcmp(watch->state.active, "active") != 0 ? refuse_result(watch, "", f) : 0;
}

/* Without systemd, as while an image is built, only systemctl(1) finds the links. */
static bool is_enabled_offline(const char *unit) {
        const char *const argv[] = { "systemctl", "is-enabled", "--quiet", unit, NULL };
        struct nb_process_result result;

        return nb_process_run(
                       &(struct nb_process){ .argv = argv, .timeout_ms = NB_PROCESS_TIMEOUT_MS },
                       &result) >= 0 &&
               result.status == 0;
}

/* A service that is running has read the previous settings. */
int nb_setup_plan_service(struct nb_setup *setup, struct nb_failure *f) {
        struct nb_setup_change enable = { NB_SETUP_ACTION_ENABLE, NULL, NB_SETUP_UNIT },
                               job = { NB_SETUP_ACTION_START, NULL, NB_SETUP_UNIT };
        struct nb_unit_state *state = &setup->service;
        bool is_running = nb_systemd_is_running(), is_active, is_activating,
             is_joining = nb_machine_is_joining(&setup->state);
        struct nb_unit_state gate = { .load = "" };
        int r = is_running ? nb_unit_show(NB_SETUP_UNIT, state, f) : 0;

        if (r >= 0 && is_running)
                r = nb_unit_show(NB_GATE_UNIT, &gate, f);
        if (r < 0)
                return r;
        if (setup->state.obstacle.code == NB_UNIT_MASKED ||
            setup->state.obstacle.code == NB_UNIT_MISSING) {
                *f = setup->state.obstacle;
                return -EPROTO;
        }
        if (!strcmp(gate.load, "masked"))
                return nb_failure_set(f, NB_SETUP_COMMAND_FAILED, 0,
                                      "systemd: " NB_GATE_UNIT " is masked");
        is_active = !strcmp(state->active, "active");
        is_activating = !strcmp(state->active, "activating");
        /* Enabled again, in case that a link is missing or an earlier setup was killed. */
        enable.is_already_so = is_running ? state->is_enabled && gate.is_enabled
                                          : is_enabled_offline(NB_SETUP_UNIT) &&
                                                    is_enabled_offline(NB_GATE_UNIT);
        nb_setup_add_change(setup, &enable);
        if (setup->is_start_unwanted ||
            (is_active && !is_joining && setup->state.kind != NB_MACHINE_WITHOUT_KUBECONFIG))
                return 0;
        if (is_active && !is_joining)
                job.action = NB_SETUP_ACTION_RELOAD;
        else if (is_active || (is_activating && setup->is_changed))
                job.action = NB_SETUP_ACTION_RESTART;
        job.is_already_so = is_activating && !setup->is_changed;
        nb_setup_add_change(setup, &job);
        return 0;
}

static int begin_service(struct nb_setup *setup, struct watch *watch, struct nb_failure *f) {
        struct nb_setup_change *last = &setup->changes[setup->n_planned - 1];
        char since[NB_RFC3339_SIZE];
        int r;

        /* Another `setup` may have started the service before this one had written everything. */
        if (last->action == NB_SETUP_ACTION_START && !last->is_already_so && setup->is_changed) {
                r = nb_unit_show(NB_SETUP_UNIT, &setup->service, f);
                if (r < 0)
                        return r;
                if (!strcmp(setup->service.active, "activating") ||
                    !strcmp(setup->service.active, "active"))
                        last->action = NB_SETUP_ACTION_RESTART;
        }
        watch->state = setup->service;
        watch->is_begun = last->action != NB_SETUP_ACTION_ENABLE;
        if (watch->is_begun) {
                if (!watch->state.has_job) {
                        nb_time_format(time(NULL), since);
                        snprintf(watch->since, sizeof(watch->since), "; since %s", since);
                }
                (void)nb_stop_init();
                if (last->action != NB_SETUP_ACTION_RELOAD && !last->is_already_so)
                        memcpy(watch->previous, watch->state.invocation, sizeof(watch->previous));
        }
        return nb_setup_apply(setup, NB_SETUP_ACTION_RELOAD, f);
}

/* A kubelet that was running before the join still uses what it read at its start. */
static int restart_kubelet(const struct watch *watch, struct nb_failure *f) {
        struct nb_unit_state kubelet;
        int r;

        if (!nb_last_is(&watch->last, NB_LAST_JOINED))
                return 0;
        r = nb_unit_show(NB_KUBELET_UNIT, &kubelet, f);
        if (r < 0)
                return r;
        if (strcmp(kubelet.active, "active") != 0 ||
            kubelet.active_since >= watch->state.active_since)
                return 0;
        printf("restarting " NB_KUBELET_UNIT ", which was running before the join\n");
        fflush(stdout);
        return nb_unit_queue("RestartUnit", NB_KUBELET_UNIT, f);
}

/*
 * A kubelet that is missing, masked or disabled is nobody's to wait for. Without its files kubelet
 * has usually ended again and again; if it still ends with them, the wait is over at once. Restarts
 * before this wait count for nothing, unlike in `status`.
 */
static int await_kubelet(const struct watch *watch, bool is_restored, uint64_t until_ms,
                         bool *ret_runs, struct nb_failure *f) {
        /* A kubelet that was started by then lacked its files. */
        uint64_t old_until = watch->state.active_since, silent_until = nb_now_ms() + SILENCE_MS;
        bool is_old = true, is_first = true, is_restarted = false;
        unsigned n_restarts = 0; /* that are no fault of this kubelet */
        int r;

        *ret_runs = false;
        for (;; is_first = false) {
                struct nb_unit_state kubelet;
                struct nb_failure why;
                enum nb_machine_kind kind;
                bool is_active, is_pending, has_ended;

                if (nb_setup_look_at_kubelet(&kubelet, &kind, &why) < 0)
                        return nb_failure_set_memory(f);
                if (is_first && is_restored)
                        old_until = kubelet.active_since;
                if (is_old)
                        n_restarts = kubelet.n_restarts;
                is_old = watch->is_begun && kubelet.active_since <= old_until;
                is_active = !strcmp(kubelet.active, "active");
                is_pending = is_active || kubelet.has_job || !strcmp(kubelet.active, "activating");
                has_ended = !is_old && (kubelet.n_restarts > n_restarts ||
                                        (kind == NB_MACHINE_KUBELET_CRASHING && !is_active));
                if (kind == NB_MACHINE_KUBELET_UNKNOWN)
                        return 0;
                if (kind == NB_MACHINE_KUBELET_UNPREPARED && !is_pending) {
                        printf("%s\n", why.detail);
                        return 0;
                }
                if (kind == NB_MACHINE_KUBELET_CRASHING && is_old && !is_restarted) {
                        /* Do not wait for RestartSec=. */
                        is_restarted = true;
                        r = nb_unit_queue("RestartUnit", NB_KUBELET_UNIT, f);
                        if (r < 0)
                                return r;
                } else if (is_active && !kubelet.has_job && !has_ended &&
                           kind != NB_MACHINE_KUBELET_UNPREPARED &&
                           nb_unit_is_settled(&kubelet, NB_SETUP_SETTLED_USEC)) {
                        *ret_runs = true;
                        return 0;
                } else if (has_ended || !is_pending || nb_now_ms() >= until_ms) {
                        *f = why;
                        return -ECHILD;
                }
                if (nb_now_ms() >= silent_until && kind != NB_MACHINE_JOINED) {
                        printf("* %s; waiting for kubelet\n", why.detail);
                        fflush(stdout);
                        silent_until = until_ms;
                }
                if (nb_stop_wait(LOOK_MS) < 0)
                        return NB_EXIT_STOPPED;
        }
}

int nb_setup_run_service(struct nb_setup *setup, struct nb_failure *f) {
        struct watch watch = { .deadline_ms = NB_TIME_INFINITE };
        uint64_t until_ms;
        bool runs = false;
        int r;

        if (setup->watch_ms != NB_TIME_INFINITE)
                watch.deadline_ms = nb_now_ms() + setup->watch_ms;
        r = begin_service(setup, &watch, f);
        if (r >= 0 && setup->is_start_unwanted)
                printf(NB_SETUP_UNIT " is enabled, but was not started\n");
        if (r < 0 || setup->is_start_unwanted || setup->wait == NB_SETUP_WAIT_NONE)
                return r;
        if (watch.is_begun) {
                r = watch_to_end(&watch, f);
        } else {
                /* Whether kubelet works is not known before it was asked. */
                printf("this machine has %s\n", setup->state.kind == NB_MACHINE_JOINED
                                                        ? "joined already"
                                                        : setup->state.why.detail);
                if (setup->is_changed)
                        printf("the changes take effect when " NB_SETUP_UNIT
                               " starts next: at the next boot, or with `systemctl "
                               "restart " NB_SETUP_UNIT "`\n");
        }
        if (r == 0)
                r = restart_kubelet(&watch, f);
        until_ms = nb_now_ms() + NB_SETUP_KUBELET_MS;
        if (until_ms > watch.deadline_ms)
                until_ms = watch.deadline_ms;
        if (r == 0 && setup->wait != NB_SETUP_WAIT_JOINED)
                r = await_kubelet(&watch, setup->state.kind == NB_MACHINE_WITHOUT_KUBECONFIG,
                                  until_ms, &runs, f);
        if (r < 0 && f->code == NB_NONE && nb_now_ms() >= until_ms)
                r = nb_failure_set(f, NB_KUBELET_DOWN, 0,
                                   "this machine has joined, but kubelet has only just started; "
                                   "stopped watching before it was clear that it keeps running");
        return r == 0 && (runs || setup->wait == NB_SETUP_WAIT_NODE)
                       ? nb_setup_await_node(setup, runs, until_ms, f)
                       : r;
}
