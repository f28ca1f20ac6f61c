/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>

#include "fuzz.h"
#include "metadata/metadata_document.h"

static void check_secret(int r, struct nb_secret *secret, const struct nb_failure *f) {
        FUZZ_CHECK_FAILURE(*f, r);
        FUZZ_CHECK((r > 0) == (secret->data != NULL));
        if (r > 0)
                FUZZ_CHECK(secret->len > 0 && strlen(secret->data) == secret->len);
        nb_secret_done(secret);
}

/* A formatted address is read back as the same address. */
static void check_lease(const char *data, size_t len) {
        char address[NB_LEASE_ADDRESS_SIZE], again[INET_ADDRSTRLEN];
        struct in_addr parsed;

        if (nb_metadata_lease_server(data, len, address) < 0)
                return;
        FUZZ_CHECK(inet_pton(AF_INET, address, &parsed) == 1);
        FUZZ_CHECK(inet_ntop(AF_INET, &parsed, again, sizeof(again)) && !strcmp(address, again));
}

void fuzz_one(const char *data, size_t len) {
        struct nb_secret secret = NB_SECRET_INIT;
        struct nb_failure f = {};
        int r;

        r = nb_metadata_seed_name(data, len, "meta-data", &secret, &f);
        check_secret(r, &secret, &f);
        check_lease(data, len);
}
