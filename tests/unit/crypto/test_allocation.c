/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "allocation.h"
#include "case.h"
#include "crypto/certificate.h"
#include "crypto/pkcs10.h"
#include "pki.h"

static struct pki_cert root, other, leaf;

static int parse(const void *input) {
        struct nb_certificates *certificates = NULL;
        struct nb_buffer pem = NB_BUFFER_INIT(64 * 1024);
        int r;

        r = nb_certificates_parse(input, strlen(input), false, &certificates);
        if (r >= 0)
                nb_certificate_export(certificates, 0, &pem);
        r = r < 0 ? r : pem.error;
        nb_buffer_done(&pem);
        nb_certificates_free(certificates);
        return r;
}

static void certificates(void **state) {
        allocation_try_all(parse, root.pem);
}

static int select_ca(const void *input) {
        uint8_t pins[1][NB_SHA256_SIZE];
        struct nb_buffer pem = NB_BUFFER_INIT(64 * 1024);
        struct nb_ca_selection selection;
        struct nb_failure f = { 0 };
        int r;

        memset(pins, 0, sizeof(pins));
        r = nb_ca_select(input, strlen(input),
                         &(struct nb_ca_criteria){ .pins = pins,
                                                   .n_pins = 1,
                                                   .choice = NB_CA_PINNED,
                                                   .malformed = NB_HANDOFF_MALFORMED,
                                                   .mismatch = NB_HANDOFF_UNTRUSTED },
                         &pem, &selection, &f);
        if (r == -EKEYREJECTED && f.code == NB_HANDOFF_UNTRUSTED) {
                nb_failure_clear(&f);
                r = nb_ca_select(input, strlen(input),
                                 &(struct nb_ca_criteria){ .choice = NB_CA_ALL_UNPINNED,
                                                           .malformed = NB_HANDOFF_MALFORMED,
                                                           .mismatch = NB_HANDOFF_UNTRUSTED },
                                 &pem, &selection, &f);
        }
        nb_buffer_done(&pem);
        assert_int_equal(f.code, r < 0 ? NB_INTERNAL : NB_NONE);
        return r;
}

static void selection(void **state) {
        char *bundle = PKI_JOIN(root.pem, other.pem);

        allocation_try_all(select_ca, bundle);
        free(bundle);
}

static int renew_ca(const void *input) {
        struct nb_buffer pem = NB_BUFFER_INIT(64 * 1024);
        struct nb_failure f = { 0 };
        int r;

        r = nb_ca_renew(root.pem, strlen(root.pem), input, strlen(input), NB_HANDOFF_MALFORMED,
                        NB_HANDOFF_UNTRUSTED, &pem, NULL, &f);
        nb_buffer_done(&pem);
        assert_int_equal(f.code, r < 0 ? NB_INTERNAL : NB_NONE);
        return r < 0 ? r : 0;
}

static void renewal(void **state) {
        char *bundle = PKI_JOIN(root.pem, other.pem);

        allocation_try_all(renew_ca, bundle);
        free(bundle);
}

static int select_by_hash(const void *input) {
        uint8_t hash[NB_SHA256_SIZE];
        struct nb_buffer pem = NB_BUFFER_INIT(64 * 1024);
        struct nb_failure f = { 0 };
        int r;

        r = nb_sha256(input, strlen(input), hash);
        if (r >= 0)
                r = nb_ca_select(input, strlen(input),
                                 &(struct nb_ca_criteria){ .k3s_hash = hash,
                                                           .choice = NB_CA_PINNED,
                                                           .malformed = NB_HANDOFF_MALFORMED,
                                                           .mismatch = NB_HANDOFF_UNTRUSTED },
                                 &pem, NULL, &f);
        nb_buffer_done(&pem);
        return r;
}

static void selection_by_hash(void **state) {
        char *bundle = PKI_JOIN(root.pem, other.pem);

        allocation_try_all(select_by_hash, bundle);
        free(bundle);
}

static int key_and_request(const void *input) {
        char name[NB_PKCS10_NAME_SIZE];
        struct nb_buffer pem = NB_BUFFER_INIT(NB_PKCS10_PEM_MAX);
        struct nb_secret secret = NB_SECRET_INIT;
        struct nb_key *key = NULL, *again = NULL;
        int r;

        r = nb_key_generate(&key);
        if (r >= 0)
                r = nb_key_export(key, &secret);
        if (r >= 0)
                r = nb_key_import(secret.data, secret.len, &again);
        if (r >= 0)
                r = nb_pkcs10_create(again, input, true, &pem);
        if (r >= 0)
                r = nb_pkcs10_csr_name(again, input, name);
        if (r >= 0)
                r = nb_pkcs10_verify(pem.data, pem.len, key, input);
        nb_key_free(key);
        nb_key_free(again);
        nb_secret_done(&secret);
        nb_buffer_done(&pem);
        return r;
}

static void request(void **state) {
        allocation_try_all(key_and_request, "a");
}

int main(void) {
        int r;

        root = pki_make(&(struct pki_options){ .dn = "CN=root", .is_ca = true });
        other = pki_make(&(struct pki_options){ .dn = "CN=other", .is_ca = true });
        leaf = pki_make(
                &(struct pki_options){ .dn = "O=system:nodes,CN=system:node:a", .issuer = &root });
        CASE(certificates);
        CASE(selection);
        CASE(renewal);
        CASE(selection_by_hash);
        CASE(request);
        r = case_run("crypto allocation");
        pki_done(&leaf);
        pki_done(&other);
        pki_done(&root);
        return r;
}
