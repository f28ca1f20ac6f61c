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
#include <sys/wait.h>
#include <unistd.h>

#include "base/macro.h"
#include "base/text.h"
#include "install/alone.h"
#include "install/child.h"
#include "install/confine.h"
#include "system/clock.h"
#include "system/log.h"
#include "system/privilege.h"
#include "system/sources.h"

#define STATUS_PAUSE_MS 250
#define STATUSES_MAX 1024 /* more than the buffer of the socket has room for */

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

#define FIRST_FREE_FD 5
_Static_assert(NB_STATUS_FD == 3 && NB_SOURCES_FD == 4, "FIRST_FREE_FD is above them");

static int pass_descriptors(int channel, int sources_fd) {
        channel = fcntl(channel, F_DUPFD_CLOEXEC, FIRST_FREE_FD);
        sources_fd = fcntl(sources_fd, F_DUPFD_CLOEXEC, FIRST_FREE_FD);
        if (dup2(channel, NB_STATUS_FD) < 0 || dup2(sources_fd, NB_SOURCES_FD) < 0)
                return -errno;
        /* Best effort: every descriptor of ours has the flag anyway. */
        (void)close_range(FIRST_FREE_FD, UINT_MAX, CLOSE_RANGE_CLOEXEC);
        if (unsetenv("NOTIFY_SOCKET") < 0 || setenv(NB_STATUS_VARIABLE, "1", 1) < 0 ||
            setenv(NB_SOURCES_VARIABLE, "1", 1) < 0)
                return -errno;
        return 0;
}

/* The unit makes install one of the last processes that the OOM killer chooses; join must not
 * inherit this. Best effort: the limits of the unit hold in any case. */
static void become_expendable(void) {
        _cleanup_(nb_closep) int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

        if (fd >= 0)
                (void)!write(fd, "0", 1);
}

static int execute_program(const struct nb_child *child, int channel, const sigset_t *signals,
                           struct nb_failure *f) {
        char go, **words;
        int r;

        /* If the parent could not confine itself, it closes the channel without sending. */
        if (recv(channel, &go, 1, 0) != 1)
                return fail_run(ECANCELED, "the parent has ended", f);
        become_expendable();
        r = change_user(child->state, child->state->owner);
        if (r < 0)
                return fail_run(r, "change of user", f);
        r = pass_descriptors(channel, child->sources_fd);
        if (r < 0)
                return fail_run(r, "descriptors", f);
        if (sigprocmask(SIG_SETMASK, signals, NULL) < 0)
                return fail_run(errno, "sigprocmask", f);
        memcpy(&words, &child->argv, sizeof(words));
        (void)execv(words[0], words);
        return fail_run(errno, words[0], f);
}

/* --- The sweeper --- */

/*
 * install has neither CAP_KILL nor CAP_FOWNER, so it forks the sweeper before it confines itself.
 * The sweeper has no capability either, but its effective user is that of the service. Its real and
 * saved user remain root, so that no process of the service can send it a signal.
 */
struct sweeper {
        pid_t pid;
        int fd; /* the sweeper begins when this is closed */
};

/* If this process fails, or is killed, nb_alone_verify() finds the processes that are left. */
static _Noreturn void sweep(const struct nb_child *child, pid_t pid, const sigset_t *signals,
                            int fd) {
        bool is_left = false;
        char byte;

        if (change_user(child->state, getuid()) < 0)
                _exit(0);
        (void)TEMP_FAILURE_RETRY(read(fd, &byte, 1));
        /* Ends this process, however many files and processes the child has left. */
        (void)alarm(NB_SWEEPER_MAX_S);
        (void)kill(pid, SIGKILL);
        if (child->is_service)
                is_left = nb_alone_kill(getppid(), pid);
        /* systemctl stop ends this process, too. */
        (void)sigprocmask(SIG_SETMASK, signals, NULL);
        nb_state_empty(child->state);
        _exit(is_left);
}

static int start_sweeper(const struct nb_child *child, pid_t pid, const sigset_t *signals,
                         struct sweeper *ret_sweeper) {
        int pair[2];
        pid_t sweeper;

        if (pipe2(pair, O_CLOEXEC) < 0)
                return -errno;
        sweeper = fork();
        if (sweeper == 0) {
                (void)close(pair[1]);
                sweep(child, pid, signals, pair[0]);
        }
        (void)close(pair[0]);
        if (sweeper < 0)
                return -errno;
        *ret_sweeper = (struct sweeper){ .pid = sweeper, .fd = pair[1] };
        return 0;
}

