/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <systemd/sd-messages.h>

#include "base/macro.h"
#include "base/text.h"
#include "systemd/libsystemd_internal.h"
#include "systemd/unit.h"

#define ENTRIES_MAX 2000 /* of a unit, to search */

static void close_journal(sd_journal **journal) {
        if (*journal)
                nb_libsystemd.sd_journal_close(*journal);
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

/* Opens the journal at its end, for entries with this unit in this field. Every process can write a
 * field without an underscore, so only lines of root are trusted then. */
static bool open_journal(const char *field, const char *unit, sd_journal **ret_journal) {
        _cleanup_(close_journal) sd_journal *journal = NULL;

        if (nb_libsystemd_load() < 0 ||
            nb_libsystemd.sd_journal_open(&journal, SD_JOURNAL_LOCAL_ONLY) < 0 ||
            add_match(journal, field, unit) < 0 ||
            (field[0] != '_' && add_match(journal, "_UID", "0") < 0) ||
            nb_libsystemd.sd_journal_seek_tail(journal) < 0)
                return false;
        *ret_journal = TAKE(journal);
        return true;
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
        _cleanup_(close_journal) sd_journal *journal = NULL;
        char message[1024];

        ret[0] = '\0';
        if (!open_journal("_SYSTEMD_UNIT", unit, &journal))
                return;
        for (unsigned n = 0; n < ENTRIES_MAX && nb_libsystemd.sd_journal_previous(journal) > 0;
             n++) {
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

/* A line with another MESSAGE_ID only announces a result. */
static bool is_reason(sd_journal *journal) {
        char priority[4], id[64];

        read_field(journal, "PRIORITY", priority, sizeof(priority));
        read_field(journal, "MESSAGE_ID", id, sizeof(id));
        return priority[0] && priority[0] <= '0' + LOG_WARNING &&
               (!id[0] || !strcmp(id, SD_MESSAGE_SPAWN_FAILED_STR));
}

void nb_unit_find_reason(const char *unit, char *ret, size_t size) {
        _cleanup_(close_journal) sd_journal *journal = NULL;
        char run[64] = "", invocation[64];

        ret[0] = '\0';
        /* A line of systemd has the unit in UNIT=, even if the process that is to execute the
         * program writes it. */
        if (!open_journal("UNIT", unit, &journal))
                return;
        for (unsigned n = 0; n < ENTRIES_MAX && nb_libsystemd.sd_journal_previous(journal) > 0;
             n++) {
                read_field(journal, "INVOCATION_ID", invocation, sizeof(invocation));
                if (n > 0 && strcmp(invocation, run) != 0)
                        return;
                memcpy(run, invocation, sizeof(run));
                if (is_reason(journal))
                        read_field(journal, "MESSAGE", ret, size);
        }
}
