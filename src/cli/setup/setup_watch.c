/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/node_client.h"
#include "cli/setup/setup_internal.h"
#include "os/clock.h"
#include "os/stop.h"
#include "os/terminal.h"
#include "state_files/last.h"
#include "systemd/log.h"
#include "systemd/unit.h"

#define LOOK_MS 500
#define QUEUED_LOOKS 2  /* each start is queued for a moment, behind the service's helpers */
#define SILENCE_MS 5000 /* of a wait for kubelet, before setup says what it waits for */

struct watch {
        const struct nb_setup_wanted *wanted;
        uint64_t deadline_ms; /* NB_TIME_INFINITE */
        bool is_begun;        /* a job of the service was queued */
        bool is_start_due;    /* for what is new */

        /* The join */
        bool has_joined;
        char previous[sizeof(((struct nb_last *)NULL)->invocation)]; /* the run before it; "" */
        struct nb_setup_reasons reasons;
        char status[NB_FAILURE_DETAIL_MAX]; /* that was printed */
        unsigned n_queued;                  /* how often it was seen queued, without a break */

        /* kubelet and the Node */
        uint64_t until_ms, silent_until_ms;
        uint64_t since;     /* systemd's clock: what kubelet did until then no longer matters */
        bool is_restarted;  /* by setup */
        bool is_unattended; /* nobody starts kubelet */
        bool runs, is_healthy;
        bool is_wait_printed;
};

/* --- Output of the join --- */

static void print_line(char mark, const char *text, const struct nb_last *last) {
        printf("%c %s\n", mark, text);
        if (last) {
                nb_last_adopt_fields(last);
                nb_log_print_remedy(stdout, nb_failure_find(last->code), 4,
                                    nb_terminal_columns(STDOUT_FILENO));
        }
        fflush(stdout);
}

bool nb_setup_reason_is_due(struct nb_setup_reasons *reasons, enum nb_code code, const char *detail,
                            const char *csr) {
        reasons->n_seen = strcmp(detail, reasons->seen) == 0 ? reasons->n_seen + 1 : 1;
        NB_TEXT_COPY_LINE(reasons->seen, detail);
        if (csr[0] && strcmp(csr, reasons->csr) != 0) {
                memset(reasons->is_printed, 0, sizeof(reasons->is_printed));
                NB_TEXT_COPY_LINE(reasons->csr, csr);
        }
        if (code == NB_NONE ||
            (reasons->is_printed[code] &&
             (reasons->n_seen != NB_SETUP_REASON_LOOKS || !strcmp(detail, reasons->printed))))
                return false;
        reasons->is_printed[code] = true;
        NB_TEXT_COPY_LINE(reasons->printed, detail);
        return true;
}

/* A failure that ends the watch is printed at the end. */
static void print_wait(struct watch *watch, const struct nb_last *last) {
        enum nb_code code = nb_last_is(last, NB_LAST_FAILED) ? NB_NONE
                                                             : nb_failure_find(last->code);

        if (nb_setup_reason_is_due(&watch->reasons, code, last->detail, last->fields[NB_FIELD_CSR]))
                print_line(' ', last->detail, last);
}

/* The result of the join. A queued service has no status of its own; that of one that is starting
 * is the reason why it waits, or a stage, which lasts only a moment. */
static void print_status(struct watch *watch, const struct nb_machine_state *state) {
        const char *status = !nb_unit_is(&state->service, "activating") ? state->service.status
                                                                        : "";

        watch->n_queued = state->kind == NB_MACHINE_QUEUED ? watch->n_queued + 1 : 0;
        if (watch->n_queued > QUEUED_LOOKS)
                status = state->why.detail;
        if (status[0] && strcmp(watch->status, status) != 0 &&
            !nb_unit_is(&state->service, "failed"))
                print_line('*', status, NULL);
        NB_TEXT_COPY_LINE(watch->status, status);
}

/* --- The join --- */

/* last.json has the reason or, if the program did not run, systemd. If neither has it, reports the
 * result and exit status from systemd. If the service was stopped, what it waited for is not the
 * cause. */
static int refuse_result(const struct nb_machine_state *state, const char *more,
                         struct nb_failure *f) {
        const struct nb_unit_state *service = &state->service;
        const struct nb_last *last = &state->last;
        enum nb_code code = nb_failure_find(last->code);
        bool has_failed = nb_unit_is(service, "failed");
        int r;

        if (state->obstacle.code != NB_NONE) {
                *f = state->obstacle;
                nb_failure_add(f, "%s", more);
                return -EPROTO;
        }
        if (code != NB_NONE && (more[0] || has_failed)) {
                nb_last_adopt_fields(last);
                return nb_failure_set(f, code, 0, "%s%s", last->detail, more);
        }
        r = nb_failure_set(f, NB_SETUP_UNFINISHED, 0,
                           NB_SERVICE_UNIT " is %s (%s, exit status %d)%s%s%s", service->active,
                           service->sub, service->exit_status, service->status[0] ? ": " : "",
                           service->status, more);
        /* The exit status of a stopped service is 143 with systemd 252, and 0 with 257. */
        if (!has_failed || service->exit_status <= 0)
                return r;
        nb_log_failure(LOG_ERR, f);
        return service->exit_status;
}

