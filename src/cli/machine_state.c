/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/macro.h"
#include "base/text.h"
#include "cli/machine_state.h"
#include "cli/service.h"
#include "join_method/cluster_identity.h"
#include "join_method/settings_documents.h"
#include "os/clock.h"
#include "os/process.h"
#include "state_files/refresh_settings.h"
#include "systemd/log.h"

#define UNKNOWN 5
#define KUBELET_DOWN 4
#define INVALID 2
#define NOT_JOINED 1

/* While the service is active, root can read what systemd has given it. */
#define CREDENTIALS "/run/credentials/" NB_SERVICE_UNIT

static const struct {
        const char *name;
        int exit_status;
        enum nb_code code;
} kinds[_NB_MACHINE_KIND_N] = {
        [NB_MACHINE_JOINED] = { "joined", 0, NB_NONE },
        [NB_MACHINE_KUBELET_UNPREPARED] = { "kubelet-unprepared", KUBELET_DOWN,
                                            NB_KUBELET_UNPREPARED },
        [NB_MACHINE_KUBELET_STOPPED] = { "kubelet-stopped", KUBELET_DOWN, NB_KUBELET_DOWN },
        [NB_MACHINE_KUBELET_CRASHING] = { "kubelet-crashing", KUBELET_DOWN, NB_KUBELET_DOWN },
        [NB_MACHINE_KUBELET_UNKNOWN] = { "kubelet-unknown", UNKNOWN, NB_NONE },
        [NB_MACHINE_WITHOUT_KUBECONFIG] = { "without-kubeconfig", KUBELET_DOWN,
                                            NB_KUBECONFIG_LOST },
        [NB_MACHINE_NOT_YET_VALID] = { "not-yet-valid", INVALID, NB_NOT_YET_VALID },
        [NB_MACHINE_EXPIRED] = { "expired", INVALID, NB_JOIN_NEEDED },
        [NB_MACHINE_IS_COPY] = { "copied", NOT_JOINED, NB_MACHINE_COPIED },
        [NB_MACHINE_UNUSABLE] = { "unusable", NOT_JOINED, NB_JOIN_NEEDED },
        [NB_MACHINE_NOT_JOINED] = { "not-joined", NOT_JOINED, NB_NONE },
        [NB_MACHINE_QUEUED] = { "queued", NOT_JOINED, NB_NONE },
        [NB_MACHINE_WAITING] = { "waiting", NOT_JOINED, NB_NONE },
        [NB_MACHINE_FAILED] = { "failed", NOT_JOINED, NB_NONE },
        [NB_MACHINE_HIDDEN] = { "unknown", UNKNOWN, NB_NONE },
};

const char *nb_machine_kind_name(enum nb_machine_kind kind) {
        return kinds[kind].name;
}

/* Any code of a failure lets nb_failure_set() make the text printable. */
#define CONCLUDE(state, of_kind, ...) \
        ({ \
                (state)->kind = (of_kind); \
                (void)nb_failure_set(&(state)->why, NB_INTERNAL, 0, __VA_ARGS__); \
                (state)->why.code = kinds[of_kind].code; \
        })

/* Makes one detail of two sentences, one of which may be that of `why`, and keeps its code.
 * nb_failure_add() would cut the second one to a half. */
static void join_sentences(struct nb_machine_state *state, const char *first, const char *link,
                           const char *second) {
        struct nb_failure why = { 0 };

        (void)nb_failure_set(&why, NB_INTERNAL, 0, "%s; %s%s", first, link, second);
        why.code = state->why.code;
        state->why = why;
}

/* `what` cannot start yet. */
static void judge_queue(const char *what, const struct nb_machine_units *units,
                        struct nb_machine_state *state) {
        char since[NB_RFC3339_SIZE] = "";

        if (units->blocker_begun_usec > 0)
                nb_time_format((time_t)(units->blocker_begun_usec / 1000000), since);
        CONCLUDE(state, NB_MACHINE_QUEUED, "%s is queued behind %s%s%s", what,
                 units->blocker[0] ? units->blocker : "another unit",
                 since[0] ? ", which has been starting since " : "", since);
}

