/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "admin/client/calls.h"
#include "admin/client/facts.h"
#include "admin/commands/admin_commands.h"
#include "admin/commands/token_command.h"
#include "base/macro.h"

#define ATTEMPTS_MAX 8 /* two billion IDs: a second collision in a row means another error */

static const char generate_usage[] =
        "node-bootstrap-admin token generate\n\n"
        "Prints a random token. Makes no connection and creates nothing.\n";
static const char create_usage[] =
        "node-bootstrap-admin token create [OPTION...] [TOKEN]\n\n"
        "Creates a bootstrap token and prints it. With --node, it is for one node and one use,\n"
        "and everything that the machine needs is printed.\n";
static const char list_usage[] = "node-bootstrap-admin token list [OPTION...]\n\n"
                                 "Lists the bootstrap tokens of the cluster. Secrets are masked.\n";
static const char revoke_usage[] =
        "node-bootstrap-admin token revoke [OPTION...] ID...\n\n"
        "Deletes bootstrap tokens by ID. A whole token is accepted as well.\n";

int nb_token_read_line(struct nb_options *options, const struct nb_option *rows,
                       const char **ret_words, size_t max, size_t *ret_n, struct nb_failure *f) {
        char quoted[NB_WORD_QUOTED_SIZE];
        int row;

        *ret_n = 0;
        options->rows = rows;
        while ((row = nb_options_next(options, f)) >= 0 && row != NB_OPTIONS_END) {
                if (row == NB_OPTIONS_WORD && *ret_n == max)
                        return nb_failure_set(f, NB_USAGE, 0, "unexpected argument %s",
                                              nb_word_quote(options->value, quoted));
                if (row == NB_OPTIONS_WORD)
                        ret_words[(*ret_n)++] = options->value;
                else if (rows[row].value && !strcmp(rows[row].value, "LIST") &&
                         *rows[row].ret_value)
                        return nb_failure_set(f, NB_USAGE, 0,
                                              "'--%s' is used twice; separate its entries by "
                                              "commas",
                                              rows[row].name);
                else
                        nb_options_store(options, row);
        }
        return row < 0 ? row : 0;
}

void nb_token_format(const struct nb_bootstrap_token *token, char ret[static NB_TOKEN_TEXT_SIZE]) {
        snprintf(ret, NB_TOKEN_TEXT_SIZE, "%s.%s", token->id, token->secret);
}

/* --- Requests --- */

/* 201: created; 409: the ID exists already. */
static int post_token(struct nb_admin *admin, const struct nb_bootstrap_token *token,
                      struct nb_failure *f) {
        _cleanup_(nb_http_answer_done) struct nb_http_answer answer = { 0 };
        struct nb_buffer body = NB_BUFFER_INIT(NB_ADMIN_OBJECT_MAX);
        char what[96];
        int r;

        snprintf(what, sizeof(what), "creating the Secret " NB_TOKEN_SECRET_NAME_PREFIX "%s",
                 token->id);
        r = nb_bootstrap_token_format(token, &body);
        if (r < 0)
                r = nb_failure_set_memory(f);
        else
                r = nb_admin_perform(admin,
                                     &(const struct nb_admin_call){ .method = "POST",
                                                                    .what = what,
                                                                    .path = NB_SECRETS_PATH,
                                                                    .body = body.data,
                                                                    .body_len = body.len },
                                     &answer, f);
        if (body.data)
                explicit_bzero(body.data, body.allocated);
        if (answer.body.data)
                explicit_bzero(answer.body.data, answer.body.allocated);
        nb_buffer_done(&body);
        if (r == 404)
                return nb_failure_set_http(f, NB_ADMIN_MISSING, 404,
                                           "%s: the namespace kube-system does not exist", what);
        return r;
}

int nb_token_submit(struct nb_admin *admin, struct nb_bootstrap_token *token,
                    struct nb_failure *f) {
        const bool is_random = !token->id[0];
        int r = 409;

        for (unsigned i = 0; r == 409 && i < (is_random ? ATTEMPTS_MAX : 1); i++) {
                if (is_random) {
                        r = nb_bootstrap_token_generate(token);
                        if (r < 0)
                                return nb_failure_set(f, NB_INTERNAL, r,
                                                      "cannot generate a token: %m");
                }
                r = post_token(admin, token, f);
                if (r < 0)
                        return r;
        }
        if (r == 409)
                return nb_failure_set_http(f, NB_ADMIN_EXISTS, 409,
                                           "a token with the ID '%s' already exists", token->id);
        return 0;
}

