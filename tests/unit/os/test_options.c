/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "case.h"
#include "os/options.h"

#define WORDS_MAX 6

static struct {
        bool is_forced, is_short;
        const char *timeout, *period;
} stored;

static const struct nb_option rows[] = {
        { "timeout", "DURATION", "wait for DURATION", .ret_value = &stored.timeout },
        { "force", NULL, "replace", .ret_switch = &stored.is_forced },
        { "check", "PERIOD", "check", .by_default = "30d", .ret_value = &stored.period },
        { "q", NULL, NULL, .ret_switch = &stored.is_short },
        { NULL },
};

struct options_case {
        const char *name;
        const char *words[WORDS_MAX];
        const char *detail; /* of the failure; NULL: accepted */
        bool is_forced, is_short;
        const char *timeout, *period, *folder; /* NULL: not set */
};

static struct options_case cases[] = {
        { "nothing", { NULL } },
        { "a value in the same word", { "--timeout=5s" }, .timeout = "5s" },
        { "a value in the next word", { "--timeout", "5s" }, .timeout = "5s" },
        { "a value that begins with a dash", { "--timeout", "-" }, .timeout = "-" },
        { "an empty value", { "--timeout=" }, .timeout = "" },
        { "the last of two values", { "--timeout=5s", "--timeout=6s" }, .timeout = "6s" },
        { "no value", { "--timeout" }, "'--timeout' requires DURATION" },
        { "an option instead of the value",
          { "--timeout", "--force" },
          "'--timeout' requires DURATION" },
        { "a switch", { "--force" }, .is_forced = true },
        { "a switch that is on", { "--force=true" }, .is_forced = true },
        { "a switch that is off", { "--force", "--force=false" } },
        { "a switch with another value",
          { "--force=yes" },
          "'--force' accepts only true or false" },
        { "a letter", { "-q" }, .is_short = true },
        { "a default", { "--check" }, .period = "30d" },
        { "a default that is replaced", { "--check=1d" }, .period = "1d" },
        { "a default does not take the next word",
          { "--check", "1d" },
          "unexpected: argument 2 (2 characters)" },
        { "an abbreviation", { "--time=5s" }, "unknown option: argument 1 (9 characters)" },
        { "a name that is too long",
          { "--timeouts=5s" },
          "unknown option: argument 1 (13 characters) begins with '--timeout'; put a blank or '=' "
          "before the value" },
        { "a switch that goes on",
          { "--forced" },
          "unknown option: argument 1 (8 characters) begins with '--force'" },
        { "the longest name that it begins with",
          { "--config-directory:/srv" },
          "unknown option: argument 1 (23 characters) begins with '--config-directory'; put a "
          "blank or '=' before the value" },
        { "an unknown letter", { "-x" }, "unknown option: argument 1 (2 characters)" },
        { "a folder of settings", { "--config-directory", "/srv" }, .folder = "/srv" },
        { "no folder of settings", { "--config-directory=" }, "'--config-directory' is empty" },
        { "a word", { "word" }, "unexpected: argument 1 (4 characters)" },
        { "a word that may be a secret",
          { "abcdef.0123456789abcdef" },
          "unexpected: argument 1 (23 characters)" },
        { "a part of a secret", { "abc.def" }, "unexpected: argument 1 (7 characters)" },
        { "an option after the end of options",
          { "--", "--force" },
          "unexpected: argument 2 (7 characters)" },
        { "a single dash", { "-" }, "unexpected: argument 1 (1 characters)" },
};

static char **make_argv(const char *const words[WORDS_MAX], int *ret_argc) {
        static char texts[WORDS_MAX + 1][64], *argv[WORDS_MAX + 2];
        int n = 1;

        argv[0] = strcpy(texts[0], "test");
        for (; words[n - 1]; n++)
                argv[n] = strcpy(texts[n], words[n - 1]);
        argv[n] = NULL;
        *ret_argc = n;
        return argv;
}

static void expect_text(const char *found, const char *expected) {
        assert_int_equal(found != NULL, expected != NULL);
        if (expected)
                assert_string_equal(found, expected);
}