/* Not while it is being stopped or restarted. */
static bool is_queued(const struct nb_unit_state *unit) {
        return unit->has_job && (nb_unit_is(unit, "inactive") || nb_unit_is(unit, "failed"));
}

/* --- A machine with a usable certificate --- */

/* Why kubelet cannot start: the first reason; its text is "" if there is none. */
static int find_cause(struct nb_sources *sources, const struct nb_unit *kubelet,
                      struct nb_machine_state *state, struct nb_kubelet_finding *ret) {
        struct nb_kubelet_findings found;
        int r = nb_kubelet_check(sources, kubelet, &state->settings, state->settings_failure.code,
                                 &state->last, &found);

        if (r < 0)
                return r;
        NB_TEXT_COPY(state->health, found.health);
        /* What kubelet needs only at its start may be gone later. */
        if (nb_unit_is(&state->kubelet, "active") &&
            nb_unit_is_settled(&state->kubelet, NB_KUBELET_SETTLED_USEC))
                return 0;
        for (unsigned i = 0; i < found.n && !ret->text[0]; i++)
                if (found.findings[i].state == NB_KUBELET_BAD)
                        *ret = found.findings[i];
        return 0;
}

static void judge_crash(const struct nb_kubelet_finding *cause, const char *error,
                        struct nb_machine_state *state) {
        bool is_known = cause->text[0] && cause->code != NB_KUBELET_UNPREPARED;

        CONCLUDE(state, NB_MACHINE_KUBELET_CRASHING,
                 "joined, but kubelet keeps exiting (exit status %d)%s%s",
                 state->kubelet.exit_status, error[0] || cause->text[0] ? ": " : "",
                 error[0] && !is_known ? error : cause->text);
        if (is_known)
                state->why.code = cause->code;
}

/* Without its gate, a start of kubelet alone cannot help; add_obstacle() says so. Exit status 1 is
 * an answer of the gate, from before this machine joined, and no failure. */
static void add_gate(const struct nb_unit_state *gate, struct nb_machine_state *state) {
        if (!nb_service_is_loaded(gate) && state->obstacle.code != NB_NONE)
                state->why.code = state->obstacle.code;
        else if (nb_unit_is(gate, "failed") && gate->exit_status != 1)
                nb_failure_add(&state->why, "; " NB_GATE_UNIT " has failed (exit status %d)",
                               gate->exit_status);
}

static int judge_kubelet(struct nb_sources *sources, const struct nb_machine_units *units,
                         struct nb_machine_state *state) {
        const struct nb_unit_state *kubelet = &state->kubelet;
        struct nb_kubelet_finding cause = { .text = "" };
        char error[512] = "", age[NB_DURATION_SIZE];
        uint64_t active_usec = nb_unit_active_usec(kubelet);
        bool runs = nb_unit_is(kubelet, "active"), has_failed = nb_unit_is(kubelet, "failed"),
             is_crashing, is_unprepared;
        int r;

        if (is_queued(kubelet)) {
                judge_queue("joined, and " NB_KUBELET_UNIT, units, state);
                return 0;
        }
        if (state->node.present.is_ca_lost) {
                CONCLUDE(state, NB_MACHINE_WITHOUT_KUBECONFIG,
                         "joined, but kubelet cannot verify the API server: its CA file '%s' is "
                         "missing or damaged",
                         state->node.paths.ca_file);
                return 0;
        }
        if (!kubelet->active[0]) {
                CONCLUDE(state, NB_MACHINE_KUBELET_UNKNOWN,
                         "joined; systemd does not answer, so it is unknown whether kubelet is "
                         "running");
                return 0;
        }
        r = find_cause(sources, &units->kubelet, state, &cause);
        if (r < 0)
                return r;
        /* Before the join, it ended because it lacked its files. */
        is_crashing = nb_unit_has_ended_since(kubelet, state->service.active_since) &&
                      (runs ? active_usec < NB_KUBELET_SETTLED_USEC
                            : has_failed || nb_unit_is(kubelet, "activating"));
        nb_duration_format(active_usec / 1000, age);
        is_unprepared = cause.text[0] && (runs || !is_crashing);
        if (!runs && !is_unprepared && (is_crashing || has_failed))
                nb_unit_find_error(NB_KUBELET_UNIT, error, sizeof(error));
        if (is_unprepared) {
                CONCLUDE(state, NB_MACHINE_KUBELET_UNPREPARED,
                         "joined, but kubelet%s%s%s cannot %s: %s",
                         runs ? ", which was started " : "", runs ? age : "", runs ? " ago," : "",
                         runs ? "run" : "start", cause.text);
                state->why.code = cause.code;
        } else if (is_crashing && runs) {
                CONCLUDE(state, NB_MACHINE_KUBELET_CRASHING,
                         "joined, but kubelet ended %u time%s and was started again %s ago",
                         kubelet->n_restarts, kubelet->n_restarts == 1 ? "" : "s", age);
        } else if (is_crashing) {
                judge_crash(&cause, error, state);
        } else if (runs) {
                CONCLUDE(state, NB_MACHINE_JOINED, "joined, and kubelet is running");
        } else {
                CONCLUDE(state, NB_MACHINE_KUBELET_STOPPED,
                         "joined, but kubelet is not running: " NB_KUBELET_UNIT " is %s (%s)%s%s",
                         kubelet->active, kubelet->sub, error[0] ? ": " : "", error);
                add_gate(&units->gate, state);
        }
        return 0;
}

