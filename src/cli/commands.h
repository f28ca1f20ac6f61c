/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The commands of node-bootstrap that a person types; join/main.h has those of the services. Each
 * returns the exit status of the program, or is negative with a failure, which main() logs. */

#include "os/options.h"

int nb_command_check(struct nb_options *options, struct nb_failure *f);
int nb_command_explain(struct nb_options *options, struct nb_failure *f);
int nb_command_proof_key(struct nb_options *options, struct nb_failure *f);
int nb_command_reset(struct nb_options *options, struct nb_failure *f);
int nb_command_setup(struct nb_options *options, struct nb_failure *f);
int nb_command_status(struct nb_options *options, struct nb_failure *f);
