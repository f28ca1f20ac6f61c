/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Gzip (RFC 1952), of one member or several, with a ceiling for all of them together. What comes out may hold secrets: zlib's own memory is zeroed as well. */

#include <stdbool.h>
#include <stddef.h>

#include "base/secret.h"

bool nb_gzip_is_meant(const char *data, size_t len);

/* 0; -EBADMSG when it is cut, damaged, or something else stands behind it; -E2BIG above `max` bytes; -ENOMEM. */
int nb_gunzip(const char *data, size_t len, size_t max, struct nb_secret *ret);
