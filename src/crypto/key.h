/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The node's private key: ECDSA P-256, kept as PEM "EC PRIVATE KEY" (RFC 5915), which Go's
 * tls.X509KeyPair reads. */

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/secret.h"

struct nb_key;

/* 0, -ENOMEM, -EIO. */
int nb_key_generate(struct nb_key **ret_key);

/* Imports the first private key of a PEM text, like Go's tls.X509KeyPair; certificates may precede
 * it. Accepts any type that GnuTLS supports, since an older kubelet may have created an RSA key. 0;
 * -EINVAL if there is no key, or it is damaged, too large, or does not match its public key;
 * -ENOTSUP for a type that GnuTLS does not know; -ENOMEM. */
int nb_key_import(const char *pem, size_t len, struct nb_key **ret_key);

/* Exports the key as PEM. 0, -ENOMEM, -EIO. */
int nb_key_export(const struct nb_key *key, struct nb_secret *ret_pem);

/* Whether it is ECDSA with P-256, which a pending key must be. */
bool nb_key_is_p256(const struct nb_key *key);

void nb_key_free(struct nb_key *key);
void nb_key_freep(struct nb_key **key);
