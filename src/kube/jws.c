/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/encoding.h"
#include "base/macro.h"
#include "codec/json.h"
#include "kube/jws.h"

/* Appends the header of a signature by this token, in base64url. */
static int encode_header(const char *token_id, struct nb_buffer *ret) {
        _cleanup_(nb_buffer_done) struct nb_buffer header = NB_BUFFER_INIT(NB_JWS_MAX);
        struct nb_json_writer writer = { .buffer = &header };
        int r;

        nb_json_open(&writer, NULL, '{');
        nb_json_put_string(&writer, "alg", "HS256");
        nb_json_put_string(&writer, "kid", token_id);
        r = nb_json_finish(&writer);
        return r < 0 ? r : nb_base64url_encode(header.data, header.len, ret);
}

int nb_jws_parse(const char *text, size_t len, const char *token_id,
                 uint8_t ret_mac[static NB_JWS_MAC_SIZE], struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer header = NB_BUFFER_INIT(NB_JWS_MAX),
                                                   mac = NB_BUFFER_INIT(NB_JWS_MAX);
        const char *dots;
        int r;

        if (len > NB_JWS_MAX)
                return nb_failure_set(
                        f, NB_SIGNATURE_INVALID, 0,
                        "signature of cluster-info: expected at most %d bytes, found %zu",
                        NB_JWS_MAX, len);
        dots = memmem(text, len, "..", 2);
        if (!dots)
                return nb_failure_set(f, NB_SIGNATURE_INVALID, 0,
                                      "signature of cluster-info: expected header, two dots and "
                                      "MAC, found no two dots");
        r = encode_header(token_id, &header);
        if (r < 0)
                return nb_failure_set_memory(f);
        if ((size_t)(dots - text) != header.len || memcmp(text, header.data, header.len) != 0)
                return nb_failure_set(f, NB_SIGNATURE_INVALID, 0,
                                      "signature of cluster-info: expected the header "
                                      "{\"alg\":\"HS256\",\"kid\":\"%s\"}, found another one",
                                      token_id);
        len -= header.len + 2;
        r = nb_base64url_decode(dots + 2, len, &mac);
        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        if (r < 0 || mac.len != NB_JWS_MAC_SIZE)
                return nb_failure_set(f, NB_SIGNATURE_INVALID, 0,
                                      "signature of cluster-info: expected a MAC of %d bytes in "
                                      "base64url, found %zu characters",
                                      NB_JWS_MAC_SIZE, len);
        memcpy(ret_mac, mac.data, NB_JWS_MAC_SIZE);
        return 0;
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
