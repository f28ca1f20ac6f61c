/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/macro.h"
#include "http/http_internal.h"
#include "os/landlock.h"

/* Address space of a worker: the libraries, libcurl's buffers, the parsed CAs of the system (11
 * MiB), the stacks and heaps of a few threads that resolve names. */
#define MEMORY_MAX ((rlim_t)256 * 1024 * 1024)

/* The kernel refuses to pass descriptors while all processes of the user together have more in
 * flight than the limit of the sender. The limit of a worker is lower than that of the parent, so
 * that a worker cannot prevent the parent from passing descriptors. */
#define DESCRIPTORS_MAX 64

/* --- Landlock --- */

/* The kinds of access that the kernel can restrict, by ABI version: 13, then REFER, TRUNCATE and
 * IOCTL_DEV. */
static uint64_t all_file_access(int abi) {
        unsigned bits = 13 + (abi >= 2) + (abi >= 3) + (abi >= 5);

        return (UINT64_C(1) << bits) - 1;
}

static int restrict_files(int abi) {
        /* The files that the resolver reads for each name. Its modules are already loaded. */
        static const struct nb_landlock_rule rules[] = {
                { "/etc/hosts", NB_LANDLOCK_READ_FILE },
                { "/etc/resolv.conf", NB_LANDLOCK_READ_FILE },
                { "/etc/nsswitch.conf", NB_LANDLOCK_READ_FILE },
                { "/etc/host.conf", NB_LANDLOCK_READ_FILE },
                { "/etc/gai.conf", NB_LANDLOCK_READ_FILE },
        };
        const struct nb_landlock forbidden = {
                .fs = all_file_access(abi),
                .scoped = abi >= 6 ? NB_LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET |
                                             NB_LANDLOCK_SCOPE_SIGNAL
                                   : 0,
        };
        int r = nb_landlock_restrict(&forbidden, rules, N_ELEMENTS(rules));

        return r == 0 ? -EOPNOTSUPP : r;
}

/* --- System calls --- */

#define INT_MASK UINT64_C(0xffffffff) /* the kernel ignores the upper half of an int */
#define IS(argument, value) \
        { argument, INT_MASK, value }
#define HAS_NOT(argument, bits) \
        { argument, bits, 0 }
#define IS_NULL(argument) \
        { argument, UINT64_MAX, 0 }

#define NOT_READING (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_PATH)
#define INTERNET_SOCKET(domain, protocol) \
        { \
                .calls = "socket", .tests = { IS(0, domain), IS(2, protocol) } \
        }
#define SOCKET_OPTION(level, option) \
        { \
                .calls = "setsockopt", .tests = { IS(1, level), IS(2, option) } \
        }

/*
 * For both steps. Permits no call that names another process, a path to write to, or an address.
 * O_ASYNC would let a process send signals, and MSG_FASTOPEN would let it connect.
 */
static const struct nb_filter_rule common_rules[] = {
        { .calls = "read readv write writev pread64 recv recvfrom recvmsg poll ppoll ppoll_time64 "
                   "close fstat fstat64 newfstatat fstatat64 statx lseek _llseek brk munmap mremap "
                   "madvise futex futex_time64 getrandom clock_gettime clock_gettime64 "
                   "clock_getres gettimeofday time getpid gettid getuid getuid32 geteuid "
                   "geteuid32 getgid getgid32 getegid getegid32 rt_sigaction rt_sigprocmask "
                   "rt_sigreturn sigaltstack restart_syscall sched_yield setitimer getsockopt "
                   "getsockname getpeername exit exit_group" },
        { .calls = "open", .tests = { HAS_NOT(1, NOT_READING) } },
        { .calls = "openat", .tests = { HAS_NOT(2, NOT_READING) } },
        { .calls = "mmap mmap2 mprotect", .tests = { HAS_NOT(2, PROT_EXEC) } },
        { .calls = "fcntl fcntl64", .tests = { IS(1, F_GETFL) } },
        { .calls = "fcntl fcntl64", .tests = { IS(1, F_GETFD) } },
        { .calls = "fcntl fcntl64", .tests = { IS(1, F_SETFD) } },
        { .calls = "fcntl fcntl64", .tests = { IS(1, F_SETFL), HAS_NOT(2, O_ASYNC) } },
        { .calls = "send", .tests = { HAS_NOT(3, MSG_FASTOPEN) } },
};

