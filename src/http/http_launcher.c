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
#include "http/http_internal.h"
#include "os/clock.h"
#include "os/descriptors.h"
#include "os/landlock.h"
#include "os/privilege.h"
#include "os/stop.h"
#include "systemd/log.h"

/* A fork takes less than a millisecond, but some modules for name resolution ask a server when they
 * are loaded. */
#define ANSWER_MAX_MS 10000

/* Attempts to start the launcher, a second apart, while the system refuses another process. */
#define ATTEMPTS 60

/* Workers whose end is not waited for. */
#define KILLED_MAX 16

#define N_FDS (NB_HTTP_PROXY_CA_FD - NB_HTTP_CALLS_FD + 1)
_Static_assert(N_FDS <= NB_DESCRIPTORS_MAX, "in one message");

struct order {
        unsigned number;
        pid_t parent;
        bool needs_resolver;
        struct nb_http_config config;
        struct nb_http_filters filters;
};

struct answer {
        unsigned number; /* that of the order; 0 after the start */
        int r;           /* the process ID of a worker, or 0 after the start; -errno */
};

static int launcher_fd = -1;
static pid_t launcher_pid;
static bool is_prepared; /* the launcher */
static struct nb_http_filters filters;
static unsigned n_orders;
static int landlock_version;
static pid_t killed[KILLED_MAX]; /* not reaped yet */
static size_t n_killed;

/* --- The launcher --- */

/*
 * Loads all modules for name resolution (nsswitch.conf), since a worker cannot open a library. The
 * label of this name is longer than 63 bytes: no module finds it or sends it to a name server, so
 * all modules are tried.
 */
static void load_resolvers(void) {
        static const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
        static bool is_done;
        char name[70] = { 0 };
        struct addrinfo *found = NULL;

        if (is_done)
                return;
        is_done = true;
        memset(name, 'a', sizeof(name) - 1);
        if (getaddrinfo(name, NULL, &hints, &found) == 0)
                freeaddrinfo(found);
}

/*
 * Removes the variables that change what libcurl, OpenSSL and GnuTLS do: SSLKEYLOGFILE would name a
 * file to write the keys of connections to, which libcurl opens before there is a sandbox, and
 * OPENSSL_CONF could load a module. What a library reads when it is loaded, such as
 * GNUTLS_SYSTEM_PRIORITY_FILE, has been read already.
 */
static void clear_tls_variables(void) {
        static const char *const prefixes[] = { "SSL", "OPENSSL_", "GNUTLS_", "CURL_" };
        size_t n = 0;

        for (size_t i = 0; environ && environ[i]; i++) {
                bool is_kept = true;

                for (size_t j = 0; j < N_ELEMENTS(prefixes); j++)
                        is_kept &= strncmp(environ[i], prefixes[j], strlen(prefixes[j])) != 0;
                if (is_kept)
                        environ[n++] = environ[i];
        }
        if (environ)
                environ[n] = NULL;
}

/* Blocks the signals that stop a service or that a terminal sends: the parent handles them, and
 * ends this process. */
static int begin_process(pid_t parent) {
        static const int theirs[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP };
        sigset_t blocked;

        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || prctl(PR_SET_DUMPABLE, 0) < 0 ||
            getppid() != parent)
                return -EPERM;
        for (int i = 1; i < NSIG; i++)
                (void)signal(i, i == SIGPIPE ? SIG_IGN : SIG_DFL);
        sigemptyset(&blocked);
        for (size_t i = 0; i < N_ELEMENTS(theirs); i++)
                sigaddset(&blocked, theirs[i]);
        return sigprocmask(SIG_SETMASK, &blocked, NULL) < 0 ? -errno : 0;
}

/* Moves `n` descriptors, which are in ascending order, to NB_HTTP_CALLS_FD and the following
 * numbers, and closes all others. */
static int keep_descriptors(const int *fds, int n) {
        for (int i = 0; i < n; i++)
                if (fds[i] != NB_HTTP_CALLS_FD + i && dup2(fds[i], NB_HTTP_CALLS_FD + i) < 0)
                        return -errno;
        return close_range((unsigned)(NB_HTTP_CALLS_FD + n), UINT_MAX, 0) < 0 ? -errno : 0;
}

/* `fds`: the channel, and /dev/null: otherwise a worker could print so much that it uses up the
 * rate limit of the journal. */
