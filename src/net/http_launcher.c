/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/macro.h"
#include "net/http_internal.h"
#include "system/clock.h"
#include "system/log.h"
#include "system/privilege.h"

/* A fork takes less than a millisecond. */
#define ANSWER_MAX_MS 10000

#define FDS_MAX 3 /* the socket, the CAs, the client certificate */

struct order {
        pid_t parent;
        struct nb_http_config config;
};

/* Room for the descriptors, aligned for the kernel. */
union descriptors {
        struct cmsghdr header;
        char space[CMSG_SPACE(FDS_MAX * sizeof(int))];
};

static int launcher_fd = -1;
static pid_t launcher_pid;
static int landlock_version;

/* --- The launcher --- */

/*
 * Loads all modules for name resolution (nsswitch.conf): a worker cannot open a library. No module
 * finds a name with a label above 63 bytes, and none sends it to a name server.
 */
static void load_resolvers(void) {
        static const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
        char name[70] = { 0 };
        struct addrinfo *found = NULL;

        memset(name, 'a', sizeof(name) - 1);
        if (getaddrinfo(name, NULL, &hints, &found) == 0)
                freeaddrinfo(found);
}

/* The parent handles the signals that stop the service, and ends this process. */
static int begin_process(pid_t parent) {
        sigset_t blocked;

        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || prctl(PR_SET_DUMPABLE, 0) < 0 ||
            getppid() != parent)
                return -EPERM;
        for (int i = 1; i < NSIG; i++)
                (void)signal(i, i == SIGPIPE ? SIG_IGN : SIG_DFL);
        sigemptyset(&blocked);
        sigaddset(&blocked, SIGTERM);
        sigaddset(&blocked, SIGINT);
        return sigprocmask(SIG_SETMASK, &blocked, NULL) < 0 ? -errno : 0;
}

/* Moves `n` descriptors, in ascending order, to those from 3 on, and closes all others. */
static int keep_descriptors(const int *fds, size_t n) {
        for (size_t i = 0; i < n; i++)
                if (fds[i] != STDERR_FILENO + 1 + (int)i &&
                    dup2(fds[i], STDERR_FILENO + 1 + (int)i) < 0)
                        return -errno;
        return close_range(STDERR_FILENO + 1 + (unsigned)n, UINT_MAX, 0) < 0 ? -errno : 0;
}

