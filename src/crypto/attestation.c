/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "base/macro.h"
#include "crypto/attestation.h"
#include "crypto/key.h"
#include "crypto/key_internal.h"
#include "crypto/pem.h"

#define LABEL_KEY_SIGNATURE "NODE-BOOTSTRAP KEY SIGNATURE"
#define LABEL_PUBLIC_KEY "NODE-BOOTSTRAP PUBLIC KEY"
/* Nothing that the key signs for another purpose begins with this text. */
#define DOMAIN "node-bootstrap attestation v2\n"

/* The signature of each type of key that may be enrolled. ECDSA is of P-256 or larger. */
static const struct algorithm {
        int type; /* gnutls_pk_algorithm_t */
        unsigned bits_min;
        gnutls_sign_algorithm_t signature;
} algorithms[] = {
        { GNUTLS_PK_ECDSA, 256, GNUTLS_SIGN_ECDSA_SHA256 },
        { GNUTLS_PK_EDDSA_ED25519, 256, GNUTLS_SIGN_EDDSA_ED25519 },
        { GNUTLS_PK_RSA, 2048, GNUTLS_SIGN_RSA_SHA256 },
        { GNUTLS_PK_RSA_PSS, 2048, GNUTLS_SIGN_RSA_PSS_SHA256 },
};

static const struct algorithm *find_algorithm(int type, unsigned bits) {
        for (size_t i = 0; i < N_ELEMENTS(algorithms); i++)
                if (algorithms[i].type == type)
                        return bits >= algorithms[i].bits_min && bits <= NB_KEY_BITS_MAX
                                       ? &algorithms[i]
                                       : NULL;
        return NULL;
}

/* Decodes the request at the beginning, and formats what a proof of it signs. */
static int format_message(const char *pem, size_t len, const char *token_id, size_t *ret_offset,
                          struct nb_buffer *ret_message) {
        _cleanup_(nb_buffer_done) struct nb_buffer der = NB_BUFFER_INIT(NB_PEM_BLOCK_MAX);
        uint8_t digest[NB_SHA256_SIZE];
        int r;

        *ret_offset = 0;
        r = nb_pem_decode(pem, len, ret_offset, NB_PEM_REQUEST, &der);
        if (r >= 0)
                r = nb_sha256(der.data, der.len, digest);
        if (r < 0)
                return r;
        nb_buffer_printf(ret_message, DOMAIN "%s\n", token_id);
        nb_buffer_append(ret_message, digest, sizeof(digest));
        return ret_message->error;
}

int nb_attestation_message(const char *pem, size_t len, const char *token_id,
                           struct nb_buffer *ret_message) {
        size_t offset;

        return format_message(pem, len, token_id, &offset, ret_message);
}

/* --- Signing, on the machine --- */

static int sign_message(const struct nb_key *key, const gnutls_datum_t *message,
                        gnutls_datum_t *ret_signature) {
        _cleanup_(nb_privkey_deinitp) gnutls_privkey_t private = NULL;
        const struct algorithm *algorithm;
        unsigned bits = 0;
        int r;

        r = gnutls_x509_privkey_get_pk_algorithm2(key->key, &bits);
        algorithm = find_algorithm(r, bits);
        if (!algorithm)
                return -EINVAL;
        if (gnutls_privkey_init(&private) < 0)
                return -ENOMEM;
        r = gnutls_privkey_import_x509(private, key->key, 0);
        if (r >= 0)
                r = gnutls_privkey_sign_data2(private, algorithm->signature, 0, message,
                                              ret_signature);
        return r < 0 ? nb_gnutls_to_errno(r) : 0;
}

static int append_block(const char *label, const gnutls_datum_t *content, struct nb_buffer *pem) {
        _cleanup_(nb_datum_done) gnutls_datum_t block = { 0 };
        int r = gnutls_pem_base64_encode2(label, content, &block);

        if (r < 0)
                return nb_gnutls_to_errno(r);
        nb_buffer_append(pem, block.data, block.size);
        return pem->error;
}

int nb_attestation_append_signature(const void *signature, size_t len, struct nb_buffer *pem) {
        const gnutls_datum_t datum = nb_datum_const(signature, len);

        return append_block(LABEL_KEY_SIGNATURE, &datum, pem);
}

int nb_attestation_append_key(const void *spki, size_t len, struct nb_buffer *pem) {
        const gnutls_datum_t datum = nb_datum_const(spki, len);

        return len > NB_ATTESTATION_MAX ? -E2BIG : append_block(LABEL_PUBLIC_KEY, &datum, pem);
}

int nb_attestation_append(const struct nb_secret *key_pem, const char *token_id,
                          struct nb_buffer *pem) {
        _cleanup_(nb_datum_done) gnutls_datum_t signature = { 0 };
        _cleanup_(nb_buffer_done) struct nb_buffer message = NB_BUFFER_INIT(
                NB_ATTESTATION_MESSAGE_MAX);
        _cleanup_(nb_key_freep) struct nb_key *key = NULL;
        gnutls_datum_t datum;
        size_t offset;
        int r;

        r = nb_key_import(key_pem->data, key_pem->len, &key);
        if (r < 0)
                return r == -ENOMEM ? r : -EINVAL;
        r = format_message(pem->data, pem->len, token_id, &offset, &message);
        if (r < 0)
                return r == -ENOMEM ? r : -EIO;
        datum = nb_datum_const(message.data, message.len);
        r = sign_message(key, &datum, &signature);
        if (r >= 0)
                r = nb_attestation_append_signature(signature.data, signature.size, pem);
        return r < 0 ? r : nb_attestation_append_key(key->spki.data, key->spki.size, pem);
}

