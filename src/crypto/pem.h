/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where the blocks of a PEM text begin and end (RFC 7468), inside crypto/ only; what is in one is for GnuTLS. Its own
 * reader takes several labels for the same thing and passes over a block that is cut off; Go, and so kubelet, does not.
 * Text outside of blocks is let pass: the RFC allows it (section 5.2), Kubernetes does in status.certificate, and
 * CA bundles have comments. Nothing of it is ever written anywhere.
 */

#include <stdbool.h>
#include <stddef.h>

#define NB_PEM_CERTIFICATE "CERTIFICATE"
#define NB_PEM_REQUEST "CERTIFICATE REQUEST"
#define NB_PEM_EC_PRIVATE_KEY "EC PRIVATE KEY"

struct nb_pem_block {
        const char *label;
        size_t label_len;
        const char *text; /* from the first hyphen of BEGIN to the last of END */
        size_t len;
};

/*
 * The next block at or after *offset, which moves behind it. 1; 0 when there is none; -EINVAL when one begins that does
 * not end, or the text holds a NUL.
 */
int nb_pem_next(const char *pem, size_t len, size_t *offset, struct nb_pem_block *ret_block);

bool nb_pem_block_is(const struct nb_pem_block *block, const char *label);

/* "PRIVATE KEY" or "... PRIVATE KEY": what Go's tls.X509KeyPair takes for the key. */
bool nb_pem_block_is_private_key(const struct nb_pem_block *block);
