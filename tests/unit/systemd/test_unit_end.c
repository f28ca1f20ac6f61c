/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <string.h>

#include "systemd/unit.h"

#include "case.h"

#define JOINED 1000 /* when the service became active */

/* What systemd 252 and 257 show of a kubelet: states, NRestarts, ActiveExit, InactiveEnter */
static struct end {
        const char *name;
        struct nb_unit_state unit;
        bool has_ended, awaits_restart;
} ends[] = {
        { "never", { .active = "active", .sub = "running" }, false, false },
        { "before the join, and was started again after it",
          { .active = "active",
            .sub = "running",
            .n_restarts = 3,
            .active_until = 990,
            .inactive_since = 1005 },
          false,
          false },
        { "before the join, and is being started again",
          { .active = "activating",
            .sub = "start-pre",
            .n_restarts = 3,
            .active_until = 990,
            .inactive_since = 1005 },
          false,
          false },
        { "before the join, and waits for its restart",
          { .active = "activating",
            .sub = "auto-restart",
            .n_restarts = 2,
            .active_until = 990,
            .inactive_since = 990 },
          false,
          true },
        { "before the join, and its restart is queued",
          { .active = "activating",
            .sub = "auto-restart-queued",
            .n_restarts = 3,
            .active_until = 990,
            .inactive_since = 990 },
          false,
          true },
        { "before the join, for good",
          { .active = "failed",
            .sub = "failed",
            .n_restarts = 5,
            .active_until = 990,
            .inactive_since = 990 },
          false,
          false },
        { "after the join, for the first time",
          { .active = "activating",
            .sub = "auto-restart",
            .active_until = 1010,
            .inactive_since = 1010 },
          true,
          true },
        { "after the join, before it was active",
          { .active = "activating", .sub = "auto-restart", .inactive_since = 1010 },
          true,
          true },
        { "after the join, and was started again",
          { .active = "active",
            .sub = "running",
            .n_restarts = 1,
            .active_until = JOINED,
            .inactive_since = 1020 },
          true,
          false },
        { "after the join, for good",
          { .active = "failed",
            .sub = "failed",
            .n_restarts = 5,
            .active_until = 1010,
            .inactive_since = 1010 },
          true,
          false },
        { "after the join, by a restart that somebody asked for",
          { .active = "active", .sub = "running", .active_until = 1010, .inactive_since = 1011 },
          false,
          false },
};

static void end(void **state) {
        const struct end *row = *state;

        assert_int_equal(nb_unit_has_ended_since(&row->unit, JOINED), row->has_ended);
        assert_int_equal(nb_unit_awaits_restart(&row->unit), row->awaits_restart);
}

int main(void) {
        CASES(ends, end);
        return case_run("unit end");
}
