/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/macro.h"
#include "os/landlock.h"
#include "os/privilege.h"

/* systemd's UID range for DynamicUser= (UIDS-GIDS.md of systemd). Each UID in use has a file in
 * this folder. */
#define USER_MIN 61184U
#define USER_MAX 65519U
#define USERS_IN_USE "/run/systemd/dynamic-uid/%u"

#define PROCESSES_MAX 64
#define DESCRIPTORS_MAX 1024 /* as LimitNOFILE= of the units */

static int fail_drop(int error, const char *what, struct nb_failure *f) {
        return nb_failure_set(f, NB_INTERNAL, error, "cannot drop root's privileges: %s: %m", what);
}

/* --- The parent --- */

static pid_t child; /* set in the parent */

static void pass_signal_on(int signal) {
        (void)kill(child, signal);
}

static int await_child(int *ret_status, struct nb_failure *f) {
        static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
        const struct sigaction action = { .sa_handler = pass_signal_on };
        struct sigaction before[N_ELEMENTS(signals)];
        int status;

        for (size_t i = 0; i < N_ELEMENTS(signals); i++)
                if (sigaction(signals[i], &action, &before[i]) < 0)
                        return fail_drop(errno, "sigaction", f);
        while (waitpid(child, &status, 0) < 0)
                if (errno != EINTR)
                        return fail_drop(errno, "waitpid", f);
        /* Its process ID may soon be that of another process. */
        for (size_t i = 0; i < N_ELEMENTS(signals); i++)
                (void)sigaction(signals[i], &before[i], NULL);
        *ret_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        return 1;
}

/* --- The child --- */

static int set_limit(__rlimit_resource_t resource, rlim_t value) {
        struct rlimit limit;

        if (getrlimit(resource, &limit) < 0)
                return -errno;
        if (limit.rlim_max > value)
                limit.rlim_max = value;
        if (limit.rlim_cur > limit.rlim_max)
                limit.rlim_cur = limit.rlim_max;
        return setrlimit(resource, &limit) < 0 ? -errno : 0;
}

static pid_t parent;

/* Prevents core dumps and debuggers, and makes the kernel kill this process with its parent. Must
 * be repeated after a change of user, which clears both settings. */
static int bind_to_parent(void) {
        if (prctl(PR_SET_DUMPABLE, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
                return -errno;
        return getppid() == parent ? 0 : -ESRCH;
}

static int begin_child(struct nb_failure *f) {
        int r = bind_to_parent();

        if (r < 0)
                return fail_drop(r, "prctl", f);
        /* A new session has no controlling terminal, so that TIOCSTI fails. */
        if (setsid() < 0)
                return fail_drop(errno, "setsid", f);
        /* Best effort: old kernels and valgrind do not have this system call. */
        (void)close_range(STDERR_FILENO + 1, UINT_MAX, 0);
        return 0;
}

int nb_privilege_split(int *ret_status, struct nb_failure *f) {
        const struct sigaction default_action = { .sa_handler = SIG_DFL };

        if (geteuid() != 0)
                return 0;
        /* If SIGCHLD is ignored, the exit status of a child is lost. */
        if (sigaction(SIGCHLD, &default_action, NULL) < 0)
                return fail_drop(errno, "sigaction", f);
        fflush(NULL);
        parent = getpid();
        child = fork();
        if (child < 0)
                return fail_drop(errno, "fork", f);
        return child == 0 ? begin_child(f) : await_child(ret_status, f);
}

int nb_privilege_keep(uint32_t capabilities) {
        struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
        struct __user_cap_data_struct old[_LINUX_CAPABILITY_U32S_3], new[_LINUX_CAPABILITY_U32S_3];

        if (syscall(SYS_capget, &header, old) < 0)
                return -errno;
        memset(new, 0, sizeof(new));
        capabilities &= old[0].permitted;
        new[0].effective = new[0].permitted = capabilities;
        /* The filter of node-bootstrap-controller.service refuses capset(2). */
        if (!memcmp(old, new, sizeof(old)))
                return 0;
        return syscall(SYS_capset, &header, new) < 0 ? -errno : 0;
}

int nb_privilege_forbid_writing(void) {
        static const struct nb_landlock_rule dev = { "/dev", NB_LANDLOCK_WRITE_FILE };
        const int version = nb_landlock_version();
        const struct nb_landlock forbidden = {
                .fs = NB_LANDLOCK_WRITE_FILE | NB_LANDLOCK_REMOVE_AND_MAKE |
                      (version >= 3 ? NB_LANDLOCK_TRUNCATE : 0),
        };

        return version <= 0 ? version : nb_landlock_restrict(&forbidden, &dev, 1);
}

/* Each process starts at another UID, so that concurrent commands rarely share one. */
static uid_t choose_user(void) {
        unsigned n = USER_MAX - USER_MIN + 1;

        for (unsigned i = 0; i < n; i++) {
                unsigned user = USER_MIN + ((unsigned)getpid() + i) % n;
                char path[sizeof(USERS_IN_USE) + 16];

                snprintf(path, sizeof(path), USERS_IN_USE, user);
                if (access(path, F_OK) < 0)
                        return (uid_t)user;
        }
        return USER_MAX;
}

/* 1; 0 if the user namespace maps only one user; -errno. */
static int change_user(uid_t user) {
        if (setresgid(user, user, user) < 0)
                return errno == EINVAL ? 0 : -errno;
        if (setgroups(0, NULL) < 0 || prctl(PR_SET_KEEPCAPS, 1) < 0 ||
            setresuid(user, user, user) < 0)
                return -errno;
        return prctl(PR_SET_KEEPCAPS, 0) < 0 ? -errno : 1;
}

int nb_privilege_reduce(struct nb_failure *f) {
        int r;

        if (geteuid() != 0)
                return 0;
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return fail_drop(errno, "no_new_privs", f);
        r = change_user(choose_user());
        if (r < 0)
                return fail_drop(r, "change of user", f);
        /* The kernel counts processes per user, so set the limit only for a UID of our own. */
        if ((r > 0 && set_limit(RLIMIT_NPROC, PROCESSES_MAX) < 0) ||
            set_limit(RLIMIT_CORE, 0) < 0 || set_limit(RLIMIT_NOFILE, DESCRIPTORS_MAX) < 0)
                return fail_drop(errno, "setrlimit", f);
        r = bind_to_parent();
        if (r >= 0)
                r = nb_privilege_keep(UINT32_C(1) << CAP_DAC_READ_SEARCH);
        return r < 0 ? fail_drop(r, "capset", f) : 0;
}

int nb_privilege_drop(struct nb_failure *f) {
        int r = nb_privilege_keep(0);

        return r < 0 ? fail_drop(r, "capset", f) : 0;
}

/* systemd has already set the groups of the unit, whose filter refuses setgroups(2). */
int nb_privilege_switch(uid_t user, gid_t group, uint32_t capabilities, struct nb_failure *f) {
        int r = 0;

        if (prctl(PR_SET_KEEPCAPS, 1) < 0 || setresgid(group, group, group) < 0 ||
            setresuid(user, user, user) < 0 || prctl(PR_SET_KEEPCAPS, 0) < 0)
                return fail_drop(errno, "change of user", f);
        r = nb_privilege_keep(capabilities);
        /* The change of user has set it. */
        if (r >= 0 && prctl(PR_SET_DUMPABLE, 0) < 0)
                r = -errno;
        return r < 0 ? fail_drop(r, "capset", f) : 0;
}
