/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/encoding.h"
#include "base/macro.h"
#include "codec/json.h"
#include "crypto/digest.h"
#include "kube_calls/jws.h"

#define HEADER_MAX 128

static void append_parts(const char *token_id, const char *separator, const void *content,
                         size_t len, struct nb_buffer *ret) {
        _cleanup_(nb_buffer_done) struct nb_buffer header = NB_BUFFER_INIT(HEADER_MAX);
        struct nb_json_writer writer = { .buffer = &header };

        nb_json_open(&writer, NULL, '{');
        nb_json_put_string(&writer, "alg", "HS256");
        nb_json_put_string(&writer, "kid", token_id);
        if (nb_json_finish(&writer) < 0)
                ret->error = header.error;
        nb_base64url_encode(header.data, header.len, ret);
        nb_buffer_append_string(ret, separator);
        nb_base64url_encode(content, len, ret);
}

int nb_jws_sign(const char *token_id, const char *key, size_t key_len, const char *content,
                struct nb_buffer *ret) {
        const size_t len = strlen(content);
        _cleanup_(nb_buffer_done) struct nb_buffer input = NB_BUFFER_INIT(2 * (HEADER_MAX + len));
        uint8_t mac[NB_SHA256_SIZE];
        int r;

        append_parts(token_id, ".", content, len, &input);
        if (input.error < 0)
                return input.error;
        r = nb_hmac_sha256(key, key_len, input.data, input.len, mac);
        if (r < 0)
                return r;
        append_parts(token_id, "..", mac, sizeof(mac), ret);
        return ret->error;
}
