/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "base/text.h"
#include "os/clock.h"
#include "os/process.h"

#define SEARCH_PATH "PATH=/usr/sbin:/usr/bin:/sbin:/bin"
#define ERROR_SIZE ((off_t)64 * 1024)
#define GRACE_MS 1000 /* from SIGTERM to SIGKILL */
#define LEFT_MAX 8

/* Processes of nb_process_try() that were killed, but have not ended. */
static pid_t stuck[LEFT_MAX];
static unsigned n_noted;

/* `streams` are the program's standard input, output and error. Its signal handlers and signal mask
 * are reset, since this process may block signals. Returns the process ID, or -errno. */
static pid_t spawn_program(const struct nb_process *process, const int streams[static 3]) {
        static char path[] = SEARCH_PATH, language[] = "LC_ALL=C.UTF-8",
                    colors[] = "SYSTEMD_COLORS=0", pager[] = "SYSTEMD_PAGER=";
        char *own[] = { path, language, colors, pager, NULL }, **environment = own;
        posix_spawn_file_actions_t actions;
        posix_spawnattr_t attributes;
        sigset_t none, all;
        char **words;
        pid_t pid = -1;
        int r = 0;

        /* The parameters of posix_spawn(3) lack a const, but their strings are not changed. */
        memcpy(&words, &process->argv, sizeof(words));
        if (process->environment)
                memcpy(&environment, &process->environment, sizeof(environment));
        sigemptyset(&none);
        (void)sigfillset(&all);
        (void)posix_spawnattr_init(&attributes);
        (void)posix_spawnattr_setsigmask(&attributes, &none);
        (void)posix_spawnattr_setsigdefault(&attributes, &all);
        (void)posix_spawnattr_setflags(
                &attributes, (short)(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                     (process->is_interactive ? 0 : POSIX_SPAWN_SETPGROUP)));
        (void)posix_spawn_file_actions_init(&actions);
        for (int i = 0; i < 3 && r == 0; i++)
                r = posix_spawn_file_actions_adddup2(&actions, streams[i], i);
        if (r == 0)
                r = posix_spawnp(&pid, words[0], &actions, &attributes, words, environment);
        (void)posix_spawn_file_actions_destroy(&actions);
        (void)posix_spawnattr_destroy(&attributes);
        return r != 0 ? -r : pid;
}

/* Creates a pipe that has room for the whole input, so that writing cannot block. The input is not
 * written to a file, since it may be a secret. */
static int make_input(const void *input, size_t len, int *ret_fd) {
        _cleanup_(nb_closep) int reader = -1, writer = -1;
        int pair[2];

        if (pipe2(pair, O_CLOEXEC) < 0)
                return -errno;
        reader = pair[0];
        writer = pair[1];
        if (len > 0) {
                if (fcntl(writer, F_SETPIPE_SZ, (int)len) < 0 ||
                    fcntl(writer, F_SETFL, O_NONBLOCK) < 0)
                        return -errno;
                if (write(writer, input, len) != (ssize_t)len)
                        return -EFBIG;
        }
        *ret_fd = TAKE_FD(reader);
        return 0;
}

/* Creates a memory file that cannot grow, for standard error. */
static int make_error(int *ret_fd) {
        _cleanup_(nb_closep) int fd = nb_memory_file_open("stderr");

        if (fd < 0)
                return fd;
        if (ftruncate(fd, ERROR_SIZE) < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_GROW) < 0)
                return -errno;
        *ret_fd = TAKE_FD(fd);
        return 0;
}

/* 1: more may follow; 0: end of the output; -E2BIG; -errno. */
static int read_output(int fd, struct nb_secret *output) {
        /* When `output` is full, one more read shows whether the program wrote more. */
        bool has_room = output->len < output->size;
        char spare;
        ssize_t n = has_room ? read(fd, output->data + output->len, output->size - output->len)
                             : read(fd, &spare, 1);

        if (n < 0)
                return errno == EINTR ? 1 : -errno;
        if (n > 0 && !has_room)
                return -E2BIG;
        output->len += (size_t)n;
        return n > 0;
}

/* Does not use a pidfd, since valgrind does not know it. */
static bool has_ended(int child_fd, pid_t pid) {
        struct signalfd_siginfo signal;
        siginfo_t info = { 0 };

        (void)!read(child_fd, &signal, sizeof(signal));
        return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid != 0;
}

/* Waits until the program has ended. Its children may still have its output open. 0; -ETIMEDOUT;
 * -ECANCELED; -E2BIG; -errno. */
