/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "base/macro.h"
#include "base/stop.h"
#include "verb/input.h"

int nb_input_read(int fd, const char *name, size_t max, struct nb_secret *ret, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        ssize_t n = 1;

        if (nb_secret_init(&text, max + 1) < 0)
                return nb_failure_set_memory(f);
        while (n != 0 && text.len <= max) {
                struct pollfd polls[] = { { .fd = fd, .events = POLLIN }, { .fd = nb_stop_fd(), .events = POLLIN } };

                if (poll(polls, N_ELEMENTS(polls), -1) > 0 && polls[1].revents)
                        return -ECANCELED;
                if (!polls[0].revents)
                        continue;
                n = read(fd, text.data + text.len, text.size - text.len);
                if (n < 0 && errno != EINTR)
                        return nb_failure_set(f, NB_SETTINGS_UNREADABLE, errno, "'%s' cannot be read: %m", name);
                text.len += n > 0 ? (size_t)n : 0;
        }
        if (text.len > max)
                return nb_failure_set(f, NB_SETTINGS_UNREADABLE, EFBIG, "'%s' is larger than %zu bytes", name, max);
        *ret = text;
        text = (struct nb_secret)NB_SECRET_INIT;
        return 0;
}
