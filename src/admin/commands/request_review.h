/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The facts for an administrator's decision on a request of a node, and objections to it, by the
 * functions that the controller calls. Unlike the controller, an administrator may approve requests
 * of unbound tokens. */

#include <stdbool.h>

#include "admin/client/claim.h"
#include "admin/client/facts.h"
#include "admin/policy/node_request.h"
#include "base/failure.h"

#define NB_REVIEW_VERDICT_SIZE 640

struct nb_review {
        struct nb_node_request request;
        struct nb_client_look look;           /* for a serving certificate: the Node only */
        struct nb_claim other;                /* of the token, if another key has claimed it */
        const char *proof;                    /* "valid", "missing", ...; "-": not enrolled */
        bool is_suspicious;                   /* there is an objection */
        bool is_forcible;                     /* --force overrides it */
        char verdict[NB_REVIEW_VERDICT_SIZE]; /* a sentence; printable */
};

/* Reads the facts for review->request, which is of a known kind, and sets the other members.
 * `hosts` is kept between calls, zero at first. Failures of nb_admin_get(). */
int nb_review_make(struct nb_admin *admin, struct nb_hosts *hosts, struct nb_review *review,
                   struct nb_failure *f);

void nb_review_done(struct nb_review *review);
