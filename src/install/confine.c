/* SPDX-License-Identifier: Apache-2.0 */
#include <endian.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/macro.h"
#include "install/confine.h"
#include "system/privilege.h"

#if defined(__x86_64__) && !defined(__ILP32__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#elif defined(__riscv) && __riscv_xlen == 64
#define ARCHITECTURE AUDIT_ARCH_RISCV64
#elif defined(__powerpc64__) && __BYTE_ORDER == __LITTLE_ENDIAN
#define ARCHITECTURE AUDIT_ARCH_PPC64LE
#elif defined(__s390x__)
#define ARCHITECTURE AUDIT_ARCH_S390X
#elif defined(__arm__)
#define ARCHITECTURE AUDIT_ARCH_ARM
#else
#error "add the AUDIT_ARCH_ of this architecture: without it, install would have no filter"
#endif

/* The leak check of AddressSanitizer runs in another process, which traces this one. */
#if defined(__SANITIZE_ADDRESS__)
#define MAY_FORK 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MAY_FORK 1
#endif
#endif

static const unsigned denied[] = {
        SYS_setuid,
        SYS_setgid,
        SYS_setreuid,
        SYS_setregid,
        SYS_setresuid,
        SYS_setresgid,
        SYS_setfsuid,
        SYS_setfsgid,
        SYS_setgroups,
#ifdef SYS_setuid32
        SYS_setuid32,
        SYS_setgid32,
        SYS_setreuid32,
        SYS_setregid32,
        SYS_setresuid32,
        SYS_setresgid32,
        SYS_setfsuid32,
        SYS_setfsgid32,
        SYS_setgroups32,
#endif
        SYS_capset,
        SYS_execve,
        SYS_execveat,
        /* seccomp does not filter requests in an io_uring. */
        SYS_io_uring_setup,
/* On s390x, the C library may open every socket by socketcall(2). A filter cannot see the address
 * family there; neither can RestrictAddressFamilies= of the unit. */
#if defined(SYS_socketcall) && !defined(__s390x__)
        SYS_socketcall,
#endif
#ifndef MAY_FORK
        SYS_ptrace,
        SYS_clone,
        SYS_clone3,
#ifdef SYS_fork
        SYS_fork,
        SYS_vfork,
#endif
#endif
};

#define LOAD(member) \
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (__u32)offsetof(struct seccomp_data, member))
#define SKIP_UNLESS_EQUAL(value, n) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, n)
#define SKIP_IF_EQUAL(value, n) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, n, 0)
#define RETURN(action) BPF_STMT(BPF_RET | BPF_K, action)
#define REFUSE RETURN(SECCOMP_RET_ERRNO | EPERM)

/* The kernel takes an int: the low half of the argument. */
#define DOMAIN_OFFSET \
        ((__u32)offsetof(struct seccomp_data, args[0]) + (__BYTE_ORDER == __BIG_ENDIAN ? 4 : 0))

static int set_filter(void) {
        static const struct sock_filter begin[] = {
                LOAD(arch),
                SKIP_IF_EQUAL(ARCHITECTURE, 1),
                RETURN(SECCOMP_RET_KILL_PROCESS),
                LOAD(nr),
#ifdef __x86_64__
                /* System calls of the x32 ABI have this bit, and report the same architecture. */
                BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x40000000, 0, 1),
                REFUSE,
#endif
                SKIP_IF_EQUAL(SYS_socket, 1),
                SKIP_UNLESS_EQUAL(SYS_socketpair, 4),
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, DOMAIN_OFFSET),
                SKIP_UNLESS_EQUAL(AF_UNIX, 1),
                RETURN(SECCOMP_RET_ALLOW),
                REFUSE,
        };
        struct sock_filter filter[N_ELEMENTS(begin) + 2 * N_ELEMENTS(denied) + 1];
        struct sock_fprog program = { .len = N_ELEMENTS(filter), .filter = filter };
        struct sock_filter *at = filter + N_ELEMENTS(begin);

        memcpy(filter, begin, sizeof(begin));
        for (size_t i = 0; i < N_ELEMENTS(denied); i++) {
                *at++ = (struct sock_filter)SKIP_UNLESS_EQUAL(denied[i], 1);
                *at++ = (struct sock_filter)REFUSE;
        }
        *at = (struct sock_filter)RETURN(SECCOMP_RET_ALLOW);
        return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0 ? -errno : 0;
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
