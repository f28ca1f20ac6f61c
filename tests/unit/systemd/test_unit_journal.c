/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <systemd/sd-journal.h>
#include <systemd/sd-messages.h>

#include "systemd/libsystemd_internal.h"
#include "systemd/unit.h"

#include "case.h"

struct line {
        const char *message, *priority, *id, *run;
};

#define LINES_MAX 4

static struct {
        const struct line *lines[2]; /* those of the unit, and those of systemd about it */
        const struct line *next;
        bool is_endless; /* the first one again and again */
        unsigned n_read;
        char matches[128];
} journal;

static int fake_journal_open(sd_journal **ret, int flags) {
        journal.matches[0] = '\0';
        *ret = (sd_journal *)(void *)&journal;
        return 0;
}

static int fake_add_match(sd_journal *unused, const void *data, size_t size) {
        size_t len = strlen(journal.matches);

        journal.next = journal.lines[!strncmp(data, "_SYSTEMD_UNIT=", 14) ? 0 : 1];
        (void)snprintf(journal.matches + len, sizeof(journal.matches) - len, "%s ",
                       (const char *)data);
        return 0;
}

static int fake_seek(sd_journal *unused) {
        journal.next--;
        return 0;
}

static int fake_previous(sd_journal *unused) {
        journal.n_read++;
        journal.next += !journal.is_endless || journal.n_read == 1;
        return journal.next->message != NULL;
}

static int fake_get_data(sd_journal *unused, const char *field, const void **ret, size_t *ret_len) {
        static char data[256];
        const char *value = !strcmp(field, "MESSAGE")      ? journal.next->message
                            : !strcmp(field, "PRIORITY")   ? journal.next->priority
                            : !strcmp(field, "MESSAGE_ID") ? journal.next->id
                                                           : journal.next->run;

        if (!value)
                return -ENOENT;
        *ret_len = (size_t)snprintf(data, sizeof(data), "%s=%s", field, value);
        *ret = data;
        return 0;
}

static void fake_close(sd_journal *unused) {
}

static void fake_journal(const struct line lines[static 1],
                         const struct line of_systemd[static 1]) {
        nb_libsystemd.sd_journal_open = fake_journal_open;
        nb_libsystemd.sd_journal_add_match = fake_add_match;
        nb_libsystemd.sd_journal_seek_tail = fake_seek;
        nb_libsystemd.sd_journal_previous = fake_previous;
        nb_libsystemd.sd_journal_get_data = fake_get_data;
        nb_libsystemd.sd_journal_close = fake_close;
        memset(&journal, 0, sizeof(journal));
        journal.lines[0] = lines;
        journal.lines[1] = of_systemd;
}

#define KLOG "1124 17:04:57.885281      80 kubelet.go:2243] "
#define SPAWN_FAILED SD_MESSAGE_SPAWN_FAILED_STR
#define UNIT_FAILED SD_MESSAGE_UNIT_FAILED_STR

struct journal_case {
        const char *name;
        struct line lines[LINES_MAX + 2]; /* behind an empty one, the newest first */
        struct line of_systemd[LINES_MAX + 2];
        const char *error, *reason;
};

static struct journal_case journals[] = {
        { "journal: nothing", { { 0 } }, { { 0 } }, "", "" },
        { "journal: the newest line", { { 0 }, { "b" }, { "a" } }, { { 0 } }, "b", "" },
        { "journal: an error is more than what follows it",
          { { 0 }, { "b" }, { "I" KLOG "i" }, { "E" KLOG "e" }, { "E" KLOG "older" } },
          { { 0 } },
          "e",
          "" },
        { "journal: a fatal error",
          { { 0 }, { "b" }, { "F" KLOG "f] g" } },
          { { 0 } },
          "f] g",
          "" },
        { "journal: a warning is no error",
          { { 0 }, { "b" }, { "W" KLOG "w" } },
          { { 0 } },
          "b",
          "" },
        { "journal: words that begin like an error",
          { { 0 }, { "b" }, { "Error: [x] y" }, { "E112 x] y" }, { "E11245 x] y" } },
          { { 0 } },
          "b",
          "" },
        { "journal: a header that ends nowhere",
          { { 0 }, { "b" }, { "E1124 x]y" }, { "E1124" } },
          { { 0 } },
          "b",
          "" },
        { "journal: no newest line without a word",
          { { 0 }, { "" }, { "a" } },
          { { 0 } },
          "a",
          "" },
        { "journal: an escape sequence", { { 0 }, { "a\x1b[2J\nb" } }, { { 0 } }, "a [2J b", "" },
        { "journal: a long line is cut",
          { { 0 }, { "1234567890123456789012345678901234567890" } },
          { { 0 } },
          "1234567890123456789012345678901",
          "" },
        { "journal: systemd's reason, if the unit says nothing",
          { { 0 } },
          { { 0 }, { "r", "4", NULL, "1" } },
          "r",
          "r" },
        { "journal: the first reason of the last start",
          { { 0 }, { "b" } },
          { { 0 },
            { "second", "3", NULL, "2" },
            { "first", "3", NULL, "2" },
            { "of an earlier start", "3", NULL, "1" } },
          "b",
          "first" },
        { "journal: systemd says more than reasons",
          { { 0 } },
          { { 0 },
            { "Failed to start", "3", UNIT_FAILED, "1" },
            { "info", "6", NULL, "1" },
            { "no priority", NULL, NULL, "1" },
            { "cannot execute", "3", SPAWN_FAILED, "1" } },
          "cannot execute",
          "cannot execute" },
        { "journal: the last start has no reason",
          { { 0 } },
          { { 0 }, { "Started", "6", NULL, "2" }, { "r", "4", NULL, "1" } },
          "",
          "" },
};

static void reads_journal(void **state) {
        const struct journal_case *c = *state;
        char text[32];

        fake_journal(c->lines + 1, c->of_systemd + 1);
        nb_unit_find_error("a.service", text, sizeof(text));
        assert_string_equal(text, c->error);
        fake_journal(c->lines + 1, c->of_systemd + 1);
        nb_unit_find_reason("a.service", text, sizeof(text));
        assert_string_equal(text, c->reason);
        /* Every process can write UNIT=. */
        assert_string_equal(journal.matches, "UNIT=a.service _UID=0 ");
}

static void reads_a_part_of_a_long_journal(void **state) {
        static const struct line lines[] = { { 0 }, { "a", "6", NULL, "1" }, { 0 } };
        char text[32];

        fake_journal(lines + 1, lines + 1);
        journal.is_endless = true;
        nb_unit_find_error("a.service", text, sizeof(text));
        assert_string_equal(text, "a");
        assert_int_equal(journal.n_read, 2000);
        journal.n_read = 0;
        nb_unit_find_reason("a.service", text, sizeof(text));
        assert_string_equal(text, "");
        assert_int_equal(journal.n_read, 2000);
}

static int load(void **state) {
        return nb_libsystemd_load();
}

int main(void) {
        CASES(journals, reads_journal);
        CASE(reads_a_part_of_a_long_journal);
        return _cmocka_run_group_tests("unit journal", case_list, n_cases, load, NULL);
}
