/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What is on this machine from before, and the verdict on it. Reading and judging are apart: the verdict depends on
 * nothing but what is passed in.
 *
 * kubelet's own rule (isClientConfigStillValid): a kubeconfig whose client certificate and key load, and no certificate
 * of the chain past NotAfter. Beyond it: for this node, not for a cluster that the settings no longer mean, and in a form that
 * kubelet can renew.
 */

#include <stdbool.h>

#include "base/failure.h"
#include "crypto/certificate.h"
#include "crypto/key.h"
#include "format/handoff.h"
#include "install/context.h"

struct nb_present {
        enum nb_verdict verdict;       /* NB_VERDICT_USABLE while reading found nothing wrong */
        struct nb_failure why;         /* its detail: why not */
        struct nb_certificates *chain; /* the client certificate; NULL unless the verdict is NB_VERDICT_USABLE */
        struct nb_key *key;            /* NULL beside a chain: of a type that GnuTLS does not know, but kubelet may */
        bool is_file;                  /* the kubeconfig names kubelet-client-current.pem, and that is no link */
        struct nb_certificates *ca;    /* the CA file; NULL when there is none that can be read */
        bool has_k3s_hash;             /* of the CA file, as a k3s token would name it */
        uint8_t k3s_hash[NB_SHA256_SIZE];
        bool has_record;
        struct nb_record record; /* of the last join that this program made */
};

/* NB_TARGET_NOT_KUBECONFIG when something else is where the kubeconfig has to be written; otherwise what is wrong is a
 * verdict. */
int nb_present_read(const struct nb_context *context, struct nb_present *ret_present, struct nb_failure *f);
void nb_present_done(struct nb_present *present);

void nb_present_judge(const struct nb_present *present, const struct nb_context *context,
                      struct nb_inspection *ret_inspection);

/* Nothing is to be joined anew: usable, or not yet valid. */
bool nb_verdict_keeps(enum nb_verdict verdict);
