/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What install does on a node before `join` runs, and after it. Both take the lock's protection for
 * granted: main.c holds it.
 */

#include <stdbool.h>

#include "base/failure.h"
#include "install/context.h"
#include "state/handoff.h"

/*
 * Finishes what a crash of an earlier start left, says in *inspection what is on this machine, and
 * keeps what `join` needs if `is_child_run` (install/give.h). 1: run `join`; 0: this machine has
 * joined, and nothing is left to do.
 */
int nb_node_begin(struct nb_context *context, bool is_child_run, struct nb_inspection *inspection,
                  struct nb_failure *f);

/* Looks at this machine again, verifies what `join` left, and writes kubelet's files. 0. */
int nb_node_end(const struct nb_context *context, struct nb_inspection *inspection,
                struct nb_failure *f);
