/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "base/text.h"
#include "os/options.h"

#define HELP_COLUMN 34 /* where the help of an option begins */
#define WIDTH 80

enum { COMMON_CONFIG_DIRECTORY, COMMON_HELP, COMMON_LETTER, COMMON_VERSION };

static const struct nb_option common[] = {
        [COMMON_CONFIG_DIRECTORY] = { "config-directory", "DIR",
                                      "use the settings in DIR instead of " NB_CONFIG_DIRECTORY },
        [COMMON_HELP] = { "help", NULL, "show this help; also -h" },
        [COMMON_LETTER] = { "h" },
        [COMMON_VERSION] = { "version", NULL, "show the version" },
        { NULL },
};

static const struct nb_option *common_rows(const struct nb_options *options) {
        return common + (options->config_directory ? COMMON_CONFIG_DIRECTORY : COMMON_HELP);
}

const char *nb_options_place(const struct nb_options *options,
                             char ret[static NB_OPTIONS_PLACE_SIZE]) {
        const char *word = options->argv[options->at];
        bool is_pasted = options->at < options->n_pasted;

        snprintf(ret, NB_OPTIONS_PLACE_SIZE, "%s %d%s (%zu characters)",
                 is_pasted ? "word" : "argument",
                 is_pasted ? options->n_skipped + options->at + 1
                           : options->n_typed + options->at - options->n_pasted,
                 is_pasted ? " of the pasted line" : "", nb_text_count(word, strlen(word)));
        return ret;
}

/* Prints the help of a row behind its option, or below a long one. */
static void print_help(const char *option, const char *help) {
        int column = printf("      --%s", option), len;

        if (column + 2 > HELP_COLUMN)
                column = printf("\n") - 1;
        for (const char *word = help; *word; word += len + (word[len] == ' ')) {
                len = (int)strcspn(word, " ");
                if (column + 1 + len > WIDTH)
                        column = printf("\n") - 1;
                column += printf("%*s%.*s", column < HELP_COLUMN ? HELP_COLUMN - column : 1, "",
                                 len, word);
        }
        putchar('\n');
}

static void print_rows(const struct nb_option *rows) {
        for (const struct nb_option *row = rows; row && row->name; row++) {
                char text[64];

                if (!row->help)
                        continue;
                snprintf(text, sizeof(text), "%s%s%s%s", row->name,
                         row->by_default ? "[="
                         : row->value    ? "="
                                         : "",
                         row->value ? row->value : "", row->by_default ? "]" : "");
                print_help(text, row->help);
        }
}

static const struct nb_option *find_row(const struct nb_option *rows, const char *name,
                                        size_t len) {
        for (; rows && rows->name; rows++)
                if (strlen(rows->name) == len && !strncmp(rows->name, name, len))
                        return rows;
        return NULL;
}

static int take_common(struct nb_options *options, const struct nb_option *row,
                       struct nb_failure *f) {
        if (row == &common[COMMON_CONFIG_DIRECTORY]) {
                if (!options->value[0])
                        return nb_failure_set(f, NB_USAGE, 0, "'--config-directory' is empty");
                options->config_directory = options->value;
                options->has_config_directory = true;
                return nb_options_next(options, f);
        }
        if (row == &common[COMMON_VERSION]) {
                printf("%s " NB_VERSION "\n", options->page);
                return -ECANCELED;
        }
        printf("Usage: %s\n", options->usage);
        print_rows(options->rows);
        print_rows(common_rows(options));
        printf("\nSee the %s(8) man page for details.\n", options->page);
        return -ECANCELED;
}

/* The first `name_len` bytes of the word are the option's name; `value` is the rest of the same
 * word, or NULL. */
static int take_value(struct nb_options *options, const struct nb_option *row, int name_len,
                      const char *value, struct nb_failure *f) {
        const char *word = options->argv[options->at];

        if (!row->value) {
                if (value && strcmp(value, "true") != 0 && strcmp(value, "false") != 0)
                        return nb_failure_set(f, NB_USAGE, 0, "'%.*s' accepts only true or false",
                                              name_len, word);
                value = value ? value : "true";
        } else if (!value && row->by_default) {
                value = row->by_default;
        } else if (!value) {
                if (options->next >= options->argc ||
                    !strncmp(options->argv[options->next], "--", 2))
                        return nb_failure_set(f, NB_USAGE, 0, "'%.*s' requires %s", name_len, word,
                                              row->value);
                value = options->argv[options->next++];
        }
        options->value = value;
        return 0;
}

