/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The claim ensures that a bound token is used only once. The claim is a Lease
 * node-bootstrap-token-ID in kube-system. Its holder is the SHA-256 of the only public key that may
 * be approved with this token: a copy of the request is harmless, since only the machine has the
 * private key, and the machine may submit its request again. Creating a Lease is atomic, so one of
 * two keys, or of two controllers, wins. A claim is never released; Kubernetes removes it with the
 * token's Secret, which owns the Lease.
 *
 * An earlier version wrote the UID of a request as the holder. This is nobody's key, so such a
 * token is a used one.
 */

#include "admin/client/client.h"
#include "admin/policy/bootstrap_token.h"
#include "admin/policy/node_request.h"
#include "admin/policy/verdict.h"
#include "base/failure.h"
#include "codec/json.h"

#define NB_LEASES_PATH "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"

#define NB_CLAIMS_PATH NB_LEASES_PATH "?labelSelector=node-bootstrap%2Fclaim%3Dtrue"

struct nb_claim {
        char token_id[NB_TOKEN_ID_LEN + 1];
        char token_uid[64];
        char key[2 * NB_SHA256_SIZE + 1];   /* in hex */
        char csr_name[NB_CSR_NAME_MAX + 1]; /* a request with this key; for people */
};

/* Reads a Lease. False if it is not a claim: any user who may create Leases can set its label. */
bool nb_claim_read(struct nb_json *json, struct nb_claim *ret_claim);

/* Claims the token for a key; reads only id and uid of `token`. Returns an enum nb_claim_state, and
 * the claim that exists if it is not NB_CLAIM_OWN. Negative: failures of the request. */
int nb_claim_make(struct nb_admin *admin, const struct nb_bootstrap_token *token,
                  const char *csr_name, const uint8_t key[static NB_SHA256_SIZE],
                  struct nb_claim *ret_other, struct nb_failure *f);

/* The same, but makes no claim: NB_CLAIM_OWN also if there is none. */
int nb_claim_look(struct nb_admin *admin, const struct nb_bootstrap_token *token,
                  const uint8_t key[static NB_SHA256_SIZE], struct nb_claim *ret_other,
                  struct nb_failure *f);
