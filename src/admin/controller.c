/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/commands.h"
#include "base/macro.h"

int nb_admin_command_controller(_unused_ struct nb_options *options, struct nb_failure *f) {
        return nb_failure_set(f, NB_INTERNAL, 0, "not written yet");
}
