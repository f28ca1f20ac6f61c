/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Decides on the serving certificate of a kubelet by a list of what is allowed. Each alternative
 * name must be
 *
 *  - enrolled for the node; or
 *  - a DNS name: the node's own name, if the node is enrolled or the policy has a suffix of it
 *    (servingNames): a node that is not enrolled may have chosen its name itself;
 *  - an address of a node that has no enrolled ones: within servingPrefixes, in the Node's status,
 *    and outside servingRefused, serviceNetworks and podNetworks. The node writes that status.
 *
 * What is not enrolled must belong to no other node (hosts.h). Loopback, link-local and the like
 * are never allowed. The decision is a pure function, for the controller and `requests`.
 */

#include <stdbool.h>

#include "admin/policy/request_case.h"

#define NB_SERVING_REASON_SIZE 640

enum nb_serving_verdict {
        NB_SERVING_APPROVED,
        NB_SERVING_MALFORMED, /* final: the request itself is wrong */
        NB_SERVING_POLICY_UNUSABLE,
        NB_SERVING_RECORD_UNUSABLE,
        NB_SERVING_NODE_REMOVED, /* since the request was made */
        NB_SERVING_NOT_ALLOWED,
        NB_SERVING_NOT_ITS_OWN, /* a name of somebody else */
        NB_SERVING_NO_NODE,
        NB_SERVING_NOT_IN_STATUS,
        NB_SERVING_LIST_INCOMPLETE,
        _NB_SERVING_VERDICT_N,
        NB_SERVING_NEEDS_LIST = _NB_SERVING_VERDICT_N, /* otherwise it may be approved: call again
                                                          with `hosts` */
};

/* If the request is not approved, `ret_reason` is the end of a sentence; it is printable. Each
 * verdict but APPROVED and MALFORMED may change with the cluster. */
enum nb_serving_verdict nb_serving_decide(const struct nb_request_case *c,
                                          char ret_reason[static NB_SERVING_REASON_SIZE]);

/* Whether the reason is about the Node's status alone. That of a new Node may be a few seconds
 * behind, and an administrator may approve the request nevertheless (is_forced). */
bool nb_serving_is_brief(enum nb_serving_verdict verdict);

/* The reason in the Event and the condition of the CSR, such as "ServingNotAllowed". */
const char *nb_serving_verdict_name(enum nb_serving_verdict verdict);
