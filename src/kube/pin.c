/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/encoding.h"
#include "base/text.h"
#include "kube/pin.h"

#define PIN_TYPE "sha256:"
#define PIN_TYPE_LEN (sizeof(PIN_TYPE) - 1)
#define PIN_DIGITS (2 * (size_t)NB_PIN_SIZE)
#define PIN_REST_QUOTED_MAX 12 /* a token, which may have been pasted after a pin, has 23 */

int nb_pin_parse(const char *text, size_t len, uint8_t ret_pin[static NB_PIN_SIZE]) {
        if (len < PIN_TYPE_LEN || strncasecmp(text, PIN_TYPE, PIN_TYPE_LEN) != 0)
                return -EINVAL;
        return nb_hex_decode(text + PIN_TYPE_LEN, len - PIN_TYPE_LEN, ret_pin, NB_PIN_SIZE);
}

void nb_pin_find_flaw(const char *text, size_t len, char ret[static NB_PIN_FLAW_SIZE]) {
        const char *digits = text + PIN_TYPE_LEN;
        size_t n = 0, n_rest;

        ret[0] = '\0';
        if (len < PIN_TYPE_LEN || strncasecmp(text, PIN_TYPE, PIN_TYPE_LEN) != 0) {
                strcpy(ret, "it does not begin with '" PIN_TYPE "'");
                return;
        }
        while (n < len - PIN_TYPE_LEN && isxdigit((unsigned char)digits[n]))
                n++;
        n_rest = len - PIN_TYPE_LEN - n;
        if (n != PIN_DIGITS)
                snprintf(ret, NB_PIN_FLAW_SIZE, "it has %zu hex digits%s", n,
                         n_rest > 0 ? " before the first other character" : "");
        else if (n_rest > PIN_REST_QUOTED_MAX || nb_text_has_letters(digits + n, n_rest))
                snprintf(ret, NB_PIN_FLAW_SIZE, "%zu bytes follow the last digit", n_rest);
        else if (n_rest > 0)
                snprintf(ret, NB_PIN_FLAW_SIZE, "'%.*s' follows the last digit", (int)n_rest,
                         digits + n);
}

void nb_pin_format(const uint8_t pin[static NB_PIN_SIZE], char ret[static NB_PIN_TEXT_SIZE]) {
        nb_hex_encode(pin, NB_PIN_SIZE, stpcpy(ret, PIN_TYPE));
}
