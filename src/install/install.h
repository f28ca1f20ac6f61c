/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The steps of install before and after `join` runs. The caller must hold the lock of
 * system/lock.h.
 */

#include <stdbool.h>

#include "base/failure.h"
#include "files/handoff.h"
#include "node/context.h"

/*
 * Finishes an installation that a crash interrupted, sets *inspection to the state of this machine,
 * and, if `is_child_run`, reads the files that the child needs (install/give.h). Returns 1 if
 * `join` must run or, if this machine has joined, `refresh --kubelet-config`; 0 if nothing is left
 * to do.
 */
int nb_install_begin(struct nb_context *context, bool is_child_run,
                     struct nb_inspection *inspection, struct nb_failure *f);

/* Inspects this machine again, verifies the handoff of `join`, and writes kubelet's files. 0. */
int nb_install_end(struct nb_context *context, struct nb_inspection *inspection,
                   struct nb_failure *f);
