/* SPDX-License-Identifier: Apache-2.0 */
#include "system/terminal.h"

#include "case.h"

struct cut_case {
        const char *name;
        const char *text;
        size_t columns;
        size_t expected;
};

static struct cut_case cuts[] = {
        { "a text with room to spare", "Looking", 10, 7 },
        { "a text as wide as the terminal", "Looking", 7, 7 },
        { "a text that is too wide by one", "Looking", 6, 6 },
        { "a text of wide characters is cut between characters", "heißt ü", 4, 5 },
        { "a text is measured in characters, not in bytes", "heißt ü", 7, 9 },
        { "no room", "Looking", 0, 0 },
        { "no text", "", 10, 0 },
};

static void cut(void **state) {
        const struct cut_case *c = *state;

        assert_int_equal(nb_terminal_cut(c->text, c->columns), c->expected);
}

int main(void) {
        CASES(cuts, cut);
        return case_run("terminal");
}
