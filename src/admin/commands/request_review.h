/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The facts for an administrator's decision on a request of a node, and objections to it. Unlike
 * the controller, an administrator may approve requests of tokens for any node. */

#include <stdbool.h>

#include "admin/client/client.h"
#include "admin/policy/bootstrap_token.h"
#include "admin/policy/inventory.h"
#include "admin/policy/node_request.h"
#include "admin/policy/serving_policy.h"
#include "base/failure.h"
#include "crypto/attestation.h"

#define NB_REVIEW_VERDICT_SIZE 640

struct nb_review {
        struct nb_node_request request;
        bool has_token; /* `token` is the Secret of the requestor's token */
        struct nb_bootstrap_token token;
        bool has_entry; /* `entry` is the node's entry in the inventory */
        struct nb_inventory_node entry;
        const char *proof; /* "valid", "missing", ...; "-" without an inventory */
        bool is_node_found, is_node_ready;
        struct nb_serving_node node;
        bool is_suspicious;                   /* there is an objection */
        char verdict[NB_REVIEW_VERDICT_SIZE]; /* a sentence; printable */
};

/* Reads token, claim, Node and inventory for review->request, which is of a known kind, and sets
 * the other members. An unusable entry of the inventory is reported in `verdict`. Failures of
 * nb_admin_get(). */
int nb_review_make(struct nb_admin *admin, struct nb_inventory *inventory, struct nb_review *review,
                   struct nb_failure *f);

void nb_review_done(struct nb_review *review);
