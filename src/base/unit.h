/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A unit of systemd, asked of and told by systemctl(1), and what it writes to the journal, as it comes. Nothing here waits for
 * a job: whoever watches may go away, the job goes on.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/failure.h"
#include "base/log.h"

struct nb_unit_state {
        char load[32];         /* LoadState: "loaded", "not-found", ... */
        char active[32];       /* ActiveState: "active", "activating", "failed", ... */
        char sub[32];          /* SubState */
        char status[512];      /* StatusText, fit for one line */
        bool has_job;          /* something was asked of it that is not done yet */
        uint64_t active_since; /* ActiveEnterTimestampMonotonic, in microseconds; 0: never */
};

/* Whether systemd runs here at all: sd_booted(3). */
bool nb_systemd_is_running(void);

/* Runs systemctl with these words, up to NULL; NB_SETUP_COMMAND_FAILED with what it said. */
int nb_systemctl(const char *const words[], struct nb_failure *f);

/* NB_SETUP_COMMAND_FAILED. */
int nb_unit_show(const char *unit, struct nb_unit_state *ret_state, struct nb_failure *f);

/* It neither does anything nor is about to. */
bool nb_unit_is_at_rest(const struct nb_unit_state *state);

struct nb_unit_entry {
        uint64_t when_usec; /* CLOCK_REALTIME, when it was written */
        char message_id[33];
        int priority;
        char message[1024];
        char error[64];                /* NODE_BOOTSTRAP_ERROR: the slug of a failure; "" where the entry is none */
        char fields[_NB_FIELD_N][256]; /* as set with nb_log_field() by the unit; "" where not */
};

struct nb_unit_journal;

/* What the unit's processes log from now on. 0, -errno. */
int nb_unit_journal_open(const char *unit, struct nb_unit_journal **ret_journal);

/*
 * What the unit logged in one run (one invocation ID): the newest one without an entry that has `pass_over` for its MESSAGE_ID (NULL: the
 * newest), from its first entry on. `directory` holds the journal's files, as for journalctl --directory; NULL: those of this
 * machine. 1; 0 when there is none; -errno.
 */
int nb_unit_journal_open_run(const char *directory, const char *unit, const char *pass_over, struct nb_unit_journal **ret_journal);

/* 1 and the next entry; 0 when there is none yet; -errno. */
int nb_unit_journal_next(struct nb_unit_journal *journal, struct nb_unit_entry *ret_entry);

/* Until the journal has grown or the time is over: 0; -ECANCELED when stopping was asked for (base/stop.h). */
int nb_unit_journal_wait(struct nb_unit_journal *journal, unsigned ms);

void nb_unit_journal_free(struct nb_unit_journal *journal);
void nb_unit_journal_freep(struct nb_unit_journal **journal);
