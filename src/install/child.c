/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/macro.h"
#include "base/text.h"
#include "install/alone.h"
#include "install/child.h"
#include "install/confine.h"
#include "os/clock.h"
#include "os/descriptors.h"
#include "os/privilege.h"
#include "os/sources.h"
#include "prover/prover.h"
#include "state_files/found_metadata.h"
#include "systemd/log.h"

#define PAUSE_MS 250
#define STATUSES_MAX 1024 /* more than the buffer of the socket has room for */

/* For the child: NB_STATUS_FD, NB_SOURCES_FD and, unless the last one is -1, its channel. */
#define FDS_N 3
_Static_assert(FDS_N <= NB_DESCRIPTORS_MAX, "in one message");

/* What the runner answers when a child has ended. A single byte follows once the state directory is
 * empty. */
struct end {
        int error; /* the child could not be started */
        int status;
        bool is_other_killed;
};

static int fail_run(int r, const char *what, struct nb_failure *f) {
        return nb_failure_set(f, NB_INTERNAL, r, "cannot run the network side: %s: %m", what);
}

/* --- The child --- */

/* systemd has already set the supplementary groups of the service; the unit forbids setgroups(2).
 */
static int change_user(const struct nb_state *state, uid_t real) {
        int r;

        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
            setresgid(state->group, state->group, state->group) < 0 ||
            setresuid(real, state->owner, real) < 0)
                return -errno;
        r = nb_privilege_keep(0);
        if (r < 0)
                return r;
        /* The change of user has reset both. */
        return prctl(PR_SET_DUMPABLE, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 ? -errno : 0;
}

#define FIRST_FREE_FD 6
_Static_assert(NB_STATUS_FD == 3 && NB_SOURCES_FD == 4 && NB_FOUND_FD == 5, "below FIRST_FREE_FD");
_Static_assert(NB_PROVER_CHANNEL_FD == 5, "below FIRST_FREE_FD");

static int pass_descriptors(const int fds[static FDS_N]) {
        int above[FDS_N];

        for (int i = 0; i < FDS_N; i++)
                above[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, FIRST_FREE_FD);
        for (int i = 0; i < FDS_N; i++)
                if (fds[i] >= 0 && dup2(above[i], NB_STATUS_FD + i) < 0)
                        return -errno;
        /* Best effort: every descriptor of ours has the flag anyway. */
        (void)close_range(FIRST_FREE_FD, UINT_MAX, CLOSE_RANGE_CLOEXEC);
        if (unsetenv("NOTIFY_SOCKET") < 0 || setenv(NB_STATUS_VARIABLE, "1", 1) < 0 ||
            setenv(NB_SOURCES_VARIABLE, "1", 1) < 0)
                return -errno;
        return 0;
}

/* The unit makes install one of the last processes that the OOM killer chooses; join must not
 * inherit this. The file belongs to root unless the process is dumpable; only root can trace this
 * one. Best effort: the limits of the unit hold in any case. */
static void become_expendable(void) {
        _cleanup_(nb_closep) int fd = -1;

        (void)prctl(PR_SET_DUMPABLE, 1);
        fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
        if (fd >= 0)
                (void)!write(fd, "0", 1);
}

struct runner {
        const struct nb_state *state;
        const char *program;
        bool is_service;
        int fd;
        const sigset_t *signals; /* that were blocked in install */
};

/* What install sends: the kind of a child with its descriptors, or a signal without any. */
struct order {
        char byte;
        int fds[FDS_N];
};

/* A taken-over reader of metadata must not plant a key for the join, or a handoff for install. */
static int restrict_child(char kind) {
        return kind == NB_CHILD_METADATA ? nb_privilege_forbid_writing() : 0;
}

static _Noreturn void execute(const struct runner *runner, const struct order *order) {
        static const char *const words[_NB_CHILD_N][2] = {
                [NB_CHILD_METADATA] = { "join", "--metadata" },
                [NB_CHILD_JOIN] = { "join" },
                [NB_CHILD_REFRESH] = { "refresh" },
                [NB_CHILD_CONFIG] = { "refresh", "--kubelet-config" },
        };
        const char *const *word = words[(unsigned char)order->byte];
        struct nb_failure f = { 0 };
        int r;

        become_expendable();
        r = change_user(runner->state, runner->state->owner);
        if (r < 0)
                (void)fail_run(r, "change of user", &f);
        else if ((r = restrict_child(order->byte)) < 0)
                (void)fail_run(r, "Landlock", &f);
        else if ((r = pass_descriptors(order->fds)) < 0)
                (void)fail_run(r, "descriptors", &f);
        else if (sigprocmask(SIG_SETMASK, runner->signals, NULL) < 0)
                (void)fail_run(errno, "sigprocmask", &f);
        else {
                (void)execl(runner->program, runner->program, word[0], word[1], NULL);
                (void)fail_run(errno, runner->program, &f);
        }
        nb_log_failure(LOG_ERR, &f);
        exit(nb_failure_info(f.code)->exit_status);
}

