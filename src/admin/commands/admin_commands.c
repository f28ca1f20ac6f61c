/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/commands/admin_commands.h"

int nb_admin_next_command(struct nb_options *options, struct nb_failure *f) {
        int r = nb_options_next(options, f);

        if (r < 0 && f->code == NB_USAGE)
                nb_failure_add(f, " before the command; options follow the command");
        return r;
}
