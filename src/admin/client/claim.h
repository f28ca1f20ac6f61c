/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The claim ensures that a token for one node is used only once. It is a Lease
 * node-bootstrap-token-ID in kube-system, whose holder is the UID of the only CSR that may be
 * approved with this token. Creating a Lease is atomic, so one of two requests, or of two
 * controllers, wins. A claim is never released; Kubernetes removes it with the token's Secret,
 * which owns it.
 */

#include "admin/client/client.h"
#include "admin/policy/bootstrap_token.h"
#include "admin/policy/node_request.h"
#include "base/failure.h"

#define NB_LEASES_PATH "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"

struct nb_claim {
        char token_id[NB_TOKEN_ID_LEN + 1];
        char token_uid[64];
        char csr_uid[64];
        char csr_name[NB_CSR_NAME_MAX + 1];
};

/* Claims the token for a CSR; reads only id and uid of `token`. 1: this CSR has the claim, now or
 * already before; 0: another CSR has it; negative: failures of the request. */
int nb_claim_make(struct nb_admin *admin, const struct nb_bootstrap_token *token,
                  const char *csr_name, const char *csr_uid, struct nb_failure *f);

/* Calls `visit` for each claim in the cluster. */
int nb_claim_list(struct nb_admin *admin,
                  void (*visit)(void *userdata, const struct nb_claim *claim), void *userdata,
                  struct nb_failure *f);
