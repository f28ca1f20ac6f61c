/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A MIME message (RFC 2045, 2046) as tools for user data write it, strictly and with ceilings. Lines end with LF or CRLF. What
 * comes out may hold secrets.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/secret.h"

#define NB_MIME_PARTS_MAX 64
#define NB_MIME_DEPTH_MAX 2 /* multiparts in each other */
#define NB_MIME_FIELDS_MAX 64
#define NB_MIME_FIELD_MAX 1000 /* bytes of a header field, unfolded */
#define NB_MIME_TYPE_MAX 127
#define NB_MIME_BOUNDARY_MAX 70 /* RFC 2046, 5.1.1 */

enum nb_mime_encoding {
        NB_MIME_PLAIN, /* 7bit, 8bit, binary */
        NB_MIME_QUOTED_PRINTABLE,
        NB_MIME_BASE64,
        NB_MIME_UNKNOWN,
};

/* One that is no multipart itself. */
struct nb_mime_part {
        unsigned number;                 /* from 1, in the order in which they stand */
        char type[NB_MIME_TYPE_MAX + 1]; /* lower case, without parameters; "text/plain" where nothing is said */
        enum nb_mime_encoding encoding;
        const char *body; /* as it stands there */
        size_t len;
};

typedef int (*nb_mime_each)(void *userdata, const struct nb_mime_part *part);

/* Whether it begins as one: with a field that only such a message has. */
bool nb_mime_is_meant(const char *data, size_t len);

/*
 * Calls `each` for each part; stops at a negative return, which is returned. -EBADMSG when the message is none, with *ret_wrong set to what
 * is wrong: "found a part without an end". A message that is no multipart is one part.
 */
int nb_mime_parse(const char *data, size_t len, nb_mime_each each, void *userdata, const char **ret_wrong);

/* 0; -EBADMSG when the body is not of its encoding, or that is not known; -ENOMEM. */
int nb_mime_decode(const struct nb_mime_part *part, struct nb_secret *ret);

/* Base64 with white space anywhere in it. As above. */
int nb_mime_decode_base64(const char *text, size_t len, struct nb_secret *ret);
