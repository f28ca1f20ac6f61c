/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The commands of node-bootstrap that a person types; join/main.h has those of the services. Each
 * returns the exit status of the program, or is negative with a failure, which main() logs. */

#include "os/options.h"

typedef int nb_command_run(struct nb_options *options, struct nb_failure *f);

nb_command_run nb_command_check, nb_command_explain, nb_command_proof_key, nb_command_reset,
        nb_command_setup, nb_command_status;
