/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Proof that a request comes from the machine that it names: PEM blocks that follow the request in
 * spec.request of the CSR. The API server and the signer read the first block only. The others, by
 * their labels:
 *
 *      NODE-BOOTSTRAP KEY SIGNATURE   a signature with a key that the administrator has enrolled
 *                                     for the node, over "node-bootstrap attestation v2\n", the ID
 *                                     of the bootstrap token ("" for another credential), "\n", and
 *                                     the SHA-256 of the request in DER
 *      NODE-BOOTSTRAP PUBLIC KEY      that key (SubjectPublicKeyInfo in DER). The block is optional
 *                                     and proves nothing, since the requestor writes it: it tells
 *                                     an administrator which key could be enrolled
 *
 * A proof is therefore valid only for one request, whose key and node it covers, and one token. An
 * attacker who copies a proof can only submit the same request again; the certificate is useless
 * without the private key, which only the machine has.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/secret.h"
#include "crypto/digest.h"

#define NB_ATTESTATION_MAX 4096 /* bytes of one block, decoded */

/* Appends both blocks to `pem`, which holds the request, with the machine's enrolled private key
 * (PEM, PKCS #8 or SEC 1; ECDSA, Ed25519 or RSA of at least 2048 bits). 0; -EINVAL if the key is
 * not usable; -EIO, -ENOMEM, -E2BIG. */
int nb_attestation_append(const struct nb_secret *key, const char *token_id, struct nb_buffer *pem);

/* The same in parts, for a key that another device has: formats the message to be signed, and
 * appends the block with its signature (ECDSA or RSASSA-PKCS1-v1_5, with SHA-256), or only the
 * block with the public key (SubjectPublicKeyInfo in DER). 0, -EINVAL, -E2BIG, -ENOMEM, -EIO. */
#define NB_ATTESTATION_MESSAGE_MAX 256
int nb_attestation_message(const char *pem, size_t len, const char *token_id,
                           struct nb_buffer *ret_message);
int nb_attestation_append_signature(const void *signature, size_t len, struct nb_buffer *pem);
int nb_attestation_append_key(const void *spki, size_t len, struct nb_buffer *pem);

/* Whether a request has a proof by the key that another request, `own`, names; if that one names
 * none, whether it has none. */
bool nb_attestation_is_own(const struct nb_buffer *own, const char *token_id, const char *pem,
                           size_t len);

/* Reads a public key that can be enrolled (SubjectPublicKeyInfo as PEM, and nothing else).
 * *ret_id is the same for all encodings of a key. 0; -EINVAL if it is not a public key; -ENOTSUP
 * for a type or size that is too weak or not supported; -ENOMEM, -EIO. */
int nb_attestation_key_read(const char *pem, size_t len, uint8_t ret_id[static NB_SHA256_SIZE]);

/* Finds the block with the public key: appends the key as PEM, and sets its ID, as of
 * nb_attestation_key_read(). 1; 0 if there is no such block; negative if the key could not be
 * enrolled, or `ret_key` is too small for it. */
int nb_attestation_find_key(const char *pem, size_t len, struct nb_buffer *ret_key,
                            uint8_t ret_id[static NB_SHA256_SIZE]);

enum nb_attestation_verdict {
        NB_ATTESTATION_MISSING, /* no block of a known kind, or nothing was verified */
        NB_ATTESTATION_VALID,
        NB_ATTESTATION_INVALID,  /* malformed, or not by this key, or for another request */
        NB_ATTESTATION_UNUSABLE, /* the enrolled key is not a public key */
};

/* Verifies the blocks behind the request against the node's enrolled public key (PEM). */
enum nb_attestation_verdict nb_attestation_verify(const char *pem, size_t len, const char *token_id,
                                                  const char *public_key);
