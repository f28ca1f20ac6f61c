/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The claim ensures that a bound token is used only once. The claim is a Lease
 * node-bootstrap-token-ID in kube-system. Its holder is the SHA-256 of the only public key that may
 * be approved with this token: a copy of the request is harmless, since only the machine has the
 * private key, and the machine may submit its request again. Creating a Lease is atomic, so one of
 * two keys, or of two controllers, wins. A claim is never released; Kubernetes removes it with the
 * token's Secret, which owns the Lease.
 */

#include "admin/client/call_plan.h"
#include "admin/client/client.h"
#include "admin/policy/request_case.h"
#include "base/failure.h"
#include "codec/json.h"

struct nb_claim {
        char token_id[NB_TOKEN_ID_LEN + 1];
        char token_uid[64];
        char key[2 * NB_SHA256_SIZE + 1];   /* in hex */
        char csr_name[NB_CSR_NAME_MAX + 1]; /* of a request with this key, as a line; for people */
};

/* Reads a Lease. False if it is not a claim: any user who may create Leases can set its label. */
bool nb_claim_read(struct nb_json *json, struct nb_claim *ret_claim);

/* What the GET of the claim (NB_READ_CLAIM) says: an enum nb_claim_state, and the claim that
 * exists. Only id and uid of `token` are read. Negative: a failure. */
int nb_claim_take(struct nb_plan *plan, struct nb_admin *admin,
                  const struct nb_bootstrap_token *token, const uint8_t key[static NB_SHA256_SIZE],
                  struct nb_claim *ret_claim, struct nb_failure *f);

enum nb_claim_state nb_claim_judge(const struct nb_claim *claim,
                                   const struct nb_bootstrap_token *token,
                                   const uint8_t key[static NB_SHA256_SIZE]);

/* The write that claims the token for a key, and its outcome by the status: 1; 0: there is a claim,
 * or the API server refused it for another reason; or a failure. */
void nb_claim_add(struct nb_plan *plan, const struct nb_bootstrap_token *token,
                  const char *csr_name, const uint8_t key[static NB_SHA256_SIZE]);
int nb_claim_written(const struct nb_admin_call *call, int r, struct nb_failure *f);
