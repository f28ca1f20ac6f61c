/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/encoding.h"
#include "base/macro.h"
#include "base/text.h"
#include "kube/k3s_token.h"

#define PREFIX "K10"
#define SEPARATOR "::"
/* k3s' agent always uses this name (pkg/agent/run.go, clientaccess.WithUser), since the user
 * "server" may not request a node certificate. */
#define AGENT_USER "node"

bool nb_k3s_token_looks_like(const char *data, size_t len) {
        return len >= strlen(PREFIX) && memcmp(data, PREFIX, strlen(PREFIX)) == 0;
}

static int set_bootstrap_token(const char *text, size_t len, const char *source,
                               struct nb_identity *identity) {
        struct nb_token token;
        int r;

        r = nb_token_parse(text, len, &token);
        if (r < 0)
                return r == -ENOMEM ? r : -EINVAL;
        r = nb_identity_set_token(identity, token.value.data, token.value.len, source);
        nb_token_done(&token);
        return r;
}

static int set_password(const char *text, size_t len, const char *source,
                        struct nb_identity *identity) {
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
        snprintf(identity->source, sizeof(identity->source), "%s", source);
        return 0;
}

int nb_k3s_token_parse(const char *data, size_t len, const char *source,
                       struct nb_k3s_token *ret_token) {
        _cleanup_(nb_k3s_token_done) struct nb_k3s_token token = { .identity = NB_IDENTITY_INIT };
        const char *separator, *credentials;
        int r;

        if (len > 0 && data[len - 1] == '\n')
                len--;
        if (len > NB_K3S_TOKEN_MAX || !nb_k3s_token_looks_like(data, len))
                return -EINVAL;
        data += strlen(PREFIX);
        len -= strlen(PREFIX);
        separator = memmem(data, len, SEPARATOR, strlen(SEPARATOR));
        if (!separator)
                return -EINVAL;
        token.has_hash = separator > data;
        if (token.has_hash &&
            nb_hex_decode(data, (size_t)(separator - data), token.hash, sizeof(token.hash)) < 0)
                return -EINVAL;

        credentials = separator + strlen(SEPARATOR);
        len -= (size_t)(credentials - data);
        /* nb_token_parse() would accept a second newline. */
        if (len > 0 && credentials[len - 1] == '\n')
                return -EINVAL;
        r = set_bootstrap_token(credentials, len, source, &token.identity);
        if (r == -EINVAL)
                r = set_password(credentials, len, source, &token.identity);
        if (r < 0)
                return r;
        *ret_token = TAKE(token);
        return 0;
}

static const char *find_flaw_of_credentials(const char *text, size_t len) {
        const char *colon = memchr(text, ':', len);
        char flaw[NB_TOKEN_FLAW_SIZE];

        if (len == 0)
                return "it has nothing after '::'";
        if (text[len - 1] == '\r')
                return "it ends with a carriage return, as files from Windows do";
        if (text[len - 1] == '\n')
                return "it ends with more than one newline";
        if (!nb_text_is_printable(text, len))
                return "it has an unprintable character after '::'";
        if (!colon) {
                nb_token_find_flaw(text, len, flaw);
                return flaw[0] ? "the part after '::' is neither USER:PASSWORD nor a bootstrap "
                                 "token"
                               : "";
        }
        return colon == text             ? "it has no user after '::'"
               : colon == text + len - 1 ? "it has no password after the user"
                                         : "";
}

static void find_k3s_flaw(const char *data, size_t len, char ret[static NB_TOKEN_FLAW_SIZE]) {
        const char *hash = data + strlen(PREFIX), *end = data + len, *separator;
        uint8_t ignored[NB_K3S_HASH_SIZE];
        size_t hash_len;

        if (end > hash && end[-1] == '\n')
                end--;
        separator = memmem(hash, (size_t)(end - hash), SEPARATOR, strlen(SEPARATOR));
        hash_len = separator ? (size_t)(separator - hash) : 0;
        if (end - data > NB_K3S_TOKEN_MAX)
                snprintf(ret, NB_TOKEN_FLAW_SIZE, "it is %zu bytes long, expected at most %d",
                         (size_t)(end - data), NB_K3S_TOKEN_MAX);
        else if (!separator)
                snprintf(ret, NB_TOKEN_FLAW_SIZE, "it has no '::'");
        else if (hash_len > 0 && hash_len != sizeof(ignored) * 2)
                snprintf(ret, NB_TOKEN_FLAW_SIZE,
                         "it has %zu characters between K10 and '::', expected %zu", hash_len,
                         sizeof(ignored) * 2);
        else if (hash_len > 0 && nb_hex_decode(hash, hash_len, ignored, sizeof(ignored)) < 0)
                snprintf(ret, NB_TOKEN_FLAW_SIZE,
                         "it has characters other than hex digits between K10 and '::'");
        else
                snprintf(ret, NB_TOKEN_FLAW_SIZE, "%s",
                         find_flaw_of_credentials(separator + strlen(SEPARATOR),
                                                  (size_t)(end - separator) - strlen(SEPARATOR)));
}

void nb_any_token_find_flaw(const char *data, size_t len, char ret[static NB_TOKEN_FLAW_SIZE]) {
        if (nb_k3s_token_looks_like(data, len))
                find_k3s_flaw(data, len, ret);
        else
                nb_token_find_flaw(data, len, ret);
}

void nb_k3s_token_done(struct nb_k3s_token *token) {
        nb_identity_done(&token->identity);
}
