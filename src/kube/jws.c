/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/jws.h"
#include "base/encoding.h"
#include "base/macro.h"
#include "codec/json.h"

#define HEADER_MAX 128

/* Appends the header of a signature by this token, in base64url. */
static void encode_header(const char *token_id, struct nb_buffer *ret) {
        _cleanup_(nb_buffer_done) struct nb_buffer header = NB_BUFFER_INIT(HEADER_MAX);
        struct nb_json_writer writer = { .buffer = &header };

        nb_json_open(&writer, NULL, '{');
        nb_json_put_string(&writer, "alg", "HS256");
        nb_json_put_string(&writer, "kid", token_id);
        if (nb_json_finish(&writer) < 0)
                ret->error = header.error;
        nb_base64url_encode(header.data, header.len, ret);
}

void nb_jws_input(const char *token_id, const char *content, size_t len, struct nb_buffer *ret) {
        encode_header(token_id, ret);
        nb_buffer_append_string(ret, ".");
        nb_base64url_encode(content, len, ret);
}

void nb_jws_format(const char *token_id, const uint8_t mac[static NB_JWS_MAC_SIZE],
                   struct nb_buffer *ret) {
        encode_header(token_id, ret);
        nb_buffer_append_string(ret, "..");
        nb_base64url_encode(mac, NB_JWS_MAC_SIZE, ret);
}
