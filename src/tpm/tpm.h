/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Signs with a key that only this machine's TPM 2.0 can use, by the commands of the TCG's "TPM 2.0
 * Library", part 3, through the kernel's resource manager. Only keys without a password or policy.
 * It creates nothing that lasts: no key, session or NV index is left in the TPM, no file on disk.
 * But a TPM counts each use of a key that has a password, and locks itself in the end, unless the
 * key has noDA.
 *
 * It does not judge whether the key is strong enough to be enrolled (nb_attestation_key_read()).
 */

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/failure.h"

#define NB_TPM_DEVICE "/dev/tpmrm0"
/* "1" for a TPM 1.2, which has no resource manager; since Linux 5.6. */
#define NB_TPM_FOLDER "/sys/class/tpm/tpm0"
#define NB_TPM_VERSION_FILE NB_TPM_FOLDER "/tpm_version_major"

#define NB_TPM_MESSAGE_MAX 512 /* TPM2_Hash takes 1024 (MAX_DIGEST_BUFFER) */

/* The key, by the type of its handle (TPM_HT), which is its first byte. */
#define NB_TPM_KEY_DEFAULT 0        /* of our own template: the same for the life of the TPM */
#define NB_TPM_KEY_PERSISTENT 0x81U /* 0x81000000 to 0x81ffffff: Azure's is 0x81000003 */
#define NB_TPM_KEY_NV 0x01U         /* 0x01000000 to 0x01ffffff: the template is in this NV index */

struct nb_tpm {
        const char *device;       /* NB_TPM_DEVICE */
        const char *version_file; /* NB_TPM_VERSION_FILE; says why there is no device */
        uint32_t key;
        uint64_t deadline_ms; /* as nb_now_ms(). It cannot interrupt the kernel, which waits for a
                                 broken TPM itself, up to minutes, in write() or poll() */
};

/*
 * Opens the device, writes the public key (SubjectPublicKeyInfo, DER; at most 600 bytes) into the
 * empty buffer `ret_spki` and, unless `message` is NULL, the signature of the message with SHA-256
 * (ECDSA in DER, or RSASSA-PKCS1-v1_5, by the type of the key; at most 512 bytes), which has been
 * verified, into the empty buffer `ret_signature`, and closes the device. The TPM itself hashes the
 * message, since a restricted key signs nothing else. Hardware takes up to a second. But an RSA key
 * from a template is generated each time, which takes some TPMs minutes: for it, the caller has to
 * wait at least 300 s, as the kernel does for CreatePrimary.
 *
 * 0, or a negative errno with a failure: NB_TPM_MISSING if there is no device, whose driver may
 * load late, or if systemd does not permit this process to open it, since its driver loaded after
 * this process started; otherwise NB_TPM_ERROR, with the TPM's response code in the text if it
 * answered. f->is_temporary (class "wait"): the TPM did not answer, or is busy; another call may
 * succeed. On failure, the buffers may hold partial data.
 */
int nb_tpm_sign(const struct nb_tpm *tpm, const void *message, size_t len,
                struct nb_buffer *ret_spki, struct nb_buffer *ret_signature, struct nb_failure *f);

/* The same with a device that is open; `tpm->device` and `tpm->version_file` are not used. */
int nb_tpm_sign_open(int fd, const struct nb_tpm *tpm, const void *message, size_t len,
                     struct nb_buffer *ret_spki, struct nb_buffer *ret_signature,
                     struct nb_failure *f);
