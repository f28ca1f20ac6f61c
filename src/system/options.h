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
#include "system/sources.h"

struct nb_option {
        const char *name;       /* "timeout" */
        const char *value;      /* placeholder for --help: "DURATION"; NULL: the option is a switch,
                                   which also takes =true and =false */
        const char *help;       /* NULL: accepted, but not listed by --help */
        const char *by_default; /* used if there is no =VALUE; NULL: the value is required */
        bool *ret_switch;       /* set by nb_options_store() for a switch */
        const char **ret_value; /* set by nb_options_store() for a value; borrowed from argv */
};

struct nb_options {
        const char *usage;            /* what --help prints before the options */
        const struct nb_option *rows; /* ends with a row without a name; NULL: none */
        const char *page;             /* the man page that --help names, in section 8 */
        const char *config_directory; /* --config-directory; NULL: the program has no such option */
        bool has_config_directory;    /* --config-directory is on the command line */
        const char *value;            /* of the option, or the word itself; borrowed from argv */
        int at;                       /* index in argv of the option or word */

        int argc;
        char **argv;
        int next; /* index in argv of the next word to read */
        bool is_words_only;
};

#define NB_OPTIONS_INIT(command_line, n_words, words) \
        { \
                .usage = (command_line), .page = "node-bootstrap", \
                .config_directory = NB_CONFIG_DIRECTORY, .argc = (n_words), .argv = (words), \
                .next = 1 \
        }

/* Larger than any row index. */
enum { NB_OPTIONS_END = 1000, NB_OPTIONS_WORD };

/* Returns the index of the next option's row, NB_OPTIONS_WORD for a word that is not an option, or
 * NB_OPTIONS_END. Negative: NB_USAGE; -ECANCELED without a failure after --help or --version. */
int nb_options_next(struct nb_options *options, struct nb_failure *f);

/* Stores the value of the option in the `ret_` member of its row, whose index nb_options_next()
 * returned. */
void nb_options_store(const struct nb_options *options, int row);

/* Reads all options into the `ret_` members of `rows`. 0; negative as for nb_options_next(), also
 * if a word is not an option. */
int nb_options_read(struct nb_options *options, const struct nb_option *rows, struct nb_failure *f);

/* Formats a word for a message: in quotes, or only its length if it could be a secret. */
#define NB_WORD_QUOTED_SIZE 64
const char *nb_word_quote(const char *word, char ret[static NB_WORD_QUOTED_SIZE]);
