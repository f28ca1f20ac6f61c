/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include <linux/sockios.h>

#include "base/journal.h"
#include "base/macro.h"

/* The socket is a queue, and journald handles its datagrams in order. It ignores an empty datagram;
 * once it has read that, it has read everything before it. */
void nb_journal_drain(const char *path) {
        const struct timespec pause = { .tv_nsec = 1000000 };
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        _cleanup_(nb_closep) int fd = -1;
        int queued;

        snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
        fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (fd < 0 || sendto(fd, "", 0, MSG_NOSIGNAL | MSG_DONTWAIT, (struct sockaddr *)&address,
                             sizeof(address)) < 0)
                return;
        for (int ms = 0; ms < NB_JOURNAL_DRAIN_MAX_MS; ms++) {
                if (ioctl(fd, SIOCOUTQ, &queued) < 0 || queued == 0)
                        return;
                (void)nanosleep(&pause, NULL);
        }
}
