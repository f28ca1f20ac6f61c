/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "case.h"
#include "kube/pin.h"

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define PIN "sha256:" HASH

struct pin_case {
        const char *name;
        const char *text;
        bool is_accepted;
};

static struct pin_case pins[] = {
        { "pin: as kubeadm prints it", PIN, true },
        { "pin: upper case",
          "SHA256:ABCDEF6789ABCDEF0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF", true },
        { "pin: only the digits", HASH, false },
        { "pin: no digits", "sha256:", false },
        { "pin: one digit less",
          "sha256:123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", false },
        { "pin: one digit more", PIN "0", false },
        { "pin: a letter beyond f",
          "sha256:g123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", false },
        { "pin: colons between the digits",
          "sha256:01:23:45:67:89:ab:cd:ef:01:23:45:67:89:ab:cd:ef:01:23:45:67:89", false },
        { "pin: a space", "sha256: " HASH, false },
        { "pin: a newline at the end", PIN "\n", false },
        { "pin: another type", "sha512:" HASH, false },
        { "pin: nothing", "", false },
};

static void parses_pin(void **state) {
        const struct pin_case *c = *state;
        uint8_t pin[NB_PIN_SIZE];

        assert_int_equal(nb_pin_parse(c->text, strlen(c->text), pin), c->is_accepted ? 0 : -EINVAL);
}

int main(void) {
        CASES(pins, parses_pin);
        return case_run("pin");
}
