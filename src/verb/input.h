/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/failure.h"
#include "base/secret.h"

/* Reads what somebody typed a name or `-` for, to its end. NB_SETTINGS_UNREADABLE, also for more than `max` bytes; `name` is for messages.
 * -ECANCELED without a failure when nb_stop_fd() said so, where it is in use. */
int nb_input_read(int fd, const char *name, size_t max, struct nb_secret *ret, struct nb_failure *f);
