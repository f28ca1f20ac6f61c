/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/macro.h"
#include "kube_calls/jws.h"

#include "allocation.h"
#include "case.h"

/* Headers of kubernetes cluster-bootstrap/token/jws/jws_test.go. */
#define HEADER_JOSHUA "eyJhbGciOiJIUzI1NiIsImtpZCI6Impvc2h1YSJ9"
#define HEADER_ABC123 "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFiYzEyMyJ9"

struct vector {
        const char *name, *content, *token_id, *key, *signature;
};

static struct vector vectors[] = {
        { "published: a sentence",
          "Hello from the other side. I must have called a thousand times.", "joshua",
          "my voice is my passcode",
          HEADER_JOSHUA "..VShe2taLd-YTrmWuRkcL_8QTNDHYxQIEBsAYYiIj1_8" },
        { "published: nothing", "", "joshua", "my voice is my passcode",
          HEADER_JOSHUA "..7Ui1ALizW4jXphVUB7xUqC9vLYLL9RZeOFfVLoB7Tgk" },
        { "published: a word", "payload", "abc123", "tokenSecret",
          HEADER_ABC123 "..QSxpUG7Q542CirTI2ECPSZjvBOJURUW5a7XqFpNI958" },
        /* Made with Python's hmac: the signature covers every line. */
        { "lines", "a\nb\n", "abc123", "tokenSecret",
          HEADER_ABC123 "..gk77M7nXjXj9H44L9aDrl-Rfc_bl1MkGb7Jooi-t0Mk" },
};

static void agrees_with_kubernetes(void **state) {
        const struct vector *v = *state;
        char signature[NB_JWS_LEN + 1];
        struct nb_buffer ret = NB_BUFFER_IN(signature);

        assert_int_equal(nb_jws_sign(v->token_id, v->key, strlen(v->key), v->content, &ret), 0);
        assert_string_equal(signature, v->signature);
        assert_int_equal(ret.len, NB_JWS_LEN);
}

static int run(const void *input) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(1024);

        return nb_jws_sign("joshua", "key", 3, input, &text);
}

static void memory_runs_out(void **state) {
        allocation_try_all(run, "content");
}

int main(void) {
        CASES(vectors, agrees_with_kubernetes);
        CASE(memory_runs_out);
        return case_run("jws");
}
