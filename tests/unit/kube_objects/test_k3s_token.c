/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/text.h"
#include "kube_objects/k3s_token.h"

#include "allocation.h"
#include "case.h"

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define UPPER "0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF"
#define TOKEN "abcdef.0123456789abcdef"
#define TEXT(s) (s), sizeof(s) - 1

struct token_case {
        const char *name;
        const char *text;
        size_t len;
        bool looks_like;
        bool has_hash;
        enum nb_identity_kind kind; /* NB_IDENTITY_NONE: refused */
        const char *secret;
};

static struct token_case tokens[] = {
        { "a bootstrap token", TEXT("K10" HASH "::" TOKEN), true, true, NB_IDENTITY_TOKEN, TOKEN },
        { "a bootstrap token and a newline", TEXT("K10" HASH "::" TOKEN "\n"), true, true,
          NB_IDENTITY_TOKEN, TOKEN },
        { "a hash in upper case", TEXT("K10" UPPER "::" TOKEN), true, true, NB_IDENTITY_TOKEN,
          TOKEN },
        { "a bootstrap token without a hash", TEXT("K10::" TOKEN), true, false, NB_IDENTITY_TOKEN,
          TOKEN },
        { "the node's password", TEXT("K10" HASH "::node:secret"), true, true, NB_IDENTITY_PASSWORD,
          "node:secret" },
        { "the server's password, with which an agent is the node",
          TEXT("K10" HASH "::server:secret"), true, true, NB_IDENTITY_PASSWORD, "node:secret" },
        { "a password and a newline", TEXT("K10" HASH "::server:secret\n"), true, true,
          NB_IDENTITY_PASSWORD, "node:secret" },
        { "a password with colons", TEXT("K10" HASH "::server:a:b::c"), true, true,
          NB_IDENTITY_PASSWORD, "node:a:b::c" },
        { "a password without a hash", TEXT("K10::node:secret"), true, false, NB_IDENTITY_PASSWORD,
          "node:secret" },
        { "a password that is a bootstrap token", TEXT("K10" HASH "::server:" TOKEN), true, true,
          NB_IDENTITY_PASSWORD, "node:" TOKEN },
        { "nothing", TEXT(""), false, false, NB_IDENTITY_NONE, NULL },
        { "only a bootstrap token", TEXT(TOKEN), false, false, NB_IDENTITY_NONE, NULL },
        { "only a password", TEXT("secret"), false, false, NB_IDENTITY_NONE, NULL },
        { "only the prefix", TEXT("K10"), true, false, NB_IDENTITY_NONE, NULL },
        { "the prefix in lower case", TEXT("k10" HASH "::" TOKEN), false, false, NB_IDENTITY_NONE,
          NULL },
        { "another version", TEXT("K11" HASH "::" TOKEN), false, false, NB_IDENTITY_NONE, NULL },
        { "a blank before it", TEXT(" K10" HASH "::" TOKEN), false, false, NB_IDENTITY_NONE, NULL },
        { "only the hash", TEXT("K10" HASH), true, false, NB_IDENTITY_NONE, NULL },
        { "no credentials", TEXT("K10" HASH "::"), true, false, NB_IDENTITY_NONE, NULL },
        { "no credentials but a newline", TEXT("K10" HASH "::\n"), true, false, NB_IDENTITY_NONE,
          NULL },
        { "one colon", TEXT("K10" HASH ":" TOKEN), true, false, NB_IDENTITY_NONE, NULL },
        { "a hash one digit short",
          TEXT("K10"
               "123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
               "::" TOKEN),
          true, false, NB_IDENTITY_NONE, NULL },
        { "a hash one digit long", TEXT("K10" HASH "0::" TOKEN), true, false, NB_IDENTITY_NONE,
          NULL },
        { "a hash with a letter that is not a hex digit",
          TEXT("K10"
               "g123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
               "::" TOKEN),
          true, false, NB_IDENTITY_NONE, NULL },
        { "no user", TEXT("K10" HASH ":::secret"), true, false, NB_IDENTITY_NONE, NULL },
        { "no password", TEXT("K10" HASH "::server:"), true, false, NB_IDENTITY_NONE, NULL },
        { "a word without a colon", TEXT("K10" HASH "::secret"), true, false, NB_IDENTITY_NONE,
          NULL },
        { "a bootstrap token with a capital letter", TEXT("K10" HASH "::Abcdef.0123456789abcdef"),
          true, false, NB_IDENTITY_NONE, NULL },
        { "two newlines", TEXT("K10" HASH "::" TOKEN "\n\n"), true, false, NB_IDENTITY_NONE, NULL },
        { "a password and two newlines", TEXT("K10" HASH "::server:secret\n\n"), true, false,
          NB_IDENTITY_NONE, NULL },
        { "a line end of DOS", TEXT("K10" HASH "::" TOKEN "\r\n"), true, false, NB_IDENTITY_NONE,
          NULL },
        { "a newline inside", TEXT("K10" HASH "::server:a\nb"), true, false, NB_IDENTITY_NONE,
          NULL },
        { "a NUL inside", TEXT("K10" HASH "::server:a\0b"), true, false, NB_IDENTITY_NONE, NULL },
        { "a password that is not UTF-8", TEXT("K10" HASH "::server:\xff"), true, false,
          NB_IDENTITY_NONE, NULL },
};

