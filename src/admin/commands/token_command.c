/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "admin/client/calls.h"
#include "admin/client/facts.h"
#include "admin/commands/admin_commands.h"
#include "admin/commands/token_command.h"
#include "base/macro.h"

#define WORDS_MAX 1000

void nb_token_format(const struct nb_bootstrap_token *token, char ret[static NB_TOKEN_TEXT_SIZE]) {
        snprintf(ret, NB_TOKEN_TEXT_SIZE, "%s.%.*s", token->id, NB_TOKEN_SECRET_LEN, token->secret);
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

struct revocation {
        struct nb_admin admin;
        const char *node;
        unsigned n;
};

static void revocation_done(struct revocation *revocation) {
        nb_admin_done(&revocation->admin);
}

/* 1; 0: there is no such token. */
static int revoke_token(struct revocation *revocation, const char *id, struct nb_failure *f) {
        int r = nb_token_delete(&revocation->admin, id, f);

        if (r > 0)
                printf("bootstrap token \"%s\" deleted\n", id);
        revocation->n += r > 0;
        return r;
}

/* Reads only the names, so that a token that is unusable otherwise is revoked, too. */
static int visit_secret(void *userdata, struct nb_json *item) {
        struct revocation *revocation = userdata;
        const size_t prefix_len = strlen(NB_TOKEN_SECRET_NAME_PREFIX);
        const char *node = nb_json_string(item, "metadata.annotations." NB_TOKEN_NODE_ANNOTATION),
                   *name = nb_json_string(item, "metadata.name");

        if (!node || strcmp(node, revocation->node) != 0 || !name ||
            strncmp(name, NB_TOKEN_SECRET_NAME_PREFIX, prefix_len) != 0 ||
            strlen(name) != prefix_len + NB_TOKEN_ID_LEN)
                return 0;
        return revoke_token(revocation, name + prefix_len, item->f);
}

static int revoke_of_node(struct revocation *revocation, struct nb_failure *f) {
        int r = nb_admin_list(&revocation->admin, "listing the tokens",
                              NB_SECRETS_PATH "?" NB_SECRETS_OF_TOKENS_QUERY, visit_secret,
                              revocation, NULL, f);

        if (r >= 0 && revocation->n == 0)
                r = nb_failure_set_http(f, NB_ADMIN_MISSING, 404,
                                        "there is no bound token for the node '%s'",
                                        revocation->node);
        return r;
}

/* If one is missing, the others are deleted nevertheless. */
static int revoke_ids(struct revocation *revocation, const char *const *words, size_t n,
                      struct nb_failure *f) {
        char id[NB_TOKEN_ID_LEN + 1];
        int r = 0;

        for (size_t i = 0; i < n && r >= 0; i++) {
                (void)verify_id(words[i], id, f);
                r = revoke_token(revocation, id, f);
                if (r == 0 && f->code == NB_NONE)
                        (void)nb_failure_set_http(f, NB_ADMIN_MISSING, 404,
                                                  "there is no token with the ID '%s'", id);
        }
        return f->code == NB_NONE ? 0 : -ENOENT;
}

/* All words are checked before the first token is deleted. */
static int revoke_tokens(struct nb_options *options, struct nb_failure *f) {
        _cleanup_(revocation_done) struct revocation revocation = { 0 };
        struct nb_admin_place place = { 0 };
        const struct nb_option rows[] = {
                { "node", "NAME", "all bound tokens for this node", .ret_value = &revocation.node },
                NB_ADMIN_PLACE_OPTIONS(place),
                { NULL },
        };
        const char *words[WORDS_MAX];
        char id[NB_TOKEN_ID_LEN + 1];
        size_t n;
        int r;

        r = nb_admin_read_line(options, rows, words, N_ELEMENTS(words), &n, f);
        if (r < 0)
                return r;
        if ((n == 0) == !revocation.node)
                return nb_failure_set(f, NB_USAGE, 0,
                                      "expected the IDs of tokens, or '--node' alone");
        for (size_t i = 0; i < n && r >= 0; i++)
                r = verify_id(words[i], id, f);
        if (revocation.node)
                r = nb_token_verify_node("--node", revocation.node, f);
        if (r >= 0)
                r = nb_admin_connect(&place, &revocation.admin, f);
        if (r < 0)
                return r;
        return revocation.node ? revoke_of_node(&revocation, f)
                               : revoke_ids(&revocation, words, n, f);
}

int nb_admin_command_token(struct nb_options *options, struct nb_failure *f) {
        static const char revoke_usage[] =
                "node-bootstrap-admin token revoke [OPTION...] ID...\n"
                "node-bootstrap-admin token revoke [OPTION...] --node=NAME\n\n"
                "Deletes bootstrap tokens by ID, or the bound ones of a node. A whole token is "
                "accepted\nas well.\n";
        static const struct nb_admin_command commands[] = {
                { "generate",
                  "node-bootstrap-admin token generate\n\n"
                  "Prints a random token. Makes no connection and creates nothing.\n",
                  generate_token },
                { "create",
                  "node-bootstrap-admin token create [OPTION...] [TOKEN]\n\n"
                  "Creates a bootstrap token and prints it. With --node or --enrolled, prints "
                  "everything\nthat the machine needs.\n",
                  nb_token_create },
                { "list",
                  "node-bootstrap-admin token list [OPTION...]\n\n"
                  "Lists the bootstrap tokens of the cluster. Secrets are masked.\n",
                  nb_token_list },
                { "revoke", revoke_usage, revoke_tokens },
                { "delete", revoke_usage, revoke_tokens }, /* kubeadm's name */
                { NULL },
        };

        return nb_admin_run_command(options, commands, "generate, create, list or revoke", f);
}
