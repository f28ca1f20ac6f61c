/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "admin/client/calls.h"
#include "admin/commands/token_command.h"
#include "base/macro.h"
#include "system/clock.h"

#define MASKED "****************" /* instead of the secret */

struct listing {
        bool is_json;
        bool has_header;
        struct nb_failure *f;
};

static const char *format_usages(const struct nb_bootstrap_token *token) {
        if (token->may_authenticate)
                return token->may_sign ? "authentication,signing" : "authentication";
        return token->may_sign ? "signing" : "<none>";
}

static const char *or_none(const char *text) {
        return text[0] ? text : "<none>";
}

static void print_text(struct listing *listing, const struct nb_bootstrap_token *token,
                       const char *expires) {
        static const char form[] = "%-23s   %-22s %-24s %-30s %-50s %s\n";
        char masked[NB_TOKEN_TEXT_SIZE];

        if (!listing->has_header)
                printf(form, "TOKEN", "EXPIRES", "USAGES", "DESCRIPTION", "EXTRA GROUPS", "NODE");
        listing->has_header = true;
        snprintf(masked, sizeof(masked), "%s." MASKED, token->id);
        printf(form, masked, expires, format_usages(token), or_none(token->description),
               or_none(token->groups), or_none(token->node));
}

static void put_words(struct nb_json_writer *writer, const char *key, const char *words) {
        char word[NB_TOKEN_GROUPS_MAX + 1];

        nb_json_open(writer, key, '[');
        for (size_t len; *words; words += len + (words[len] == ',')) {
                len = strcspn(words, ",");
                snprintf(word, sizeof(word), "%.*s", (int)len, words);
                nb_json_put_string(writer, NULL, word);
        }
        nb_json_close(writer);
}

/* As kubeadm, which prints one object after the other. */
static int print_object(const struct nb_bootstrap_token *token, const char *expires) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_ADMIN_OBJECT_MAX);
        struct nb_json_writer writer = { .buffer = &text, .is_indented = true };
        char masked[NB_TOKEN_TEXT_SIZE];
        const char *usages = format_usages(token);
        int r;

        snprintf(masked, sizeof(masked), "%s." MASKED, token->id);
        nb_json_open(&writer, NULL, '{');
        nb_json_put_string(&writer, "kind", "BootstrapToken");
        nb_json_put_string(&writer, "apiVersion", "output.kubeadm.k8s.io/v1alpha3");
        nb_json_put_string(&writer, "token", masked);
        if (token->description[0])
                nb_json_put_string(&writer, "description", token->description);
        if (token->expires != 0)
                nb_json_put_string(&writer, "expires", expires);
        put_words(&writer, "usages", usages[0] == '<' ? "" : usages);
        put_words(&writer, "groups", token->groups);
        if (token->node[0])
                nb_json_put_string(&writer, "node", token->node);
        r = nb_json_finish(&writer);
        if (r < 0)
                return r;
        fputs(text.data, stdout);
        return 0;
}

static int print_token(struct listing *listing, const struct nb_bootstrap_token *token) {
        char expires[NB_RFC3339_SIZE] = "<never>";

        if (token->is_expiration_malformed)
                snprintf(expires, sizeof(expires), "<invalid>");
        else if (token->expires != 0)
                nb_time_format(token->expires, expires);
        if (listing->is_json)
                return print_object(token, expires);
        print_text(listing, token, expires);
        return 0;
}

/* A Secret that is not a token is reported and passed over, as by kubeadm. */
static int visit_secret(void *userdata, struct nb_json *item) {
        struct listing *listing = userdata;
        _cleanup_(nb_bootstrap_token_done) struct nb_bootstrap_token token = { 0 };
        struct nb_failure f = { 0 };
        struct nb_json json = { .root = item->root,
                                .what = "a Secret of a token",
                                .code = NB_ANSWER_MALFORMED,
                                .f = &f };
        char name[128];

        nb_bootstrap_token_read(&json, &token);
        if (json.r < 0) {
                nb_json_line(item, "metadata.name", name, sizeof(name));
                fflush(stdout);
                fprintf(stderr, "%s: %s\n", name, f.detail);
                return 0;
        }
        return print_token(listing, &token) < 0 ? nb_failure_set_memory(listing->f) : 0;
}

int nb_token_list(struct nb_options *options, struct nb_failure *f) {
        _cleanup_(nb_admin_done) struct nb_admin admin = { 0 };
        struct nb_admin_place place = { 0 };
        struct listing listing = { .f = f };
        const char *output = "text";
        const struct nb_option rows[] = {
                { "kubeconfig", "FILE", "use this kubeconfig", .ret_value = &place.kubeconfig },
                { "context", "NAME", "use this context of the kubeconfig",
                  .ret_value = &place.context },
                { "output", "FORMAT", "text or json; also -o", .ret_value = &output },
                { "o", "FORMAT", NULL, .ret_value = &output },
                { NULL },
        };
        char quoted[NB_WORD_QUOTED_SIZE];
        int r = nb_options_read(options, rows, f);

        if (r < 0)
                return r;
        listing.is_json = !strcmp(output, "json");
        if (!listing.is_json && strcmp(output, "text") != 0)
                return nb_failure_set(f, NB_USAGE, 0, "'--output' accepts text or json; found %s",
                                      nb_word_quote(output, quoted));
        r = nb_admin_connect(&place, &admin, f);
        if (r < 0)
                return r;
        return nb_admin_list(&admin, "listing the tokens",
                             NB_SECRETS_PATH "?" NB_SECRETS_OF_TOKENS_QUERY, visit_secret, &listing,
                             NULL, f);
}
