/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/descriptors.h"

/* Aligned for the kernel. */
union control {
        struct cmsghdr head;
        char space[CMSG_SPACE(NB_DESCRIPTORS_MAX * sizeof(int))];
};

int nb_descriptors_send(int socket_fd, const void *data, size_t len, const int *fds, size_t n,
                        int flags) {
        const size_t size = n * sizeof(int);
        union control control = { .head = { .cmsg_len = CMSG_LEN(size),
                                            .cmsg_level = SOL_SOCKET,
                                            .cmsg_type = SCM_RIGHTS } };
        struct iovec part = { (void *)(uintptr_t)data, len };
        const struct msghdr message = { .msg_iov = &part,
                                        .msg_iovlen = 1,
                                        .msg_control = n > 0 ? &control : NULL,
                                        .msg_controllen = n > 0 ? CMSG_SPACE(size) : 0 };

        assert(n <= NB_DESCRIPTORS_MAX);
        if (n > 0)
                memcpy(CMSG_DATA(&control.head), fds, size);
        return TEMP_FAILURE_RETRY(sendmsg(socket_fd, &message, MSG_NOSIGNAL | flags)) < 0 ? -errno
                                                                                          : 0;
}

ssize_t nb_descriptors_receive(int socket_fd, void *data, size_t size, int *ret_fds, size_t n) {
        union control control = { 0 };
        struct iovec part = { data, size };
        /* CMSG_SPACE() would have room for one more. */
        struct msghdr message = { .msg_iov = &part,
                                  .msg_iovlen = 1,
                                  .msg_control = &control,
                                  .msg_controllen = CMSG_LEN(n * sizeof(int)) };
        ssize_t len;
        int r;

        assert(n <= NB_DESCRIPTORS_MAX);
        len = TEMP_FAILURE_RETRY(recvmsg(socket_fd, &message, MSG_CMSG_CLOEXEC));
        r = len < 0 ? -errno : 0;
        for (size_t i = 0; i < n; i++)
                ret_fds[i] = -1;
        if (r >= 0 && message.msg_controllen > 0)
                memcpy(ret_fds, CMSG_DATA(&control.head), control.head.cmsg_len - CMSG_LEN(0));
        return r < 0 ? r : len;
}