/* --- The runner --- */

/* False at the end of the channel. */
static bool receive_order(int fd, struct order *order) {
        return nb_descriptors_receive(fd, &order->byte, 1, order->fds, FDS_N) > 0;
}

/* Returns when the child has ended, or has to end. */
static void await_child(const struct runner *runner, pid_t pid) {
        _cleanup_(nb_closep) int pid_fd = (int)syscall(SYS_pidfd_open, pid, 0);
        struct pollfd polls[] = { { .fd = pid_fd, .events = POLLIN },
                                  { .fd = runner->fd, .events = POLLIN } };
        char signal;

        while (pid_fd >= 0) {
                if (TEMP_FAILURE_RETRY(poll(polls, N_ELEMENTS(polls), -1)) < 0 || polls[0].revents)
                        return;
                if (TEMP_FAILURE_RETRY(recv(runner->fd, &signal, 1, 0)) != 1 || !signal)
                        return;
                (void)kill(pid, signal);
        }
}

/* If this process fails, or is killed, nb_alone_verify() finds the processes that are left. */
static void serve_child(const struct runner *runner, struct order *order) {
        struct end end = { 0 };
        uint64_t deadline_ms;
        sigset_t blocked;
        pid_t pid = fork();

        if (pid == 0)
                execute(runner, order);
        for (int i = 0; i < FDS_N; i++)
                nb_closep(&order->fds[i]);
        if (pid < 0)
                end.error = errno;
        else
                await_child(runner, pid);
        deadline_ms = nb_now_ms() + (uint64_t)NB_RUNNER_SWEEP_MAX_S * 1000;
        if (pid > 0) {
                (void)kill(pid, SIGKILL);
                if (runner->is_service)
                        end.is_other_killed = nb_alone_kill(getppid(), pid, deadline_ms);
                /* Not earlier: the number must not get a new owner. A process that waits for a dead
                 * file system never ends; then this one does. */
                (void)alarm(NB_RUNNER_SWEEP_MAX_S);
                (void)TEMP_FAILURE_RETRY(waitpid(pid, &end.status, 0));
                (void)alarm(0);
        }
        (void)send(runner->fd, &end, sizeof(end), MSG_NOSIGNAL);
        /* systemctl stop ends this process, too. */
        (void)sigprocmask(SIG_SETMASK, runner->signals, &blocked);
        nb_state_empty(runner->state, deadline_ms);
        (void)sigprocmask(SIG_SETMASK, &blocked, NULL);
        (void)send(runner->fd, "", 1, MSG_NOSIGNAL);
}

static _Noreturn void run(const struct runner *runner) {
        struct order order;

        if (change_user(runner->state, getuid()) < 0)
                _exit(1);
        /* A signal for a child that has ended is left in the channel. */
        while (receive_order(runner->fd, &order))
                if (order.fds[0] >= 0)
                        serve_child(runner, &order);
        _exit(0);
}

/* --- install --- */

int nb_runner_begin(const struct nb_state *state, const char *program, bool is_service,
                    struct nb_runner *ret_runner, struct nb_failure *f) {
        const struct sigaction by_default = { .sa_handler = SIG_DFL };
        struct runner runner = { .state = state, .program = program, .is_service = is_service };
        sigset_t blocked, before;
        /* The runner inherits which processes hang in a file system. */
        int pair[2], r = is_service ? nb_alone_verify(0, f) : 0;
        pid_t pid;

        if (r < 0)
                return r;
        sigemptyset(&blocked);
        sigaddset(&blocked, SIGINT);
        sigaddset(&blocked, SIGTERM);
        /* If SIGCHLD is ignored, the exit status of a child is lost. A child inherits ignored
         * signals, so reset SIGINT and SIGTERM, too. */
        if (sigaction(SIGCHLD, &by_default, NULL) < 0 || sigaction(SIGINT, &by_default, NULL) < 0 ||
            sigaction(SIGTERM, &by_default, NULL) < 0 ||
            sigprocmask(SIG_BLOCK, &blocked, &before) < 0)
                return fail_run(errno, "sigprocmask", f);
        runner.signals = &before;
        r = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0
                    ? fail_run(errno, "socketpair", f)
                    : 0;
        fflush(NULL);
        pid = r < 0 ? -1 : fork();
        if (pid == 0) {
                (void)close(pair[0]);
                runner.fd = pair[1];
                run(&runner);
        }
        if (r >= 0) {
                (void)close(pair[1]);
                *ret_runner = (struct nb_runner){ .pid = pid, .fd = pair[0] };
                r = pid < 0 ? fail_run(errno, "fork", f) : nb_confine(f);
        }
        if (r < 0 && pid > 0)
                nb_runner_done(ret_runner);
        (void)sigprocmask(SIG_SETMASK, &before, NULL);
        return r;
}

