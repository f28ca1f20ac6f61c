/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded, it plays a server that has taken over the process of its connection: at the first byte
 * of TLS it tries each attack and sends what happened to the server, a line each: "NAME: 0" if the
 * attack was possible, or the error number. $ATTACK_LANDLOCK_ABI holds Landlock at an older
 * version.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define STATE "/var/lib/private/node-bootstrap/"
#define CREDENTIALS "/run/credentials/node-bootstrap.service/"

static int server = -1;
static char attack_name[64];
static const char *attack_server, *landlock_abi;
static pid_t join_pid;

/* The program forgets its environment before it connects. */
__attribute__((constructor)) static void read_environment(void) {
        const char *name = getenv("ATTACK_NAME"), *address = getenv("ATTACK_SERVER"),
                   *abi = getenv("ATTACK_LANDLOCK_ABI");

        (void)snprintf(attack_name, sizeof(attack_name), "%s", name ? name : "");
        attack_server = address ? strdup(address) : "";
        landlock_abi = abi ? strdup(abi) : NULL;
}

/* The program asks for Landlock's version with syscall(2). */
long syscall(long number, ...) {
        static long (*next)(long, ...);
        const char *abi = landlock_abi;
        long a[6], r;
        va_list list;

        va_start(list, number);
        for (int i = 0; i < 6; i++)
                a[i] = va_arg(list, long);
        va_end(list);
        if (!next)
                next = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
        r = next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
        if (number == SYS_landlock_create_ruleset && !a[0] && abi) {
                if (!strcmp(abi, "none")) {
                        errno = EOPNOTSUPP;
                        return -1;
                }
                return r > atoi(abi) ? atoi(abi) : r;
        }
        return r;
}

static void report(const char *name, long r) {
        char line[128];
        int n = snprintf(line, sizeof(line), "%s: %d\n", name, r < 0 ? errno : 0);

        (void)send(server, line, (size_t)n, MSG_NOSIGNAL);
}

#define TRY(name, call) \
        do { \
                errno = 0; \
                report(name, (long)(call)); \
        } while (0)

static int open_process(const char *name, int flags) {
        char path[64];

        (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)join_pid, name);
        return open(path, flags);
}

static void try_files(void) {
        TRY("read the token", open(CREDENTIALS "node-bootstrap.token", O_RDONLY));
        TRY("read the pending key", open(STATE "pending.key", O_RDONLY));
        TRY("read the settings", open("/etc/node-bootstrap/config.yaml", O_RDONLY));
        TRY("read a public file", open("/etc/os-release", O_RDONLY));
        TRY("read the memory of join", open_process("mem", O_RDONLY));
        TRY("read the environment of join", open_process("environ", O_RDONLY));
        TRY("open the descriptors of join", open_process("fd/4", O_RDONLY));
        TRY("write the memory of join", open_process("mem", O_RDWR));
        TRY("create a handoff", open(STATE "joined.json", O_WRONLY | O_CREAT, 0600));
        TRY("open a path only", open(STATE, O_PATH));
        TRY("create a file without a name", open("/tmp", O_TMPFILE | O_RDWR, 0600));
        TRY("rename", rename(STATE "pending.key", STATE "x"));
        TRY("unlink", unlink(STATE "pending.key"));
        TRY("make a directory", mkdir(STATE "x", 0700));
        TRY("make a link", symlink("/", STATE "x"));
        TRY("create a memory file", memfd_create("x", 0));
        TRY("an io_uring", syscall(SYS_io_uring_setup, 8, calloc(1, 256)));
        TRY("open by handle", syscall(SYS_open_by_handle_at, AT_FDCWD, calloc(1, 64), 0));
        TRY("openat2", syscall(SYS_openat2, AT_FDCWD, "/etc/os-release", calloc(1, 24), 24));
}

static void *thread(void *userdata) {
        return userdata;
}

