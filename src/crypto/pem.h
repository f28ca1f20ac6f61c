/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Finds the blocks of a PEM text (RFC 7468); private to crypto/. GnuTLS decodes their contents, but
 * its PEM parser is not used to find them: unlike Go, and thus kubelet, it accepts several labels
 * for one type and skips incomplete blocks. Text outside of blocks is skipped: the RFC (section
 * 5.2) and Kubernetes (in status.certificate) allow it, and CA bundles have comments. That text is
 * never written to a file. */

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"

#define NB_PEM_CERTIFICATE "CERTIFICATE"
#define NB_PEM_REQUEST "CERTIFICATE REQUEST"

struct nb_pem_block {
        const char *label;
        size_t label_len;
        const char *text; /* from the first hyphen of the BEGIN line to the last hyphen of the END
                             line */
        size_t len;
};

/* Returns the next block at or after *offset, and sets *offset to its end. 1; 0 if there is none;
 * -EINVAL for a block without an end, or a NUL in the text. */
int nb_pem_next(const char *pem, size_t len, size_t *offset, struct nb_pem_block *ret_block);

bool nb_pem_block_is(const struct nb_pem_block *block, const char *label);

/* "PRIVATE KEY" or "... PRIVATE KEY", which Go's tls.X509KeyPair accepts as the key. */
bool nb_pem_block_is_private_key(const struct nb_pem_block *block);

/*
 * Decodes the block that begins exactly at *offset: the BEGIN line, lines of base64 without any
 * other character, and the END line, each with "\n". Parsers differ in what else they accept: Go's
 * skips a block with a hyphen in its base64 and takes the next one, while GnuTLS ignores the
 * hyphen. So this form is required where another party must read the same bytes. 0, and *offset is
 * after the block; -EINVAL, -E2BIG, -ENOMEM.
 */
int nb_pem_decode(const char *pem, size_t len, size_t *offset, const char *label,
                  struct nb_buffer *ret_der);
