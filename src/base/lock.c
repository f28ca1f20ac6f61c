/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/file.h>
#include <time.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/macro.h"

#define POLL_NSEC (20 * 1000 * 1000)

/* O_NONBLOCK, since opening a FIFO would otherwise wait for a writer. */
static int open_lock(const char *root, int *ret_fd, struct nb_failure *f) {
        const char *path = root ? root : NB_LOCK_FILE;
        int fd = root ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                      : open(path,
                             O_RDONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
                             0600);

        if (fd < 0)
                return nb_failure_set(f, NB_LOCK_UNAVAILABLE, errno, "'%s' cannot be opened: %m",
                                      path);
        *ret_fd = fd;
        return 0;
}

/* 1: taken; 0: another command holds it. */
static int try_lock(int fd) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
                return 1;
        return errno == EWOULDBLOCK || errno == EINTR ? 0 : -errno;
}

int nb_lock_take(const char *root, int *ret_fd, struct nb_failure *f) {
        const struct timespec pause = { .tv_nsec = POLL_NSEC };
        uint64_t deadline_ms = nb_now_ms() + NB_LOCK_TIMEOUT_MS;
        _cleanup_(nb_closep) int fd = -1;
        bool is_reported = false;
        int r;

        r = open_lock(root, &fd, f);
        if (r < 0)
                return r;
        while ((r = try_lock(fd)) == 0 && nb_now_ms() < deadline_ms) {
                if (!is_reported)
                        nb_log(LOG_NOTICE, NB_NONE,
                               "waiting up to %d s for another node-bootstrap command to finish",
                               NB_LOCK_TIMEOUT_MS / 1000);
                is_reported = true;
                (void)nanosleep(&pause, NULL);
        }
        if (r == 0)
                return nb_failure_set(f, NB_LOCK_UNAVAILABLE, EWOULDBLOCK,
                                      "another node-bootstrap command held '%s' for %d s",
                                      root ? root : NB_LOCK_FILE, NB_LOCK_TIMEOUT_MS / 1000);
        if (r < 0)
                return nb_failure_set(f, NB_LOCK_UNAVAILABLE, -r, "'%s' cannot be locked: %m",
                                      root ? root : NB_LOCK_FILE);
        *ret_fd = TAKE_FD(fd);
        return 0;
}
