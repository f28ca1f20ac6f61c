/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Text from outside, made fit for one line on a terminal or in a journal field. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Length of the UTF-8 sequence at the beginning and its code point; 0 when it is not well-formed (Unicode 15, table
 * 3-7). */
size_t nb_utf8_decode(const char *text, size_t len, uint32_t *ret_code_point);

/* C0, DEL and C1 controls; what YAML and terminals take for the end of a line: U+2028, U+2029; U+FEFF; what turns the direction of the text
 * around, so that a line reads as another one (U+202A to U+202E, U+2066 to U+2069); and U+FFFE, U+FFFF of each plane, which XML refuses. */
bool nb_code_point_is_control(uint32_t code_point);

/* Well-formed UTF-8 without any of these. */
bool nb_text_is_printable(const char *text, size_t len);

/* Copies as much as fits, cut between characters; what is not printable becomes a space, or '?' where it is not
 * UTF-8. */
void nb_text_copy_line(const char *text, size_t len, char *ret, size_t size);

/* ASCII letters or digits, or anything beyond ASCII. */
bool nb_text_has_letters(const char *text, size_t len);

/*
 * In quotes, for a message. Of several words on a long line the first alone; of what is longer than NB_TEXT_QUOTED_MAX bytes beginning, end
 * and length: "'sha256:0123… 4567' (180 bytes)". What is at the end often is what is wrong with it. Returns `ret`. Not for a secret.
 */
#define NB_TEXT_QUOTED_MAX 96
#define NB_TEXT_QUOTED_SIZE (NB_TEXT_QUOTED_MAX + 48)
const char *nb_text_quote(const char *text, size_t len, char ret[static NB_TEXT_QUOTED_SIZE]);
