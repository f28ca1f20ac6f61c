/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What install does for a child that is running, which may be hostile: the functions of struct
 * nb_child. Their first argument is the struct nb_install.
 */

#include "install/give.h"

/* After each status: without a host name, `join` waits for one, and cannot be trusted to report
 * which it used. Takes the first one, as `join` does: it may change once more before the
 * certificate is issued. */
void nb_answer_status(void *userdata);

/* Tells the child that reads metadata whether a join can begin with what it has found. 1: it can;
 * 0. */
int nb_answer_found(void *userdata, int channel);

/* Gives `join` a connection to the prover, which signs only for the node and the token of this
 * join. Leaves the question of `join` for later if the next connection is not due. 0. */
int nb_answer_proof(void *userdata, int channel);
