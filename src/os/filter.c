/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "os/filter.h"

#define NAME_MAX_LEN 32

static void release_context(scmp_filter_ctx *context) {
        if (*context)
                seccomp_release(*context);
}

static int add_rule(scmp_filter_ctx context, const struct nb_filter_rule *rule, const char *name) {
        struct scmp_arg_cmp tests[NB_FILTER_TESTS];
        int number = seccomp_syscall_resolve_name(name);
        unsigned n = 0;

        for (; n < NB_FILTER_TESTS && rule->tests[n].mask != 0; n++) {
                const struct nb_filter_test *test = &rule->tests[n];

                tests[n] = test->is_other ? SCMP_CMP64(test->argument, SCMP_CMP_NE, test->value)
                                          : SCMP_CMP64(test->argument, SCMP_CMP_MASKED_EQ,
                                                       test->mask, test->value);
        }
        if (number == __NR_SCMP_ERROR)
                return 0;
        return seccomp_rule_add_array(
                context, rule->error > 0 ? SCMP_ACT_ERRNO((unsigned)rule->error) : SCMP_ACT_ALLOW,
                number, n, tests);
}

static int add_rules(scmp_filter_ctx context, const struct nb_filter_rule *rule) {
        const char *at = rule->calls;

        while (*at) {
                size_t len = strcspn(at, " ");
                char name[NAME_MAX_LEN];
                int r;

                if (len >= sizeof(name))
                        return -EINVAL;
                memcpy(name, at, len);
                name[len] = '\0';
                r = add_rule(context, rule, name);
                if (r < 0)
                        return r;
                at += len + (at[len] == ' ');
        }
        return 0;
}

/* Before version 2.6, libseccomp can write the program only to a file. */
static int read_program(scmp_filter_ctx context, struct nb_filter *ret) {
        _cleanup_(nb_closep) int fd = nb_memory_file_open("filter");
        off_t size;
        int r;

        if (fd < 0)
                return fd;
        r = seccomp_export_bpf(context, fd);
        if (r < 0)
                return r;
        size = lseek(fd, 0, SEEK_END);
        if (size <= 0 || (size_t)size > sizeof(ret->program) ||
            pread(fd, ret->program, (size_t)size, 0) != size)
                return -EIO;
        ret->len = (unsigned short)((size_t)size / sizeof(ret->program[0]));
        return 0;
}

int nb_filter_compile(bool is_open, const struct nb_filter_rule *rules, size_t n,
                      const struct nb_filter_rule *more, size_t n_more, struct nb_filter *ret) {
        _cleanup_(release_context) scmp_filter_ctx context = seccomp_init(
                is_open ? SCMP_ACT_ALLOW : SCMP_ACT_ERRNO(EPERM));
        int r = context ? seccomp_attr_set(context, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS)
                        : -ENOMEM;

        for (size_t i = 0; i < n + n_more && r >= 0; i++)
                r = add_rules(context, i < n ? &rules[i] : &more[i - n]);
        return r < 0 ? r : read_program(context, ret);
}

int nb_filter_load(const struct nb_filter *filter) {
        const struct sock_fprog program = {
                .len = filter->len,
                .filter = (struct sock_filter *)(uintptr_t)filter->program,
        };
        long r = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);

        /* A positive value is the ID of a thread that could not take over the filter. */
        return r < 0 ? -errno : r > 0 ? -EBUSY : 0;
}
