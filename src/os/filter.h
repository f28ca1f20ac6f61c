/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* System call filters, made with libseccomp. A filter applies to all threads of this process and to
 * its children, and cannot be removed. A call by another ABI of the processor kills the process. */

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NB_FILTER_TESTS 2
#define NB_FILTER_MAX 512

/* Compares an argument: (argument & mask) == value. `mask` 0: no test. */
struct nb_filter_test {
        unsigned argument; /* 0 to 5 */
        uint64_t mask, value;
        bool is_other; /* argument != value instead; any `mask` but 0 */
};

struct nb_filter_rule {
        const char *calls; /* separated by spaces; those that the processor lacks are skipped */
        struct nb_filter_test tests[NB_FILTER_TESTS]; /* the rule applies if all of them match */
        int error; /* the call fails with this errno; 0: it is permitted */
};

/* Without pointers, so that another process can have a copy. */
struct nb_filter {
        unsigned short len;
        struct sock_filter program[NB_FILTER_MAX];
};

/* Calls that match a rule of neither list are permitted if `is_open`, where each rule has an error;
 * otherwise they fail with EPERM. 0, -errno; -EIO also if the program is too long. */
int nb_filter_compile(bool is_open, const struct nb_filter_rule *rules, size_t n,
                      const struct nb_filter_rule *more, size_t n_more, struct nb_filter *ret);

/* Needs no_new_privs. 0, -errno. */
int nb_filter_load(const struct nb_filter *filter);
