/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/file.h>
#include <time.h>

#include "base/macro.h"
#include "os/clock.h"
#include "state_files/lock.h"
#include "systemd/log.h"

#define POLL_NSEC (20 * 1000 * 1000)

int nb_lock_take(const char *root, int *ret_fd, struct nb_failure *f) {
        const struct timespec pause = { .tv_nsec = POLL_NSEC };
        const char *path = root ? root : NB_LOCK_FILE;
        /* O_NONBLOCK, since opening a FIFO would otherwise wait for a writer. */
        int flags = root ? O_DIRECTORY : O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
        uint64_t deadline_ms = nb_now_ms() + NB_LOCK_TIMEOUT_MS;
        _cleanup_(nb_closep) int fd = open(path, O_RDONLY | O_CLOEXEC | flags, 0600);
        bool is_reported = false;

        if (fd < 0)
                return nb_failure_set(f, NB_LOCK_UNAVAILABLE, errno, "'%s' cannot be opened: %m",
                                      path);
        while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
                if (errno != EWOULDBLOCK && errno != EINTR)
                        return nb_failure_set(f, NB_LOCK_UNAVAILABLE, errno,
                                              "'%s' cannot be locked: %m", path);
                if (nb_now_ms() >= deadline_ms)
                        return nb_failure_set(f, NB_LOCK_UNAVAILABLE, EWOULDBLOCK,
                                              "another node-bootstrap command held '%s' for %d s",
                                              path, NB_LOCK_TIMEOUT_MS / 1000);
                if (!is_reported)
                        nb_log(LOG_NOTICE, NB_NONE,
                               "waiting up to %d s for another node-bootstrap command to finish",
                               NB_LOCK_TIMEOUT_MS / 1000);
                is_reported = true;
                (void)nanosleep(&pause, NULL);
        }
        *ret_fd = TAKE_FD(fd);
        return 0;
}