/* Reap the child only after this: its number must not get a new owner. Returns after at most
 * NB_SWEEPER_MAX_S: 1 if other processes than the child were killed; 0 if none; -ETIME if the work
 * is unfinished; another -errno. */
static int run_sweeper(struct sweeper *sweeper) {
        int status;

        nb_closep(&sweeper->fd);
        if (TEMP_FAILURE_RETRY(waitpid(sweeper->pid, &status, 0)) < 0)
                return -errno;
        if (WIFEXITED(status))
                return WEXITSTATUS(status);
        return WTERMSIG(status) == SIGALRM ? -ETIME : -EINTR;
}

/* --- The parent --- */

/* An older status is out of date. Ends at an empty record as at the end of the channel: only a
 * hostile child sends one, and it delays nothing but its own statuses. */
static void pass_last_status(const struct nb_child *child, int channel) {
        char status[NB_STATUS_MAX + 1] = "", line[1024];
        ssize_t n = 1;

        for (int i = 0; i < STATUSES_MAX && n > 0; i++) {
                n = recv(channel, status, NB_STATUS_MAX, MSG_DONTWAIT);
                if (n > 0)
                        status[n] = '\0';
        }
        if (!status[0])
                return;
        nb_tell_heard(child->teller, status);
        nb_text_copy_line(status, strcspn(status, "\n"), line, sizeof(line));
        nb_log_status("%s", line);
}

/* Returns 0 if no signal is pending. */
static int read_signal(int signal_fd) {
        struct signalfd_siginfo info;

        return read(signal_fd, &info, sizeof(info)) == sizeof(info) ? (int)info.ssi_signo : 0;
}

/* Statuses are read only when one may be passed on: a flood of them would stall systemd. Returns 1
 * when the child has ended, without reaping it; 0 NB_CHILD_GRACE_S after the deadline; -errno. */
static int watch_child(const struct nb_child *child, pid_t pid, int channel, int signal_fd,
                       bool *is_stopped) {
        uint64_t deadline_ms = child->timeout_ms == NB_TIME_INFINITE
                                       ? NB_TIME_INFINITE
                                       : nb_now_ms() + child->timeout_ms;
        struct pollfd polls[] = { { .fd = signal_fd, .events = POLLIN },
                                  { .events = POLLIN | POLLRDHUP } };
        uint64_t status_due_ms = 0, now, until;
        siginfo_t info = { 0 };
        bool is_open = true, is_late = false;
        int number;

        for (;;) {
                if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0)
                        return -errno;
                if (info.si_pid != 0)
                        return 1;
                now = nb_now_ms();
                if (now >= deadline_ms) {
                        if (is_late)
                                return 0;
                        /* After a suspend, the child has not noticed its deadline yet, either. */
                        is_late = true;
                        deadline_ms = now + NB_CHILD_GRACE_S * 1000;
                }
                polls[1].fd = is_open && now >= status_due_ms ? channel : -1;
                until = deadline_ms;
                if (now < status_due_ms && status_due_ms < until)
                        until = status_due_ms;
                if (poll(polls, N_ELEMENTS(polls),
                         until - now > INT_MAX ? INT_MAX : (int)(until - now)) < 0) {
                        if (errno != EINTR)
                                return -errno;
                        continue;
                }
                number = polls[0].revents ? read_signal(signal_fd) : 0;
                *is_stopped |= number == SIGINT;
                /* systemd sends both signals to every process of the service. If only this process
                 * gets one, the child stops only if the kernel permits kill(2). */
                if (number == SIGINT || number == SIGTERM)
                        (void)kill(pid, number);
                if (polls[1].revents) {
                        is_open = !(polls[1].revents & (POLLHUP | POLLRDHUP));
                        pass_last_status(child, channel);
                        child->on_status(child->userdata);
                        status_due_ms = nb_now_ms() + STATUS_PAUSE_MS;
                }
        }
}