/* For the exchange with the server. */
static const struct nb_filter_rule exchange_rules[] = {
        /* libcurl calls connect(2) on the connected socket again. With this error, it waits until
         * the socket is connected, which it already is. */
        { .calls = "connect", .error = EINPROGRESS },
        { .calls = "sendto", .tests = { HAS_NOT(3, MSG_FASTOPEN), IS_NULL(4) } },
        { .calls = "prlimit64", .tests = { IS(0, 0), IS_NULL(2) } },
        SOCKET_OPTION(SOL_SOCKET, SO_KEEPALIVE),
        SOCKET_OPTION(IPPROTO_TCP, TCP_NODELAY),
        SOCKET_OPTION(IPPROTO_TCP, TCP_KEEPIDLE),
        SOCKET_OPTION(IPPROTO_TCP, TCP_KEEPINTVL),
        SOCKET_OPTION(IPPROTO_TCP, TCP_KEEPCNT),
};

/* For name resolution and for connecting: sockets, and threads but no processes. */
static const struct nb_filter_rule connect_rules[] = {
        { .calls = "connect shutdown setsockopt pipe2 eventfd2 sendmsg sendmmsg recvmmsg "
                   "recvmmsg_time64 access faccessat faccessat2 readlink readlinkat uname sysinfo "
                   "sched_getaffinity set_robust_list rseq" },
        { .calls = "seccomp", .tests = { IS(0, SECCOMP_SET_MODE_FILTER) } },
        { .calls = "sendto" },
        { .calls = "socket socketpair", .tests = { IS(0, AF_UNIX) } },
        INTERNET_SOCKET(AF_INET, 0),
        INTERNET_SOCKET(AF_INET, IPPROTO_TCP),
        INTERNET_SOCKET(AF_INET, IPPROTO_UDP),
        INTERNET_SOCKET(AF_INET6, 0),
        INTERNET_SOCKET(AF_INET6, IPPROTO_TCP),
        INTERNET_SOCKET(AF_INET6, IPPROTO_UDP),
        /* Reads the index of an interface, for the scope of an IPv6 address. */
        { .calls = "ioctl", .tests = { IS(1, SIOCGIFINDEX) } },
        { .calls = "ioctl", .tests = { IS(1, FIONREAD) } },
        { .calls = "fcntl fcntl64", .tests = { IS(1, F_DUPFD_CLOEXEC) } },
        { .calls = "prctl", .tests = { IS(0, PR_SET_NAME) } },
        { .calls = "prlimit64", .tests = { IS(0, 0), IS_NULL(2) } },
        { .calls = "prlimit64", .tests = { IS(0, 0), IS(1, RLIMIT_NPROC) } },
        { .calls = "clone", .tests = { { 0, CLONE_THREAD, CLONE_THREAD } } },
        /* The flags of clone3 are in memory, where a filter cannot see them. With this error, the C
         * library uses clone. */
        { .calls = "clone3", .error = ENOSYS },
};

int nb_http_sandbox_prepare(struct nb_http_filters *ret) {
        int r = nb_filter_compile(false, common_rules, N_ELEMENTS(common_rules), connect_rules,
                                  N_ELEMENTS(connect_rules), &ret->connect);

        if (r < 0)
                return r;
        return nb_filter_compile(false, common_rules, N_ELEMENTS(common_rules), exchange_rules,
                                 N_ELEMENTS(exchange_rules), &ret->exchange);
}

/* --- The two steps --- */

/* Keeps a limit that is already lower. */
static int lower_limit(__rlimit_resource_t resource, rlim_t max) {
        struct rlimit limit;

        if (getrlimit(resource, &limit) < 0)
                return -errno;
        if (limit.rlim_max < max)
                max = limit.rlim_max;
        limit = (struct rlimit){ max, max };
        return setrlimit(resource, &limit) < 0 ? -errno : 0;
}

static int limit_resources(void) {
        int r = lower_limit(RLIMIT_NOFILE, DESCRIPTORS_MAX);

#if !defined(__SANITIZE_ADDRESS__)
        if (r >= 0)
                r = lower_limit(RLIMIT_AS, MEMORY_MAX);
#endif
        return r;
}

int nb_http_sandbox_begin(const struct nb_http_filters *filters, bool has_landlock) {
        int abi, r = limit_resources();

        if (r >= 0 && has_landlock) {
                abi = nb_landlock_version();
                r = abi < 0 ? abi : restrict_files(abi);
        }
        return r < 0 ? r : nb_filter_load(&filters->connect);
}

int nb_http_sandbox_finish(const struct nb_http_filters *filters) {
        /* connect_rules permit this: setrlimit(2) calls prlimit64 for this process. */
        int r = lower_limit(RLIMIT_NPROC, 0);

        return r < 0 ? r : nb_filter_load(&filters->exchange);
}