/* 0, -errno. */
static int start_child(const struct nb_runner *runner, enum nb_child_kind kind,
                       const int fds[static FDS_N]) {
        const char byte = (char)kind;

        return nb_descriptors_send(runner->fd, &byte, 1, fds,
                                   fds[FDS_N - 1] < 0 ? FDS_N - 1 : FDS_N, 0);
}

/* Sends the child a signal; 0: ends it, with all that it has left. */
static void send_signal(const struct nb_runner *runner, int signal) {
        const char order = (char)signal;

        (void)TEMP_FAILURE_RETRY(send(runner->fd, &order, 1, MSG_NOSIGNAL | MSG_DONTWAIT));
}

/* Waits until the child has ended and what it left is removed. Returns 0 and the status of
 * waitpid(2); 1 if other processes than the child were killed, too; -errno. */
static int await_end(const struct nb_runner *runner, int *ret_status) {
        struct end end;
        char byte;

        if (TEMP_FAILURE_RETRY(recv(runner->fd, &end, sizeof(end), 0)) != sizeof(end))
                return -EPIPE;
        (void)TEMP_FAILURE_RETRY(recv(runner->fd, &byte, 1, 0));
        *ret_status = end.status;
        return end.error > 0 ? -end.error : end.is_other_killed;
}

void nb_runner_done(struct nb_runner *runner) {
        nb_closep(&runner->fd);
        runner->fd = -1;
        if (runner->pid > 0)
                (void)TEMP_FAILURE_RETRY(waitpid(runner->pid, NULL, 0));
        runner->pid = 0;
}

/* --- A child of install --- */

/* From the child; the end of each is that of the child, or of a socketpair(2) with it. */
enum { STATUS, MESSAGES, CHANNELS_N };

struct channel {
        int fd;          /* -1: at its end */
        uint64_t due_ms; /* not read before */
};

struct watch {
        const struct nb_runner *runner;
        const struct nb_child *child;
        struct channel channels[CHANNELS_N];
        int signal_fd;
        uint64_t deadline_ms;
        bool is_late; /* the deadline is that of NB_CHILD_GRACE_S */
        struct nb_child_end end;
};

/* An older status is out of date. Ends at an empty record as at the end of the channel: only a
 * hostile child sends one, and it delays nothing but its own statuses. */
static void pass_last_status(const struct nb_child *child, int fd) {
        char status[NB_STATUS_MAX + 1] = "", line[1024];
        ssize_t n = 1;

        for (int i = 0; i < STATUSES_MAX && n > 0; i++) {
                n = recv(fd, status, NB_STATUS_MAX, MSG_DONTWAIT);
                if (n > 0)
                        status[n] = '\0';
        }
        if (status[0]) {
                nb_tell_heard(child->teller, status);
                nb_text_copy_line(status, strcspn(status, "\n"), line, sizeof(line));
                nb_log_status("%s", line);
        }
        child->on_status(child->userdata);
}

static void read_channel(struct watch *watch, int i) {
        struct channel *channel = &watch->channels[i];

        if (i == STATUS)
                pass_last_status(watch->child, channel->fd);
        else if (watch->child->on_message &&
                 watch->child->on_message(watch->child->userdata, channel->fd) > 0) {
                /* It still reports what it has found. */
                watch->end.is_done = watch->is_late = true;
                watch->deadline_ms = nb_now_ms() + NB_CHILD_GRACE_S * 1000;
                channel->fd = -1;
        }
        channel->due_ms = nb_now_ms() + PAUSE_MS;
}

/* Returns 0 if no signal is pending. */
static int read_signal(struct watch *watch) {
        struct signalfd_siginfo info;

        if (read(watch->signal_fd, &info, sizeof(info)) != sizeof(info))
                return 0;
        watch->end.is_stopped |= info.ssi_signo == SIGINT;
        return (int)info.ssi_signo;
}

/* Statuses are read only when one may be passed on: a flood of them would stall systemd. Returns 1
 * when the child has ended; 0 NB_CHILD_GRACE_S after the deadline; -errno. */
