/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "base/text.h"
#include "system/process.h"

#define SEARCH_PATH "PATH=/usr/sbin:/usr/bin:/sbin:/bin"
#define ERROR_SIZE ((off_t)64 * 1024)

/* `streams` are the program's standard input, output and error. Its signal handlers and signal mask
 * are reset, since this process may block signals. Returns the process ID, or -errno. */
static pid_t spawn_program(const char *const argv[], const int streams[static 3]) {
        static char path[] = SEARCH_PATH, language[] = "LC_ALL=C.UTF-8",
                    colors[] = "SYSTEMD_COLORS=0", pager[] = "SYSTEMD_PAGER=";
        char *environment[] = { path, language, colors, pager, NULL };
        posix_spawn_file_actions_t actions;
        posix_spawnattr_t attributes;
        sigset_t none, all;
        char **words;
        pid_t pid = -1;
        int r = 0;

        /* The parameter of posix_spawn(3) lacks a const, but its strings are not changed. */
        memcpy(&words, &argv, sizeof(words));
        sigemptyset(&none);
        (void)sigfillset(&all);
        (void)posix_spawnattr_init(&attributes);
        (void)posix_spawnattr_setsigmask(&attributes, &none);
        (void)posix_spawnattr_setsigdefault(&attributes, &all);
        (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                                            POSIX_SPAWN_SETPGROUP);
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

static int read_output(int fd, struct nb_secret *output) {
        for (;;) {
                /* When `output` is full, one more read shows whether the program wrote more. */
                bool has_room = output && output->len < output->size;
                char spare[512];
                ssize_t n = has_room ? read(fd, output->data + output->len,
                                            output->size - output->len)
                                     : read(fd, spare, sizeof(spare));

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return n < 0 ? -errno : 0;
                if (has_room)
                        output->len += (size_t)n;
                else if (output)
                        return -E2BIG;
        }
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

int nb_process_run(const char *const argv[], const void *input, size_t input_len,
                   struct nb_secret *output, struct nb_process_result *ret_result) {
        _cleanup_(nb_closep) int in = -1, error = -1, reader = -1;
        int pair[2], r, status;
        pid_t pid;

        r = make_input(input, input_len, &in);
        if (r < 0)
                return r;
        r = make_error(&error);
        if (r < 0)
                return r;
        if (pipe2(pair, O_CLOEXEC) < 0)
                return -errno;
        reader = pair[0];
        pid = spawn_program(argv, (const int[]){ in, pair[1], error });
        (void)close(pair[1]);
        if (pid < 0)
                return pid;
        r = read_output(reader, output);
        /* A program that cannot write its output may never exit. */
        if (r < 0)
                (void)kill(pid, SIGKILL);
        status = reap_child(pid);
        if (r < 0 || status < 0)
                return r < 0 ? r : status;
        /* If posix_spawnp() cannot report a missing program, for example under valgrind, its child
         * exits with this status. */
        if (status == 127)
                return -ENOENT;
        if (output)
                output->data[output->len] = '\0';
        ret_result->status = status;
        read_last_line(error, ret_result->error);
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
        r = reap_child(pid);
        if (r < 0)
                return r;
        *ret_status = r;
        return 0;
}
