/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-messages.h>
#include <time.h>

#include "base/macro.h"
#include "base/text.h"
#include "system/libsystemd_internal.h"
#include "system/unit.h"

#define PROGRAM "node-bootstrap" /* the SYSLOG_IDENTIFIER of our programs begins with it */
#define ERROR_ENTRIES_MAX 2000   /* entries of a unit to search for an error */
#define ENTRIES_MAX 100000       /* entries of a unit to search for a run */

static int open_journal(sd_journal **ret_journal) {
        int r = nb_libsystemd_load();

        return r < 0 ? r : nb_libsystemd.sd_journal_open(ret_journal, SD_JOURNAL_LOCAL_ONLY);
}

/* Copies "" if the entry lacks the field. */
static void read_field(sd_journal *journal, const char *name, char *ret, size_t size) {
        const void *data;
        size_t len, name_len = strlen(name);

        ret[0] = '\0';
        if (nb_libsystemd.sd_journal_get_data(journal, name, &data, &len) >= 0 && len > name_len)
                nb_text_copy_line((const char *)data + name_len + 1, len - name_len - 1, ret, size);
}

static int add_match(sd_journal *journal, const char *field, const char *value) {
        char text[192];

        snprintf(text, sizeof(text), "%s=%s", field, value);
        return nb_libsystemd.sd_journal_add_match(journal, text, 0);
}

