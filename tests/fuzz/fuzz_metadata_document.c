/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"
#include "metadata/metadata_document.h"

static void check_secret(int r, struct nb_secret *secret, const struct nb_failure *f) {
        FUZZ_CHECK_FAILURE(*f, r);
        FUZZ_CHECK((r > 0) == (secret->data != NULL));
        if (r > 0)
                FUZZ_CHECK(secret->len > 0 && strlen(secret->data) == secret->len);
        nb_secret_done(secret);
}

void fuzz_one(const char *data, size_t len) {
        struct nb_secret secret = NB_SECRET_INIT;
        struct nb_failure f = {};
        int r;

        r = nb_metadata_seed_name(data, len, "meta-data", &secret, &f);
        check_secret(r, &secret, &f);
}
