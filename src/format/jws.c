/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/encoding.h"
#include "base/macro.h"
#include "format/json.h"
#include "format/jws.h"

/* Appends base64url of the one header that a signature by this token has. */
static int encode_header(const char *token_id, struct nb_buffer *ret) {
        _cleanup_(nb_buffer_done) struct nb_buffer header = NB_BUFFER_INIT(NB_JWS_MAX);
        int r;

        r = nb_buffer_append_string(&header, "{\"alg\":\"HS256\",\"kid\":");
        if (r >= 0)
                r = nb_json_quote(token_id, strlen(token_id), &header);
        if (r >= 0)
                r = nb_buffer_append_string(&header, "}");
        if (r >= 0)
                r = nb_base64url_encode(header.data, header.len, ret);
        return r;
}

/* The header is not the expected one to the byte: says what is different, so that a person can tell why. */
static int explain_header(const char *text, size_t len, const char *token_id, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer header = NB_BUFFER_INIT(NB_JWS_MAX);
        _cleanup_(nb_json_done) struct nb_json json = {};
        int r;

        r = nb_base64url_decode(text, len, &header);
        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        if (r < 0 || header.len == 0)
                return nb_failure_set(f, NB_SIGNATURE_INVALID, 0,
                                      "signature of cluster-info: expected a header in base64url");
        r = nb_json_parse(header.data, header.len, "header of cluster-info's signature", NB_SIGNATURE_INVALID, &json,
                          f);
        if (r >= 0)
                r = nb_json_expect(&json, "alg", "HS256", f);
        if (r >= 0)
                r = nb_json_expect(&json, "kid", token_id, f);
        if (r < 0)
                return r;
        return nb_failure_set(f, NB_SIGNATURE_INVALID, 0,
                              "signature of cluster-info: expected a header of alg and kid alone, in this order and "
                              "without spaces");
}

static int decode_mac(const char *text, size_t len, uint8_t ret_mac[static NB_JWS_MAC_SIZE], struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer mac = NB_BUFFER_INIT(NB_JWS_MAX);
        int r;

        r = nb_base64url_decode(text, len, &mac);
        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        if (r < 0 || mac.len != NB_JWS_MAC_SIZE)
                return nb_failure_set(
                        f, NB_SIGNATURE_INVALID, 0,
                        "signature of cluster-info: expected a MAC of %d bytes in base64url, found %zu characters",
                        NB_JWS_MAC_SIZE, len);
        memcpy(ret_mac, mac.data, NB_JWS_MAC_SIZE);
        return 0;
}

int nb_jws_parse(const char *text, size_t len, const char *token_id, uint8_t ret_mac[static NB_JWS_MAC_SIZE],
                 struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer expected = NB_BUFFER_INIT(NB_JWS_MAX);
        const char *dots;
        size_t header_len;
        int r;

        if (len > NB_JWS_MAX)
                return nb_failure_set(f, NB_SIGNATURE_INVALID, 0,
                                      "signature of cluster-info: expected at most %d bytes, found %zu", NB_JWS_MAX,
                                      len);
        dots = memmem(text, len, "..", 2);
        if (!dots)
                return nb_failure_set(
                        f, NB_SIGNATURE_INVALID, 0,
                        "signature of cluster-info: expected header, two dots and MAC, found no two dots");
        header_len = (size_t)(dots - text);

        r = encode_header(token_id, &expected);
        if (r < 0)
                return nb_failure_set_memory(f);
        if (header_len != expected.len || memcmp(text, expected.data, header_len) != 0)
                return explain_header(text, header_len, token_id, f);
        return decode_mac(dots + 2, len - header_len - 2, ret_mac, f);
}

int nb_jws_input(const char *token_id, const char *content, size_t len, struct nb_buffer *ret) {
        int r;

        r = encode_header(token_id, ret);
        if (r >= 0)
                r = nb_buffer_append_string(ret, ".");
        if (r >= 0)
                r = nb_base64url_encode(content, len, ret);
        return r;
}
