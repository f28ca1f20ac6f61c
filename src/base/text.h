/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Makes text from other parties safe for a line on a terminal or a journal field. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Characters, to combine for strspn(3). */
#define NB_LOWER "abcdefghijklmnopqrstuvwxyz"
#define NB_UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define NB_DIGITS "0123456789"

/* Length of the UTF-8 sequence at the beginning and its code point; 0 when it is not well-formed
 * (Unicode 15, table 3-7). */
size_t nb_utf8_decode(const char *text, size_t len, uint32_t *ret_code_point);

/* C0, DEL and C1 controls; the line separators of YAML and terminals, U+2028 and U+2029; U+FEFF;
 * the characters that change the direction of text and can make a line look like another one
 * (U+202A to U+202E, U+2066 to U+2069); and U+FFFE and U+FFFF of each plane, which XML does not
 * allow. */
bool nb_code_point_is_control(uint32_t code_point);

/* Well-formed UTF-8 without control characters in this sense. */
bool nb_text_is_printable(const char *text, size_t len);

/* Copies a string, which must fit. */
void nb_text_copy(char *ret, size_t size, const char *text);
/* The same into an array. */
#define NB_TEXT_COPY(array, text) nb_text_copy((array), sizeof(array), (text))

/* Copies as much as fits, in whole characters. Characters that are not printable are replaced by a
 * space, and invalid UTF-8 by '?'. `ret` may be `text`. */
void nb_text_copy_line(const char *text, size_t len, char *ret, size_t size);
/* The same for a string and an array. */
#define NB_TEXT_COPY_LINE(array, text) \
        nb_text_copy_line((text), strlen(text), (array), sizeof(array))

/* Adds a name to a list such as "a, b", unless the list contains it; adds "..." if the name does
 * not fit. `size` is the size of `list`. */
void nb_text_list_add(char *list, size_t size, const char *name);

/*
 * What messages may quote. A bootstrap token is six characters, a dot and sixteen characters of a-z
 * and 0-9; its second half alone is the secret. People break tokens when they copy them, and a
 * piece of random text looks like a name. So what is quoted depends on where the text is from:
 *
 * - Of a command line, nothing is quoted but words of our own grammar: nb_options_place().
 * - Of documents that people write, a key or a value that is refused is quoted if no more than
 * three letters or digits in a row are in it. Otherwise a message says its place and its length:
 *   nb_text_quote_value(). A known key is a word of ours.
 * - Paths, and text from programs (names in a cluster, answers of a server), are quoted unless they
 *   hold the form of a token or of half of one: nb_text_quote(), nb_text_shown().
 *
 * A value that is accepted is what it is, for example the name of a host, and is shown wherever it
 * is used. So those that everybody can read must not be tokens, whole or cut: nb_text_is_token().
 */

/* Why text must not be quoted: "what may be a token", "a URL with a user or a query". NULL: it can
 * be quoted. Digests in hex can. */
const char *nb_text_describe_secret(const char *text, size_t len);

/* The same text, for a path in a message; or a note that it is not shown. */
const char *nb_text_shown(const char *path);

/* Quotes text for a message, or says what it is if it may be a secret. Of a long line, quotes only
 * the first word. Of a word above NB_TEXT_QUOTED_MAX bytes, quotes the beginning and the end, where
 * the error often is, and the length: "'sha256:0123…4567' (180 bytes)". Returns `ret`. */
#define NB_TEXT_QUOTED_MAX 96
#define NB_TEXT_QUOTED_SIZE (NB_TEXT_QUOTED_MAX + 48)
const char *nb_text_quote(const char *text, size_t len, char ret[static NB_TEXT_QUOTED_SIZE]);

/* Quotes a key or a value of a document for a message, or says how long it is: "12 characters".
 * Returns `ret`. */
#define NB_TEXT_SHOWN_MAX 3 /* letters and digits in a row */
const char *nb_text_quote_value(const char *text, size_t len, char ret[static NB_TEXT_QUOTED_SIZE]);

/* Whether a value is a token, or one of whose second half letters and digits in a random order are
 * left: all of it, except for a port, or all of one of the parts between '/', '=', ',' and ':'. A
 * host name can hold the form of a token within it, and one such as "lon3k8sworker001" can have the
 * form of a half. */
bool nb_text_is_token(const char *text);

/* Characters rather than bytes of UTF-8. */
size_t nb_text_count(const char *text, size_t len);

/* Levenshtein distance between `a` and the first `b_len` bytes of `b`, ignoring case. b_len: at
 * most NB_TEXT_DISTANCE_MAX. */
#define NB_TEXT_DISTANCE_MAX 128
unsigned nb_text_measure_distance(const char *a, const char *b, size_t b_len);
