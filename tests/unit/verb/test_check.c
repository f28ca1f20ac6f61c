/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "case.h"
#include "verb/check_internal.h"

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define ID "abcdef"
#define SECRET "0123456789secret"

struct row {
        const char *name, *token, *expected; /* NULL: refused with `r` */
        int r;
};

static struct row rows[] = {
        { "a bootstrap token shows its public half", ID "." SECRET, "bootstrap token abcdef.****************", 0 },
        { "a newline after it is no part of it", ID "." SECRET "\n", "bootstrap token abcdef.****************", 0 },
        { "a k3s token of a bootstrap token", "K10" HASH "::" ID "." SECRET, "k3s token abcdef.****************, with the hash of a CA", 0 },
        { "a k3s token of user and password", "K10" HASH "::node:" SECRET, "k3s token ****************, with the hash of a CA", 0 },
        { "a k3s token without a hash", "K10::" ID "." SECRET, "k3s token abcdef.****************, without the hash of a CA", 0 },
        { "a token that is too short", ID ".0123", NULL, -EINVAL },
        { "nothing", "", NULL, -EINVAL },
        { "a damaged k3s token", "K10" HASH ":" ID "." SECRET, NULL, -EINVAL },
};

static void masks(void **state) {
        const struct row *row = *state;
        char text[NB_CHECK_TOKEN_TEXT_SIZE] = "untouched";

        assert_int_equal(nb_check_mask_token(row->token, strlen(row->token), text), row->r);
        assert_string_equal(text, row->expected ? row->expected : "untouched");
        assert_null(strstr(text, SECRET));
}

struct unit_row {
        const char *name, *text, *token, *config; /* sources */
};

static struct unit_row unit_rows[] = {
        { "no unit", "", "", "" },
        { "a name alone is looked for in the stores", "LoadCredential=node-bootstrap.token\n", "", "" },
        { "a path", "[Service]\nLoadCredential=node-bootstrap.token:/run/token\n", "LoadCredential= /run/token", "" },
        { "no newline at the end", "LoadCredential=node-bootstrap.token:/run/token", "LoadCredential= /run/token", "" },
        { "a relative path is looked for in the stores", "LoadCredential=node-bootstrap.token:other\n", "", "" },
        { "an encrypted file", "LoadCredentialEncrypted=node-bootstrap.token:/etc/token.cred\n", "LoadCredentialEncrypted= /etc/token.cred", "" },
        { "a value is not shown", "SetCredential=node-bootstrap.token:" SECRET "\n", "SetCredential=", "" },
        { "an encrypted value of several lines", "SetCredentialEncrypted=node-bootstrap.config: \\\n        Whxqht+dQJax1aZeCGLxm \\\n        FAAA\n", "",
          "SetCredentialEncrypted=" },
        { "another credential", "LoadCredential=node-bootstrap.token2:/run/token\nLoadCredential=x:/y\n", "", "" },
        { "the last one counts", "LoadCredential=node-bootstrap.token:/a\nLoadCredential=node-bootstrap.token:/b\n", "LoadCredential= /b", "" },
        { "an empty assignment takes them back", "LoadCredential=node-bootstrap.token:/a\nSetCredential=node-bootstrap.config:x\nLoadCredential=\n", "",
          "SetCredential=" },
        { "a comment", "#LoadCredential=node-bootstrap.token:/a\n", "", "" },
        { "control characters in a path", "LoadCredential=node-bootstrap.token:/a\033[2Jb\n", "LoadCredential= /a [2Jb", "" },
};

static void reads_unit(void **state) {
        const struct unit_row *row = *state;
        struct nb_check_unit unit;

        nb_check_parse_unit(row->text, &unit);
        assert_string_equal(unit.sources[NB_CHECK_TOKEN], row->token);
        assert_string_equal(unit.sources[NB_CHECK_CONFIG], row->config);
        assert_string_equal(unit.sources[NB_CHECK_KUBECONFIG], "");
}

int main(void) {
        CASES(rows, masks);
        CASES(unit_rows, reads_unit);
        return case_run("check");
}
