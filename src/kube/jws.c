/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/jws.h"
#include "base/encoding.h"
#include "base/macro.h"
#include "codec/json.h"

#define HEADER_MAX 128

void nb_jws_format(const char *token_id, const char *separator, const void *content, size_t len,
                   struct nb_buffer *ret) {
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