int nb_token_delete(struct nb_admin *admin, const char *id, struct nb_failure *f) {
        char name[sizeof(NB_TOKEN_SECRET_NAME_PREFIX) + NB_TOKEN_ID_LEN];

        snprintf(name, sizeof(name), NB_TOKEN_SECRET_NAME_PREFIX "%s", id);
        return nb_secret_delete(admin, name, NULL, NULL, f);
}

/* --- Commands --- */

static int generate_token(struct nb_options *options, struct nb_failure *f) {
        _cleanup_(nb_bootstrap_token_done) struct nb_bootstrap_token token = { 0 };
        char text[NB_TOKEN_TEXT_SIZE];
        int r;

        r = nb_options_read(options, NULL, f);
        if (r < 0)
                return r;
        r = nb_bootstrap_token_generate(&token);
        if (r < 0)
                return nb_failure_set(f, NB_INTERNAL, r, "cannot generate a token: %m");
        nb_token_format(&token, text);
        printf("%s\n", text);
        explicit_bzero(text, sizeof(text));
        return 0;
}

/* Never quotes the word: it may be a token with a mistake. */
static int verify_id(const char *word, char ret_id[static NB_TOKEN_ID_LEN + 1],
                     struct nb_failure *f) {
        size_t len = strlen(word);

        if (strspn(word, "abcdefghijklmnopqrstuvwxyz0123456789") < NB_TOKEN_ID_LEN ||
            (len != NB_TOKEN_ID_LEN && nb_token_verify(word, len) < 0))
                return nb_failure_set(f, NB_USAGE, EINVAL,
                                      "expected the ID of a token, 6 characters of a-z and 0-9, or "
                                      "a whole token; found another word of %zu bytes",
                                      len);
        snprintf(ret_id, NB_TOKEN_ID_LEN + 1, "%.*s", NB_TOKEN_ID_LEN, word);
        return 0;
}

/* All words are checked before the first token is deleted. A missing one does not keep the others.
 */
static int revoke_tokens(struct nb_options *options, struct nb_failure *f) {
        _cleanup_(nb_admin_done) struct nb_admin admin = { 0 };
        struct nb_admin_place place = { 0 };
        bool is_dry_run = false;
        const struct nb_option rows[] = {
                { "kubeconfig", "FILE", "use this kubeconfig", .ret_value = &place.kubeconfig },
                { "context", "NAME", "use this context of the kubeconfig",
                  .ret_value = &place.context },
                { "dry-run", NULL, "show what would be deleted", .ret_switch = &is_dry_run },
                { NULL },
        };
        const char *words[NB_TOKEN_WORDS_MAX];
        char id[NB_TOKEN_ID_LEN + 1];
        size_t n;
        int r;

        r = nb_token_read_line(options, rows, words, N_ELEMENTS(words), &n, f);
        if (r < 0)
                return r;
        if (n == 0)
                return nb_failure_set(f, NB_USAGE, 0, "the ID of a token is required");
        for (size_t i = 0; i < n; i++) {
                r = verify_id(words[i], id, f);
                if (r < 0)
                        return r;
        }
        r = nb_admin_connect(&place, &admin, f);
        for (size_t i = 0; i < n && r >= 0; i++) {
                (void)verify_id(words[i], id, f);
                r = is_dry_run ? 1 : nb_token_delete(&admin, id, f);
                if (r > 0)
                        printf("bootstrap token \"%s\" %s\n", id,
                               is_dry_run ? "would be deleted" : "deleted");
                else if (r == 0 && f->code == NB_NONE)
                        (void)nb_failure_set_http(f, NB_ADMIN_MISSING, 404,
                                                  "there is no token with the ID '%s'", id);
        }
        return f->code == NB_NONE ? 0 : -ENOENT;
}

int nb_admin_command_token(struct nb_options *options, struct nb_failure *f) {
        static const struct {
                const char *name, *usage;
                int (*run)(struct nb_options *options, struct nb_failure *f);
        } commands[] = {
                { "generate", generate_usage, generate_token },
                { "create", create_usage, nb_token_create },
                { "list", list_usage, nb_token_list },
                { "revoke", revoke_usage, revoke_tokens },
                { "delete", revoke_usage, revoke_tokens }, /* kubeadm's name */
        };
        char quoted[NB_WORD_QUOTED_SIZE];
        int r = nb_admin_next_command(options, f);

        if (r < 0)
                return r;
        if (r == NB_OPTIONS_END)
                return nb_failure_set(f, NB_USAGE, 0,
                                      "expected one of generate, create, list and revoke");
        for (size_t i = 0; i < N_ELEMENTS(commands); i++)
                if (!strcmp(options->value, commands[i].name)) {
                        options->usage = commands[i].usage;
                        return commands[i].run(options, f);
                }
        return nb_failure_set(f, NB_USAGE, 0, "expected generate, create, list or revoke; found %s",
                              nb_word_quote(options->value, quoted));
}
