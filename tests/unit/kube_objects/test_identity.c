/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kube_objects/identity.h"

#include "case.h"

struct bearer_case {
        const char *name, *text;
        bool is_valid;
};

static struct bearer_case bearers[] = {
        { "a bootstrap token", "abcdef.0123456789abcdef", true },
        { "a token of a service account", "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJ4In0.a-b_c~!", true },
        { "nothing", "", false },
        { "a blank", "a b", false },
        { "a line end, which ends the header", "a\r\nX-Remote-User: admin", false },
        { "a tab", "a\tb", false },
        { "DEL", "a\x7f", false },
        { "UTF-8", "caf\xc3\xa9", false },
};

static void is_a_header(void **state) {
        const struct bearer_case *c = *state;

        assert_int_equal(nb_bearer_is_valid(c->text, strlen(c->text)), c->is_valid);
}

static void has_a_limit(void **state) {
        static char text[16 * 1024 + 1];

        memset(text, 'a', sizeof(text));
        assert_true(nb_bearer_is_valid(text, sizeof(text) - 1));
        assert_false(nb_bearer_is_valid(text, sizeof(text)));
        text[1] = '\0';
        assert_false(nb_bearer_is_valid(text, 3));
}

int main(void) {
        CASES(bearers, is_a_header);
        CASE(has_a_limit);
        return case_run("identity");
}
