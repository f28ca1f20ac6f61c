/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Decides on a request for a client certificate. A pure function: the caller reads all facts. */

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "admin/policy/bootstrap_token.h"
#include "admin/policy/inventory.h"
#include "admin/policy/node_request.h"
#include "crypto/attestation.h"

enum nb_verdict {
        NB_VERDICT_APPROVE,
        NB_VERDICT_IGNORE, /* somebody else decides it */
        NB_VERDICT_WAIT,   /* left pending; the reason may go away */
        NB_VERDICT_REFUSE, /* left pending, or denied with --deny; the reason is final */
};

/* Why a request is not approved. They are checked in this order. */
enum nb_reason {
        NB_REASON_NONE,
        NB_REASON_NOT_A_TOKEN, /* the requestor is not a bootstrap token */
        NB_REASON_TOKEN_MISSING,
        NB_REASON_TOKEN_FOR_ANY_NODE, /* and there is no inventory */
        NB_REASON_TOKEN_RECREATED,    /* an earlier token with the same ID made the request */
        NB_REASON_MALFORMED,
        NB_REASON_TOKEN_EXPIRED,
        NB_REASON_TOKEN_DISABLED,
        NB_REASON_TOKEN_FOR_ANOTHER_NODE,
        NB_REASON_INVENTORY_UNUSABLE,
        NB_REASON_NOT_IN_INVENTORY,
        NB_REASON_NOT_ENROLLED,
        NB_REASON_PROOF_MISSING,
        NB_REASON_PROOF_INVALID,
        NB_REASON_ENROLLED_KEY_UNUSABLE,
        NB_REASON_NODE_READY,
        NB_REASON_TOKEN_USED,          /* another key has claimed the token */
        NB_REASON_TOKEN_CLAIM_FOREIGN, /* something else has the name of the claim */
        _NB_REASON_N,
};

enum nb_claim_state {
        NB_CLAIM_OWN,     /* by the key of the request, or there is none yet */
        NB_CLAIM_OTHER,   /* by another key */
        NB_CLAIM_FOREIGN, /* of an earlier token with this ID, or not made by this program */
};

struct nb_client_case {
        const char *token_id;                    /* of the requestor; "": not a token */
        const char *node;                        /* in the request; "" if invalid */
        const char *flaw;                        /* why the request is malformed, or "" */
        const struct nb_bootstrap_token *token;  /* NULL: there is no such Secret */
        const struct nb_inventory_node *entry;   /* NULL: the inventory does not list the node */
        bool has_inventory;                      /* --inventory is configured */
        const char *inventory_flaw;              /* why it cannot be read; NULL if it can */
        bool is_attestation_required;            /* --require-attestation */
        enum nb_attestation_verdict attestation; /* MISSING if the entry has no key */
        bool is_node_ready;                      /* a Node of this name is Ready */
        enum nb_claim_state claim;               /* of a bound token */
        const char *claimed_by;                  /* the request in the claim; "" if unknown */
        time_t requested;                        /* when the request was created; 0: not known */
        time_t now;
};

/* The first reason that applies, or NB_REASON_NONE: approve. */
enum nb_reason nb_client_judge(const struct nb_client_case *facts);

enum nb_verdict nb_reason_verdict(enum nb_reason reason);

/* The reason in the Event and the condition of the CSR, such as "TokenForAnotherNode". */
const char *nb_reason_name(enum nb_reason reason);

/* A sentence for a person. Returns `ret`. */
#define NB_REASON_TEXT_SIZE 640
const char *nb_reason_describe(enum nb_reason reason, const struct nb_client_case *facts,
                               char ret[static NB_REASON_TEXT_SIZE]);