static int await_end(const struct nb_process *process, pid_t pid, const int signal_fds[static 2],
                     int reader) {
        uint64_t end = process->timeout_ms > 0 && !process->is_interactive
                               ? nb_now_ms() + process->timeout_ms
                               : NB_TIME_INFINITE;
        struct pollfd polls[] = { { .fd = signal_fds[0], .events = POLLIN },
                                  { .fd = signal_fds[1], .events = POLLIN },
                                  { .fd = reader, .events = POLLIN } };
        bool is_ended = false;

        for (;;) {
                uint64_t now = nb_now_ms(), left = end - now;
                int r = 1;

                if (now >= end)
                        return -ETIMEDOUT;
                if (poll(polls, N_ELEMENTS(polls),
                         is_ended         ? 0
                         : left > INT_MAX ? -1
                                          : (int)left) < 0) {
                        if (errno == EINTR)
                                continue;
                        return -errno;
                }
                if (polls[0].revents)
                        return -ECANCELED;
                /* This poll(2) began after the end of the program, so the output is complete. */
                if (is_ended && !polls[2].revents)
                        return 0;
                if (polls[1].revents && has_ended(signal_fds[1], pid))
                        is_ended = true;
                if (polls[2].revents && process->output)
                        r = read_output(reader, process->output);
                if (r < 0)
                        return r;
                if (r > 0)
                        continue;
                polls[2].fd = -1;
                if (process->is_interactive && process->timeout_ms > 0)
                        end = now + process->timeout_ms;
        }
}

/* The program may have left its process group. */
static bool kill_program(const struct nb_process *process, pid_t pid, int child_fd, int number) {
        uint64_t end = nb_now_ms() + GRACE_MS, now;
        struct pollfd ended = { .fd = child_fd, .events = POLLIN };

        if (!process->is_interactive)
                (void)kill(-pid, number);
        (void)kill(pid, number);
        while (!has_ended(child_fd, pid)) {
                now = nb_now_ms();
                if (now >= end)
                        return false;
                (void)poll(&ended, 1, (int)(end - now));
        }
        return true;
}

/* SIGTERM first, so that the program can restore the terminal. False if it has not ended: it runs
 * as another user, or waits for a disk. */
static bool end_program(const struct nb_process *process, pid_t pid, int child_fd) {
        (void)kill_program(process, pid, child_fd, SIGTERM);
        return kill_program(process, pid, child_fd, SIGKILL);
}

