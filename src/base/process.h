/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Another program, run to its end: what it is told goes through a pipe, since its command line can be read by every user of
 * the machine. It gets a PATH of the system's own folders and of the environment what says how to reach systemd; no
 * terminal, and signals as they are by default.
 */

#include <stddef.h>

#include "base/secret.h"

#define NB_PROCESS_ERROR_SIZE 256

struct nb_process_result {
        int status;                        /* exit status, or 128 + signal */
        char error[NB_PROCESS_ERROR_SIZE]; /* the last line that it wrote to standard error, or "" */
};

/*
 * Output goes into `output`, which has been made with room for it (NULL: dropped). 0 with *ret_result, whatever the program
 * says; -ENOENT when there is no such program; -E2BIG when it says more than there is room for; -errno.
 */
int nb_process_run(const char *const argv[], const void *input, size_t input_len, struct nb_secret *output,
                   struct nb_process_result *ret_result);

/* Runs a program with the streams and the environment of this one, and waits. 0 with its exit status, or 128 + signal; -errno. */
int nb_process_pass(const char *const argv[], int *ret_status);