static int begin_launcher(const int fds[static 2], pid_t parent) {
        const int null = NB_HTTP_CALLS_FD + 1;
        int r = begin_process(parent);

        if (r >= 0)
                r = keep_descriptors(fds, 2);
        if (r >= 0 && (dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
                       dup2(null, STDERR_FILENO) < 0))
                r = -errno;
        if (r < 0)
                return r;
        (void)close(null);
        clear_tls_variables();
        r = nb_privilege_keep(0);
        if (r >= 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                r = -errno;
        if (r >= 0 && curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
                r = -EIO;
        return r;
}

/* 1; 0 if there are no more orders; -EMFILE if there was no room for the descriptors. */
static int receive_order(struct order *order, int ret_fds[static N_FDS]) {
        if (nb_descriptors_receive(NB_HTTP_CALLS_FD, order, sizeof(*order), ret_fds, N_FDS) <
            (ssize_t)sizeof(*order))
                return 0;
        if (ret_fds[N_FDS - 1] >= 0)
                return 1;
        (void)close_range(NB_HTTP_CALLS_FD + 1, UINT_MAX, 0);
        return -EMFILE;
}

/* Forks a child of the parent of this process, so that the parent can wait for it. fork(2) has no
 * flag for that, and RestrictNamespaces= refuses clone3(2). */
static pid_t fork_sibling(void) {
        return (pid_t)syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, NULL);
}

static void run_worker(const struct order *order, const int *fds) {
        if (begin_process(order->parent) >= 0 && keep_descriptors(fds, N_FDS) >= 0)
                nb_http_worker_run(&order->config, &order->filters);
}

static int send_answer(unsigned number, int r) {
        const struct answer answer = { number, r };

        return send(NB_HTTP_CALLS_FD, &answer, sizeof(answer), MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* `given`: as begin_launcher(). */
static void run_launcher(const int given[static 2], pid_t parent) {
        int r = begin_launcher(given, parent);

        if (send_answer(0, r) < 0 || r < 0)
                return;
        for (;;) {
                struct order order;
                int fds[N_FDS];

                r = receive_order(&order, fds);
                if (r == 0)
                        return;
                if (r > 0) {
                        if (order.needs_resolver)
                                load_resolvers();
                        r = fork_sibling();
                        if (r == 0) {
                                run_worker(&order, fds);
                                _exit(EXIT_SUCCESS);
                        }
                        r = r < 0 ? -errno : r;
                        for (int i = 0; i < N_FDS; i++)
                                (void)close(fds[i]);
                }
                if (send_answer(order.number, r) < 0)
                        return;
        }
}

/* --- This process --- */

int nb_http_worker_end(pid_t pid) {
        int status = 0;

        (void)kill(pid, SIGKILL);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        return status;
}

void nb_http_worker_kill(pid_t pid) {
        (void)kill(pid, SIGKILL);
        if (launcher_fd < 0 || n_killed == N_ELEMENTS(killed))
                (void)nb_http_worker_end(pid);
        else
                killed[n_killed++] = pid;
}

void nb_http_workers_reap(void) {
        size_t n = n_killed;

        n_killed = 0;
        for (size_t i = 0; i < n; i++)
                if (waitpid(killed[i], NULL, WNOHANG) == 0)
                        killed[n_killed++] = killed[i];
}

/*
 * Receives the answer to an order. An answer to an earlier order came too late: its worker is
 * killed, since no transfer uses it. 0 or a process ID; -EPIPE if the launcher has ended;
 * -ETIMEDOUT; another -errno.
 */
static int receive_answer(unsigned number, uint64_t until_ms) {
        struct pollfd polls[2] = { [1] = { .fd = launcher_fd, .events = POLLIN } };

        for (;;) {
                uint64_t now = nb_now_ms();
                struct answer answer;
                int r = nb_stop_poll(polls, N_ELEMENTS(polls), now < until_ms ? until_ms - now : 0);

                if (polls[1].revents) {
                        if (recv(launcher_fd, &answer, sizeof(answer), MSG_DONTWAIT) !=
                            sizeof(answer))
                                return -EPIPE;
                        if (answer.number == number)
                                return answer.r == -ENOMEM ? -EAGAIN : answer.r;
                        if (answer.r > 0)
                                (void)nb_http_worker_end(answer.r);
                        continue;
                }
                if (r < 0)
                        return r == -ECANCELED ? -EINTR : r;
                if (now >= until_ms)
                        return -ETIMEDOUT;
        }
}

static int send_order(const struct nb_http *http, const char *url, unsigned number, int socket_fd) {
        struct order order = {
                .number = number,
                .parent = getpid(),
                .needs_resolver = nb_http_needs_resolver(&http->config, url),
                .config = http->config,
                .filters = filters,
        };
        int fds[N_FDS] = { socket_fd, http->ca_fd, http->certificate_fd, http->proxy_ca_fd };

        order.config.has_landlock = landlock_version > 0;
        for (size_t i = 0; i < N_FDS; i++)
                if (fds[i] < 0)
                        fds[i] = socket_fd;
        return nb_descriptors_send(launcher_fd, &order, sizeof(order), fds, N_FDS, MSG_DONTWAIT);
}

/* Another launcher would have a copy of the secrets of this process. So this process ends by a
 * signal, and Restart=on-abnormal starts a new one. */
static void end_without_launcher(void) {
        nb_log(LOG_ERR, NB_INTERNAL,
               "something has ended the process that makes connections; ending as well");
        abort();
}

int nb_http_worker_start(const struct nb_http *http, const char *url, pid_t *ret_pid, int *ret_fd) {
        _cleanup_(nb_closep) int ours = -1, theirs = -1;
        int pair[2], r;

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return errno == ENOMEM ? -EAGAIN : -errno;
        ours = pair[0];
        theirs = pair[1];
        r = send_order(http, url, ++n_orders, theirs);
        if (r >= 0)
                r = receive_answer(n_orders, nb_now_ms() + ANSWER_MAX_MS);
        if (r == -EPIPE || r == -ECONNRESET)
                end_without_launcher();
        if (r < 0)
                return r;
        *ret_pid = r;
        *ret_fd = TAKE_FD(ours);
        return 0;
}

/* Compiles the filters after the fork, since the launcher needs longer to get ready. */
static int start_launcher(void) {
        pid_t self = getpid();
        int pair[2], fds[2], r;

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return -errno;
        launcher_fd = pair[0];
        fds[0] = pair[1];
        fds[1] = open("/dev/null", O_RDWR | O_CLOEXEC);
        launcher_pid = fds[1] < 0 ? -1 : fork();
        if (launcher_pid == 0) {
                run_launcher(fds, self);
                _exit(EXIT_FAILURE);
        }
        r = launcher_pid < 0 ? -errno : 0;
        (void)close(fds[0]);
        nb_closep(&fds[1]);
        if (r >= 0)
                r = nb_http_sandbox_prepare(&filters);
        if (r < 0)
                nb_http_end();
        return r;
}

static bool is_passing(int r) {
        return r == -EAGAIN || r == -ENOMEM || r == -EMFILE || r == -ENFILE;
}

static int fail_start(int r, struct nb_failure *f) {
        return nb_failure_set(f, is_passing(r) ? NB_WORKER_UNSTARTABLE : NB_INTERNAL, r,
                              "cannot start the process that makes connections: %m");
}

int nb_http_begin(bool is_landlock_optional, struct nb_failure *f) {
        int r = -EAGAIN;

        if (launcher_fd >= 0)
                return 0;
        landlock_version = nb_landlock_version();
        if (landlock_version < 0 && !is_landlock_optional)
                return nb_failure_set(f, NB_SANDBOX_REFUSED, landlock_version,
                                      "a system call filter refuses Landlock to this process: "
                                      "landlock_create_ruleset: %m");
        /* With SIG_IGN, waitpid(2) would not return how a worker has ended. */
        (void)signal(SIGCHLD, SIG_DFL);
        for (int i = 0; i < ATTEMPTS && is_passing(r); i++) {
                if (nb_stop_wait(i > 0 ? 1000 : 0) == -ECANCELED)
                        return -ECANCELED;
                r = start_launcher();
        }
        return r < 0 ? fail_start(r, f) : 0;
}

int nb_http_await_launcher(struct nb_failure *f) {
        int r;

        if (is_prepared || launcher_fd < 0)
                return 0;
        /* Without a time limit: on a machine that is overloaded while it boots, only waiting
         * helps. */
        r = receive_answer(0, NB_TIME_INFINITE);
        if (r == -EINTR) /* a stop was requested */
                return -ECANCELED;
        if (r == -EPIPE)
                end_without_launcher();
        is_prepared = r >= 0;
        return r < 0 ? fail_start(r, f) : 0;
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

int nb_http_confine_resolver(void) {
        load_resolvers();
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return -errno;
        return nb_http_sandbox_begin(&filters, nb_http_has_landlock());
}

void nb_http_dismiss(const struct nb_http *http) {
        for (const struct nb_http_worker *worker = http->workers; worker; worker = worker->next)
                (void)kill(worker->pid, SIGKILL);
        if (launcher_fd >= 0)
                (void)kill(launcher_pid, SIGKILL);
}

void nb_http_end(void) {
        if (launcher_fd < 0)
                return;
        (void)close(launcher_fd);
        launcher_fd = -1;
        is_prepared = false;
        while (n_killed > 0)
                (void)nb_http_worker_end(killed[--n_killed]);
        if (launcher_pid > 0)
                (void)nb_http_worker_end(launcher_pid);
}
