/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads the facts for a decision on a request of a node from the cluster, and decides. The
 * controller and `approve` call the same functions, so that they cannot disagree.
 *
 * A record or policy that the API server forbids to read, or that is malformed, is not a failure of
 * the call: `ret_flaw` says why it cannot be used, and nothing is approved.
 */

#include <stdbool.h>

#include "admin/client/client.h"
#include "admin/policy/serving_policy.h"
#include "admin/policy/verdict.h"
#include "base/failure.h"

/* Each returns 1: read; 0: the object does not exist, or has a flaw. A Secret that is not a correct
 * token cannot authenticate, so nb_facts_read_token() treats it as if it did not exist. */
int nb_facts_read_request(struct nb_admin *admin, const char *name,
                          struct nb_node_request *ret_request, struct nb_failure *f);
int nb_facts_read_token_secret(struct nb_admin *admin, const char *name,
                               struct nb_bootstrap_token *ret_token, struct nb_failure *f);
int nb_facts_read_token(struct nb_admin *admin, const char *id,
                        struct nb_bootstrap_token *ret_token, struct nb_failure *f);
int nb_facts_read_node(struct nb_admin *admin, const char *name, struct nb_node_facts *ret_node,
                       struct nb_failure *f);
int nb_facts_read_record(struct nb_admin *admin, const char *node,
                         struct nb_node_record *ret_record, struct nb_failure *ret_flaw,
                         struct nb_failure *f);

struct nb_limits {
        struct nb_node_record record; /* `node` is "" if there is none, or it has a flaw */
        struct nb_policy policy;
        bool has_policy;
        struct nb_failure record_flaw, policy_flaw;
};

struct nb_client_look {
        struct nb_client_case facts; /* points into the members below */
        struct nb_bootstrap_token token;
        struct nb_limits limits;
        bool has_node;
        struct nb_node_facts node;
};

/* Reads the facts for a request for a client certificate, apart from the claim of its token.
 * Returns an enum nb_reason, never one about the claim, or is negative with a failure. For an
 * administrator (is_asked) all facts are read; otherwise only until a reason is found. `look` must
 * be zero, and the caller calls nb_client_look_done(). */
int nb_client_look(struct nb_admin *admin, const struct nb_node_request *request, bool is_asked,
                   struct nb_client_look *look, struct nb_failure *f);
void nb_client_look_done(struct nb_client_look *look);

struct nb_serving_look {
        struct nb_serving_case facts; /* points into the members below */
        struct nb_limits limits;
        struct nb_node_facts node;
};

/* The same for a serving certificate, with a snapshot that is not older than NB_HOSTS_AGE_MAX_MS.
 * Returns an enum nb_serving_verdict. */
int nb_serving_look(struct nb_admin *admin, const struct nb_node_request *request,
                    struct nb_hosts *hosts, struct nb_serving_look *look,
                    char ret_reason[static NB_SERVING_REASON_SIZE], struct nb_failure *f);

/* Adds what the cluster knows to an empty snapshot. */
int nb_facts_read_hosts(struct nb_admin *admin, struct nb_hosts *hosts, struct nb_failure *f);

/* NB_USAGE if the networks of Services cannot be known: neither the policy nor ServiceCIDR objects
 * name them. With another failure, this is not known. */
int nb_facts_verify_service_networks(struct nb_admin *admin, struct nb_failure *f);

/* Adds a condition, such as "Approved", to the request as it was read. 1; 0 if the request was
 * changed or deleted since. */
int nb_csr_decide(struct nb_admin *admin, const struct nb_node_request *request, const char *type,
                  const char *reason, const char *message, struct nb_failure *f);

/* Deletes a Secret in kube-system if it still has this UID and resourceVersion; NULL: any. 1:
 * deleted; 0: it does not exist, or has changed. */
int nb_secret_delete(struct nb_admin *admin, const char *name, const char *uid,
                     const char *resource_version, struct nb_failure *f);
