/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Reads values from documents of clouds that are not JSON. No I/O. */

#include <stddef.h>

#include "base/failure.h"
#include "base/secret.h"

/* Reads the host name from NoCloud's meta-data, which is YAML: local-hostname or hostname. `what`
 * names the document in messages. 1; 0 if there is none; NB_METADATA_MALFORMED. */
int nb_metadata_seed_name(const char *yaml, size_t len, const char *what, struct nb_secret *ret,
                          struct nb_failure *f);
