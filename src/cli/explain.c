/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/failure.h"
#include "base/macro.h"
#include "cli/options.h"

#define WIDTH 80
#define WORD_MAX 63
#define FIELD_PREFIX "@NODE_BOOTSTRAP_"

/* A code or MESSAGE_ID, as in a log line or a journalctl match. */
static enum nb_code find_code(const char *text) {
        static const char *const prefixes[] = { "NODE_BOOTSTRAP_ERROR=", "MESSAGE_ID=" };
        char word[WORD_MAX + 1];

        for (size_t i = 0; i < N_ELEMENTS(prefixes); i++)
                if (strncmp(text, prefixes[i], strlen(prefixes[i])) == 0)
                        text += strlen(prefixes[i]);
        snprintf(word, sizeof(word), "%.*s", (int)strcspn(text, ":"), text);
        for (char *at = word; *at; at++)
                *at = *at == '_' ? '-' : (char)tolower((unsigned char)*at);
        for (unsigned i = NB_NONE + 1; i < _NB_CODE_N; i++)
                if (strcasecmp(nb_failure_info((enum nb_code)i)->message_id, word) == 0)
                        return (enum nb_code)i;
        return nb_failure_find(word);
}

/* Levenshtein distance; `b` has at most WORD_MAX characters. */
static size_t distance(const char *a, const char *b) {
        size_t row[WORD_MAX + 1], len = strlen(b);

        for (size_t j = 0; j <= len; j++)
                row[j] = j;
        for (size_t i = 0; a[i]; i++) {
                size_t diagonal = row[0];

                row[0] = i + 1;
                for (size_t j = 0; j < len; j++) {
                        size_t above = row[j + 1], least = diagonal + (a[i] != b[j]);

                        if (least > above + 1)
                                least = above + 1;
                        row[j + 1] = least < row[j] + 1 ? least : row[j] + 1;
                        diagonal = above;
                }
        }
        return row[len];
}

/* NB_NONE if no code is similar. */
static enum nb_code find_near(const char *word) {
        size_t len = strlen(word), least = len / 3 + 1;
        enum nb_code found = NB_NONE;

        for (unsigned i = NB_NONE + 1; i < _NB_CODE_N && len <= WORD_MAX; i++) {
                const char *slug = nb_failure_info((enum nb_code)i)->slug;
                size_t d = strlen(slug) <= WORD_MAX ? distance(word, slug) : least;

                if (d < least) {
                        least = d;
                        found = (enum nb_code)i;
                }
        }
        return found;
}

/* A placeholder for a journal field is printed as <ENDPOINT>. */
static int print_word(const char *word, int len) {
        const char *field = memmem(word, (size_t)len, FIELD_PREFIX, strlen(FIELD_PREFIX)), *end;

        if (!field)
                return printf("%.*s", len, word);
        end = memchr(field + 1, '@', (size_t)(word + len - field - 1));
        if (!end)
                return printf("%.*s", len, word);
        field += strlen(FIELD_PREFIX);
        return printf("%.*s<%.*s>%.*s", (int)(field - word) - (int)strlen(FIELD_PREFIX), word,
                      (int)(end - field), field, (int)(word + len - end) - 1, end + 1);
}

/* Wraps a paragraph at WIDTH columns. */
static void print_paragraph(const char *title, const char *text) {
        int column = 0;

        printf("\n%s\n", title);
        while (*text) {
                int len = (int)strcspn(text, " ");

                if (column + 1 + len > WIDTH) {
                        printf("\n");
                        column = 0;
                }
                column += printf(column == 0 ? "  " : " ");
                column += print_word(text, len);
                text += len + (text[len] == ' ');
        }
        printf("\n");
}

static void explain(enum nb_code code) {
        const struct nb_failure_info *info = nb_failure_info(code);

        printf("%s: %s\n", info->slug, info->subject);
        printf("\n  class %s, exit status %d, MESSAGE_ID %s\n", nb_class_name(info->class),
               info->exit_status, info->message_id);
        print_paragraph("What happened", info->what);
        print_paragraph("What was not changed", info->unchanged);
        print_paragraph("What to do", info->remedy);
}

static void list(void) {
        for (unsigned i = NB_NONE + 1; i < _NB_CODE_N; i++) {
                const struct nb_failure_info *info = nb_failure_info((enum nb_code)i);

                printf("%-32s %s\n", info->slug, info->subject);
        }
}

int nb_command_explain(int argc, char **argv) {
        struct nb_options options = {
                .command = "explain",
                .words = "[CODE...]",
                .summary =
                        "Explains a failure code: what happened, what was not changed, and what to "
                        "do. CODE is a\n"
                        "NODE_BOOTSTRAP_ERROR or MESSAGE_ID from the journal. Without a CODE, "
                        "lists all of them.",
                .argc = argc,
                .argv = argv,
        };
        char quoted[NB_WORD_QUOTED_SIZE];
        unsigned n = 0;
        int r;

        while ((r = nb_options_next(&options)) == NB_OPTIONS_WORD) {
                enum nb_code code = find_code(options.value);

                if (code == NB_NONE) {
                        enum nb_code near = find_near(options.value);

                        (void)nb_options_fail(
                                &options,
                                "unknown code %s%s%s%s; `node-bootstrap explain` lists all codes",
                                nb_word_quote(options.value, quoted),
                                near != NB_NONE ? " (did you mean '" : "",
                                near != NB_NONE ? nb_failure_info(near)->slug : "",
                                near != NB_NONE ? "'?)" : "");
                        return options.status;
                }
                if (n++ > 0)
                        printf("\n");
                explain(code);
        }
        if (r != NB_OPTIONS_END)
                return options.status;
        if (n == 0)
                list();
        return 0;
}
