/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "system/options.h"

#define WORD_QUOTED_MAX 22 /* a bootstrap token has 23 */

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

const char *nb_word_quote(const char *word, char ret[static NB_WORD_QUOTED_SIZE]) {
        size_t len = strlen(word);

        if (len <= WORD_QUOTED_MAX && !strpbrk(word, ".:"))
                snprintf(ret, NB_WORD_QUOTED_SIZE, "'%s'", word);
        else
                snprintf(ret, NB_WORD_QUOTED_SIZE, "of %zu bytes", len);
        return ret;
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
                printf("      --%-32s %s\n", text, row->help);
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
                printf("node-bootstrap " NB_VERSION "\n");
                return -ECANCELED;
        }
        printf("%s\n", options->usage);
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

static int take_option(struct nb_options *options, const char *word, struct nb_failure *f) {
        const char *name = word + 1 + (word[1] == '-'), *value;
        size_t len = name == word + 1 ? 1 : strcspn(name, "=");
        int word_len = (int)(name - word + (ptrdiff_t)len), r;
        const struct nb_option *row, *own;

        value = name[len] ? name + len + (name[len] == '=') : NULL;
        own = find_row(options->rows, name, len);
        row = own ? own : find_row(common_rows(options), name, len);
        if (!row)
                return nb_failure_set(f, NB_USAGE, 0, "unknown option '%.*s'",
                                      word_len > 64 ? 64 : word_len, word);
        r = take_value(options, row, word_len, value, f);
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
        char quoted[NB_WORD_QUOTED_SIZE];
        int row;

        options->rows = rows;
        while ((row = nb_options_next(options, f)) >= 0 && row < NB_OPTIONS_END)
                nb_options_store(options, row);
        options->rows = NULL;
        if (row == NB_OPTIONS_WORD)
                return nb_failure_set(f, NB_USAGE, 0, "unexpected argument %s",
                                      nb_word_quote(options->value, quoted));
        return row < 0 ? row : 0;
}
