/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads the state and properties of a systemd unit with systemctl(1), and its journal entries.
 * Nothing here waits for a job: if the caller is killed, the job continues.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/failure.h"
#include "base/log.h"
#include "base/secret.h"

struct nb_unit_state {
        char active[32];       /* ActiveState: "active", "activating", "failed", ... */
        char sub[32];          /* SubState */
        char status[512];      /* StatusText, control characters replaced */
        int exit_status;       /* ExecMainStatus */
        bool has_job;          /* a job is queued or running */
        uint64_t active_since; /* ActiveEnterTimestampMonotonic, in microseconds; 0: never */
};

/* sd_booted(3) */
bool nb_systemd_is_running(void);

/* Runs `systemctl VERB UNIT OPTION`; unit and option may be NULL. NB_SETUP_COMMAND_FAILED with its
 * error message. */
int nb_systemctl(const char *verb, const char *unit, const char *option, struct nb_failure *f);

/* NB_SETUP_COMMAND_FAILED. */
int nb_unit_show(const char *unit, struct nb_unit_state *ret_state, struct nb_failure *f);

/*
 * Reads the output of `systemctl show`, one "Name=value" per line, for the functions below.
 * `properties` is a whole option, such as "--property=LoadState,After". NB_SETUP_COMMAND_FAILED.
 */
int nb_unit_read(const char *unit, const char *properties, struct nb_secret *ret_text,
                 struct nb_failure *f);

/* The value of the first property of this name; NULL if there is none. `text` may be NULL. */
const char *nb_unit_find_property(const char *text, const char *name, size_t *ret_len);

/* Returns the word after `word` in the value of a property (NULL: the first word); NULL after the
 * last one. *len is the length of `word`, and then that of the result. */
const char *nb_unit_next_word(const char *text, const char *property, const char *word,
                              size_t *len);
bool nb_unit_has_word(const char *text, const char *property, const char *expected);

/* For a service with Type=notify: sd_notify(3), such as "READY=1", and the interval at which
 * systemd expects "WATCHDOG=1"; NB_TIME_INFINITE if it does not. */
void nb_unit_notify(const char *state);
uint64_t nb_unit_watchdog_ms(void);

/* The unit has no job, and is active, inactive or failed. */
bool nb_unit_is_at_rest(const struct nb_unit_state *state);

struct nb_unit_entry {
        uint64_t when_usec; /* CLOCK_REALTIME */
        char message_id[33];
        int priority;
        char message[1024];
        char error[64];                /* NODE_BOOTSTRAP_ERROR: the slug of a failure, or "" */
        char fields[_NB_FIELD_N][256]; /* set by the unit with nb_log_field(); or "" */
};

/* Whether the entry's MESSAGE_ID is that of a failure or event. */
bool nb_unit_entry_is(const struct nb_unit_entry *entry, enum nb_code code);

/* Copies the entry's fields to this process, for nb_log_print_text() and nb_log_failure(). */
void nb_unit_entry_adopt_fields(const struct nb_unit_entry *entry);

struct sd_journal; /* of libsystemd */

/* Opens the journal at the current time, for entries of the unit's processes. 0, -errno. */
int nb_unit_journal_open(const char *unit, struct sd_journal **ret_journal);

/*
 * Opens the journal for the entries of one run of the unit (one invocation ID): the newest run
 * without an entry with the MESSAGE_ID `pass_over`. 1; 0 if there is no such run; -errno.
 */
int nb_unit_journal_open_run(const char *unit, const char *pass_over,
                             struct sd_journal **ret_journal);

/* Reads the next entry. 1; 0 if there is none yet; -errno. */
int nb_unit_journal_next(struct sd_journal *journal, struct nb_unit_entry *ret_entry);

void nb_unit_journal_freep(struct sd_journal **journal);