/* The next start of the service moves this machine, or replaces its certificate. */
static void add_intent(struct nb_machine_state *state) {
        if (!nb_node_state_has_fallback(state->node.inspection.state))
                return;
        nb_failure_add(&state->why, "; " NB_SERVICE_UNIT " joins again at its next start: %s",
                       state->node.inspection.detail);
        if (nb_last_is(&state->last, NB_LAST_KEPT) && state->last.code[0])
                nb_failure_add(&state->why, "; the last attempt failed (%s): %s", state->last.code,
                               state->last.detail);
}

/* kubelet starts nevertheless. */
static void add_obstacle(struct nb_machine_state *state) {
        if (state->obstacle.code == NB_NONE)
                return;
        join_sentences(state, state->why.detail, "but ", state->obstacle.detail);
        /* As long as this is so, starting the service cannot help. */
        if (state->why.code == NB_NONE || state->why.code == NB_KUBECONFIG_LOST)
                state->why.code = state->obstacle.code;
}

/* Only a warning, which gives way to any failure. */
static void add_renaming(struct nb_machine_state *state) {
        const struct nb_inspection *inspection = &state->node.inspection;

        if (!inspection->changed[0] || state->why.code != NB_NONE)
                return;
        nb_failure_add(&state->why, "; " NB_NODE_RENAMED_FORMAT, inspection->changed,
                       inspection->node);
        state->why.code = NB_NODE_RENAMED;
}

/* --- A machine without --- */

/* Without systemd, only last.json has the state of the join. */
static bool is_join_in(const struct nb_machine_state *state, const char *last) {
        return !state->service.active[0] && nb_last_is(&state->last, last);
}

static void adopt_code(struct nb_machine_state *state) {
        enum nb_code code = nb_failure_find(state->last.code);

        if (code != NB_NONE)
                state->why.code = code;
}

/* If the service has not reported what it waits for, systemd knows the stage. */
static void judge_wait(struct nb_machine_state *state) {
        const struct nb_last *last = &state->last;
        const char *status = state->service.status;
        char since[NB_RFC3339_SIZE];

        nb_time_format((time_t)(state->service.begun_usec / 1000000), since);
        if (state->service.begun_usec == 0)
                NB_TEXT_COPY_LINE(since, last->since);
        if (nb_last_is(last, NB_LAST_JOINING) && last->code[0]) {
                CONCLUDE(state, NB_MACHINE_WAITING, "joining since %s, waiting since %s (%s): %s",
                         since, last->since, last->code, last->detail);
                adopt_code(state);
        } else {
                CONCLUDE(state, NB_MACHINE_WAITING, "joining since %s%s%s", since,
                         status[0] ? ": " : "", status);
        }
}