/* --- Reading --- */

/* Decodes the first block of this kind at or after `offset`. 1; 0 if there is none; negative. */
static int find_block(const char *pem, size_t len, size_t offset, const char *label,
                      struct nb_buffer *ret_der) {
        struct nb_pem_block block;
        int r;

        do {
                r = nb_pem_next(pem, len, &offset, &block);
                if (r <= 0)
                        return r;
        } while (!nb_pem_block_is(&block, label));
        offset = (size_t)(block.text - pem);
        r = nb_pem_decode(pem, len, &offset, label, ret_der);
        return r < 0 ? r : 1;
}

static int import_public_key(const char *pem, size_t len, gnutls_pubkey_t *ret_key,
                             const struct algorithm **ret_algorithm) {
        _cleanup_(nb_buffer_done) struct nb_buffer der = NB_BUFFER_INIT(NB_ATTESTATION_MAX);
        _cleanup_(nb_pubkey_deinitp) gnutls_pubkey_t key = NULL;
        const struct algorithm *algorithm;
        gnutls_datum_t datum;
        unsigned bits = 0;
        size_t offset = 0;
        int r;

        r = nb_pem_decode(pem, len, &offset, "PUBLIC KEY", &der);
        if (r < 0 || offset != len)
                return r == -ENOMEM ? r : -EINVAL;
        if (gnutls_pubkey_init(&key) < 0)
                return -ENOMEM;
        datum = nb_datum_const(der.data, der.len);
        if (gnutls_pubkey_import(key, &datum, GNUTLS_X509_FMT_DER) < 0)
                return -EINVAL;
        r = gnutls_pubkey_get_pk_algorithm(key, &bits);
        algorithm = find_algorithm(r, bits);
        if (!algorithm)
                return -ENOTSUP;
        *ret_key = TAKE(key);
        *ret_algorithm = algorithm;
        return 0;
}

int nb_attestation_key_read(const char *pem, size_t len, uint8_t ret_id[static NB_SHA256_SIZE]) {
        _cleanup_(nb_pubkey_deinitp) gnutls_pubkey_t key = NULL;
        const struct algorithm *algorithm;
        size_t size = NB_SHA256_SIZE;
        int r = import_public_key(pem, len, &key, &algorithm);

        if (r < 0)
                return r;
        r = gnutls_pubkey_get_key_id(key, GNUTLS_KEYID_USE_SHA256, ret_id, &size);
        return r < 0 ? nb_gnutls_to_errno(r) : 0;
}

int nb_attestation_find_key(const char *pem, size_t len, struct nb_buffer *ret_key,
                            uint8_t ret_id[static NB_SHA256_SIZE]) {
        _cleanup_(nb_buffer_done) struct nb_buffer der = NB_BUFFER_INIT(NB_ATTESTATION_MAX);
        gnutls_datum_t datum;
        int r = find_block(pem, len, 0, LABEL_PUBLIC_KEY, &der);

        if (r <= 0)
                return r;
        datum = nb_datum_const(der.data, der.len);
        r = append_block("PUBLIC KEY", &datum, ret_key);
        if (r >= 0)
                r = nb_attestation_key_read(ret_key->data, ret_key->len, ret_id);
        return r < 0 ? r : 1;
}

static enum nb_attestation_verdict verify_key_signature(const struct nb_buffer *proof,
                                                        const struct nb_buffer *message,
                                                        const char *public_key) {
        _cleanup_(nb_pubkey_deinitp) gnutls_pubkey_t key = NULL;
        const gnutls_datum_t data = nb_datum_const(message->data, message->len);
        const gnutls_datum_t signature = nb_datum_const(proof->data, proof->len);
        const struct algorithm *algorithm;

        if (import_public_key(public_key, strlen(public_key), &key, &algorithm) < 0)
                return NB_ATTESTATION_UNUSABLE;
        return gnutls_pubkey_verify_data2(key, algorithm->signature, 0, &data, &signature) < 0
                       ? NB_ATTESTATION_INVALID
                       : NB_ATTESTATION_VALID;
}

/* The first signature decides, so the cost of verifying is bounded. */
enum nb_attestation_verdict nb_attestation_verify(const char *pem, size_t len, const char *token_id,
                                                  const char *public_key) {
        _cleanup_(nb_buffer_done) struct nb_buffer proof = NB_BUFFER_INIT(NB_ATTESTATION_MAX);
        _cleanup_(nb_buffer_done) struct nb_buffer message = NB_BUFFER_INIT(
                NB_ATTESTATION_MESSAGE_MAX);
        size_t offset;
        int r = format_message(pem, len, token_id, &offset, &message);

        if (r >= 0)
                r = find_block(pem, len, offset, LABEL_KEY_SIGNATURE, &proof);
        if (r <= 0)
                return r < 0 ? NB_ATTESTATION_INVALID : NB_ATTESTATION_MISSING;
        return verify_key_signature(&proof, &message, public_key);
}

bool nb_attestation_is_own(const struct nb_buffer *own, const char *token_id, const char *pem,
                           size_t len) {
        _cleanup_(nb_buffer_done) struct nb_buffer key = NB_BUFFER_INIT(NB_ATTESTATION_MAX);
        uint8_t id[NB_SHA256_SIZE];
        int r = nb_attestation_find_key(own->data, own->len, &key, id);

        return r >= 0 && nb_attestation_verify(pem, len, token_id, r > 0 ? key.data : "") ==
                                 (r > 0 ? NB_ATTESTATION_VALID : NB_ATTESTATION_MISSING);
}