static long clone_with(unsigned long flags) {
        long pid = syscall(SYS_clone, flags, 0, 0, 0, 0);

        if (pid == 0)
                _exit(0);
        return pid;
}

static void try_processes(int with_thread) {
        static char *const words[] = { "/bin/true", NULL };
        struct {
                uint64_t values[11];
        } arguments = { { [4] = SIGCHLD } };
        pthread_t id;

        TRY("fork", clone_with(SIGCHLD));
        TRY("fork a sibling", clone_with(CLONE_PARENT | SIGCHLD));
        TRY("a user namespace", clone_with(CLONE_NEWUSER | SIGCHLD));
        TRY("unshare", unshare(CLONE_NEWUSER));
        TRY("clone3", syscall(SYS_clone3, &arguments, sizeof(arguments)));
        TRY("vfork", syscall(SYS_vfork));
        if (with_thread) {
                errno = pthread_create(&id, NULL, thread, NULL);
                report("a thread", errno ? -1 : 0);
        }
        TRY("execve", execve(words[0], words, words + 1));
        TRY("execveat", syscall(SYS_execveat, AT_FDCWD, words[0], words, words + 1, 0));
        TRY("executable memory", mmap(NULL, 4096, PROT_READ | PROT_EXEC,
                                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED
                                         ? -1
                                         : 0);
}

static void try_join(void) {
        static struct rlimit zero;
        struct iovec ours = { calloc(1, 8), 8 }, theirs = { (void *)(uintptr_t)4096, 8 };
        siginfo_t info = { .si_code = SI_QUEUE };
        struct f_owner_ex owner = { F_OWNER_PID, join_pid };

        TRY("SIGSTOP to join", kill(join_pid, SIGSTOP));
        TRY("SIGINT to join", kill(join_pid, SIGINT));
        TRY("SIGKILL to join", kill(join_pid, SIGKILL));
        TRY("signal 0 to everyone", kill(-1, 0));
        TRY("tgkill", syscall(SYS_tgkill, join_pid, join_pid, SIGSTOP));
        TRY("tkill", syscall(SYS_tkill, join_pid, SIGSTOP));
        TRY("sigqueue", syscall(SYS_rt_sigqueueinfo, join_pid, SIGUSR1, &info));
        TRY("pidfd_open", syscall(SYS_pidfd_open, join_pid, 0));
        TRY("ptrace", ptrace(PTRACE_SEIZE, join_pid, 0, 0));
        TRY("process_vm_readv", process_vm_readv(join_pid, &ours, 1, &theirs, 1, 0));
        TRY("kcmp", syscall(SYS_kcmp, join_pid, getpid(), 0, 3, 4));
        TRY("prlimit", prlimit(join_pid, RLIMIT_CPU, &zero, NULL));
        TRY("prlimit, reading", prlimit(join_pid, RLIMIT_CPU, NULL, &zero));
        TRY("setpriority", setpriority(PRIO_USER, 0, 19));
        TRY("affinity of join", sched_setaffinity(join_pid, 0, NULL));
        TRY("F_SETOWN", fcntl(server, F_SETOWN, join_pid));
        TRY("F_SETOWN_EX", fcntl(server, F_SETOWN_EX, &owner));
        TRY("F_SETSIG", fcntl(server, F_SETSIG, SIGSTOP));
        TRY("O_ASYNC", fcntl(server, F_SETFL, O_ASYNC));
        TRY("FIOSETOWN", ioctl(server, 0x8901, &join_pid));
        TRY("FIOASYNC", ioctl(server, FIOASYNC, &(int){ 1 }));
        TRY("a timer", timer_create(CLOCK_MONOTONIC, NULL, calloc(1, 64)));
}

static int connect_path(int fd, const char *path) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };

        strcpy(address.sun_path, path);
        return connect(fd, (struct sockaddr *)&address, sizeof(address));
}

