/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "crypto/attestation.h"
#include "os/clock.h"
#include "os/landlock.h"
#include "prover/proof_key.h"
#include "settings/types.h"
#include "systemd/log.h"
#include "tpm/tpm.h"

#define KEY_MAX ((size_t)16 * 1024)

static int use_credential(struct nb_sources *sources, const char *token_id, struct nb_buffer *pem,
                          struct nb_failure *f) {
        static const char name[] = NB_CREDENTIAL_ATTESTATION_KEY_NAME;
        _cleanup_(nb_secret_done) struct nb_secret key = NB_SECRET_INIT;
        int r = nb_sources_credential(sources, name, KEY_MAX, &key, f);

        if (r == -ENOENT)
                return nb_failure_set(
                        f, NB_ATTESTATION_KEY_MISSING, 0,
                        "proof.key is '" NB_PROOF_KEY_CREDENTIAL
                        "', and there is no credential '%s'%s",
                        name, nb_sources_is_sealed(sources, name) ? " but an encrypted one" : "");
        if (f->code == NB_TOKEN_MALFORMED || f->code == NB_TOKEN_MISSING ||
            f->code == NB_TOKEN_EXPOSED)
                f->code = NB_ATTESTATION_KEY_UNUSABLE;
        if (r >= 0)
                r = nb_attestation_append(&key, token_id, pem);
        if (r == -EINVAL && f->code == NB_NONE)
                return nb_failure_set(f, NB_ATTESTATION_KEY_UNUSABLE, r,
                                      "the credential '%s' is not a private key as PEM: ECDSA of "
                                      "at least P-256, Ed25519, or RSA of at least 2048 bits",
                                      name);
        return r;
}

/* The setting has the handle of the key in hex, or none. */
static uint32_t parse_handle(const char *key) {
        const char *hex = strstr(key, "0x");

        return hex ? (uint32_t)strtoul(hex, NULL, 16) : NB_TPM_KEY_DEFAULT;
}

static int use_tpm(const char *key, const char *token_id, struct nb_buffer *pem,
                   struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer message = NB_BUFFER_INIT(
                NB_ATTESTATION_MESSAGE_MAX);
        _cleanup_(nb_buffer_done) struct nb_buffer spki = NB_BUFFER_INIT(NB_ATTESTATION_MAX);
        _cleanup_(nb_buffer_done) struct nb_buffer signature = NB_BUFFER_INIT(NB_ATTESTATION_MAX);
        const struct nb_tpm tpm = { NB_TPM_DEVICE, NB_TPM_VERSION_FILE, parse_handle(key),
                                    nb_now_ms() + NB_PROOF_KEY_TPM_MS };
        int r = nb_attestation_message(pem->data, pem->len, token_id, &message);

        if (r >= 0)
                r = nb_tpm_sign(&tpm, message.data, message.len, &spki, &signature, f);
        if (r >= 0)
                r = nb_attestation_append_signature(signature.data, signature.len, pem);
        return r < 0 ? r : nb_attestation_append_key(spki.data, spki.len, pem);
}

int nb_proof_key_prepare(const char *key, struct nb_sources *sources, struct nb_failure *f) {
        /* The link /sys/class/tpm/tpm0 is resolved here; a device that appears later needs another
         * instance. */
        static const struct nb_landlock forbidden = {
                .fs = NB_LANDLOCK_EXECUTE | NB_LANDLOCK_READ_FILE | NB_LANDLOCK_READ_DIR,
        };
        static const struct nb_landlock_rule of_tpm[] = {
                { "/dev", NB_LANDLOCK_READ_FILE }, { NB_TPM_FOLDER, NB_LANDLOCK_READ_FILE }
        };
        const bool is_tpm = strcmp(key, NB_PROOF_KEY_CREDENTIAL) != 0;
        struct nb_landlock_rule of_credential[NB_STORES_N];
        _cleanup_(nb_secret_done) struct nb_secret secret = NB_SECRET_INIT;
        struct nb_failure later = { 0 };
        int r;

        /* The stores stay listable, so that a later failure can report an encrypted key. */
        for (size_t i = 0; i < NB_STORES_N; i++)
                of_credential[i] = (struct nb_landlock_rule){ nb_stores[i].folder,
                                                              NB_LANDLOCK_READ_DIR };
        sources->is_keeping = true;
        if (!is_tpm)
                (void)nb_sources_credential(sources, NB_CREDENTIAL_ATTESTATION_KEY_NAME, KEY_MAX,
                                            &secret, &later);
        r = nb_landlock_restrict(&forbidden, is_tpm ? of_tpm : of_credential,
                                 is_tpm ? N_ELEMENTS(of_tpm) : NB_STORES_N);
        if (r < 0)
                return nb_failure_set(f, NB_INTERNAL, r, "cannot restrict the prover: %m");
        if (r == 0)
                nb_log(LOG_NOTICE, NB_SANDBOX_PARTIAL,
                       "the prover works without Landlock, which this kernel does not have");
        return 0;
}

int nb_proof_key_use(const char *key, struct nb_sources *sources, const char *token_id,
                     struct nb_buffer *pem, struct nb_failure *f) {
        const bool is_credential = strcmp(key, NB_PROOF_KEY_CREDENTIAL) == 0;
        const size_t len = pem->len;
        _cleanup_(nb_buffer_done) struct nb_buffer public_key = NB_BUFFER_INIT(NB_ATTESTATION_MAX);
        uint8_t id[NB_SHA256_SIZE];
        int r = is_credential ? use_credential(sources, token_id, pem, f)
                              : use_tpm(key, token_id, pem, f);

        /* It signs, but the controller would refuse it. */
        if (r >= 0 &&
            nb_attestation_find_key(pem->data + len, pem->len - len, &public_key, id) <= 0)
                r = nb_failure_set(f, is_credential ? NB_ATTESTATION_KEY_UNUSABLE : NB_TPM_ERROR,
                                   EKEYREJECTED,
                                   "the key of proof.key (%s) cannot be enrolled: it must be ECDSA "
                                   "of at least P-256, Ed25519, or RSA of at least 2048 bits",
                                   key);
        return r < 0 && f->code == NB_NONE
                       ? nb_failure_set(f, NB_INTERNAL, r, "cannot prove the request: %m")
                       : r;
}
