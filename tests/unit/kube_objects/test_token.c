/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "kube_objects/identity.h"

#include "allocation.h"
#include "case.h"

#define TEXT(s) (s), sizeof(s) - 1

struct token_case {
        const char *name;
        const char *text;
        size_t len;
        int expected;
};

static struct token_case cases[] = {
        { "a token", TEXT("abcdef.0123456789abcdef"), 0 },
        { "only digits", TEXT("012345.0123456789012345"), 0 },
        { "one newline at the end", TEXT("abcdef.0123456789abcdef\n"), 0 },
        { "nothing", TEXT(""), -EINVAL },
        { "only a newline", TEXT("\n"), -EINVAL },
        { "two newlines at the end", TEXT("abcdef.0123456789abcdef\n\n"), -EINVAL },
        { "carriage return and newline at the end", TEXT("abcdef.0123456789abcdef\r\n"), -EINVAL },
        { "a space at the end", TEXT("abcdef.0123456789abcdef "), -EINVAL },
        { "a space at the beginning", TEXT(" abcdef.0123456789abcdef"), -EINVAL },
        { "a NUL at the end", TEXT("abcdef.0123456789abcdef\0"), -EINVAL },
        { "a NUL in the secret", TEXT("abcdef.0123456789\0bcdef"), -EINVAL },
        { "upper case in the ID", TEXT("ABCDEF.0123456789abcdef"), -EINVAL },
        { "upper case in the secret", TEXT("abcdef.0123456789ABCDEF"), -EINVAL },
        { "the ID too short", TEXT("abcde.0123456789abcdef0"), -EINVAL },
        { "the secret too short", TEXT("abcdef.0123456789abcde"), -EINVAL },
        { "the secret too long", TEXT("abcdef.0123456789abcdef0"), -EINVAL },
        { "no dot", TEXT("abcdef:0123456789abcdef"), -EINVAL },
        { "a letter other than a-z", TEXT("abcd\xc3\xa9.0123456789abcdef"), -EINVAL },
        { "a byte order mark",
          TEXT("\xef\xbb\xbf"
               "abcdef.0123456789abcdef"),
          -EINVAL },
        { "in quotes", TEXT("\"abcdef.0123456789abcdef\""), -EINVAL },
        { "ciphertext by the host's key",
          TEXT("Whxqht+dQJax1aZeCGLxmiAAAAABAAAADAAAABAAAAAiU4bTCaJmYQAAAACqpcF5"), -EBADMSG },
        { "ciphertext by host and TPM",
          TEXT("k6iUCUh0RJCQyvL8k8q1UyAAAAABAAAADAAAABAAAAASfFsBoPLIm/dlDoGAAAAA"), -EBADMSG },
        { "the beginning of ciphertext", TEXT("k6iUCUh0RJCQyvL8k8q1UyAAAAABAAAADAAAABAAAA"),
          -EBADMSG },
        { "one character less of ciphertext", TEXT("k6iUCUh0RJCQyvL8k8q1UyAAAAABAAAADAAAABAAA"),
          -EINVAL },
};

static void parses(void **state) {
        const struct token_case *c = *state;
        struct nb_identity token = NB_IDENTITY_INIT;

        assert_int_equal(nb_token_verify(c->text, c->len), c->expected);
        if (c->expected < 0)
                return;
        assert_int_equal(nb_identity_set_token(&token, c->text, c->len, "here"), 0);
        assert_int_equal(token.secret.len, NB_TOKEN_LEN);
        assert_memory_equal(token.secret.data, c->text, NB_TOKEN_LEN);
        assert_int_equal(strlen(token.token_id), NB_TOKEN_ID_LEN);
        assert_memory_equal(token.token_id, c->text, NB_TOKEN_ID_LEN);
        nb_identity_done(&token);
        assert_null(token.secret.data);
}

struct flaw_case {
        const char *name;
        const char *text;
        size_t len;
        const char *expected;
};

