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
        _cleanup_(nb_buffer_done) struct nb_buffer input = NB_BUFFER_INIT(1024);
        uint8_t mac[NB_JWS_MAC_SIZE];
        char hex[2 * NB_JWS_MAC_SIZE + 1];
        struct nb_failure f = {};

        assert_int_equal(nb_jws_parse(v->signature, strlen(v->signature), v->token_id, mac, &f), 0);
        nb_hex_encode(mac, sizeof(mac), hex);
        assert_string_equal(hex, v->mac_hex);
        assert_int_equal(nb_jws_input(v->token_id, v->content, strlen(v->content), &input), 0);
        assert_string_equal(input.data, v->input);
}

struct jws_case {
        const char *name;
        const char *header; /* in plain, to be encoded; NULL: `text` is everything */
        const char *text;
        const char *detail;
};

#define FORM "signature of cluster-info: expected "

static struct jws_case refused[] = {
        { "nothing", NULL, "", FORM "header, two dots and MAC, found no two dots" },
        { "one dot", NULL, HEADER_JOSHUA "." MAC,
          FORM "header, two dots and MAC, found no two dots" },
        { "a payload between the dots", NULL, HEADER_JOSHUA ".cGF5bG9hZA." MAC,
          FORM "header, two dots and MAC, found no two dots" },
        { "no header", NULL, ".." MAC,
          FORM "the header {\"alg\":\"HS256\",\"kid\":\"joshua\"}, found another one" },
        { "a header that is not base64url", NULL, "e30=.." MAC,
          FORM "the header {\"alg\":\"HS256\",\"kid\":\"joshua\"}, found another one" },
        { "a header that is not JSON", "alg=HS256", ".." MAC,
          "signature of cluster-info: expected the header {\"alg\":\"HS256\",\"kid\":\"joshua\"}, "
          "found another one" },
        { "a header that is a list", "[]", ".." MAC,
          "signature of cluster-info: expected the header {\"alg\":\"HS256\",\"kid\":\"joshua\"}, "
          "found another one" },
        { "no algorithm", "{\"kid\":\"joshua\"}", ".." MAC,
          "signature of cluster-info: expected the header {\"alg\":\"HS256\",\"kid\":\"joshua\"}, "
          "found another one" },
        { "the algorithm none", "{\"alg\":\"none\",\"kid\":\"joshua\"}", "..",
          "signature of cluster-info: expected the header {\"alg\":\"HS256\",\"kid\":\"joshua\"}, "
          "found another one" },
        { "another algorithm", "{\"alg\":\"HS512\",\"kid\":\"joshua\"}", ".." MAC,
          "signature of cluster-info: expected the header {\"alg\":\"HS256\",\"kid\":\"joshua\"}, "
          "found another one" },
        { "the algorithm in lower case", "{\"alg\":\"hs256\",\"kid\":\"joshua\"}", ".." MAC,
          "signature of cluster-info: expected the header {\"alg\":\"HS256\",\"kid\":\"joshua\"}, "
          "found another one" },
        { "another token's ID", "{\"alg\":\"HS256\",\"kid\":\"abc123\"}", ".." MAC,
          "signature of cluster-info: expected the header {\"alg\":\"HS256\",\"kid\":\"joshua\"}, "
          "found another one" },
        { "an ID that is an integer", "{\"alg\":\"HS256\",\"kid\":5}", ".." MAC,
          "signature of cluster-info: expected the header {\"alg\":\"HS256\",\"kid\":\"joshua\"}, "
          "found another one" },
        { "two algorithms", "{\"alg\":\"HS256\",\"alg\":\"HS256\",\"kid\":\"joshua\"}", ".." MAC,
          "signature of cluster-info: expected the header {\"alg\":\"HS256\",\"kid\":\"joshua\"}, "
          "found another one" },
        { "another order", "{\"kid\":\"joshua\",\"alg\":\"HS256\"}", ".." MAC,
          FORM "the header {\"alg\":\"HS256\",\"kid\":\"joshua\"}, found another one" },
        { "spaces", "{\"alg\": \"HS256\", \"kid\": \"joshua\"}", ".." MAC,
          FORM "the header {\"alg\":\"HS256\",\"kid\":\"joshua\"}, found another one" },
        { "a third member", "{\"alg\":\"HS256\",\"kid\":\"joshua\",\"crit\":[]}", ".." MAC,
          FORM "the header {\"alg\":\"HS256\",\"kid\":\"joshua\"}, found another one" },
        { "no MAC", NULL, HEADER_JOSHUA "..",
          FORM "a MAC of 32 bytes in base64url, found 0 characters" },
        { "a MAC too short", NULL, HEADER_JOSHUA "..VShe2taLd-YTrmWuRkcL_8QTNDHYxQIEBsAYYiIj1w",
          FORM "a MAC of 32 bytes in base64url, found 42 characters" },
        { "a MAC too long", NULL, HEADER_JOSHUA ".." MAC "AA",
          FORM "a MAC of 32 bytes in base64url, found 45 characters" },
        { "a MAC with padding", NULL, HEADER_JOSHUA ".." MAC "=",
          FORM "a MAC of 32 bytes in base64url, found 44 characters" },
        { "a MAC in base64", NULL, HEADER_JOSHUA "..VShe2taLd+YTrmWuRkcL/8QTNDHYxQIEBsAYYiIj1/8",
          FORM "a MAC of 32 bytes in base64url, found 43 characters" },
        { "a MAC with a spare bit", NULL,
          HEADER_JOSHUA "..VShe2taLd-YTrmWuRkcL_8QTNDHYxQIEBsAYYiIj1_9",
          FORM "a MAC of 32 bytes in base64url, found 43 characters" },
        { "a newline at the end", NULL, HEADER_JOSHUA ".." MAC "\n",
          FORM "a MAC of 32 bytes in base64url, found 44 characters" },
};

static void refuses(void **state) {
        const struct jws_case *c = *state;
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(1024);
        uint8_t mac[NB_JWS_MAC_SIZE];
        struct nb_failure f = {};

        if (c->header)
                assert_int_equal(nb_base64url_encode(c->header, strlen(c->header), &text), 0);
        assert_int_equal(nb_buffer_append_string(&text, c->text), 0);
        assert_true(nb_jws_parse(text.data, text.len, "joshua", mac, &f) < 0);
        assert_int_equal(f.code, NB_SIGNATURE_INVALID);
        assert_string_equal(f.detail, c->detail);
}

static void length_has_a_limit(void **state) {
        char text[NB_JWS_MAX + 1];
        uint8_t mac[NB_JWS_MAC_SIZE];
        struct nb_failure f = {};

        memset(text, 'A', sizeof(text));
        assert_true(nb_jws_parse(text, sizeof(text), "joshua", mac, &f) < 0);
        assert_string_equal(f.detail, FORM "at most 512 bytes, found 513");
}

static int run(const void *input) {
        uint8_t mac[NB_JWS_MAC_SIZE];
        struct nb_failure f = {};

        return nb_jws_parse(input, strlen(input), "joshua", mac, &f);
}

static void memory_runs_out(void **state) {
        allocation_try_all(run, HEADER_JOSHUA ".." MAC);
}

int main(void) {
        CASES(vectors, agrees_with_kubernetes);
        CASES(refused, refuses);
        CASE(length_has_a_limit);
        CASE(memory_runs_out);
        return case_run("jws");
}
