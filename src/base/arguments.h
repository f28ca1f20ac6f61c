/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The command line of a program that is not for use by hand: "--name" and "--name=VALUE". */

#include <stdbool.h>

#include "base/failure.h"

struct nb_argument {
        const char *name;       /* "--root"; NULL ends the rows */
        bool *ret_is_set;       /* NULL: with a value */
        const char **ret_value; /* borrowed from argv */
};

/* Answers --help and --version as well. 1; 0: the answer is printed. NB_USAGE. */
int nb_arguments_read(char *argv[], const struct nb_argument *rows, const char *help,
                      struct nb_failure *f);