/* "--tokenVALUE", "--token:VALUE": the option with the longest name that the word begins with. */
static const struct nb_option *find_beginning(const struct nb_option *rows, const char *word) {
        const struct nb_option *found = NULL;

        for (; rows && rows->name; rows++)
                if (rows->name[1] && !strncmp(word, "--", 2) &&
                    !strncmp(word + 2, rows->name, strlen(rows->name)) &&
                    (!found || strlen(rows->name) > strlen(found->name)))
                        found = rows;
        return found;
}

bool nb_options_is_similar(const char *word, size_t len, const char *name, unsigned *least) {
        const unsigned distance = len <= NB_TEXT_DISTANCE_MAX
                                          ? nb_text_measure_distance(name, word, len)
                                          : UINT_MAX;

        if (distance > strlen(name) / 3 || distance >= *least)
                return false;
        *least = distance;
        return true;
}

static int refuse_option(const struct nb_options *options, const char *word, struct nb_failure *f) {
        const struct nb_option *const tables[] = { options->rows, common_rows(options) };
        const struct nb_option *known = NULL;
        const char *similar = NULL, *name = word + strspn(word, "-");
        char place[NB_OPTIONS_PLACE_SIZE];
        unsigned least = UINT_MAX;
        int r;

        for (size_t i = 0; i < N_ELEMENTS(tables); i++) {
                known = known ? known : find_beginning(tables[i], word);
                for (const struct nb_option *row = tables[i]; row && row->name; row++)
                        if (row->help &&
                            nb_options_is_similar(name, strcspn(name, "="), row->name, &least))
                                similar = row->name;
        }
        r = nb_failure_set(f, NB_USAGE, 0, "unknown option: %s", nb_options_place(options, place));
        if (known)
                nb_failure_add(f, " begins with '--%s'%s", known->name,
                               known->value ? "; put a blank or '=' before the value" : "");
        else if (similar)
                nb_failure_add(f, "; did you mean '--%s'?", similar);
        return r;
}

static int take_option(struct nb_options *options, const char *word, struct nb_failure *f) {
        const char *name = word + 1 + (word[1] == '-'), *value;
        size_t len = name == word + 1 ? 1 : strcspn(name, "=");
        const struct nb_option *row, *own;
        int r;

        value = name[len] ? name + len + (name[len] == '=') : NULL;
        own = find_row(options->rows, name, len);
        row = own ? own : find_row(common_rows(options), name, len);
        if (!row)
                return refuse_option(options, word, f);
        r = take_value(options, row, (int)(name - word + (ptrdiff_t)len), value, f);
        if (r < 0)
                return r;
        return own ? (int)(own - options->rows) : take_common(options, row, f);
}

int nb_options_next(struct nb_options *options, struct nb_failure *f) {
        const char *word;

        if (options->next >= options->argc)
                return NB_OPTIONS_END;
        options->at = options->next++;
        word = options->argv[options->at];
        if (!options->is_words_only && !strcmp(word, "--")) {
                options->is_words_only = true;
                return nb_options_next(options, f);
        }
        if (!options->is_words_only && word[0] == '-' && word[1] != '\0')
                return take_option(options, word, f);
        options->value = word;
        return NB_OPTIONS_WORD;
}

void nb_options_store(const struct nb_options *options, int row) {
        const struct nb_option *option = &options->rows[row];

        if (option->ret_switch)
                *option->ret_switch = !strcmp(options->value, "true");
        else
                *option->ret_value = options->value;
}

int nb_options_read(struct nb_options *options, const struct nb_option *rows,
                    struct nb_failure *f) {
        char place[NB_OPTIONS_PLACE_SIZE];
        int row;

        options->rows = rows;
        while ((row = nb_options_next(options, f)) >= 0 && row < NB_OPTIONS_END)
                nb_options_store(options, row);
        options->rows = NULL;
        if (row == NB_OPTIONS_WORD)
                return nb_failure_set(f, NB_USAGE, 0, "unexpected: %s",
                                      nb_options_place(options, place));
        return row < 0 ? row : 0;
}
