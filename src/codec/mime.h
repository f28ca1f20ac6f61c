/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads a MIME message (RFC 2045, 2046) as tools for user data write it, strictly and with limits.
 * Lines end with LF or CRLF. The contents may be secret.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/secret.h"

#define NB_MIME_PARTS_MAX 64
#define NB_MIME_DEPTH_MAX 2 /* nested multiparts */
#define NB_MIME_FIELDS_MAX 64
#define NB_MIME_FIELD_MAX 1000 /* bytes of a header field, unfolded */
#define NB_MIME_TYPE_MAX 127
#define NB_MIME_BOUNDARY_MAX 70 /* RFC 2046, 5.1.1 */

enum nb_mime_encoding {
        NB_MIME_PLAIN, /* 7bit, 8bit, binary */
        NB_MIME_BASE64,
        NB_MIME_UNKNOWN,
};

struct nb_mime_part {
        unsigned number;                 /* from 1, in the order of the message */
        char type[NB_MIME_TYPE_MAX + 1]; /* lower case, without parameters; the default is
                                            "text/plain" */
        enum nb_mime_encoding encoding;
        const char *body; /* encoded */
        size_t len;
};

typedef int (*nb_mime_each)(void *userdata, const struct nb_mime_part *part);

/* Whether the data begins with a Content-Type or MIME-Version field. */
bool nb_mime_looks_like(const char *data, size_t len);

/*
 * Calls `each` for each part that is not a multipart. If `each` returns a negative value, stops and
 * returns that value. -EBADMSG for an invalid message, with *ret_wrong set to what was found: "a
 * part without a closing boundary". A message that is not a multipart is one part.
 */
int nb_mime_parse(const char *data, size_t len, nb_mime_each each, void *userdata,
                  const char **ret_wrong);

/* Decodes base64 with white space anywhere in it. 0; -EBADMSG, -ENOMEM. */
int nb_mime_decode_base64(const char *text, size_t len, struct nb_secret *ret);
