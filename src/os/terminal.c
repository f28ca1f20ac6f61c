/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/macro.h"
#include "os/clock.h"
#include "os/terminal.h"

#define COLUMNS_DEFAULT 80
#define COLUMNS_MIN 3 /* some terminals say 0 */

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
