/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Gzip (RFC 1952) of one or several members, with a limit for all of them together. The contents
 * may be secret, so zlib's own memory is zeroed as well. */

#include <stdbool.h>
#include <stddef.h>

#include "base/secret.h"

bool nb_gzip_looks_like(const char *data, size_t len);

/* 0; -EBADMSG if the data is truncated, damaged or followed by other data; -E2BIG if the output
 * exceeds `max` bytes; -ENOMEM. */
int nb_gunzip(const char *data, size_t len, size_t max, struct nb_secret *ret);
