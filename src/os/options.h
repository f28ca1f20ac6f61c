/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The command line of a program: `--name value`, `--name=value`, for a name of one letter also
 * `-l value` and `-lvalue`, in any order with other words; `--` ends the options. Option names
 * cannot be abbreviated, since an abbreviation would stop working when an option is added.
 *
 * A word may be a secret in the wrong place, or a part of one that was cut anywhere: messages quote
 * no word, only the names of options that exist, and say which word it is.
 */

#include <stdbool.h>

#include "base/failure.h"
#include "os/sources.h"

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
        const char *usage; /* what --help prints after "Usage: " and before the options */
        const struct nb_option *rows; /* ends with a row without a name; NULL: none */
        const char *page;             /* the program, and its man page in section 8 */
        const char *config_directory; /* --config-directory; NULL: the program has no such option */
        bool has_config_directory;    /* --config-directory is on the command line */
        const char *value;            /* of the option, or the word itself; borrowed from argv */
        int at;                       /* index in argv of the option or word */

        int argc;
        char **argv;
        int next; /* index in argv of the next word to read */
        bool is_words_only;
        int n_pasted;  /* the first words of argv are from a pasted line ... */
        int n_skipped; /* ... from which this many words before them were dropped */
        int n_typed;   /* words of the command line before those that follow the pasted ones */
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

/* Whether the first `len` bytes of `word`, which is unknown, are more similar to `name` than to
 * what was compared before; `least` is UINT_MAX at first. */
bool nb_options_is_similar(const char *word, size_t len, const char *name, unsigned *least);

/* Says which word nb_options_next() returned last, and how long it is: "argument 2 (4 characters)",
 * "word 7 of the pasted line (16 characters)". */
#define NB_OPTIONS_PLACE_SIZE 80
const char *nb_options_place(const struct nb_options *options,
                             char ret[static NB_OPTIONS_PLACE_SIZE]);
