/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What is known of a request when it is judged. The judges (verdict.h for client certificates,
 * serving_policy.h for serving certificates) are pure functions: the caller reads all facts.
 */

#include <stdbool.h>
#include <time.h>

#include "admin/policy/bootstrap_token.h"
#include "admin/policy/cluster_policy.h"
#include "admin/policy/hosts.h"
#include "admin/policy/node_record.h"
#include "admin/policy/node_request.h"
#include "codec/json.h"
#include "crypto/attestation.h"

struct nb_node_facts {
        bool is_ready, is_being_deleted;
        time_t created;
        /* Of all types, each followed by a comma. An address with a comma counts as two, which the
         * node might also have set. */
        char addresses[NB_LIST_SIZE];
};

/* Reads a Node. Addresses that do not fit are left out, so that no name matches them. */
void nb_node_facts_read(struct nb_json *json, struct nb_node_facts *ret_node);

enum nb_claim_state {
        NB_CLAIM_NONE,    /* there is none yet */
        NB_CLAIM_OWN,     /* by the key of the request */
        NB_CLAIM_OTHER,   /* by another key */
        NB_CLAIM_FOREIGN, /* of an earlier token with this ID, or not made by this program */
};

struct nb_request_case {
        const struct nb_node_request *request;
        const struct nb_policy *policy;
        const char *policy_flaw;             /* why the policy cannot be used; NULL if it can */
        const struct nb_node_record *record; /* NULL: there is none */
        const char *record_flaw;             /* why the record cannot be used; NULL if it can */
        const struct nb_node_facts *node;    /* NULL: there is no Node of this name */

        /* For a client certificate. */
        const struct nb_bootstrap_token *token; /* NULL: there is no usable Secret of this token */
        enum nb_attestation_verdict proof;      /* of the request, by the key in the record */
        enum nb_claim_state claim;              /* of a bound token */
        const char *claimed_by;                 /* the request that the claim names; "": none */
        bool is_asked; /* by an administrator, who also decides on requests of unbound tokens */

        /* For a serving certificate. */
        const struct nb_hosts *hosts; /* NULL: not read yet */
        bool is_forced;               /* the Node may be missing, or have other addresses */
};

/* Verifies the proof, if the record has a key. */
void nb_request_case_prove(struct nb_request_case *c);

/* Whether the request was made before the enrolled node was removed, so that it needed a proof or
 * was limited to what was enrolled. */
bool nb_request_case_is_removed(const struct nb_request_case *c);
