/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/macro.h"
#include "install/alone.h"
#include "install/sweeper.h"
#include "system/privilege.h"

static int become_user(const struct nb_state *state) {
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
            setresgid(state->group, state->group, state->group) < 0 ||
            setresuid((uid_t)-1, state->owner, (uid_t)-1) < 0)
                return -errno;
        return nb_privilege_keep(0);
}

static _Noreturn void sweep(const struct nb_state *state, pid_t child, bool is_service, int fd) {
        bool is_left = false;
        sigset_t none;
        char byte;

        if (become_user(state) < 0)
                _exit(0);
        (void)TEMP_FAILURE_RETRY(read(fd, &byte, 1));
        /* Ends this process, however many files and processes join has left. */
        (void)alarm(NB_SWEEPER_MAX_S);
        (void)kill(child, SIGKILL);
        if (is_service)
                is_left = nb_alone_kill(getppid(), child);
        /* systemctl stop ends this process, too. */
        sigemptyset(&none);
        (void)sigprocmask(SIG_SETMASK, &none, NULL);
        nb_state_empty(state);
        _exit(is_left);
}

int nb_sweeper_start(const struct nb_state *state, pid_t child, bool is_service,
                     struct nb_sweeper *ret_sweeper) {
        _cleanup_(nb_closep) int reader = -1, writer = -1;
        int pair[2];
        pid_t pid;

        if (pipe2(pair, O_CLOEXEC) < 0)
                return -errno;
        reader = pair[0];
        writer = pair[1];
        pid = fork();
        if (pid < 0)
                return -errno;
        if (pid == 0) {
                nb_closep(&writer);
                sweep(state, child, is_service, reader);
        }
        *ret_sweeper = (struct nb_sweeper){ .pid = pid, .fd = TAKE_FD(writer) };
        return 0;
}

int nb_sweeper_run(struct nb_sweeper *sweeper) {
        int status;

        nb_closep(&sweeper->fd);
        if (TEMP_FAILURE_RETRY(waitpid(sweeper->pid, &status, 0)) < 0)
                return -errno;
        if (WIFEXITED(status))
                return WEXITSTATUS(status);
        return WTERMSIG(status) == SIGALRM ? -ETIME : -EINTR;
}
