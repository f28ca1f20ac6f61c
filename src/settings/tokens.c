/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "kube/k3s_token.h"
#include "kube/token.h"
#include "settings/store.h"

#define FORM "six characters, a dot and sixteen characters of a-z and 0-9"
#define FORM_OF_K3S "K10<64 hex digits>::<id>.<secret> or K10<64 hex digits>::<user>:<password>"

/* 0, -EINVAL, -EBADMSG or -ENOMEM. */
static int parse_token(const char *text, size_t len, bool is_k3s) {
        _cleanup_(nb_k3s_token_done) struct nb_k3s_token k3s = { .identity = NB_IDENTITY_INIT };
        _cleanup_(nb_token_done) struct nb_token token = { .value = NB_SECRET_INIT };

        return is_k3s ? nb_k3s_token_parse(text, len, "", &k3s) : nb_token_parse(text, len, &token);
}

static int verify_token(const struct nb_settings_merge *merge, enum nb_settings_token kind,
                        const struct nb_yaml_node *node, const char *path) {
        bool is_scalar = node->type == NB_YAML_SCALAR, is_any = kind == NB_SETTINGS_TOKEN_ANY;
        bool is_k3s = is_scalar && is_any && nb_k3s_token_looks_like(node->value, node->value_len);
        char flaw[NB_TOKEN_FLAW_SIZE];
        int r;

        /* Metadata is always exposed; whoever puts a token there accepts that. */
        if (merge->source->is_exposed && !merge->source->is_metadata)
                return nb_failure_set(merge->f, NB_TOKEN_EXPOSED, EPERM,
                                      "%s:%u: %s: other users can read this file; it must not "
                                      "contain a token",
                                      merge->source->origin, node->line, path);
        r = is_scalar ? parse_token(node->value, node->value_len, is_k3s) : -EINVAL;
        if (r >= 0)
                return 0;
        if (r == -ENOMEM)
                return nb_failure_set_memory(merge->f);
        if (!is_scalar)
                snprintf(flaw, sizeof(flaw), "it is %s", nb_yaml_type_name(node));
        else if (is_any)
                nb_any_token_find_flaw(node->value, node->value_len, flaw);
        else
                nb_token_find_flaw(node->value, node->value_len, flaw);
        return nb_failure_set(merge->f, NB_TOKEN_MALFORMED, EINVAL,
                              "%s:%u: %s: expected a token (%s): %s", merge->source->origin,
                              node->line, path, is_k3s ? FORM_OF_K3S : FORM, flaw);
}

static int keep_token(const struct nb_settings_merge *merge, const struct nb_yaml_node *node,
                      struct nb_secret *token, char origin[static 128]) {
        struct nb_secret secret = NB_SECRET_INIT;
        size_t len = node->value_len;
        int r;

        /* Both forms accept a newline at the end. */
        if (len > 0 && node->value[len - 1] == '\n')
                len--;
        r = nb_secret_init(&secret, len);
        if (r >= 0)
                r = nb_secret_append(&secret, node->value, len);
        if (r < 0)
                return nb_failure_set_memory(merge->f);
        nb_secret_done(token);
        *token = secret;
        snprintf(origin, 128, "%s", merge->source->origin);
        return 0;
}

int nb_settings_store_token(const struct nb_settings_merge *merge, enum nb_settings_token kind,
                            const struct nb_yaml_node *node, const char *path) {
        struct nb_settings *settings = merge->settings;
        struct nb_settings_tokens *tokens = settings->tokens;
        bool is_tls = kind == NB_SETTINGS_TOKEN_TLS_BOOTSTRAP;
        int r;

        r = verify_token(merge, kind, node, path);
        if (r >= 0 && tokens)
                r = keep_token(merge, node, is_tls ? &tokens->tls_bootstrap : &tokens->discovery,
                               is_tls ? tokens->tls_bootstrap_origin : tokens->discovery_origin);
        if (r < 0)
                return r;
        if (is_tls)
                settings->has_tls_bootstrap_token = true;
        else {
                settings->has_discovery_token = true;
                nb_settings_set_origin(merge, NB_SETTING_BOOTSTRAP_TOKEN);
        }
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
        strcpy(settings->origin[NB_SETTING_BOOTSTRAP_TOKEN], NB_SETTINGS_DEFAULT_ORIGIN);
}