/* What a join waits for does not say why this machine joins again. */
static void put_expiry_first(struct nb_machine_state *state) {
        if (state->node.inspection.state == NB_NODE_STATE_EXPIRED)
                join_sentences(state, state->node.inspection.detail, "", state->why.detail);
}

static void judge_failure(struct nb_machine_state *state) {
        const struct nb_last *last = &state->last;
        const char *status = state->service.status;

        if (state->obstacle.code != NB_NONE) {
                state->kind = NB_MACHINE_FAILED;
                state->why = state->obstacle;
                return;
        }
        if (nb_last_is(last, NB_LAST_FAILED))
                CONCLUDE(state, NB_MACHINE_FAILED, "the last join failed%s%s%s: %s",
                         last->code[0] ? " (" : "", last->code, last->code[0] ? ")" : "",
                         last->detail);
        else
                CONCLUDE(state, NB_MACHINE_FAILED, "%s",
                         status[0] ? status : NB_SERVICE_UNIT " has failed");
        adopt_code(state);
}

static void judge_disk(struct nb_machine_state *state, bool has_failed) {
        static const enum nb_machine_kind by_disk[_NB_NODE_STATE_N] = {
                [NB_NODE_STATE_ABSENT] = NB_MACHINE_NOT_JOINED,
                [NB_NODE_STATE_EXPIRED] = NB_MACHINE_EXPIRED,
                [NB_NODE_STATE_COPIED] = NB_MACHINE_IS_COPY,
                [NB_NODE_STATE_UNREADABLE] = NB_MACHINE_UNUSABLE,
                [NB_NODE_STATE_WITHOUT_KUBECONFIG] = NB_MACHINE_UNUSABLE,
        };
        const struct nb_inspection *found = &state->node.inspection;

        if (found->state == NB_NODE_STATE_NOT_YET_VALID)
                CONCLUDE(state, NB_MACHINE_NOT_YET_VALID,
                         "joined, but this machine's clock is wrong: %s", found->detail);
        else if (found->state == NB_NODE_STATE_WITHOUT_KUBECONFIG && state->node.present.has_record)
                CONCLUDE(
                        state, NB_MACHINE_WITHOUT_KUBECONFIG, "%s: %s",
                        nb_unit_is(&state->kubelet, "active") &&
                                        nb_unit_is_settled(&state->kubelet, NB_KUBELET_SETTLED_USEC)
                                ? "kubelet is running, but cannot start again"
                                : "kubelet cannot start",
                        found->detail);
        else
                CONCLUDE(state, by_disk[found->state], NB_MACHINE_NOT_JOINED_PREFIX "%s",
                         found->detail);
        add_obstacle(state);
        /* As long as this is so, starting the service cannot help. */
        if (state->obstacle.code != NB_NONE && state->kind != NB_MACHINE_NOT_YET_VALID)
                state->why.code = state->obstacle.code;
        if (state->obstacle.code != NB_NONE || !has_failed || !state->last.code[0])
                return;
        nb_failure_add(&state->why, "; the last join failed (%s): %s", state->last.code,
                       state->last.detail);
        /* It also keeps the next start from replacing what is on disk. The remedies for another
         * node and for an expired certificate are a new join command, which repairs more. */
        if (state->kind == NB_MACHINE_UNUSABLE || state->kind == NB_MACHINE_WITHOUT_KUBECONFIG)
                adopt_code(state);
}

static void try_disk(_unused_ void *userdata) {
        _cleanup_(nb_node_done) struct nb_node node = { 0 };
        struct nb_failure ignored = { 0 };

        (void)nb_node_inspect_disk(-1, &node, &ignored);
}

