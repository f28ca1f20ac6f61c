/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/encoding.h"
#include "base/text.h"
#include "kube_objects/pin.h"

#define PIN_TYPE "sha256:"
#define PIN_TYPE_LEN (sizeof(PIN_TYPE) - 1)

int nb_pin_parse(const char *text, size_t len, uint8_t ret_pin[static NB_PIN_SIZE]) {
        if (len < PIN_TYPE_LEN || strncasecmp(text, PIN_TYPE, PIN_TYPE_LEN) != 0)
                return -EINVAL;
        return nb_hex_decode(text + PIN_TYPE_LEN, len - PIN_TYPE_LEN, ret_pin, NB_PIN_SIZE);
}

void nb_pin_find_flaw(const char *text, size_t len, char ret[static NB_PIN_FLAW_SIZE]) {
        uint8_t ignored[NB_PIN_SIZE];
        size_t n = PIN_TYPE_LEN;

        ret[0] = '\0';
        if (nb_pin_parse(text, len, ignored) >= 0)
                return;
        if (len < n || strncasecmp(text, PIN_TYPE, n) != 0) {
                nb_text_copy(ret, NB_PIN_FLAW_SIZE, "it does not begin with '" PIN_TYPE "'");
                return;
        }
        while (n < len && isxdigit((unsigned char)text[n]))
                n++;
        snprintf(ret, NB_PIN_FLAW_SIZE, "it has %zu hex digits%s", n - PIN_TYPE_LEN,
                 n < len ? " before the first other character" : "");
}

void nb_pin_format(const uint8_t pin[static NB_PIN_SIZE], char ret[static NB_PIN_TEXT_SIZE]) {
        nb_hex_encode(pin, NB_PIN_SIZE, stpcpy(ret, PIN_TYPE));
}
