/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/macro.h"
#include "os/clock.h"
#include "os/terminal.h"

#define LINE_SIZE 1024
#define COLUMNS_DEFAULT 80
#define COLUMNS_MIN 3 /* some terminals say 0 */
#define CLEAR "\r\033[K"
#define ELLIPSIS "…"

static struct {
        bool is_used;
        int fd;
        bool is_drawn;
        char text[LINE_SIZE];
} line;

bool nb_terminal_takes_escapes(int fd) {
        const char *term = getenv("TERM"), *no_colour = getenv("NO_COLOR");

        return isatty(fd) && !(no_colour && no_colour[0]) && term && strcmp(term, "dumb") != 0;
}

bool nb_terminal_is_ascii(void) {
        static const char *const names[] = { "LC_ALL", "LC_CTYPE", "LANG" };
        const char *term = getenv("TERM");

        if (term && !strcmp(term, "dumb"))
                return true;
        for (size_t i = 0; i < N_ELEMENTS(names); i++) {
                const char *locale = getenv(names[i]);

                if (locale && locale[0])
                        return !strcasestr(locale, "UTF-8") && !strcasestr(locale, "UTF8");
        }
        return false;
}

size_t nb_terminal_columns(int fd) {
        struct winsize size;

        return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col >= COLUMNS_MIN ? size.ws_col
                                                                               : COLUMNS_DEFAULT;
}

size_t nb_terminal_cut(const char *text, size_t columns) {
        size_t len = 0;

        for (size_t n = 0; text[len] && (n < columns || (text[len] & 0xc0) == 0x80); len++)
                n += (text[len] & 0xc0) != 0x80;
        return len;
}

/* A background job must not write to the terminal, and a terminal stopped with Ctrl-S must not
 * delay the join. */
static void put_text(const char *text, size_t len) {
        struct pollfd p = { .fd = line.fd, .events = POLLOUT };

        if (tcgetpgrp(line.fd) != getpgrp() || poll(&p, 1, 0) <= 0 || !(p.revents & POLLOUT) ||
            write(line.fd, text, len) < 0)
                line.is_drawn = false;
}

bool nb_terminal_line_begin(int fd) {
        line.fd = fd;
        line.text[0] = '\0';
        line.is_used = nb_terminal_takes_escapes(fd) && tcgetpgrp(fd) == getpgrp();
        return line.is_used;
}

void nb_terminal_line_show(void) {
        char drawn[LINE_SIZE + sizeof(CLEAR ELLIPSIS)];
        size_t columns, len;

        if (!line.is_used || !line.text[0])
                return;
        columns = nb_terminal_columns(line.fd);
        /* Some terminals wrap as soon as the last column is used. */
        len = nb_terminal_cut(line.text, columns - 1);
        if (line.text[len])
                len = nb_terminal_cut(line.text, columns - 2);
        line.is_drawn = true;
        put_text(drawn, (size_t)snprintf(drawn, sizeof(drawn), CLEAR "%.*s%s", (int)len, line.text,
                                         line.text[len] ? ELLIPSIS : ""));
}

void nb_terminal_line_hide(void) {
        if (line.is_used && line.is_drawn)
                put_text(CLEAR, strlen(CLEAR));
        line.is_drawn = false;
}

void nb_terminal_line_set(const char *text) {
        if (!line.is_used || (line.is_drawn && !strcmp(line.text, text)))
                return;
        snprintf(line.text, sizeof(line.text), "%s", text);
        if (text[0])
                nb_terminal_line_show();
        else
                nb_terminal_line_hide();
}

void nb_terminal_line_end(void) {
        nb_terminal_line_hide();
        line.is_used = false;
}

int nb_console_init(int fd) {
        int flags = fcntl(fd, F_GETFL);

        return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;
}

int nb_console_write(int fd, const char *text, size_t len, int wait_ms) {
        struct pollfd room = { .fd = fd, .events = POLLOUT };
        uint64_t since_ms = nb_now_ms();

        while (len > 0) {
                ssize_t n = write(fd, text, len);

                if (n >= 0) {
                        text += n;
                        len -= (size_t)n;
                        since_ms = nb_now_ms();
                        continue;
                }
                if (errno != EAGAIN && errno != EINTR)
                        return -errno;
                /* poll(2) may report room that is too small for the next character: "\n" becomes
                 * two. */
                if (nb_now_ms() - since_ms > (uint64_t)wait_ms || poll(&room, 1, wait_ms) == 0)
                        return -ETIMEDOUT;
        }
        return 0;
}
