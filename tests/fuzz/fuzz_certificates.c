/* SPDX-License-Identifier: Apache-2.0 */
#include "crypto/certificate.h"
#include "fuzz.h"

#define PEM_MAX (4 * 1024 * 1024)

static void look_at(const struct nb_certificates *certificates, size_t i) {
        char subject[NB_SUBJECT_SIZE], issuer[NB_SUBJECT_SIZE];

        nb_certificate_subject(certificates, i, subject);
        nb_certificate_issuer(certificates, i, issuer);
        (void)nb_certificate_not_before(certificates, i);
        (void)nb_certificate_not_after(certificates, i);
        (void)nb_certificate_is_ca(certificates, i);
        (void)nb_certificate_pin(certificates, i);
}

/* What was read can be written, and read again as the same number of certificates. */
static void parse(const char *data, size_t len, bool is_mixed) {
        _cleanup_(nb_certificates_freep) struct nb_certificates *certificates = NULL, *again = NULL;
        _cleanup_(nb_buffer_done) struct nb_buffer pem = NB_BUFFER_INIT(PEM_MAX);

        if (nb_certificates_parse(data, len, is_mixed, &certificates) < 0) {
                FUZZ_CHECK(!certificates);
                return;
        }
        FUZZ_CHECK(nb_certificates_count(certificates) > 0 &&
                   nb_certificates_count(certificates) <= NB_CERTIFICATES_MAX);
        for (size_t i = 0; i < nb_certificates_count(certificates); i++) {
                look_at(certificates, i);
                nb_certificate_export(certificates, i, &pem);
        }
        FUZZ_CHECK(nb_certificates_parse(pem.data, pem.len, false, &again) == 0);
        FUZZ_CHECK(nb_certificates_count(certificates) == nb_certificates_count(again));
}

static void verify(const char *data, size_t len) {
        _cleanup_(nb_certificates_freep) struct nb_certificates *certificates = NULL;
        _cleanup_(nb_key_freep) struct nb_key *key = NULL;
        struct nb_failure f = {};
        int r;

        if (nb_certificates_parse(data, len, true, &certificates) < 0 ||
            nb_key_import(data, len, &key) < 0)
                return;
        r = nb_certificate_verify_node(certificates, key, "worker-1", 1800000000, &f);
        FUZZ_CHECK_FAILURE(f, r);
        if (r >= 0)
                FUZZ_CHECK(nb_certificate_is_for_node(certificates, "worker-1", true));
}

void fuzz_one(const char *data, size_t len) {
        parse(data, len, false);
        parse(data, len, true);
        verify(data, len);
}