static int judge(struct nb_sources *sources, const struct nb_machine_units *units,
                 struct nb_machine_state *state) {
        const struct nb_unit_state *service = &state->service;
        enum nb_node_state found = state->node.inspection.state;
        bool has_failed = nb_unit_is(service, "failed") || is_join_in(state, NB_LAST_FAILED),
             is_activating, has_obstacle;

        state->is_certificate_usable = found == NB_NODE_STATE_USABLE ||
                                       nb_node_state_has_fallback(found);
        if (geteuid() != 0 && state->node.present.why.errnum == EACCES) {
                CONCLUDE(state, NB_MACHINE_HIDDEN,
                         "this user cannot read kubelet's files or the settings; run as root");
                return 0;
        }
        nb_service_find_obstacle(NB_SERVICE_UNIT, service, &units->gate, &state->obstacle);
        nb_service_add_drop_ins(&units->service, &state->obstacle);
        if (units->is_rehearsed && nb_service_is_rehearsable(service, &state->obstacle))
                nb_failure_clear(&state->obstacle);
        has_obstacle = state->obstacle.code != NB_NONE;
        is_activating = !has_obstacle &&
                        (nb_unit_is(service, "activating") || is_join_in(state, NB_LAST_JOINING));
        if (state->is_certificate_usable && !is_activating) {
                int r = judge_kubelet(sources, units, state);

                add_intent(state);
                add_obstacle(state);
                add_renaming(state);
                return r;
        }
        if (is_activating) {
                judge_wait(state);
                put_expiry_first(state);
        } else if (service->has_job && !has_obstacle && found != NB_NODE_STATE_NOT_YET_VALID) {
                judge_queue(NB_SERVICE_UNIT, units, state);
                put_expiry_first(state);
        } else if (found == NB_NODE_STATE_ABSENT && (has_failed || has_obstacle))
                judge_failure(state);
        else
                judge_disk(state, has_failed);
        return 0;
}

/* A program that was killed cannot report that, but systemd knows it. */
static void read_last(struct nb_machine_state *state) {
        const struct nb_unit_state *service = &state->service;
        struct nb_last *last = &state->last;

        nb_last_read(-1, service, last);
        if (!nb_last_is(last, NB_LAST_JOINING) || !service->active[0] ||
            nb_unit_is(service, "activating"))
                return;
        NB_TEXT_COPY_LINE(last->state, NB_LAST_FAILED);
        last->code[0] = '\0';
        snprintf(last->detail, sizeof(last->detail), NB_SERVICE_UNIT " was ended (%s)",
                 service->result);
}

int nb_machine_judge(struct nb_sources *sources, const struct nb_machine_units *units,
                     struct nb_machine_state *ret_state) {
        struct nb_failure f = { 0 };
        struct nb_node *node = &ret_state->node;
        int r;

        *ret_state = (struct nb_machine_state){ .service = units->service.state,
                                                .kubelet = units->kubelet.state,
                                                .node.now = time(NULL) };
        read_last(ret_state);
        if (nb_process_try(try_disk, NULL, NB_SOURCES_READ_TIMEOUT_MS) == -ETIMEDOUT) {
                CONCLUDE(ret_state, NB_MACHINE_HIDDEN,
                         "kubelet's files cannot be read within %d s: their file system does not "
                         "answer",
                         NB_SOURCES_READ_TIMEOUT_MS / 1000);
                ret_state->why.errnum = ETIMEDOUT;
                return 0;
        }
        (void)nb_documents_merge(sources, NULL, &ret_state->settings, &ret_state->settings_failure);
        r = nb_node_inspect_disk(-1, node, &f);
        if (r == -ENOMEM)
                return r;
        /* Another file is where the kubeconfig should be. */
        if (r < 0) {
                node->inspection.state = NB_NODE_STATE_UNREADABLE;
                memcpy(node->inspection.detail, f.detail, sizeof(f.detail));
        }
        /* Without the mark, the record has the last refresh that changed something. */
        ret_state->refreshed = nb_refresh_mark_time(-1);
        if (ret_state->refreshed == 0)
                ret_state->refreshed = nb_time_parse(node->present.record.refreshed_at);
        r = judge(sources, units, ret_state);
        if (r >= 0 && f.code != NB_NONE && ret_state->kind == NB_MACHINE_UNUSABLE)
                ret_state->why.code = f.code;
        return r;
}

