/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "admin/commands/admin_commands.h"

int nb_admin_run_command(struct nb_options *options, const struct nb_admin_command *commands,
                         const char *names, struct nb_failure *f) {
        char quoted[NB_WORD_QUOTED_SIZE];
        int r = nb_options_next(options, f);

        if (r < 0 && f->code == NB_USAGE)
                nb_failure_add(f, " before the command; options follow the command");
        if (r < 0)
                return r;
        for (; r == NB_OPTIONS_WORD && commands->name; commands++)
                if (!strcmp(options->value, commands->name)) {
                        options->usage = commands->usage;
                        return commands->run(options, f);
                }
        return nb_failure_set(f, NB_USAGE, 0, "expected %s; found %s", names,
                              r == NB_OPTIONS_WORD ? nb_word_quote(options->value, quoted)
                                                   : "nothing");
}

int nb_admin_read_line(struct nb_options *options, const struct nb_option *rows,
                       const char **ret_words, size_t max, size_t *ret_n, struct nb_failure *f) {
        char quoted[NB_WORD_QUOTED_SIZE];
        int row;

        *ret_n = 0;
        options->rows = rows;
        while ((row = nb_options_next(options, f)) >= 0 && row != NB_OPTIONS_END) {
                if (row == NB_OPTIONS_WORD && *ret_n == max)
                        return nb_failure_set(f, NB_USAGE, 0, "unexpected argument %s",
                                              nb_word_quote(options->value, quoted));
                if (row == NB_OPTIONS_WORD)
                        ret_words[(*ret_n)++] = options->value;
                else if (rows[row].value && !strcmp(rows[row].value, "LIST") &&
                         *rows[row].ret_value)
                        return nb_failure_set(f, NB_USAGE, 0,
                                              "'--%s' is used twice; separate its entries by "
                                              "commas",
                                              rows[row].name);
                else
                        nb_options_store(options, row);
        }
        return row < 0 ? row : 0;
}