static int begin_launcher(int channel, pid_t parent) {
        int null, r = begin_process(parent);

        if (r >= 0)
                r = keep_descriptors(&channel, 1);
        if (r < 0)
                return r;
        /* What a worker could print would use up the rate limit of the journal. */
        null = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
            dup2(null, STDERR_FILENO) < 0)
                return -errno;
        (void)close(null);
        r = nb_privilege_keep(0);
        if (r >= 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                r = -errno;
        if (r >= 0)
                r = nb_http_sandbox_prepare();
        if (r >= 0 && curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
                r = -EIO;
        if (r >= 0)
                load_resolvers();
        return r;
}

/* Returns the number of descriptors, 0 at the end, or -errno. */
static int receive_order(struct order *order, int ret_fds[static FDS_MAX]) {
        union descriptors control;
        struct iovec part = { order, sizeof(*order) };
        struct msghdr message = { .msg_iov = &part,
                                  .msg_iovlen = 1,
                                  .msg_control = &control,
                                  .msg_controllen = sizeof(control) };
        const struct cmsghdr *header;
        size_t len;
        ssize_t n;

        do
                n = recvmsg(NB_HTTP_CALLS_FD, &message, MSG_CMSG_CLOEXEC);
        while (n < 0 && errno == EINTR);
        header = CMSG_FIRSTHDR(&message);
        if (n < (ssize_t)sizeof(*order) || !header)
                return n < 0 ? -errno : 0;
        len = header->cmsg_len - CMSG_LEN(0);
        memcpy(ret_fds, CMSG_DATA(header), len);
        return (int)(len / sizeof(int));
}

/* Forks a child of this process' parent, which can then wait for it. fork(2) has no flag for that,
 * and clone3(2) is refused by RestrictNamespaces=. */
static pid_t fork_sibling(void) {
        const unsigned long flags = CLONE_PARENT | SIGCHLD;

#ifdef __s390x__
        return (pid_t)syscall(SYS_clone, NULL, flags, NULL, NULL, NULL);
#else
        return (pid_t)syscall(SYS_clone, flags, NULL, NULL, NULL, NULL);
#endif
}

static void run_worker(const struct order *order, const int *fds, int n) {
        if (begin_process(order->parent) >= 0 && keep_descriptors(fds, (size_t)n) >= 0)
                nb_http_worker_run(&order->config);
}

static void run_launcher(int channel, pid_t parent) {
        int fds[FDS_MAX], n, r = begin_launcher(channel, parent);

        /* The first answer says whether this process has begun. */
        if (send(NB_HTTP_CALLS_FD, &r, sizeof(r), MSG_NOSIGNAL) < 0 || r < 0)
                return;
        for (;;) {
                struct order order;
                pid_t pid;

                n = receive_order(&order, fds);
                if (n <= 0)
                        return;
                pid = fork_sibling();
                if (pid == 0) {
                        run_worker(&order, fds, n);
                        _exit(EXIT_SUCCESS);
                }
                r = pid < 0 ? -errno : pid;
                for (int i = 0; i < n; i++)
                        (void)close(fds[i]);
                if (send(NB_HTTP_CALLS_FD, &r, sizeof(r), MSG_NOSIGNAL) < 0)
                        return;
        }
}

/* --- This process --- */

/* An answer of the launcher: 0 or a process ID; -errno. */
static int receive_answer(void) {
        struct pollfd polls[] = { { .fd = launcher_fd, .events = POLLIN } };
        uint64_t until_ms = nb_now_ms() + ANSWER_MAX_MS, now;
        int answer, n;

        do {
                now = nb_now_ms();
                n = poll(polls, 1, now < until_ms ? (int)(until_ms - now) : 0);
        } while (n < 0 && errno == EINTR);
        if (n <= 0)
                return n < 0 ? -errno : -ETIMEDOUT;
        if (recv(launcher_fd, &answer, sizeof(answer), MSG_DONTWAIT) != sizeof(answer))
                return -EPIPE;
        return answer == -ENOMEM ? -EAGAIN : answer;
}

static int send_order(const struct nb_http *http, int socket_fd) {
        struct order order = { .parent = getpid(), .config = http->config };
        const int fds[FDS_MAX] = { socket_fd, http->ca_fd, http->certificate_fd };
        size_t n = http->config.has_certificate ? 3 : http->config.is_verified ? 2 : 1;
        union descriptors control = { 0 };
        struct iovec part = { &order, sizeof(order) };
        struct msghdr message = { .msg_iov = &part,
                                  .msg_iovlen = 1,
                                  .msg_control = &control,
                                  .msg_controllen = CMSG_SPACE(n * sizeof(int)) };

        order.config.has_landlock = landlock_version > 0;
        control.header = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
                                           .cmsg_type = SCM_RIGHTS,
                                           .cmsg_len = CMSG_LEN(n * sizeof(int)) };
        memcpy(CMSG_DATA(&control.header), fds, n * sizeof(int));
        return sendmsg(launcher_fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

int nb_http_worker_start(const struct nb_http *http, pid_t *ret_pid, int *ret_fd) {
        _cleanup_(nb_closep) int ours = -1, theirs = -1;
        int pair[2], r;

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return errno == ENOMEM ? -EAGAIN : -errno;
        ours = pair[0];
        theirs = pair[1];
        r = send_order(http, theirs);
        if (r >= 0)
                r = receive_answer();
        if (r < 0)
                return r;
        *ret_pid = r;
        *ret_fd = TAKE_FD(ours);
        return 0;
}

static int start_launcher(struct nb_failure *f) {
        pid_t self = getpid();
        int pair[2], r;

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return nb_failure_set(f, NB_INTERNAL, errno, "cannot create a socket: %m");
        launcher_fd = pair[0];
        launcher_pid = fork();
        if (launcher_pid == 0) {
                run_launcher(pair[1], self);
                _exit(EXIT_FAILURE);
        }
        r = launcher_pid < 0 ? -errno : 0;
        (void)close(pair[1]);
        if (r >= 0)
                r = receive_answer();
        if (r >= 0)
                return 0;
        nb_http_end();
        return nb_failure_set(f, NB_INTERNAL, r,
                              "cannot start the process that makes connections: "
                              "%m");
}

int nb_http_begin(bool is_landlock_optional, struct nb_failure *f) {
        if (launcher_fd >= 0)
                return 0;
        landlock_version = nb_http_landlock_version();
        if (landlock_version < 0 && !is_landlock_optional)
                return nb_failure_set(f, NB_SANDBOX_REFUSED, landlock_version,
                                      "Landlock is refused to this process: "
                                      "landlock_create_ruleset: %m");
        return start_launcher(f);
}

bool nb_http_has_landlock(void) {
        return landlock_version > 0;
}

void nb_http_report_landlock(void) {
        if (!nb_http_has_landlock())
                nb_log(landlock_version < 0 ? LOG_WARNING : LOG_NOTICE, NB_SANDBOX_PARTIAL,
                       "connections are made without Landlock, which %s",
                       landlock_version < 0 ? "a system call filter refuses to this process"
                                            : "this kernel does not have");
}

void nb_http_end(void) {
        if (launcher_fd < 0)
                return;
        (void)close(launcher_fd);
        launcher_fd = -1;
        if (launcher_pid <= 0)
                return;
        (void)kill(launcher_pid, SIGKILL);
        while (waitpid(launcher_pid, NULL, 0) < 0 && errno == EINTR)
                ;
}
