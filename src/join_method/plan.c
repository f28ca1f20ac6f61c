/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/macro.h"
#include "base/text.h"
#include "join_method/plan.h"

#define PLAN "plan"
#define DISCOVERY "discovery"
#define TLS_BOOTSTRAP "tls-bootstrap"

static int put_token(struct nb_sources *sources, const char *name, const struct nb_secret *token) {
        return token->data ? nb_sources_put(sources, NB_SOURCE_PLAN, name, 0, token) : 0;
}

int nb_plan_put(struct nb_sources *sources, const struct nb_plan *plan,
                const struct nb_settings_tokens *tokens) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        struct nb_plan *copy;
        int r;

        r = nb_secret_copy(&text, (const char *)plan, sizeof(*plan));
        if (r < 0)
                return r;
        copy = (struct nb_plan *)(void *)text.data;
        copy->settings.tokens = NULL;
        if (tokens) {
                NB_TEXT_COPY(copy->discovery_origin, tokens->discovery_origin);
                NB_TEXT_COPY(copy->tls_bootstrap_origin, tokens->tls_bootstrap_origin);
        }
        r = nb_sources_put(sources, NB_SOURCE_PLAN, PLAN, 0, &text);
        if (r >= 0 && tokens)
                r = put_token(sources, DISCOVERY, &tokens->discovery);
        if (r >= 0 && tokens)
                r = put_token(sources, TLS_BOOTSTRAP, &tokens->tls_bootstrap);
        return r;
}

static int take_token(const struct nb_sources *sources, const char *name, struct nb_secret *ret) {
        const struct nb_secret *token = nb_sources_find(sources, NB_SOURCE_PLAN, name);

        return token ? nb_secret_copy(ret, token->data, token->len) : 0;
}

int nb_plan_take(struct nb_sources *sources, struct nb_plan *ret,
                 struct nb_settings_tokens *ret_tokens, struct nb_failure *f) {
        const struct nb_secret *text;
        int r = nb_sources_receive(sources, f);

        if (r < 0)
                return r;
        text = nb_sources_find(sources, NB_SOURCE_PLAN, PLAN);
        if (!text)
                return nb_failure_set(f, NB_USAGE, 0, "no settings were passed");
        /* Two builds of one commit may have the same name, which nb_sources_receive() compares. */
        if (text->len != sizeof(*ret))
                return nb_failure_set(f, NB_PROGRAM_REPLACED, 0,
                                      "this program and the service are not from the same build");
        memcpy(ret, text->data, sizeof(*ret));
        r = take_token(sources, DISCOVERY, &ret_tokens->discovery);
        if (r >= 0)
                r = take_token(sources, TLS_BOOTSTRAP, &ret_tokens->tls_bootstrap);
        if (r < 0)
                return nb_failure_set_memory(f);
        NB_TEXT_COPY(ret_tokens->discovery_origin, ret->discovery_origin);
        NB_TEXT_COPY(ret_tokens->tls_bootstrap_origin, ret->tls_bootstrap_origin);
        ret->settings.tokens = ret_tokens;
        return 0;
}