/* The filter answers connect(2) with EINPROGRESS, which libcurl expects. */
static void try_sockets(void) {
        struct sockaddr_in metadata = { .sin_family = AF_INET,
                                        .sin_port = htons(80),
                                        .sin_addr = { htonl(0xa9fea9fe) } };
        struct sockaddr nowhere = { .sa_family = AF_UNSPEC };
        struct iovec part = { "x", 1 };
        struct msghdr message = { .msg_name = &metadata,
                                  .msg_namelen = sizeof(metadata),
                                  .msg_iov = &part,
                                  .msg_iovlen = 1 };
        int pair[2];

        TRY("a TCP socket", socket(AF_INET, SOCK_STREAM, 0));
        TRY("a UDP socket", socket(AF_INET, SOCK_DGRAM, 0));
        TRY("a Unix socket", socket(AF_UNIX, SOCK_DGRAM, 0));
        TRY("a netlink socket", socket(AF_NETLINK, SOCK_RAW, 0));
        TRY("a socket pair", socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
        TRY("disconnect", connect(server, &nowhere, sizeof(nowhere)));
        TRY("connect to the metadata service",
            connect(server, (struct sockaddr *)&metadata, sizeof(metadata)));
        TRY("connect to the bus", connect_path(server, "/run/dbus/system_bus_socket"));
        TRY("connect to notify", connect_path(server, "/run/systemd/notify"));
        TRY("sendto an address",
            sendto(server, "x", 1, 0, (struct sockaddr *)&metadata, sizeof(metadata)));
        TRY("fast open", sendmsg(server, &message, MSG_FASTOPEN | MSG_NOSIGNAL));
        TRY("sendmmsg", syscall(SYS_sendmmsg, server, &message, 0, 0));
        TRY("bind", bind(server, (struct sockaddr *)&metadata, sizeof(metadata)));
        TRY("listen", listen(server, 1));
        TRY("attach a filter", setsockopt(server, SOL_SOCKET, SO_ATTACH_BPF, &(int){ 3 }, 4));
        TRY("a device", setsockopt(server, SOL_SOCKET, SO_BINDTODEVICE, "lo", 2));
        TRY("an upper layer protocol", setsockopt(server, IPPROTO_TCP, TCP_ULP, "tls", 3));
}

/* MiB that could be mapped. Filling them would take a second on some machines, after which the CPU
 * limit kills this process. */
static void try_memory(void) {
        char line[64];
        int mib = 0, n;

        for (char *piece; mib < 4096; mib++) {
                piece = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                             0);
                if (piece == MAP_FAILED)
                        break;
                *piece = 1;
        }
        n = snprintf(line, sizeof(line), "MiB of memory: %d\n", mib);
        (void)send(server, line, (size_t)n, MSG_NOSIGNAL);
}

static void try_limits(void) {
        struct rlimit limit = { RLIM_INFINITY, RLIM_INFINITY };

        TRY("raise a limit", setrlimit(RLIMIT_AS, &limit));
        TRY("lower a limit", setrlimit(RLIMIT_CPU, &(struct rlimit){ 1, 1 }));
        TRY("setuid", setuid(0));
        TRY("prctl", prctl(PR_SET_DUMPABLE, 1));
        TRY("chroot", chroot("/"));
        TRY("mount", syscall(SYS_mount, "x", "/tmp", "tmpfs", 0, NULL));
        TRY("keyctl", syscall(SYS_keyctl, 0, -3, 0));
        TRY("bpf", syscall(SYS_bpf, 0, calloc(1, 128), 128));
        TRY("perf_event_open", syscall(SYS_perf_event_open, calloc(1, 128), 0, -1, -1, 0));
        TRY("userfaultfd", syscall(SYS_userfaultfd, 0));
        TRY("another filter", syscall(SYS_seccomp, 0, 0, NULL));
}

