/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/macro.h"
#include "base/process.h"
#include "base/text.h"

#define SEARCH_PATH "PATH=/usr/sbin:/usr/bin:/sbin:/bin"
#define ERROR_TEXT_SIZE 4096

enum { INPUT, OUTPUT, ERROR, _STREAM_N };

struct process {
        pid_t pid;
        int fds[_STREAM_N]; /* our ends of the pipes; -1 once closed */
        const char *input;
        size_t input_len;
        struct nb_secret *output;
        char error[ERROR_TEXT_SIZE]; /* the end of its error output */
        size_t error_len;
};

static void close_stream(struct process *process, int stream) {
        nb_closep(&process->fds[stream]);
        process->fds[stream] = -1;
}

/* Default handlers and no blocked signals, since this process may have blocked some. */
static int set_signals(posix_spawnattr_t *attributes) {
        sigset_t none, all;

        sigemptyset(&none);
        (void)sigfillset(&all);
        (void)posix_spawnattr_setsigmask(attributes, &none);
        (void)posix_spawnattr_setsigdefault(attributes, &all);
        return posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                                            POSIX_SPAWN_SETPGROUP);
}

static int spawn(const char *const argv[], int theirs[static _STREAM_N], pid_t *ret_pid) {
        static char path[] = SEARCH_PATH, language[] = "LC_ALL=C.UTF-8",
                    colors[] = "SYSTEMD_COLORS=0", pager[] = "SYSTEMD_PAGER=";
        char *environment[] = { path, language, colors, pager, NULL };
        posix_spawn_file_actions_t actions;
        posix_spawnattr_t attributes;
        char **words;
        int r;

        /* posix_spawn(3) does not write to them, and its type is older than const. */
        memcpy(&words, &argv, sizeof(words));
        r = posix_spawn_file_actions_init(&actions);
        if (r != 0)
                return -r;
        r = posix_spawnattr_init(&attributes);
        if (r == 0) {
                r = set_signals(&attributes);
                for (int i = 0; i < _STREAM_N && r == 0; i++)
                        r = posix_spawn_file_actions_adddup2(&actions, theirs[i], i);
                if (r == 0)
                        r = posix_spawnp(ret_pid, words[0], &actions, &attributes, words,
                                         environment);
                (void)posix_spawnattr_destroy(&attributes);
        }
        (void)posix_spawn_file_actions_destroy(&actions);
        return -r;
}

static int start(struct process *process, const char *const argv[]) {
        int theirs[_STREAM_N] = { -1, -1, -1 }, r = 0;

        for (int i = 0; i < _STREAM_N && r == 0; i++) {
                int pair[2];

                if (pipe2(pair, O_CLOEXEC) < 0) {
                        r = -errno;
                        break;
                }
                theirs[i] = pair[i == INPUT ? 0 : 1];
                process->fds[i] = pair[i == INPUT ? 1 : 0];
                if (fcntl(process->fds[i], F_SETFL, O_NONBLOCK) < 0)
                        r = -errno;
        }
        if (r == 0)
                r = spawn(argv, theirs, &process->pid);
        for (int i = 0; i < _STREAM_N; i++)
                nb_closep(&theirs[i]);
        return r;
}

/* A program may exit before it has read all input; that is not an error here. */
static int feed(struct process *process) {
        ssize_t n = write(process->fds[INPUT], process->input, process->input_len);

        if (n < 0 && errno != EAGAIN && errno != EINTR && errno != EPIPE)
                return -errno;
        if (n < 0 && errno == EPIPE)
                process->input_len = 0;
        if (n > 0) {
                process->input += n;
                process->input_len -= (size_t)n;
        }
        return 0;
}

static int take_output(struct process *process) {
        struct nb_secret *output = process->output;
        char spare[512];
        ssize_t n;

        if (!output) {
                n = read(process->fds[OUTPUT], spare, sizeof(spare));
        } else {
                /* Reading one more byte shows whether there is more than fits. */
                bool is_full = output->len == output->size;

                n = read(process->fds[OUTPUT], is_full ? spare : output->data + output->len,
                         is_full ? 1 : output->size - output->len);
                if (n > 0 && is_full)
                        return -E2BIG;
                if (n > 0)
                        output->len += (size_t)n;
        }
        if (n == 0)
                close_stream(process, OUTPUT);
        return n < 0 && errno != EAGAIN && errno != EINTR ? -errno : 0;
}

