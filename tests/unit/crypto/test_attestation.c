/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>

#include <gnutls/abstract.h>

#include "crypto/attestation.h"
#include "make_request.h"

#define LABEL "NODE-BOOTSTRAP KEY SIGNATURE"
#define PEM_MAX 8192
#define TOKEN "abcdef"

struct made_key {
        gnutls_x509_privkey_t key;
        struct nb_secret private;
        char public[2048];
};

static void make_key(struct made_key *made, gnutls_pk_algorithm_t type, unsigned bits) {
        gnutls_privkey_t private;
        gnutls_pubkey_t public;
        gnutls_datum_t text;

        *made = (struct made_key){ .private = NB_SECRET_INIT };
        assert_int_equal(gnutls_x509_privkey_init(&made->key), 0);
        assert_int_equal(gnutls_x509_privkey_generate(made->key, type, bits, 0), 0);
        assert_int_equal(gnutls_x509_privkey_export2_pkcs8(made->key, GNUTLS_X509_FMT_PEM, NULL,
                                                           GNUTLS_PKCS_PLAIN, &text),
                         0);
        assert_int_equal(nb_secret_copy(&made->private, text.data, text.size), 0);
        gnutls_free(text.data);
        assert_int_equal(gnutls_privkey_init(&private), 0);
        assert_int_equal(gnutls_pubkey_init(&public), 0);
        assert_int_equal(gnutls_privkey_import_x509(private, made->key, 0), 0);
        assert_int_equal(gnutls_pubkey_import_privkey(public, private, 0, 0), 0);
        assert_int_equal(gnutls_pubkey_export2(public, GNUTLS_X509_FMT_PEM, &text), 0);
        assert_true(text.size < sizeof(made->public));
        memcpy(made->public, text.data, text.size);
        gnutls_free(text.data);
        gnutls_pubkey_deinit(public);
        gnutls_privkey_deinit(private);
}

static void free_key(struct made_key *made) {
        gnutls_x509_privkey_deinit(made->key);
        nb_secret_done(&made->private);
}

static void append_request(struct nb_buffer *pem) {
        const struct made_request made = { .attributes = { O, "system:nodes", CN,
                                                           "system:node:a" } };
        char *text = make_request(&made);

        nb_buffer_append_string(pem, text);
        free(text);
}

static struct type {
        const char *name;
        gnutls_pk_algorithm_t type;
        unsigned bits;
        int append; /* of nb_attestation_append() */
        int enroll; /* of nb_attestation_key_read() */
} types[] = {
        { "P-256", GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0, 0 },
        { "P-384", GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP384R1), 0, 0 },
        { "Ed25519", GNUTLS_PK_EDDSA_ED25519, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_ED25519), 0,
          0 },
        { "RSA of 2048 bits", GNUTLS_PK_RSA, 2048, 0, 0 },
        { "RSA-PSS of 2048 bits", GNUTLS_PK_RSA_PSS, 2048, 0, 0 },
        { "RSA of 1024 bits", GNUTLS_PK_RSA, 1024, -EINVAL, -ENOTSUP },
        { "Ed448", GNUTLS_PK_EDDSA_ED448, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_ED448), -EINVAL,
          -ENOTSUP },
};

static void type_of_key(void **state) {
        const struct type *type = *state;
        struct nb_buffer pem = NB_BUFFER_INIT(PEM_MAX), found = NB_BUFFER_INIT(PEM_MAX);
        uint8_t id[NB_SHA256_SIZE], found_id[NB_SHA256_SIZE];
        struct made_key key;

        make_key(&key, type->type, type->bits);
        append_request(&pem);
        assert_int_equal(nb_attestation_verify(pem.data, pem.len, TOKEN, key.public),
                         NB_ATTESTATION_MISSING);
        assert_int_equal(nb_attestation_append(&key.private, TOKEN, &pem), type->append);
        assert_int_equal(nb_attestation_key_read(key.public, strlen(key.public), id), type->enroll);
        assert_int_equal(nb_attestation_verify(pem.data, pem.len, TOKEN, key.public),
                         type->append < 0 ? NB_ATTESTATION_MISSING : NB_ATTESTATION_VALID);
        assert_int_equal(nb_attestation_find_key(pem.data, pem.len, &found, found_id),
                         type->append < 0 ? 0 : 1);
        if (type->append >= 0) {
                assert_string_equal(found.data, key.public);
                assert_memory_equal(found_id, id, sizeof(id));
        }
        nb_buffer_done(&found);
        nb_buffer_done(&pem);
        free_key(&key);
}

