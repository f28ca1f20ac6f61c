/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "case.h"
#include "cli/check/check_internal.h"

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define ID "abcdef"
#define SECRET "0123456789secret"

struct row {
        const char *name, *token, *expected; /* NULL: refused with `r` */
        int r;
};

static struct row rows[] = {
        { "a bootstrap token shows its public half", ID "." SECRET,
          "bootstrap token abcdef.****************", 0 },
        { "a newline after it is no part of it", ID "." SECRET "\n",
          "bootstrap token abcdef.****************", 0 },
        { "a k3s token of a bootstrap token", "K10" HASH "::" ID "." SECRET,
          "k3s token abcdef.****************, with the hash of a CA", 0 },
        { "a k3s token of user and password", "K10" HASH "::node:" SECRET,
          "k3s token ****************, with the hash of a CA", 0 },
        { "a k3s token without a hash", "K10::" ID "." SECRET,
          "k3s token abcdef.****************, without the hash of a CA", 0 },
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

struct file_row {
        const char *name;
        uid_t uid;
        gid_t gid;
        mode_t mode;
        bool expected;
};

static struct file_row file_rows[] = {
        { "file: of root alone", 0, 0, 0600, true },
        { "file: of root, without a bit", 0, 0, 0000, true },
        { "file: of root and another group", 0, 4, 0640, true },
        { "file: of root and another group, without a bit", 0, 4, 0040, false },
        { "file: of another user", 1000, 1000, 0600, false },
        { "file: of another user and its group", 1000, 1000, 0660, false },
        { "file: of another user, for all", 1000, 1000, 0644, true },
        { "file: of another user and root's group", 1000, 0, 0640, true },
        { "file: of another user and root's group, which may not", 1000, 0, 0604, false },
};

static void judges_file(void **state) {
        const struct file_row *row = *state;
        const struct stat st = { .st_mode = S_IFREG | row->mode,
                                 .st_uid = row->uid,
                                 .st_gid = row->gid };

        assert_int_equal(nb_check_is_readable_to_installer(&st), row->expected);
}

int main(void) {
        CASES(rows, masks);
        CASES(file_rows, judges_file);
        return case_run("check");
}