static void reads(void **state) {
        const struct options_case *c = *state;
        int argc;
        char **argv = make_argv(c->words, &argc);
        struct nb_options options = NB_OPTIONS_INIT("test", argc, argv);
        struct nb_failure f = { 0 };

        memset(&stored, 0, sizeof(stored));
        assert_int_equal(nb_options_read(&options, rows, &f) < 0, c->detail != NULL);
        assert_string_equal(f.detail, c->detail ? c->detail : "");
        assert_int_equal(f.code, c->detail ? NB_USAGE : NB_NONE);
        if (c->detail)
                return;
        assert_int_equal(stored.is_forced, c->is_forced);
        assert_int_equal(stored.is_short, c->is_short);
        expect_text(stored.timeout, c->timeout);
        expect_text(stored.period, c->period);
        assert_int_equal(options.has_config_directory, c->folder != NULL);
        assert_string_equal(options.config_directory, c->folder ? c->folder : NB_CONFIG_DIRECTORY);
}

/* Words and options in any order, for a command that accepts words. */
static void goes_through_words_and_options(void **state) {
        static const char *const words[WORDS_MAX] = { "a", "--force", "-", "--", "--timeout" };
        static const int expected[] = { NB_OPTIONS_WORD, 1, NB_OPTIONS_WORD, NB_OPTIONS_WORD,
                                        NB_OPTIONS_END };
        int argc;
        char **argv = make_argv(words, &argc);
        struct nb_options options = NB_OPTIONS_INIT("test", argc, argv);
        struct nb_failure f = { 0 };

        memset(&stored, 0, sizeof(stored));
        options.rows = rows;
        for (size_t i = 0; i < N_ELEMENTS(expected); i++) {
                assert_int_equal(nb_options_next(&options, &f), expected[i]);
                if (expected[i] < NB_OPTIONS_END)
                        nb_options_store(&options, expected[i]);
        }
        assert_true(stored.is_forced);
        assert_string_equal(options.value, "--timeout");
        assert_int_equal(options.at, 5);
}

static void help_is_no_failure(void **state) {
        static const char *const asked[] = { "--help", "-h", "--version" };

        for (size_t i = 0; i < N_ELEMENTS(asked); i++) {
                int argc;
                char **argv = make_argv((const char *[WORDS_MAX]){ asked[i] }, &argc);
                struct nb_options options = NB_OPTIONS_INIT("test", argc, argv);
                struct nb_failure f = { 0 };

                assert_int_equal(nb_options_read(&options, rows, &f), -ECANCELED);
                assert_int_equal(f.code, NB_NONE);
        }
}

/* A pasted line begins with `sudo kubeadm join`; an argument was typed after it. */
static void says_which_word(_unused_ void **state) {
        static const struct {
                int at;
                const char *expected;
        } places[] = {
                { 0, "word 3 of the pasted line (4 characters)" },
                { 2, "word 5 of the pasted line (16 characters)" },
                { 3, "argument 3 (2 characters)" },
        };
        char host[] = "host", option[] = "-x", half[] = "0123456789abcdef", typed[] = "\u00fcb",
             *words[] = { host, option, half, typed };
        struct nb_options options = {
                .argc = 4, .argv = words, .n_pasted = 3, .n_skipped = 2, .n_typed = 3
        };
        char place[NB_OPTIONS_PLACE_SIZE];

        for (size_t i = 0; i < N_ELEMENTS(places); i++) {
                options.at = places[i].at;
                assert_string_equal(nb_options_place(&options, place), places[i].expected);
        }
}

/* The nearest one, if it is near at all. */
static void finds_the_most_similar(_unused_ void **state) {
        unsigned least = UINT_MAX;

        assert_false(nb_options_is_similar("reset", 5, "check", &least));
        assert_true(nb_options_is_similar("statsu", 6, "status", &least));
        assert_false(nb_options_is_similar("statsu", 6, "statue", &least));
        assert_true(nb_options_is_similar("status", 6, "status", &least));
        assert_int_equal(least, 0);
}

int main(void) {
        CASES(cases, reads);
        CASE(goes_through_words_and_options);
        CASE(help_is_no_failure);
        CASE(says_which_word);
        CASE(finds_the_most_similar);
        return case_run("system options");
}
