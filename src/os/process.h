/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Runs another program and waits for it, up to a time limit. If SIGTERM or SIGINT arrives
 * meanwhile, ends the program with its process group. The signal stays pending, so that it then
 * ends this process as well, or stops its next wait (os/stop.h). Does not wait for processes
 * that outlive the program.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/secret.h"

#define NB_PROCESS_ERROR_SIZE 256
#define NB_PROCESS_TIMEOUT_MS 60000 /* programs take a second, or several with a slow TPM */
#define NB_PROCESS_LATE 124         /* the exit status at the time limit, as with timeout(1) */

struct nb_process {
        const char *const *argv;
        const char *const *environment; /* NULL: PATH has only the system's directories, and the
                                           language is C */
        const void *input; /* passed through a pipe, since every user of the machine can read its
                              command line */
        size_t input_len;
        struct nb_secret *output; /* its standard output is appended; initialized by the caller.
                                     NULL: discarded */
        uint32_t timeout_ms;      /* 0: none. If it is interactive: from the end of its output */
        bool is_error_passed;     /* it has the standard error of this process */
        bool is_interactive; /* it has all standard streams of this process, apart from `output`,
                                and is in its process group, or it could not read from the
                                terminal */
};

struct nb_process_result {
        int status;                        /* exit status, or 128 + signal, or NB_PROCESS_LATE */
        char error[NB_PROCESS_ERROR_SIZE]; /* the last line in the first 64 KiB of its standard
                                              error; "did not finish within 60 s"; or "" */
};

/* 0 and *ret_result, whatever the exit status; -ENOENT if the program does not exist; -E2BIG if the
 * output does not fit; -ECANCELED if SIGTERM or SIGINT arrived; -errno. */
int nb_process_run(const struct nb_process *process, struct nb_process_result *ret_result);

/* Runs the function in another process of this program, without the descriptors of this one, and
 * kills that process at the timeout: only SIGKILL ends a call that waits for a dead file server. 0;
 * -ETIMEDOUT, at once if too many killed processes have not ended; -errno. */
int nb_process_try(void (*run)(void *userdata), void *userdata, int timeout_ms);

/* On some file systems, such as FUSE, a killed process ends only when the file system answers, but
 * executes nothing more. Returns how many such processes, started by this one, have not ended. */
unsigned nb_process_count_left(void);

/* How many there are now with those of earlier runs: nb_process_try() starts no other one if they
 * are too many. Otherwise, each restart of a service would add some, up to TasksMax=. */
void nb_process_note_left(unsigned n);
