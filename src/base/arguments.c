/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/arguments.h"

static const struct nb_argument *find_row(const struct nb_argument *rows, const char *word) {
        size_t len = strcspn(word, "=");
        bool has_value = word[len] == '=';

        for (; rows->name; rows++)
                if (strlen(rows->name) == len && strncmp(rows->name, word, len) == 0 &&
                    has_value == !rows->ret_is_set)
                        return rows;
        return NULL;
}

int nb_arguments_read(char *argv[], const struct nb_argument *rows, const char *help,
                      struct nb_failure *f) {
        while (*++argv) {
                const struct nb_argument *row = find_row(rows, *argv);

                if (strcmp(*argv, "--help") == 0 || strcmp(*argv, "--version") == 0) {
                        printf("%s", (*argv)[2] == 'h' ? help : "node-bootstrap " NB_VERSION "\n");
                        return 0;
                }
                if (!row)
                        return nb_failure_set(f, NB_USAGE, EINVAL,
                                              "'%s' is not an option of this program, or its value "
                                              "is missing",
                                              *argv);
                if (row->ret_is_set)
                        *row->ret_is_set = true;
                else
                        *row->ret_value = strchr(*argv, '=') + 1;
        }
        return 1;
}
