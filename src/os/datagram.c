/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/macro.h"
#include "os/datagram.h"

int nb_datagram_send(const char *address, const struct iovec *parts, unsigned n) {
        struct sockaddr_un to = { .sun_family = AF_UNIX };
        size_t len = strlen(address);
        struct msghdr message = {
                .msg_name = &to,
                .msg_namelen = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len),
                .msg_iov = (struct iovec *)(uintptr_t)parts,
                .msg_iovlen = n,
        };
        _cleanup_(nb_closep) int fd = -1;

        /* systemd 254 and newer may name a socket of the host of a virtual machine instead, for
         * the first process only. */
        if ((address[0] != '/' && address[0] != '@') || len < 2)
                return -EAFNOSUPPORT;
        if (len >= sizeof(to.sun_path))
                return -ENAMETOOLONG;
        memcpy(to.sun_path, address, len);
        if (address[0] == '@')
                to.sun_path[0] = '\0';
        fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
                return -errno;
        return TEMP_FAILURE_RETRY(sendmsg(fd, &message, MSG_NOSIGNAL)) < 0 ? -errno : 0;
}
