/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "base/text.h"
#include "kube/k3s_token.h"
#include "kube/token.h"
#include "settings/store.h"

/* Verifies the form of a token. *ret_form describes the expected form, and ret_flaw what is wrong.
 * `is_any`: a k3s token is accepted, too. 0, -EINVAL, -EBADMSG (encrypted) or -ENOMEM. */
static int parse_token(const char *text, size_t len, bool is_any, const char **ret_form,
                       char ret_flaw[static NB_TOKEN_FLAW_SIZE]) {
        _cleanup_(nb_k3s_token_done) struct nb_k3s_token k3s = { .identity = NB_IDENTITY_INIT };

        if (is_any && nb_k3s_token_looks_like(text, len)) {
                *ret_form = "K10<hash>::<id>.<secret> or K10<hash>::<user>:<password>";
                nb_any_token_find_flaw(text, len, ret_flaw);
                return nb_k3s_token_parse(text, len, "", &k3s);
        }
        *ret_form = "six characters, a dot and sixteen characters of a-z and 0-9";
        nb_token_find_flaw(text, len, ret_flaw);
        return nb_token_verify(text, len);
}

static int verify_token(const struct nb_settings_merge *merge, bool is_any,
                        const struct nb_yaml_node *node, const char *path) {
        bool is_scalar = node->type == NB_YAML_SCALAR;
        const char *form;
        char flaw[NB_TOKEN_FLAW_SIZE];
        int r;

        /* Metadata is always exposed; users who put a token there accept that. */
        if (merge->source->is_exposed && !merge->source->is_metadata)
                return nb_failure_set(merge->f, NB_TOKEN_EXPOSED, EPERM,
                                      "%s:%u: %s: other users can read this file; it must not "
                                      "contain a token",
                                      merge->source->origin, node->line, path);
        r = parse_token(is_scalar ? node->value : "", is_scalar ? node->value_len : 0, is_any,
                        &form, flaw);
        if (r >= 0)
                return 0;
        if (r == -ENOMEM)
                return nb_failure_set_memory(merge->f);
        if (!is_scalar)
                snprintf(flaw, sizeof(flaw), "it is %s", nb_yaml_type_name(node));
        return nb_failure_set(merge->f, NB_TOKEN_MALFORMED, EINVAL,
                              "%s:%u: %s: expected a token (%s): %s", merge->source->origin,
                              node->line, path, form, flaw);
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
        nb_text_copy_line(merge->source->origin, strlen(merge->source->origin), origin, 128);
        return 0;
}

int nb_settings_store_token(const struct nb_settings_merge *merge, enum nb_settings_token kind,
                            const struct nb_yaml_node *node, const char *path) {
        struct nb_settings *settings = merge->settings;
        struct nb_settings_tokens *tokens = settings->tokens;
        bool is_tls = kind == NB_SETTINGS_TOKEN_TLS_BOOTSTRAP;
        int r;

        r = verify_token(merge, kind == NB_SETTINGS_TOKEN_ANY, node, path);
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
        NB_TEXT_COPY(settings->origin[NB_SETTING_BOOTSTRAP_TOKEN], NB_SETTINGS_DEFAULT_ORIGIN);
}