/* Descriptors in flight count against a limit that all processes of the user share. */
static void fill_flight(void) {
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(253 * sizeof(int))];
        } control;
        struct iovec part = { "x", 1 };
        struct msghdr message = { .msg_iov = &part,
                                  .msg_iovlen = 1,
                                  .msg_control = &control,
                                  .msg_controllen = sizeof(control) };
        int pair[2], n = 0;

        memset(&control, 0, sizeof(control));
        control.header = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
                                           .cmsg_type = SCM_RIGHTS,
                                           .cmsg_len = CMSG_LEN(253 * sizeof(int)) };
        while (n < 64 && socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0)
                for (; n < 64 && sendmsg(pair[0], &message, MSG_DONTWAIT) > 0;)
                        n++;
        report("more than one full message of descriptors in flight", n > 1 ? 0 : -1);
}

static int find_server(void) {
        struct sockaddr_storage peer;

        for (int fd = 3; fd < 64; fd++) {
                socklen_t len = sizeof(peer);

                if (getpeername(fd, (struct sockaddr *)&peer, &len) == 0 &&
                    (peer.ss_family == AF_INET || peer.ss_family == AF_INET6))
                        return fd;
        }
        return -1;
}

/* Connecting is permitted in this step. */
static void connect_server(void) {
        struct sockaddr_in address = { .sin_family = AF_INET };
        char host[64] = "";
        int port = 0;

        (void)sscanf(attack_server, "%63[^:]:%d", host, &port);
        (void)inet_pton(AF_INET, host, &address.sin_addr);
        address.sin_port = htons((uint16_t)port);
        server = socket(AF_INET, SOCK_STREAM, 0);
        if (server < 0 || connect(server, (struct sockaddr *)&address, sizeof(address)) < 0)
                _exit(4);
}

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **ret) {
        __typeof__(&getaddrinfo) next = (__typeof__(&getaddrinfo))dlsym(RTLD_NEXT, "getaddrinfo");

        if (!attack_name[0] || !name || strcmp(name, attack_name) != 0)
                return next(name, service, hints, ret);
        join_pid = getppid();
        connect_server();
        try_files();
        try_join();
        try_limits();
        try_processes(0);
        fill_flight();
        (void)send(server, "end\n", 4, MSG_NOSIGNAL);
        for (;;)
                (void)poll(NULL, 0, -1);
}

/* The server has taken over the process at the first byte of TLS. */
static void attack(void) {
        char byte;

        server = find_server();
        join_pid = getppid();
        for (int fd = 0; fd < 256; fd++) {
                struct sockaddr_storage peer;
                socklen_t len = sizeof(peer);
                struct stat st = { .st_mode = S_IFREG };
                char line[64];
                int n, kind = -1;

                if (fcntl(fd, F_GETFD) < 0)
                        continue;
                /* An anonymous inode, such as an event descriptor, has no type. */
                if (getpeername(fd, (struct sockaddr *)&peer, &len) == 0)
                        kind = peer.ss_family;
                else if (fstat(fd, &st) == 0 && (st.st_mode & S_IFMT) == 0)
                        kind = -2;
                n = snprintf(line, sizeof(line), "descriptor: %d %d\n", fd, kind);
                (void)send(server, line, (size_t)n, MSG_NOSIGNAL);
        }
        try_files();
        try_sockets();
        try_join();
        try_limits();
        try_processes(1);
        try_memory();
        (void)send(server, "end\n", 4, MSG_NOSIGNAL);
        /* Until the server closes the connection. */
        while (recv(server, &byte, 1, 0) > 0)
                ;
        _exit(3);
}

static int handshake(void *session, const char *function) {
        int (*next)(void *) = (int (*)(void *))dlsym(RTLD_NEXT, function);

        if (!attack_name[0])
                attack();
        return next(session);
}

int gnutls_handshake(void *session) {
        return handshake(session, "gnutls_handshake");
}

int SSL_connect(void *session) {
        return handshake(session, "SSL_connect");
}