static int watch_child(struct watch *watch) {
        struct pollfd polls[2 + CHANNELS_N] = { { .fd = watch->signal_fd, .events = POLLIN },
                                                { .fd = watch->runner->fd, .events = POLLIN } };
        int number;

        for (;;) {
                uint64_t now = nb_now_ms(), until;

                if (now >= watch->deadline_ms) {
                        if (watch->is_late)
                                return 0;
                        /* After a suspend, the child has not noticed its deadline yet, either. */
                        watch->is_late = true;
                        watch->deadline_ms = now + NB_CHILD_GRACE_S * 1000;
                }
                until = watch->deadline_ms;
                for (int i = 0; i < CHANNELS_N; i++) {
                        const struct channel *channel = &watch->channels[i];
                        bool is_due = now >= channel->due_ms;

                        polls[2 + i] = (struct pollfd){ .fd = is_due ? channel->fd : -1,
                                                        .events = POLLIN | POLLRDHUP };
                        if (!is_due && channel->fd >= 0 && channel->due_ms < until)
                                until = channel->due_ms;
                }
                if (poll(polls, N_ELEMENTS(polls),
                         until - now > INT_MAX ? INT_MAX : (int)(until - now)) < 0) {
                        if (errno != EINTR)
                                return -errno;
                        continue;
                }
                if (polls[1].revents)
                        return 1;
                /* systemd sends both signals to every process of the service, but somebody else may
                 * send one to this process alone. */
                if (polls[0].revents && (number = read_signal(watch)) != 0)
                        send_signal(watch->runner, number);
                for (int i = 0; i < CHANNELS_N; i++) {
                        short revents = polls[2 + i].revents;

                        if (revents)
                                read_channel(watch, i);
                        if (revents & (POLLHUP | POLLRDHUP))
                                watch->channels[i].fd = -1;
                }
        }
}

static int end_child(struct watch *watch, int status_fd, struct nb_failure *f) {
        struct nb_child_end *end = &watch->end;
        int r = watch_child(watch), left, status;

        send_signal(watch->runner, 0);
        left = await_end(watch->runner, &status);
        pass_last_status(watch->child, status_fd);
        if (r < 0 || left < 0)
                return fail_run(r < 0 ? r : left, "wait", f);
        if (r == 0 && !end->is_done)
                return nb_failure_set(f, NB_JOIN_OVERDUE, ETIMEDOUT,
                                      "join had not ended %d s after the deadline and was killed",
                                      NB_CHILD_GRACE_S);
        /* The child may have ended by the same signal before this process has read it. */
        while (read_signal(watch) != 0)
                ;
        /* If a signal has killed the child, its workers may not have noticed yet. */
        if (left > 0 && WIFEXITED(status))
                nb_log(LOG_WARNING, NB_NOT_ALONE,
                       "join left processes in the control group of the service; they were killed");
        end->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
        end->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + end->signal;
        return 0;
}

static int run_child(struct watch *watch, struct nb_failure *f) {
        const struct nb_child *child = watch->child;
        int ours[CHANNELS_N] = { -1, -1 }, theirs[CHANNELS_N] = { -1, -1 }, pair[2], r = 0;

        for (int i = 0; i < (child->on_message ? CHANNELS_N : MESSAGES) && r >= 0; i++) {
                r = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0 ? -errno : 0;
                if (r >= 0) {
                        ours[i] = pair[0];
                        theirs[i] = pair[1];
                }
        }
        if (r >= 0)
                r = start_child(
                        watch->runner, child->kind,
                        (const int[]){ theirs[STATUS], child->sources_fd, theirs[MESSAGES] });
        (void)close(child->sources_fd);
        for (int i = 0; i < CHANNELS_N; i++) {
                nb_closep(&theirs[i]);
                watch->channels[i].fd = ours[i];
        }
        r = r < 0 ? fail_run(r, "start", f) : end_child(watch, ours[STATUS], f);
        for (int i = 0; i < CHANNELS_N; i++)
                nb_closep(&ours[i]);
        return r;
}

int nb_child_run(const struct nb_runner *runner, const struct nb_child *child,
                 struct nb_child_end *ret_end, struct nb_failure *f) {
        _cleanup_(nb_closep) int signal_fd = -1;
        struct watch watch = { .runner = runner, .child = child, .deadline_ms = NB_TIME_INFINITE };
        sigset_t watched, before;
        int r;

        if (child->timeout_ms != NB_TIME_INFINITE)
                watch.deadline_ms = nb_now_ms() + child->timeout_ms;
        sigemptyset(&watched);
        sigaddset(&watched, SIGINT);
        sigaddset(&watched, SIGTERM);
        if (sigprocmask(SIG_BLOCK, &watched, &before) < 0)
                return fail_run(errno, "sigprocmask", f);
        watch.signal_fd = signal_fd = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
        r = signal_fd < 0 ? fail_run(errno, "signalfd", f) : run_child(&watch, f);
        (void)sigprocmask(SIG_SETMASK, &before, NULL);
        if (r >= 0)
                *ret_end = watch.end;
        return r;
}
