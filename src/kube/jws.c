/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/jws.h"
#include "base/encoding.h"
#include "base/macro.h"
#include "codec/json.h"

#define HEADER_MAX 128

/* Appends the header of a signature by this token, in base64url. */
static int encode_header(const char *token_id, struct nb_buffer *ret) {
        _cleanup_(nb_buffer_done) struct nb_buffer header = NB_BUFFER_INIT(HEADER_MAX);
        struct nb_json_writer writer = { .buffer = &header };
        int r;

        nb_json_open(&writer, NULL, '{');
        nb_json_put_string(&writer, "alg", "HS256");
        nb_json_put_string(&writer, "kid", token_id);
        r = nb_json_finish(&writer);
        return r < 0 ? r : nb_base64url_encode(header.data, header.len, ret);
}

int nb_jws_input(const char *token_id, const char *content, size_t len, struct nb_buffer *ret) {
        int r;

        r = encode_header(token_id, ret);
        if (r < 0)
                return r;
        r = nb_buffer_append_string(ret, ".");
        return r < 0 ? r : nb_base64url_encode(content, len, ret);
}

int nb_jws_format(const char *token_id, const uint8_t mac[static NB_JWS_MAC_SIZE],
                  struct nb_buffer *ret) {
        int r;

        r = encode_header(token_id, ret);
        if (r < 0)
                return r;
        r = nb_buffer_append_string(ret, "..");
        return r < 0 ? r : nb_base64url_encode(mac, NB_JWS_MAC_SIZE, ret);
}
