/* SPDX-License-Identifier: Apache-2.0 */

/*
 * measure [--until FILE] [--root FOLDER] PROGRAM [ARGUMENT...]: runs a program, with FOLDER as its
 * root, or runs it until FILE is there and complete and then kills it. Prints microseconds of wall
 * time, microseconds of CPU time, KiB of peak memory, and the exit status (-1 when killed).
 *
 * This is a C program, because the peak of a child includes the memory that it has at the fork: a
 * copy of a Python interpreter is larger than the measured program, and would hide its peak.
 */

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK_MS 100 /* for a child that ends without the file */

static long long now_us(void) {
        struct timespec now;

        (void)clock_gettime(CLOCK_MONOTONIC, &now);
        return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

static int watch(const char *path, char *folder, const char **ret_name) {
        char *slash;
        int fd;

        (void)snprintf(folder, PATH_MAX, "%s", path);
        slash = strrchr(folder, '/');
        if (!slash)
                return -1;
        *slash = '\0';
        *ret_name = slash + 1;
        fd = inotify_init1(IN_CLOEXEC);
        if (fd >= 0 && inotify_add_watch(fd, folder, IN_CLOSE_WRITE | IN_MOVED_TO) < 0)
                return -1;
        return fd;
}

/* True when an event is for the file. */
static bool is_there(int fd, const char *name) {
        _Alignas(struct inotify_event) char events[4096];
        ssize_t n = read(fd, events, sizeof(events));

        for (char *p = events; n > 0 && p < events + n;) {
                const struct inotify_event *event = (const struct inotify_event *)p;

                if (event->len > 0 && !strcmp(event->name, name))
                        return true;
                p += sizeof(*event) + event->len;
        }
        return false;
}

static long long wait_for_file(pid_t pid, int fd, const char *name) {
        struct pollfd poller = { .fd = fd, .events = POLLIN };
        siginfo_t ended = { 0 };

        for (;;) {
                if (poll(&poller, 1, CHECK_MS) > 0 && is_there(fd, name))
                        return now_us();
                if (waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
                    ended.si_pid == pid)
                        return now_us();
        }
}

int main(int argc, char **argv) {
        bool is_until = argc > 3 && !strcmp(argv[1], "--until");
        char **command = argv + (is_until ? 3 : 1);
        const char *root = NULL;
        char folder[PATH_MAX];
        const char *name = NULL;
        long long start, end;
        struct rusage usage;
        int fd = -1, status;
        pid_t pid;

        if (argc < 2)
                return 64;
        if (argc > 3 && !strcmp(command[0], "--root")) {
                root = command[1];
                command += 2;
        }
        if (is_until) {
                fd = watch(argv[2], folder, &name);
                if (fd < 0)
                        return perror(argv[2]), 74;
        }
        start = now_us();
        pid = fork();
        if (pid == 0) {
                if (root && (chroot(root) < 0 || chdir("/") < 0)) {
                        perror(root);
                        _exit(127);
                }
                (void)execv(command[0], command);
                perror(command[0]);
                _exit(127);
        }
        end = is_until ? wait_for_file(pid, fd, name) : 0;
        if (is_until)
                (void)kill(pid, SIGKILL);
        if (pid < 0 || wait4(pid, &status, 0, &usage) != pid)
                return perror("wait4"), 70;
        if (!is_until)
                end = now_us();
        (void)printf("%lld %lld %ld %d\n", end - start,
                     usage.ru_utime.tv_sec * 1000000LL + usage.ru_utime.tv_usec +
                             usage.ru_stime.tv_sec * 1000000LL + usage.ru_stime.tv_usec,
                     usage.ru_maxrss, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
        return 0;
}
