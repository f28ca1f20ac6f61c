/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <systemd/sd-daemon.h>
#include <systemd/sd-journal.h>

#include "base/macro.h"
#include "base/process.h"
#include "base/stop.h"
#include "base/text.h"
#include "base/unit.h"

#define WORDS_MAX 16
#define SHOW_MAX 8192
#define RUNS_MAX 1000 /* of a unit, that are looked at */

bool nb_systemd_is_running(void) {
        return sd_booted() > 0;
}

static int run(const char *const words[], struct nb_secret *output, struct nb_failure *f) {
        const char *argv[WORDS_MAX + 2] = { "systemctl" };
        struct nb_process_result result;
        int r;

        for (size_t i = 0; i < WORDS_MAX && words[i]; i++)
                argv[i + 1] = words[i];
        r = nb_process_run(argv, NULL, 0, output, &result);
        if (r < 0) {
                errno = -r;
                return nb_failure_set(f, NB_SETUP_COMMAND_FAILED, -r, "systemctl cannot be run: %m");
        }
        if (result.status != 0)
                return nb_failure_set(f, NB_SETUP_COMMAND_FAILED, 0, "`systemctl %s` failed with exit status %d: %s", words[0], result.status,
                                      result.error[0] ? result.error : "it did not say why");
        return 0;
}

int nb_systemctl(const char *const words[], struct nb_failure *f) {
        return run(words, NULL, f);
}

static void take(struct nb_unit_state *state, const char *name, const char *value) {
        const struct {
                const char *name;
                char *ret;
                size_t size;
        } texts[] = {
                { "LoadState", state->load, sizeof(state->load) },
                { "ActiveState", state->active, sizeof(state->active) },
                { "SubState", state->sub, sizeof(state->sub) },
                { "StatusText", state->status, sizeof(state->status) },
        };

        for (size_t i = 0; i < N_ELEMENTS(texts); i++)
                if (!strcmp(name, texts[i].name))
                        nb_text_copy_line(value, strlen(value), texts[i].ret, texts[i].size);
        if (!strcmp(name, "Job"))
                state->has_job = value[0] && strcmp(value, "0") != 0;
        if (!strcmp(name, "ActiveEnterTimestampMonotonic"))
                state->active_since = strtoull(value, NULL, 10);
}

