/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "base/macro.h"
#include "install/confine.h"
#include "os/filter.h"
#include "os/privilege.h"

/* The leak check of AddressSanitizer runs in another process, which traces this one. */
#if defined(__SANITIZE_ADDRESS__)
#define MAY_FORK 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MAY_FORK 1
#endif
#endif

static const struct nb_filter_rule denied[] = {
        { .calls = "setuid setuid32 setgid setgid32 setreuid setreuid32 setregid setregid32 "
                   "setresuid setresuid32 setresgid setresgid32 setfsuid setfsuid32 setfsgid "
                   "setfsgid32 setgroups setgroups32 capset execve execveat",
          .error = EPERM },
        /* seccomp does not filter requests in an io_uring. */
        { .calls = "io_uring_setup", .error = EPERM },
/* On s390x and i386, the C library may open every socket by socketcall(2). A filter cannot see the
 * address family there; neither can RestrictAddressFamilies= of the unit. */
#if !defined(__s390x__) && !defined(__i386__)
        { .calls = "socketcall", .error = EPERM },
        { .calls = "socket socketpair",
          .tests = { { 0, UINT64_MAX, AF_UNIX, .is_other = true } },
          .error = EPERM },
#endif
#ifndef MAY_FORK
        { .calls = "ptrace clone clone3 fork vfork", .error = EPERM },
#endif
};

static int set_filter(void) {
        struct nb_filter filter;
        int r = nb_filter_compile(true, denied, N_ELEMENTS(denied), NULL, 0, &filter);

        return r < 0 ? r : nb_filter_load(&filter);
}

int nb_confine(struct nb_failure *f) {
        const char *what = "capabilities";
        int r = nb_privilege_keep(UINT32_C(1) << CAP_DAC_OVERRIDE);

        if (r >= 0) {
                what = "system calls";
                r = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : set_filter();
        }
        return r < 0 ? nb_failure_set(f, NB_INTERNAL, r, "cannot restrict %s: %m", what) : 0;
}
