/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The command line of a program: `--name value`, `--name=value`, for a name of one letter also
 * `-l value` and `-lvalue`, in any order with other words; `--` ends the options. Option names
 * cannot be abbreviated, since an abbreviation would stop working when an option is added.
 *
 * A word may be a secret in the wrong place, so messages quote only names of options and short
 * plain words.
 */

#include <stdbool.h>

#include "base/failure.h"
#include "base/sources.h"

struct nb_option {
        const char *name;       /* "timeout" */
        const char *value;      /* placeholder for --help: "DURATION"; NULL: the option is a switch,
                                   which also takes =true and =false */
        const char *help;       /* NULL: accepted, but not listed by --help */
        int kind, target;       /* for callers of nb_options_next() */
        const char *by_default; /* used if there is no =VALUE; NULL: the value is required */
        bool *ret_switch;       /* what nb_options_read() sets: a switch, */
        const char **ret_value; /* or a value, borrowed from argv */
};

struct nb_options {
        const char *usage;            /* what --help prints before the options */
        const struct nb_option *rows; /* up to one without a name; NULL: none */
        const char *config_directory; /* --config-directory, which all programs have */
        bool has_config_directory;    /* it is on the command line */
        const char *value;            /* of the option, or the word; borrowed from argv */
        int at;                       /* its index in argv */

        int argc;
        char **argv;
        int next; /* index in argv */
        bool is_words_only;
};

#define NB_OPTIONS_INIT(command_line, n_words, words) \
        { \
                .usage = (command_line), .config_directory = NB_CONFIG_DIRECTORY, \
                .argc = (n_words), .argv = (words), .next = 1 \
        }

/* Behind all rows. */
enum { NB_OPTIONS_END = 1000, NB_OPTIONS_WORD };

/* The row of the next option, or one of the above. Negative: NB_USAGE; -ECANCELED without a failure
 * if only --help or --version is wanted. */
int nb_options_next(struct nb_options *options, struct nb_failure *f);

/* Reads all of them into the `ret_` members of `rows`. 0; negative as nb_options_next(), also for a
 * word that is no option. */
int nb_options_read(struct nb_options *options, const struct nb_option *rows, struct nb_failure *f);

/* A word for a message: in quotes, or only its length if it could be a secret. */
#define NB_WORD_QUOTED_SIZE 64
const char *nb_word_quote(const char *word, char ret[static NB_WORD_QUOTED_SIZE]);