int nb_unit_show(const char *unit, struct nb_unit_state *ret_state, struct nb_failure *f) {
        const char *const words[] = {
                "show",
                "--property=LoadState,ActiveState,SubState,StatusText,Job,ActiveEnterTimestampMonotonic",
                unit,
                NULL,
        };
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        struct nb_unit_state state = { 0 };
        char *rest, *line;
        int r;

        if (nb_secret_init(&text, SHOW_MAX) < 0)
                return nb_failure_set_memory(f);
        r = run(words, &text, f);
        if (r < 0)
                return r;
        for (line = strtok_r(text.data, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
                char *equals = strchr(line, '=');

                if (!equals)
                        continue;
                *equals = '\0';
                take(&state, line, equals + 1);
        }
        *ret_state = state;
        return 0;
}

bool nb_unit_is_at_rest(const struct nb_unit_state *state) {
        static const char *const resting[] = { "active", "inactive", "failed" };

        for (size_t i = 0; i < N_ELEMENTS(resting) && !state->has_job; i++)
                if (!strcmp(state->active, resting[i]))
                        return true;
        return false;
}

/* --- Journal --- */

struct nb_unit_journal {
        sd_journal *journal;
};

int nb_unit_journal_open(const char *unit, struct nb_unit_journal **ret_journal) {
        _cleanup_(nb_unit_journal_freep) struct nb_unit_journal *journal = NULL;
        struct timespec now;
        char match[128];
        int r;

        journal = calloc(1, sizeof(*journal));
        if (!journal)
                return -ENOMEM;
        (void)snprintf(match, sizeof(match), "_SYSTEMD_UNIT=%s", unit);
        (void)clock_gettime(CLOCK_REALTIME, &now);
        r = sd_journal_open(&journal->journal, SD_JOURNAL_LOCAL_ONLY);
        if (r >= 0)
                r = sd_journal_add_match(journal->journal, match, 0);
        if (r >= 0)
                r = sd_journal_seek_realtime_usec(journal->journal, (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000);
        /* Asked for before the first look, so that nothing that comes between the two is missed. */
        if (r >= 0)
                r = sd_journal_get_fd(journal->journal);
        if (r < 0)
                return r;
        *ret_journal = TAKE(journal);
        return 0;
}

/* "" where the entry has no such field. */
static void read_field(sd_journal *journal, const char *name, char *ret, size_t size) {
        const void *data;
        size_t len, name_len = strlen(name);

        ret[0] = '\0';
        if (sd_journal_get_data(journal, name, &data, &len) >= 0 && len > name_len)
                nb_text_copy_line((const char *)data + name_len + 1, len - name_len - 1, ret, size);
}

/* Entries of the unit's processes; of one run of it where `invocation` is not empty. */
static int match(sd_journal *journal, const char *unit, const char *invocation) {
        char text[192];
        int r;

        sd_journal_flush_matches(journal);
        (void)snprintf(text, sizeof(text), "_SYSTEMD_UNIT=%s", unit);
        r = sd_journal_add_match(journal, text, 0);
        if (r < 0 || !invocation[0])
                return r;
        (void)snprintf(text, sizeof(text), "_SYSTEMD_INVOCATION_ID=%s", invocation);
        return sd_journal_add_match(journal, text, 0);
}

/* Goes to the first entry of a run, and reads all of it: 1 when one has this MESSAGE_ID. */
static int look_for(sd_journal *journal, const char *message_id) {
        char text[64];
        int r;

        r = sd_journal_seek_head(journal);
        while (r >= 0 && (r = sd_journal_next(journal)) > 0) {
                read_field(journal, "MESSAGE_ID", text, sizeof(text));
                if (strcmp(text, message_id) == 0)
                        return 1;
        }
        return r;
}

/* At the first entry of the run that is matched. By its cursor, since the clock may have been behind in that run. */
static int seek_begin(sd_journal *journal, const char *unit) {
        _cleanup_(nb_freep) char *cursor = NULL;
        int r;

        r = sd_journal_seek_head(journal);
        if (r >= 0)
                r = sd_journal_next(journal);
        if (r >= 0)
                r = sd_journal_get_cursor(journal, &cursor);
        if (r >= 0)
                r = match(journal, unit, "");
        if (r >= 0)
                r = sd_journal_seek_cursor(journal, cursor);
        return r < 0 ? r : sd_journal_previous(journal);
}

/* From the tail on, run by run. 1: found, and before its first entry; 0: there is none. */
static int find_run(sd_journal *journal, const char *unit, const char *pass_over) {
        char invocation[64];
        int r;

        r = match(journal, unit, "");
        if (r >= 0)
                r = sd_journal_seek_tail(journal);
        for (unsigned n = 0; r >= 0 && n < RUNS_MAX; n++) {
                r = sd_journal_previous(journal);
                if (r <= 0)
                        return r;
                read_field(journal, "_SYSTEMD_INVOCATION_ID", invocation, sizeof(invocation));
                if (!invocation[0])
                        return 0;
                r = match(journal, unit, invocation);
                if (r >= 0)
                        r = pass_over ? look_for(journal, pass_over) : 0;
                if (r == 0) {
                        r = sd_journal_seek_head(journal);
                        return r < 0 ? r : 1;
                }
                if (r > 0)
                        r = seek_begin(journal, unit);
        }
        return r < 0 ? r : 0;
}

int nb_unit_journal_open_run(const char *directory, const char *unit, const char *pass_over, struct nb_unit_journal **ret_journal) {
        _cleanup_(nb_unit_journal_freep) struct nb_unit_journal *journal = NULL;
        int r;

        journal = calloc(1, sizeof(*journal));
        if (!journal)
                return -ENOMEM;
        r = directory ? sd_journal_open_directory(&journal->journal, directory, 0) : sd_journal_open(&journal->journal, SD_JOURNAL_LOCAL_ONLY);
        if (r >= 0)
                r = find_run(journal->journal, unit, pass_over);
        if (r > 0)
                *ret_journal = TAKE(journal);
        return r;
}

/* When the entry was sent; the journal's own time where that is not known. */
static uint64_t read_time(sd_journal *journal) {
        uint64_t when_usec = 0;
        char text[32];

        read_field(journal, "_SOURCE_REALTIME_TIMESTAMP", text, sizeof(text));
        if (text[0])
                return strtoull(text, NULL, 10);
        (void)sd_journal_get_realtime_usec(journal, &when_usec);
        return when_usec;
}

int nb_unit_journal_next(struct nb_unit_journal *journal, struct nb_unit_entry *ret_entry) {
        char text[64];
        int r = sd_journal_next(journal->journal);

        if (r <= 0)
                return r;
        ret_entry->when_usec = read_time(journal->journal);
        read_field(journal->journal, "MESSAGE_ID", ret_entry->message_id, sizeof(ret_entry->message_id));
        read_field(journal->journal, "PRIORITY", text, sizeof(text));
        ret_entry->priority = text[0] ? (int)strtol(text, NULL, 10) : LOG_INFO;
        read_field(journal->journal, "MESSAGE", ret_entry->message, sizeof(ret_entry->message));
        read_field(journal->journal, "NODE_BOOTSTRAP_ERROR", ret_entry->error, sizeof(ret_entry->error));
        for (int i = 0; i < _NB_FIELD_N; i++) {
                (void)snprintf(text, sizeof(text), "NODE_BOOTSTRAP_%s", nb_field_name((enum nb_field)i));
                read_field(journal->journal, text, ret_entry->fields[i], sizeof(ret_entry->fields[i]));
        }
        return 1;
}

int nb_unit_journal_wait(struct nb_unit_journal *journal, unsigned ms) {
        struct pollfd polls[] = {
                { .fd = sd_journal_get_fd(journal->journal), .events = POLLIN },
                { .fd = nb_stop_fd(), .events = POLLIN },
        };

        (void)poll(polls, N_ELEMENTS(polls), (int)ms);
        (void)sd_journal_process(journal->journal);
        return nb_stop_is_requested() ? -ECANCELED : 0;
}

void nb_unit_journal_free(struct nb_unit_journal *journal) {
        if (journal)
                sd_journal_close(journal->journal);
        free(journal);
}

void nb_unit_journal_freep(struct nb_unit_journal **journal) {
        nb_unit_journal_free(*journal);
}