static void parses(void **state) {
        const struct token_case *c = *state;
        struct nb_k3s_token token = { .identity = NB_IDENTITY_INIT };
        int r;

        assert_int_equal(nb_k3s_token_looks_like(c->text, c->len), c->looks_like);
        r = nb_k3s_token_parse(c->text, c->len, "here", &token);
        if (c->kind == NB_IDENTITY_NONE) {
                assert_int_equal(r, -EINVAL);
                assert_null(token.identity.secret.data);
                return;
        }
        assert_int_equal(r, 0);
        assert_int_equal(token.has_hash, c->has_hash);
        assert_int_equal(token.hash[31], c->has_hash ? 0xef : 0);
        assert_int_equal(token.identity.kind, c->kind);
        assert_string_equal(token.identity.secret.data, c->secret);
        assert_string_equal(token.identity.token_id, c->kind == NB_IDENTITY_TOKEN ? "abcdef" : "");
        assert_string_equal(token.identity.source, "here");
        nb_k3s_token_done(&token);
        assert_null(token.identity.secret.data);
}

struct flaw_case {
        const char *name;
        const char *text;
        size_t len;
        const char *expected;
};

static struct flaw_case flaws[] = {
        { "flaw: the prefix alone", TEXT("K10"), "it has no '::'" },
        { "flaw: the prefix and a newline", TEXT("K10\n"), "it has no '::'" },
        { "flaw: the hash cut", TEXT("K100123::server:secret"),
          "the part between K10 and '::' is not 64 hex digits" },
        { "flaw: a hash with a letter that is no digit",
          TEXT("K10"
               "g123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
               "::" TOKEN),
          "the part between K10 and '::' is not 64 hex digits" },
        { "flaw: nothing after the hash", TEXT("K10" HASH "::"),
          "the part after '::' is neither USER:PASSWORD nor a bootstrap token" },
        { "flaw: a line of Windows", TEXT("K10" HASH "::" TOKEN "\r\n"),
          "it has an unprintable character, such as a line end, after '::'" },
        { "flaw: two newlines", TEXT("K10" HASH "::" TOKEN "\n\n"),
          "it has an unprintable character, such as a line end, after '::'" },
        { "flaw: a newline inside", TEXT("K10" HASH "::server:a\nb"),
          "it has an unprintable character, such as a line end, after '::'" },
        { "flaw: no user", TEXT("K10" HASH ":::secret"),
          "the part after '::' is neither USER:PASSWORD nor a bootstrap token" },
        { "flaw: no password", TEXT("K10" HASH "::server:"),
          "the part after '::' is neither USER:PASSWORD nor a bootstrap token" },
        { "flaw: a word without a colon", TEXT("K10::secret"),
          "the part after '::' is neither USER:PASSWORD nor a bootstrap token" },
        { "flaw: of the other form", TEXT("abcdef"),
          "it has 6 characters and no dot, expected 23 with one" },
};

static void tells(void **state) {
        const struct flaw_case *c = *state;
        char flaw[NB_TOKEN_FLAW_SIZE];

        nb_any_token_find_flaw(c->text, c->len, flaw);
        assert_string_equal(flaw, c->expected);
}

static void says_where_the_whole_token_is(_unused_ void **state) {
        static const struct {
                const char *text;
                bool is_hinted;
        } hints[] = {
                { "hunter2", true },    { HASH, true },
                { "K10" HASH, true },   { "K10mysecret::server:abc", true },
                { "K10abc.def", true }, { "abcdef.0123", false },
                { "", false },          { HASH "Whxqht+dQJax1aZeCGLx", false },
        };

        for (size_t i = 0; i < N_ELEMENTS(hints); i++)
                assert_int_equal(nb_k3s_token_hint(hints[i].text, strlen(hints[i].text))[0] == ';',
                                 hints[i].is_hinted);
}

