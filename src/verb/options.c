/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/macro.h"
#include "base/sources.h"
#include "verb/options.h"

#define WORD_QUOTED_MAX 22 /* a bootstrap token has 23 */

enum { COMMON_CONFIG_DIRECTORY,
       COMMON_HELP,
       COMMON_VERSION };

static const struct nb_option common[] = {
        [COMMON_CONFIG_DIRECTORY] = { "config-directory", "DIR", "settings, instead of " NB_CONFIG_DIRECTORY, '\0' },
        [COMMON_HELP] = { "help", NULL, "show this", 'h' },
        [COMMON_VERSION] = { "version", NULL, "show the version", '\0' },
        { NULL },
};

const char *nb_word_quote(const char *word, char ret[static NB_WORD_QUOTED_SIZE]) {
        size_t len = strlen(word);

        if (len <= WORD_QUOTED_MAX && !strpbrk(word, ".:"))
                (void)snprintf(ret, NB_WORD_QUOTED_SIZE, "'%s'", word);
        else
                (void)snprintf(ret, NB_WORD_QUOTED_SIZE, "a word of %zu bytes", len);
        return ret;
}

int nb_options_fail(struct nb_options *options, const char *format, ...) {
        struct nb_failure f = { 0 };
        char detail[NB_FAILURE_DETAIL_MAX];
        va_list arguments;

        va_start(arguments, format);
        (void)vsnprintf(detail, sizeof(detail), format, arguments);
        va_end(arguments);
        (void)nb_failure_set(&f, NB_USAGE, 0, "%s; `node-bootstrap %s%s--help` shows what there is", detail,
                             options->verb ? options->verb : "", options->verb ? " " : "");
        nb_log_failure_alone(LOG_ERR, &f);
        options->status = nb_failure_info(NB_USAGE)->exit_status;
        return NB_OPTIONS_STOP;
}

static void print_rows(const struct nb_option *rows) {
        for (const struct nb_option *row = rows; row && row->name; row++) {
                char text[64];

                if (!row->help)
                        continue;
                (void)snprintf(text, sizeof(text), "--%s%s%s", row->name, row->value ? "=" : "", row->value ? row->value : "");
                (void)printf("  %c%c%c %-32s %s\n", row->letter ? '-' : ' ', row->letter ? row->letter : ' ',
                             row->letter ? ',' : ' ', text, row->help);
        }
}

static int show_help(struct nb_options *options) {
        (void)printf("node-bootstrap %s%s[OPTION...]%s%s\n\n%s\n\n", options->verb ? options->verb : "", options->verb ? " " : "",
                     options->words ? " " : "", options->words ? options->words : "", options->summary);
        print_rows(options->rows);
        print_rows(common);
        (void)printf("\nSee node-bootstrap(8).\n");
        options->status = 0;
        return NB_OPTIONS_STOP;
}

static int find(const struct nb_option *rows, const char *name, size_t len, char letter) {
        for (int i = 0; rows && rows[i].name; i++)
                if (letter ? rows[i].letter == letter : strlen(rows[i].name) == len && !strncmp(rows[i].name, name, len))
                        return i;
        return -1;
}

static int take_common(struct nb_options *options, int row) {
        if (row == COMMON_HELP)
                return show_help(options);
        if (row == COMMON_VERSION) {
                (void)printf("node-bootstrap " NB_VERSION "\n");
                options->status = 0;
                return NB_OPTIONS_STOP;
        }
        if (!options->value[0])
                return nb_options_fail(options, "'--config-directory' is empty");
        options->config_directory = options->value;
        options->has_config_directory = true;
        return nb_options_next(options);
}

/* `name_len` bytes of argv[at] name the option; `value` is what stands in the same word behind it, or NULL. */
static int take_value(struct nb_options *options, const struct nb_option *row, int name_len, const char *value) {
        const char *word = options->argv[options->at];

        if (!row->value) {
                if (value && strcmp(value, "true") != 0 && strcmp(value, "false") != 0)
                        return nb_options_fail(options, "'%.*s' takes no value but true and false", name_len, word);
                value = value ? value : "true";
        } else if (!value) {
                if (options->next >= options->argc)
                        return nb_options_fail(options, "'%.*s' lacks its %s", name_len, word, row->value);
                value = options->argv[options->next++];
        }
        options->value = value;
        return 0;
}

static int take_option(struct nb_options *options, const char *word) {
        const char *equals = strchr(word, '='), *value = NULL;
        int name_len = (int)(equals ? (size_t)(equals - word) : strlen(word));
        char letter = '\0';
        int row, row_common = -1;

        if (word[1] == '-') {
                value = equals ? equals + 1 : NULL;
        } else {
                letter = word[1];
                name_len = 2;
                value = word[2] ? word + 2 + (word[2] == '=') : NULL;
        }
        row = find(options->rows, word + 2, (size_t)name_len - 2, letter);
        if (row < 0)
                row_common = find(common, word + 2, (size_t)name_len - 2, letter);
        if (row < 0 && row_common < 0)
                return nb_options_fail(options, "the option '%.*s' is not known", name_len > 64 ? 64 : name_len, word);
        if (take_value(options, row >= 0 ? &options->rows[row] : &common[row_common], name_len, value) < 0)
                return NB_OPTIONS_STOP;
        return row >= 0 ? row : take_common(options, row_common);
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

int nb_options_none(struct nb_options *options) {
        char quoted[NB_WORD_QUOTED_SIZE];
        int r = nb_options_next(options);

        if (r == NB_OPTIONS_WORD)
                return nb_options_fail(options, "%s after '%s' is one too many", nb_word_quote(options->value, quoted), options->verb);
        return r;
}