/* What an attacker can do with the parts of two requests with valid proofs. */
struct parts {
        struct made_key key, other_key;
        struct nb_buffer request, other_request, proof, other_proof, by_other_key;
};

static void append_proof(const struct nb_buffer *request, const struct nb_secret *key,
                         struct nb_buffer *ret) {
        struct nb_buffer pem = NB_BUFFER_INIT(PEM_MAX);

        nb_buffer_append(&pem, request->data, request->len);
        assert_int_equal(nb_attestation_append(key, TOKEN, &pem), 0);
        nb_buffer_append(ret, pem.data + request->len, pem.len - request->len);
        nb_buffer_done(&pem);
}

static int make_parts(void **state) {
        struct parts *parts = calloc(1, sizeof(*parts));
        struct nb_buffer *const buffers[] = { &parts->request, &parts->other_request, &parts->proof,
                                              &parts->other_proof, &parts->by_other_key };

        for (size_t i = 0; i < N_ELEMENTS(buffers); i++)
                *buffers[i] = (struct nb_buffer)NB_BUFFER_INIT(PEM_MAX);
        make_key(&parts->key, GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1));
        make_key(&parts->other_key, GNUTLS_PK_ECDSA,
                 GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1));
        append_request(&parts->request);
        append_request(&parts->other_request);
        append_proof(&parts->request, &parts->key.private, &parts->proof);
        append_proof(&parts->other_request, &parts->key.private, &parts->other_proof);
        append_proof(&parts->request, &parts->other_key.private, &parts->by_other_key);
        *state = parts;
        return 0;
}

static int free_parts(void **state) {
        struct parts *parts = *state;

        nb_buffer_done(&parts->request);
        nb_buffer_done(&parts->other_request);
        nb_buffer_done(&parts->proof);
        nb_buffer_done(&parts->other_proof);
        nb_buffer_done(&parts->by_other_key);
        free_key(&parts->key);
        free_key(&parts->other_key);
        free(parts);
        return 0;
}

static void assert_verdict(const struct parts *parts, enum nb_attestation_verdict expected,
                           const char *const texts[]) {
        struct nb_buffer pem = NB_BUFFER_INIT(PEM_MAX * 4);

        for (size_t i = 0; texts[i]; i++)
                nb_buffer_append_string(&pem, texts[i]);
        assert_int_equal(nb_attestation_verify(pem.data, pem.len, TOKEN, parts->key.public),
                         expected);
        nb_buffer_done(&pem);
}

