/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the requests of nodes say about the approval and the signing of their certificates. */

#include <time.h>

#include "admin/client/client.h"
#include "base/failure.h"
#include "crypto/certificate.h"

struct nb_requests_found {
        struct nb_certificates *client_ca; /* set before; NULL: not known */
        unsigned n_unissued, n_pending, n_issued, n_untrusted;
        time_t oldest;                /* of those that are pending */
        char issuer[NB_SUBJECT_SIZE]; /* of one that no API server trusts */
};

/* The CAs that the API servers trust for client certificates, as they publish them. NULL if they do
 * not. Failures of nb_admin_get(). */
int nb_client_ca_read(struct nb_admin *admin, struct nb_certificates **ret_ca,
                      struct nb_failure *f);

/* Counts in *found. An approved request waits for its certificate (n_unissued) only if it was
 * approved before `approved_before`. Failures of nb_admin_list(). */
int nb_requests_examine(struct nb_admin *admin, time_t approved_before,
                        struct nb_requests_found *found, struct nb_failure *f);

void nb_requests_found_done(struct nb_requests_found *found);
