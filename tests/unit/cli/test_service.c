/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <string.h>

#include "case.h"
#include "cli/service.h"
#include "settings/kubelet_unit.h"

/* What systemd says about the service and its gate. */
struct obstacle_case {
        const char *name;
        struct nb_unit_state service, gate;
        enum nb_code code; /* NB_NONE: nothing is in the way */
        const char *detail;
        bool is_rehearsable;
};

#define LOADED .load = "loaded"
#define FAILED(status) \
        LOADED, .active = "failed", .result = "exit-code", .exit_code = CLD_EXITED, \
                .exit_status = status

static struct obstacle_case obstacles[] = {
        { "nobody was asked", { .load = "" } },
        { "it has not run", { LOADED, .active = "inactive" } },
        { "it is active", { LOADED, .active = "active", .result = "resources" } },
        { "the program has failed", { FAILED(78) } },
        { "its credentials",
          { FAILED(243) },
          { LOADED },
          NB_SERVICE_CREDENTIAL,
          "243/CREDENTIALS",
          true },
        { "its namespace", { FAILED(226) }, { LOADED }, NB_SERVICE_SETUP, "(226/NAMESPACE)", true },
        { "its state directory, which a rehearsal has not",
          { FAILED(238) },
          { LOADED },
          NB_SERVICE_SETUP,
          "(238/STATE_DIRECTORY)" },
        { "an exit status without a name",
          { FAILED(255) },
          { LOADED },
          NB_SERVICE_SETUP,
          "(255)",
          true },
        { "a signal with a large number",
          { LOADED, .active = "failed", .result = "signal", .exit_code = CLD_KILLED,
            .exit_status = 243 } },
        { "resources",
          { LOADED, .active = "failed", .result = "resources" },
          { LOADED },
          NB_SERVICE_SETUP,
          "(resources)",
          true },
        { "a condition",
          { LOADED, .active = "inactive", .condition_usec = 7 },
          { LOADED },
          NB_SERVICE_SETUP,
          "a condition in the unit is not met",
          true },
        { "a condition that is met",
          { LOADED, .active = "inactive", .condition_usec = 7, .is_condition_met = 1 } },
        { "a start limit",
          { LOADED, .active = "failed", .result = "start-limit-hit" },
          { LOADED },
          NB_START_LIMIT,
          "started too often" },
        { "a start limit, which only a time shows",
          { FAILED(78), .inactive_since = 5, .changed_since = 6 },
          { LOADED },
          NB_START_LIMIT,
          "started too often" },
        { "it ended again and again",
          { LOADED, .active = "failed", .result = "watchdog", .n_restarts = 4 },
          { LOADED },
          NB_START_LIMIT,
          "ended 5 times (watchdog)" },
        { "masked",
          { .load = "masked" },
          { LOADED },
          NB_UNIT_MASKED,
          NB_SERVICE_UNIT " is masked" },
        { "not there",
          { .load = "not-found" },
          { LOADED },
          NB_UNIT_MISSING,
          "systemd does not find " NB_SERVICE_UNIT },
        { "damaged",
          { .load = "bad-setting" },
          { LOADED },
          NB_SERVICE_SETUP,
          "(bad-setting)",
          true },
        { "the gate is masked",
          { LOADED, .active = "active" },
          { .load = "masked" },
          NB_UNIT_MASKED,
          NB_GATE_UNIT " is masked" },
        { "a start is under way", { FAILED(243), .has_job = true }, { .load = "masked" } },
        { "systemd itself tries again later",
          { FAILED(243), .sub = "auto-restart", .has_job = true },
          { LOADED },
          NB_SERVICE_CREDENTIAL,
          "243/CREDENTIALS",
          true },
};

static void finds_obstacle(void **state) {
        const struct obstacle_case *c = *state;
        struct nb_failure why = { .code = NB_INTERNAL };

        nb_service_find_obstacle("no-such.service", &c->service, &c->gate, &why);
        assert_int_equal(why.code, c->code);
        if (c->detail && !strstr(why.detail, c->detail))
                fail_msg("'%s' is not in '%s'", c->detail, why.detail);
        if (c->code != NB_NONE)
                assert_int_equal(nb_service_is_rehearsable(&c->service, &why), c->is_rehearsable);
}

static void knows_what_is_loaded(void **state) {
        assert_true(nb_service_is_loaded(&(struct nb_unit_state){ .load = "" }));
        assert_true(nb_service_is_loaded(&(struct nb_unit_state){ .load = "loaded" }));
        assert_false(nb_service_is_loaded(&(struct nb_unit_state){ .load = "masked" }));
        assert_false(nb_service_is_loaded(&(struct nb_unit_state){ .load = "not-found" }));
}

/* One of them is the cause, unless there is no unit that they could change. */
static void adds_drop_ins(void **state) {
        struct nb_unit service = { .lists[NB_UNIT_DROP_INS] = NB_BUFFER_INIT(256) };
        struct nb_failure why = { 0 };

        nb_buffer_append(&service.lists[NB_UNIT_DROP_INS], "/a\0/b", sizeof("/a\0/b"));
        (void)nb_failure_set(&why, NB_SERVICE_CREDENTIAL, 0, "x");
        nb_service_add_drop_ins(&service, &why);
        assert_string_equal(why.detail, "x; drop-ins: '/a', '/b'");
        nb_failure_clear(&why);
        (void)nb_failure_set(&why, NB_UNIT_MASKED, 0, "x");
        nb_service_add_drop_ins(&service, &why);
        assert_string_equal(why.detail, "x");
        nb_unit_done(&service);
}

int main(void) {
        CASES(obstacles, finds_obstacle);
        CASE(adds_drop_ins);
        CASE(knows_what_is_loaded);
        return case_run("cli service");
}
