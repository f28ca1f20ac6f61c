/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "format/k3s_token.h"
#include "format/settings_merge.h"
#include "format/token.h"

#define FORM "six characters, a dot and sixteen, out of a-z and 0-9"
#define FORM_OF_K3S "K10<64 hex digits>::<id>.<secret> or K10<64 hex digits>::<user>:<password>"

/* Where one of the tokens goes. */
struct place {
        struct nb_secret *secret; /* NULL: nobody asks for it */
        char *origin;
        size_t origin_size;
};

/* 0, -EINVAL, -EBADMSG or -ENOMEM. */
static int verify(const char *text, size_t len, bool is_k3s_known, const char **ret_form) {
        _cleanup_(nb_k3s_token_done) struct nb_k3s_token k3s = { .identity = NB_IDENTITY_INIT };
        _cleanup_(nb_token_done) struct nb_token token = { .value = NB_SECRET_INIT };

        *ret_form = FORM;
        if (!is_k3s_known || !nb_k3s_token_is_meant(text, len))
                return nb_token_parse(text, len, &token);
        *ret_form = FORM_OF_K3S;
        return nb_k3s_token_parse(text, len, "", &k3s);
}

static int keep(const struct nb_settings_merge *merge, const struct place *place, const char *text, size_t len) {
        struct nb_secret secret = NB_SECRET_INIT;
        int r;

        if (!place->secret)
                return 0;
        /* Of a newline at the end both forms take one. */
        if (len > 0 && text[len - 1] == '\n')
                len--;
        r = nb_secret_init(&secret, len);
        if (r >= 0)
                r = nb_secret_append(&secret, text, len);
        if (r < 0)
                return nb_failure_set_memory(merge->f);
        nb_secret_done(place->secret);
        *place->secret = secret;
        (void)snprintf(place->origin, place->origin_size, "%s", merge->origin);
        return 0;
}

static int store(const struct nb_settings_merge *merge, const struct nb_yaml_node *node, const char *path, bool is_k3s_known,
                 const struct place *place) {
        char flaw[NB_TOKEN_FLAW_SIZE];
        const char *form = FORM;
        int r = -EINVAL;

        if (merge->is_exposed && !merge->is_metadata)
                return nb_failure_set(merge->f, NB_TOKEN_EXPOSED, EPERM,
                                      "%s:%u: %s: expected a file that others cannot read, found one that they can",
                                      merge->origin, node->line, path);
        if (node->type == NB_YAML_SCALAR)
                r = verify(node->value, node->value_len, is_k3s_known, &form);
        if (r == -ENOMEM)
                return nb_failure_set_memory(merge->f);
        if (r >= 0)
                return keep(merge, place, node->value, node->value_len);
        if (node->type != NB_YAML_SCALAR)
                (void)snprintf(flaw, sizeof(flaw), "it is %s", nb_yaml_type_name(node));
        else if (is_k3s_known)
                nb_any_token_find_flaw(node->value, node->value_len, flaw);
        else
                nb_token_find_flaw(node->value, node->value_len, flaw);
        return nb_failure_set(merge->f, NB_TOKEN_MALFORMED, EINVAL, "%s:%u: %s: expected %s; found something else: %s", merge->origin, node->line,
                              path, form, flaw);
}

int nb_settings_store_discovery_token(const struct nb_settings_merge *merge, const struct nb_yaml_node *node, const char *path,
                                      bool is_k3s_known) {
        struct nb_settings_tokens *tokens = merge->settings->tokens;
        struct place place = { 0 };
        int r;

        if (tokens)
                place = (struct place){ &tokens->discovery, tokens->discovery_origin, sizeof(tokens->discovery_origin) };
        r = store(merge, node, path, is_k3s_known, &place);
        if (r < 0)
                return r;
        merge->settings->has_discovery_token = true;
        nb_settings_set_origin(merge, NB_SETTING_BOOTSTRAP_TOKEN);
        return 0;
}

int nb_settings_store_tls_bootstrap_token(const struct nb_settings_merge *merge, const struct nb_yaml_node *node, const char *path) {
        struct nb_settings_tokens *tokens = merge->settings->tokens;
        struct place place = { 0 };
        int r;

        if (tokens)
                place = (struct place){ &tokens->tls_bootstrap, tokens->tls_bootstrap_origin, sizeof(tokens->tls_bootstrap_origin) };
        r = store(merge, node, path, false, &place);
        if (r < 0)
                return r;
        merge->settings->has_tls_bootstrap_token = true;
        return 0;
}

void nb_settings_tokens_done(struct nb_settings_tokens *tokens) {
        nb_secret_done(&tokens->discovery);
        nb_secret_done(&tokens->tls_bootstrap);
}

void nb_settings_forget_tokens(struct nb_settings *settings) {
        if (settings->tokens)
                nb_settings_tokens_done(settings->tokens);
        settings->tokens = NULL;
        settings->has_discovery_token = settings->has_tls_bootstrap_token = false;
        (void)strcpy(settings->origin[NB_SETTING_BOOTSTRAP_TOKEN], NB_SETTINGS_DEFAULT_ORIGIN);
}
