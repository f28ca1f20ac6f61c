/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/encoding.h"
#include "base/macro.h"
#include "base/text.h"
#include "format/k3s_token.h"

#define PREFIX "K10"
#define SEPARATOR "::"
#define HEX_DIGITS "0123456789abcdefABCDEF"
/* Whom k3s' agent shows itself as, whoever the token was printed for (pkg/agent/run.go, clientaccess.WithUser): the user
 * "server" may not ask for a node's certificate. */
#define AGENT_USER "node"

bool nb_k3s_token_is_meant(const char *data, size_t len) {
        return len >= strlen(PREFIX) && memcmp(data, PREFIX, strlen(PREFIX)) == 0;
}

bool nb_k3s_token_may_stand_in(const char *text) {
        for (const char *p = strstr(text, PREFIX); p; p = strstr(p + 1, PREFIX)) {
                const char *hash = p + strlen(PREFIX);

                if (strncmp(hash + strspn(hash, HEX_DIGITS), SEPARATOR, strlen(SEPARATOR)) == 0)
                        return true;
        }
        return false;
}

bool nb_any_token_may_stand_in(const char *text) {
        return nb_token_may_stand_in(text) || nb_k3s_token_may_stand_in(text);
}

/* The hash, or nothing in its place. */
static int parse_hash(const char *text, size_t len, struct nb_k3s_token *token) {
        if (len == 0)
                return 0;
        token->has_hash = true;
        return nb_hex_decode(text, len, token->hash, sizeof(token->hash));
}

static int set_bootstrap_token(const char *text, size_t len, const char *source, struct nb_identity *identity) {
        struct nb_token token;
        int r;

        r = nb_token_parse(text, len, &token);
        if (r < 0)
                return r == -ENOMEM ? r : -EINVAL;
        r = nb_identity_set_token(identity, token.value.data, token.value.len, source);
        nb_token_done(&token);
        return r;
}

static int set_password(const char *text, size_t len, const char *source, struct nb_identity *identity) {
        const char *colon = memchr(text, ':', len);
        size_t user_len = colon ? (size_t)(colon - text) : 0, password_len = len - user_len - 1;
        int r;

        if (user_len == 0 || password_len == 0 || !nb_text_is_printable(text, len))
                return -EINVAL;
        r = nb_secret_init(&identity->secret, strlen(AGENT_USER ":") + password_len);
        if (r >= 0)
                r = nb_secret_append(&identity->secret, AGENT_USER ":", strlen(AGENT_USER ":"));
        if (r >= 0)
                r = nb_secret_append(&identity->secret, colon + 1, password_len);
        if (r < 0)
                return r;
        identity->kind = NB_IDENTITY_PASSWORD;
        (void)snprintf(identity->source, sizeof(identity->source), "%s", source);
        return 0;
}

int nb_k3s_token_parse(const char *data, size_t len, const char *source, struct nb_k3s_token *ret_token) {
        _cleanup_(nb_k3s_token_done) struct nb_k3s_token token = { .identity = NB_IDENTITY_INIT };
        const char *separator, *credentials;
        int r;

        if (len > 0 && data[len - 1] == '\n')
                len--;
        if (len > NB_K3S_TOKEN_MAX || !nb_k3s_token_is_meant(data, len))
                return -EINVAL;
        data += strlen(PREFIX);
        len -= strlen(PREFIX);
        separator = memmem(data, len, SEPARATOR, strlen(SEPARATOR));
        if (!separator)
                return -EINVAL;
        r = parse_hash(data, (size_t)(separator - data), &token);
        if (r < 0)
                return r;

        credentials = separator + strlen(SEPARATOR);
        len -= (size_t)(credentials - data);
        /* A newline more than the one that was taken off is refused, also where a bootstrap token would pass with it. */
        if (len > 0 && credentials[len - 1] == '\n')
                return -EINVAL;
        r = set_bootstrap_token(credentials, len, source, &token.identity);
        if (r == -EINVAL)
                r = set_password(credentials, len, source, &token.identity);
        if (r < 0)
                return r;
        *ret_token = token;
        token = (struct nb_k3s_token){ .identity = NB_IDENTITY_INIT };
        return 0;
}

void nb_k3s_token_done(struct nb_k3s_token *token) {
        nb_identity_done(&token->identity);
}