static int await_join(struct watch *watch, const struct nb_machine_state *state,
                      struct nb_failure *f) {
        print_wait(watch, &state->last);
        print_status(watch, state);
        if (nb_unit_is_at_rest(&state->service))
                return !nb_unit_is(&state->service, "active") ? refuse_result(state, "", f) : 0;
        if (nb_now_ms() < watch->deadline_ms)
                return -EAGAIN;
        return refuse_result(
                state, "; stopped watching (--wait-timeout), but " NB_SERVICE_UNIT " keeps running",
                f);
}

/* --- kubelet --- */

static int restart_kubelet(struct watch *watch, const struct nb_machine_state *state,
                           struct nb_failure *f) {
        int r = nb_unit_queue("RestartUnit", NB_KUBELET_UNIT, f);

        watch->is_restarted = true;
        watch->since = state->kubelet.changed_since;
        return r < 0 ? r : -EAGAIN;
}

static int fail_kubelet(const struct nb_machine_state *state, struct nb_failure *f) {
        *f = state->why;
        if (f->code != NB_NONE)
                return -ECHILD;
        return nb_failure_set(f, NB_KUBELET_DOWN, 0,
                              "%s; stopped watching before it was clear that kubelet keeps running",
                              state->why.detail);
}

/* Without its files kubelet has usually ended again and again: after a join it is started once more
 * without waiting for RestartSec=, and if it still ends, the wait is over. */
static int await_running(struct watch *watch, const struct nb_machine_state *state, bool is_pending,
                         struct nb_failure *f) {
        const struct nb_unit_state *kubelet = &state->kubelet;
        bool is_active = nb_unit_is(kubelet, "active"),
             /* A job that is queued starts it again. */
                is_left = !kubelet->has_job && !is_active,
             has_ended = (is_left && state->kind == NB_MACHINE_KUBELET_CRASHING) ||
                         (!kubelet->has_job && nb_unit_has_ended_since(kubelet, watch->since + 1));

        if ((has_ended || (is_left && nb_unit_awaits_restart(kubelet))) && watch->is_begun &&
            !watch->is_restarted)
                return restart_kubelet(watch, state, f);
        if (has_ended || !is_pending)
                return fail_kubelet(state, f);
        if (is_active && !kubelet->has_job && state->kind != NB_MACHINE_KUBELET_UNPREPARED &&
            nb_unit_is_settled(kubelet, NB_SETUP_SETTLED_USEC)) {
                watch->runs = true;
                return 0;
        }
        if (nb_now_ms() >= watch->until_ms)
                return fail_kubelet(state, f);
        if (nb_now_ms() >= watch->silent_until_ms && state->kind != NB_MACHINE_JOINED) {
                printf("* %s; waiting for kubelet\n", state->why.detail);
                fflush(stdout);
                watch->silent_until_ms = NB_TIME_INFINITE;
        }
        return -EAGAIN;
}

static int await_kubelet(struct watch *watch, const struct nb_machine_state *state,
                         struct nb_failure *f) {
        const struct nb_unit_state *kubelet = &state->kubelet;
        bool is_active = nb_unit_is(kubelet, "active"),
             /* Not at rest: also after its process has ended, before systemd starts it again. */
                is_pending = is_active || !nb_unit_is_at_rest(kubelet),
             is_unprepared = state->kind == NB_MACHINE_KUBELET_UNPREPARED && !is_pending;

        /* A kubelet that was running before the join still uses what it read at its start. */
        if (watch->is_begun && !watch->is_restarted && is_active &&
            nb_last_is(&state->last, NB_LAST_JOINED) &&
            kubelet->active_since < state->service.active_since) {
                printf("restarting " NB_KUBELET_UNIT ", which was running before the join\n");
                fflush(stdout);
                return restart_kubelet(watch, state, f);
        }
        if (watch->wanted->wait == NB_SETUP_WAIT_CERTIFICATE || watch->is_unattended)
                return 0;
        /* There is no kubelet.service yet: somebody may install kubelet later. */
        if (is_unprepared && !strcmp(kubelet->load, "not-found")) {
                printf("%s\n", state->why.detail);
                watch->is_unattended = true;
        }
        watch->is_unattended |= state->kind == NB_MACHINE_KUBELET_UNKNOWN;
        return watch->is_unattended ? 0 : await_running(watch, state, is_pending, f);
}

/* --- The Node --- */

/* As nb_node_ask(). */
static int ask(struct watch *watch, const char *health, struct nb_failure *f) {
        int r = nb_node_ask(health, f);

        if (r < 0 && f->code != NB_INTERNAL && nb_now_ms() < watch->until_ms) {
                nb_failure_clear(f);
                if (!watch->is_wait_printed)
                        printf("waiting for %s\n",
                               health ? "kubelet to become healthy" : "the Node to be registered");
                fflush(stdout);
                watch->is_wait_printed = true;
                return -EAGAIN;
        }
        watch->is_wait_printed = false;
        return r;
}

