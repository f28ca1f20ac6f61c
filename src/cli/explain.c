/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/failure.h"
#include "base/text.h"
#include "cli/commands.h"
#include "os/terminal.h"
#include "systemd/log.h"

#define WORD_MAX 63

/* Apart from the table of failures: no other program carries these texts. */
static const struct {
        const char *what;      /* what happened */
        const char *unchanged; /* what was not changed on this machine */
} texts[_NB_CODE_N] = {
        [NB_NONE] = { "", "" },
#include "cli/failure-texts.h"
};

/* Finds a code or MESSAGE_ID, as in a log line or a journalctl match, or the code that is most
 * similar; NB_NONE if none is. */
static enum nb_code find_code(const char *text, bool *ret_is_exact) {
        /* Of NODE_BOOTSTRAP_CODE= or MESSAGE_ID=, not of a detail after the code. */
        const char *equals = memchr(text, '=', strcspn(text, ":"));
        enum nb_code found = NB_NONE;
        char word[WORD_MAX + 1];
        size_t least;

        text = equals ? equals + 1 : text;
        snprintf(word, sizeof(word), "%.*s", (int)strcspn(text, ":"), text);
        for (char *at = word; *at; at++)
                *at = *at == '_' ? '-' : *at;
        least = strlen(word) / 3 + 1;
        for (unsigned i = NB_NONE + 1; i < _NB_CODE_N; i++) {
                const struct nb_failure_info *info = nb_failure_info(i);
                size_t distance = strcasecmp(info->message_id, word) == 0
                                          ? 0
                                          : nb_text_measure_distance(word, info->slug,
                                                                     strlen(info->slug));

                if (distance < least) {
                        least = distance;
                        found = i;
                }
        }
        *ret_is_exact = least == 0;
        return found;
}

static void print_text(const char *title, const char *text) {
        printf("\n%s\n", title);
        nb_log_print_text(stdout, text, 2, nb_terminal_columns(STDOUT_FILENO));
}

static void print_explanation(enum nb_code code) {
        const struct nb_failure_info *info = nb_failure_info(code);

        printf("%s: %s\n", info->slug, info->subject);
        printf("\n  class %s, exit status %d, MESSAGE_ID %s\n", nb_class_name(info->class),
               info->exit_status, info->message_id);
        print_text("What happened", texts[code].what);
        print_text("What was not changed", texts[code].unchanged);
        print_text("What to do", info->remedy);
        if (info->remedy_k3s)
                print_text("What to do with k3s and RKE2", info->remedy_k3s);
}

int nb_command_explain(struct nb_options *options, struct nb_failure *f) {
        char place[NB_OPTIONS_PLACE_SIZE];
        unsigned n = 0;
        int r;

        while ((r = nb_options_next(options, f)) == NB_OPTIONS_WORD) {
                bool is_exact;
                enum nb_code code = find_code(options->value, &is_exact);

                if (!strncmp(options->value, "admin-", strlen("admin-")))
                        return nb_failure_set(f, NB_USAGE, 0,
                                              "codes that begin with admin- are explained in "
                                              "node-bootstrap-admin(8), under DIAGNOSTICS");
                if (!is_exact)
                        return nb_failure_set(
                                f, NB_USAGE, 0,
                                "unknown code: %s%s%s%s; `node-bootstrap explain` lists all codes",
                                nb_options_place(options, place),
                                code != NB_NONE ? " (did you mean '" : "",
                                code != NB_NONE ? nb_failure_info(code)->slug : "",
                                code != NB_NONE ? "'?)" : "");
                if (n++ > 0)
                        printf("\n");
                print_explanation(code);
        }
        if (r < 0)
                return r;
        for (unsigned i = NB_NONE + 1; n == 0 && i < _NB_CODE_N; i++) {
                const struct nb_failure_info *info = nb_failure_info(i);

                printf("%-33s %s\n", info->slug, info->subject);
        }
        return 0;
}
