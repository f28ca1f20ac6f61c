/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Makes the record of a join from the verified handoff, and writes it with all files of the join
 * (install/join_files.h). */

#include "base/failure.h"
#include "install/accept.h"
#include "node_state/context.h"

/* As nb_join_files_write(). nb_present_read() has already checked that the file to replace is a
 * kubeconfig. */
int nb_write(const struct nb_context *context, const struct nb_accepted *accepted,
             struct nb_failure *f);

/* Writes only kubelet's configuration. NB_TARGET_UNWRITABLE, also if it exists. */
int nb_write_config(const struct nb_context *context, const struct nb_buffer *config,
                    struct nb_failure *f);
