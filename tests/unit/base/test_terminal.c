/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/terminal.h"

#include "case.h"

#define SINCE "Waiting since 2026-11-22 05:31:54 UTC"

struct line_case {
        const char *name;
        const char *text;
        uint64_t elapsed_ms;
        unsigned columns;
        const char *expected;
};

static struct line_case lines[] = {
        { "a wait", SINCE " for approval: kubectl certificate approve n", 12999, 79, "Waiting 12 s for approval: kubectl certificate approve n" },
        { "a wait for what failed", SINCE ": 10.0.0.1:6443: Connection refused", 61000, 79, "Waiting 1 min 1 s: 10.0.0.1:6443: Connection refused" },
        { "what is no wait", "Looking for the cluster", 3000, 79, "Looking for the cluster, 3 s" },
        { "a wait without a date", "Waiting for the certificate", 1000, 79, "Waiting for the certificate, 1 s" },
        { "as wide as the terminal", "Looking for the cluster", 3000, 28, "Looking for the cluster, 3 s" },
        { "too wide by one", "Looking for the cluster", 3000, 27, "Looking for the clust…, 3 s" },
        { "a wait that is too wide", SINCE " for approval: kubectl", 2000, 20, "Waiting 2 s for app…" },
        { "cut between characters", "Knoten heißt ü", 0, 16, "Knoten hei…, 0 s" },
        { "characters, not bytes", "Knoten heißt ü", 0, 19, "Knoten heißt ü, 0 s" },
        { "no room for the text", "Looking", 0, 3, "…, 0 s" },
        { "escape sequences of others", "a\033[2J\rb\nc", 0, 79, "a [2J b c, 0 s" },
        { "nothing", "", 0, 79, ", 0 s" },
};

static void formats(void **state) {
        const struct line_case *c = *state;
        char line[NB_TERMINAL_LINE_SIZE];

        nb_terminal_line_format(c->text, c->elapsed_ms, c->columns, line);
        assert_string_equal(line, c->expected);
}

/* However long what somebody else says is, the line has its end. */
static void a_long_text_is_cut(_unused_ void **state) {
        char text[4 * NB_TERMINAL_LINE_SIZE], line[NB_TERMINAL_LINE_SIZE];

        memset(text, 'x', sizeof(text));
        text[sizeof(text) - 1] = '\0';
        nb_terminal_line_format(text, 5000, 100, line);
        assert_int_equal(strlen(line), 100 + strlen("…") - 1);
        assert_string_equal(line + strlen(line) - strlen("…, 5 s"), "…, 5 s");
        nb_terminal_line_format(text, 5000, 100000, line);
        assert_string_equal(line + strlen(line) - strlen("x, 5 s"), "x, 5 s");
}

int main(void) {
        CASES(lines, formats);
        CASE(a_long_text_is_cut);
        return case_run("terminal");
}
