/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "os/clock.h"
#include "os/stop.h"

static int stop_fd = -1;

int nb_stop_init(void) {
        sigset_t signals;

        if (stop_fd >= 0)
                return 0;
        sigemptyset(&signals);
        sigaddset(&signals, SIGTERM);
        sigaddset(&signals, SIGINT);
        if (sigprocmask(SIG_BLOCK, &signals, NULL) < 0)
                return -errno;
        stop_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
        return stop_fd < 0 ? -errno : 0;
}

void nb_stop_end(void) {
        sigset_t signals;

        if (stop_fd < 0)
                return;
        (void)close(stop_fd);
        stop_fd = -1;
        sigemptyset(&signals);
        sigaddset(&signals, SIGTERM);
        sigaddset(&signals, SIGINT);
        (void)sigprocmask(SIG_UNBLOCK, &signals, NULL);
}

/* The signal is not read from the descriptor, so that later calls detect it as well. */
int nb_stop_poll(struct pollfd *polls, nfds_t n, uint64_t ms) {
        polls[0] = (struct pollfd){ .fd = stop_fd, .events = POLLIN };
        if (poll(polls, n, ms > INT_MAX ? INT_MAX : (int)ms) < 0)
                return errno == EINTR ? 0 : -errno;
        return polls[0].revents ? -ECANCELED : 0;
}

int nb_stop_wait(uint64_t ms) {
        uint64_t end = nb_now_ms() + ms, now;
        struct pollfd polls[1];

        do {
                now = nb_now_ms();
                if (nb_stop_poll(polls, 1, now < end ? end - now : 0) == -ECANCELED)
                        return -ECANCELED;
        } while (nb_now_ms() < end);
        return 0;
}

void nb_stop_forget(void) {
        struct signalfd_siginfo signal;

        while (read(stop_fd, &signal, sizeof(signal)) > 0)
                ;
}
