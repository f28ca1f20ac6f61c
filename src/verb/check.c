/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/log.h"
#include "base/macro.h"
#include "base/stop.h"
#include "base/text.h"
#include "verb/check_internal.h"
#include "verb/options.h"
#include "verb/verb.h"

static const struct {
        const char *title;
        int (*run)(struct nb_check *check, struct nb_failure *f);
        bool needs_all_before;
} steps[] = {
        { "Settings", nb_check_settings, false },
        { "Credentials and tokens", nb_check_credentials, false },
        { "Metadata", nb_check_metadata, true },
        { "Join", nb_check_join, true },
};

static const struct {
        const char *sign, *colour;
} marks[] = {
        [NB_CHECK_GOOD] = { "✓", "32" },
        [NB_CHECK_BAD] = { "✗", "31" },
        [NB_CHECK_DOUBT] = { "!", "33" },
        [NB_CHECK_NOTE] = { "-", NULL },
};

static void print_text(const char *text) {
        size_t size = strlen(text) + 1;
        _cleanup_(nb_freep) char *line = malloc(size);

        if (!line)
                return;
        nb_text_copy_line(text, size - 1, line, size);
        (void)printf("%s\n", line);
}

void nb_check_row(const struct nb_check *check, enum nb_check_mark mark, const char *format, ...) {
        _cleanup_(nb_freep) char *text = NULL;
        va_list arguments;
        int n;

        va_start(arguments, format);
        n = vasprintf(&text, format, arguments);
        va_end(arguments);
        if (n < 0) {
                text = NULL;
                return;
        }
        if (check->is_coloured && marks[mark].colour)
                (void)printf("  \033[%sm%s\033[0m ", marks[mark].colour, marks[mark].sign);
        else
                (void)printf("  %s ", marks[mark].sign);
        print_text(text);
}

static void print_failure(const struct nb_check *check, const struct nb_failure *f) {
        nb_check_row(check, NB_CHECK_BAD, "%s: %s", nb_failure_info(f->code)->slug, f->detail);
        (void)printf("    ");
        nb_log_print_remedy(stdout, f->code);
}

/* All steps; *ret_first is the first failure. -ECANCELED when stopping was asked for. */
static int run_steps(struct nb_check *check, struct nb_failure *ret_first) {
        for (size_t i = 0; i < N_ELEMENTS(steps); i++) {
                struct nb_failure f = { 0 };
                int r;

                (void)printf(check->is_coloured ? "%s\033[1m%s\033[0m\n" : "%s%s\n", i > 0 ? "\n" : "", steps[i].title);
                (void)fflush(stdout);
                if (steps[i].needs_all_before && ret_first->code != NB_NONE) {
                        nb_check_row(check, NB_CHECK_NOTE, "not looked at: see above");
                        continue;
                }
                r = steps[i].run(check, &f);
                if (r == -ECANCELED && f.code == NB_NONE)
                        return r;
                if (r < 0 && f.code == NB_NONE)
                        (void)nb_failure_set_memory(&f);
                if (f.code != NB_NONE)
                        print_failure(check, &f);
                if (ret_first->code == NB_NONE)
                        *ret_first = f;
        }
        return 0;
}

static bool is_coloured(void) {
        const char *term = getenv("TERM"), *no_colour = getenv("NO_COLOR");

        return isatty(STDOUT_FILENO) && !(no_colour && no_colour[0]) && term && strcmp(term, "dumb") != 0;
}

enum { OPTION_ALL };

static const struct nb_option rows[] = {
        [OPTION_ALL] = { "all", NULL, "also settings that have their default", 'a' },
        { NULL },
};

static int read_options(struct nb_options *options, struct nb_check *check) {
        char quoted[NB_WORD_QUOTED_SIZE];
        int option;

        while ((option = nb_options_next(options)) >= 0)
                check->shows_all = !strcmp(options->value, "true");
        if (option == NB_OPTIONS_WORD)
                option = nb_options_fail(options, "%s after 'check' is one too many", nb_word_quote(options->value, quoted));
        check->config_directory = options->config_directory;
        return option;
}

static void check_done(struct nb_check *check) {
        nb_check_forget_stores();
        nb_settings_tokens_done(&check->tokens);
        nb_load_done(&check->load);
}

int nb_verb_check(int argc, char **argv) {
        _cleanup_(check_done) struct nb_check check = { .tokens = NB_SETTINGS_TOKENS_INIT, .load = NB_LOAD_INIT, .is_coloured = is_coloured() };
        struct nb_options options = {
                .verb = "check",
                .summary = "Shows what a join would begin with, where it comes from, and whether it is enough. Changes nothing.",
                .rows = rows,
                .argc = argc,
                .argv = argv,
        };
        struct nb_failure first = { 0 };

        if (read_options(&options, &check) == NB_OPTIONS_STOP)
                return options.status;
        /* As for join: secrets are in memory, and waiting ends in order. */
        if (prctl(PR_SET_DUMPABLE, 0) < 0 || nb_stop_init() < 0)
                return nb_failure_info(NB_INTERNAL)->exit_status;
        nb_check_find_stores(&check);
        if (run_steps(&check, &first) < 0)
                return NB_EXIT_STOPPED;
        return first.code == NB_NONE ? 0 : nb_failure_info(first.code)->exit_status;
}
