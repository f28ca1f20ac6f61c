/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The steps of install before and after a child runs. The caller must hold the lock of
 * state_files/lock.h. Settings are settled once: no step reads them again.
 */

#include "base/failure.h"
#include "install/child.h"
#include "install/give.h"

void nb_install_done(struct nb_install *install);

/*
 * Finishes an installation that a crash interrupted, and sets install->node to the state of this
 * machine. Returns the kind of the child that must run, and reads the files that it needs
 * (install/give.h), unless it reads metadata; NB_CHILD_NONE if nothing is left to do.
 */
int nb_install_begin(struct nb_install *install, struct nb_failure *f);

/* After metadata was read. As above: NB_CHILD_JOIN, or what follows a join. */
int nb_install_settled(struct nb_install *install, struct nb_failure *f);

/* Inspects this machine again, verifies what `join` or `refresh` has left, and writes kubelet's
 * files. NB_CHILD_NONE; NB_CHILD_CONFIG after a join: the machine has joined, and nothing that
 * follows can fail the join. */
int nb_install_end(struct nb_install *install, struct nb_failure *f);