static int await_node(struct watch *watch, const struct nb_machine_state *state,
                      struct nb_failure *f) {
        int r = 0;

        if (watch->runs && !watch->is_healthy) {
                r = state->health[0] ? ask(watch, state->health, f) : 0;
                if (r < 0)
                        return r;
                printf("kubelet is running\n");
                watch->is_healthy = true;
        }
        if (watch->wanted->wait != NB_SETUP_WAIT_NODE)
                return 0;
        r = ask(watch, NULL, f);
        if (r >= 0)
                printf("Node '%s' is registered\n", state->node.inspection.node);
        return r;
}

/* --- The whole --- */

static void end_join(struct watch *watch, const struct nb_machine_state *state) {
        uint64_t now = nb_now_ms(), until = now + NB_SETUP_KUBELET_MS;

        watch->has_joined = true;
        watch->until_ms = until < watch->deadline_ms ? until : watch->deadline_ms;
        watch->silent_until_ms = now + SILENCE_MS;
        watch->since = state->kubelet.changed_since;
        fflush(stdout);
}

static int judge(struct watch *watch, const struct nb_machine_state *state, struct nb_failure *f) {
        struct nb_unit_state service;
        int r;

        /* Says why systemd does not answer. */
        if (!state->service.active[0])
                return nb_unit_show(NB_SERVICE_UNIT, &service, f) < 0 ? -EPROTO : -EAGAIN;
        if (watch->has_joined)
                return await_kubelet(watch, state, f);
        r = watch->is_begun ? await_join(watch, state, f) : 0;
        if (r != 0)
                return r;
        if (!watch->is_begun)
                printf("this machine has %s\n",
                       state->kind == NB_MACHINE_JOINED ? "joined already" : state->why.detail);
        if (watch->is_start_due)
                printf("the %schanges take effect when " NB_SERVICE_UNIT
                       " starts next: at the next boot, or with `systemctl restart " NB_SERVICE_UNIT
                       "`\n",
                       watch->is_begun ? "other " : "");
        end_join(watch, state);
        return await_kubelet(watch, state, f);
}

static int watch_machine(struct watch *watch, struct nb_failure *f) {
        struct nb_machine_state state;
        struct nb_sources sources;
        int r;

        for (;;) {
                nb_sources_init(&sources, NB_CONFIG_DIRECTORY);
                r = nb_machine_look(&sources, false, &state);
                /* Nothing of the run before it. */
                if (r >= 0 && watch->previous[0] && !strcmp(watch->previous, state.last.invocation))
                        state.last = (struct nb_last){ 0 };
                r = r < 0 ? nb_failure_set_memory(f) : judge(watch, &state, f);
                /* With kubelet's key, which the children that ask must not have. */
                nb_machine_state_done(&state);
                if (r == 0)
                        r = await_node(watch, &state, f);
                if (r != -EAGAIN || f->code != NB_NONE)
                        return r;
                if (nb_stop_wait(LOOK_MS) < 0)
                        return NB_EXIT_STOPPED;
        }
}

static int begin_service(struct nb_setup_plan *plan, struct watch *watch, struct nb_failure *f) {
        struct nb_setup_change *last = &plan->changes[plan->n_changes - 1];
        struct nb_unit_state *service = &plan->service;
        int r;

        /* Another `setup` may have started the service before this one had written everything. */
        if (last->action == NB_SETUP_ACTION_START && !last->is_already_so && plan->is_changed) {
                r = nb_unit_show(NB_SERVICE_UNIT, service, f);
                if (r < 0)
                        return r;
                if (nb_unit_is(service, "activating") || nb_unit_is(service, "active"))
                        last->action = NB_SETUP_ACTION_RESTART;
        }
        watch->is_begun = last->action != NB_SETUP_ACTION_ENABLE;
        watch->is_start_due = plan->is_start_due && (last->action == NB_SETUP_ACTION_ENABLE ||
                                                     last->action == NB_SETUP_ACTION_RELOAD);
        if (watch->is_begun && !last->is_already_so)
                memcpy(watch->previous, service->invocation, sizeof(watch->previous));
        return nb_setup_apply(watch->wanted, plan, NB_SETUP_ACTION_RELOAD, f);
}

int nb_setup_watch(const struct nb_setup_wanted *wanted, struct nb_setup_plan *plan,
                   struct nb_failure *f) {
        struct watch watch = { .wanted = wanted, .deadline_ms = NB_TIME_INFINITE };
        int r;

        if (wanted->watch_ms != NB_TIME_INFINITE)
                watch.deadline_ms = nb_now_ms() + wanted->watch_ms;
        (void)nb_stop_init();
        r = begin_service(plan, &watch, f);
        if (r < 0)
                return r;
        if (wanted->is_start_unwanted)
                printf(NB_SERVICE_UNIT " is enabled, but was not started\n");
        if (wanted->is_start_unwanted || wanted->wait == NB_SETUP_WAIT_NONE)
                return 0;
        r = watch_machine(&watch, f);
        if (r == NB_EXIT_STOPPED && !watch.has_joined)
                printf("Stopped watching; the join continues: `systemctl status " NB_SERVICE_UNIT
                       "` shows it, `systemctl stop` ends it\n");
        return r;
}
