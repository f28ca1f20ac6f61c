/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The command line of a verb, word by word: `--name value`, `--name=value`, `-l value`, `-lvalue`, in any order with words
 * that are no options; `--` ends the options. No abbreviations: one would be another option after an update.
 *
 * What was typed may be a secret in the wrong place, so that a failure quotes the names of options and short plain words,
 * never a value.
 */

#include <stdbool.h>

struct nb_option {
        const char *name;  /* "timeout" */
        const char *value; /* what it takes, as help shows it: "DURATION"; NULL: nothing, or =true and =false */
        const char *help;  /* NULL: taken, but not shown */
        char letter;       /* of the short form; '\0': there is none */
};

struct nb_options {
        /* What is given. */
        const char *verb;             /* NULL: the program before its verb */
        const char *words;            /* what follows the options in the usage line; NULL: nothing may */
        const char *summary;          /* for --help: sentences */
        const struct nb_option *rows; /* its own, up to one without a name; NULL for none */
        int argc;
        char **argv; /* argv[0] is passed over */

        /* What was found. */
        const char *config_directory; /* --config-directory, which all verbs take; else NB_CONFIG_DIRECTORY */
        bool has_config_directory;    /* it was given */
        const char *value;            /* of the option, or the word; points into argv */
        int at;                       /* where in argv it begins */
        int status;                   /* exit status after NB_OPTIONS_STOP */

        int next; /* of argv; 0 before the first call */
        bool is_words_only;
};

enum {
        NB_OPTIONS_END = -1,
        NB_OPTIONS_WORD = -2,
        NB_OPTIONS_STOP = -3, /* help was shown, or a failure told: the program ends with .status */
};

/* The row of the next option, or one of the above. */
int nb_options_next(struct nb_options *options);

/* For a verb that has neither words nor options of its own: NB_OPTIONS_END or NB_OPTIONS_STOP. */
int nb_options_none(struct nb_options *options);

/* Tells of NB_USAGE; returns NB_OPTIONS_STOP. */
int nb_options_fail(struct nb_options *options, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A word for a message: itself in quotes, or its length only where it could be a secret. */
#define NB_WORD_QUOTED_SIZE 64
const char *nb_word_quote(const char *word, char ret[static NB_WORD_QUOTED_SIZE]);
