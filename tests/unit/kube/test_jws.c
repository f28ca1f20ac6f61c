/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/encoding.h"
#include "kube/jws.h"

#include "allocation.h"
#include "case.h"

/* Header and MAC of kubernetes cluster-bootstrap/token/jws/jws_test.go. */
#define HEADER_JOSHUA "eyJhbGciOiJIUzI1NiIsImtpZCI6Impvc2h1YSJ9"
#define HEADER_ABC123 "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFiYzEyMyJ9"
#define MAC "VShe2taLd-YTrmWuRkcL_8QTNDHYxQIEBsAYYiIj1_8"

struct vector {
        const char *name;
        const char *content, *token_id;
        const char *signature, *mac_hex;
        const char *input;
};

static struct vector vectors[] = {
        { "published: a sentence",
          "Hello from the other side. I must have called a thousand times.", "joshua",
          HEADER_JOSHUA ".." MAC,
          "55285edad68b77e613ae65ae46470bffc4133431d8c5020406c018622223d7ff",
          HEADER_JOSHUA
          ".SGVsbG8gZnJvbSB0aGUgb3RoZXIgc2lkZS4gSSBtdXN0IGhhdmUgY2FsbGVkIGEgdGhvdXNhbmQgdGltZXMu" },
        { "published: nothing", "", "joshua",
          HEADER_JOSHUA "..7Ui1ALizW4jXphVUB7xUqC9vLYLL9RZeOFfVLoB7Tgk",
          "ed48b500b8b35b88d7a6155407bc54a82f6f2d82cbf5165e3857d52e807b4e09", HEADER_JOSHUA "." },
        { "published: a word", "payload", "abc123",
          HEADER_ABC123 "..QSxpUG7Q542CirTI2ECPSZjvBOJURUW5a7XqFpNI958",
          "412c69506ed0e78d828ab4c8d8408f4998ef04e2544545b96bb5ea169348f79f",
          HEADER_ABC123 ".cGF5bG9hZA" },
};

static void agrees_with_kubernetes(void **state) {
        const struct vector *v = *state;
        _cleanup_(nb_buffer_done) struct nb_buffer input = NB_BUFFER_INIT(1024),
                                                   signature = NB_BUFFER_INIT(1024);
        uint8_t mac[NB_JWS_MAC_SIZE];

        nb_jws_format(v->token_id, NB_JWS_INPUT, v->content, strlen(v->content), &input);
        assert_string_equal(input.data, v->input);
        assert_int_equal(nb_hex_decode(v->mac_hex, strlen(v->mac_hex), mac, sizeof(mac)), 0);
        nb_jws_format(v->token_id, NB_JWS_SIGNATURE, mac, sizeof(mac), &signature);
        assert_string_equal(signature.data, v->signature);
}

static int run(const void *input) {
        static const uint8_t mac[NB_JWS_MAC_SIZE];
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(1024);

        nb_jws_format("joshua", NB_JWS_INPUT, input, strlen(input), &text);
        nb_jws_format("joshua", NB_JWS_SIGNATURE, mac, sizeof(mac), &text);
        return text.error;
}

static void memory_runs_out(void **state) {
        allocation_try_all(run, "content");
}

int main(void) {
        CASES(vectors, agrees_with_kubernetes);
        CASE(memory_runs_out);
        return case_run("jws");
}
