/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "admin/commands/admin_commands.h"

int nb_admin_read_line(struct nb_options *options, const struct nb_option *rows, int max,
                       struct nb_failure *f) {
        int n = 0, row;

        options->rows = rows;
        while ((row = nb_options_next(options, f)) >= 0 && row != NB_OPTIONS_END) {
                if (row == NB_OPTIONS_WORD && n == max)
                        return nb_admin_refuse_word("no further argument", options->value, f);
                if (row == NB_OPTIONS_WORD)
                        options->argv[n++] = options->argv[options->at];
                else if (rows[row].value && !strcmp(rows[row].value, "LIST") &&
                         *rows[row].ret_value)
                        return nb_failure_set(f, NB_USAGE, 0,
                                              "'--%s' is used twice; separate its entries by "
                                              "commas",
                                              rows[row].name);
                else
                        nb_options_store(options, row);
        }
        return row < 0 ? row : n;
}

int nb_admin_refuse_word(const char *expected, const char *found, struct nb_failure *f) {
        char quoted[NB_WORD_QUOTED_SIZE];

        return nb_failure_set(f, NB_USAGE, 0, "expected %s; found the word %s", expected,
                              nb_word_quote(found, quoted));
}

int nb_admin_verify_node(const char *name, struct nb_failure *f) {
        char parsed[NB_NODE_NAME_MAX + 1];

        /* A token has the form of a DNS name. */
        if (nb_token_verify(name, strlen(name)) < 0 &&
            nb_node_name_parse(name, strlen(name), parsed) >= 0 && strcmp(name, parsed) == 0)
                return 0;
        return nb_admin_refuse_word("the name of a node, a DNS name in lower case", name, f);
}

int nb_admin_write(struct nb_admin *admin, const char *method, const char *what, const char *path,
                   const struct nb_buffer *body, struct nb_json *ret_json, struct nb_failure *f) {
        int r = nb_admin_send(admin, method, what, path, body, ret_json, f);

        if (r != 404 && r != 409)
                return r;
        return nb_failure_set_http(f, NB_ADMIN_CONFLICT, r,
                                   "%s: it already exists, or somebody else has changed or deleted "
                                   "it",
                                   what);
}
