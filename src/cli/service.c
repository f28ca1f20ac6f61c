/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <string.h>

#include "base/macro.h"
#include "cli/service.h"
#include "settings/kubelet_unit.h"
#include "systemd/unit.h"

#define REASON_SIZE 192
#define SYSTEMD_FROM 200 /* exit statuses from here on are those of systemd */
#define SYSTEMD_CREDENTIALS 243
#define SYSTEMD_STATE_DIRECTORY 238
#define SYSTEMD_CONFIGURATION_DIRECTORY 241

/* systemd.exec(5), "Process Exit Codes". */
static const char *const names[] = {
        "CHDIR",
        "NICE",
        "FDS",
        "EXEC",
        "MEMORY",
        "LIMITS",
        "OOM_ADJUST",
        "SIGNAL_MASK",
        "STDIN",
        "STDOUT",
        "CHROOT",
        "IOPRIO",
        "TIMERSLACK",
        "SECUREBITS",
        "SETSCHEDULER",
        "CPUAFFINITY",
        "GROUP",
        "USER",
        "CAPABILITIES",
        "CGROUP",
        "SETSID",
        "CONFIRM",
        "STDERR",
        NULL,
        "PAM",
        "NETWORK",
        "NAMESPACE",
        "NO_NEW_PRIVILEGES",
        "SECCOMP",
        "SELINUX_CONTEXT",
        "PERSONALITY",
        "APPARMOR",
        "ADDRESS_FAMILIES",
        "RUNTIME_DIRECTORY",
        NULL,
        "CHOWN",
        "SMACK_PROCESS_LABEL",
        "KEYRING",
        "STATE_DIRECTORY",
        "CACHE_DIRECTORY",
        "LOGS_DIRECTORY",
        "CONFIGURATION_DIRECTORY",
        "NUMA_POLICY",
        "CREDENTIALS",
        "BPF",
        "KSM",
};

bool nb_service_is_loaded(const struct nb_unit_state *unit) {
        return !unit->load[0] || !strcmp(unit->load, "loaded");
}

static void refuse_load(const char *name, const struct nb_unit_state *unit,
                        struct nb_failure *why) {
        if (nb_service_is_loaded(unit))
                return;
        if (!strcmp(unit->load, "masked"))
                (void)nb_failure_set(why, NB_UNIT_MASKED, 0, "%s is masked", name);
        else if (!strcmp(unit->load, "not-found"))
                (void)nb_failure_set(why, NB_UNIT_MISSING, 0, "systemd does not find %s", name);
        else
                (void)nb_failure_set(why, NB_SERVICE_SETUP, 0, "systemd cannot load %s (%s)", name,
                                     unit->load);
}

static void refuse_result(const struct nb_unit_state *unit, struct nb_failure *why) {
        bool has_exited = unit->exit_code == CLD_EXITED && !strcmp(unit->result, "exit-code"),
             is_credential = unit->exit_status == SYSTEMD_CREDENTIALS;
        unsigned i = (unsigned)unit->exit_status - SYSTEMD_FROM;
        const char *name = i < N_ELEMENTS(names) ? names[i] : NULL;

        if (has_exited && unit->exit_status >= SYSTEMD_FROM)
                (void)nb_failure_set(why, is_credential ? NB_SERVICE_CREDENTIAL : NB_SERVICE_SETUP,
                                     0, "systemd cannot start " NB_SERVICE_UNIT "%s (%d%s%s)",
                                     is_credential ? " without its credentials" : "",
                                     unit->exit_status, name ? "/" : "", name ? name : "");
        else if (!strcmp(unit->result, "resources"))
                (void)nb_failure_set(why, NB_SERVICE_SETUP, 0,
                                     "systemd cannot start " NB_SERVICE_UNIT " (resources)");
        else if (nb_unit_is(unit, "inactive") && unit->condition_usec > 0 &&
                 !unit->is_condition_met)
                (void)nb_failure_set(why, NB_SERVICE_SETUP, 0,
                                     "systemd does not start " NB_SERVICE_UNIT
                                     " (a condition in the unit is not met)");
        /* systemd keeps the result of the last run, and only notes that it has looked again. */
        else if (!strcmp(unit->result, "start-limit-hit") ||
                 (nb_unit_is(unit, "failed") && unit->inactive_since > 0 &&
                  unit->changed_since > unit->inactive_since))
                (void)nb_failure_set(why, NB_START_LIMIT, 0,
                                     NB_SERVICE_UNIT " was started too often (start-limit-hit)");
        else if (nb_unit_is(unit, "failed") && unit->n_restarts > 0 &&
                 strcmp(unit->result, "exit-code") != 0)
                /* After a limit, systemd keeps the result of the last run. */
                (void)nb_failure_set(why, NB_START_LIMIT, 0,
                                     NB_SERVICE_UNIT " ended %u times (%s), and systemd does not "
                                                     "start it again",
                                     unit->n_restarts + 1, unit->result);
}

static bool is_under_way(const struct nb_unit_state *unit) {
        return !nb_unit_awaits_restart(unit) && (unit->has_job || nb_unit_is(unit, "activating"));
}

void nb_service_find_obstacle(const char *name, const struct nb_unit_state *unit,
                              const struct nb_unit_state *gate, struct nb_failure *ret_why) {
        char reason[REASON_SIZE];

        *ret_why = (struct nb_failure){ .code = NB_NONE };
        if (is_under_way(unit))
                return;
        /* The first cause stays. */
        refuse_load(NB_GATE_UNIT, gate, ret_why);
        refuse_load(NB_SERVICE_UNIT, unit, ret_why);
        if (!nb_unit_is(unit, "active"))
                refuse_result(unit, ret_why);
        if (ret_why->code == NB_NONE || ret_why->code == NB_UNIT_MASKED ||
            ret_why->code == NB_UNIT_MISSING)
                return;
        nb_unit_find_reason(name, reason, sizeof(reason));
        if (reason[0])
                nb_failure_add(ret_why, "; systemd: \"%s\"", reason);
}

void nb_service_add_drop_ins(const struct nb_unit *service, struct nb_failure *f) {
        const char *path = NULL, *before = "; drop-ins: ";

        if (f->code != NB_SERVICE_CREDENTIAL && f->code != NB_SERVICE_SETUP)
                return;
        while ((path = nb_unit_next(service, NB_UNIT_DROP_INS, path))) {
                nb_failure_add(f, "%s'%s'", before, path);
                before = ", ";
        }
}

bool nb_service_is_rehearsable(const struct nb_unit_state *service,
                               const struct nb_failure *obstacle) {
        const int status = service->exit_status;

        return obstacle->code == NB_SERVICE_CREDENTIAL ||
               (obstacle->code == NB_SERVICE_SETUP &&
                (status < SYSTEMD_STATE_DIRECTORY || status > SYSTEMD_CONFIGURATION_DIRECTORY));
}
