/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A failure as check and setup print it for programs: code, class, message ID, subject, detail, and
 * the remedy with the values of the fields of systemd/log.h. */

#include "base/failure.h"
#include "codec/json.h"

/* Writes null for NB_NONE. */
void nb_failure_put_json(const struct nb_failure *f, const char *key,
                         struct nb_json_writer *writer);