/* Returns the status of waitpid(2). */
static int await_child(const struct nb_child *child, pid_t pid, int channel, int signal_fd,
                       struct sweeper *sweeper, bool *is_stopped, struct nb_failure *f) {
        int r = watch_child(child, pid, channel, signal_fd, is_stopped);
        int left = run_sweeper(sweeper), status, number;

        pass_last_status(child, channel);
        if (r < 0)
                return fail_run(r, "wait", f);
        if (r == 0)
                return nb_failure_set(f, NB_JOIN_OVERDUE, ETIMEDOUT,
                                      "join had not ended %d s after the deadline and was killed",
                                      NB_CHILD_GRACE_S);
        /* The child may have ended by the same signal before this process has read it. */
        while ((number = read_signal(signal_fd)) != 0)
                *is_stopped |= number == SIGINT;
        if (TEMP_FAILURE_RETRY(waitpid(pid, &status, 0)) < 0)
                return fail_run(errno, "wait", f);
        if (left == -ETIME)
                nb_log(LOG_WARNING, NB_NONE,
                       "removing the files of join took more than %d s; the next join continues",
                       NB_SWEEPER_MAX_S);
        /* If a signal has killed the child, its workers may not have noticed yet. */
        if (left > 0 && WIFEXITED(status))
                nb_log(LOG_WARNING, NB_NOT_ALONE,
                       "join left processes in the control group of the service; they were killed");
        return status;
}

void nb_child_end_like(int signal) {
        sigset_t set;

        sigemptyset(&set);
        sigaddset(&set, signal);
        (void)sigaction(signal, &(struct sigaction){ .sa_handler = SIG_DFL }, NULL);
        (void)kill(getpid(), signal);
        (void)sigprocmask(SIG_UNBLOCK, &set, NULL);
}

static int fork_child(const struct nb_child *child, const sigset_t *signals, int signal_fd,
                      struct nb_child_end *end, struct nb_failure *f) {
        _cleanup_(nb_closep) int ours = -1;
        int pair[2], status;
        struct sweeper sweeper = { .fd = -1 };
        pid_t pid;
        int r;

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return fail_run(errno, "socketpair", f);
        ours = pair[0];
        fflush(NULL);
        pid = fork();
        if (pid == 0) {
                nb_closep(&ours);
                (void)execute_program(child, pair[1], signals, f);
                nb_log_failure(LOG_ERR, f);
                exit(nb_failure_info(f->code)->exit_status);
        }
        (void)close(pair[1]);
        (void)close(child->sources_fd);
        if (pid < 0)
                return fail_run(errno, "fork", f);
        r = start_sweeper(child, pid, signals, &sweeper);
        if (r < 0) {
                r = fail_run(r, "fork", f);
        } else {
                r = nb_confine(f);
                if (r < 0)
                        (void)run_sweeper(&sweeper);
        }
        if (r < 0) {
                nb_closep(&ours);
                ours = -1;
                (void)TEMP_FAILURE_RETRY(waitpid(pid, NULL, 0));
                return r;
        }
        (void)send(ours, "", 1, MSG_NOSIGNAL);
        status = await_child(child, pid, ours, signal_fd, &sweeper, &end->is_stopped, f);
        if (status < 0)
                return status;
        end->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
        end->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + end->signal;
        return 0;
}

int nb_child_run(const struct nb_child *child, struct nb_child_end *ret_end, struct nb_failure *f) {
        struct sigaction by_default = { .sa_handler = SIG_DFL };
        _cleanup_(nb_closep) int signal_fd = -1;
        struct nb_child_end end = { 0 };
        sigset_t watched, before;
        int r;

        sigemptyset(&watched);
        sigaddset(&watched, SIGINT);
        sigaddset(&watched, SIGTERM);
        sigaddset(&watched, SIGCHLD);
        /* If SIGCHLD is ignored, the exit status of a child is lost. The child inherits ignored
         * signals, so reset SIGINT and SIGTERM too. */
        if (sigaction(SIGCHLD, &by_default, NULL) < 0 || sigaction(SIGINT, &by_default, NULL) < 0 ||
            sigaction(SIGTERM, &by_default, NULL) < 0 ||
            sigprocmask(SIG_BLOCK, &watched, &before) < 0)
                return fail_run(errno, "sigprocmask", f);
        signal_fd = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
        r = signal_fd < 0 ? fail_run(errno, "signalfd", f)
                          : fork_child(child, &before, signal_fd, &end, f);
        (void)sigprocmask(SIG_SETMASK, &before, NULL);
        if (r < 0)
                return r;
        *ret_end = end;
        return 0;
}
