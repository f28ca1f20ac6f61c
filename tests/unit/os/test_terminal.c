/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "os/terminal.h"

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
        assert_false(nb_terminal_line_begin(ends[1]));
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

/* In a session of its own, whose terminal it is, 12 columns wide. */
static int draw(int fd) {
        const struct winsize size = { .ws_col = 12, .ws_row = 5 };

        if (setsid() < 0 || ioctl(fd, TIOCSCTTY, 0) < 0 || ioctl(fd, TIOCSWINSZ, &size) < 0 ||
            !nb_terminal_line_begin(fd))
                return 1;
        nb_terminal_line_set("waiting");
        nb_terminal_line_set("waiting"); /* nothing new */
        nb_terminal_line_hide();
        nb_terminal_line_hide();
        nb_terminal_line_show();
        nb_terminal_line_set("waiting for API");
        nb_terminal_line_set("");
        nb_terminal_line_show(); /* there is none */
        nb_terminal_line_set("end");
        nb_terminal_line_end();
        nb_terminal_line_set("afterwards");
        return 0;
}

static void draws_one_line(void **state) {
        static const char expected[] = "\r\033[Kwaiting"
                                       "\r\033[K"
                                       "\r\033[Kwaiting"
                                       "\r\033[Kwaiting fo…"
                                       "\r\033[K"
                                       "\r\033[Kend"
                                       "\r\033[K";
        char found[256] = "";
        int fd, status = 0, person = open_terminal(&fd);
        pid_t pid;

        set_variable("TERM", "xterm");
        set_variable("NO_COLOR", NULL);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
                _exit(draw(fd));
        (void)close(fd);
        for (size_t len = 0; len < sizeof(found) - 1;) {
                ssize_t n = read(person, found + len, sizeof(found) - 1 - len);

                if (n <= 0)
                        break;
                len += (size_t)n;
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        assert_string_equal(found, expected);
        (void)close(person);
}

/* It is not ours to draw on, since another job is in the foreground. */
static void draws_nothing_in_the_background(void **state) {
        int fd, person = open_terminal(&fd);

        set_variable("TERM", "xterm");
        assert_false(nb_terminal_line_begin(fd));
        nb_terminal_line_set("waiting");
        nb_terminal_line_end();
        assert_int_equal(fcntl(person, F_SETFL, O_NONBLOCK), 0);
        assert_int_equal(read(person, (char[1]){ 0 }, 1), -1);
        assert_int_equal(errno, EAGAIN);
        (void)close(fd);
        (void)close(person);
}

int main(void) {
        CASES(escapes, takes_escapes);
        CASE(characters_are_those_of_the_locale);
        CASE(terminals_have_a_width);
        CASE(draws_one_line);
        CASE(draws_nothing_in_the_background);
        CASES(cuts, cut);
        return case_run("terminal");
}