#define ASSERT_VERDICT(expected, ...) \
        assert_verdict(parts, NB_ATTESTATION_##expected, (const char *const[]){ __VA_ARGS__, NULL })

static void proofs_are_told_apart(void **state) {
        static const char other_kind[] = "-----BEGIN X-----\nAAAA\n-----END X-----\n";
        const struct parts *parts = *state;
        char *request = parts->request.data, *proof = parts->proof.data;

        ASSERT_VERDICT(VALID, request, proof);
        ASSERT_VERDICT(VALID, request, other_kind, proof);
        ASSERT_VERDICT(VALID, request, proof, other_kind);
        ASSERT_VERDICT(MISSING, request);
        ASSERT_VERDICT(MISSING, request, other_kind);
        ASSERT_VERDICT(INVALID, request, parts->other_proof.data);
        ASSERT_VERDICT(INVALID, parts->other_request.data, proof);
        ASSERT_VERDICT(INVALID, request, parts->by_other_key.data);
        ASSERT_VERDICT(INVALID, request, parts->by_other_key.data, proof);
        ASSERT_VERDICT(MISSING, parts->other_request.data, request);
        ASSERT_VERDICT(INVALID, proof, request);
        ASSERT_VERDICT(INVALID, "\n", request, proof);
        ASSERT_VERDICT(INVALID, "");
}

static void damaged_proofs(void **state) {
        const struct parts *parts = *state;
        static const char begin[] = "-----BEGIN " LABEL "-----\n",
                          end[] = "-----END " LABEL "-----\n";
        char *request = parts->request.data, longest[NB_ATTESTATION_MAX * 2 + 1] = "";

        memset(longest, 'A', sizeof(longest) - 1);
        ASSERT_VERDICT(INVALID, request, begin, end);
        ASSERT_VERDICT(INVALID, request, begin, "AAAA\n", end);
        ASSERT_VERDICT(INVALID, request, begin, "not base64\n", end);
        ASSERT_VERDICT(INVALID, request, begin, longest, "\n", end);
        ASSERT_VERDICT(INVALID, request, begin);
        ASSERT_VERDICT(INVALID, request, begin, "AAAA\n", "-----END X-----\n");
}

#define KEY(content) \
        "-----BEGIN NODE-BOOTSTRAP PUBLIC KEY-----\n" content \
        "-----END NODE-BOOTSTRAP PUBLIC KEY-----\n"

/* The block changes no verdict, wherever it is and whatever it says. */
static void block_with_the_public_key(void **state) {
        static const char *const unusable[] = {
                KEY(""),
                KEY("AAAA\n"),
                KEY("not base64\n"),
                "-----BEGIN NODE-BOOTSTRAP PUBLIC KEY-----\nAAAA\n",
        };
        struct parts *parts = *state;
        struct nb_buffer block = NB_BUFFER_INIT(PEM_MAX), key = NB_BUFFER_INIT(PEM_MAX),
                         small = NB_BUFFER_INIT(16);
        uint8_t id[NB_SHA256_SIZE], expected[NB_SHA256_SIZE];
        char longest[NB_ATTESTATION_MAX + 1] = "", *request = parts->request.data;
        gnutls_datum_t text = { (unsigned char *)parts->other_key.public,
                                (unsigned)strlen(parts->other_key.public) },
                       spki;

        assert_int_equal(gnutls_pem_base64_decode2("PUBLIC KEY", &text, &spki), 0);
        assert_int_equal(nb_attestation_append_key(longest, sizeof(longest), &block), -E2BIG);
        assert_int_equal(nb_attestation_append_key(spki.data, spki.size, &block), 0);
        gnutls_free(spki.data);
        ASSERT_VERDICT(MISSING, request, block.data);
        ASSERT_VERDICT(VALID, request, block.data, parts->proof.data);
        ASSERT_VERDICT(INVALID, request, parts->by_other_key.data, block.data);

        nb_attestation_key_read(parts->other_key.public, strlen(parts->other_key.public), expected);
        assert_int_equal(nb_attestation_find_key(block.data, block.len, &key, id), 1);
        assert_memory_equal(id, expected, sizeof(id));
        assert_string_equal(key.data, parts->other_key.public);
        assert_int_equal(nb_attestation_find_key(block.data, block.len, &small, id), -E2BIG);
        assert_int_equal(nb_attestation_find_key(request, parts->request.len, &key, id), 0);
        for (size_t i = 0; i < N_ELEMENTS(unusable); i++) {
                nb_buffer_clear(&key);
                assert_true(nb_attestation_find_key(unusable[i], strlen(unusable[i]), &key, id) <
                            0);
                if (i < 3)
                        ASSERT_VERDICT(VALID, request, parts->proof.data, unusable[i]);
        }
        nb_buffer_done(&block);
        nb_buffer_done(&key);
        nb_buffer_done(&small);
}

/* The token's ID is covered, so that a proof cannot be used with a later token. */
static void proof_for_another_token(void **state) {
        const struct parts *parts = *state;
        struct nb_buffer pem = NB_BUFFER_INIT(PEM_MAX);
        static const char *const others[] = { "", "fedcba", "abcde", "abcdef\n" };

        nb_buffer_append(&pem, parts->request.data, parts->request.len);
        nb_buffer_append(&pem, parts->proof.data, parts->proof.len);
        for (size_t i = 0; i < N_ELEMENTS(others); i++) {
                assert_int_equal(
                        nb_attestation_verify(pem.data, pem.len, others[i], parts->key.public),
                        NB_ATTESTATION_INVALID);
                assert_false(nb_attestation_is_own(&pem, others[i], pem.data, pem.len));
        }
        assert_true(nb_attestation_is_own(&pem, TOKEN, pem.data, pem.len));
        nb_buffer_done(&pem);
}

/* Two enrolled keys are compared by their ID. */
static void id_of_a_key(void **state) {
        const struct parts *parts = *state;
        uint8_t id[NB_SHA256_SIZE], other[NB_SHA256_SIZE];
        char spaced[sizeof(parts->key.public) * 2], *to = spaced;

        for (const char *from = parts->key.public; *from; from++) {
                if (*from == '\n' && from[1])
                        *to++ = '\n';
                *to++ = *from;
        }
        *to = '\0';
        assert_int_equal(nb_attestation_key_read(parts->key.public, strlen(parts->key.public), id),
                         0);
        assert_int_equal(nb_attestation_key_read(spaced, strlen(spaced), other), 0);
        assert_memory_equal(id, other, sizeof(id));
        assert_int_equal(nb_attestation_key_read(parts->other_key.public,
                                                 strlen(parts->other_key.public), other),
                         0);
        assert_memory_not_equal(id, other, sizeof(id));
}

/* A signature over the hash alone, such as one for another program, is not a proof. */
static void signature_without_the_domain(void **state) {
        const struct parts *parts = *state;
        gnutls_datum_t der, signature, block,
                datum = { (unsigned char *)parts->request.data, (unsigned)parts->request.len };
        uint8_t hash[NB_SHA256_SIZE];
        gnutls_privkey_t key;

        assert_int_equal(gnutls_pem_base64_decode2("CERTIFICATE REQUEST", &datum, &der), 0);
        assert_int_equal(nb_sha256(der.data, der.size, hash), 0);
        assert_int_equal(gnutls_privkey_init(&key), 0);
        assert_int_equal(gnutls_privkey_import_x509(key, parts->key.key, 0), 0);
        datum = (gnutls_datum_t){ hash, sizeof(hash) };
        assert_int_equal(
                gnutls_privkey_sign_data2(key, GNUTLS_SIGN_ECDSA_SHA256, 0, &datum, &signature), 0);
        assert_int_equal(gnutls_pem_base64_encode2(LABEL, &signature, &block), 0);
        ASSERT_VERDICT(INVALID, parts->request.data, (char *)block.data);
        gnutls_free(der.data);
        gnutls_free(signature.data);
        gnutls_free(block.data);
        gnutls_privkey_deinit(key);
}

static void unusable_keys(void **state) {
        const struct parts *parts = *state;
        struct nb_buffer pem = NB_BUFFER_INIT(PEM_MAX);
        struct nb_secret damaged = NB_SECRET_INIT;
        char twice[sizeof(parts->key.public) * 2];
        uint8_t id[NB_SHA256_SIZE];

        nb_buffer_append(&pem, parts->request.data, parts->request.len);
        nb_buffer_append(&pem, parts->proof.data, parts->proof.len);
        assert_int_equal(nb_attestation_verify(pem.data, pem.len, TOKEN, ""),
                         NB_ATTESTATION_UNUSABLE);
        assert_int_equal(nb_attestation_verify(pem.data, pem.len, TOKEN, parts->key.private.data),
                         NB_ATTESTATION_UNUSABLE);
        snprintf(twice, sizeof(twice), "%s%s", parts->key.public, parts->other_key.public);
        assert_int_equal(nb_attestation_key_read(twice, strlen(twice), id), -EINVAL);
        assert_int_equal(
                nb_attestation_key_read(parts->key.private.data, parts->key.private.len, id),
                -EINVAL);
        assert_int_equal(nb_secret_copy(&damaged, "x", 1), 0);
        assert_int_equal(nb_attestation_append(&damaged, TOKEN, &pem), -EINVAL);
        nb_secret_done(&damaged);
        nb_buffer_done(&pem);
}

int main(void) {
        struct CMUnitTest all[N_ELEMENTS(types) + 7] = {
                cmocka_unit_test_setup_teardown(proofs_are_told_apart, make_parts, free_parts),
                cmocka_unit_test_setup_teardown(block_with_the_public_key, make_parts, free_parts),
                cmocka_unit_test_setup_teardown(proof_for_another_token, make_parts, free_parts),
                cmocka_unit_test_setup_teardown(id_of_a_key, make_parts, free_parts),
                cmocka_unit_test_setup_teardown(damaged_proofs, make_parts, free_parts),
                cmocka_unit_test_setup_teardown(signature_without_the_domain, make_parts,
                                                free_parts),
                cmocka_unit_test_setup_teardown(unusable_keys, make_parts, free_parts),
        };

        for (size_t i = 0; i < N_ELEMENTS(types); i++)
                all[7 + i] = (struct CMUnitTest){ .name = types[i].name,
                                                  .test_func = type_of_key,
                                                  .initial_state = &types[i] };
        return cmocka_run_group_tests(all, NULL, NULL);
}
