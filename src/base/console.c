/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/console.h"

int nb_console_init(int fd) {
        int flags = fcntl(fd, F_GETFL);

        return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;
}

static int wait_for_room(int fd, int wait_ms) {
        struct pollfd room = { .fd = fd, .events = POLLOUT };
        int n = poll(&room, 1, wait_ms);

        if (n == 0)
                return -ETIMEDOUT;
        return n < 0 ? -errno : 0;
}

int nb_console_write(int fd, const char *text, size_t len, int wait_ms) {
        uint64_t since_ms = nb_now_ms();

        while (len > 0) {
                ssize_t n = write(fd, text, len);
                int r = 0;

                if (n >= 0) {
                        text += n;
                        len -= (size_t)n;
                        since_ms = nb_now_ms();
                } else if (errno == EAGAIN)
                        /* A terminal may have room for less than the next character takes: "\n" as two. */
                        r = nb_now_ms() - since_ms > (uint64_t)wait_ms ? -ETIMEDOUT : wait_for_room(fd, wait_ms);
                else
                        r = -errno;
                if (r < 0 && r != -EINTR)
                        return r;
        }
        return 0;
}
