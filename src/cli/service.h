/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Why systemd cannot start node-bootstrap.service, or could not start it last time: the program did
 * not run, so there is no journal entry and no STATUS= of it. Asks systemd, and quotes its log.
 */

#include <stdbool.h>

#include "base/failure.h"
#include "system/unit.h"

/*
 * Returns whether there is such a reason: NB_UNIT_MASKED, NB_UNIT_MISSING, NB_SERVICE_CREDENTIAL,
 * NB_SERVICE_SETUP, or NB_START_LIMIT. False while a start is queued or under way, except for an
 * automatic restart by systemd.
 */
bool nb_service_find_obstacle(const struct nb_unit *service, struct nb_failure *ret_why);

/* Whether a drop-in loads the credential with LoadCredentialEncrypted=, which accepts no plain
 * text.
 */
bool nb_service_decrypts(const struct nb_unit *service, const char *credential);

/* What is wrong with a file in a credential store; NULL if systemd can read it. */
const char *nb_service_find_fault(int folder_fd, const char *name);
