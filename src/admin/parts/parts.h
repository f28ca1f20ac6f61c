/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The parts of the controller, and the command that runs them. */

#include "admin/frame/controller.h"
#include "os/options.h"

extern const struct nb_part nb_part_approve_client, nb_part_approve_serving, nb_part_cleaner,
        nb_part_signer;

/* The command. Returns the exit status of the program, or is negative with a failure. */
int nb_admin_command_controller(struct nb_options *options, struct nb_failure *f);

/* Signs cluster-info soon. */
void nb_signer_wake(struct nb_controller *controller);

/* Returns the expired token to delete now; NULL: none. The token that was due first comes first, so
 * that one that cannot be deleted does not block the others. A token is kept while the controller
 * decides on a request of it. */
struct nb_token_record *nb_expired_choose(const struct nb_controller *controller, time_t now,
                                          uint64_t now_ms);

/* Bytes of one patch, below the limit of a request body. */
#define NB_SIGNATURES_BODY_MAX ((size_t)60 * 1024)

/* Marks the tokens that cluster-info should have signatures of: of those that are not expired
 * (`now` 0: of all), at most `max`, the newest. Returns how many are left out for lack of room, or
 * -ENOMEM. */
ssize_t nb_signatures_choose(const struct nb_records *tokens, time_t now, size_t max);

/*
 * Appends the JSON merge patch that adds the wanted signatures to `cluster_info` (a ConfigMap), and
 * removes all others. It contains only differences, as many as fit into the buffer. It applies only
 * to this version of the ConfigMap. Returns the number of changes; negative: cluster_info->r,
 * -ENOMEM, -EINVAL.
 */
ssize_t nb_signatures_plan(const struct nb_records *tokens, struct nb_json *cluster_info,
                           struct nb_buffer *ret_body);
