/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/macro.h"
#include "os/landlock.h"

#define RULESET_VERSION 1
#define RULE_PATH_BENEATH 1

/* 0 if the kernel has no Landlock; -errno. */
static int refusal(void) {
        return errno == ENOSYS || errno == EOPNOTSUPP ? 0 : -errno;
}

int nb_landlock_version(void) {
        long r = syscall(SYS_landlock_create_ruleset, NULL, 0, RULESET_VERSION);

        return r > 0 ? (int)r : refusal();
}

static int permit_access(int ruleset_fd, const struct nb_landlock_rule *rule) {
        _cleanup_(nb_closep) int fd = open(rule->path, O_PATH | O_CLOEXEC);
        const struct {
                uint64_t allowed;
                int32_t fd;
        } __attribute__((packed)) path_rule = { rule->fs, fd };

        if (fd < 0)
                return 0;
        return syscall(SYS_landlock_add_rule, ruleset_fd, RULE_PATH_BENEATH, &path_rule, 0) < 0
                       ? -errno
                       : 0;
}

int nb_landlock_restrict(const struct nb_landlock *forbidden, const struct nb_landlock_rule *rules,
                         size_t n) {
        /* An older kernel accepts a larger struct if the rest is zero. */
        _cleanup_(nb_closep) int fd = (int)syscall(SYS_landlock_create_ruleset, forbidden,
                                                   sizeof(*forbidden), 0);
        int r = 0;

        if (fd < 0)
                return refusal();
        for (size_t i = 0; i < n && r >= 0; i++)
                r = permit_access(fd, &rules[i]);
        if (r < 0)
                return r;
        return syscall(SYS_landlock_restrict_self, fd, 0) < 0 ? -errno : 1;
}
