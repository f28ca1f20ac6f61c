/* SPDX-License-Identifier: Apache-2.0 */
/* `node-bootstrap-admin token list` and `token revoke`. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "admin/client/facts.h"
#include "admin/commands/admin_commands.h"
#include "base/macro.h"
#include "base/text.h"
#include "os/clock.h"

#define FORM "%-23s   %-22s %-24s %-30s %-50s %s\n"

int nb_token_delete(struct nb_admin *admin, const char *id, struct nb_failure *f) {
        _cleanup_(nb_plan_done) struct nb_plan plan = { 0 };
        char name[64];
        int r;

        snprintf(name, sizeof(name), NB_TOKEN_SECRET_NAME_PREFIX "%.*s", NB_TOKEN_ID_LEN, id);
        nb_secret_add_deletion(&plan, name, NULL, NULL);
        r = nb_plan_perform(&plan, admin, f);
        return r < 0 ? r : r < 300;
}

/* --- Listing --- */

static const char *or_none(const char *text) {
        return text[0] ? text : "<none>";
}

/* A Secret that is not a token is reported and passed over, as by kubeadm. */
static int list_secret(void *userdata, struct nb_json *item) {
        bool *has_header = userdata;
        static const char *const usages[] = { "<none>", "signing", "authentication",
                                              "authentication,signing" };
        _cleanup_(nb_bootstrap_token_done) struct nb_bootstrap_token token = { 0 };
        char masked[NB_TOKEN_LEN + 1], expires[NB_RFC3339_SIZE] = "<never>";

        nb_bootstrap_token_read(item, &token);
        if (item->r < 0)
                return item->r;
        if (token.flaw) {
                fflush(stdout);
                fprintf(stderr, "%s: %s\n", token.name, token.flaw);
                return 0;
        }
        if (token.expires == NB_TOKEN_EXPIRATION_MALFORMED)
                snprintf(expires, sizeof(expires), "<invalid>");
        else if (token.expires != 0)
                nb_time_format(token.expires, expires);
        snprintf(masked, sizeof(masked), "%s.****************", token.id);
        if (!*has_header)
                printf(FORM, "TOKEN", "EXPIRES", "USAGES", "DESCRIPTION", "EXTRA GROUPS", "NODE");
        *has_header = true;
        printf(FORM, masked, expires, usages[token.may_sign + 2 * token.may_authenticate],
               or_none(token.description), or_none(token.groups), or_none(token.node));
        return 0;
}

int nb_token_list(struct nb_admin *admin, struct nb_failure *f) {
        bool has_header = false;
        int r = nb_admin_list(admin, "the tokens", NB_TOKENS_PATH, list_secret, &has_header, f);

        return r < 0 ? r : 0;
}

/* --- Revoking --- */

struct revocation {
        struct nb_admin *admin;
        const char *node;
        unsigned n;
};

/* Never quotes the word: it may be a token with a mistake. */
static int verify_id(const char *word, struct nb_failure *f) {
        size_t len = strlen(word);

        if (strspn(word, NB_LOWER NB_DIGITS) >= NB_TOKEN_ID_LEN &&
            (len == NB_TOKEN_ID_LEN || nb_token_verify(word, len) >= 0))
                return 0;
        return nb_failure_set(f, NB_USAGE, EINVAL,
                              "expected the ID of a token, 6 characters of a-z and 0-9, or a whole "
                              "token; found another word of %zu bytes",
                              len);
}

/* `id` may be a whole token. 1; 0: there is no such token. */
static int revoke_token(struct revocation *revocation, const char *id, struct nb_failure *f) {
        int r = nb_token_delete(revocation->admin, id, f);

        if (r > 0)
                printf("bootstrap token \"%.*s\" deleted\n", NB_TOKEN_ID_LEN, id);
        revocation->n += r > 0;
        return r;
}

/* Reads only the names, so that a token that is unusable otherwise is revoked, too. */
static int revoke_secret(void *userdata, struct nb_json *item) {
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

/* All words are checked before the first token is deleted. If one token is missing, the others are
 * deleted nevertheless. */
int nb_token_revoke(struct nb_options *options, struct nb_failure *f) {
        _cleanup_(nb_admin_done) struct nb_admin admin = { 0 };
        struct revocation revocation = { .admin = &admin };
        const struct nb_option rows[] = {
                { "node", "NAME", "all bound tokens for this node", .ret_value = &revocation.node },
                NB_ADMIN_PLACE_OPTIONS(admin.place),
                { NULL },
        };
        int n = nb_admin_read_line(options, rows, options->argc, f), r = 0;

        if (n < 0)
                return n;
        if ((n == 0) == !revocation.node)
                return nb_failure_set(f, NB_USAGE, 0,
                                      "expected the IDs of tokens, or '--node' alone");
        for (int i = 0; i < n && r >= 0; i++)
                r = verify_id(options->argv[i], f);
        if (revocation.node)
                r = nb_admin_verify_node(revocation.node, f);
        if (r >= 0)
                r = nb_admin_connect(&admin, f);
        if (r < 0)
                return r;
        if (revocation.node)
                r = nb_admin_list(&admin, "the tokens", NB_TOKENS_PATH, revoke_secret, &revocation,
                                  f);
        if (r >= 0 && revocation.node && revocation.n == 0)
                return nb_failure_set_http(f, NB_ADMIN_MISSING, 404,
                                           "there is no bound token for the node '%s'",
                                           nb_text_shown(revocation.node));
        for (int i = 0; i < n && r >= 0; i++) {
                r = revoke_token(&revocation, options->argv[i], f);
                if (r == 0)
                        (void)nb_failure_set_http(f, NB_ADMIN_MISSING, 404,
                                                  "there is no token with the ID '%.*s'",
                                                  NB_TOKEN_ID_LEN, options->argv[i]);
        }
        return r < 0 ? r : f->code == NB_NONE ? 0 : -ENOENT;
}
