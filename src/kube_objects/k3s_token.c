/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/encoding.h"
#include "base/macro.h"
#include "base/text.h"
#include "kube_objects/k3s_token.h"

#define PREFIX "K10"
#define SEPARATOR "::"
/* k3s' agent always uses this name (pkg/agent/run.go, clientaccess.WithUser), since the user
 * "server" may not request a node certificate. */
#define AGENT_USER "node"
#define NODE_PASSWORD_MAX 64 /* k3s makes one of 32 characters */

bool nb_k3s_token_looks_like(const char *data, size_t len) {
        return len >= strlen(PREFIX) && memcmp(data, PREFIX, strlen(PREFIX)) == 0;
}

static int set_password(const char *text, size_t len, const char *source,
                        struct nb_identity *identity) {
        const char *colon = memchr(text, ':', len);
        size_t user_len = colon ? (size_t)(colon - text) : 0, password_len = len - user_len - 1;
        int r;

        if (user_len == 0 || password_len == 0)
                return -EINVAL;
        r = nb_secret_join(&identity->secret, AGENT_USER ":", colon + 1, password_len);
        if (r < 0)
                return r;
        identity->kind = NB_IDENTITY_PASSWORD;
        NB_TEXT_COPY_LINE(identity->source, source);
        return 0;
}

/* Splits a token into the hash, which may be missing, and the credentials after "::". Returns NULL,
 * or why the token is malformed. */
static const char *split_token(const char *data, size_t len, struct nb_k3s_token *token,
                               const char **ret_credentials, size_t *ret_len) {
        const char *hash = data + strlen(PREFIX), *separator;
        size_t hash_len;

        len -= len > 0 && data[len - 1] == '\n';
        if (len > NB_K3S_TOKEN_MAX)
                return "it is too long";
        if (!nb_k3s_token_looks_like(data, len))
                return "it does not begin with K10";
        len -= strlen(PREFIX);
        separator = memmem(hash, len, SEPARATOR, strlen(SEPARATOR));
        if (!separator)
                return "it has no '::'";
        hash_len = (size_t)(separator - hash);
        token->has_hash = hash_len > 0;
        if (token->has_hash && nb_hex_decode(hash, hash_len, token->hash, sizeof(token->hash)) < 0)
                return "the part between K10 and '::' is not 64 hex digits";
        *ret_credentials = separator + strlen(SEPARATOR);
        *ret_len = len - hash_len - strlen(SEPARATOR);
        return nb_text_is_printable(*ret_credentials, *ret_len)
                       ? NULL
                       : "it has an unprintable character, such as a line end, after '::'";
}

int nb_k3s_token_parse(const char *data, size_t len, const char *source,
                       struct nb_k3s_token *ret_token) {
        _cleanup_(nb_k3s_token_done) struct nb_k3s_token token = { .identity = NB_IDENTITY_INIT };
        const char *credentials;
        int r;

        if (split_token(data, len, &token, &credentials, &len))
                return -EINVAL;
        r = nb_token_verify(credentials, len) >= 0
                    ? nb_identity_set_token(&token.identity, credentials, len, source)
                    : set_password(credentials, len, source, &token.identity);
        if (r < 0)
                return r;
        *ret_token = TAKE(token);
        return 0;
}

void nb_any_token_find_flaw(const char *data, size_t len, char ret[static NB_TOKEN_FLAW_SIZE]) {
        struct nb_k3s_token ignored = { .has_hash = false };
        const char *flaw, *credentials;

        if (!nb_k3s_token_looks_like(data, len)) {
                nb_token_find_flaw(data, len, ret);
                return;
        }
        flaw = split_token(data, len, &ignored, &credentials, &len);
        snprintf(ret, NB_TOKEN_FLAW_SIZE, "%s",
                 flaw ? flaw
                      : "the part after '::' is neither USER:PASSWORD nor a bootstrap token");
}

int nb_any_token_verify(const char *data, size_t len, char ret_flaw[static NB_TOKEN_FLAW_SIZE]) {
        _cleanup_(nb_k3s_token_done) struct nb_k3s_token k3s = { .identity = NB_IDENTITY_INIT };

        nb_any_token_find_flaw(data, len, ret_flaw);
        return nb_k3s_token_looks_like(data, len) ? nb_k3s_token_parse(data, len, "", &k3s)
                                                  : nb_token_verify(data, len);
}

bool nb_k3s_token_is_meant(const char *data, size_t len) {
        uint8_t hash[NB_K3S_HASH_SIZE];

        return nb_k3s_token_looks_like(data, len) ||
               nb_hex_decode(data, len, hash, sizeof(hash)) >= 0;
}

const char *nb_k3s_token_hint(const char *data, size_t len) {
        bool is_other = memchr(data, '.', len) || len > 2 * NB_K3S_HASH_SIZE;

        if (len == 0 || nb_token_verify(data, len) == -EBADMSG ||
            (is_other && !nb_k3s_token_looks_like(data, len)))
                return "";
        return "; the full token of `k3s token create` or /var/lib/rancher/k3s/server/node-token "
               "begins with K10 and 64 hex digits";
}

void nb_k3s_token_done(struct nb_k3s_token *token) {
        nb_identity_done(&token->identity);
}

int nb_node_password_parse(struct nb_secret *text, struct nb_failure *f) {
        static const char space[] = { ' ', '\t', '\r', '\n' };
        size_t len = text->len, n = 0;

        while (len > 0 && memchr(space, text->data[len - 1], sizeof(space)))
                len--;
        while (n < len && text->data[n] > ' ' && text->data[n] <= '~')
                n++;
        if (len == 0 || len > NODE_PASSWORD_MAX || n < len)
                return nb_failure_set(f, NB_NODE_PASSWORD_MISSING, EINVAL,
                                      "'" NB_NODE_PASSWORD_FILE "' has %zu characters, the first "
                                      "%zu of them printable; expected 1 to %d printable "
                                      "characters",
                                      len, n, NODE_PASSWORD_MAX);
        text->data[len] = '\0';
        text->len = len;
        return 0;
}