static struct flaw_case flaws[] = {
        { "flaw: a valid token", TEXT("abcdef.0123456789abcdef"), "" },
        { "flaw: a valid token with a newline", TEXT("abcdef.0123456789abcdef\n"), "" },
        { "flaw: nothing", TEXT(""), "it is empty" },
        { "flaw: a newline alone", TEXT("\n"), "it is empty" },
        { "flaw: two newlines", TEXT("abcdef.0123456789abcdef\n\n"),
          "its character 24 is a newline" },
        { "flaw: a line of Windows", TEXT("abcdef.0123456789abcdef\r\n"),
          "its character 24 is a carriage return, as in files from Windows" },
        { "flaw: a blank at the end", TEXT("abcdef.0123456789abcdef \n"),
          "its character 24 is white space" },
        { "flaw: a blank at the beginning", TEXT(" abcdef.0123456789abcdef"),
          "its character 1 is white space" },
        { "flaw: a NUL at the end", TEXT("abcdef.0123456789abcdef\0"),
          "its character 24 is not printable ASCII" },
        { "flaw: a blank inside", TEXT("abcdef. 0123456789abcdef"),
          "its character 8 is white space" },
        { "flaw: a blank in the place of a character", TEXT("abcdef.012345678 abcdef"),
          "its character 17 is white space" },
        { "flaw: a line break inside", TEXT("abcdef.\n0123456789abcdef"),
          "its character 8 is a newline" },
        { "flaw: in quotes", TEXT("\"abcdef.0123456789abcdef\""),
          "its character 1 is a quotation mark" },
        { "flaw: in quotes of the other kind", TEXT("'abcdef.0123456789abcdef'"),
          "its character 1 is a quotation mark" },
        { "flaw: a quote at the end", TEXT("abcdef.0123456789abcdef\"\n"),
          "its character 24 is a quotation mark" },
        { "flaw: a byte order mark",
          TEXT("\xef\xbb\xbf"
               "abcdef.0123456789abcdef"),
          "its character 1 is not printable ASCII" },
        { "flaw: too short", TEXT("abcdef.0123456789abcde"),
          "1 character is missing after the dot" },
        { "flaw: only the ID and the dot", TEXT("abcdef."),
          "16 characters are missing after the dot" },
        { "flaw: too long", TEXT("abcdef.0123456789abcdef0"),
          "it has 6 characters before the dot and 17 after it, expected 6 and 16" },
        { "flaw: the dot elsewhere", TEXT("abcde.0123456789abcdef0"),
          "it has 5 characters before the dot and 17 after it, expected 6 and 16" },
        { "flaw: a password", TEXT("hunter2-HUNTER2"),
          "it has 15 characters and no dot, expected 23 with one" },
        { "flaw: a capital letter in the ID", TEXT("abCdef.0123456789abcdef"),
          "its character 3 is a capital letter" },
        { "flaw: a capital letter in the secret", TEXT("abcdef.0123456789ABCDEF"),
          "its character 18 is a capital letter" },
        { "flaw: a second dot", TEXT("abcdef.0123456789abc.ef"),
          "its character 21 is another dot" },
        { "flaw: a colon in the place of the dot", TEXT("abcdef:0123456789abcdef"),
          "its character 7 is not one of a-z and 0-9" },
        { "flaw: a character other than a-z", TEXT("abcdef.0123456789abc_ef"),
          "its character 21 is not one of a-z and 0-9" },
        { "flaw: ciphertext",
          TEXT("Whxqht+dQJax1aZeCGLxmiAAAAABAAAADAAAABAAAAAiU4bTCaJmYQAAAACqpcF5"),
          "it is encrypted" },
};

static void tells(void **state) {
        const struct flaw_case *c = *state;
        char flaw[NB_TOKEN_FLAW_SIZE];

        nb_token_find_flaw(c->text, c->len, flaw);
        assert_string_equal(flaw, c->expected);
}

static void trims(void **state) {
        static const char *const ends[] = { "",       "\n", "\r\n", "\n\n",
                                            "\r\r\n", " ",  " \n",  "\t \r\n" };
        char text[16];

        for (size_t i = 0; i < N_ELEMENTS(ends); i++) {
                (void)snprintf(text, sizeof(text), "a b\n c%s", ends[i]);
                assert_int_equal(nb_token_trim(text, strlen(text)), 6);
                assert_int_equal(nb_token_trim(ends[i], strlen(ends[i])), 0);
        }
}

static int run(const void *input) {
        _cleanup_(nb_identity_done) struct nb_identity token = NB_IDENTITY_INIT;

        return nb_identity_set_token(&token, input, NB_TOKEN_LEN, "here");
}

static void memory_runs_out(void **state) {
        allocation_try_all(run, "abcdef.0123456789abcdef");
}

int main(void) {
        CASES(cases, parses);
        CASES(flaws, tells);
        CASE(trims);
        CASE(memory_runs_out);
        return case_run("token");
}
