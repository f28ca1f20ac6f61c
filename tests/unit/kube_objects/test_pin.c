/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "case.h"
#include "kube_objects/pin.h"

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define PIN "sha256:" HASH

struct pin_case {
        const char *name;
        const char *text;
        const char *flaw; /* "": accepted */
};

static struct pin_case pins[] = {
        { "pin: as kubeadm prints it", PIN, "" },
        { "pin: upper case",
          "SHA256:ABCDEF6789ABCDEF0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF", "" },
        { "pin: only the digits", HASH, "it does not begin with 'sha256:'" },
        { "pin: no digits", "sha256:", "it has 0 hex digits" },
        { "pin: one digit less",
          "sha256:123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
          "it has 63 hex digits" },
        { "pin: one digit more", PIN "0", "it has 65 hex digits" },
        { "pin: a letter beyond f",
          "sha256:g123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
          "it has 0 hex digits before the first other character" },
        { "pin: colons between the digits",
          "sha256:01:23:45:67:89:ab:cd:ef:01:23:45:67:89:ab:cd:ef:01:23:45:67:89",
          "it has 2 hex digits before the first other character" },
        { "pin: a space", "sha256: " HASH, "it has 0 hex digits before the first other character" },
        { "pin: a newline at the end", PIN "\n",
          "it has 64 hex digits before the first other character" },
        { "pin: another type", "sha512:" HASH, "it does not begin with 'sha256:'" },
        { "pin: nothing", "", "it does not begin with 'sha256:'" },
};

static void parses_pin(void **state) {
        const struct pin_case *c = *state;
        char flaw[NB_PIN_FLAW_SIZE];
        uint8_t pin[NB_PIN_SIZE];

        assert_int_equal(nb_pin_parse(c->text, strlen(c->text), pin), c->flaw[0] ? -EINVAL : 0);
        nb_pin_find_flaw(c->text, strlen(c->text), flaw);
        assert_string_equal(flaw, c->flaw);
}

int main(void) {
        CASES(pins, parses_pin);
        return case_run("pin");
}
