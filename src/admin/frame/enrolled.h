/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Which requests are decided last, since they need a proof and have none: a thief of a token can
 * invent names at no cost, and these must not delay a machine. */

#include <stdbool.h>

#include "admin/client/watch.h"
#include "admin/frame/controller.h"

/* By the records and the policy that were seen last; a decision reads them again. */
bool nb_enrolled_lacks_proof(const struct nb_controller *controller,
                             const struct nb_node_request *request);

/* Whether there is a record of this node, which is not removed. */
bool nb_enrolled_has(const struct nb_controller *controller, const char *node);

/* For the watches of the records of nodes and of the policy; `userdata` is the controller. */
void nb_enrolled_on_record(void *userdata, struct nb_json *object, enum nb_change change);
void nb_enrolled_on_list(void *userdata, bool is_complete);
void nb_enrolled_on_policy(void *userdata, struct nb_json *object, enum nb_change change);
void nb_enrolled_on_policy_list(void *userdata, bool is_complete);
