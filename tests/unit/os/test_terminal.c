/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "os/terminal.h"

#include "case.h"

struct escape_case {
        const char *name, *term, *no_color; /* NULL: not set */
        bool is_taken;
};

static struct escape_case escapes[] = {
        { "a terminal", "xterm", NULL, true },
        { "a terminal without colours", "xterm", "1", false },
        { "a terminal with an empty variable", "xterm", "", true },
        { "a terminal that is dumb", "dumb", NULL, false },
        { "a terminal without a name", NULL, NULL, false },
};

static void set_variable(const char *name, const char *value) {
        assert_int_equal(value ? setenv(name, value, true) : unsetenv(name), 0);
}

/* Returns the side of the person who looks. */
static int open_terminal(int *ret_fd) {
        int fd = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);

        assert_true(fd >= 0 && grantpt(fd) == 0 && unlockpt(fd) == 0);
        *ret_fd = open(ptsname(fd), O_RDWR | O_NOCTTY | O_CLOEXEC);
        assert_true(*ret_fd >= 0);
        return fd;
}

static void takes_escapes(void **state) {
        const struct escape_case *c = *state;
        int fd, ends[2], person = open_terminal(&fd);

        set_variable("TERM", c->term);
        set_variable("NO_COLOR", c->no_color);
        assert_int_equal(nb_terminal_takes_escapes(fd), c->is_taken);
        assert_int_equal(pipe(ends), 0);
        assert_false(nb_terminal_takes_escapes(ends[1]));
        (void)close(ends[0]);
        (void)close(ends[1]);
        (void)close(fd);
        (void)close(person);
}

static void characters_are_those_of_the_locale(void **state) {
        static const struct {
                const char *term, *all, *lang;
                bool is_ascii;
        } rows[] = {
                { "xterm", NULL, NULL, false },         { "xterm", NULL, "en_US.UTF-8", false },
                { "xterm", "C", "C.utf8", true },       { "xterm", NULL, "POSIX", true },
                { "xterm", "C.UTF-8", "C", false },     { "dumb", "C.UTF-8", NULL, true },
                { NULL, "", "de_DE.ISO-8859-1", true },
        };

        set_variable("LC_CTYPE", NULL);
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                set_variable("TERM", rows[i].term);
                set_variable("LC_ALL", rows[i].all);
                set_variable("LANG", rows[i].lang);
                assert_int_equal(nb_terminal_is_ascii(), rows[i].is_ascii);
        }
        set_variable("LC_ALL", NULL);
        set_variable("LANG", NULL);
}

static void terminals_have_a_width(void **state) {
        const struct winsize wide = { .ws_col = 132, .ws_row = 5 }, none = { 0 };
        int fd, person = open_terminal(&fd), ends[2];

        assert_int_equal(ioctl(fd, TIOCSWINSZ, &wide), 0);
        assert_int_equal(nb_terminal_columns(fd), 132);
        assert_int_equal(ioctl(fd, TIOCSWINSZ, &none), 0);
        assert_int_equal(nb_terminal_columns(fd), 80);
        assert_int_equal(pipe(ends), 0);
        assert_int_equal(nb_terminal_columns(ends[1]), 80);
        (void)close(ends[0]);
        (void)close(ends[1]);
        (void)close(fd);
        (void)close(person);
}

int main(void) {
        CASES(escapes, takes_escapes);
        CASE(characters_are_those_of_the_locale);
        CASE(terminals_have_a_width);
        return case_run("terminal");
}
