/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Runs another program and waits for it. Its input is passed through a pipe, since every user of
 * the machine can read its command line. It does not inherit the environment: PATH has only the
 * system's directories. It runs in its own process group with default signal handlers. */

#include <stddef.h>

#include "base/secret.h"

#define NB_PROCESS_ERROR_SIZE 256

struct nb_process_result {
        int status;                        /* exit status, or 128 + signal */
        char error[NB_PROCESS_ERROR_SIZE]; /* the last line in the first 64 KiB of its standard
                                              error, or "" */
};

/* Appends the program's standard output to `output`, which the caller has initialized (NULL:
 * discarded). 0 and *ret_result, whatever the exit status; -ENOENT if the program does not exist;
 * -E2BIG if the output does not fit; -errno. */
int nb_process_run(const char *const argv[], const void *input, size_t input_len,
                   struct nb_secret *output, struct nb_process_result *ret_result);

/* Runs a program with the standard streams and the environment of this process, and waits for it.
 * 0, and *ret_status is its exit status, or 128 + signal; -errno. */
int nb_process_pass(const char *const argv[], int *ret_status);
