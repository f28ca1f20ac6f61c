/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Decides on a request for a client certificate.
 *
 * This program decides on requests of bound tokens (the group NB_TOKEN_GROUP_NODE, or an annotation
 * with the node) and of enrolled tokens (NB_TOKEN_GROUP_ENROLLED), by the groups of the request or
 * of the token. All others are kube-controller-manager's.
 */

#include "admin/policy/request_case.h"

enum nb_verdict {
        NB_VERDICT_APPROVE,
        NB_VERDICT_IGNORE, /* somebody else decides on the request */
        NB_VERDICT_WAIT,   /* left pending; the reason may go away */
        NB_VERDICT_REFUSE, /* left pending, or denied with --deny: the request does not fit its
                              token or node, which only an administrator can change */
};

/* Why a request is not approved, in the order in which the reasons are checked. */
enum nb_reason {
        NB_REASON_NONE,
        NB_REASON_NOT_A_TOKEN, /* the requestor is not a bootstrap token */
        NB_REASON_NOT_OURS,    /* of a token that is neither bound nor enrolled */
        NB_REASON_TOKEN_MISSING,
        NB_REASON_TOKEN_RECREATED, /* an earlier token with the same ID made the request */
        NB_REASON_MALFORMED,
        NB_REASON_TOKEN_EXPIRED,
        NB_REASON_TOKEN_DISABLED,
        NB_REASON_TOKEN_WITHOUT_NODE, /* in the bound group, without the annotation */
        NB_REASON_TOKEN_FOR_ANOTHER_NODE,
        NB_REASON_POLICY_UNUSABLE,
        NB_REASON_RECORD_UNUSABLE,
        NB_REASON_NODE_REMOVED, /* after the request was made */
        NB_REASON_NOT_ENROLLED,
        NB_REASON_PROOF_MISSING,
        NB_REASON_PROOF_INVALID,
        NB_REASON_NODE_READY,
        NB_REASON_TOKEN_USED,          /* another key has claimed the token */
        NB_REASON_TOKEN_CLAIM_FOREIGN, /* something else has the name of the claim */
        NB_REASON_APPROVED_BY_OTHERS,  /* of an Event; nb_client_judge() does not return it */
        _NB_REASON_N,
};

/* The first reason before `end` that applies, or NB_REASON_NONE, which means "approve" if `end` is
 * _NB_REASON_N. Facts for the reasons from `end` on need not be read yet. */
enum nb_reason nb_client_judge(const struct nb_request_case *facts, enum nb_reason end);

/* The same without the reasons before `begin`: a requestor that the policy lists needs no token,
 * but all that the policy and the record of the node require. */
enum nb_reason nb_client_judge_from(const struct nb_request_case *facts, enum nb_reason begin,
                                    enum nb_reason end);

enum nb_verdict nb_reason_verdict(enum nb_reason reason);

/* What has to change, beside the request, before the reason can go away: bits. */
enum nb_fact {
        NB_FACT_TOKEN = 1,
        NB_FACT_LIMITS = 2, /* the policy, and the record of the node */
        NB_FACT_NODE = 4,
        NB_FACT_HOSTS = 8, /* what other nodes have */
};
unsigned nb_reason_facts(enum nb_reason reason);

/* The reason in the Event and the condition of the CSR, such as "TokenForAnotherNode". */
const char *nb_reason_name(enum nb_reason reason);

/* A sentence for a person. Returns `ret`. */
#define NB_REASON_TEXT_SIZE 640
const char *nb_reason_describe(enum nb_reason reason, const struct nb_request_case *facts,
                               char ret[static NB_REASON_TEXT_SIZE]);
