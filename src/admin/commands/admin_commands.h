/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The commands of node-bootstrap-admin. Each returns the exit status of the program, or is negative
 * with a failure, which main() logs. options->argv continues after the name of the command. */

#include "system/options.h"

/* nb_options_next() for the name of a command. An option instead of it is explained. */
int nb_admin_next_command(struct nb_options *options, struct nb_failure *f);

int nb_admin_command_approve(struct nb_options *options, struct nb_failure *f);
int nb_admin_command_cluster_info(struct nb_options *options, struct nb_failure *f);
int nb_admin_command_enroll(struct nb_options *options, struct nb_failure *f);
int nb_admin_command_token(struct nb_options *options, struct nb_failure *f);
