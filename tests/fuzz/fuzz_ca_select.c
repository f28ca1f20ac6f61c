/* SPDX-License-Identifier: Apache-2.0 */
#include "crypto/certificate.h"
#include "fuzz.h"

#define PEM_MAX (4 * 1024 * 1024)

/* Selecting from the selected CAs selects all of them again. */
static void select_by(const char *data, size_t len, const uint8_t (*pins)[NB_SHA256_SIZE],
                      unsigned n_pins, enum nb_ca_choice choice, struct nb_ca_selection *ret) {
        _cleanup_(nb_buffer_done) struct nb_buffer pem = NB_BUFFER_INIT(PEM_MAX),
                                                   again = NB_BUFFER_INIT(PEM_MAX);
        struct nb_ca_selection second = {};
        struct nb_failure f = {};
        int r;

        r = nb_ca_select(data, len,
                         &(struct nb_ca_criteria){ .pins = pins,
                                                   .n_pins = n_pins,
                                                   .choice = choice,
                                                   .malformed = NB_CLUSTER_INFO_UNACCEPTABLE,
                                                   .mismatch = NB_CA_PIN_MISMATCH },
                         &pem, ret, &f);
        FUZZ_CHECK_FAILURE(f, r);
        if (r < 0)
                return;
        FUZZ_CHECK(ret->n_taken > 0 && ret->n_taken + ret->n_left_out <= NB_CERTIFICATES_MAX &&
                   pem.len > 0);
        FUZZ_CHECK(nb_ca_select(pem.data, pem.len,
                                &(struct nb_ca_criteria){ .pins = pins,
                                                          .n_pins = n_pins,
                                                          .choice = choice,
                                                          .malformed = NB_CLUSTER_INFO_UNACCEPTABLE,
                                                          .mismatch = NB_CA_PIN_MISMATCH },
                                &again, &second, &f) == 0);
        FUZZ_CHECK(second.n_taken == ret->n_taken && second.n_left_out == 0);
        FUZZ_CHECK(pem.len == again.len && memcmp(pem.data, again.data, pem.len) == 0);
}

/* The hash of the bytes selects every CA. */
static void select_by_hash(const char *data, size_t len) {
        _cleanup_(nb_buffer_done) struct nb_buffer pem = NB_BUFFER_INIT(PEM_MAX);
        struct nb_ca_selection selection = {};
        uint8_t hash[NB_SHA256_SIZE];
        struct nb_failure f = {};
        int r;

        FUZZ_CHECK(nb_sha256(data, len, hash) == 0);
        r = nb_ca_select(data, len,
                         &(struct nb_ca_criteria){ .k3s_hash = hash,
                                                   .choice = NB_CA_PINNED,
                                                   .malformed = NB_CLUSTER_INFO_UNACCEPTABLE,
                                                   .mismatch = NB_CA_PIN_MISMATCH },
                         &pem, &selection, &f);
        FUZZ_CHECK_FAILURE(f, r);
        FUZZ_CHECK(r < 0 || (selection.n_taken > 0 && pem.len > 0));
}

void fuzz_one(const char *data, size_t len) {
        struct nb_ca_selection all = {}, some = {};
        uint8_t none[1][NB_SHA256_SIZE] = {};

        select_by_hash(data, len);
        select_by(data, len, none, 1, NB_CA_PINNED, &some);
        FUZZ_CHECK(some.n_taken == 0);
        select_by(data, len, none, 0, NB_CA_ALL_UNPINNED, &all);
        if (all.n_taken == 0)
                return;
        select_by(data, len, all.taken, 1, NB_CA_PINNED, &some);
        FUZZ_CHECK(some.n_taken > 0);
        select_by(data, len, all.taken, 1, NB_CA_ALL, &some);
        FUZZ_CHECK(some.n_taken == all.n_taken);
}
