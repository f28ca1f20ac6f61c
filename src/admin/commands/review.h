/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What an administrator has to know about a request of a node, judged by the functions that the
 * controller calls. Unlike the controller, an administrator may approve requests of unbound tokens.
 *
 * Many requests are judged with facts that were listed once; the one that is decided on, with facts
 * that are read for it.
 */

#include "admin/client/claim.h"
#include "admin/client/facts.h"
#include "admin/client/records.h"
#include "admin/policy/serving_policy.h"
#include "admin/policy/verdict.h"

#define NB_REVIEW_OK "ok"       /* it may be approved */
#define NB_REVIEW_CHECK "check" /* the same, if the administrator knows the machine */

struct nb_review {
        struct nb_node_request request; /* of a known kind */
        struct nb_request_case facts;
        const char *verdict;     /* as above, or the reason in an Event, such as "TokenUsed" */
        const char *proof;       /* "valid", "missing", ...; "-": not enrolled */
        const char *node_state;  /* "Ready", ...; "-": it does not matter */
        const char *description; /* of the token */
        bool is_forcible;        /* --force overrides the verdict */
        bool is_blocked;         /* something is missing; the request itself is not suspicious */
        bool needs_node;         /* the Node, which was not read, may change the verdict */
        bool needs_claim;        /* of the bound token, before the request is approved */
        char user[NB_CSR_NAME_MAX + 1]; /* the request that has used the token; "": none */
        char text[1024];
};

void nb_review_free(struct nb_review *review);
static inline void nb_review_freep(struct nb_review **review) {
        nb_review_free(*review);
}

bool nb_review_permits(const struct nb_review *review, bool is_forced);

/* Whether some request can have this verdict. */
bool nb_review_has_verdict(const char *verdict);

/* What is in the cluster; zero at first. */
struct nb_known {
        struct nb_records tokens, nodes, claims; /* by the name of the Secret, or of the Lease */
        struct nb_policy policy;
        struct nb_failure policy_flaw;
        struct nb_hosts hosts;
};

int nb_known_read(struct nb_admin *admin, struct nb_known *ret_known, struct nb_failure *f);
void nb_known_done(struct nb_known *known);

/* Judges a request by what is known, as if its Node did not matter. Makes no call. */
void nb_review_guess(const struct nb_known *known, struct nb_review *review);

/* The same with the Node, which is read. `known` must live as long as the review. */
int nb_review_with_node(struct nb_admin *admin, struct nb_known *known, struct nb_review *review,
                        struct nb_failure *f);

/* Reads all facts for it into `look`, which must live as long as the review, and judges. If the
 * request is permitted so far, also looks for another approved request with the same bound token:
 * such a token is for one use, whoever approves. */
int nb_review_read(struct nb_admin *admin, struct nb_hosts *hosts, struct nb_look *look,
                   struct nb_review *review, bool is_forced, struct nb_failure *f);

/* For requests that are approved together: notes which one is the first to claim its token in
 * `claims`, empty before the first call. NB_ADMIN_REQUEST_SUSPICIOUS if another key does. */
int nb_review_note_claim(struct nb_records *claims, const struct nb_review *review,
                         struct nb_failure *f);