void nb_machine_apply_settings(struct nb_machine_state *state, struct nb_sources *sources) {
        _cleanup_(nb_context_done) struct nb_context context = { 0 };
        const bool was_kept = nb_node_state_is_joined(state->node.inspection.state);
        struct nb_failure ignored = { 0 };

        if (nb_context_load(&context, -1, sources, &ignored) < 0)
                return;
        nb_node_apply_settings(&state->node, &context);
        if (was_kept && !nb_node_state_is_joined(state->node.inspection.state))
                add_intent(state);
}

void nb_machine_units_read(struct nb_machine_units *ret_units) {
        struct nb_failure ignored = { 0 };
        struct nb_unit_state state;

        *ret_units = (struct nb_machine_units){ 0 };
        if (!nb_systemd_is_running())
                return;
        (void)nb_kubelet_show(&ret_units->kubelet);
        (void)nb_unit_show(NB_GATE_UNIT, &ret_units->gate, &ignored);
        if (nb_unit_read(NB_SERVICE_UNIT, &ret_units->service, &ignored) < 0)
                return;
        state = ret_units->service.state;
        if (nb_unit_is(&state, "activating"))
                return;
        if (!state.has_job && is_queued(&ret_units->kubelet.state))
                state = ret_units->kubelet.state;
        nb_unit_find_blocker(&state, ret_units->blocker);
        if (ret_units->blocker[0] && nb_unit_show(ret_units->blocker, &state, &ignored) >= 0)
                ret_units->blocker_begun_usec = state.begun_usec;
}

void nb_machine_units_done(struct nb_machine_units *units) {
        nb_unit_done(&units->service);
        nb_unit_done(&units->kubelet);
}

int nb_machine_look(struct nb_sources *sources, bool are_settings_applied,
                    struct nb_machine_state *ret_state) {
        _cleanup_(nb_machine_units_done) struct nb_machine_units units;
        const char *before = sources->credentials_directory;
        int r;

        nb_machine_units_read(&units);
        /* For hints about kubelet; the verdict does not need them. */
        if (!before && access(CREDENTIALS, R_OK | X_OK) == 0)
                sources->credentials_directory = CREDENTIALS;
        else if (!before)
                nb_sources_find_stores(sources);
        r = nb_machine_judge(sources, &units, ret_state);
        if (r >= 0 && are_settings_applied)
                nb_machine_apply_settings(ret_state, sources);
        sources->credentials_directory = before;
        sources->stores[0] = NULL;
        return r;
}

void nb_machine_state_done(struct nb_machine_state *state) {
        nb_node_done(&state->node);
}

int nb_machine_exit_status(const struct nb_machine_state *state, bool is_kubelet_ignored) {
        int status = kinds[state->kind].exit_status;

        if (state->kind == NB_MACHINE_QUEUED && state->is_certificate_usable)
                status = KUBELET_DOWN;
        if (state->node.inspection.state == NB_NODE_STATE_EXPIRED && status == NOT_JOINED)
                return INVALID;
        return is_kubelet_ignored && state->is_certificate_usable ? 0 : status;
}

bool nb_machine_is_joining(const struct nb_machine_state *state) {
        return state->kind == NB_MACHINE_WAITING ||
               nb_node_state_has_fallback(state->node.inspection.state) ||
               (!state->is_certificate_usable && state->kind != NB_MACHINE_HIDDEN &&
                state->kind != NB_MACHINE_WITHOUT_KUBECONFIG &&
                state->kind != NB_MACHINE_NOT_YET_VALID);
}

void nb_machine_adopt_fields(const struct nb_machine_state *state) {
        const struct nb_present *present = &state->node.present;

        if (state->last.code[0] && state->why.code == nb_failure_find(state->last.code))
                nb_last_adopt_fields(&state->last);
        if (present->has_record && nb_record_is_by_supervisor(&present->record))
                nb_log_field(NB_FIELD_CLUSTER, "k3s");
        if (state->why.code == NB_MACHINE_COPIED || state->why.code == NB_NODE_RENAMED)
                nb_log_field(NB_FIELD_NODE, "%s", state->node.inspection.node);
}
