/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "cli/setup/setup_internal.h"
#include "os/process.h"
#include "systemd/unit.h"

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
static void plan_job(const struct nb_setup_found *found, struct nb_setup_plan *plan) {
        struct nb_setup_change job = { NB_SETUP_ACTION_START, NULL, NB_SERVICE_UNIT };
        bool is_active = nb_unit_is(&plan->service, "active"),
             is_activating = nb_unit_is(&plan->service, "activating");

        if (is_active && found->is_joined) {
                if (found->state.kind != NB_MACHINE_WITHOUT_KUBECONFIG && !plan->is_flags_file_due)
                        return;
                job.action = NB_SETUP_ACTION_RELOAD;
        } else if (is_active || (is_activating && plan->is_changed)) {
                job.action = NB_SETUP_ACTION_RESTART;
        }
        job.is_already_so = is_activating && !plan->is_changed;
        nb_setup_add_change(plan, &job);
}

int nb_setup_plan_service(const struct nb_setup_wanted *wanted, const struct nb_setup_found *found,
                          struct nb_setup_plan *plan, struct nb_failure *f) {
        struct nb_setup_change enable = { NB_SETUP_ACTION_ENABLE, NULL, NB_SERVICE_UNIT };
        const struct nb_failure *obstacle = &found->state.obstacle;
        struct nb_unit_state *service = &plan->service, gate = { .load = "" };
        bool is_running = nb_systemd_is_running();
        int r = is_running ? nb_unit_show(NB_SERVICE_UNIT, service, f) : 0;

        if (r >= 0 && is_running)
                r = nb_unit_show(NB_GATE_UNIT, &gate, f);
        if (r < 0)
                return r;
        if (obstacle->code == NB_UNIT_MASKED || obstacle->code == NB_UNIT_MISSING) {
                *f = *obstacle;
                nb_failure_add(f, "; nothing was written: once this is repaired, run the same "
                                  "command again");
                return -EPROTO;
        }
        /* Enabled again, in case that a link is missing or an earlier setup was killed. */
        enable.is_already_so = is_running ? service->is_enabled && gate.is_enabled
                                          : is_enabled_offline(NB_SERVICE_UNIT) &&
                                                    is_enabled_offline(NB_GATE_UNIT);
        nb_setup_add_change(plan, &enable);
        if (!wanted->is_start_unwanted)
                plan_job(found, plan);
        return 0;
}