static void knows_what_is_meant_for_k3s(_unused_ void **state) {
        static const struct {
                const char *text;
                bool is_meant;
        } texts[] = {
                { "K10" HASH "::node:x", true },
                { "K10mysecret::server:abc", true },
                { "K10", true },
                { HASH, true },
                { "hunter2", false },
                { "k10" HASH, false },
                { HASH "0", false },
                { "abcdef.0123456789abcdef", false },
                { "", false },
        };

        for (size_t i = 0; i < N_ELEMENTS(texts); i++)
                assert_int_equal(nb_k3s_token_is_meant(texts[i].text, strlen(texts[i].text)),
                                 texts[i].is_meant);
}

/* Each by the rules of its own kind. */
static void either_kind_is_verified(_unused_ void **state) {
        static const struct {
                const char *text;
                int r;
                const char *flaw; /* begins like this */
        } rows[] = {
                { TOKEN, 0, NULL },
                { TOKEN "\n", 0, NULL },
                { "K10" HASH "::" TOKEN, 0, NULL },
                { "K10" HASH "::node:password", 0, NULL },
                { "abcdef.0123", -EINVAL, "" },
                { "K10" HASH "::", -EINVAL, "" },
                { "K10abc::node:password", -EINVAL, "" },
                { "", -EINVAL, "" },
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                char flaw[NB_TOKEN_FLAW_SIZE] = "";

                assert_int_equal(nb_any_token_verify(rows[i].text, strlen(rows[i].text), flaw),
                                 rows[i].r);
                if (rows[i].flaw)
                        assert_true(flaw[0] != '\0');
        }
}

static void length_has_a_limit(void **state) {
        char text[NB_K3S_TOKEN_MAX + 1];
        struct nb_k3s_token token;

        memset(text, 'x', sizeof(text));
        memcpy(text, "K10::a:", 7);
        assert_int_equal(nb_k3s_token_parse(text, NB_K3S_TOKEN_MAX, "here", &token), 0);
        nb_k3s_token_done(&token);
        assert_int_equal(nb_k3s_token_parse(text, NB_K3S_TOKEN_MAX + 1, "here", &token), -EINVAL);
}

struct password_case {
        const char *name, *text;
        size_t len;
        const char *password; /* NULL: refused */
};

#define SIXTY_FOUR "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static struct password_case passwords[] = {
        { "password: as k3s makes it", TEXT("0123456789abcdef0123456789abcdef\n"),
          "0123456789abcdef0123456789abcdef" },
        { "password: white space after it", TEXT("word \t\r\n\n"), "word" },
        { "password: 64 characters", TEXT(SIXTY_FOUR "\n"), SIXTY_FOUR },
        { "password: 65 characters", TEXT(SIXTY_FOUR "x"), NULL },
        { "password: nothing", TEXT(""), NULL },
        { "password: a newline alone", TEXT("\n"), NULL },
        { "password: two words", TEXT("two words"), NULL },
        { "password: a header after it", TEXT("word\r\nAuthorization: x"), NULL },
        { "password: white space before it", TEXT(" word"), NULL },
        { "password: a NUL", TEXT("word\0"), NULL },
        { "password: a NUL within", TEXT("word\0word"), NULL },
        { "password: beyond ASCII", TEXT("w\303\266rd"), NULL },
};

static void node_password(void **state) {
        const struct password_case *c = *state;
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        struct nb_failure f = { 0 };

        assert_int_equal(nb_secret_copy(&text, c->text, c->len), 0);
        assert_int_equal(nb_node_password_parse(&text, &f), c->password ? 0 : -EINVAL);
        assert_int_equal(f.code, c->password ? NB_NONE : NB_NODE_PASSWORD_MISSING);
        if (c->password) {
                assert_string_equal(text.data, c->password);
                assert_int_equal(text.len, strlen(c->password));
        }
}

static int run(const void *input) {
        struct nb_k3s_token token = { .identity = NB_IDENTITY_INIT };
        int r;

        r = nb_k3s_token_parse(input, strlen(input), "here", &token);
        nb_k3s_token_done(&token);
        return r;
}

static void memory_runs_out(void **state) {
        allocation_try_all(run, "K10" HASH "::" TOKEN);
        allocation_try_all(run, "K10" HASH "::node:secret");
}

int main(void) {
        CASES(tokens, parses);
        CASES(flaws, tells);
        CASES(passwords, node_password);
        CASE(says_where_the_whole_token_is);
        CASE(knows_what_is_meant_for_k3s);
        CASE(either_kind_is_verified);
        CASE(length_has_a_limit);
        CASE(memory_runs_out);
        return case_run("k3s_token");
}
