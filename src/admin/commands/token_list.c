/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "admin/client/calls.h"
#include "admin/commands/admin_commands.h"
#include "admin/commands/token_command.h"
#include "base/macro.h"
#include "system/clock.h"

#define FORM "%-23s   %-22s %-24s %-30s %-50s %s\n"

static const char *or_none(const char *text) {
        return text[0] ? text : "<none>";
}

static void print_token(const struct nb_bootstrap_token *token) {
        static const char *const usages[] = { "<none>", "signing", "authentication",
                                              "authentication,signing" };
        char masked[NB_TOKEN_TEXT_SIZE], expires[NB_RFC3339_SIZE] = "<never>";

        if (token->expires == NB_TOKEN_EXPIRATION_MALFORMED)
                snprintf(expires, sizeof(expires), "<invalid>");
        else if (token->expires != 0)
                nb_time_format(token->expires, expires);
        snprintf(masked, sizeof(masked), "%s.****************", token->id);
        printf(FORM, masked, expires, usages[token->may_sign + 2 * token->may_authenticate],
               or_none(token->description), or_none(token->groups), or_none(token->node));
}

/* A Secret that is not a token is reported and passed over, as by kubeadm. */
static int visit_secret(void *userdata, struct nb_json *item) {
        bool *has_header = userdata;
        _cleanup_(nb_bootstrap_token_done) struct nb_bootstrap_token token = { 0 };

        nb_bootstrap_token_read(item, &token);
        if (item->r < 0)
                return item->r;
        if (token.flaw) {
                fflush(stdout);
                fprintf(stderr, "%s: %s\n", token.name, token.flaw);
                return 0;
        }
        if (!*has_header)
                printf(FORM, "TOKEN", "EXPIRES", "USAGES", "DESCRIPTION", "EXTRA GROUPS", "NODE");
        *has_header = true;
        print_token(&token);
        return 0;
}

int nb_token_list(struct nb_options *options, struct nb_failure *f) {
        _cleanup_(nb_admin_done) struct nb_admin admin = { 0 };
        struct nb_admin_place place = { 0 };
        const struct nb_option rows[] = { NB_ADMIN_PLACE_OPTIONS(place), { NULL } };
        bool has_header = false;
        int r = nb_options_read(options, rows, f);

        if (r >= 0)
                r = nb_admin_connect(&place, &admin, f);
        if (r < 0)
                return r;
        return nb_admin_list(&admin, "listing the tokens",
                             NB_SECRETS_PATH "?" NB_SECRETS_OF_TOKENS_QUERY, visit_secret,
                             &has_header, NULL, f);
}
