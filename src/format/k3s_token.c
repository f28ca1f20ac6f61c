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

static const char *find_flaw_of_credentials(const char *text, size_t len) {
        const char *colon = memchr(text, ':', len);
        char flaw[NB_TOKEN_FLAW_SIZE];

        if (len == 0)
                return "nothing stands behind '::'";
        if (text[len - 1] == '\r')
                return "a carriage return stands at its end, as files of Windows have it";
        if (text[len - 1] == '\n')
                return "more than one newline stands at its end";
        if (!nb_text_is_printable(text, len))
                return "a character that is not printable stands behind '::'";
        if (!colon) {
                nb_token_find_flaw(text, len, flaw);
                return flaw[0] ? "what stands behind '::' has no ':', and is no bootstrap token" : "";
        }
        return colon == text ? "no user stands behind '::'" : colon == text + len - 1 ? "no password stands behind the user"
                                                                                      : "";
}

void nb_k3s_token_find_flaw(const char *data, size_t len, char ret[static NB_TOKEN_FLAW_SIZE]) {
        const char *hash = data + strlen(PREFIX), *end = data + len, *separator;
        uint8_t ignored[NB_K3S_HASH_SIZE];
        size_t hash_len;

        if (end > hash && end[-1] == '\n')
                end--;
        separator = memmem(hash, (size_t)(end - hash), SEPARATOR, strlen(SEPARATOR));
        hash_len = separator ? (size_t)(separator - hash) : 0;
        if (end - data > NB_K3S_TOKEN_MAX)
                (void)snprintf(ret, NB_TOKEN_FLAW_SIZE, "it is %zu bytes long, expected at most %d", (size_t)(end - data), NB_K3S_TOKEN_MAX);
        else if (!separator)
                (void)snprintf(ret, NB_TOKEN_FLAW_SIZE, "it has no '::'");
        else if (hash_len > 0 && hash_len != sizeof(ignored) * 2)
                (void)snprintf(ret, NB_TOKEN_FLAW_SIZE, "%zu characters stand between K10 and '::', expected %zu", hash_len, sizeof(ignored) * 2);
        else if (hash_len > 0 && nb_hex_decode(hash, hash_len, ignored, sizeof(ignored)) < 0)
                (void)snprintf(ret, NB_TOKEN_FLAW_SIZE, "not only hex digits stand between K10 and '::'");
        else
                (void)snprintf(ret, NB_TOKEN_FLAW_SIZE, "%s",
                               find_flaw_of_credentials(separator + strlen(SEPARATOR), (size_t)(end - separator) - strlen(SEPARATOR)));
}

void nb_any_token_find_flaw(const char *data, size_t len, char ret[static NB_TOKEN_FLAW_SIZE]) {
        if (nb_k3s_token_is_meant(data, len))
                nb_k3s_token_find_flaw(data, len, ret);
        else
                nb_token_find_flaw(data, len, ret);
}

void nb_k3s_token_done(struct nb_k3s_token *token) {
        nb_identity_done(&token->identity);
}
