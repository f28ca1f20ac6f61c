/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "admin/policy/bootstrap_token.h"
#include "admin/policy/token_secret.h"
#include "base/encoding.h"
#include "base/macro.h"
#include "system/clock.h"

void nb_token_secret_done(struct nb_token_secret *secret) {
        if (secret->key.data)
                explicit_bzero(secret->key.data, secret->key.allocated);
        nb_buffer_done(&secret->key);
}

bool nb_token_secret_is_expired(time_t expires, time_t now) {
        return expires != 0 && expires <= now;
}

/* Decodes a value into a buffer that never grows, since growing would leave copies of a secret.
 * `ret` stays empty if there is no value. The API server accepts nothing but base64. */
static void decode_value(struct nb_json *json, const char *key, struct nb_buffer *ret) {
        char path[64];
        const char *text;

        snprintf(path, sizeof(path), "data.%s", key);
        text = nb_json_string(json, path);
        if (!text)
                return;
        *ret = (struct nb_buffer)NB_BUFFER_INIT(strlen(text));
        nb_buffer_append_string(ret, text);
        if (ret->error >= 0) {
                nb_buffer_clear(ret);
                (void)nb_base64_decode(text, strlen(text), ret);
        }
        if (ret->error == -ENOMEM && json->r >= 0)
                json->r = nb_failure_set_memory(json->f);
}

static bool has_value(struct nb_json *json, const char *key, const char *expected, size_t len) {
        _cleanup_(nb_buffer_done) struct nb_buffer value = { 0 };

        decode_value(json, key, &value);
        return value.error >= 0 && value.len == len && memcmp(value.data, expected, len) == 0;
}

static time_t read_expiration(struct nb_json *json) {
        _cleanup_(nb_buffer_done) struct nb_buffer value = { 0 };
        time_t when = 0;

        decode_value(json, "expiration", &value);
        if (value.len == 0 && value.error >= 0)
                return 0;
        if (value.error < 0 || strlen(value.data) != value.len ||
            nb_rfc3339_parse(value.data, &when) < 0 || when <= 0)
                return 1;
        return when;
}

/* Finds the ID in the name, if it is that of a token that cluster-info may be signed with. */
static void read_signer(struct nb_json *json, struct nb_token_secret *secret) {
        const size_t prefix_len = strlen(NB_TOKEN_SECRET_NAME_PREFIX);
        const char *id = secret->name + prefix_len;

        if (strncmp(secret->name, NB_TOKEN_SECRET_NAME_PREFIX, prefix_len) != 0 ||
            strlen(id) != NB_TOKEN_ID_LEN ||
            strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789") != NB_TOKEN_ID_LEN ||
            !has_value(json, "token-id", id, NB_TOKEN_ID_LEN) ||
            !has_value(json, "usage-bootstrap-signing", "true", strlen("true")))
                return;
        decode_value(json, "token-secret", &secret->key);
        if (secret->key.len > 0 && secret->key.error >= 0)
                memcpy(secret->signer_id, id, NB_TOKEN_ID_LEN + 1);
}

void nb_token_secret_read(struct nb_json *json, struct nb_token_secret *ret_secret) {
        struct nb_token_secret secret = { 0 };
        const char *created;

        nb_json_copy(json, "metadata.name", secret.name, sizeof(secret.name));
        nb_json_copy(json, "metadata.uid", secret.uid, sizeof(secret.uid));
        nb_json_copy(json, "metadata.resourceVersion", secret.resource_version,
                     sizeof(secret.resource_version));
        created = nb_json_string(json, "metadata.creationTimestamp");
        if (created && nb_rfc3339_parse(created, &secret.created) < 0)
                secret.created = 0;
        secret.expires = read_expiration(json);
        read_signer(json, &secret);
        if (json->r < 0)
                nb_token_secret_done(&secret);
        else
                *ret_secret = secret;
}
