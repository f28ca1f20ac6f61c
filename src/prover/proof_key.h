/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Uses the key that was enrolled for this machine. Only for the prover, and for root in
 * `proof-key`: nothing here may run in a process that uses the network. */

#include "base/buffer.h"
#include "base/failure.h"
#include "os/sources.h"

#define NB_PROOF_KEY_TPM_MS 300000 /* of a signature by a TPM; see tpm/tpm.h */

/* Before a request is parsed, which may be from an attacker: keeps in memory what
 * nb_proof_key_use() needs, and gives up the right to read any other file. Logs
 * NB_SANDBOX_PARTIAL without Landlock. 0, NB_INTERNAL. */
int nb_proof_key_prepare(const char *key, struct nb_sources *sources, struct nb_failure *f);

/*
 * Appends the blocks of crypto/attestation.h to the request in `pem`. `key` is a value of the
 * setting proof.key. 0; NB_ATTESTATION_KEY_MISSING, NB_ATTESTATION_KEY_UNUSABLE, NB_TPM_MISSING,
 * NB_TPM_ERROR.
 */
int nb_proof_key_use(const char *key, struct nb_sources *sources, const char *token_id,
                     struct nb_buffer *pem, struct nb_failure *f);
