/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The command line: `--name value`, `--name=value`, `-l value`, `-lvalue`, in any order with other
 * words; `--` ends the options. Option names cannot be abbreviated, since an abbreviation would
 * stop working when an option is added.
 *
 * A word may be a secret in the wrong place, so messages quote only names of options and short
 * plain words.
 */

#include <stdbool.h>

struct nb_option {
        const char *name;       /* "timeout" */
        const char *value;      /* placeholder for --help: "DURATION"; NULL: the option is a switch,
                                   which also takes =true and =false */
        const char *help;       /* NULL: accepted, but not listed by --help */
        char letter;            /* short form; '\0': none */
        const char *by_default; /* used if there is no =VALUE; NULL: the value is required */
        bool *ret_switch;       /* what nb_options_read() sets: a switch, */
        const char **ret_value; /* or a value, borrowed from argv */
        int kind, target;       /* for callers of nb_options_next() */
};

struct nb_options {
        /* Set by the caller. */
        const char *command;          /* NULL: the program itself */
        const char *words;            /* other words, for the usage line; NULL: none */
        const char *summary;          /* for --help */
        const struct nb_option *rows; /* up to one without a name; NULL: none */
        int argc;
        char **argv; /* argv[0] is skipped */

        /* Results. */
        const char *config_directory; /* --config-directory, which all commands have */
        bool has_config_directory;    /* it is on the command line */
        const char *value;            /* of the option, or the word; borrowed from argv */
        int at;                       /* its index in argv */
        int status;                   /* exit status after NB_OPTIONS_STOP */

        int next; /* index in argv; 0 before the first call */
        bool is_words_only;
};

enum {
        NB_OPTIONS_END = -1,
        NB_OPTIONS_WORD = -2,
        NB_OPTIONS_STOP = -3, /* help or a failure was printed: exit with .status */
};

/* The row of the next option, or one of the above. */
int nb_options_next(struct nb_options *options);

/* Reads all of them into their `ret_` members. NB_OPTIONS_END, or NB_OPTIONS_STOP, also for a word
 * that is no option. */
int nb_options_read(struct nb_options *options);

/* Prints NB_USAGE; returns NB_OPTIONS_STOP. */
int nb_options_fail(struct nb_options *options, const char *format, ...)
        __attribute__((format(printf, 2, 3)));

/* A word for a message: in quotes, or only its length if it could be a secret. */
#define NB_WORD_QUOTED_SIZE 64
const char *nb_word_quote(const char *word, char ret[static NB_WORD_QUOTED_SIZE]);

/* The commands. argv[0] is the name of the command; each returns the exit status of the program. */
int nb_command_check(int argc, char **argv);
int nb_command_explain(int argc, char **argv);
int nb_command_join(int argc, char **argv);
int nb_command_refresh(int argc, char **argv);
int nb_command_reset(int argc, char **argv);
int nb_command_setup(int argc, char **argv);
int nb_command_status(int argc, char **argv);
