/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Finds the blocks of a PEM text (RFC 7468); private to crypto/. GnuTLS decodes the contents. Its
 * own PEM parser accepts several labels for the same type and skips incomplete blocks, which Go,
 * and so kubelet, does not. Text outside of blocks is skipped: the RFC allows it (section 5.2), as
 * does Kubernetes in status.certificate, and CA bundles have comments. That text is never written
 * to a file. */

#include <stdbool.h>
#include <stddef.h>

#define NB_PEM_CERTIFICATE "CERTIFICATE"
#define NB_PEM_REQUEST "CERTIFICATE REQUEST"

struct nb_pem_block {
        const char *label;
        size_t label_len;
        const char *text; /* from the first hyphen of BEGIN to the last of END */
        size_t len;
};

/* Returns the next block at or after *offset, and sets *offset to its end. 1; 0 if there is none;
 * -EINVAL for a block without an end, or a NUL in the text. */
int nb_pem_next(const char *pem, size_t len, size_t *offset, struct nb_pem_block *ret_block);

bool nb_pem_block_is(const struct nb_pem_block *block, const char *label);

/* "PRIVATE KEY" or "... PRIVATE KEY", which Go's tls.X509KeyPair accepts as the key. */
bool nb_pem_block_is_private_key(const struct nb_pem_block *block);
