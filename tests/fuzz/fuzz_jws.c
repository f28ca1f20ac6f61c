/* SPDX-License-Identifier: Apache-2.0 */
#include "base/encoding.h"
#include "fuzz.h"
#include "kube/jws.h"

/* What is accepted is the one text that belongs to this ID and MAC. */
void fuzz_one(const char *data, size_t len) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_JWS_MAX);
        uint8_t mac[NB_JWS_MAC_SIZE];
        struct nb_failure f = {};
        int r;

        r = nb_jws_parse(data, len, "abc123", mac, &f);
        FUZZ_CHECK_FAILURE(f, r);
        if (r < 0)
                return;
        FUZZ_CHECK(nb_jws_input("abc123", "", 0, &text) == 0);
        FUZZ_CHECK(nb_buffer_append_string(&text, ".") == 0);
        FUZZ_CHECK(nb_base64url_encode(mac, sizeof(mac), &text) == 0);
        FUZZ_CHECK(text.len == len && memcmp(text.data, data, len) == 0);
}