int nb_unit_journal_open(const char *unit, struct sd_journal **ret_journal) {
        _cleanup_(nb_unit_journal_freep) sd_journal *journal = NULL;
        struct timespec now;
        int r;

        (void)clock_gettime(CLOCK_REALTIME, &now);
        r = open_journal(&journal);
        if (r < 0)
                return r;
        r = add_match(journal, "_SYSTEMD_UNIT", unit);
        if (r < 0)
                return r;
        r = nb_libsystemd.sd_journal_seek_realtime_usec(
                journal, (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000);
        if (r < 0)
                return r;
        /* Watch the journal before reading the first entry, so that no new entry is missed. */
        r = nb_libsystemd.sd_journal_get_fd(journal);
        if (r < 0)
                return r;
        *ret_journal = TAKE(journal);
        return 0;
}

/* Returns when the entry was sent, or if that is unknown, when the journal received it. */
static uint64_t read_time(sd_journal *journal) {
        uint64_t when_usec = 0;
        char text[32];

        read_field(journal, "_SOURCE_REALTIME_TIMESTAMP", text, sizeof(text));
        if (text[0])
                return strtoull(text, NULL, 10);
        (void)nb_libsystemd.sd_journal_get_realtime_usec(journal, &when_usec);
        return when_usec;
}

static void read_entry(sd_journal *journal, struct nb_unit_entry *ret_entry) {
        char text[64];

        ret_entry->when_usec = read_time(journal);
        read_field(journal, "PRIORITY", text, sizeof(text));
        ret_entry->priority = text[0] ? (int)strtol(text, NULL, 10) : LOG_INFO;
        read_field(journal, "MESSAGE_ID", ret_entry->message_id, sizeof(ret_entry->message_id));
        read_field(journal, "MESSAGE", ret_entry->message, sizeof(ret_entry->message));
        read_field(journal, "NODE_BOOTSTRAP_ERROR", ret_entry->error, sizeof(ret_entry->error));
        for (int i = 0; i < _NB_FIELD_N; i++) {
                snprintf(text, sizeof(text), "NODE_BOOTSTRAP_%s", nb_field_name((enum nb_field)i));
                read_field(journal, text, ret_entry->fields[i], sizeof(ret_entry->fields[i]));
        }
}

/* A run has lines of our programs: with only lines of systemd, the program may not have started. */
static bool is_ours(sd_journal *journal) {
        char identifier[64];

        read_field(journal, "SYSLOG_IDENTIFIER", identifier, sizeof(identifier));
        return !strncmp(identifier, PROGRAM, strlen(PROGRAM));
}

/* Searches the entries of all runs backwards. 1, with the journal before the first entry of the run
 * and restricted to it; 0 if there is no such run; -errno. */
static int find_run(sd_journal *journal, const char *unit, nb_unit_entry_test test,
                    void *userdata) {
        char run[64] = "", invocation[64];
        struct nb_unit_entry entry;
        bool is_passed = true;
        int r, verdict;

        r = add_match(journal, "_SYSTEMD_UNIT", unit);
        if (r < 0)
                return r;
        r = nb_libsystemd.sd_journal_seek_tail(journal);
        for (unsigned n = 0; r >= 0 && n < ENTRIES_MAX; n++) {
                r = nb_libsystemd.sd_journal_previous(journal);
                if (r <= 0)
                        break;
                if (!is_ours(journal))
                        continue;
                read_field(journal, "_SYSTEMD_INVOCATION_ID", invocation, sizeof(invocation));
                if (strcmp(invocation, run) != 0) {
                        if (!is_passed || !invocation[0])
                                break;
                        NB_TEXT_COPY(run, invocation);
                        is_passed = false;
                }
                read_entry(journal, &entry);
                verdict = test(&entry, userdata);
                if (verdict != 0)
                        is_passed = verdict > 0;
                if (verdict < 0)
                        break;
        }
        if (r < 0 || is_passed)
                return r < 0 ? r : 0;
        r = add_match(journal, "_SYSTEMD_INVOCATION_ID", run);
        if (r < 0)
                return r;
        r = nb_libsystemd.sd_journal_seek_head(journal);
        return r < 0 ? r : 1;
}

int nb_unit_journal_open_run(const char *unit, nb_unit_entry_test test, void *userdata,
                             struct sd_journal **ret_journal) {
        _cleanup_(nb_unit_journal_freep) sd_journal *journal = NULL;
        int r = open_journal(&journal);

        if (r < 0)
                return r;
        r = find_run(journal, unit, test, userdata);
        if (r > 0)
                *ret_journal = TAKE(journal);
        return r;
}

int nb_unit_journal_next(struct sd_journal *journal, struct nb_unit_entry *ret_entry) {
        int r;

        /* Detect journal files that were added since the last call. */
        (void)nb_libsystemd.sd_journal_process(journal);
        r = nb_libsystemd.sd_journal_next(journal);
        if (r <= 0)
                return r;
        read_entry(journal, ret_entry);
        return 1;
}

bool nb_unit_entry_is(const struct nb_unit_entry *entry, enum nb_code code) {
        return !strcmp(entry->message_id, nb_failure_info(code)->message_id);
}

void nb_unit_entry_adopt_fields(const struct nb_unit_entry *entry) {
        for (int i = 0; i < _NB_FIELD_N; i++)
                nb_log_field((enum nb_field)i, "%s", entry->fields[i]);
}

/* "E1124 17:04:57.885281      80 kubelet.go:2243] text": the text; NULL without such a header. */
static const char *skip_header(const char *message) {
        const char *end = strstr(message, "] ");

        if ((message[0] != 'E' && message[0] != 'F') || strspn(message + 1, "0123456789") != 4 ||
            message[5] != ' ' || !end)
                return NULL;
        return end + 2;
}

void nb_unit_find_error(const char *unit, char *ret, size_t size) {
        _cleanup_(nb_unit_journal_freep) sd_journal *journal = NULL;
        char message[1024];

        ret[0] = '\0';
        if (open_journal(&journal) < 0 || add_match(journal, "_SYSTEMD_UNIT", unit) < 0 ||
            nb_libsystemd.sd_journal_seek_tail(journal) < 0)
                return;
        for (unsigned n = 0;
             n < ERROR_ENTRIES_MAX && nb_libsystemd.sd_journal_previous(journal) > 0; n++) {
                const char *text;

                read_field(journal, "MESSAGE", message, sizeof(message));
                text = skip_header(message);
                if (text || !ret[0])
                        nb_text_copy_line(text ? text : message, strlen(text ? text : message), ret,
                                          size);
                if (text)
                        return;
        }
        if (!ret[0])
                nb_unit_find_reason(unit, ret, size);
}

/* A line of systemd has the unit in UNIT=, even if the process that is to execute the program
 * writes it. Only lines of root are trusted: every process can write the field. */
static int open_reasons(const char *unit, sd_journal **ret_journal) {
        _cleanup_(nb_unit_journal_freep) sd_journal *journal = NULL;
        int r = open_journal(&journal);

        if (r < 0)
                return r;
        r = add_match(journal, "UNIT", unit);
        if (r < 0)
                return r;
        r = add_match(journal, "_UID", "0");
        if (r < 0)
                return r;
        r = nb_libsystemd.sd_journal_seek_tail(journal);
        if (r < 0)
                return r;
        *ret_journal = TAKE(journal);
        return 0;
}

/* A line with another MESSAGE_ID only announces a result. */
static bool is_reason(const struct nb_unit_entry *entry) {
        return entry->priority <= LOG_WARNING &&
               (!entry->message_id[0] || !strcmp(entry->message_id, SD_MESSAGE_SPAWN_FAILED_STR));
}

void nb_unit_find_reason(const char *unit, char *ret, size_t size) {
        _cleanup_(nb_unit_journal_freep) sd_journal *journal = NULL;
        char run[64] = "", invocation[64];
        struct nb_unit_entry entry;

        ret[0] = '\0';
        if (open_reasons(unit, &journal) < 0)
                return;
        for (unsigned n = 0;
             n < ERROR_ENTRIES_MAX && nb_libsystemd.sd_journal_previous(journal) > 0; n++) {
                read_field(journal, "INVOCATION_ID", invocation, sizeof(invocation));
                if (n > 0 && strcmp(invocation, run) != 0)
                        return;
                NB_TEXT_COPY(run, invocation);
                read_entry(journal, &entry);
                if (is_reason(&entry))
                        nb_text_copy_line(entry.message, strlen(entry.message), ret, size);
        }
}

void nb_unit_journal_freep(struct sd_journal **journal) {
        if (*journal)
                nb_libsystemd.sd_journal_close(*journal);
}
