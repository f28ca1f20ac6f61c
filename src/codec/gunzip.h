/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Gzip (RFC 1952) of one or several members, with a limit for all of them together. The contents
 * may be secret, so zlib's own memory is zeroed as well. */

#include <stdbool.h>
#include <stddef.h>

#include "base/secret.h"

bool nb_gzip_looks_like(const char *data, size_t len);

/* 0; -EBADMSG if it is cut, damaged or followed by anything else; -E2BIG above `max` bytes;
 * -ENOMEM. */
int nb_gunzip(const char *data, size_t len, size_t max, struct nb_secret *ret);
