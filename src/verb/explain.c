/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/failure.h"
#include "base/macro.h"
#include "verb/options.h"
#include "verb/verb.h"

#define WIDTH 80
#define FIELD_PREFIX "@NODE_BOOTSTRAP_"

/* By its name, or by the MESSAGE_ID that an entry of the journal has. */
/* As it is typed, or taken out of a line of the log or of a search in the journal. */
static enum nb_code find_code(const char *text) {
        static const char *const prefixes[] = { "NODE_BOOTSTRAP_ERROR=", "MESSAGE_ID=" };
        char word[64];

        for (size_t i = 0; i < N_ELEMENTS(prefixes); i++)
                if (strncmp(text, prefixes[i], strlen(prefixes[i])) == 0)
                        text += strlen(prefixes[i]);
        (void)snprintf(word, sizeof(word), "%.*s", (int)strcspn(text, ":"), text);
        for (unsigned i = NB_NONE + 1; i < _NB_CODE_N; i++)
                if (strcasecmp(nb_failure_info((enum nb_code)i)->message_id, word) == 0)
                        return (enum nb_code)i;
        return nb_failure_find(word);
}

/* What stands for a field of the journal's entry is shown as its name: ENDPOINT. */
static int print_word(const char *word, int len) {
        const char *field = memmem(word, (size_t)len, FIELD_PREFIX, strlen(FIELD_PREFIX)), *end;

        if (!field)
                return printf("%.*s", len, word);
        end = memchr(field + 1, '@', (size_t)(word + len - field - 1));
        if (!end)
                return printf("%.*s", len, word);
        field += strlen(FIELD_PREFIX);
        return printf("%.*s%.*s%.*s", (int)(field - word) - (int)strlen(FIELD_PREFIX), word, (int)(end - field), field,
                      (int)(word + len - end) - 1, end + 1);
}

/* One paragraph, broken between words. */
static void print_paragraph(const char *title, const char *text) {
        int column = 0;

        (void)printf("\n%s\n", title);
        while (*text) {
                int len = (int)strcspn(text, " ");

                if (column + 1 + len > WIDTH) {
                        (void)printf("\n");
                        column = 0;
                }
                column += printf(column == 0 ? "  " : " ");
                column += print_word(text, len);
                text += len + (text[len] == ' ');
        }
        (void)printf("\n");
}

static void explain(enum nb_code code) {
        const struct nb_failure_info *info = nb_failure_info(code);

        (void)printf("%s: %s\n", info->slug, info->subject);
        (void)printf("\n  class %s, exit status %d, MESSAGE_ID %s\n", nb_class_name(info->class), info->exit_status, info->message_id);
        print_paragraph("What happened", info->what);
        print_paragraph("What was not changed", info->unchanged);
        print_paragraph("What to do", info->remedy);
}

static void list(void) {
        for (unsigned i = NB_NONE + 1; i < _NB_CODE_N; i++) {
                const struct nb_failure_info *info = nb_failure_info((enum nb_code)i);

                (void)printf("%-32s %s\n", info->slug, info->subject);
        }
}

int nb_verb_explain(int argc, char **argv) {
        struct nb_options options = {
                .verb = "explain",
                .words = "[CODE...]",
                .summary = "Tells what a code means, without a look at this machine or the network: what happened, what was not changed,\n"
                           "and what to do. CODE is a name as in the journal's field NODE_BOOTSTRAP_ERROR, or a MESSAGE_ID. Without one: all names.",
                .argc = argc,
                .argv = argv,
        };
        char quoted[NB_WORD_QUOTED_SIZE];
        unsigned n = 0;
        int r;

        while ((r = nb_options_next(&options)) == NB_OPTIONS_WORD) {
                enum nb_code code = find_code(options.value);

                if (code == NB_NONE) {
                        (void)nb_options_fail(&options, "the code %s is not known; without one, `node-bootstrap explain` lists all",
                                              nb_word_quote(options.value, quoted));
                        return options.status;
                }
                if (n++ > 0)
                        (void)printf("\n");
                explain(code);
        }
        if (r != NB_OPTIONS_END)
                return options.status;
        if (n == 0)
                list();
        return 0;
}