static int take_error(struct process *process) {
        ssize_t n;

        if (process->error_len == sizeof(process->error)) {
                process->error_len /= 2;
                memmove(process->error,
                        process->error + sizeof(process->error) - process->error_len,
                        process->error_len);
        }
        n = read(process->fds[ERROR], process->error + process->error_len,
                 sizeof(process->error) - process->error_len);
        if (n > 0)
                process->error_len += (size_t)n;
        if (n == 0)
                close_stream(process, ERROR);
        return n < 0 && errno != EAGAIN && errno != EINTR ? -errno : 0;
}

static int exchange(struct process *process) {
        static int (*const move[_STREAM_N])(struct process *) = { feed, take_output, take_error };

        while (process->fds[OUTPUT] >= 0 || process->fds[ERROR] >= 0) {
                struct pollfd polls[_STREAM_N];

                if (process->input_len == 0)
                        close_stream(process, INPUT);
                for (int i = 0; i < _STREAM_N; i++)
                        polls[i] = (struct pollfd){ .fd = process->fds[i],
                                                    .events = i == INPUT ? POLLOUT : POLLIN };
                if (poll(polls, _STREAM_N, -1) < 0 && errno != EINTR)
                        return -errno;
                for (int i = 0; i < _STREAM_N; i++) {
                        int r = polls[i].revents && process->fds[i] >= 0 ? move[i](process) : 0;

                        if (r < 0)
                                return r;
                }
        }
        return 0;
}

static int reap(pid_t pid) {
        int status;

        while (waitpid(pid, &status, 0) < 0)
                if (errno != EINTR)
                        return -errno;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void last_line(const struct process *process, char ret[static NB_PROCESS_ERROR_SIZE]) {
        size_t end = process->error_len, begin;

        while (end > 0 && process->error[end - 1] == '\n')
                end--;
        for (begin = end; begin > 0 && process->error[begin - 1] != '\n';)
                begin--;
        nb_text_copy_line(process->error + begin, end - begin, ret, NB_PROCESS_ERROR_SIZE);
}

int nb_process_run(const char *const argv[], const void *input, size_t input_len,
                   struct nb_secret *output, struct nb_process_result *ret_result) {
        struct process process = { .pid = -1,
                                   .fds = { -1, -1, -1 },
                                   .input = input,
                                   .input_len = input_len,
                                   .output = output };
        struct sigaction ignore = { .sa_handler = SIG_IGN }, before;
        int r, status = 0;

        if (sigaction(SIGPIPE, &ignore, &before) < 0)
                return -errno;
        r = start(&process, argv);
        if (r >= 0)
                r = exchange(&process);
        for (int i = 0; i < _STREAM_N; i++)
                close_stream(&process, i);
        if (process.pid > 0) {
                /* A program that has closed its pipes may never exit. */
                if (r < 0)
                        (void)kill(process.pid, SIGKILL);
                status = reap(process.pid);
                if (r >= 0)
                        r = status;
        }
        (void)sigaction(SIGPIPE, &before, NULL);
        if (r < 0)
                return r;
        /* If posix_spawnp() cannot report a missing program, for example under valgrind, its child
         * exits with this status. */
        if (status == 127)
                return -ENOENT;
        if (output)
                output->data[output->len] = '\0';
        ret_result->status = status;
        last_line(&process, ret_result->error);
        return 0;
}

int nb_process_pass(const char *const argv[], int *ret_status) {
        char **words;
        pid_t pid;
        int r;

        memcpy(&words, &argv, sizeof(words));
        r = posix_spawn(&pid, words[0], NULL, NULL, words, environ);
        if (r != 0)
                return -r;
        r = reap(pid);
        if (r < 0)
                return r;
        *ret_status = r;
        return 0;
}
