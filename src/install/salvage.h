/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A machine with usable credentials starts kubelet whatever else is wrong: settings that cannot be
 * read, a state directory that cannot be opened, a full disk. Writes nothing.
 */

#include <stdbool.h>

#include "base/sources.h"
#include "state/handoff.h"

/*
 * Whether this machine has joined. Looks at the paths of the settings if they can be read;
 * otherwise at the paths of the keys that are valid, at those that the last join recorded, and at
 * the default ones. In that case the node name is taken from the certificate, and whether another
 * cluster is configured is not checked.
 */
bool nb_salvage(int root_fd, struct nb_sources *sources, struct nb_inspection *ret_inspection);
