/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The commands that the services run, on the network and without privileges. Each returns the exit
 * status of the program, or is negative with a failure, which main() logs. */

#include "os/options.h"

#define NB_REFRESH_TIMEOUT_MS (5 * 60 * 1000) /* of a refresh */

int nb_command_join(struct nb_options *options, struct nb_failure *f);
int nb_command_refresh(struct nb_options *options, struct nb_failure *f);
