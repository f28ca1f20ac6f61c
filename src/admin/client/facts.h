/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads the facts for a decision on a request of a node from the cluster, and decides. The
 * controller and `requests` call the same functions, so that they cannot disagree.
 *
 * A record or policy that the API server forbids to read, or that is malformed, is not a failure of
 * the call: `ret_flaw` says why it cannot be used, and nothing is approved.
 */

#include <stdbool.h>

#include "admin/client/call_plan.h"
#include "admin/client/client.h"
#include "admin/policy/request_case.h"
#include "base/failure.h"

/* The place of each GET in a plan. */
enum nb_read {
        NB_READ_REQUEST,
        NB_READ_TOKEN,
        NB_READ_POLICY,
        NB_READ_RECORD,
        NB_READ_NODE,
        NB_READ_CLAIM, /* claim.h */
        _NB_READ_N,
};
_Static_assert(_NB_READ_N <= NB_PLAN_READS_MAX, "a place for each");

/* Adds a GET to a plan. `name` is that of the object; for a token and its claim, the ID of the
 * token; for a record, the node. */
void nb_facts_add(struct nb_plan *plan, enum nb_read read, const char *name);

/* The answer of the GET. 1: read; 0: there is no GET or no object, or it has a flaw. A Secret that
 * is not a correct token cannot authenticate, so it is treated as if it did not exist; *ret_token
 * has what could be read. */
int nb_facts_take_request(struct nb_plan *plan, struct nb_admin *admin,
                          struct nb_node_request *ret_request, struct nb_failure *f);
int nb_facts_take_token(struct nb_plan *plan, struct nb_admin *admin,
                        struct nb_bootstrap_token *ret_token, struct nb_failure *f);
int nb_facts_take_node(struct nb_plan *plan, struct nb_admin *admin, struct nb_node_facts *ret_node,
                       struct nb_failure *f);

int nb_facts_take_record(struct nb_plan *plan, struct nb_admin *admin, const char *node,
                         struct nb_node_record *ret_record, struct nb_failure *ret_flaw,
                         struct nb_failure *f);

/* As above. A missing policy is a flaw (NB_ADMIN_MISSING), since somebody may have deleted a policy
 * that requires proofs. The second function also sends the GET, and waits. */
int nb_facts_take_policy(struct nb_plan *plan, struct nb_admin *admin, struct nb_policy *ret_policy,
                         struct nb_failure *ret_flaw, struct nb_failure *f);
int nb_facts_read_policy(struct nb_admin *admin, struct nb_policy *ret_policy,
                         struct nb_failure *ret_flaw, struct nb_failure *f);

struct nb_look {
        struct nb_request_case facts; /* points into the members below */
        struct nb_bootstrap_token token;
        struct nb_policy policy;
        struct nb_node_record record;
        struct nb_failure policy_flaw, record_flaw;
        struct nb_node_facts node;
};

/* The facts for a decision, apart from the claim of the token and from what other nodes have: the
 * reads, and their answers. `look` must be zero, and the caller calls nb_look_done(). 0. */
void nb_look_add(struct nb_plan *plan, const char *token_id, const char *node);
int nb_look_take(struct nb_plan *plan, struct nb_admin *admin,
                 const struct nb_node_request *request, struct nb_look *look, struct nb_failure *f);
void nb_look_done(struct nb_look *look);

/* What a flaw says; NULL: there is none. */
const char *nb_facts_flaw(const struct nb_failure *flaw);

/* Adds what nodes have to an empty snapshot. 0. */
int nb_facts_read_hosts(struct nb_admin *admin, struct nb_hosts *hosts, struct nb_failure *f);

/* Add a write to a plan. The first adds a condition, such as "Approved", to the request as it was
 * read. The second deletes a Secret in kube-system if it still has this UID and resourceVersion;
 * NULL: any. */
void nb_csr_add_decision(struct nb_plan *plan, const struct nb_node_request *request,
                         const char *type, const char *reason, const char *message);
void nb_secret_add_deletion(struct nb_plan *plan, const char *name, const char *uid,
                            const char *resource_version);
