/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/macro.h"
#include "base/sources.h"
#include "cli/options.h"

#define WORD_QUOTED_MAX 22 /* a bootstrap token has 23 */

enum { COMMON_CONFIG_DIRECTORY, COMMON_HELP, COMMON_VERSION };

static const struct nb_option common[] = {
        [COMMON_CONFIG_DIRECTORY] = { "config-directory", "DIR",
                                      "use the settings in DIR instead of " NB_CONFIG_DIRECTORY },
        [COMMON_HELP] = { "help", NULL, "show this help", .letter = 'h' },
        [COMMON_VERSION] = { "version", NULL, "show the version" },
        { NULL },
};

const char *nb_word_quote(const char *word, char ret[static NB_WORD_QUOTED_SIZE]) {
        size_t len = strlen(word);

        if (len <= WORD_QUOTED_MAX && !strpbrk(word, ".:"))
                snprintf(ret, NB_WORD_QUOTED_SIZE, "'%s'", word);
        else
                snprintf(ret, NB_WORD_QUOTED_SIZE, "of %zu bytes", len);
        return ret;
}

int nb_options_fail(struct nb_options *options, const char *format, ...) {
        struct nb_failure f = { 0 };
        char detail[NB_FAILURE_DETAIL_MAX];
        va_list arguments;

        va_start(arguments, format);
        vsnprintf(detail, sizeof(detail), format, arguments);
        va_end(arguments);
        (void)nb_failure_set(&f, NB_USAGE, 0, "%s; see `node-bootstrap %s%s--help`", detail,
                             options->command ? options->command : "", options->command ? " " : "");
        nb_log_failure(LOG_ERR, &f);
        options->status = nb_failure_info(NB_USAGE)->exit_status;
        return NB_OPTIONS_STOP;
}

static void print_rows(const struct nb_option *rows) {
        for (const struct nb_option *row = rows; row && row->name; row++) {
                char text[64];

                if (!row->help)
                        continue;
                snprintf(text, sizeof(text), "--%s%s%s%s", row->name,
                         row->by_default ? "[="
                         : row->value    ? "="
                                         : "",
                         row->value ? row->value : "", row->by_default ? "]" : "");
                printf("  %c%c%c %-32s %s\n", row->letter ? '-' : ' ',
                       row->letter ? row->letter : ' ', row->letter ? ',' : ' ', text, row->help);
        }
}

static int show_help(struct nb_options *options) {
        printf("node-bootstrap %s%s[OPTION...]%s%s\n\n%s\n\n",
               options->command ? options->command : "", options->command ? " " : "",
               options->words ? " " : "", options->words ? options->words : "", options->summary);
        print_rows(options->rows);
        print_rows(common);
        printf("\nSee the node-bootstrap(8) man page for details.\n");
        options->status = 0;
        return NB_OPTIONS_STOP;
}

static const struct nb_option *find_row(const struct nb_option *rows, const char *name, size_t len,
                                        char letter) {
        for (; rows && rows->name; rows++)
                if (letter ? rows->letter == letter
                           : strlen(rows->name) == len && !strncmp(rows->name, name, len))
                        return rows;
        return NULL;
}

static int take_common(struct nb_options *options, const struct nb_option *row) {
        if (row == &common[COMMON_HELP])
                return show_help(options);
        if (row == &common[COMMON_VERSION]) {
                printf("node-bootstrap " NB_VERSION "\n");
                options->status = 0;
                return NB_OPTIONS_STOP;
        }
        if (!options->value[0])
                return nb_options_fail(options, "'--config-directory' is empty");
        options->config_directory = options->value;
        options->has_config_directory = true;
        return nb_options_next(options);
}

/* The first `name_len` bytes of the word name the option; `value` follows them in the same word, or
 * is NULL. */
static int take_value(struct nb_options *options, const struct nb_option *row, int name_len,
                      const char *value) {
        const char *word = options->argv[options->at];

        if (!row->value) {
                if (value && strcmp(value, "true") != 0 && strcmp(value, "false") != 0)
                        return nb_options_fail(options, "'%.*s' accepts only true or false",
                                               name_len, word);
                value = value ? value : "true";
        } else if (!value && row->by_default) {
                value = row->by_default;
        } else if (!value) {
                if (options->next >= options->argc ||
                    !strncmp(options->argv[options->next], "--", 2))
                        return nb_options_fail(options, "'%.*s' requires %s", name_len, word,
                                               row->value);
                value = options->argv[options->next++];
        }
        options->value = value;
        return 0;
}

static int take_option(struct nb_options *options, const char *word) {
        const char *equals = strchr(word, '='), *value = equals ? equals + 1 : NULL;
        size_t name_len = equals ? (size_t)(equals - word) : strlen(word);
        const struct nb_option *row;
        char letter = '\0';
        bool is_own;

        if (word[1] != '-') {
                letter = word[1];
                name_len = 2;
                value = word[2] ? word + 2 + (word[2] == '=') : NULL;
        }
        row = find_row(options->rows, word + 2, name_len - 2, letter);
        is_own = row;
        if (!row)
                row = find_row(common, word + 2, name_len - 2, letter);
        if (!row)
                return nb_options_fail(options, "unknown option '%.*s'",
                                       name_len > 64 ? 64 : (int)name_len, word);
        if (take_value(options, row, (int)name_len, value) < 0)
                return NB_OPTIONS_STOP;
        return is_own ? (int)(row - options->rows) : take_common(options, row);
}

int nb_options_next(struct nb_options *options) {
        const char *word;

        if (options->next == 0) {
                options->next = 1;
                options->config_directory = NB_CONFIG_DIRECTORY;
        }
        if (options->next >= options->argc)
                return NB_OPTIONS_END;
        options->at = options->next++;
        word = options->argv[options->at];
        if (!options->is_words_only && !strcmp(word, "--")) {
                options->is_words_only = true;
                return nb_options_next(options);
        }
        if (!options->is_words_only && word[0] == '-' && word[1] != '\0')
                return take_option(options, word);
        options->value = word;
        return NB_OPTIONS_WORD;
}

int nb_options_read(struct nb_options *options) {
        char quoted[NB_WORD_QUOTED_SIZE];
        int row;

        while ((row = nb_options_next(options)) >= 0) {
                const struct nb_option *option = &options->rows[row];

                if (option->ret_switch)
                        *option->ret_switch = !strcmp(options->value, "true");
                else
                        *option->ret_value = options->value;
        }
        if (row == NB_OPTIONS_WORD)
                return nb_options_fail(options, "unexpected argument %s",
                                       nb_word_quote(options->value, quoted));
        return row;
}
