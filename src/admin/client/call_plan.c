/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>

#include "admin/client/call_plan.h"
#include "base/macro.h"

struct nb_admin_call *nb_plan_read(struct nb_plan *plan, unsigned place, const char *path,
                                   const char *what) {
        return nb_call_set(&plan->reads[place], "GET", path, what);
}

struct nb_admin_call *nb_plan_write(struct nb_plan *plan, const char *method, const char *path,
                                    const char *what) {
        assert(plan->n_writes < N_ELEMENTS(plan->writes));
        return nb_call_set(&plan->writes[plan->n_writes++], method, path, what);
}

/* 1: all have answers. */
static int run_reads(struct nb_plan *plan, struct nb_admin *admin, unsigned n_room,
                     struct nb_failure *f) {
        int r = 1;

        for (size_t i = 0; i < N_ELEMENTS(plan->reads); i++) {
                struct nb_admin_call *call = &plan->reads[i];

                if (!call->method || call->is_answered)
                        continue;
                r = 0;
                if (!call->transfer && n_room > 0) {
                        int started = nb_call_start(call, admin, f);

                        if (started < 0)
                                return started;
                        n_room--;
                }
        }
        return r;
}

/* 1: it has an answer. */
static int run_write(struct nb_admin_call *call, struct nb_admin *admin, unsigned n_room,
                     bool may_write, struct nb_failure *f) {
        if (call->is_answered)
                return 1;
        if (call->transfer)
                return 0;
        if (!may_write)
                return -EPERM;
        return n_room > 0 ? nb_call_start(call, admin, f) : 0;
}

int nb_plan_run(struct nb_plan *plan, struct nb_admin *admin, const struct nb_plan_steps *steps,
                void *userdata, unsigned n_room, bool may_write, struct nb_failure *f) {
        int r = run_reads(plan, admin, n_room, f);

        if (r <= 0)
                return r;
        if (!plan->is_judged) {
                r = steps->judge(userdata, plan, f);
                plan->is_judged = true;
        }
        for (; plan->n_written < plan->n_writes && r >= 0; plan->n_written++) {
                struct nb_admin_call *call = &plan->writes[plan->n_written];

                r = run_write(call, admin, n_room, may_write, f);
                if (r <= 0)
                        return r;
                r = nb_call_status(call, admin, f);
                r = steps->written(userdata, plan, call, r, f);
                if (r < 0)
                        return r;
        }
        return r < 0 ? r : 1;
}

/* --- All calls --- */

int nb_plan_perform(struct nb_plan *plan, struct nb_admin *admin, struct nb_failure *f) {
        int r = 0;

        for (size_t i = 0; i < N_ELEMENTS(plan->calls) && r >= 0 && r < 300; i++) {
                struct nb_admin_call *call = &plan->calls[i];

                if (!call->method || call->is_answered)
                        continue;
                r = nb_call_perform(call, admin, f);
                if (r >= 0 && i >= NB_PLAN_READS_MAX)
                        r = nb_call_status(call, admin, f);
        }
        return r;
}

unsigned nb_plan_count(const struct nb_plan *plan) {
        unsigned n = 0;

        for (size_t i = 0; i < N_ELEMENTS(plan->calls); i++)
                n += plan->calls[i].transfer != NULL;
        return n;
}

bool nb_plan_take_done(struct nb_plan *plan, struct nb_admin *admin,
                       const struct nb_http_transfer *done) {
        for (size_t i = 0; i < N_ELEMENTS(plan->calls); i++)
                if (nb_call_take_done(&plan->calls[i], admin, done))
                        return true;
        return false;
}

void nb_plan_interrupt(struct nb_plan *plan) {
        for (size_t i = 0; i < N_ELEMENTS(plan->calls); i++)
                nb_call_interrupt(&plan->calls[i]);
}

void nb_plan_done(struct nb_plan *plan) {
        for (size_t i = 0; i < N_ELEMENTS(plan->calls); i++)
                nb_call_done(&plan->calls[i]);
        *plan = (struct nb_plan){ 0 };
}