static int reap_child(pid_t pid) {
        int status;

        while (waitpid(pid, &status, 0) < 0)
                if (errno != EINTR)
                        return -errno;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Reads the last line that the program wrote. The file offset, which is shared with the program, is
 * the end of its output. */
static void read_last_line(int fd, char ret[static NB_PROCESS_ERROR_SIZE]) {
        char text[4096];
        off_t end = lseek(fd, 0, SEEK_CUR);
        off_t from = end > (off_t)sizeof(text) ? end - (off_t)sizeof(text) : 0;
        ssize_t n = pread(fd, text, (size_t)(end - from), from);
        size_t len = n > 0 ? (size_t)n : 0;
        const char *newline;

        while (len > 0 && text[len - 1] == '\n')
                len--;
        newline = memrchr(text, '\n', len);
        if (newline)
                len -= (size_t)(newline + 1 - text);
        nb_text_copy_line(newline ? newline + 1 : text, len, ret, NB_PROCESS_ERROR_SIZE);
}

static int wait_for_program(const struct nb_process *process, pid_t pid,
                            const int signal_fds[static 2], int reader,
                            struct nb_process_result *ret_result) {
        int r = await_end(process, pid, signal_fds, reader), status = 0;

        if (r >= 0 || end_program(process, pid, signal_fds[1]))
                status = reap_child(pid);
        if (r == -ETIMEDOUT) {
                ret_result->status = NB_PROCESS_LATE;
                snprintf(ret_result->error, sizeof(ret_result->error), "did not finish within %u s",
                         process->timeout_ms / 1000);
                return 0;
        }
        if (r < 0 || status < 0)
                return r < 0 ? r : status;
        ret_result->status = status;
        /* If posix_spawnp() cannot report a missing program, for example under valgrind, its child
         * exits with this status. */
        return status == 127 ? -ENOENT : 0;
}

static int run_program(const struct nb_process *process, const int signal_fds[static 2],
                       struct nb_process_result *ret_result) {
        _cleanup_(nb_closep) int in = -1, error = -1, reader = -1, writer = -1;
        int streams[] = { STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO }, pair[2], r = 0;
        pid_t pid;

        *ret_result = (struct nb_process_result){ 0 };
        if (!process->is_interactive) {
                r = make_input(process->input, process->input_len, &in);
                streams[0] = in;
        }
        if (r >= 0 && !process->is_interactive && !process->is_error_passed) {
                r = make_error(&error);
                streams[2] = error;
        }
        if (r < 0)
                return r;
        if (process->output) {
                if (pipe2(pair, O_CLOEXEC) < 0)
                        return -errno;
                reader = pair[0];
                writer = streams[1] = pair[1];
        } else if (!process->is_interactive) {
                writer = streams[1] = open("/dev/null", O_WRONLY | O_CLOEXEC);
                if (writer < 0)
                        return -errno;
        }
        pid = spawn_program(process, streams);
        nb_closep(&writer);
        writer = -1;
        if (pid < 0)
                return pid;
        r = wait_for_program(process, pid, signal_fds, reader, ret_result);
        if (r < 0)
                return r;
        if (process->output)
                process->output->data[process->output->len] = '\0';
        if (error >= 0 && !ret_result->error[0])
                read_last_line(error, ret_result->error);
        return 0;
}

int nb_process_run(const struct nb_process *process, struct nb_process_result *ret_result) {
        _cleanup_(nb_closep) int stop_fd = -1, child_fd = -1;
        sigset_t stop, child, before;
        int r;

        /* If SIGCHLD is ignored, the exit status is lost. */
        (void)signal(SIGCHLD, SIG_DFL);
        sigemptyset(&stop);
        sigaddset(&stop, SIGTERM);
        sigaddset(&stop, SIGINT);
        sigemptyset(&child);
        sigaddset(&child, SIGCHLD);
        if (sigprocmask(SIG_BLOCK, &stop, &before) < 0 || sigprocmask(SIG_BLOCK, &child, NULL) < 0)
                return -errno;
        stop_fd = signalfd(-1, &stop, SFD_CLOEXEC);
        child_fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
        r = stop_fd < 0 || child_fd < 0
                    ? -errno
                    : run_program(process, (const int[]){ stop_fd, child_fd }, ret_result);
        (void)sigprocmask(SIG_SETMASK, &before, NULL);
        return r;
}

/* Whoever reads this program's output until its end must not wait for a process that no signal
 * ends. */
static void leave_streams(void) {
        int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

        for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; stream++)
                if (fd < 0 || dup2(fd, stream) < 0)
                        (void)close(stream);
}

unsigned nb_process_count_left(void) {
        unsigned n = 0;

        for (size_t i = 0; i < LEFT_MAX; i++) {
                if (stuck[i] > 0 && waitpid(stuck[i], NULL, WNOHANG) != 0)
                        stuck[i] = 0;
                n += stuck[i] > 0;
        }
        return n;
}

void nb_process_note_left(unsigned n) {
        n_noted = n;
}

/* On some file systems, not even SIGKILL ends a process. */
static void leave(pid_t pid) {
        size_t i = 0;

        if (waitpid(pid, NULL, WNOHANG) != 0)
                return;
        while (stuck[i] > 0)
                i++;
        stuck[i] = pid;
}

int nb_process_try(void (*run)(void *userdata), void *userdata, int timeout_ms) {
        int pair[2], n;
        pid_t pid;

        if (nb_process_count_left() == LEFT_MAX || n_noted >= LEFT_MAX)
                return -ETIMEDOUT;
        if (pipe2(pair, O_CLOEXEC) < 0)
                return -errno;
        pid = fork();
        if (pid == 0) {
                leave_streams();
                /* Its end closes the pipe. It needs no other descriptor of this process. */
                (void)dup2(pair[1], STDERR_FILENO + 1);
                (void)close_range(STDERR_FILENO + 2, UINT_MAX, 0);
                run(userdata);
                _exit(0);
        }
        n = pid < 0 ? -errno : 0;
        (void)close(pair[1]);
        if (pid > 0)
                n = TEMP_FAILURE_RETRY(poll(&(struct pollfd){ .fd = pair[0] }, 1, timeout_ms));
        (void)close(pair[0]);
        if (pid < 0)
                return n;
        /* Also one that has closed the pipe and lives on: it may be in an attacker's hands. */
        (void)kill(pid, SIGKILL);
        if (n <= 0)
                leave(pid);
        else
                (void)waitpid(pid, NULL, 0);
        return n <= 0 ? -ETIMEDOUT : 0;
}
